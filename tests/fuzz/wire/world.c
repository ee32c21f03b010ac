/* world: see world.h. */
#include "world.h"

#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

enum { NOTES = 1 << 16, PATH_ROOM = 256, SETTLE_TURNS = 4096 };

/* ---- the notes ---- */

static char notes[NOTES];
static size_t noted;

void world_forget(void)
{
	noted = 0;
}

void world_note(const char *format, ...)
{
	va_list arguments;
	if (noted + 256 > sizeof notes)
		return;
	va_start(arguments, format);
	int n = vsnprintf(notes + noted, 254, format, arguments);
	va_end(arguments);
	noted += n > 253 ? 253 : (size_t)n;
	notes[noted++] = '\n';
}

void world_wrong(const char *format, ...)
{
	va_list arguments;
	(void)fprintf(stderr, "%.*s", (int)noted, notes);
	va_start(arguments, format);
	(void)fputs("WRONG: ", stderr);
	(void)vfprintf(stderr, format, arguments);
	(void)fputs("\n", stderr);
	va_end(arguments);
	abort();
}

/* ---- files ---- */

size_t world_text(const struct world *world, const char *text, char *ret, size_t room)
{
	size_t at = 0;
	for (; *text; text++) {
		int n = *text == '@' ? snprintf(ret + at, room - at, "%s", world->root)
				     : snprintf(ret + at, room - at, "%c", *text);
		at += (size_t)n;
		if (at + 1 >= room)
			world_wrong("a text does not fit");
	}
	return at;
}

static FILE *world_create(const struct world *world, const char *name)
{
	char path[PATH_ROOM];
	(void)snprintf(path, sizeof path, "%s/%s", world->root, name);
	FILE *out = fopen(path, "wbe");
	if (!out)
		world_wrong("%s: %s", path, strerror(errno));
	return out;
}

static void world_folder(const struct world *world, const char *name)
{
	char path[PATH_ROOM];
	(void)snprintf(path, sizeof path, "%s/%s", world->root, name);
	if (mkdir(path, 0700))
		world_wrong("%s: %s", path, strerror(errno));
}

static void world_jpeg(const struct world *world, const char *name, unsigned seed)
{
	struct jpeg_compress_struct jpeg;
	struct jpeg_error_mgr errors;
	FILE *out = world_create(world, name);
	jpeg.err = jpeg_std_error(&errors);
	jpeg_create_compress(&jpeg);
	jpeg_stdio_dest(&jpeg, out);
	jpeg.image_width = 16 + seed % 5;
	jpeg.image_height = 12 + seed % 7;
	jpeg.input_components = 3;
	jpeg.in_color_space = JCS_RGB;
	jpeg_set_defaults(&jpeg);
	jpeg_start_compress(&jpeg, TRUE);
	while (jpeg.next_scanline < jpeg.image_height) {
		JSAMPLE line[3 * 32];
		JSAMPROW row = line;
		for (size_t i = 0; i < sizeof line; i++)
			line[i] = (JSAMPLE)(seed * 37 + jpeg.next_scanline * 11 + i * (seed + 3));
		(void)jpeg_write_scanlines(&jpeg, &row, 1);
	}
	jpeg_finish_compress(&jpeg);
	jpeg_destroy_compress(&jpeg);
	(void)fclose(out);
}

static void world_dataset(const struct world *world, const char *name, unsigned broken)
{
	char path[PATH_ROOM];
	world_folder(world, name);
	for (unsigned i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/%c", name, 'a' + (int)i);
		world_folder(world, path);
	}
	for (unsigned i = 0; i < WORLD_IMAGES; i++) {
		(void)snprintf(path, sizeof path, "%s/%c/%u.jpg", name, i < 4 ? 'a' : 'b', i);
		world_jpeg(world, path, i);
		if (i != broken)
			continue;
		FILE *out = world_create(world, path);
		(void)fputs("no picture", out);
		(void)fclose(out);
	}
}

/* One dimension of numbers, as NumPy writes it. */
static void world_npy(const struct world *world, const char *name, const char *type,
	const void *values, size_t count)
{
	char header[128];
	FILE *out = world_create(world, name);
	int n = snprintf(header, sizeof header,
		"{'descr': '%s', 'fortran_order': False, 'shape': (%zu,), }", type, count);
	memset(header + n, ' ', 117 - (size_t)n);
	header[117] = '\n';
	(void)fwrite("\x93NUMPY\1\0\x76\0", 1, 10, out);
	(void)fwrite(header, 1, 118, out);
	(void)fwrite(values, 8, count, out);
	(void)fclose(out);
}

static void world_files(struct world *world)
{
	static const int64_t list[] = {5, 1, 1, 3, 0};
	static const double weights[WORLD_IMAGES] = {1, 0, 2, 1, 0.5, 3, 1};
	(void)snprintf(world->root, sizeof world->root, "/tmp/penstock-wire-XXXXXX");
	if (!mkdtemp(world->root))
		world_wrong("no folder in /tmp: %s", strerror(errno));
	world_folder(world, "run");
	world_folder(world, "cache");
	world_dataset(world, "data", WORLD_IMAGES);
	world_dataset(world, "bad", 2);
	world_npy(world, "list.npy", "<i8", list, 5);
	world_npy(world, "weights.npy", "<f8", weights, WORLD_IMAGES);
}

/* ---- the daemon ---- */

