/* model_memory: what is in the slots of a stream: that a batch is laid out as it was announced, has
 * the same bytes as every other time, and stays as it is while it is leased. */
#include "model_impl.h"

#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

static uint64_t contents[MODEL_DEFINITIONS][MODEL_HASHES];

void model_drop_held(struct model_stream *s)
{
	for (uint32_t slot = 0; slot < MODEL_SLOTS; slot++)
		s->slot[slot].held = false;
	s->held = 0;
}

static const uint8_t *model_slot_at(const struct model_stream *s, uint32_t slot)
{
	return s->map + slot * s->stride;
}

/* A hash of everything in a batch except its time. */
static uint64_t model_hash(const struct model_stream *s, uint32_t slot)
{
	const uint8_t *at = model_slot_at(s, slot);
	struct slots_head head;
	memcpy(&head, at, sizeof head);
	uint64_t rows = (uint64_t)head.count * head.views;
	uint64_t label = (uint64_t)head.label_width * slots_label_bytes(head.label_type);
	uint64_t hash = XXH3_64bits(at + head.images_offset, rows * head.row_bytes);
	hash = hash * 31 + XXH3_64bits(at + head.labels_offset, head.count * label);
	hash = hash * 31 + XXH3_64bits(at + head.records_offset, rows * head.record_bytes);
	head.serial = head.ready_ns = 0;
	return (hash * 31 + XXH3_64bits(&head, sizeof head)) | 1;
}

static bool model_fits(uint64_t offset, uint64_t bytes, uint64_t stride)
{
	return offset % 64 == 0 && offset >= sizeof(struct slots_head) && offset <= stride &&
	       bytes <= stride - offset;
}

bool model_is_overwritten(const struct model_stream *s, const struct wire_batch *b)
{
	struct slots_head head;
	memcpy(&head, model_slot_at(s, b->slot), sizeof head);
	return head.serial > b->serial;
}

static void model_check_head(const struct model_stream *s, const struct wire_batch *b)
{
	struct slots_head h;
	const struct wire_opened *o = &s->opened;
	memcpy(&h, model_slot_at(s, b->slot), sizeof h);
	uint64_t rows = (uint64_t)h.batch_size * h.views;
	bool named = h.magic == SLOTS_MAGIC && h.version == SLOTS_VERSION &&
		     h.serial == b->serial && h.epoch == b->epoch && h.batch == b->batch &&
		     h.position == b->position && h.count == b->count;
	bool shaped = h.batch_size == o->batch_size && h.views == o->views &&
		      h.channels == o->channels && h.pixel_type == o->pixel_type &&
		      h.pixel_layout == o->pixel_layout && h.label_type == o->label_type &&
		      h.label_width == o->label_width && h.height >= 1 && h.height <= o->height &&
		      h.width >= 1 && h.width <= o->width && h.record_bytes == 64 &&
		      h.row_bytes == (uint64_t)h.height * h.width * h.channels *
					     slots_pixel_bytes(h.pixel_type);
	uint64_t labels = (uint64_t)h.label_width * slots_label_bytes(h.label_type) * h.batch_size;
	bool laid = model_fits(h.images_offset, rows * h.row_bytes, s->stride) &&
		    model_fits(h.labels_offset, labels, s->stride) &&
		    model_fits(h.records_offset, rows * 64, s->stride);
	if (!named || !shaped || !laid)
		world_wrong("stream %u, slot %u: its head %s", s->number, b->slot,
			!named    ? "names another batch"
			: !shaped ? "has another shape"
				  : "leads out of the slot");
}

/* It must be the same as before. */
static void model_check_content(struct model_stream *s, const struct wire_batch *b)
{
	struct model_slot *slot = &s->slot[b->slot];
	uint64_t ordinal = s->opened.batches * b->epoch + b->batch;
	slot->hash = model_hash(s, b->slot);
	if (s->definition < 0 || ordinal >= MODEL_HASHES)
		return;
	uint64_t *known = &contents[s->definition][ordinal];
	if (model_learns && !*known)
		*known = slot->hash;
	if (*known && *known != slot->hash)
		world_wrong("stream %u of definition %d: batch %llu of epoch %llu has other bytes "
			    "than it had",
			s->number, s->definition, (unsigned long long)b->batch,
			(unsigned long long)b->epoch);
}

void model_check_held(const struct model_stream *s, uint32_t slot)
{
	if (model_hash(s, slot) != s->slot[slot].hash)
		world_wrong("stream %u, slot %u: a leased slot was overwritten", s->number, slot);
}

void model_check_all_held(const struct model *model, struct model_stream *s)
{
	for (uint32_t i = 0; i < s->slots && model->reads; i++)
		if (s->slot[i].held)
			model_check_held(s, i);
	model_drop_held(s);
}

void model_forget_stream(const struct model *model, struct model_stream *s)
{
	model_check_all_held(model, s);
	if (s->memory)
		(void)munmap((void *)(uintptr_t)s->map, s->bytes);
	s->state = MODEL_NONE;
	s->memory = s->overwritten = false;
}

void model_lease(struct model_stream *s, const struct wire_batch *b)
{
	model_check_head(s, b);
	model_check_content(s, b);
	s->slot[b->slot].held = true;
	s->slot[b->slot].serial = b->serial;
	s->held++;
}
