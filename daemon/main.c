/* penstockd: reads its settings, blocks the signals that the event loop takes, serves, ends.
 *
 * The command line beats the configuration file, which beats the defaults. --ready-fd and
 * --log-file are for whoever starts a private daemon: the descriptor gets one byte once the socket
 * listens, and stdio is never the starter's. */
#include "base/host/limits.h"
#include "base/log.h"
#include "base/renamed.h"
#include "base/size.h"
#include "base/util.h"
#include "config.h"
#include "http/http.h"
#include "proto/folder.h"
#include "serve/server.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
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
	"  --threads N          decoding threads (default: the CPUs that may be used,\n"
	"                       less one)\n"
	"  --io MODE            auto, buffered or direct\n"
	"  --reader ENGINE      auto, io_uring or pread\n"
	"  --cache MODE         auto, on or off: keep samples in memory that is left\n"
	"  --no-entry-points    neither keep entry points of images nor use those kept\n"
	"  --http ADDRESS       where metrics and the page are: auto (http.sock beside\n"
	"                       the socket), off, PORT, HOST:PORT, [IPV6]:PORT or\n"
	"                       unix:/PATH\n"
	"  --recorder WHERE     where the flight recorder writes: auto (penstock in\n"
	"                       XDG_STATE_HOME), off, or a folder\n"
	"  --root FOLDER        read datasets below it alone; may be given again\n"
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

struct main_options {
	const char *config, *socket, *memory, *threads, *io, *reader, *idle_exit, *ready_fd,
		*log_file, *log_level, *cache, *log_format, *log_to, *http, *recorder;
	bool check, no_entry_points;
	struct config_roots roots;
	struct fault renamed; /* "", or a sentence about an old name of an option: to be logged */
};

static int main_complain(const char *option, const char *expected, const char *got)
{
	(void)fprintf(stderr, "penstockd: --%s: expected %s, got \"%s\"\n", option, expected, got);
	return -EINVAL;
}

static int main_number(
	const char *option, const char *text, unsigned long low, unsigned long high, unsigned *ret)
{
	char *end, expected[64];
	errno = 0;
	unsigned long value = strtoul(text, &end, 10);
	if (errno || end == text || *end || text[0] == '-' || value < low || value > high) {
		(void)snprintf(
			expected, sizeof expected, "a whole number from %lu to %lu", low, high);
		return main_complain(option, expected, text);
	}
	*ret = (unsigned)value;
	return 0;
}

static int main_choice(const char *option, const char *text, const char *const *names, size_t count,
	const char *expected, int *ret)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, names[i]) == 0) {
			*ret = (int)i;
			return 0;
		}
	return main_complain(option, expected, text);
}

static int main_levels(const char *text, struct config *config)
{
	struct fault fault;
	int result = log_levels_parse(text, &config->log_levels, &fault);
	config->log_levels_given = true;
	if (result)
		(void)fprintf(stderr, "penstockd: --log-level: %s\n", fault.text);
	return result;
}

static int main_http(const char *text, struct config *config)
{
	struct fault fault;
	int result = http_check_address(text, &fault);
	if (!result && strlen(text) >= sizeof config->http)
		result = fault_set(&fault, -EINVAL, "the address is longer than any can be");
	if (result)
		(void)fprintf(stderr, "penstockd: --http: %s\n", fault.text);
	else
		(void)snprintf(config->http, sizeof config->http, "%s", text);
	return result;
}

static int main_recorder(const char *text, struct config *config)
{
	struct fault fault;
	int result = config_check_recorder(text, &fault);
	if (result)
		(void)fprintf(stderr, "penstockd: --recorder: %s\n", fault.text);
	else
		(void)snprintf(config->recorder, sizeof config->recorder, "%s", text);
	return result;
}

