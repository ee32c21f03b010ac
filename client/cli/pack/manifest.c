/* manifest: see manifest.h. The reader treats the file like any input from outside: it refuses
 * counts that contradict each other. */
#include "client/cli/pack/manifest.h"

#include "base/text/json.h"
#include "base/util.h"
#include "dataset/digest.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- options, as text ---- */

enum { OPTION_TEXT = 24, OPTION_ROWS = 7 };

struct option_row {
	const char *name; /* in the manifest; the command line has - in place of _ */
	char text[OPTION_TEXT];
	bool number;
};

static void option_number(struct option_row *row, const char *name, uint64_t value)
{
	row->name = name;
	row->number = true;
	(void)snprintf(row->text, sizeof row->text, "%" PRIu64, value);
}

static void option_word(struct option_row *row, const char *name, const char *value)
{
	row->name = name;
	row->number = false;
	(void)snprintf(row->text, sizeof row->text, "%s", value);
}

static void option_rows(const struct recipe *recipe, struct option_row ret[OPTION_ROWS])
{
	static const char *const subsampling[] = {[IMAGE_420] = "420",
		[IMAGE_422] = "422",
		[IMAGE_444] = "444",
		[IMAGE_KEEP] = "keep"};
	char interval[OPTION_TEXT] = "row";
	if (!recipe->image.interval.row)
		(void)snprintf(interval, sizeof interval, "%" PRIu32, recipe->image.interval.mcus);
	option_word(&ret[0], "restart_interval", interval);
	option_number(&ret[1], "max_side", recipe->image.max_side);
	option_number(&ret[2], "quality", recipe->image.quality);
	option_word(&ret[3], "subsampling", subsampling[recipe->image.subsampling]);
	option_word(&ret[4], "verify", recipe->image.verify ? "yes" : "no");
	option_number(&ret[5], "shard_size", recipe->shard_bytes);
	option_number(&ret[6], "memory", recipe->memory_bytes);
}

/* The names of the fields, in their order: "txt, json"; "" without fields. */
enum { OPTION_FIELDS = FIELDS_MAX * (FIELD_NAME_MAX + 2) + 1 };

static const char *option_fields(const struct recipe *recipe, char buffer[OPTION_FIELDS])
{
	size_t used = 0;
	buffer[0] = 0;
	for (uint32_t i = 0; i < recipe->fields.count; i++)
		used += (size_t)snprintf(buffer + used, OPTION_FIELDS - used, "%s%s",
			used ? ", " : "", recipe->fields.at[i].name);
	return buffer;
}

/* ---- beginning, growing ---- */

void manifest_begin(struct manifest *manifest, const struct dataset *dataset,
	const struct pattern *pattern, const struct recipe *recipe)
{
	*manifest = (struct manifest){
		.recipe = *recipe,
		.source_fingerprint = dataset_fingerprint(dataset),
		.source_samples = dataset_count(dataset),
		.source_bytes = dataset_bytes(dataset),
		.labelled = dataset_labelled(dataset),
	};
	(void)snprintf(manifest->pattern, sizeof manifest->pattern, "%s", pattern->name);
}

void manifest_deinit(struct manifest *manifest)
{
	for (size_t i = 0; i < manifest->broken_listed; i++) {
		free(manifest->broken[i].path);
		free(manifest->broken[i].reason);
		free(manifest->broken[i].message);
	}
	free(manifest->broken);
	free(manifest->shard);
	*manifest = (struct manifest){0};
}

uint64_t manifest_fingerprint(const struct manifest *manifest)
{
	return digest_finish(manifest->digest, manifest->samples);
}

/* Makes room for one more element; NULL: no memory. */
static void *manifest_grown(void *array, size_t count, size_t *room, size_t element)
{
	if (count < *room)
		return array;
	size_t more = *room ? *room * 2 : 64;
	void *grown = realloc(array, more * element);
	if (grown)
		*room = more;
	return grown;
}

