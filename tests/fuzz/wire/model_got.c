/* model_got: the daemon's messages, against what is expected of it. */
#include "model_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum { ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

static struct model_waiting *model_at(struct model *model, unsigned i)
{
	return &model->waiting[(model->first + i) % MODEL_WAITING];
}

/* Whether it may come after the answer to this request. */
static bool model_is_passed(const struct model_waiting *waiting, const struct wire_head *head)
{
	bool other = waiting->request != head->request || waiting->stream != head->stream ||
		     (head->type == WIRE_ERROR && waiting->what == WAIT_ANSWER);
	return waiting->late && other;
}

/* The next expected message. */
static const struct model_waiting *model_next(struct model *model, const struct wire_head *head)
{
	unsigned i = 0;
	while (i < model->count && model_is_passed(model_at(model, i), head))
		i++;
	model->next = i;
	return i < model->count ? model_at(model, i) : NULL;
}

/* The expected message has come. */
static void model_came(struct model *model)
{
	for (unsigned i = model->next; i; i--)
		*model_at(model, i) = *model_at(model, i - 1);
	model->first = (model->first + 1) % MODEL_WAITING;
	model->count--;
}

static const void *model_view(const struct model *model, const struct conn_message *message,
	enum wire_type type, size_t bytes, size_t text)
{
	const void *view = conn_view(message, type, bytes, text);
	(void)model;
	if (!view)
		world_wrong("a message of type %u and %zu bytes does not have the required layout",
			message->head.type, message->size);
	return view;
}

static void model_got_welcome(struct model *model, const struct conn_message *message)
{
	const struct wire_welcome *w = model_view(
		model, message, WIRE_WELCOME, sizeof *w, offsetof(struct wire_welcome, text_bytes));
	const struct model_waiting *next = model_next(model, &w->head);
	if (!next || next->what != WAIT_WELCOME || w->head.request != next->request)
		world_wrong("WELCOME to request %u was not expected", w->head.request);
	if (w->magic != WIRE_MAGIC || w->version != 1 ||
		w->features & ~(uint64_t)(WIRE_FEATURE_GROUPS | WIRE_FEATURE_FIELDS |
					  WIRE_FEATURE_BUCKETS) ||
		w->pid != getpid() || !w->text_bytes)
		world_wrong("WELCOME has wrong fields");
	model_came(model);
}

/* Where it begins: at a state that was on the grid, or at the first batch. */
static void model_check_start(const struct model_stream *s)
{
	const struct wire_opened *o = &s->opened;
	uint64_t all = (uint64_t)o->batch_size * o->world_size;
	if (o->batch != o->position / all)
		world_wrong("OPENED: batch %llu does not begin at %llu",
			(unsigned long long)o->batch, (unsigned long long)o->position);
	if (s->kind != MODEL_ALONE || (s->resumed && s->definition < 0))
		return;
	if (o->epoch != s->start_epoch || o->position != s->start_position)
		world_wrong("OPENED: begins at epoch %llu, position %llu, not at %llu, %llu",
			(unsigned long long)o->epoch, (unsigned long long)o->position,
			(unsigned long long)s->start_epoch, (unsigned long long)s->start_position);
}

/* OPENED, whose groups of views, if it has any, must be right. */
static const struct wire_opened *model_opened(
	const struct model *model, const struct conn_message *message)
{
	const size_t size = sizeof(struct wire_opened);
	if (message->head.type != WIRE_OPENED || message->size == size)
		return model_view(model, message, WIRE_OPENED, size, 0);
	const struct wire_opened *o = (const struct wire_opened *)(const void *)message->bytes;
	const struct wire_opened_tail *tail =
		(const struct wire_opened_tail *)(const void *)(message->bytes + size);
	const struct wire_group *group = (const struct wire_group *)(const void *)(tail + 1);
	uint32_t views = 0;
	if (message->size < size + sizeof *tail || tail->groups < 1 ||
		tail->groups > SLOTS_GROUPS_MAX || tail->fields || tail->cuts ||
		message->size != size + sizeof *tail + tail->groups * sizeof *group)
		world_wrong("OPENED: the groups do not fit the message");
	for (uint32_t i = 0; i < tail->groups; i++) {
		views += group[i].views;
		if (!group[i].views || !group[i].height || group[i].height > o->height ||
			!group[i].width || group[i].width > o->width ||
			!memchr(group[i].name, 0, WIRE_NAME))
			world_wrong("OPENED: group %u is impossible", i);
	}
	if (views != o->views)
		world_wrong("OPENED: groups have %u views of %u", views, o->views);
	return o;
}

