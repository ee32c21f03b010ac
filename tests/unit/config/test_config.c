/* config: the shipped file says what the program does anyway, every key is read, every refusal has
 * its place, and random mutations of a good file end in a configuration or a sentence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/store.h"
#include "base/util.h"
#include "config.h"
#include "proto/philox.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* A file without a name, reachable by a path. */
struct paper {
	int fd;
	char path[64];
};

static struct paper paper_new(void)
{
	struct paper paper = {.fd = memfd_create("config", MFD_CLOEXEC)};
	assert_true(paper.fd >= 0);
	(void)snprintf(paper.path, sizeof paper.path, "/proc/self/fd/%d", paper.fd);
	return paper;
}

static void paper_write(const struct paper *paper, const void *bytes, size_t size)
{
	assert_int_equal(ftruncate(paper->fd, 0), 0);
	assert_int_equal(pwrite(paper->fd, bytes, size, 0), (ssize_t)size);
}

static struct config *must_load(const char *text)
{
	static struct config config;
	struct fault fault = {""};
	struct paper paper = paper_new();
	paper_write(&paper, text, strlen(text));
	config_init(&config);
	if (config_load(paper.path, &config, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_string_equal(config.file, paper.path);
	(void)close(paper.fd);
	return &config;
}

static void must_refuse(const char *text, const char *sentence)
{
	static struct config config, before;
	struct fault fault = {""};
	struct paper paper = paper_new();
	paper_write(&paper, text, strlen(text));
	config_init(&config);
	before = config;
	assert_int_equal(config_load(paper.path, &config, &fault), -EINVAL);
	assert_memory_equal(fault.text, paper.path, strlen(paper.path));
	assert_string_equal(fault.text + strlen(paper.path), sentence);
	assert_memory_equal(
		&config, &before, sizeof config); /* a failed reload keeps the old one */
	(void)close(paper.fd);
}

/* The sentence names the place and has these words; no secret of the file is in it. */
static void must_mention(const char *text, const char *words)
{
	static struct config config;
	struct fault fault = {""};
	struct paper paper = paper_new();
	paper_write(&paper, text, strlen(text));
	config_init(&config);
	assert_int_equal(config_load(paper.path, &config, &fault), -EINVAL);
	if (strncmp(fault.text + strlen(paper.path), ":1:", 3) != 0 || !strstr(fault.text, words))
		fail_msg("expected \"%s\" in: %s", words, fault.text);
	assert_null(strstr(fault.text, "secret"));
	(void)close(paper.fd);
}

static char *slurp(const char *path)
{
	char *text = calloc(1, 65536);
	FILE *file = fopen(path, "re");
	assert_non_null(text);
	assert_non_null(file);
	assert_in_range(fread(text, 1, 65535, file), 1, 65534);
	assert_int_equal(fclose(file), 0);
	return text;
}

static void the_shipped_file_is_the_defaults(void **state)
{
	static struct config defaults, shipped;
	struct fault fault = {""};
	(void)state;
	config_init(&defaults);
	config_init(&shipped);
	/* Other values first, so that a key missing from the file is seen. */
	shipped.memory = shipped.threads = shipped.reader_threads = shipped.idle_exit_s =
		shipped.max_clients = shipped.max_streams = shipped.stream_memory = 7;
	shipped.open_streams = CONFIG_OPEN_NAMED;
	shipped.reader = FETCH_PREAD;
	shipped.numa = CONFIG_NUMA_OFF;
	shipped.io = FETCH_IO_DIRECT;
	shipped.log_levels.of[LOG_DAEMON] = LOG_DEBUG;
	shipped.entry_points = false;
	shipped.cache = FETCH_CACHE_OFF;
	shipped.stream_count = 3;
	strcpy(shipped.socket, "s");
	strcpy(shipped.cache_dir, "c");
	strcpy(shipped.http, "off");
	strcpy(shipped.recorder, "off");
	shipped.recorder_size = 1;
	shipped.seccomp = CONFINE_OFF;
	shipped.core_files = true;
	shipped.roots.count = 3;
	shipped.cache_size = 1;
	shipped.remote = (struct config_remote){.endpoint_url = "e",
		.region = "r",
		.profile = "p",
		.anonymous = true,
		.requester_pays = true,
		.path_style = REMOTE_PATH_OFF,
		.connections = 1,
		.bandwidth = 1,
		.timeout_s = 1,
		.hedge = 1,
		.plain_count = 3};
	if (config_load(PENSTOCK_SHIPPED, &shipped, &fault) < 0)
		fail_msg("%s", fault.text);
	assert_string_equal(shipped.file, PENSTOCK_SHIPPED);
	memset(shipped.file, 0, sizeof shipped.file);
	shipped.socket[1] = shipped.cache_dir[1] = 0;
	/* Texts may keep what was after their end. */
	memset(shipped.remote.endpoint_url, 0, sizeof shipped.remote.endpoint_url);
	memset(shipped.remote.region, 0, sizeof shipped.remote.region);
	memset(shipped.remote.profile, 0, sizeof shipped.remote.profile);
	assert_memory_equal(&shipped, &defaults, sizeof defaults);
}

static void roots_and_what_is_bound(void **state)
{
	char many[64 + (CONFIG_ROOTS + 1) * 4] = "roots: [/a", long_one[CONFIG_ROOT + 16];
	(void)state;
	struct config *config = must_load("roots: [/data, \"/two words\"]\nseccomp: on\n"
					  "core_files: on\n");
	assert_int_equal(config->roots.count, 2);
	assert_string_equal(config->roots.path[0], "/data");
	assert_string_equal(config->roots.path[1], "/two words");
	assert_int_equal(config->seccomp, CONFINE_ON);
	assert_true(config->core_files);
	assert_int_equal(must_load("roots: []\n")->roots.count, 0);
	must_refuse("roots: /data\n",
		":1:8: roots: expected a list of the folders that datasets may be in; [] for "
		"any folder");
	must_refuse("roots: [/data,\n  data]\n",
		":2:3: roots: expected the absolute path of a folder, got \"data\"");
	must_refuse("roots: [~/data]\n",
		":1:9: roots: expected the absolute path of a folder, got \"~/data\"; write the "
		"home folder out");
	for (int i = 0; i < CONFIG_ROOTS; i++)
		strcat(many, ",/a");
	strcat(many, "]\n");
	must_refuse(many, ":1:105: roots: at most 32 folders");
	(void)memset(long_one, 'x', sizeof long_one);
	memcpy(long_one, "roots: [/", 9);
	memcpy(long_one + sizeof long_one - 3, "]\n", 3);
	must_refuse(long_one, ":1:9: roots: a path has at most 1023 bytes");
	must_refuse("seccomp: maybe\n", ":1:10: seccomp: expected auto, on or off, got \"maybe\"");
}

static void remote_data(void **state)
{
	(void)state;
	const struct config *config = must_load(
		"cache_size: 200G\nroots: [s3://bucket/data]\nremote: {endpoint_url: "
		"\"http://127.0.0.1:8333\", region: eu-west-1, profile: p, anonymous: on, "
		"requester_pays: on, path_style: off, connections: 8, bandwidth: 100M, "
		"timeout_s: 20, hedge: 0, plain_http: [a.example.org, b]}\n");
	const struct config_remote *remote = &config->remote;
	assert_int_equal(config->cache_size, (uint64_t)200 << 30);
	assert_string_equal(config->roots.path[0], "s3://bucket/data");
	assert_string_equal(remote->endpoint_url, "http://127.0.0.1:8333");
	assert_string_equal(remote->region, "eu-west-1");
	assert_string_equal(remote->profile, "p");
	assert_true(remote->anonymous && remote->requester_pays);
	assert_int_equal(remote->path_style, REMOTE_PATH_OFF);
	assert_int_equal(remote->connections, 8);
	assert_int_equal(remote->bandwidth, 100 << 20);
	assert_int_equal(remote->timeout_s, 20);
	assert_true(remote->hedge <= 0);
	assert_int_equal(remote->plain_count, 2);
	assert_string_equal(remote->plain_http[1], "b");
	config = must_load("cache_size: off\nremote: {bandwidth: unlimited}\n");
	assert_true(config->cache_size == CONFIG_CACHE_OFF);
	assert_int_equal(config->remote.bandwidth, 0);
	assert_int_equal(config->remote.timeout_s, REMOTE_TIMEOUT_S);
	static const char *const bad[][2] = {
		{"cache_size: 1M\n", "cache_size"},
		{"cache_size: much\n", "cache_size"},
		{"remote: s3\n", "expected a mapping"},
		{"remote: {speed: 3}\n", "speed"},
		{"remote: {endpoint_url: minio}\n", "endpoint_url: expected https://HOST"},
		{"remote: {endpoint_url: \"https://user:secret@host\"}\n", "without user"},
		{"remote: {anonymous: perhaps}\n", "anonymous"},
		{"remote: {requester_pays: 3}\n", "requester_pays"},
		{"remote: {path_style: virtual}\n", "path_style: expected auto, on or off"},
		{"remote: {connections: 0}\n", "connections"},
		{"remote: {connections: 2000}\n", "connections"},
		{"remote: {bandwidth: 1K}\n", "bandwidth"},
		{"remote: {timeout_s: 0}\n", "timeout_s"},
		{"remote: {timeout_s: soon}\n", "timeout_s"},
		{"remote: {hedge: 0.5}\n", "hedge"},
		{"remote: {hedge: -1}\n", "hedge"},
		{"remote: {region: [a]}\n", "region"},
		{"remote: {profile: {a: b}}\n", "profile"},
		{"remote: {plain_http: host}\n", "plain_http: expected a list of hosts"},
		{"remote: {plain_http: [\"http://host\"]}\n", "the name of a host"},
		{"roots: [\"s3://\"]\n", "roots: "},
		{"roots: [\"ftp://host/x\"]\n", "roots: "},
	};
	for (size_t i = 0; i < UTIL_COUNT(bad); i++)
		must_mention(bad[i][0], bad[i][1]);
}

/* The example that is commented out is right too, and shows every default of a stream. */
static void the_shipped_example_is_right(void **state)
{
	cleanup(free_ptr) char *shipped = slurp(PENSTOCK_SHIPPED), *example = calloc(1, 65536);
	struct stream_spec defaults;
	const char *what = NULL;
	(void)state;
	for (char *line = strstr(shipped, "\n# streams:\n") + 1; line && *line;
		line = strchr(line, '\n') + 1)
		(void)strncat(example, line + 2, strcspn(line, "\n") - 1);
	struct config *config = must_load(example);
	assert_int_equal(config->stream_count, 1);
	struct stream_spec *spec = &config->stream[0];
	assert_string_equal(spec->name, "imagenet-train");
	assert_string_equal(spec->source, "/data/imagenet/train-{000000..000146}.tar");
	assert_string_equal(spec->group, "job-1");
	spec_init(&defaults);
	memcpy(defaults.source, spec->source, sizeof defaults.source);
	if (!spec_same(spec, &defaults, &what))
		fail_msg("the example's %s is no default", what);
	assert_int_equal(spec->epochs, defaults.epochs);
	assert_int_equal(spec->prefetch, defaults.prefetch);
	assert_int_equal(spec->wait_for, defaults.wait_for);
	assert_int_equal(spec->laggard, defaults.laggard);
	assert_int_equal(spec->laggard_timeout_s, defaults.laggard_timeout_s);
	/* All keys but those for clients: stream, state, rank, world_size,
	 * pin_memory, reconnect; and mean and std, which only a dtype of floats has. */
	assert_int_equal(__builtin_popcountll(spec->given), 27);
}

/* So is the list of transforms within it: what a stream does that has none. */
static void the_shipped_transforms_are_right(void **state)
{
	cleanup(free_ptr) char *shipped = slurp(PENSTOCK_SHIPPED);
	char example[2048] = "streams:\n  a:\n    source: x\n";
	const char *what = NULL;
	(void)state;
	char *line = strstr(shipped, "\n#     # transforms:\n") + 1;
	do {
		(void)strcat(example, "    ");
		(void)strncat(example, line + 8, strcspn(line + 8, "\n") + 1);
		line = strchr(line, '\n') + 1;
	} while (strncmp(line, "#     #   - ", 12) == 0);
	struct config *list = must_load(example);
	assert_int_equal(list->stream[0].transforms.count, 2);
	struct config *plain = must_load("streams: {a: {source: x}}");
	if (!spec_same(&list->stream[0], &plain->stream[0], &what))
		fail_msg("the example's %s is no default", what);
	/* What may stand behind it. */
	for (line = strchr(line, '\n') + 1; strncmp(line, "#     #   - ", 12) == 0;
		line = strchr(line, '\n') + 1) {
		(void)strcat(example, "    ");
		(void)strncat(example, line + 8, strcspn(line + 8, "\n") + 1);
	}
	list = must_load(example);
	assert_int_equal(list->stream[0].transforms.count, 6);
}

static void an_old_name_of_a_key_works_and_is_named(void **state)
{
	(void)state;
	const struct config *config = must_load("io: auto\ncheckpoints: off\n");
	assert_false(config->entry_points);
	assert_string_equal(config->renamed.text + strlen(config->file),
		":2:1: checkpoints is the old name of entry_points; use the new name");
	assert_string_equal(must_load("entry_points: off\n")->renamed.text, "");
	assert_string_equal(must_load("streams: {checkpoints: {source: x}}\n")->renamed.text, "");
}

static void reads_every_key(void **state)
{
	(void)state;
	struct config *config = must_load(
		"socket: /run/p.sock\nmemory: 96M\nthreads: 8\nnuma: off\nreader: io_uring\n"
		"reader_threads: 32\nio: direct\ncache_dir: /c\nidle_exit_s: 10\n"
		"log_level: debug, http=error\nlog_format: json\nlog_to: "
		"stderr\nmax_clients: 3\nentry_points: off\ncache: on\n"
		"max_streams: 5\nstream_memory: 2M\nopen_streams: named\nhttp: \"[::1]:9470\"\n"
		"recorder: /var/lib/p\nrecorder_size: 16M\n"
		"streams:\n  a: {source: x}\n  b c:\n    source: y\n    train: false\n");
	assert_string_equal(config->socket, "/run/p.sock");
	assert_int_equal(config->memory, 96 << 20);
	assert_int_equal(config->threads, 8);
	assert_int_equal(config->numa, CONFIG_NUMA_OFF);
	assert_int_equal(config->reader, FETCH_URING);
	assert_int_equal(config->reader_threads, 32);
	assert_int_equal(config->io, FETCH_IO_DIRECT);
	assert_string_equal(config->cache_dir, "/c");
	assert_int_equal(config->idle_exit_s, 10);
	assert_int_equal(config->log_levels.of[LOG_STREAM], LOG_DEBUG);
	assert_int_equal(config->log_levels.of[LOG_HTTP], LOG_ERROR);
	assert_int_equal(config->log_format, LOG_JSON);
	assert_int_equal(config->log_target, LOG_STDERR);
	assert_int_equal(config->max_clients, 3);
	assert_int_equal(config->max_streams, 5);
	assert_int_equal(config->stream_memory, 2 << 20);
	assert_int_equal(config->open_streams, CONFIG_OPEN_NAMED);
	assert_string_equal(config->http, "[::1]:9470");
	assert_string_equal(config->recorder, "/var/lib/p");
	assert_int_equal(config->recorder_size, 16 << 20);
	assert_false(config->entry_points);
	assert_int_equal(config->cache, FETCH_CACHE_ON);
	assert_int_equal(config->stream_count, 2);
	assert_string_equal(config->stream[0].name, "a");
	assert_string_equal(config->stream[1].name, "b c");
	assert_string_equal(config->stream[1].source, "y");
	assert_false(config->stream[1].shuffle);
	assert_int_equal(
		must_load("reader: pread\nio: buffered\nlog_level: error")->reader, FETCH_PREAD);
	assert_int_equal(must_load("")->max_clients, 256);
	assert_string_equal(must_load("http: 9470")->http, "9470");
	assert_string_equal(must_load("http: off")->http, "off");
	assert_string_equal(must_load("")->http, "auto");
	assert_string_equal(must_load("recorder: off")->recorder, "off");
	assert_string_equal(must_load("")->recorder, "auto");
	assert_int_equal(must_load("")->recorder_size, 4 << 20);
	assert_true(must_load("")->entry_points);
}

static void refuses_with_the_place(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"memory: 64\n", ":1:9: memory: expected auto or a size such as 128M or 4G, from "
				 "1.0 MiB to 1.0 PiB, got "
				 "\"64\""},
		{"\nthreads: 0\n", ":2:10: threads: expected auto or a whole number from 1 to "
				   "1024, got \"0\""},
		{"reader_threads: 65\n", ":1:17: reader_threads: expected auto or a whole number "
					 "from 1 to 64, got \"65\""},
		{"numa: on\n", ":1:7: numa: expected auto or off, got \"on\""},
		{"reader: uring\n",
			":1:9: reader: expected auto, io_uring or pread, got \"uring\""},
		{"io: fast\n", ":1:5: io: expected auto, buffered or direct, got \"fast\""},
		{"log_level: loud\n",
			":1:12: log_level: expected error, warning, info or debug, got \"loud\""},
		{"log_level: [info]\n", ":1:12: log_level: expected a name of 1 to 255 bytes "
					"without control characters, got a list"},
		{"log_level: info, disk=debug\n",
			":1:12: log_level: expected a topic (daemon, memory, reader, stream, "
			"trainer, http, recorder), got \"disk\""},
		{"log_format: xml\n", ":1:13: log_format: expected human or json, got \"xml\""},
		{"log_to: syslog\n",
			":1:9: log_to: expected auto, stderr or journal, got \"syslog\""},
		{"http: localhost\n",
			":1:7: http: expected auto, off, a PORT, HOST:PORT, [IPV6]:PORT or "
			"unix:/PATH, got \"localhost\": a port is a number from 0 to 65535"},
		{"http: {port: 9470}\n", ":1:7: http: expected a name of 1 to 299 bytes without "
					 "control characters, got a mapping"},
		{"recorder: state\n", ":1:11: recorder: expected auto, off or the absolute path of "
				      "a folder (below 3900 bytes), got \"state\""},
		{"recorder: [auto]\n",
			":1:11: recorder: expected a name of 1 to 3899 bytes without "
			"control characters, got a list"},
		{"recorder_size: 512K\n",
			":1:16: recorder_size: expected a size such as 128M or 4G, "
			"from 1.0 MiB to 256.0 MiB, got \"512K\""},
		{"entry_points: 8\n", ":1:15: entry_points: expected true or false, got \"8\""},
		{"checkpoints: 8\n", ":1:14: entry_points: expected true or false, got \"8\""},
		{"checkpoints: off\nio: auto\nentry_points: on\n",
			":3:1: entry_points appears twice, first in line 1, column 1; "
			"keep one of them"},
		{"entry_points: on\ncheckpoints: off\n",
			":2:1: entry_points appears twice, first in line 1, column 1; "
			"keep one of them"},
		{"max_streams: 101\n",
			":1:14: max_streams: expected a whole number from 1 to 100, got \"101\""},
		{"stream_memory: 5\n", ":1:16: stream_memory: expected auto or a size such as 128M "
				       "or 4G, from 1.0 MiB to 1.0 PiB, got \"5\""},
		{"open_streams: mine\n",
			":1:15: open_streams: expected any or named, got \"mine\""},
		{"streams: {a: {source: x, share: split, rank: 0, world_size: 2}}\n",
			":1:14: rank: is for clients; the configuration defines what is read, "
			"and each client where it resumes"},
		{"max_clients: 0\n",
			":1:14: max_clients: expected a whole number from 1 to 4096, got \"0\""},
		{"idle_exit_s: 31536001\n", ":1:14: idle_exit_s: expected a whole number from 0 to "
					    "31536000, got \"31536001\""},
		{"socket: run/p.sock\n", ":1:9: socket: expected an absolute path of at most 107 "
					 "bytes, got \"run/p.sock\""},
		{"cache_dir: ~/c\n", ":1:12: cache_dir: expected an absolute path of at most 4095 "
				     "bytes, got \"~/c\""},
		{"thread: 4\n", ":1:1: unknown key \"thread\"; did you mean \"threads\"?"},
		{"streams: []\n",
			":1:10: streams: expected a mapping of names to definitions; {} for none"},
		{"streams:\n",
			":1:9: streams: expected a mapping of names to definitions; {} for none"},
		{"streams:\n  a:\n    source: x\n    batch_size: many\n",
			":4:17: batch_size: expected a whole number from 1 to 65536, got \"many\""},
		{"streams:\n  a:\n    batch_size: 4\n",
			":3:5: source is missing; expected a folder, a tar, a glob or a brace "
			"range of tars"},
		{"streams:\n  a:\n",
			":2:5: expected a mapping of \"key: value\" lines, got a single value"},
		{"streams:\n  a: {source: x}\n  a: {source: y}\n",
			":3:3: the stream \"a\" is defined twice; keep one"},
		{"streams: {\"\": {source: x}}\n",
			":1:11: a stream's name: expected a name of 1 to 127 bytes without control "
			"characters, got \"\""},
		{"streams: {[a]: {source: x}}\n",
			":1:11: a stream's name: expected a name of 1 to 127 bytes without "
			"control characters, got a list"},
		{"streams: {a: {stream: b}}\n",
			":1:14: stream: is for clients; \"a\" needs a source of its own"},
		{"streams: {a: {source: \"stream:b\"}}\n",
			":1:14: stream: is for clients; \"a\" needs a source of its own"},
		{"streams: {a: {source: x, state: {version: 1, fingerprint: \"0000000000000000\", "
		 "order: "
		 "\"0000000000000000\", transform: \"0000000000000000\", seed: 0, epoch: 0, "
		 "position: 0}}}\n",
			":1:14: state: is for clients; the configuration defines what is read, "
			"and each client where it resumes"},
		{"- memory\n", ":1:1: expected a mapping of \"key: value\" lines, got a list"},
		{"memory: 4G: 5G\n",
			":1:11: not valid YAML: mapping values are not allowed in this context"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		must_refuse(cases[i].text, cases[i].sentence);
}

static void refuses_more_streams_than_it_has(void **state)
{
	char text[8192] = "streams:\n";
	size_t n = strlen(text);
	(void)state;
	for (int i = 0; i < CONFIG_STREAMS; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "  s%d: {source: x}\n", i);
	assert_int_equal(must_load(text)->stream_count, CONFIG_STREAMS);
	(void)snprintf(text + n, sizeof text - n, "  s%d: {source: x}\n", CONFIG_STREAMS);
	must_refuse(text, ":66:3: too many streams; at most 64 can be named");
}

static void tells_that_there_is_no_file(void **state)
{
	static struct config config;
	static char longest[5000];
	struct fault fault = {""};
	(void)state;
	config_init(&config);
	assert_int_equal(config_load("/nonexistent/penstock.yaml", &config, &fault), -ENOENT);
	assert_string_equal(fault.text,
		"/nonexistent/penstock.yaml: cannot be opened: No such file or directory");
	assert_int_equal(config_load("/tmp", &config, &fault), -EINVAL);
	assert_string_equal(fault.text, "/tmp: is not a regular file; expected a YAML file");
	memset(longest, '/', sizeof longest - 1);
	assert_int_equal(config_load(longest, &config, &fault), -ENAMETOOLONG);
	assert_string_equal(config.file, "");
}

static void finds_the_cache_folder(void **state)
{
	static struct config config;
	char path[128], expected[128], temporary[] = "/tmp/penstock-test-XXXXXX";
	(void)state;
	config_init(&config);
	assert_int_equal(setenv("XDG_CACHE_HOME", "/xdg", 1), 0);
	assert_int_equal(setenv("HOME", "/home/me", 1), 0);
	assert_int_equal(setenv("TMPDIR", mkdtemp(temporary), 1), 0);
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof path), 0);
	assert_string_equal(path, "/xdg/penstock");
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof "/xdg/penstock"), 0);
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof "/xdg/penstock" - 1),
		-ENAMETOOLONG);
	assert_int_equal(setenv("XDG_CACHE_HOME", "relative", 1), 0);
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof path), 0);
	assert_string_equal(path, "/home/me/.cache/penstock");
	assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
	assert_int_equal(unsetenv("HOME"), 0);
	(void)snprintf(
		expected, sizeof expected, "%s/penstock-%ld/cache", temporary, (long)getuid());
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof path), 0);
	assert_string_equal(path, expected);
	expected[strlen(expected) - strlen("/cache")] = 0;
	assert_int_equal(chmod(expected, 0777), 0);
	assert_int_equal(store_cache_folder(NULL, path, sizeof path), -EPERM);
	assert_int_equal(rmdir(expected), 0);
	assert_int_equal(symlink("/tmp", expected), 0);
	assert_int_equal(store_cache_folder(NULL, path, sizeof path), -EPERM);
	assert_int_equal(unlink(expected), 0);
	assert_int_equal(rmdir(temporary), 0);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	(void)snprintf(expected, sizeof expected, "/tmp/penstock-%ld/cache", (long)getuid());
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof path), 0);
	assert_string_equal(path, expected);
	strcpy(config.cache_dir, "/own");
	assert_int_equal(store_cache_folder(config.cache_dir, path, sizeof path), 0);
	assert_string_equal(path, "/own");
}

