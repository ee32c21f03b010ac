/* output: see output.h. */
#include "client/cli/pack/output.h"

#include "remote/url.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int output_open(struct output *output, const struct pattern *pattern, struct fault *fault)
{
	*output = (struct output){.pattern = pattern, .remote = remote_is_url(pattern->folder)};
	return output->remote ? output_bucket_open(&output->bucket, pattern, fault)
			      : output_folder_open(&output->folder, pattern, fault);
}

void output_close(struct output *output)
{
	if (output->pattern && !output->remote)
		output_folder_close(&output->folder);
	*output = (struct output){0};
}

const char *output_manifest_path(const struct output *output)
{
	return output->remote ? output->bucket.manifest_path : output->folder.manifest_path;
}

int output_manifest_read(
	struct output *output, char **ret_text, size_t *ret_size, struct fault *fault)
{
	return output->remote
		       ? output_bucket_manifest_read(&output->bucket, ret_text, ret_size, fault)
		       : output_folder_manifest_read(&output->folder, ret_text, ret_size, fault);
}

int output_manifest_write(struct output *output, const char *text, struct fault *fault)
{
	return output->remote ? output_bucket_manifest_write(&output->bucket, text, fault)
			      : output_folder_manifest_write(&output->folder, text, fault);
}

int output_settle(const struct output *output, const struct manifest *manifest, struct fault *fault)
{
	return output->remote ? output_bucket_settle(&output->bucket, manifest, fault)
			      : output_folder_settle(&output->folder, manifest, fault);
}

int output_shard_create(const struct output *output, const char *name, struct fault *fault)
{
	return output->remote ? output_bucket_shard_create(fault)
			      : output_folder_shard_create(&output->folder, name, fault);
}

int output_shard_store(
	const struct output *output, const char *name, int fd, uint64_t bytes, struct fault *fault)
{
	if (output->remote)
		return output_bucket_shard_store(&output->bucket, name, fd, bytes, fault);
	return fsync(fd) < 0 ? fault_set(fault, -errno, "%s/%s.part cannot be written: %s",
				       output->pattern->folder, name, strerror(errno))
			     : 0;
}

int output_shard_commit(const struct output *output, const char *name, struct fault *fault)
{
	return output->remote ? 0 : output_folder_shard_commit(&output->folder, name, fault);
}

void output_shard_remove(const struct output *output, const char *name)
{
	if (!output->remote)
		output_folder_shard_remove(&output->folder, name);
}

const char *output_scratch(const struct output *output)
{
	return output->remote ? output_bucket_scratch() : output->pattern->folder;
}

int output_room(const struct output *output, uint64_t *ret_bytes, struct fault *fault)
{
	return output->remote ? output_bucket_room(ret_bytes, fault)
			      : output_folder_room(&output->folder, ret_bytes, fault);
}
