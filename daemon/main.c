/* penstockd: reads its settings, blocks the signals that the event loop handles, serves, and exits.
 *
 * The command line overrides the configuration file, which overrides the defaults. --ready-fd and
 * --log-file are for a process that starts a private daemon: the daemon writes one byte to the
 * descriptor once the socket listens, and it never uses the starter's stdio. */
#include "base/host/limits.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/renamed.h"
#include "base/text/yaml.h"
#include "base/util.h"
#include "config.h"
#include "dataset/container/container.h"
#include "decode/decode.h"
#include "proto/folder.h"
#include "remote/client/client.h"
#include "serve/server.h"
#include "unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAIN_FAILED = 1, MAIN_USAGE = 2 };

static const char main_usage[] =
	"Usage: penstockd [options]\n"
	"\n"
	"Decodes, resizes and augments images beside a training job and serves batches\n"
	"over shared memory.\n"
	"\n"
	"  --config FILE        settings and named streams (see penstock.yaml(5))\n"
	"  --check-config       read the settings, say what is wrong with them, and end\n"
	"  --socket PATH        where clients connect (default: PENSTOCK_SOCKET, else\n"
	"                       penstock/penstock.sock in XDG_RUNTIME_DIR)\n"
	"  --memory SIZE        budget for everything, e.g. 512M, 4G (default: a quarter\n"
	"                       of what is free, at most 4G)\n"
	"  --threads N          decoding threads (default: all CPUs but one)\n"
	"  --io MODE            auto, buffered or direct\n"
	"  --reader ENGINE      auto, io_uring or pread\n"
	"  --cache MODE         auto, on or off: keep samples in memory that is left\n"
	"  --no-entry-points    neither keep entry points of images nor use those kept\n"
	"  --http ADDRESS       where metrics and the page are: auto (http.sock beside\n"
	"                       the socket), off, PORT, HOST:PORT, [IPV6]:PORT or\n"
	"                       unix:/PATH\n"
	"  --recorder WHERE     where the flight recorder writes: auto (penstock in\n"
	"                       XDG_STATE_HOME), off, or a folder\n"
	"  --root FOLDER        read only datasets below it; may be given again\n"
	"  --idle-exit SECONDS  end this long after the last client has gone (default:\n"
	"                       never)\n"
	"  --ready-fd FD        write one byte there once clients can connect\n"
	"  --log-file FILE      append the log there instead of stderr\n"
	"  --log-level LEVEL    error, warning, info or debug, and by topic:\n"
	"                       warning,trainer=debug\n"
	"  --log-format FORMAT  human or json\n"
	"  --log-to WHERE       auto, stderr or journal\n"
	"  --version, --help\n"
	"\n"
	"SIGTERM drains and ends, SIGHUP reads the configuration again. See\n"
	"penstockd(8).\n";

/* Options that set a key of penstock.yaml (config_set). */
static const struct main_setting {
	const char *option, *key;
} main_settings[] = {
	{"socket", "socket"},
	{"memory", "memory"},
	{"threads", "threads"},
	{"io", "io"},
	{"reader", "reader"},
	{"cache", "cache"},
	{"http", "http"},
	{"recorder", "recorder"},
	{"idle-exit", "idle_exit_s"},
	{"log-level", "log_level"},
	{"log-format", "log_format"},
	{"log-to", "log_to"},
};

enum { MAIN_SETTINGS = UTIL_COUNT(main_settings) };

struct main_options {
	const char *config, *ready_fd, *log_file;
	const char *setting[MAIN_SETTINGS]; /* NULL: not given */
	bool check, no_entry_points;
	struct config_roots roots;
	struct fault renamed; /* "", or a sentence about an old name of an option, for the log */
};

static int main_ready_fd(const char *text, unsigned *ret)
{
	static const struct yaml_key key = {"", YAML_KEY_U32, .max = 1 << 20};
	struct fault fault;
	int result = yaml_read_option(&key, text, "--ready-fd", ret, &fault);
	if (result)
		(void)fprintf(stderr, "penstockd: %s\n", fault.text);
	return result;
}