static int main_apply(const struct main_options *o, struct config *config)
{
	static const char *const io[] = {[FETCH_IO_AUTO] = "auto",
		[FETCH_IO_BUFFERED] = "buffered",
		[FETCH_IO_DIRECT] = "direct"};
	static const char *const reader[] = {
		[FETCH_AUTO] = "auto", [FETCH_URING] = "io_uring", [FETCH_PREAD] = "pread"};
	static const char *const cache[] = {
		[FETCH_CACHE_AUTO] = "auto", [FETCH_CACHE_ON] = "on", [FETCH_CACHE_OFF] = "off"};
	static const char *const log_format[] = {[LOG_HUMAN] = "human", [LOG_JSON] = "json"};
	static const char *const log_to[] = {
		[LOG_AUTO] = "auto", [LOG_STDERR] = "stderr", [LOG_JOURNAL] = "journal"};
	int choice, result = 0;
	if (o->socket && (o->socket[0] != '/' || strlen(o->socket) >= sizeof config->socket))
		return main_complain("socket", "an absolute path below 108 bytes", o->socket);
	if (o->socket)
		(void)snprintf(config->socket, sizeof config->socket, "%s", o->socket);
	if (o->memory && size_parse(o->memory, &config->memory))
		return main_complain("memory", "a size such as 512M or 4G", o->memory);
	if (o->threads)
		result = main_number("threads", o->threads, 1, 1024, &config->threads);
	if (!result && o->idle_exit)
		result = main_number(
			"idle-exit", o->idle_exit, 0, 86400 * 365, &config->idle_exit_s);
	config->idle_exit_given = o->idle_exit != NULL;
	if (o->roots.count)
		config->roots = o->roots;
	if (o->no_entry_points)
		config->entry_points = false;
	if (!result && o->io &&
		!(result = main_choice(
			  "io", o->io, io, UTIL_COUNT(io), "auto, buffered or direct", &choice)))
		config->io = (enum fetch_io)choice;
	if (!result && o->reader &&
		!(result = main_choice("reader", o->reader, reader, UTIL_COUNT(reader),
			  "auto, io_uring or pread", &choice)))
		config->reader = (enum fetch_engine)choice;
	if (!result && o->cache &&
		!(result = main_choice(
			  "cache", o->cache, cache, UTIL_COUNT(cache), "auto, on or off", &choice)))
		config->cache = (enum fetch_cache)choice;
	if (!result && o->log_format &&
		!(result = main_choice("log-format", o->log_format, log_format,
			  UTIL_COUNT(log_format), "human or json", &choice)))
		config->log_format = (enum log_format)choice;
	if (!result && o->log_to &&
		!(result = main_choice("log-to", o->log_to, log_to, UTIL_COUNT(log_to),
			  "auto, stderr or journal", &choice)))
		config->log_target = (enum log_target)choice;
	if (!result && o->http)
		result = main_http(o->http, config);
	if (!result && o->recorder)
		result = main_recorder(o->recorder, config);
	return !result && o->log_level ? main_levels(o->log_level, config) : result;
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

/* Adds the old names of options to getopt's table, whose first `count` entries are filled. */
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

/* An option was given by an old name. -1: go on; otherwise the exit code. */
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

/* -1: go on; otherwise the exit code. */
static int main_parse(int argc, char **argv, struct main_options *ret)
{
	enum { OPT_CHECK = 256, OPT_NO_ENTRY_POINTS, OPT_ROOT, OPT_VERSION, OPT_HELP, OPT_TEXT };
	enum { KNOWN = 20 }; /* options; behind them come old names */
	const char **const text[] = {&ret->config, &ret->socket, &ret->memory, &ret->threads,
		&ret->io, &ret->reader, &ret->idle_exit, &ret->ready_fd, &ret->log_file,
		&ret->log_level, &ret->cache, &ret->log_format, &ret->log_to, &ret->http,
		&ret->recorder};
	static struct option options[KNOWN + RENAMED_MAX + 1] = {{"config", 1, NULL, OPT_TEXT},
		{"socket", 1, NULL, OPT_TEXT + 1}, {"memory", 1, NULL, OPT_TEXT + 2},
		{"threads", 1, NULL, OPT_TEXT + 3}, {"io", 1, NULL, OPT_TEXT + 4},
		{"reader", 1, NULL, OPT_TEXT + 5}, {"idle-exit", 1, NULL, OPT_TEXT + 6},
		{"ready-fd", 1, NULL, OPT_TEXT + 7}, {"log-file", 1, NULL, OPT_TEXT + 8},
		{"log-level", 1, NULL, OPT_TEXT + 9}, {"cache", 1, NULL, OPT_TEXT + 10},
		{"log-format", 1, NULL, OPT_TEXT + 11}, {"log-to", 1, NULL, OPT_TEXT + 12},
		{"http", 1, NULL, OPT_TEXT + 13}, {"recorder", 1, NULL, OPT_TEXT + 14},
		{"root", 1, NULL, OPT_ROOT}, {"check-config", 0, NULL, OPT_CHECK},
		{"no-entry-points", 0, NULL, OPT_NO_ENTRY_POINTS},
		{"version", 0, NULL, OPT_VERSION}, {"help", 0, NULL, OPT_HELP}};
	int c, at = 0;
	main_add_renamed(options, KNOWN);
	while ((c = getopt_long(argc, argv, "", options, &at)) != -1) {
		if (c != '?' && at >= KNOWN && main_renamed(argc, argv, options[at].name, ret) >= 0)
			return MAIN_USAGE;
		if (c >= OPT_TEXT) {
			*text[c - OPT_TEXT] = optarg;
		} else if (c == OPT_CHECK) {
			ret->check = true;
		} else if (c == OPT_NO_ENTRY_POINTS) {
			ret->no_entry_points = true;
		} else if (c == OPT_ROOT) {
			if (main_root(optarg, ret) >= 0)
				return MAIN_USAGE;
		} else if (c == OPT_VERSION) {
			(void)printf("penstockd %s\n", PENSTOCK_VERSION);
			return 0;
		} else if (c == OPT_HELP) {
			(void)fputs(main_usage, stdout);
			return 0;
		} else {
			(void)fputs("penstockd: see penstockd --help\n", stderr);
			return MAIN_USAGE;
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

/* For --check-config on stderr, as all that it says; for a daemon in its log. */
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

/* Where the starter closed stdin, stdout or stderr, the next file to be opened would take that
 * number, and the log would be written into it. */
static int main_fill_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return -1;
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
	(void)signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of the write, not our end */
	int result = limits_stack(&fault);
	if (!result)
		result = limits_files(&fault);
	if (!result)
		result = server_new(config, &server, &fault);
	if (result) {
		log_error("%s", fault.text);
		/* A budget that is too small is a setting, and no second start will mend it. */
		return result == -EINVAL || result == -ENOMEM ? MAIN_USAGE : MAIN_FAILED;
	}
	log_info("penstockd %s (pid %d) serves %s", PENSTOCK_VERSION, getpid(),
		server_socket(server));
	if (ready_fd >= 0) {
		/* The starter may have gone; that is its affair. */
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
	/* One that a job had to itself; where it failed, the log stays. Whoever is starting another
	 * one there keeps the folder. */
	if (!result)
		(void)folder_remove_job(socket);
	return result ? MAIN_FAILED : 0;
}

int main(int argc, char **argv)
{
	static struct main_options options; /* large: roots */
	if (main_fill_standard())
		return MAIN_FAILED;
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
		(options.ready_fd && main_number("ready-fd", options.ready_fd, 0, 1 << 20, &ready)))
		return MAIN_USAGE;
	if (options.check) {
		main_say_renamed(&options, &config);
		(void)printf("%s: good; %u stream%s\n",
			options.config ? options.config : "settings", config.stream_count,
			config.stream_count == 1 ? "" : "s");
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
	/* Started by a client: what supervises that is not told of it. */
	if (options.ready_fd)
		(void)unsetenv("NOTIFY_SOCKET");
	return main_serve(&config, options.ready_fd ? (int)ready : -1);
}