int manifest_add_shard(
	struct manifest *manifest, const struct manifest_shard *shard, struct fault *fault)
{
	struct manifest_shard *grown = manifest_grown(
		manifest->shard, manifest->shards, &manifest->shard_room, sizeof *manifest->shard);
	if (!grown)
		return fault_set(fault, -ENOMEM, "not enough memory for the list of shards");
	manifest->shard = grown;
	manifest->shard[manifest->shards++] = *shard;
	return 0;
}

int manifest_add_broken(struct manifest *manifest, uint64_t number, const char *path,
	const char *reason, const char *message, struct fault *fault)
{
	manifest->broken_count++;
	if (manifest->broken_listed == MANIFEST_BROKEN_MOST)
		return 0;
	struct manifest_broken *grown = manifest_grown(manifest->broken, manifest->broken_listed,
		&manifest->broken_room, sizeof *manifest->broken);
	if (!grown)
		return fault_set(fault, -ENOMEM, "not enough memory for the list of broken images");
	manifest->broken = grown;
	struct manifest_broken *broken = &grown[manifest->broken_listed++];
	*broken = (struct manifest_broken){number, strdup(path), strdup(reason), strdup(message)};
	if (!broken->path || !broken->reason || !broken->message)
		return fault_set(fault, -ENOMEM, "not enough memory for the list of broken images");
	return 0;
}

/* A hash over everything that a resumed pack takes from the manifest; the descriptions of broken
 * images are for people. */
static uint64_t manifest_check(const struct manifest *manifest)
{
	const uint64_t numbers[] = {manifest->next, manifest->digest, manifest->samples,
		manifest->bytes_in, manifest->bytes_out, manifest->stored_in, manifest->stored_out,
		manifest->renamed, manifest->broken_count, manifest->shards,
		manifest->broken_listed};
	uint64_t hash = HASH_SEED;
	for (size_t i = 0; i < UTIL_COUNT(numbers); i++)
		hash = hash_u64(hash, numbers[i]);
	for (int i = 0; i < IMAGE_HOWS; i++)
		hash = hash_u64(hash, manifest->how[i]);
	for (size_t i = 0; i < manifest->shards; i++) {
		const struct manifest_shard *shard = &manifest->shard[i];
		hash = hash_bytes(hash, shard->name, strlen(shard->name));
		hash = hash_u64(hash_u64(hash, shard->samples), shard->bytes);
	}
	for (size_t i = 0; i < manifest->broken_listed; i++)
		hash = hash_u64(hash, manifest->broken[i].number);
	return hash_mix(hash);
}

/* ---- writing ---- */

static void put_hex(struct jsontext *json, const char *key, uint64_t value)
{
	char text[24];
	(void)snprintf(text, sizeof text, "%016" PRIx64, value);
	jsontext_string(json, key, text);
}

static void put_source(
	struct jsontext *json, const struct manifest *manifest, const struct dataset *dataset)
{
	jsontext_object(json, "source");
	put_hex(json, "fingerprint", manifest->source_fingerprint);
	jsontext_u64(json, "samples", manifest->source_samples);
	jsontext_u64(json, "bytes", manifest->source_bytes);
	jsontext_bool(json, "labelled", manifest->labelled);
	jsontext_end(json);
	jsontext_array(json, "classes");
	for (uint32_t i = 0; i < dataset_classes(dataset); i++)
		jsontext_string(json, NULL, dataset_class_name(dataset, i));
	jsontext_end(json);
}

static void put_options(struct jsontext *json, const struct recipe *recipe)
{
	struct option_row rows[OPTION_ROWS];
	option_rows(recipe, rows);
	jsontext_bool(json, "lossy", recipe->image.max_side || recipe->image.quality);
	jsontext_object(json, "options");
	for (size_t i = 0; i < OPTION_ROWS; i++)
		if (rows[i].number)
			jsontext_raw(json, rows[i].name, rows[i].text);
		else
			jsontext_string(json, rows[i].name, rows[i].text);
	char fields[OPTION_FIELDS];
	if (recipe->fields.count)
		jsontext_string(json, "fields", option_fields(recipe, fields));
	jsontext_end(json);
}

