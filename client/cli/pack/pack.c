/* pack: see pack.h. All of it runs on the caller's thread; pipeline.c has the other threads. */
#include "client/cli/pack/pack.h"

#include "base/size.h"
#include "base/util.h"
#include "client/cli/pack/cost.h"
#include "client/cli/pack/key.h"
#include "client/cli/pack/output.h"
#include "client/cli/pack/pipeline.h"
#include "client/cli/pack/tarwrite.h"
#include "dataset/digest.h"
#include "remote/url.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	PACK_TICK_NS = 100000000,
	PACK_MEMBER_BYTES = 2048, /* at most, for headers and padding of image and label */
	PACK_PATH = 8300, /* SHARD!MEMBER */
	PACK_LABEL = 24,
};

struct pack {
	const struct dataset *dataset;
	const struct pattern *pattern;
	const struct pack_options *options;
	struct manifest *manifest;
	struct output place;
	struct permit work, decoders;
	struct pipeline *pipeline;
	struct key_set keys; /* of the open shard */

	/* The fields of the sample that is being written. */
	struct pack_field {
		uint8_t *bytes; /* FIELD_BYTES_MAX; NULL: the recipe has no such field */
		uint32_t size;
		bool present;
	} field[FIELDS_MAX];

	/* The open shard, and what it adds to the manifest once it is finished. */
	bool open;
	int fd;
	char path[PATTERN_PATH + PATTERN_NAME]; /* for faults */
	struct manifest_shard shard;
	struct tarwrite tar;
};

uint64_t pack_thread_bytes(const struct recipe *recipe)
{
	return image_maker_bytes(&recipe->image);
}

/* ---- checks before writing ---- */

/* Whether a path is inside a folder; both without symbolic links. */
static bool path_is_in(const char *path, const char *folder)
{
	size_t n = strlen(folder);
	while (n && folder[n - 1] == '/')
		n--;
	return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* Without symbolic links. A URL has none. NULL: there is nothing at the path. */
static char *path_resolved(const char *path)
{
	return remote_is_url(path) ? strdup(path) : realpath(path, NULL);
}

static int pack_check_folder(const struct pack *pack, struct fault *fault)
{
	cleanup(free_ptr) char *out = path_resolved(pack->pattern->folder);
	cleanup(free_ptr) char *source = path_resolved(dataset_shard_path(pack->dataset, 0));
	if (out && source && path_is_in(out, source))
		return fault_set(fault, -EINVAL,
			"the output %s is inside the source %s and would change it; choose a "
			"folder beside it",
			out, source);
	return 0;
}

static int pack_refuse_shard(const char *path, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s is part of the source and would be part of the output; choose another "
		"output or name the source without it",
		path);
}

/* Refuses a shard of the source that this pack would write. */
static int pack_check_shard(const struct pack *pack, const char *path, const struct stat *out,
	char seen[PATH_MAX], bool *is_out, struct fault *fault)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) + 1 : 0;
	if (!slash || n >= PATH_MAX || !pattern_matches(pack->pattern, slash + 1))
		return 0;
	if (strlen(seen) != n || strncmp(seen, path, n) != 0) {
		struct stat status;
		(void)snprintf(seen, PATH_MAX, "%.*s", (int)n, path);
		*is_out = stat(seen, &status) == 0 && status.st_dev == out->st_dev &&
			  status.st_ino == out->st_ino;
	}
	return *is_out ? pack_refuse_shard(path, fault) : 0;
}

/* The same for URLs. */
static int pack_check_objects(const struct pack *pack, struct fault *fault)
{
	for (uint32_t i = 0; i < dataset_shards(pack->dataset); i++) {
		const char *path = dataset_shard_path(pack->dataset, i);
		const char *slash = strrchr(path, '/');
		const size_t n = strlen(pack->pattern->folder);
		if (slash && (size_t)(slash - path) == n &&
			!strncmp(path, pack->pattern->folder, n) &&
			pattern_matches(pack->pattern, slash + 1))
			return pack_refuse_shard(path, fault);
	}
	return 0;
}