/* The command line overrides the file. */
static int main_apply(const struct main_options *o, struct config *config)
{
	char name[32];
	struct fault fault;
	for (size_t i = 0; i < MAIN_SETTINGS; i++) {
		const struct main_setting *setting = &main_settings[i];
		(void)snprintf(name, sizeof name, "--%s", setting->option);
		if (o->setting[i] &&
			config_set(config, setting->key, o->setting[i], name, &fault) < 0) {
			(void)fprintf(stderr, "penstockd: %s\n", fault.text);
			return -EINVAL;
		}
	}
	if (o->roots.count)
		config->roots = o->roots;
	if (o->no_entry_points)
		config->entry_points = false;
	return 0;
}

/* -1: go on; otherwise the exit code. */
static int main_root(const char *path, struct main_options *ret)
{
	struct fault fault;
	if (!config_add_root(&ret->roots, path, &fault))
		return -1;
	(void)fprintf(stderr, "penstockd: --root: %s\n", fault.text);
	return MAIN_USAGE;
}

/* Adds the old names of options to getopt's table, which already has `count` entries. */
static void main_add_renamed(struct option *table, size_t count)
{
	const struct renamed *renamed = renamed_options;
	size_t at = count;
	for (; renamed->old; renamed++)
		for (size_t i = 0; i < count; i++)
			if (strcmp(table[i].name, renamed->name) == 0) {
				table[at] = table[i];
				table[at++].name = renamed->old;
			}
}

/* Handles an option that was given by its old name. -1: go on; otherwise the exit code. */
static int main_renamed(int argc, char **argv, const char *old, struct main_options *ret)
{
	const char *name = renamed_name(renamed_options, old);
	if (!renamed_beside(argc, argv, name)) {
		(void)renamed_say("--", old, name, &ret->renamed);
		return -1;
	}
	(void)fprintf(stderr,
		"penstockd: --%s is the old name of --%s, and both are given: leave out --%s\n",
		old, name, old);
	return MAIN_USAGE;
}

/* Reports an option that getopt does not take: it does not exist, lacks its value, or has one that
 * it does not take. Returns the exit code. */
static int main_refuse(int c, char **argv, const char *near)
{
	const char *arg = argv[optind - 1];
	int size = (int)strcspn(arg, "=");
	if (c == ':')
		(void)fprintf(
			stderr, "penstockd: %s: expected a value; see penstockd --help\n", arg);
	else if (optopt && optopt < 256)
		(void)fprintf(stderr, "penstockd: there is no option -%c; see penstockd --help\n",
			optopt);
	else if (optopt)
		(void)fprintf(
			stderr, "penstockd: %.*s takes no value, got \"%s\"\n", size, arg, arg);
	else if (near)
		(void)fprintf(stderr, "penstockd: there is no option %.*s; did you mean --%s?\n",
			size, arg, near);
	else
		(void)fprintf(stderr, "penstockd: there is no option %.*s; see penstockd --help\n",
			size, arg);
	return MAIN_USAGE;
}

/* The option that was probably meant; NULL: none. */
static const char *main_nearest(const char *arg, const struct option *options)
{
	char name[32];
	if (strncmp(arg, "--", 2) != 0)
		return NULL;
	(void)snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
	struct nearest nearest = nearest_to(name);
	for (; options->name; options++)
		nearest_try(&nearest, options->name);
	return nearest_found(&nearest);
}

/* The index of the option that is now called so. */
static int main_index(const struct option *options, const char *old)
{
	const char *name = renamed_name(renamed_options, old);
	int at = 0;
	while (strcmp(options[at].name, name) != 0)
		at++;
	return at;
}