static void world_settings(struct world *world)
{
	struct config *config = &world->config;
	struct fault fault;
	char text[PATH_ROOM];
	config_init(config);
	(void)snprintf(config->socket, sizeof config->socket, "%s/run/p.sock", world->root);
	(void)snprintf(config->cache_dir, sizeof config->cache_dir, "%s/cache", world->root);
	(void)snprintf(config->http, sizeof config->http, "off");
	(void)snprintf(config->recorder, sizeof config->recorder, "off");
	/* This process also has the clients, and makes more daemons. */
	config->seccomp = CONFINE_OFF;
	config->core_files = true;
	config->memory = (uint64_t)256 << 20;
	config->threads = 1;
	config->max_streams = 1024;
	size_t size = world_text(world,
		"{\"source\":\"@/data\",\"batch_size\":2,\"image_size\":8,\"train\":false}", text,
		sizeof text);
	if (spec_parse(text, size, "the named stream", &config->stream[0], &fault))
		world_wrong("%s", fault.text);
	(void)snprintf(config->stream[0].name, sizeof config->stream[0].name, "named");
	config->stream_count = 1;
}

void world_begin(struct world *world)
{
	struct fault fault = {{0}};
	if (server_new(&world->config, &world->server, &fault))
		world_wrong("the daemon does not start: %s", fault.text);
	world->over = false;
}

void world_make(struct world *world)
{
	struct log_levels levels;
	struct fault fault;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (log_levels_parse("error, stream=error, trainer=error", &levels, &fault))
		world_wrong("%s", fault.text);
	for (size_t i = 0; i < LOG_TOPICS; i++)
		levels.of[i] = LOG_ERROR;
	log_set_levels(&levels);
	world_files(world);
	world_settings(world);
	world_begin(world);
}

void world_finish(struct world *world)
{
	server_free(world->server);
	world->server = NULL;
	world->restarts++;
}

void world_remove(struct world *world)
{
	char command[128];
	world_finish(world);
	(void)snprintf(command, sizeof command, "rm -rf '%s'", world->root);
	if (system(command))
		world_wrong("%s stays", world->root);
}

void world_turn(struct world *world, int timeout_ms)
{
	struct fault fault;
	int result = server_turn(world->server, timeout_ms, &fault);
	if (result < 0)
		world_wrong("the event loop fails: %s", fault.text);
	world->over |= result > 0;
}

int world_connect(const struct world *world)
{
	int fd = -1;
	int result = conn_connect(world->config.socket, &fd);
	if (result)
		world_wrong("no daemon listens: %s", strerror(-result));
	return fd;
}

/* Whether paths are being looked up. */
static bool world_names(const struct world *world)
{
	list_each (g, &world->server->groups, struct group, node)
		if (g->paths.count)
			return true;
	return false;
}

void world_settle(struct world *world, int fd)
{
	for (int i = 0; i < SETTLE_TURNS; i++) {
		int left = 0;
		bool names = world_names(world);
		world_turn(world, names ? 20 : 0);
		if (!world_names(world) && (ioctl(fd, SIOCOUTQ, &left) || left == 0))
			return;
	}
	world_wrong("the daemon does not read its messages");
}

/* ---- the daemon's state ---- */

static uint32_t world_length(const struct list_head *list)
{
	uint32_t n = 0;
	for (const struct list_node *node = list->first; node; node = node->next)
		n++;
	return n;
}

void world_calm(struct world *world, uint32_t clients, uint32_t groups)
{
	const struct server *server = world->server;
	const struct tasks *tasks = &server->tasks;
	uint64_t end_ns = clock_ns() + WORLD_PATIENCE_S * 1000000000ull;
	world_turn(world, 0);
	while (server->client_count != clients || world_length(&server->groups) != groups ||
		tasks->openings.first || tasks->closings.first || tasks->lists.first) {
		if (clock_ns() > end_ns)
			world_wrong("after %d s: %u clients, %u groups, %u openings, %u closings, "
				    "%u lists; expected %u and %u, and nothing else",
				WORLD_PATIENCE_S, server->client_count,
				world_length(&server->groups), world_length(&tasks->openings),
				world_length(&tasks->closings), world_length(&tasks->lists),
				clients, groups);
		world_turn(world, 20);
	}
	if (!list_is_empty(&server->jobs))
		world_wrong("a job stays without ranks");
}

uint64_t world_reserved(const struct world *world)
{
	return world->server->memory.budget - ledger_free(&world->server->ledger);
}

void world_returns(struct world *world, uint64_t reserved)
{
	uint64_t end_ns = clock_ns() + WORLD_PATIENCE_S * 1000000000ull;
	while (world_reserved(world) != reserved) {
		if (clock_ns() > end_ns)
			world_wrong("%llu bytes are reserved, %llu were reserved before",
				(unsigned long long)world_reserved(world),
				(unsigned long long)reserved);
		world_turn(world, 1);
	}
}

int world_fds(void)
{
	int n = 0;
	DIR *folder = opendir("/proc/self/fd");
	if (!folder)
		world_wrong("/proc/self/fd: %s", strerror(errno));
	while (readdir(folder))
		n++;
	(void)closedir(folder);
	return n;
}

bool world_has_fds(struct world *world, int count)
{
	uint64_t end_ns = clock_ns() + WORLD_PATIENCE_S * 1000000000ull;
	while (world_fds() > count) {
		if (clock_ns() > end_ns)
			return false;
		world_turn(world, 1);
	}
	return true;
}
