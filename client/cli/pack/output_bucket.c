/* output_bucket: see output_bucket.h. */
#include "client/cli/pack/output_bucket.h"

#include "base/store.h"
#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

enum { BUCKET_MANIFEST_MOST = 1 << 30, BUCKET_URL = PATTERN_PATH + PATTERN_NAME };

static void bucket_url(const struct output_bucket *place, const char *name, char ret[BUCKET_URL])
{
	(void)snprintf(ret, BUCKET_URL, "%s/%s", place->pattern->folder, name);
}

int output_bucket_open(
	struct output_bucket *place, const struct pattern *pattern, struct fault *fault)
{
	*place = (struct output_bucket){.pattern = pattern};
	(void)snprintf(place->manifest_path, sizeof place->manifest_path, "%s/%s.pack.json",
		pattern->folder, pattern->stem);
	return upload_check(pattern->folder, fault);
}

/* ---- the manifest ---- */

int output_bucket_manifest_read(
	struct output_bucket *place, char **ret_text, size_t *ret_size, struct fault *fault)
{
	int r = upload_read(
		place->manifest_path, BUCKET_MANIFEST_MOST, ret_text, &place->manifest, fault);
	place->begun = r == 1;
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*ret_size = (size_t)place->manifest.size;
	return 0;
}

int output_bucket_manifest_write(struct output_bucket *place, const char *text, struct fault *fault)
{
	struct upload_found written;
	int r = upload_write(place->manifest_path, text, strlen(text),
		place->begun ? &place->manifest : NULL, &written, fault);
	if (r == -EEXIST)
		return fault_set(fault, -EBUSY,
			"%s was written by another penstock pack; wait for it or choose another "
			"output",
			place->manifest_path);
	if (r < 0)
		return r;
	place->begun = true;
	place->manifest = written;
	return 0;
}

/* ---- shards ---- */

struct settling {
	const struct output_bucket *place;
	const struct manifest *manifest;
	bool *found; /* of each shard of the manifest */
};

static int bucket_occupied(const struct output_bucket *place, const char *name, struct fault *fault)
{
	return fault_set(fault, -EEXIST,
		"%s/%s exists, but %s does not list it, so it does not belong to this pack: "
		"nothing is overwritten; choose another output or move it away",
		place->pattern->folder, name, place->manifest_path);
}

static int bucket_changed(const struct output_bucket *place, const struct manifest_shard *shard,
	const char *how, struct fault *fault)
{
	return fault_set(fault, -ESTALE,
		"%s lists %s with %" PRIu64 " bytes, but it %s; put it back, or move the manifest "
		"and its shards away and begin again",
		place->manifest_path, shard->name, shard->bytes, how);
}

static int settle_object(void *context, const char *name, uint64_t size, struct fault *fault)
{
	const struct settling *settling = context;
	const struct output_bucket *place = settling->place;
	const struct manifest *manifest = settling->manifest;
	char next[PATTERN_NAME];
	if (!pattern_matches(place->pattern, name))
		return 0;
	unsigned long long number = strtoull(name + strlen(place->pattern->prefix), NULL, 10);
	if (number < manifest->shards && !strcmp(manifest->shard[number].name, name)) {
		settling->found[number] = true;
		return size == manifest->shard[number].bytes
			       ? 0
			       : bucket_changed(place, &manifest->shard[number], "has another size",
					 fault);
	}
	/* The one whose upload was the last thing that an interrupted run did. */
	if (place->begun && !manifest->complete && number == manifest->shards &&
		pattern_shard(place->pattern, number, next, NULL) == 0 && !strcmp(next, name))
		return 0;
	return bucket_occupied(place, name, fault);
}

static int settle_upload(void *context, const char *name, uint64_t size, struct fault *fault)
{
	const struct output_bucket *place = context;
	(void)size, (void)fault;
	return pattern_matches(place->pattern, name);
}

int output_bucket_settle(
	const struct output_bucket *place, const struct manifest *manifest, struct fault *fault)
{
	char prefix[BUCKET_URL];
	cleanup(free_ptr) bool *found = calloc(manifest->shards + 1, sizeof *found);
	struct settling settling = {place, manifest, found};
	if (!found)
		return fault_set(fault, -ENOMEM, "not enough memory for the list of shards");
	bucket_url(place, place->pattern->prefix, prefix);
	int r = upload_list(prefix, settle_object, &settling, fault);
	for (size_t i = 0; r == 0 && i < manifest->shards; i++)
		if (!found[i])
			r = bucket_changed(place, &manifest->shard[i], "is missing", fault);
	/* Without a manifest they are not of this pack. */
	if (r == 0 && place->begun && !manifest->complete)
		r = upload_sweep(
			prefix, settle_upload, (void *)(uintptr_t)(const void *)place, fault);
	return r;
}

const char *output_bucket_scratch(void)
{
	const char *folder = getenv("TMPDIR");
	return folder && *folder ? folder : "/tmp";
}

int output_bucket_shard_create(struct fault *fault)
{
	int fd = store_unlinked(NULL);
	return fd < 0 ? fault_set(fault, fd,
				"a temporary file for a shard cannot be made in %s (TMPDIR): %s",
				output_bucket_scratch(), strerror(-fd))
		      : fd;
}

int output_bucket_shard_store(const struct output_bucket *place, const char *name, int fd,
	uint64_t bytes, struct fault *fault)
{
	char url[BUCKET_URL];
	bucket_url(place, name, url);
	int r = upload_file(url, fd, bytes, fault);
	return r == -EEXIST ? bucket_occupied(place, name, fault) : r;
}

int output_bucket_room(uint64_t *ret_bytes, struct fault *fault)
{
	struct statvfs status;
	if (statvfs(output_bucket_scratch(), &status) < 0)
		return fault_set(fault, -errno, "cannot find out the free space in %s (TMPDIR): %s",
			output_bucket_scratch(), strerror(errno));
	*ret_bytes = (uint64_t)status.f_bavail * status.f_frsize;
	return 0;
}
