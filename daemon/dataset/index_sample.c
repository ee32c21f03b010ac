/* index_sample: writes a sample with the label that a rule found for it into an index.
 *
 * All labels of an index have one type; if none was asked for, the type of the first label. The
 * head stores the type and the width. A single class is the record's own label. Lists of classes
 * and numbers are stored after the sample's name; the fingerprint covers them. */
#include "dataset/container/container.h"

#include "base/util.h"
#include "dataset/digest.h"

#include <errno.h>
#include <string.h>

static const char *const type_names[] = {
	[LABEL_TYPE_CLASS] = "one class",
	[LABEL_TYPE_MULTI_HOT] = "a list of classes",
	[LABEL_TYPE_FLOAT] = "numbers",
	[LABEL_TYPE_CLASSES] = "classes",
};

/* The labels differ in their type. Two samples do not show which one is odd, unless all labels so
 * far were empty lists: then the sentence is about the first of them. */
static int type_fault(const struct index_job *job, const struct index_sample *sample,
	const struct label_found *found, struct fault *fault)
{
	static const char advice[] = "say which with type: class, multi_hot or float";
	const struct index_head *head = &job->writer->head;
	const struct index_first *first = job->first;
	if (first->empty) {
		job->first->blamed = true;
		return fault_set(fault, -EINVAL,
			"%s%s%s: its label is an empty list, but that of %s is %s: give it a "
			"label, "
			"or %s",
			job->path, job->joint, first->name, sample->name, type_names[found->type],
			advice);
	}
	if (head->samples == 1)
		return fault_set(fault, -EINVAL,
			"its label is %s, but that of %s, the only sample before it, is %s: %s",
			type_names[found->type], first->name, type_names[head->label_type], advice);
	return fault_set(fault, -EINVAL, "its label is %s, but the labels before it are %s: %s",
		type_names[found->type], type_names[head->label_type], advice);
}

/* Notes the first sample, whose label says what type the others must have. */
static void first_note(const struct index_job *job, const struct index_sample *sample,
	const struct label_found *found)
{
	struct index_first *first = job->first;
	if (!job->writer->head.samples) {
		memcpy(first->name, sample->name, sample->name_size);
		first->name[sample->name_size] = 0;
		first->empty = true;
	}
	first->empty &= found->count == 0;
}

static int type_check(const struct index_job *job, const struct index_sample *sample,
	const struct label_found *found, struct fault *fault)
{
	struct index_head *head = &job->writer->head;
	if (head->label_type == LABEL_TYPE_AUTO)
		head->label_type = found->type;
	if (head->label_type != (uint32_t)found->type)
		return type_fault(job, sample, found, fault);
	first_note(job, sample, found);
	const bool even = label_type_is_even(found->type);
	if (even && head->samples && head->label_width != found->count)
		return fault_set(fault, -EINVAL,
			"its label has %u %s, but the labels before it have %u: all samples need "
			"the same number",
			found->count, type_names[found->type], head->label_width);
	if (even)
		head->label_width = found->count;
	else if (found->count)
		head->label_width = UTIL_MAX(head->label_width, found->class[found->count - 1] + 1);
	return 0;
}

static int size_check(const struct index_job *job, const struct index_sample *sample,
	const struct label_found *found, struct fault *fault)
{
	size_t most = index_writer_room(job->writer);
	size_t room = (most - UTIL_MIN(most, sample->name_size)) / sizeof(float);
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
	int rc = type_check(job, sample, found, fault);
	if (rc == 0 && !one)
		rc = size_check(job, sample, found, fault);
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
	return rc < 0 && !job->writer->error && !job->first->blamed
		       ? fault_prefix(fault, rc, shard ? "%s!%s" : "%s/%s", job->path, sample->name)
		       : rc;
}
