/* container_sample: writes the samples of containers that know their labels themselves. See
 * container.h. */
#include "dataset/container/container.h"

#include "labels/labels.h"

#include <errno.h>

int container_begin(const struct index_job *job, const char *kind, struct fault *fault)
{
	const bool manifest = job->asked == DATASET_LABELS_MANIFEST;
	job->writer->head.source = manifest ? DATASET_LABELS_MANIFEST : DATASET_LABELS_NONE;
	if (manifest || job->asked == DATASET_LABELS_AUTO || job->asked == DATASET_LABELS_NONE)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s is %s: its labels are in it or beside it, or come from a manifest, not from "
		"class folders or from .cls or .json files",
		job->path, kind);
}

static int mixture_fault(const struct index_job *job, const struct index_sample *sample, bool has,
	struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s%s%s has %s label, but the samples before it have %s: label all samples or "
		"none, or ask for labels: none (--labels none)",
		job->path, job->joint, sample->name, has ? "a" : "no", has ? "none" : "one");
}

static int plain_write(const struct index_job *job, struct index_sample *sample, int32_t label)
{
	if (job->writer->head.label_type == LABEL_TYPE_AUTO)
		job->writer->head.label_type = LABEL_TYPE_CLASS;
	sample->record.label = label;
	int rc = index_writer_name(job->writer, sample->name, sample->name_size, &sample->record);
	return rc < 0 ? rc
		      : index_writer_add(
				job->writer, &sample->record, sample->key, sample->key_size);
}

int container_sample(const struct index_job *job, struct index_sample *sample,
	const struct label_found *found, struct fault *fault)
{
	struct index_head *head = &job->writer->head;
	if (sample->name_size > index_writer_room(job->writer))
		return fault_set(fault, -EINVAL,
			"%s%s%.80s...: its name has %zu bytes, but an index with %u fields has "
			"room for only %zu",
			job->path, job->joint, sample->name, sample->name_size, head->field_count,
			index_writer_room(job->writer));
	if (job->asked == DATASET_LABELS_MANIFEST)
		return index_sample_manifest(job, sample, job->path, job->found, fault);
	if (job->asked == DATASET_LABELS_NONE)
		return plain_write(job, sample, -1);
	if (head->samples && (head->source == DATASET_LABELS_COLUMN) != (found != NULL))
		return mixture_fault(job, sample, found != NULL, fault);
	head->source = found ? DATASET_LABELS_COLUMN : DATASET_LABELS_NONE;
	if (!found)
		return plain_write(job, sample, -1);
	int rc = index_sample_write(job, sample, found, fault);
	return rc < 0 && !job->writer->error && !job->first->blamed
		       ? fault_prefix(fault, rc, "%s%s%s", job->path, job->joint, sample->name)
		       : rc;
}