static void model_got_opened(struct model *model, const struct conn_message *message)
{
	const struct wire_opened *o = model_opened(model, message);
	struct model_stream *s = model_stream(model, o->head.stream);
	if (s && s->state == MODEL_CLOSING)
		return;
	if (!s || s->state != MODEL_OPENING || s->request != o->head.request)
		world_wrong("OPENED to request %u, stream %u was not expected", o->head.request,
			o->head.stream);
	if (o->batch_size < 1 || o->height < 1 || o->width < 1 || o->channels != 3 ||
		o->views < 1 || o->views > SLOTS_VIEWS_MAX || o->slots < 1 ||
		o->slots > MODEL_SLOTS || o->rank >= o->world_size ||
		!slots_pixel_bytes(o->pixel_type) || !slots_label_bytes(o->label_type) ||
		!o->batches)
		world_wrong("OPENED of stream %u has an impossible shape", s->number);
	s->opened = *o;
	s->state = MODEL_OPEN;
	s->epoch = o->epoch;
	s->batch = o->batch;
	s->position = o->position;
	model_check_start(s);
	model_figures.opened++;
}

static struct model_stream *model_flowing(struct model *model, const struct wire_head *head)
{
	struct model_stream *s = model_stream(model, head->stream);
	if (head->request)
		world_wrong("a message of type %u carries request %u", head->type, head->request);
	if (s && s->state == MODEL_CLOSING)
		return NULL;
	if (!s || s->state != MODEL_OPEN || s->ended)
		world_wrong("a message of type %u came for stream %u, which is not open",
			head->type, head->stream);
	return s;
}

static void model_got_extent(struct model *model, const struct conn_message *message)
{
	const struct wire_extent *e = model_view(model, message, WIRE_EXTENT, sizeof *e, 0);
	struct model_stream *s = model_flowing(model, &e->head);
	struct stat status;
	if (message->fd < 0)
		world_wrong("EXTENT without a descriptor");
	if (!s)
		return;
	int seals = fcntl(message->fd, F_GET_SEALS);
	int wanted = s->writable ? ALL_SEALS & ~F_SEAL_FUTURE_WRITE : ALL_SEALS;
	if (seals != wanted || fstat(message->fd, &status) || (uint64_t)status.st_size != e->bytes)
		world_wrong("an extent has the seals %#x and %lld bytes, expected %#x and %llu",
			(unsigned)seals, (long long)status.st_size, (unsigned)wanted,
			(unsigned long long)e->bytes);
	if (s->memory || e->slot_count != s->opened.slots || e->slot_stride % SLOTS_ALIGN ||
		e->slot_stride * e->slot_count > e->bytes)
		world_wrong("EXTENT of stream %u does not fit OPENED", s->number);
	void *map = mmap(NULL, e->bytes, PROT_READ, MAP_SHARED, message->fd, 0);
	if (map == MAP_FAILED)
		world_wrong("an extent cannot be mapped: %s", strerror(errno));
	s->memory = true;
	s->map = map;
	s->bytes = e->bytes;
	s->stride = e->slot_stride;
	s->slots = e->slot_count;
	s->extent = e->extent;
}

static bool model_is_over(const struct model_stream *s)
{
	return s->epochs && s->epoch >= s->epochs;
}