/* A user without an account in a container has `/` as HOME. */
static void finds_the_cache_folder_without_an_account(void **state)
{
	char path[128], expected[128], temporary[] = "/tmp/penstock-test-XXXXXX";
	bool root = geteuid() == 0;
	(void)state;
	assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
	assert_int_equal(setenv("HOME", "/", 1), 0);
	assert_int_equal(setenv("TMPDIR", mkdtemp(temporary), 1), 0);
	if (root) {
		assert_int_equal(store_cache_folder(NULL, path, sizeof path), 0);
		assert_string_equal(path, "/.cache/penstock");
		assert_int_equal(chmod(temporary, 0777), 0);
		assert_int_equal(seteuid(65534), 0);
	}
	(void)snprintf(
		expected, sizeof expected, "%s/penstock-%ld/cache", temporary, (long)getuid());
	assert_int_equal(store_cache_folder(NULL, path, sizeof path), 0);
	assert_string_equal(path, expected);
	expected[strlen(expected) - strlen("/cache")] = 0;
	assert_int_equal(rmdir(expected), 0);
	/* Nothing can be written: the daemon starts, and refuses what needs the folder. */
	assert_int_equal(setenv("TMPDIR", "/proc", 1), 0);
	assert_int_equal(store_cache_folder(NULL, path, sizeof path), 0);
	assert_string_equal(path, "/.cache/penstock");
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(rmdir(temporary), 0);
	assert_int_equal(unsetenv("TMPDIR"), 0);
	assert_int_equal(unsetenv("HOME"), 0);
}

