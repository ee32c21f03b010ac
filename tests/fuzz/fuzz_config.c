/* Configurations: any bytes as penstock.yaml.
 *
 * Expected: either penstockd refuses the file with its name, line and column, and the settings
 * stay unchanged; or it accepts the file, every value is in its range, every stream is a
 * definition that prints and reads back as the same, and reading the file again changes nothing. */
#include "config.h"

#include "fuzz/drive.h"
#include "fuzz/phrase.h"
#include "fuzz/want.h"

#include <errno.h>
#include <sys/mman.h>

enum { TEXT_ROOM = 16384 };

static char path[64];

static void want_refusal(int rc, const struct fault *fault)
{
	want(rc == -EINVAL, "refused with another code");
	want(strncmp(fault->text, path, strlen(path)) == 0 && fault->text[strlen(path)] == ':',
		"refused without the file's name");
}

static bool in(uint64_t value, uint64_t least, uint64_t most)
{
	return value >= least && value <= most;
}

static void check_settings(const struct config *config)
{
	const uint64_t mebi = 1 << 20, most = UINT64_C(1) << 50;
	want(strcmp(config->file, path) == 0, "another file");
	want(config->socket[0] == 0 || config->socket[0] == '/', "not a valid path of a socket");
	want(config->cache_dir[0] == 0 || config->cache_dir[0] == '/',
		"not a valid path of a cache");
	want(config->memory == 0 || in(config->memory, mebi, most), "memory out of its range");
	want(config->stream_memory == 0 || in(config->stream_memory, mebi, most), "stream_memory");
	want(config->threads <= 1024 && config->reader_threads <= 64, "threads out of their range");
	want(in(config->recorder_size, CONFIG_RECORDER_LEAST, CONFIG_RECORDER_MOST),
		"recorder_size out of its range");
	want(in(config->max_clients, 1, 4096) && in(config->max_streams, 1, 100),
		"limits out of their range");
	want(config->idle_exit_s <= 31536000, "idle_exit_s out of its range");
	want(config_check_recorder(config->recorder, NULL) == 0, "not a valid recorder");
	want(config->stream_count <= CONFIG_STREAMS, "more streams than fit");
}

static void check_stream(const struct stream_spec *spec)
{
	static struct stream_spec again;
	struct fault fault = {{0}};
	const char *what;
	want(spec->name[0] && !spec_client_key(spec),
		"a stream without a name, or one of a client");
	cleanup(free_ptr) char *json = spec_json(spec);
	want(json && spec_parse(json, strlen(json), "again", &again, &fault) == 0,
		"its printed form is refused");
	want(spec_same(spec, &again, &what), "it reads back as another definition");
}

static bool same(const struct config *a, const struct config *b)
{
	return memcmp(a, b, offsetof(struct config, stream)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct config config, before;
	static int file;
	struct fault fault = {{0}};
	if (!file) {
		file = memfd_create("config", MFD_CLOEXEC);
		want(file >= 0, "no memory");
		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	}
	want(pwrite(file, data, size, 0) == (ssize_t)size && ftruncate(file, (off_t)size) == 0,
		"no memory");
	config_init(&config);
	memcpy(&before, &config, offsetof(struct config, stream));
	int rc = config_load(path, &config, &fault);
	if (rc) {
		want_refusal(rc, &fault);
		want(same(&config, &before), "refused, and changed nevertheless");
		return 0;
	}
	check_settings(&config);
	for (uint32_t i = 0; i < config.stream_count; i++)
		check_stream(&config.stream[i]);
	memcpy(&before, &config, offsetof(struct config, stream));
	want(config_load(path, &config, &fault) == 0 && same(&config, &before),
		"a second reading gives other settings");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static void phrase_setting(struct phrase *phrase)
{
	static const char *const settings[] = {"socket: /run/x.sock", "memory: 4G", "memory: auto",
		"threads: 8", "threads: auto", "reader: pread", "reader: io_uring",
		"reader_threads: 16", "io: direct", "cache: off", "cache_dir: /c",
		"checkpoints: no", "entry_points: no", "idle_exit_s: 60", "log_level: debug",
		"log_level: \"info,serve=debug\"", "http: off", "http: 127.0.0.1:9400",
		"http: auto", "http: \"[::1]:80\"", "http: unix:/x", "recorder: off",
		"recorder: /r", "recorder_size: 8M", "log_format: json", "log_to: stderr",
		"max_clients: 10", "max_streams: 3", "stream_memory: 1G", "open_streams: named",
		"memory: 1", "socket: x", "recorder: x", "roots: [/d]", "x: y", "threads: -1"};
	phrase_one(phrase, settings);
	phrase_put(phrase, "\n");
}

static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	static const char *const names[] = {"a", "train", "b", "val", "\"\\u00e4\"", "a", "c", "d"};
	struct phrase phrase = {(char *)bytes, 0, room, random};
	for (uint32_t i = draw(random, 5); i; i--)
		phrase_setting(&phrase);
	uint32_t streams = draw(random, 3);
	phrase_put(&phrase, streams ? "streams:\n" : "");
	for (; streams; streams--) {
		phrase_put(&phrase, "  ");
		phrase_one(&phrase, names);
		phrase_put(&phrase, ": ");
		phrase_definition(&phrase, false);
		phrase_put(&phrase, "\n");
	}
	return phrase.size;
}

const struct drive fuzz_drive = {"fuzz_config", TEXT_ROOM, compose, NULL};
#endif