void manifest_put_images(const struct manifest *manifest, struct jsontext *json)
{
	jsontext_object(json, "images");
	for (int i = 0; i < IMAGE_HOWS; i++)
		jsontext_u64(json, image_how_name((enum image_how)i), manifest->how[i]);
	jsontext_end(json);
}

void manifest_put_broken(const struct manifest *manifest, struct jsontext *json)
{
	jsontext_u64(json, "broken_count", manifest->broken_count);
	jsontext_array(json, "broken");
	for (size_t i = 0; i < manifest->broken_listed; i++) {
		const struct manifest_broken *broken = &manifest->broken[i];
		jsontext_object(json, NULL);
		jsontext_u64(json, "index", broken->number);
		jsontext_string(json, "path", broken->path);
		jsontext_string(json, "reason", broken->reason);
		jsontext_string(json, "message", broken->message);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void put_progress(struct jsontext *json, const struct manifest *manifest)
{
	jsontext_bool(json, "complete", manifest->complete);
	jsontext_u64(json, "next", manifest->next);
	put_hex(json, "fingerprint", manifest_fingerprint(manifest));
	put_hex(json, "digest", manifest->digest);
	jsontext_u64(json, "samples", manifest->samples);
	jsontext_u64(json, "bytes_in", manifest->bytes_in);
	jsontext_u64(json, "bytes_out", manifest->bytes_out);
	jsontext_u64(json, "stored_in", manifest->stored_in);
	jsontext_u64(json, "stored_out", manifest->stored_out);
	jsontext_u64(json, "renamed", manifest->renamed);
	manifest_put_images(manifest, json);
}

static void put_lists(struct jsontext *json, const struct manifest *manifest)
{
	jsontext_array(json, "shards");
	for (size_t i = 0; i < manifest->shards; i++) {
		jsontext_object(json, NULL);
		jsontext_string(json, "name", manifest->shard[i].name);
		jsontext_u64(json, "samples", manifest->shard[i].samples);
		jsontext_u64(json, "bytes", manifest->shard[i].bytes);
		jsontext_end(json);
	}
	jsontext_end(json);
	manifest_put_broken(manifest, json);
}

char *manifest_text(const struct manifest *manifest, const struct dataset *dataset)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_u64(&json, "penstock_pack", MANIFEST_VERSION);
	jsontext_string(&json, "pattern", manifest->pattern);
	put_source(&json, manifest, dataset);
	put_options(&json, &manifest->recipe);
	put_progress(&json, manifest);
	put_lists(&json, manifest);
	put_hex(&json, "check", manifest_check(manifest));
	jsontext_end(&json);
	char *text = NULL;
	if (!json.text.failed && asprintf(&text, "%s\n", json.text.bytes) < 0)
		text = NULL;
	jsontext_free(&json);
	return text;
}

/* ---- reading ---- */

/* The object to read, and whether it had all keys. */
struct reader {
	const char *path;
	bool damaged;
};

static json_t *take(struct reader *reader, const json_t *object, const char *key)
{
	json_t *value = json_object_get(object, key);
	if (!value)
		reader->damaged = true;
	return value;
}

static uint64_t take_u64(struct reader *reader, const json_t *object, const char *key)
{
	const json_t *value = take(reader, object, key);
	if (!json_is_integer(value) || json_integer_value(value) < 0) {
		reader->damaged = true;
		return 0;
	}
	return (uint64_t)json_integer_value(value);
}

static const char *take_text(struct reader *reader, const json_t *object, const char *key)
{
	const char *text = json_string_value(take(reader, object, key));
	if (!text)
		reader->damaged = true;
	return text ? text : "";
}

static uint64_t take_hex(struct reader *reader, const json_t *object, const char *key)
{
	const char *text = take_text(reader, object, key);
	char *end;
	uint64_t value = strtoull(text, &end, 16);
	if (end != text + 16 || *end)
		reader->damaged = true;
	return value;
}

static int manifest_damaged(const char *path, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s is damaged, or not a manifest of this version of penstock pack; move it and "
		"its "
		"shards away and start again",
		path);
}

