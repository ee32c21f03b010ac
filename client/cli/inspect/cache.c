/* cache: `penstock cache`: shows, verifies and clears what the cache folder keeps of remote
 * data. It works on the folder itself and needs no daemon; daemons may use the folder meanwhile. */
#include "client/cli/cli.h"

#include "base/store.h"
#include "base/util.h"
#include "client/cli/options.h"
#include "client/cli/table.h"
#include "proto/jsontext.h"
#include "remote/cache/disk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	CACHE_GROUPS = 32, /* with more folders than these, folders are counted by their parent */
	CACHE_PATH = 4096,
};

/* What is kept of one object, or of all objects of a folder. */
struct cache_row {
	char *name; /* the URL, or the URL of the folder with its slash */
	uint64_t objects, size, stored, disk_bytes;
	int64_t read_s;
	bool open;
};

struct cache {
	const char *folder, *action, *prefix;
	bool objects, json;
	struct disk *disk;
	struct cache_row *rows;
	size_t count, room;
};

static const struct command cache_command = {
	.name = "cache",
	.operands = "[show | verify | clear] [URL]",
	.max_operands = 2,
	.about = "Shows what the cache folder keeps of remote data (show), reads all of it and\n"
		 "compares checksums (verify), or removes what no process reads (clear): of "
		 "all\nURLs, or of those that begin with URL. Exit: 0 done; 1 broken blocks were "
		 "found,\nor it failed; 2 usage.",
};

static void rows_free(struct cache *cache)
{
	for (size_t i = 0; i < cache->count; i++)
		free(cache->rows[i].name);
	free(cache->rows);
}

static int row_add(void *context, const struct disk_object *object)
{
	struct cache *cache = context;
	if (strncmp(object->url, cache->prefix, strlen(cache->prefix)) != 0)
		return 0;
	if (cache->count == cache->room) {
		const size_t room = cache->room ? 2 * cache->room : 64;
		struct cache_row *more = reallocarray(cache->rows, room, sizeof *more);
		if (!more)
			return -ENOMEM;
		cache->rows = more;
		cache->room = room;
	}
	char *name = strdup(object->url);
	if (!name)
		return -ENOMEM;
	cache->rows[cache->count++] = (struct cache_row){
		.name = cli_tame(name),
		.objects = 1,
		.size = object->size,
		.stored = object->stored,
		.disk_bytes = object->disk_bytes,
		.read_s = object->read_s,
		.open = object->open,
	};
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct cache_row *)a)->name, ((const struct cache_row *)b)->name);
}

/* Cuts the last part of a URL off: "s3://b/a/x.jpg", "s3://b/a/", "s3://b/". */
static void folder_cut(char *name)
{
	char *scheme = strstr(name, "://"), *path = scheme ? scheme + 3 : name;
	size_t size = strlen(path);
	if (size && path[size - 1] == '/')
		size--;
	while (size && path[size - 1] != '/')
		size--;
	if (size)
		path[size] = 0;
}

/* Joins rows of the same name; they are sorted. */
static void rows_join(struct cache *cache)
{
	size_t kept = 0;
	for (size_t i = 1; i < cache->count; i++) {
		struct cache_row *last = &cache->rows[kept], *row = &cache->rows[i];
		if (strcmp(last->name, row->name) != 0) {
			cache->rows[++kept] = *row;
			continue;
		}
		last->objects += row->objects;
		last->size += row->size;
		last->stored += row->stored;
		last->disk_bytes += row->disk_bytes;
		last->read_s = UTIL_MAX(last->read_s, row->read_s);
		last->open |= row->open;
		free(row->name);
	}
	cache->count = cache->count ? kept + 1 : 0;
}

static void rows_group(struct cache *cache)
{
	for (int levels = 0; levels < 2 && (levels == 0 || cache->count > CACHE_GROUPS); levels++) {
		for (size_t i = 0; i < cache->count; i++)
			folder_cut(cache->rows[i].name);
		if (cache->count)
			qsort(cache->rows, cache->count, sizeof *cache->rows, by_name);
		rows_join(cache);
	}
}

static double share_of(const struct cache_row *row)
{
	return row->size ? (double)row->stored / (double)row->size : 1;
}

static struct cache_row total_of(const struct cache *cache)
{
	struct cache_row total = {0};
	for (size_t i = 0; i < cache->count; i++) {
		total.objects += cache->rows[i].objects;
		total.size += cache->rows[i].size;
		total.stored += cache->rows[i].stored;
		total.disk_bytes += cache->rows[i].disk_bytes;
	}
	return total;
}