static void model_check_batch(const struct model_stream *s, const struct wire_batch *b)
{
	const struct wire_opened *o = &s->opened;
	uint64_t all = (uint64_t)o->batch_size * o->world_size;
	bool last = b->flags & WIRE_BATCH_LAST, on_grid = !s->resumed || s->definition >= 0;
	const char *wrong = NULL;
	if (!s->memory || b->extent != s->extent || b->slot >= s->slots)
		wrong = "is in memory that was not announced";
	else if (s->slot[b->slot].held)
		wrong = "is in a slot that was not released";
	else if (s->given && b->serial != s->serial)
		wrong = "has another serial";
	else if (b->epoch != s->epoch || b->batch != s->batch)
		wrong = "is not the next";
	else if (b->position < s->position || b->position >= s->position + all)
		wrong = "begins elsewhere";
	else if (b->count < 1 || b->count > o->batch_size || (!last && b->count != o->batch_size))
		wrong = "has an impossible number of rows";
	else if (b->flags & ~(uint32_t)WIRE_BATCH_LAST ||
		 (on_grid && last != (b->batch + 1 >= o->batches)))
		wrong = "has wrong flags";
	else if (model_is_over(s))
		wrong = "comes after the last epoch";
	if (wrong)
		world_wrong("stream %u: the batch %llu of epoch %llu at %llu (serial %llu, slot "
			    "%u, %u rows, flags %u) %s; expected %llu of %llu at %llu (%llu)",
			s->number, (unsigned long long)b->batch, (unsigned long long)b->epoch,
			(unsigned long long)b->position, (unsigned long long)b->serial, b->slot,
			b->count, b->flags, wrong, (unsigned long long)s->batch,
			(unsigned long long)s->epoch, (unsigned long long)s->position,
			(unsigned long long)s->serial);
}

static void model_got_batch(struct model *model, const struct conn_message *message)
{
	const struct wire_batch *b = model_view(model, message, WIRE_BATCH, sizeof *b, 0);
	struct model_stream *s = model_flowing(model, &b->head);
	if (!s)
		return;
	model_check_batch(s, b);
	if (model_is_overwritten(s, b)) {
		model_figures.overwritten++;
		s->overwritten = true;
	} else {
		model_lease(s, b);
	}
	s->given = true;
	s->count++;
	s->serial = b->serial + 1;
	if (b->flags & WIRE_BATCH_LAST) {
		s->epoch++;
		s->batch = s->position = 0;
	} else {
		s->batch++;
		s->position += (uint64_t)s->opened.batch_size * s->opened.world_size;
	}
	model_figures.batches++;
}

static void model_got_end(struct model *model, const struct conn_message *message)
{
	const struct wire_end *e = model_view(model, message, WIRE_END, sizeof *e, 0);
	struct model_stream *s = model_flowing(model, &e->head);
	if (!s)
		return;
	if (!model_is_over(s) || e->epochs != s->epochs || e->batches != s->count)
		world_wrong("stream %u: END after %llu epochs and %llu batches, at epoch %llu of "
			    "%llu, after %llu batches",
			s->number, (unsigned long long)e->epochs, (unsigned long long)e->batches,
			(unsigned long long)s->epoch, (unsigned long long)s->epochs,
			(unsigned long long)s->count);
	s->ended = true;
}

/* The opening was refused: true if it is an opening that waits. */
static bool model_refused(struct model *model, const struct wire_error *e)
{
	struct model_stream *s = model_stream(model, e->head.stream);
	if (!s || s->request != e->head.request ||
		(s->state != MODEL_OPENING && s->state != MODEL_CLOSING))
		return false;
	if (s->state == MODEL_OPENING && s->must_open && !model_stopped)
		world_wrong("stream %u of definition %d was refused: %d", s->number, s->definition,
			e->code);
	if (s->state == MODEL_OPENING)
		model_forget_stream(model, s);
	model_figures.refused++;
	return true;
}