static int manifest_differs(
	const char *path, const char *what, const char *now, const char *then, struct fault *fault)
{
	return fault_set(fault, -EEXIST,
		"%s belongs to another pack: %s is %s now and was %s then; run the same command as "
		"then, choose another output, or move the manifest and its shards away",
		path, what, now, then);
}

/* A value as the command line shows it: 0 and "no" mean that it was not given. */
static const char *option_said(const struct option_row *row, const char *value)
{
	if (strcmp(row->name, "verify") == 0)
		return strcmp(value, "yes") == 0 ? "not given" : "given";
	bool lossy = strcmp(row->name, "max_side") == 0 || strcmp(row->name, "quality") == 0;
	return lossy && strcmp(value, "0") == 0 ? "not given" : value;
}

static void option_flag(const char *name, char *out, size_t room)
{
	(void)snprintf(out, room, "--%s%s", strcmp(name, "verify") == 0 ? "no-" : "", name);
	for (char *c = out; *c; c++)
		if (*c == '_')
			*c = '-';
}

static int compare_options(const struct manifest *manifest, struct reader *reader,
	const json_t *root, struct fault *fault)
{
	struct option_row rows[OPTION_ROWS];
	const json_t *options = take(reader, root, "options");
	option_rows(&manifest->recipe, rows);
	for (size_t i = 0; i < OPTION_ROWS; i++) {
		char then[OPTION_TEXT], flag[40];
		if (rows[i].number)
			(void)snprintf(then, sizeof then, "%" PRIu64,
				take_u64(reader, options, rows[i].name));
		else
			(void)snprintf(
				then, sizeof then, "%s", take_text(reader, options, rows[i].name));
		if (reader->damaged)
			return manifest_damaged(reader->path, fault);
		option_flag(rows[i].name, flag, sizeof flag);
		if (strcmp(then, rows[i].text) != 0)
			return manifest_differs(reader->path, flag,
				option_said(&rows[i], rows[i].text), option_said(&rows[i], then),
				fault);
	}
	/* Earlier releases wrote no such option. */
	char now[OPTION_FIELDS];
	const char *then = json_string_value(json_object_get(options, "fields"));
	(void)option_fields(&manifest->recipe, now);
	if (strcmp(then ? then : "", now) != 0)
		return manifest_differs(reader->path, "--fields", *now ? now : "not given",
			then ? then : "not given", fault);
	return 0;
}

static int compare_source(const struct manifest *manifest, struct reader *reader,
	const json_t *root, struct fault *fault)
{
	const json_t *source = take(reader, root, "source");
	const char *pattern = take_text(reader, root, "pattern");
	char now[64], then[64];
	uint64_t fingerprint = take_hex(reader, source, "fingerprint");
	uint64_t samples = take_u64(reader, source, "samples");
	if (reader->damaged)
		return manifest_damaged(reader->path, fault);
	if (strcmp(pattern, manifest->pattern) != 0)
		return manifest_differs(
			reader->path, "the output", manifest->pattern, pattern, fault);
	if (fingerprint == manifest->source_fingerprint && samples == manifest->source_samples)
		return 0;
	(void)snprintf(now, sizeof now, "%016" PRIx64 " with %" PRIu64 " samples",
		manifest->source_fingerprint, manifest->source_samples);
	(void)snprintf(
		then, sizeof then, "%016" PRIx64 " with %" PRIu64 " samples", fingerprint, samples);
	return manifest_differs(reader->path, "the source's fingerprint", now, then, fault);
}