static void show_table(const struct cache *cache)
{
	static const struct {
		const char *name;
		bool right;
	} columns[] = {{"kept", true}, {"of", true}, {"share", true}, {"objects", true},
		{"last read", false}, {"URL", false}};
	struct table *table = table_new();
	table_row(table);
	for (size_t i = 0; i < UTIL_COUNT(columns); i++)
		table_cell(table, columns[i].right, "%s", columns[i].name);
	for (size_t i = 0; i < cache->count; i++) {
		const struct cache_row *row = &cache->rows[i];
		char when[32] = "now";
		struct tm parts;
		const time_t read = (time_t)row->read_s;
		if (!row->open && localtime_r(&read, &parts))
			(void)strftime(when, sizeof when, "%Y-%m-%d %H:%M", &parts);
		table_row(table);
		table_cell(table, true, "%s", table_bytes(row->stored).text);
		table_cell(table, true, "%s", table_bytes(row->size).text);
		table_cell(table, true, "%.0f %%", 100 * share_of(row));
		table_cell(table, true, "%s", table_count(row->objects).text);
		table_cell(table, false, "%s", when);
		table_cell(table, false, "%s", row->name);
	}
	table_print(table, 2);
	table_free(table);
}

static void row_json(struct jsontext *json, const struct cache_row *row, bool object)
{
	jsontext_object(json, NULL);
	jsontext_string(json, "url", row->name);
	if (!object)
		jsontext_u64(json, "objects", row->objects);
	jsontext_u64(json, "size", row->size);
	jsontext_u64(json, "kept", row->stored);
	jsontext_number(json, "share", share_of(row), 4);
	jsontext_u64(json, "disk_bytes", row->disk_bytes);
	jsontext_i64(json, "last_read", row->read_s);
	jsontext_bool(json, "open", row->open);
	jsontext_end(json);
}

static int show_json(const struct cache *cache)
{
	struct jsontext json = {0};
	const struct cache_row total = total_of(cache);
	jsontext_object(&json, NULL);
	jsontext_string(&json, "folder", cache->folder);
	jsontext_u64(&json, "objects", total.objects);
	jsontext_u64(&json, "size", total.size);
	jsontext_u64(&json, "kept", total.stored);
	jsontext_u64(&json, "disk_bytes", total.disk_bytes);
	jsontext_array(&json, cache->objects ? "files" : "datasets");
	for (size_t i = 0; i < cache->count; i++)
		row_json(&json, &cache->rows[i], cache->objects);
	jsontext_end(&json);
	jsontext_end(&json);
	return cli_print_json(&json);
}

static int cache_failed(const struct cache *cache, int code)
{
	if (code == -EBUSY)
		return cli_fail(CLI_FAILED,
			"%s: another process has kept the lock on remote/account for too long: try "
			"again",
			cache->folder);
	return cli_fail(CLI_FAILED, "%s: %s", cache->folder, strerror(-code));
}

static int cache_show(struct cache *cache)
{
	const int code = cache->disk ? disk_each(cache->disk, row_add, cache) : 0;
	if (code < 0)
		return cache_failed(cache, code);
	if (cache->objects && cache->count)
		qsort(cache->rows, cache->count, sizeof *cache->rows, by_name);
	else if (!cache->objects)
		rows_group(cache);
	if (cache->json)
		return show_json(cache);
	const struct cache_row total = total_of(cache);
	(void)printf("%s: %s kept of %s object%s, %s of disk\n", cache->folder,
		table_bytes(total.stored).text, table_count(total.objects).text,
		total.objects == 1 ? "" : "s", table_bytes(total.disk_bytes).text);
	if (cache->count)
		show_table(cache);
	return CLI_OK;
}

static void broken_note(void *context, const struct disk_object *object, uint64_t blocks)
{
	char url[CACHE_PATH];
	(void)context;
	(void)snprintf(url, sizeof url, "%s", object->url);
	cli_note("%s: %llu block%s of 64 KiB with wrong checksums", cli_tame(url),
		(unsigned long long)blocks, blocks == 1 ? "" : "s");
}

