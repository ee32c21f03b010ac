/* pixels: see pixels.h. */
#include "dataset/container/arrays/pixels.h"

#include "proto/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

int pixels_class(const struct index_job *job, struct pixels *pixels, const char *path,
	const uint8_t *name, size_t size, struct fault *fault)
{
	char text[INDEX_NAME_MAX + 1] = "";
	if (size <= INDEX_NAME_MAX)
		memcpy(text, name, size);
	text[size <= INDEX_NAME_MAX ? size : 0] = 0;
	if (!size || strlen(text) != size || !utf8_is_valid(text))
		return fault_set(fault, -EINVAL,
			"%s: the name of class %u has %zu bytes, is empty or is not UTF-8: the "
			"file is damaged; copy it again, or remove it to do without names",
			path, pixels->classes, size);
	if (pixels->classes == PIXELS_CLASSES_MAX)
		return fault_set(fault, -EINVAL,
			"%s has more than %d names of classes: the file is damaged; copy it again, "
			"or remove it to do without names",
			path, PIXELS_CLASSES_MAX);
	/* Those that the label offset moves below 0 are left out; where it moves all up, the first
	 * classes would have no names, so there are none. */
	const int64_t number = pixels->classes++ + (int64_t)job->columns->label_offset;
	if (number < 0 || job->columns->label_offset > 0)
		return 0;
	return index_writer_entry(job->writer, 'C', 0, text, size);
}

static int label_take(const struct index_job *job, const struct pixels *pixels,
	const struct pixels_label *label, struct fault *fault)
{
	static const struct label_classes none;
	if (pixels->classes && (label->number < 0 || label->number >= pixels->classes))
		return fault_set(fault, -EINVAL,
			"%s: byte %" PRIu64 ": found the label %" PRId64
			", expected a class from 0 to %u: the file is damaged; copy it again from "
			"where it came from",
			label->path, label->place, label->number, pixels->classes - 1);
	label_found_begin(job->found, LABEL_TYPE_CLASS);
	/* A number so far from those of classes that adding to it may overflow is none either. */
	int64_t number = label->number;
	if (number > INT64_MIN / 2 && number < INT64_MAX / 2)
		number += job->columns->label_offset;
	int rc = label_found_class(job->found, number, &none, fault);
	if (rc == 0)
		rc = label_found_end(job->found, fault);
	return rc < 0 ? fault_prefix(fault, rc, "%s: byte %" PRIu64, label->path, label->place) : 0;
}

int pixels_sample(const struct index_job *job, const struct pixels *pixels, uint64_t row,
	const struct pixels_label *label, const char *name, struct fault *fault)
{
	char number[24];
	const uint32_t bytes = (uint32_t)pixels->width * pixels->height * pixels->channels;
	(void)snprintf(number, sizeof number, "%" PRIu64, row);
	name = name ? name : number;
	struct index_sample sample = {.name = name,
		.key = name,
		.name_size = strlen(name),
		.key_size = strlen(name),
		.record = {.offset = pixels->first + row * pixels->step,
			.size = PACKED_HEADER + bytes,
			.label = -1,
			.format = SAMPLE_OTHER,
			.packed = {.stored = bytes,
				.whole = PACKED_HEADER + bytes,
				.method = (uint8_t)pixels->method,
				.channels = pixels->channels,
				.width = pixels->width,
				.height = pixels->height}}};
	const bool labelled = job->asked == DATASET_LABELS_AUTO && label;
	int rc = labelled ? label_take(job, pixels, label, fault) : 0;
	if (rc == 0)
		rc = container_sample(job, &sample, labelled ? job->found : NULL, fault);
	if (rc >= 0)
		rc = index_progress_step(job->progress, job->writer->head.samples,
			sample.record.offset + bytes, fault);
	return rc;
}