/* -1: go on; otherwise the exit code. */
static int main_parse(int argc, char **argv, struct main_options *ret)
{
	enum { OPT_CHECK = 256, OPT_NO_ENTRY_POINTS, OPT_ROOT, OPT_VERSION, OPT_HELP, OPT_TEXT };
	const char **const text[] = {&ret->config, &ret->ready_fd, &ret->log_file};
	static const struct option plain[] = {{"config", 1, NULL, OPT_TEXT},
		{"ready-fd", 1, NULL, OPT_TEXT + 1}, {"log-file", 1, NULL, OPT_TEXT + 2},
		{"root", 1, NULL, OPT_ROOT}, {"check-config", 0, NULL, OPT_CHECK},
		{"no-entry-points", 0, NULL, OPT_NO_ENTRY_POINTS},
		{"version", 0, NULL, OPT_VERSION}, {"help", 0, NULL, OPT_HELP}};
	enum { PLAIN = UTIL_COUNT(plain), KNOWN = PLAIN + MAIN_SETTINGS };
	struct option options[KNOWN + RENAMED_MAX + 1] = {{0}};
	memcpy(options, plain, sizeof plain);
	for (int i = 0; i < MAIN_SETTINGS; i++)
		options[PLAIN + i] = (struct option){main_settings[i].option, 1, NULL, 0};
	int c, at = 0;
	main_add_renamed(options, KNOWN);
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":", options, &at)) != -1) {
		if (c == '?' || c == ':')
			return main_refuse(c, argv, main_nearest(argv[optind - 1], options));
		if (at >= KNOWN) {
			if (main_renamed(argc, argv, options[at].name, ret) >= 0)
				return MAIN_USAGE;
			at = main_index(options, options[at].name);
		}
		if (c == 0) {
			ret->setting[at - PLAIN] = optarg;
		} else if (c >= OPT_TEXT) {
			*text[c - OPT_TEXT] = optarg;
		} else if (c == OPT_CHECK) {
			ret->check = true;
		} else if (c == OPT_NO_ENTRY_POINTS) {
			ret->no_entry_points = true;
		} else if (c == OPT_ROOT) {
			if (main_root(optarg, ret) >= 0)
				return MAIN_USAGE;
		} else if (c == OPT_VERSION) {
			char datasets[CONTAINER_NAMES], unpacks[UNPACK_TEXT],
				urls[CLIENT_DESCRIPTION];
			(void)printf(
				"penstockd %s\nimages: %s\ndatasets: %s\nunpacks: %s\nurls: %s\n",
				PENSTOCK_VERSION, decode_formats(), container_names(datasets),
				unpack_describe(unpacks), client_describe(urls));
			return 0;
		} else if (c == OPT_HELP) {
			(void)fputs(main_usage, stdout);
			return 0;
		}
	}
	if (optind < argc) {
		(void)fprintf(stderr,
			"penstockd: unexpected argument \"%s\": streams are named in the "
			"configuration or opened by clients; see --help\n",
			argv[optind]);
		return MAIN_USAGE;
	}
	return -1;
}

/* --check-config prints the message alone on stderr; a daemon writes it to its log. */
static void main_say_renamed(const struct main_options *options, const struct config *config)
{
	const char *said[] = {options->renamed.text, config->renamed.text};
	for (size_t i = 0; i < UTIL_COUNT(said); i++) {
		if (said[i][0] && options->check)
			(void)fprintf(stderr, "penstockd: %s\n", said[i]);
		else if (said[i][0])
			log_warning("%s", said[i]);
	}
}

/* Sources may be on storage that is not mounted here, so --check-config does not open them. */
static void main_say_good(const struct main_options *options, const struct config *config)
{
	const char *name = options->config ? options->config : "settings";
	if (config->stream_count)
		(void)printf("%s: good; %u stream%s, whose source%s not opened\n", name,
			config->stream_count, config->stream_count == 1 ? "" : "s",
			config->stream_count == 1 ? " was" : "s were");
	else
		(void)printf("%s: good; no streams\n", name);
}

static int main_redirect(const char *log_file)
{
	int log = open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	int null = log < 0 ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
	if (log < 0 || null < 0) {
		(void)fprintf(stderr, "penstockd: cannot write %s: %s\n",
			log < 0 ? log_file : "/dev/null", strerror(errno));
		return -1;
	}
	(void)dup2(null, STDIN_FILENO);
	(void)dup2(null, STDOUT_FILENO);
	(void)dup2(log, STDERR_FILENO);
	(void)close(log);
	(void)close(null);
	return 0;
}