static void makes_folders_or_says_why(void **state)
{
	char temporary[] = "/tmp/penstock-test-XXXXXX", path[128];
	(void)state;
	assert_non_null(mkdtemp(temporary));
	(void)snprintf(path, sizeof path, "%s/a/b", temporary);
	assert_int_equal(store_folder_make(path), 0);
	assert_int_equal(store_folder_make(path), 0);
	assert_int_equal(rmdir(path), 0);
	path[strlen(path) - 2] = 0;
	assert_int_equal(rmdir(path), 0);
	/* The reason is the parent's, not that the parent is missing. */
	assert_int_equal(chmod(temporary, 0500), 0);
	bool root = geteuid() == 0;
	if (root)
		assert_int_equal(seteuid(65534), 0);
	(void)strcat(path, "/b");
	assert_int_equal(store_folder_make(path), -EACCES);
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(rmdir(temporary), 0);
}

/* Cuts, swaps, repeats or replaces bytes. */
static size_t mutate(uint64_t number, char *text, size_t size)
{
	static const char spice[] = "{}[]:,\"'\n \t&*!|>-#%@\\\0\xff~?0a";
	for (uint32_t i = 0; i < 1 + number % 3 && size; i++) {
		struct philox r = philox_draw(2, 0, number, PHILOX_SUBSTITUTE, i);
		size_t at = r.word[0] % size,
		       span = UTIL_MIN(size - at, (size_t)1 + r.word[2] % 24);
		if (r.word[3] % 4 == 0) {
			memmove(text + at, text + at + span, size - at - span);
			size -= span;
		} else if (r.word[3] % 4 == 1) {
			memmove(text + r.word[1] % (size - span + 1), text + at, span);
		} else {
			text[at] = r.word[3] % 4 == 2 ? (char)(text[at] ^ 1 << r.word[1] % 8)
						      : spice[r.word[1] % (sizeof spice - 1)];
		}
	}
	return size;
}

