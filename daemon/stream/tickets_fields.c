/* tickets_fields: the fields of the samples in flight (dataset/fields.h).
 *
 * Each field is an item of fetch, submitted directly after its image's, so that the two are read
 * together where they are neighbors. A ticket goes to the workers when all its items have come. The
 * worker that makes the sample's first view copies the fields into the slot; a sample without a
 * field, or with one that is too long, is then a broken sample, unless the definition says
 * otherwise. Only fields for which fetch has no memory are read here, since their image keeps its
 * own memory until they are there.
 *
 * Threads: as tickets.c. */
#include "stream/field.h"
#include "stream/stream_impl.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS_LOOKS = 16 }; /* samples that are looked at before a stream opens */

/* Whether one of the samples has the field, as far as the storage says. */
static bool field_is_anywhere(
	const struct dataset *dataset, const struct field_list *list, uint32_t number)
{
	struct field_list first = *list;
	const uint64_t count = dataset_count(dataset);
	const uint64_t looks = UTIL_MIN(count, (uint64_t)FIELDS_LOOKS);
	uint8_t byte;
	uint32_t size;
	bool longer;
	first.at[number].max = sizeof byte;
	for (uint64_t i = 0; i < looks; i++)
		if (dataset_field_read(dataset, count / looks * i, &first, number, &byte, &size,
			    &longer, NULL) != DATASET_E_NONE)
			return true;
	return false;
}

/* No sample that was looked at has the field; `path` is the first. */
static int fields_fault(
	const struct dataset *dataset, const char *name, const char *path, struct fault *fault)
{
	if (!dataset_has_fields(dataset))
		return fault_set(fault, -EINVAL,
			"fields: samples of %s (%s is the first) have none: expected a folder "
			"or tars with files beside the images, or Parquet, MDS, LitData or "
			"TFRecord with columns",
			dataset_kind_name(dataset), path);
	if (dataset_has_columns(dataset))
		return fault_set(fault, -EINVAL,
			"fields: column %s is empty in all samples that were looked at (%s is the "
			"first): correct the name, or set missing: empty for it",
			name, path);
	return fault_set(fault, -EINVAL,
		"fields: no sample that was looked at has a .%s beside its image (%s is the "
		"first): "
		"correct the name, or set missing: empty for it",
		name, path);
}

int stream_check_fields(const struct stream *stream, struct fault *fault)
{
	const struct field_list *list = &stream->spec.fields;
	char path[4096];
	for (uint32_t part = 0; part < stream->parts.count; part++)
		for (uint32_t i = 0; i < list->count; i++) {
			const struct dataset *dataset = stream->parts.dataset[part];
			if (list->at[i].empty || field_is_anywhere(dataset, list, i))
				continue;
			int rc = dataset_path(dataset, 0, path, sizeof path, fault);
			return rc < 0 ? rc : fields_fault(dataset, list->at[i].name, path, fault);
		}
	return 0;
}

uint64_t tickets_fields_bytes(const struct stream_spec *spec, uint32_t tickets)
{
	return (uint64_t)tickets * spec->fields.count * sizeof(struct ticket_field);
}

static void ticket_fields_make(struct stream_ticket *t, struct ticket_field *field,
	const struct fetch_field *const which[FIELDS_MAX], void (*done)(struct fetch_item *item))
{
	const uint32_t count = t->stream->spec.fields.count;
	t->field = field;
	t->item.fields_follow = true;
	for (uint32_t i = 0; i < count; i++)
		field[i] = (struct ticket_field){.ticket = t,
			.item = {.reader = &t->stream->reader,
				.done = done,
				.field = which[i],
				.place = i}};
}

int tickets_fields_init(
	struct stream *stream, void (*done)(struct fetch_item *item), struct fault *fault)
{
	const struct field_list *list = &stream->spec.fields;
	const struct fetch_field *which[FIELDS_MAX] = {NULL};
	bool whole = true;
	if (!list->count)
		return 0;
	for (uint32_t i = 0; i < list->count; i++) {
		which[i] =
			fetch_field(stream->environment->fetch, list->at[i].name, list->at[i].max);
		whole &= which[i] != NULL;
	}
	stream->ticket_fields =
		calloc((size_t)stream->tickets * list->count, sizeof *stream->ticket_fields);
	if (!stream->ticket_fields || !whole)
		return fault_set(fault, -ENOMEM,
			"no memory for the fields of the %u rows in flight of this stream",
			stream->tickets);
	for (uint32_t i = 0; i < stream->tickets; i++)
		ticket_fields_make(&stream->ticket[i],
			&stream->ticket_fields[(size_t)i * list->count], which, done);
	return 0;
}