static int pack_check_shards(const struct pack *pack, struct fault *fault)
{
	char seen[PATH_MAX] = "";
	bool is_out = false;
	struct stat out;
	if (remote_is_url(pack->pattern->folder))
		return pack_check_objects(pack, fault);
	if (stat(pack->pattern->folder, &out) < 0)
		return 0; /* output_folder_open says why */
	for (uint32_t i = 0; i < dataset_shards(pack->dataset); i++) {
		int r = pack_check_shard(
			pack, dataset_shard_path(pack->dataset, i), &out, seen, &is_out, fault);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The bytes still to write, at most, if no image grows. */
static uint64_t pack_estimate(const struct pack *pack)
{
	const struct manifest *manifest = pack->manifest;
	uint64_t bytes =
		manifest->source_bytes - UTIL_MIN(manifest->bytes_in, manifest->source_bytes);
	return bytes + (manifest->source_samples - manifest->next) * PACK_MEMBER_BYTES;
}

static int pack_check_room(const struct pack *pack, struct fault *fault)
{
	const struct image_options *image = &pack->options->recipe.image;
	uint64_t room, needed = pack_estimate(pack);
	char has[16], wants[16], text[FAULT_TEXT];
	/* An output in a bucket has only one shard at a time on a disk. */
	if (pack->place.remote)
		needed = UTIL_MIN(needed, pack->options->recipe.shard_bytes);
	int r = output_room(&pack->place, &room, fault);
	if (r < 0 || room >= needed)
		return r;
	(void)snprintf(text, sizeof text, "%s has %s free, but pack may need %s",
		output_scratch(&pack->place), size_format(room, has, sizeof has),
		size_format(needed, wants, sizeof wants));
	if (pack->place.remote)
		return fault_set(fault, -ENOSPC,
			"%s for a tar file before it is uploaded; set TMPDIR to a folder with more "
			"room, or give a smaller --shard-size",
			text);
	if (!image->max_side && !image->quality)
		return fault_set(fault, -ENOSPC,
			"%s; make room, or choose an output on another file system", text);
	/* The size of lossy images is unknown beforehand. */
	size_t n = strlen(text);
	(void)snprintf(text + n, sizeof text - n,
		" if no image becomes smaller; if the room runs out, make room and run the same "
		"command again");
	if (pack->options->note)
		pack->options->note(pack->options->context, text);
	return 0;
}

/* The pattern needs enough digits for all shards: better to refuse it now than after ten hours. */
static int pack_check_digits(const struct pack *pack, struct fault *fault)
{
	char name[PATTERN_NAME];
	const struct image_options *image = &pack->options->recipe.image;
	if (image->max_side || image->quality)
		return 0;
	/* About this many; a few more, because shards are not filled completely. */
	uint64_t last = pack_estimate(pack) / pack->options->recipe.shard_bytes;
	return pattern_shard(pack->pattern, last, name, fault);
}

/* ---- shards ---- */

static int pack_write_manifest(struct pack *pack, struct fault *fault)
{
	cleanup(free_ptr) char *text = manifest_text(pack->manifest, pack->dataset);
	if (!text)
		return fault_set(fault, -ENOMEM, "not enough memory for the manifest");
	return output_manifest_write(&pack->place, text, fault);
}

static int pack_open_shard(struct pack *pack, struct fault *fault)
{
	pack->shard = (struct manifest_shard){.samples = 0};
	int r = pattern_shard(pack->pattern, pack->manifest->shards, pack->shard.name, fault);
	if (r < 0)
		return r;
	/* For errors: where the bytes are on this machine. */
	(void)snprintf(pack->path, sizeof pack->path, "%s/%s.part", output_scratch(&pack->place),
		pack->shard.name);
	pack->fd = output_shard_create(&pack->place, pack->shard.name, fault);
	if (pack->fd < 0)
		return pack->fd;
	r = tarwrite_init(&pack->tar, pack->fd, pack->path, fault);
	if (r < 0) {
		util_close_fd(&pack->fd);
		return r;
	}
	key_set_clear(&pack->keys);
	pack->manifest->stored_out += TARWRITE_END;
	pack->open = true;
	return 0;
}

static void pack_close_shard(struct pack *pack)
{
	tarwrite_deinit(&pack->tar);
	util_close_fd(&pack->fd);
	pack->fd = -1;
	pack->open = false;
}

/* An unfinished shard is useless, and its room is needed. */
static void pack_drop_shard(struct pack *pack)
{
	if (!pack->open)
		return;
	pack_close_shard(pack);
	output_shard_remove(&pack->place, pack->shard.name);
}

/* Stores the shard, lists it in the manifest, puts it into place: in this order (output.h). */
static int pack_finish_shard(struct pack *pack, struct fault *fault)
{
	int r = tarwrite_end(&pack->tar, fault);
	pack->shard.bytes = pack->tar.size;
	if (r == 0)
		r = output_shard_store(
			&pack->place, pack->shard.name, pack->fd, pack->shard.bytes, fault);
	if (r < 0)
		return r;
	pack_close_shard(pack);
	r = manifest_add_shard(pack->manifest, &pack->shard, fault);
	if (r == 0)
		r = pack_write_manifest(pack, fault);
	return r < 0 ? r : output_shard_commit(&pack->place, pack->shard.name, fault);
}

/* ---- samples ---- */

/* A sample as it is stored in a shard. */
struct member {
	char key[KEY_ROOM], image[KEY_ROOM + 8], label[KEY_ROOM + 8], label_text[PACK_LABEL];
	size_t label_size;
};

static void member_names(struct member *member, const struct pipeline_item *item)
{
	(void)snprintf(
		member->image, sizeof member->image, "%s.%s", member->key, item->image->extension);
	(void)snprintf(member->label, sizeof member->label, "%s.cls", member->key);
	member->label_size = (size_t)snprintf(
		member->label_text, sizeof member->label_text, "%" PRId64, item->label);
}

enum { MEMBER_FIELD = KEY_ROOM + FIELD_NAME_MAX + 2 };

static const char *member_field(
	const struct pack *pack, const struct member *member, uint32_t i, char buffer[MEMBER_FIELD])
{
	(void)snprintf(buffer, MEMBER_FIELD, "%s.%s", member->key,
		pack->options->recipe.fields.at[i].name);
	return buffer;
}

/* Whether the field is stored: the label takes the place of a field .cls. */
static bool member_has(const struct pack *pack, uint32_t i)
{
	const struct field_list *fields = &pack->options->recipe.fields;
	return pack->field[i].present &&
	       !(pack->manifest->labelled && strcmp(fields->at[i].name, "cls") == 0);
}

static uint64_t member_bytes(const struct pack *pack, const struct member *member, uint64_t size)
{
	char name[MEMBER_FIELD];
	uint64_t bytes = tarwrite_member_bytes(member->image, size);
	if (pack->manifest->labelled)
		bytes += tarwrite_member_bytes(member->label, member->label_size);
	for (uint32_t i = 0; i < pack->options->recipe.fields.count; i++)
		if (member_has(pack, i))
			bytes += tarwrite_member_bytes(
				member_field(pack, member, i, name), pack->field[i].size);
	return bytes;
}

static int pack_write_member(struct pack *pack, const struct member *member,
	const struct image_choice *image, struct fault *fault)
{
	int r = tarwrite_member(&pack->tar, member->image, image->bytes, image->size, fault);
	if (r == 0 && pack->manifest->labelled)
		r = tarwrite_member(
			&pack->tar, member->label, member->label_text, member->label_size, fault);
	for (uint32_t i = 0; r == 0 && i < pack->options->recipe.fields.count; i++) {
		char name[MEMBER_FIELD];
		if (member_has(pack, i))
			r = tarwrite_member(&pack->tar, member_field(pack, member, i, name),
				pack->field[i].bytes, pack->field[i].size, fault);
	}
	return r;
}

/* Reads the fields of a sample. A field that is too long must not be cut without notice. */
static int pack_read_fields(struct pack *pack, uint64_t number, struct fault *fault)
{
	const struct field_list *fields = &pack->options->recipe.fields;
	char path[PACK_PATH];
	for (uint32_t i = 0; i < fields->count; i++) {
		struct pack_field *field = &pack->field[i];
		bool longer = false;
		int r = dataset_field_read(pack->dataset, number, fields, i, field->bytes,
			&field->size, &longer, fault);
		if (r < 0)
			return r;
		field->present = r == 0;
		if (!longer || r)
			continue;
		r = dataset_path(pack->dataset, number, path, sizeof path, fault);
		return r < 0 ? r
			     : fault_set(fault, -EINVAL,
				       "the .%s beside %s has more than %d bytes, the most that a "
				       "field may have: leave it out of --fields",
				       fields->at[i].name, path, FIELD_BYTES_MAX);
	}
	return 0;
}

static int pack_take_room(struct pack *pack, struct fault *fault)
{
	for (uint32_t i = 0; i < pack->options->recipe.fields.count; i++) {
		pack->field[i].bytes = malloc(FIELD_BYTES_MAX);
		if (!pack->field[i].bytes)
			return fault_set(fault, -ENOMEM, "not enough memory for the fields");
	}
	return 0;
}

/* The bytes that an image takes in the source: in a tar, its header and padding, too. */
static uint64_t pack_stored_in(const struct pack *pack, const struct pipeline_item *item)
{
	return dataset_kind(pack->dataset) == DATASET_FOLDER
		       ? item->bytes_in
		       : tarwrite_member_bytes(item->name, item->bytes_in);
}

/* The first choice with which the tars do not become larger than what was read: images that
 * shrink pay for the headers and restart markers of others. It runs in sample order, so no
 * thread affects it. */
static const struct image_choice *pack_choose(
	const struct pack *pack, const struct member *member, const struct pipeline_item *item)
{
	const struct manifest *manifest = pack->manifest;
	const struct image *image = item->image;
	uint64_t in = manifest->stored_in + pack_stored_in(pack, item);
	unsigned i = 0;
	while (i + 1 < image->choices &&
		manifest->stored_out + tarwrite_member_bytes(member->image, image->choice[i].size) >
			in)
		i++;
	return &image->choice[i];
}

static void pack_count(struct pack *pack, const struct member *member,
	const struct pipeline_item *item, const struct image_choice *image)
{
	struct manifest *manifest = pack->manifest;
	int64_t label = manifest->labelled ? item->label : -1;
	uint64_t hash = digest_sample(member->key, strlen(member->key), image->size, label);
	manifest->digest = digest_append(manifest->digest, hash);
	manifest->samples++;
	manifest->bytes_in += item->bytes_in;
	manifest->bytes_out += image->size;
	manifest->stored_in += pack_stored_in(pack, item);
	manifest->stored_out += tarwrite_member_bytes(member->image, image->size);
	manifest->how[image->how]++;
	pack->shard.samples++;
}

/* Finishes the open shard if the sample would make it too large. The key of the sample may then
 * change, because keys are unique within a shard. */
static int pack_make_room(
	struct pack *pack, const struct member *member, uint64_t size, struct fault *fault)
{
	int r = 0;
	uint64_t end = pack->tar.size + member_bytes(pack, member, size) + TARWRITE_END;
	if (pack->open && pack->shard.samples && end > pack->options->recipe.shard_bytes)
		r = pack_finish_shard(pack, fault);
	if (r == 0 && !pack->open)
		r = pack_open_shard(pack, fault);
	return r;
}

static int pack_good(struct pack *pack, const struct pipeline_item *item, struct fault *fault)
{
	struct member member;
	int read = pack_read_fields(pack, item->number, fault);
	if (read < 0)
		return read;
	key_of(item->name, dataset_kind(pack->dataset) == DATASET_FOLDER, member.key);
	member_names(&member, item);
	const struct image_choice *image = pack_choose(pack, &member, item);
	int r = pack_make_room(pack, &member, image->size, fault);
	if (r < 0)
		return r;
	int renamed = key_claim(&pack->keys, member.key, fault);
	if (renamed < 0)
		return renamed;
	member_names(&member, item);
	r = pack_write_member(pack, &member, image, fault);
	if (r < 0)
		return r;
	pack->manifest->renamed += (uint64_t)renamed;
	pack_count(pack, &member, item, image);
	return 0;
}

static int pack_broken(struct pack *pack, const struct pipeline_item *item, struct fault *fault)
{
	char path[PACK_PATH];
	int r = dataset_path(pack->dataset, item->number, path, sizeof path, fault);
	if (r < 0)
		return r;
	return manifest_add_broken(
		pack->manifest, item->number, path, item->broken, item->message, fault);
}

static int pack_item(struct pack *pack, const struct pipeline_item *item, struct fault *fault)
{
	int r = item->broken ? pack_broken(pack, item, fault) : pack_good(pack, item, fault);
	if (r == 0)
		pack->manifest->next = item->number + 1;
	return r;
}

static void pack_tell(const struct pack *pack)
{
	const struct manifest *manifest = pack->manifest;
	if (pack->options->progress)
		pack->options->progress(pack->options->context, manifest->next, manifest->bytes_in,
			manifest->bytes_out);
}

/* Runs until the last sample or a fault. */
static int pack_samples(struct pack *pack, struct fault *fault)
{
	for (;;) {
		struct pipeline_item item;
		int r = pipeline_next(pack->pipeline, PACK_TICK_NS, &item, fault);
		if (r == PIPELINE_E_END || r < 0)
			return r < 0 ? r : 0;
		if (r == PIPELINE_ITEM) {
			r = pack_item(pack, &item, fault);
			pipeline_done(pack->pipeline);
			if (r < 0)
				return r;
		}
		pack_tell(pack);
	}
}

static int pack_finish(struct pack *pack, struct fault *fault)
{
	int r = 0;
	if (pack->open)
		r = pack_finish_shard(pack, fault);
	if (r < 0)
		return r;
	pack->manifest->complete = true;
	return pack_write_manifest(pack, fault);
}

/* ---- from the beginning to the end ---- */

/* Reads what an earlier run packed, if there was one. */
static int pack_resume(struct pack *pack, struct fault *fault)
{
	char *text;
	size_t size;
	int r = output_manifest_read(&pack->place, &text, &size, fault);
	if (r == 0) {
		r = manifest_read(
			pack->manifest, text, size, output_manifest_path(&pack->place), fault);
		free(text);
	} else if (r == -ENOENT) {
		r = 0;
	}
	return r < 0 ? r : output_settle(&pack->place, pack->manifest, fault);
}

/* No room: finished shards stay. */
static int pack_explain(const struct pack *pack, int error, struct fault *fault)
{
	if (error != -ENOSPC && error != -EDQUOT && error != -EFBIG)
		return error;
	char why[FAULT_TEXT];
	(void)snprintf(why, sizeof why, "%s", fault->text);
	return fault_set(fault, error,
		"%s; %zu shard%s finished and stay%s: make room and run the same command again to "
		"continue",
		why, pack->manifest->shards, pack->manifest->shards == 1 ? " is" : "s are",
		pack->manifest->shards == 1 ? "s" : "");
}

static void pack_cost(struct pack *pack)
{
	const struct recipe *recipe = &pack->options->recipe;
	const struct cost_options options = {
		.image = recipe->image,
		.memory = {&pack->work, &pack->decoders},
		.largest = recipe->memory_bytes / 8 / pack->options->threads,
		.threads = pack->options->threads,
		.first = pack->manifest->next,
	};
	struct cost cost;
	if (pack->options->cost && cost_measure(pack->dataset, &options, &cost))
		pack->options->cost(pack->options->context, &cost);
}

static int pack_start(struct pack *pack, struct fault *fault)
{
	const struct recipe *recipe = &pack->options->recipe;
	int r = pack_check_digits(pack, fault);
	if (r == 0)
		r = pack_check_room(pack, fault);
	if (r < 0)
		return r;
	pack_cost(pack);
	/* From here on, temporary files belong to this pack. */
	r = pack_write_manifest(pack, fault);
	if (r < 0)
		return pack_explain(pack, r, fault);
	struct pipeline_options options = {
		.image = recipe->image,
		.memory = {&pack->work, &pack->decoders},
		.window_bytes = recipe->memory_bytes / 8,
		.threads = pack->options->threads,
		.first = pack->manifest->next,
	};
	return pipeline_new(pack->dataset, &options, &pack->pipeline, fault);
}

static int pack_all(struct pack *pack, struct fault *fault)
{
	int r = pack_take_room(pack, fault);
	if (r == 0)
		r = pack_start(pack, fault);
	if (r < 0)
		return r;
	r = pack_samples(pack, fault);
	if (r == 0)
		r = pack_finish(pack, fault);
	pipeline_free(pack->pipeline);
	pack_drop_shard(pack);
	key_set_deinit(&pack->keys);
	return r < 0 ? pack_explain(pack, r, fault) : 0;
}

static int pack_look(struct pack *pack, struct fault *fault)
{
	int r = dataset_kind(pack->dataset) == DATASET_FOLDER ? pack_check_folder(pack, fault)
							      : pack_check_shards(pack, fault);
	if (r == 0)
		r = output_open(&pack->place, pack->pattern, fault);
	return r < 0 ? r : pack_resume(pack, fault);
}

int pack_run(const struct dataset *dataset, const struct pattern *pattern,
	const struct pack_options *options, struct pack_result *ret, struct fault *fault)
{
	*ret = (struct pack_result){.resumed_from = 0};
	struct pack pack = {
		.dataset = dataset,
		.pattern = pattern,
		.options = options,
		.manifest = &ret->manifest,
		.fd = -1,
	};
	permit_init(&pack.work, options->recipe.memory_bytes / 2);
	permit_init(&pack.decoders, options->recipe.memory_bytes / 8 * 3);
	manifest_begin(&ret->manifest, dataset, pattern, &options->recipe);
	int r = pack_look(&pack, fault);
	if (r == 0) {
		ret->resumed_from = ret->manifest.next;
		ret->was_complete = ret->manifest.complete;
		if (!ret->was_complete)
			r = pack_all(&pack, fault);
	}
	output_close(&pack.place);
	for (uint32_t i = 0; i < FIELDS_MAX; i++)
		free(pack.field[i].bytes);
	permit_deinit(&pack.work);
	permit_deinit(&pack.decoders);
	return r;
}