static void survives_mutations(void **state)
{
	static const char seed[] =
		"socket: /run/p.sock\nmemory: 96M\nthreads: auto\nreader: pread\nio: auto\n"
		"log_level: info\nstreams:\n  a: {source: x, seed: 5}\n  b:\n    source: \"y\"\n"
		"    train: false\n    max_broken: 0.5\n";
	static struct config config;
	struct paper paper = paper_new();
	unsigned good = 0;
	(void)state;
	config_init(&config);
	for (uint64_t i = 0; i < 10000; i++) {
		struct fault fault = {""};
		char text[sizeof seed];
		memcpy(text, seed, sizeof seed);
		paper_write(&paper, text, mutate(i, text, sizeof seed - 1));
		int result = config_load(paper.path, &config, &fault);
		assert_true(result == 0 || result == -EINVAL);
		if (result < 0)
			assert_memory_equal(fault.text, paper.path, strlen(paper.path));
		good += !result;
	}
	assert_in_range(good, 100, 9000);
	(void)close(paper.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_shipped_file_is_the_defaults),
		cmocka_unit_test(the_shipped_example_is_right),
		cmocka_unit_test(roots_and_what_is_bound),
		cmocka_unit_test(remote_data),
		cmocka_unit_test(the_shipped_transforms_are_right),
		cmocka_unit_test(reads_every_key),
		cmocka_unit_test(an_old_name_of_a_key_works_and_is_named),
		cmocka_unit_test(refuses_with_the_place),
		cmocka_unit_test(refuses_more_streams_than_it_has),
		cmocka_unit_test(tells_that_there_is_no_file),
		cmocka_unit_test(finds_the_cache_folder),
		cmocka_unit_test(finds_the_cache_folder_without_an_account),
		cmocka_unit_test(makes_folders_or_says_why),
		cmocka_unit_test(survives_mutations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