/* If the starter closed stdin, stdout or stderr, the next file to be opened would get that
 * number, and the daemon would write its log into that file. */
static int main_fill_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) {
			(void)fprintf(stderr,
				"penstockd: descriptor %d is closed, and /dev/null does not take "
				"its place: %s; start penstockd with its standard input, output "
				"and error open\n",
				fd, strerror(errno));
			return -1;
		}
	return 0;
}

static int main_serve(struct config *config, int ready_fd)
{
	struct fault fault = {{0}};
	struct server *server;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	/* Blocked before any thread exists, so that only the event loop's signalfd sees them. */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ,
		SIG_IGN); /* a limit on file sizes fails the write; it must not kill the daemon */
	int result = limits_kernel(&fault);
	if (!result)
		result = limits_stack(&fault);
	if (!result)
		result = limits_files(&fault);
	if (!result)
		result = server_new(config, &server, &fault);
	if (result) {
		log_error("%s", fault.text);
		/* A budget that is too small is a wrong setting, which a second start would not
		 * fix. */
		return result == -EINVAL || result == -ENOMEM ? MAIN_USAGE : MAIN_FAILED;
	}
	log_info("penstockd %s (pid %d) serves %s", PENSTOCK_VERSION, getpid(),
		server_socket(server));
	if (ready_fd >= 0) {
		/* The starter may have exited; that is not an error here. */
		ssize_t n = write(ready_fd, "1", 1);
		(void)n;
		(void)close(ready_fd);
	}
	result = server_run(server, &fault);
	if (result)
		log_error("%s", fault.text);
	char socket[sizeof config->socket];
	(void)snprintf(socket, sizeof socket, "%s", server_socket(server));
	server_free(server);
	log_info("penstockd ends");
	/* Removes the folder of a daemon that one job had to itself. After a failure the log stays.
 * A process that is starting another daemon there keeps the folder. */
	if (!result)
		(void)folder_remove_job(socket);
	return result ? MAIN_FAILED : 0;
}

/* Large blocks have pages of their own, which go back when the block is freed. Otherwise glibc
 * takes them from its heaps after the first ones. There, aligned blocks of the same size do not
 * reuse each other's place, and the heaps outgrow the budget. */
static void main_settle_heap(void)
{
#ifdef M_MMAP_THRESHOLD
	enum { LARGE = 1 << 20 };
	(void)mallopt(M_MMAP_THRESHOLD, LARGE);
#endif
}

int main(int argc, char **argv)
{
	static struct main_options options; /* large: roots */
	if (main_fill_standard())
		return MAIN_FAILED;
	main_settle_heap();
	int code = main_parse(argc, argv, &options);
	if (code >= 0)
		return code;
	static struct config config; /* large: named streams */
	struct fault fault;
	unsigned ready = 0;
	config_init(&config);
	if (options.config && config_load(options.config, &config, &fault)) {
		(void)fprintf(stderr, "penstockd: %s\n", fault.text);
		return MAIN_USAGE;
	}
	if (main_apply(&options, &config) ||
		(options.ready_fd && main_ready_fd(options.ready_fd, &ready)))
		return MAIN_USAGE;
	if (options.check) {
		main_say_renamed(&options, &config);
		main_say_good(&options, &config);
		return 0;
	}
	if (options.log_file && main_redirect(options.log_file))
		return MAIN_FAILED;
	log_set_levels(&config.log_levels);
	if (log_set_target(config.log_target, config.log_format, NULL, &fault)) {
		(void)fprintf(stderr, "penstockd: %s\n", fault.text);
		return MAIN_USAGE;
	}
	main_say_renamed(&options, &config);
	/* A client started this daemon: do not notify the client's supervisor. */
	if (options.ready_fd)
		(void)unsetenv("NOTIFY_SOCKET");
	return main_serve(&config, options.ready_fd ? (int)ready : -1);
}