void tickets_fields_deinit(struct stream *stream)
{
	free(stream->ticket_fields);
}

struct fetch_item **ticket_chain(struct stream_ticket *t)
{
	const uint32_t count = t->stream->spec.fields.count;
	struct fetch_item **last = &t->item.next;
	for (uint32_t i = 0; i < count; i++) {
		struct fetch_item *item = &t->field[i].item;
		item->dataset = t->item.dataset;
		item->number = t->item.number;
		item->urgency = t->item.urgency;
		*last = item;
		last = &item->next;
	}
	t->arriving = 1 + count;
	return last;
}

void ticket_release_fields(struct stream_ticket *t)
{
	for (uint32_t i = 0; i < t->stream->spec.fields.count; i++)
		fetch_release(t->stream->environment->fetch, &t->field[i].item);
}

void ticket_blank_fields(struct stream_ticket *t)
{
	for (uint32_t i = 0; i < t->stream->spec.fields.count; i++)
		extent_set_field(&t->stream->extent, t->slot, i, t->row, 0);
}

/* Reads a field itself, directly into the slot, because fetch had no memory for it. */
static int field_read_large(
	struct stream_ticket *t, uint32_t number, uint32_t *ret_size, bool *ret_longer)
{
	struct stream *stream = t->stream;
	uint8_t *to = extent_field(&stream->extent, t->slot, number, t->row);
	int rc = dataset_field_read(t->item.dataset, t->item.number, &stream->spec.fields, number,
		to, ret_size, ret_longer, &t->fault);
	if (rc == DATASET_E_NONE)
		return FETCH_E_FIELD_MISSING;
	enum fetch_outcome outcome = fetch_outcome_of(rc);
	return outcome ? (int)outcome : rc;
}

int ticket_check_stored(const struct fetch_item *item, struct fault *fault)
{
	if (item->size == item->packed.stored)
		return FETCH_OK;
	return fault_set(fault, FETCH_E_UNPACK,
		"its index says that it has %u stored bytes, and of another sample at the same "
		"place that it has %u: delete the index, it will be built again",
		item->packed.stored, item->size);
}

/* Writes the bytes of a field that fetch has read into the slot. As field_take. */
static int field_put(struct stream_ticket *t, uint32_t number, unsigned worker)
{
	const struct extent *extent = &t->stream->extent;
	const struct fetch_item *item = &t->field[number].item;
	if (item->packed.method == PACKED_NONE) {
		extent_put_field(extent, t->slot, number, t->row, item->data, item->size);
		return FETCH_OK;
	}
	int result = ticket_check_stored(item, &t->fault);
	if (result == FETCH_OK)
		result = unpacking_field(t->stream->unpacking, worker, &item->packed,
			item->unpacked, item->longer, item->data,
			extent_field(extent, t->slot, number, t->row), &t->fault);
	if (result == FETCH_OK)
		extent_set_field(extent, t->slot, number, t->row, item->unpacked);
	return result;
}

/* Writes one field into the slot. FETCH_OK, another outcome, or a negative errno. */
static int field_take(struct stream_ticket *t, uint32_t number, unsigned worker)
{
	const struct field *field = &t->stream->spec.fields.at[number];
	const struct extent *extent = &t->stream->extent;
	const struct fetch_item *item = &t->field[number].item;
	int result = item->result;
	uint32_t size = item->unpacked;
	bool longer = item->longer;
	if (result == FETCH_E_TOO_LARGE)
		result = field_read_large(t, number, &size, &longer);
	const bool missing = result == FETCH_E_FIELD_MISSING;
	result = field_judge(field, result, longer);
	if (result != FETCH_OK)
		return result;
	if (item->result == FETCH_OK)
		return field_put(t, number, worker);
	extent_set_field(extent, t->slot, number, t->row, missing ? 0 : size);
	return FETCH_OK;
}

bool ticket_take_fields(struct stream_ticket *t, unsigned worker)
{
	struct stream *stream = t->stream;
	const struct field_list *list = &stream->spec.fields;
	uint64_t bytes = 0;
	if (!list->count)
		return true;
	for (uint32_t i = 0; i < list->count; i++) {
		int result = field_take(t, i, worker);
		if (result == FETCH_OK) {
			bytes += t->field[i].item.unpacked;
			continue;
		}
		t->item.result = result == -ECANCELED ? result
						      : field_fault(t->item.dataset, t->item.number,
								&list->at[i], result, &t->fault);
		return false;
	}
	ticket_release_fields(t);
	pthread_mutex_lock(&stream->lock);
	stream->field_bytes += bytes;
	pthread_mutex_unlock(&stream->lock);
	return true;
}
