/* index_sample: writes a sample with the label that a rule found for it into an index.
 *
 * All labels of an index have one type; if none was asked for, the type of the first label. The
 * head stores the type and the width. A single class is the record's own label. Lists of classes
 * and numbers are stored after the sample's name; the fingerprint covers them. */
#include "dataset/container.h"

#include "base/util.h"
#include "dataset/digest.h"

#include <errno.h>
#include <string.h>

static const char *const type_names[] = {
	[LABEL_TYPE_CLASS] = "one class",
	[LABEL_TYPE_MULTI_HOT] = "a list of classes",
	[LABEL_TYPE_FLOAT] = "numbers",
};

static int type_check(struct index_head *head, const struct label_found *found, struct fault *fault)
{
	if (head->label_type == LABEL_TYPE_AUTO)
		head->label_type = found->type;
	if (head->label_type != (uint32_t)found->type)
		return fault_set(fault, -EINVAL,
			"its label is %s, but the labels before it are %s: say which with type: "
			"class, multi_hot or float",
			type_names[found->type], type_names[head->label_type]);
	if (found->type == LABEL_TYPE_FLOAT && head->samples && head->label_width != found->count)
		return fault_set(fault, -EINVAL,
			"its label has %u numbers, but the labels before it have %u: all samples "
			"need the same number",
			found->count, head->label_width);
	if (found->type == LABEL_TYPE_FLOAT)
		head->label_width = found->count;
	else if (found->count)
		head->label_width = UTIL_MAX(head->label_width, found->class[found->count - 1] + 1);
	return 0;
}

static int size_check(
	const struct index_sample *sample, const struct label_found *found, struct fault *fault)
{
	size_t room = (INDEX_NAME_ROOM - sample->name_size) / sizeof(float);
	return found->count <= room ? 0
				    : fault_set(fault, -EINVAL,
					      "its label has %u values, but after its name of %zu "
					      "bytes there is room for only %zu",
					      found->count, sample->name_size, room);
}

/* A hash of type and values, used in place of the number of a class. */
static int64_t values_digest(const struct label_found *found)
{
	uint64_t h = hash_u64(HASH_SEED, found->type);
	return (int64_t)hash_mix(hash_bytes(h, found->class, found->count * sizeof(uint32_t)));
}

int index_sample_write(const struct index_job *job, struct index_sample *sample,
	const struct label_found *found, struct fault *fault)
{
	struct index_writer *writer = job->writer;
	struct index_record *record = &sample->record;
	bool one = found->type == LABEL_TYPE_CLASS;
	int rc = type_check(&writer->head, found, fault);
	if (rc == 0 && !one)
		rc = size_check(sample, found, fault);
	if (rc < 0)
		return rc;
	record->label = found->first;
	rc = index_writer_name_label(writer, sample->name, sample->name_size, found->class,
		one ? 0 : found->count * sizeof found->class[0], record);
	if (rc < 0)
		return rc;
	if (one)
		return index_writer_add(writer, record, sample->key, sample->key_size);
	return index_writer_add_hashed(writer, record,
		digest_sample(sample->key, sample->key_size, record->size, values_digest(found)),
		digest_sample(sample->key, sample->key_size, record->size, -1));
}

int index_sample_manifest(const struct index_job *job, struct index_sample *sample,
	const char *shard, struct label_found *found, struct fault *fault)
{
	const struct manifest_sample named = {shard, sample->name, sample->key, sample->key_size};
	uint64_t place;
	int rc = manifest_find(labels_manifest(job->labels), &named, found, &place, fault);
	if (rc == 0)
		rc = index_sample_write(job, sample, found, fault);
	if (rc == 0)
		job->writer->head.lines += manifest_mark(place);
	return rc < 0 && !job->writer->error
		       ? fault_prefix(fault, rc, shard ? "%s!%s" : "%s/%s", job->path, sample->name)
		       : rc;
}