static void model_stream_over(struct model *model, const struct wire_error *e)
{
	struct model_stream *s = model_stream(model, e->head.stream);
	if (s && s->state == MODEL_CLOSING)
		return;
	if (!s || s->state != MODEL_OPEN || (s->ended && e->code != -ECANCELED))
		world_wrong(
			"ERROR %d came for stream %u, which is not open", e->code, e->head.stream);
	if (s->kind == MODEL_ALONE && !model_stopped && !model_odd)
		world_wrong("stream %u of definition %d ended with %d", s->number, s->definition,
			e->code);
	/* Detached: the slots that it held may be overwritten. */
	if (e->code == -ECANCELED) {
		model_drop_held(s);
		s->overwritten = false;
	}
	s->state = MODEL_OVER;
}

static bool model_is_refusal(const struct model_waiting *next, const struct wire_error *e)
{
	bool what = next->what == WAIT_REFUSAL || next->what == WAIT_EITHER;
	return what && e->head.request == next->request && e->head.stream == next->stream &&
	       e->code == next->code;
}

static void model_got_error(struct model *model, const struct conn_message *message)
{
	const struct wire_error *e = model_view(
		model, message, WIRE_ERROR, sizeof *e, offsetof(struct wire_error, text_bytes));
	const struct model_waiting *next = model_next(model, &e->head);
	if (e->code >= 0 || e->code < -4095 || !e->text_bytes)
		world_wrong("ERROR %d with %u bytes of text", e->code, e->text_bytes);
	if (next && next->what == WAIT_FATAL && e->head.request == next->request &&
		!e->head.stream && e->code == -EPROTO) {
		model_figures.protocol_errors++;
		model->told = true;
		model->count = 0; /* with the messages expected after it */
	} else if (next && model_is_refusal(next, e)) {
		model_came(model);
	} else if (!e->head.request && e->head.stream) {
		model_stream_over(model, e);
	} else if (!model_refused(model, e)) {
		world_wrong("ERROR %d to request %u, stream %u was not expected: %.*s", e->code,
			e->head.request, e->head.stream, (int)e->text_bytes, (const char *)(e + 1));
	}
}

static void model_got_answer(struct model *model, const struct conn_message *message)
{
	const struct wire_answer *a = model_view(
		model, message, WIRE_ANSWER, sizeof *a, offsetof(struct wire_answer, text_bytes));
	const struct model_waiting *next = model_next(model, &a->head);
	if (!next || (next->what != WAIT_ANSWER && next->what != WAIT_EITHER) ||
		next->request != a->head.request || next->stream != a->head.stream)
		world_wrong("ANSWER to request %u, stream %u was not expected", a->head.request,
			a->head.stream);
	if (message->fd >= 0 ? a->text_bytes || a->total_bytes <= WIRE_INLINE_MAX
			     : a->text_bytes != a->total_bytes)
		world_wrong("ANSWER of %llu bytes has %u of them inline",
			(unsigned long long)a->total_bytes, a->text_bytes);
	model_came(model);
}

void model_got(struct model *model, const struct conn_message *message)
{
	model_figures.received++;
	if (message->fd >= 0 && message->head.type != WIRE_EXTENT &&
		message->head.type != WIRE_ANSWER)
		world_wrong("a descriptor came with a message of type %u", message->head.type);
	if (model->told)
		world_wrong(
			"a message of type %u came after the connection's end", message->head.type);
	if (model->lax)
		return;
	switch (message->head.type) {
	case WIRE_WELCOME:
		model_got_welcome(model, message);
		return;
	case WIRE_OPENED:
		model_got_opened(model, message);
		return;
	case WIRE_EXTENT:
		model_got_extent(model, message);
		return;
	case WIRE_BATCH:
		model_got_batch(model, message);
		return;
	case WIRE_END:
		model_got_end(model, message);
		return;
	case WIRE_ERROR:
		model_got_error(model, message);
		return;
	case WIRE_ANSWER:
		model_got_answer(model, message);
		return;
	default:
		world_wrong("a message of unknown type %u came", message->head.type);
	}
}