static int cache_verify(struct cache *cache)
{
	struct disk_verified done = {0};
	const int code =
		cache->disk ? disk_verify(cache->disk, cache->prefix, broken_note, cache, &done)
			    : 0;
	if (code < 0)
		return cache_failed(cache, code);
	const int result = done.broken_blocks ? CLI_FAILED : CLI_OK;
	if (cache->json) {
		struct jsontext json = {0};
		jsontext_object(&json, NULL);
		jsontext_string(&json, "folder", cache->folder);
		jsontext_u64(&json, "objects", done.objects);
		jsontext_u64(&json, "blocks", done.blocks);
		jsontext_u64(&json, "bytes", done.bytes);
		jsontext_u64(&json, "broken_blocks", done.broken_blocks);
		jsontext_end(&json);
		const int printed = cli_print_json(&json);
		return printed ? printed : result;
	}
	(void)printf("%s blocks of %s object%s, %s: ", table_count(done.blocks).text,
		table_count(done.objects).text, done.objects == 1 ? "" : "s",
		table_bytes(done.bytes).text);
	if (done.broken_blocks)
		(void)printf("%s broken; they are fetched again when they are needed\n",
			table_count(done.broken_blocks).text);
	else
		(void)printf("all checksums are right\n");
	return result;
}

static int cache_clear(struct cache *cache)
{
	struct disk_cleared done = {0};
	const int code = cache->disk ? disk_clear(cache->disk, cache->prefix, &done) : 0;
	if (code < 0)
		return cache_failed(cache, code);
	if (cache->json) {
		struct jsontext json = {0};
		jsontext_object(&json, NULL);
		jsontext_string(&json, "folder", cache->folder);
		jsontext_u64(&json, "objects", done.objects);
		jsontext_u64(&json, "disk_bytes", done.bytes);
		jsontext_u64(&json, "open_objects", done.open_objects);
		jsontext_u64(&json, "open_disk_bytes", done.open_bytes);
		jsontext_end(&json);
		return cli_print_json(&json);
	}
	(void)printf("removed %s object%s, %s\n", table_count(done.objects).text,
		done.objects == 1 ? "" : "s", table_bytes(done.bytes).text);
	if (done.open_objects)
		(void)printf("left %s object%s, %s, that a process reads\n",
			table_count(done.open_objects).text, done.open_objects == 1 ? "" : "s",
			table_bytes(done.open_bytes).text);
	return CLI_OK;
}

/* A folder that was never used is one with nothing in it. */
static int cache_open(struct cache *cache)
{
	struct fault fault;
	const int code = disk_open_existing(cache->folder, &cache->disk, &fault);
	if (code == -ENOENT && access(cache->folder, F_OK) != 0)
		return cli_fail(CLI_USAGE, "%s: %s; give the daemon's cache_dir with --cache-dir",
			cache->folder, strerror(errno));
	if (code < 0 && code != -ENOENT)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	return CLI_OK;
}

static int cache_run(struct cache *cache)
{
	static const struct {
		const char *name;
		int (*run)(struct cache *cache);
	} actions[] = {{"show", cache_show}, {"verify", cache_verify}, {"clear", cache_clear}};
	for (size_t i = 0; i < UTIL_COUNT(actions); i++) {
		if (strcmp(cache->action, actions[i].name) != 0)
			continue;
		const int opened = cache_open(cache);
		return opened ? opened : actions[i].run(cache);
	}
	return cli_fail(CLI_USAGE, "expected show, verify or clear, got \"%s\"", cache->action);
}

int cache_main(int argc, char **argv)
{
	char folder[CACHE_PATH];
	const char *operand[2] = {NULL, NULL};
	struct cache cache = {0};
	const struct option table[] = {
		{"cache-dir", 0, OPTION_TEXT, &cache.folder, "DIR",
			"the daemon's cache_dir (~/.cache/penstock)", 0, 0, NULL},
		{"objects", 0, OPTION_FLAG, &cache.objects, NULL,
			"show: list each object, not each folder", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &cache.json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const int parsed =
		options_parse(&cache_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (parsed)
		return parsed == OPTIONS_HELP ? CLI_OK : CLI_USAGE;
	if (!cache.folder) {
		const int code = store_cache_folder(NULL, folder, sizeof folder);
		if (code < 0)
			return cli_fail(CLI_FAILED,
				"no cache folder: %s; give one with --cache-dir", strerror(-code));
		cache.folder = folder;
	}
	cache.action = operand[0] ? operand[0] : "show";
	cache.prefix = operand[1] ? operand[1] : "";
	const int code = cache_run(&cache);
	rows_free(&cache);
	disk_close(cache.disk);
	return code;
}