static int read_shards(
	struct manifest *manifest, struct reader *reader, const json_t *root, struct fault *fault)
{
	size_t i;
	json_t *value;
	const json_t *shards = take(reader, root, "shards");
	json_array_foreach(shards, i, value)
	{
		struct manifest_shard shard = {
			.samples = take_u64(reader, value, "samples"),
			.bytes = take_u64(reader, value, "bytes"),
		};
		(void)snprintf(
			shard.name, sizeof shard.name, "%s", take_text(reader, value, "name"));
		int r = manifest_add_shard(manifest, &shard, fault);
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_broken(
	struct manifest *manifest, struct reader *reader, const json_t *root, struct fault *fault)
{
	size_t i;
	json_t *value;
	const json_t *broken = take(reader, root, "broken");
	json_array_foreach(broken, i, value)
	{
		int r = manifest_add_broken(manifest, take_u64(reader, value, "index"),
			take_text(reader, value, "path"), take_text(reader, value, "reason"),
			take_text(reader, value, "message"), fault);
		if (r < 0)
			return r;
	}
	manifest->broken_count = take_u64(reader, root, "broken_count");
	return 0;
}

static void read_progress(struct manifest *manifest, struct reader *reader, const json_t *root)
{
	manifest->complete = json_is_true(take(reader, root, "complete"));
	manifest->next = take_u64(reader, root, "next");
	manifest->digest = take_hex(reader, root, "digest");
	manifest->samples = take_u64(reader, root, "samples");
	manifest->bytes_in = take_u64(reader, root, "bytes_in");
	manifest->bytes_out = take_u64(reader, root, "bytes_out");
	manifest->stored_in = take_u64(reader, root, "stored_in");
	manifest->stored_out = take_u64(reader, root, "stored_out");
	manifest->renamed = take_u64(reader, root, "renamed");
	const json_t *images = take(reader, root, "images");
	for (int i = 0; i < IMAGE_HOWS; i++)
		manifest->how[i] = take_u64(reader, images, image_how_name((enum image_how)i));
}

/* Counts that contradict each other show that a user has edited the file. */
static bool manifest_adds_up(const struct manifest *manifest)
{
	uint64_t in_shards = 0, made = 0;
	for (size_t i = 0; i < manifest->shards; i++)
		in_shards += manifest->shard[i].samples;
	for (int i = 0; i < IMAGE_HOWS; i++)
		made += manifest->how[i];
	return in_shards == manifest->samples && made == manifest->samples &&
	       manifest->samples + manifest->broken_count == manifest->next &&
	       manifest->next <= manifest->source_samples &&
	       manifest->broken_listed <= manifest->broken_count &&
	       manifest->digest < DIGEST_PRIME &&
	       (!manifest->complete || manifest->next == manifest->source_samples);
}

static int manifest_take(
	struct manifest *manifest, struct reader *reader, const json_t *root, struct fault *fault)
{
	if (take_u64(reader, root, "penstock_pack") != MANIFEST_VERSION || reader->damaged)
		return manifest_damaged(reader->path, fault);
	int r = compare_source(manifest, reader, root, fault);
	if (r == 0)
		r = compare_options(manifest, reader, root, fault);
	if (r == 0)
		r = read_shards(manifest, reader, root, fault);
	if (r == 0)
		r = read_broken(manifest, reader, root, fault);
	if (r < 0)
		return r;
	read_progress(manifest, reader, root);
	/* Older manifests have none. */
	bool checks = !json_object_get(root, "check") ||
		      take_hex(reader, root, "check") == manifest_check(manifest);
	return reader->damaged || !checks || !manifest_adds_up(manifest)
		       ? manifest_damaged(reader->path, fault)
		       : 0;
}

int manifest_read(struct manifest *manifest, const char *text, size_t size, const char *path,
	struct fault *fault)
{
	struct reader reader = {.path = path};
	json_t *root = json_read(text, size, JSON_PARTS_ANY, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_object(root)) {
		json_decref(root);
		return manifest_damaged(path, fault);
	}
	int r = manifest_take(manifest, &reader, root, fault);
	json_decref(root);
	return r;
}
