/* model_sent: what a client's datagrams oblige the daemon to. The daemon's own parser decides which
 * texts are definitions. */
#include "model_impl.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

/* With more at once, or with memory on its way back, a process may be refused the next. */
enum { OPENINGS_SURE = 12 };

static void model_wait(
	struct model *model, enum model_wait what, uint32_t request, uint32_t stream, int code)
{
	if (model->count == MODEL_WAITING)
		world_wrong("the test asks more than it can store");
	unsigned at = (model->first + model->count++) % MODEL_WAITING;
	model->waiting[at] = (struct model_waiting){what, request, stream, code, false};
	if (!model->reads)
		model->unread = UTIL_MAX(model->unread, model->count);
}

static struct model_waiting *model_last(struct model *model)
{
	return &model->waiting[(model->first + model->count - 1) % MODEL_WAITING];
}

static void model_doom(struct model *model, uint32_t request)
{
	model_wait(model, WAIT_FATAL, request, 0, -EPROTO);
	model->doomed = true;
	model_let_go(model);
}

static void model_sent_hello(struct model *model, const struct wire_hello *hello, size_t size)
{
	bool right =
		size == sizeof *hello && hello->head.type == WIRE_HELLO && hello->head.request &&
		hello->magic == WIRE_MAGIC && hello->version_min <= WIRE_VERSION_MAX &&
		hello->version_max >= WIRE_VERSION_MIN && hello->version_min <= hello->version_max;
	if (!right) {
		model_doom(model, hello->head.request);
		return;
	}
	model->greeted = true;
	model_wait(model, WAIT_WELCOME, hello->head.request, 0, 0);
}

static bool model_has_error(const struct model_stream *s)
{
	return s->state == MODEL_OVER || s->kind != MODEL_ALONE;
}

/* The result of a definition: 0, or the code of an immediate refusal. */
static int model_judge(
	const struct world *world, const char *text, size_t size, struct stream_spec *spec)
{
	struct fault fault;
	int result = spec_parse(text, size, "open request", spec, &fault);
	if (result)
		return result;
	if (spec->name[0] && strcmp(spec->name, world->config.stream[0].name) != 0)
		return -ENOENT;
	if (spec->name[0])
		spec_overlay(&world->config.stream[0], spec);
	return spec_check_share(spec, &fault);
}

static void model_begin_stream(struct model *model, const struct wire_head *head,
	const struct stream_spec *spec, int definition)
{
	struct model_stream *s = model->stream;
	while (s->state != MODEL_NONE)
		s++;
	bool known = definition >= 0;
	*s = (struct model_stream){.state = MODEL_OPENING,
		.number = head->stream,
		.request = head->request,
		.definition = definition,
		.kind = known ? model_definitions[definition].kind : MODEL_FRAIL,
		.lists = spec_has_lists(spec),
		.epochs = spec->epochs,
		.resumed = spec->state.given,
		.start_epoch = spec->state.epoch,
		.start_position = spec->state.position,
		.writable = spec->pin_memory && spec_is_alone(spec)};
	s->must_open = s->kind == MODEL_ALONE && !model_odd && model_openings++ < OPENINGS_SURE;
}

static unsigned model_certain(const struct model *model)
{
	unsigned n = 0;
	for (unsigned i = 0; i < MODEL_STREAMS; i++) {
		const struct model_stream *s = &model->stream[i];
		n += (s->state == MODEL_OPENING || s->state == MODEL_OPEN) &&
		     s->kind == MODEL_ALONE && s->must_open;
	}
	return n;
}

static void model_sent_open(
	struct model *model, const struct wire_open *open, size_t size, int definition)
{
	const struct wire_head *head = &open->head;
	struct model_stream *s = model_stream(model, head->stream);
	bool whole = size >= sizeof *open && open->text_bytes == size - sizeof *open &&
		     head->stream && head->request;
	if (whole && s &&
		(s->state == MODEL_OVER || s->state == MODEL_CLOSING || s->kind != MODEL_ALONE)) {
		model_be_lax(model);
		return;
	}
	if (!whole || s) {
		model_doom(model, head->request);
		return;
	}
	if (model_streams(model) >= SESSION_STREAMS) {
		/* A stream that the daemon ends, or that is closed, may count or not. */
		if (model_certain(model) >= SESSION_STREAMS)
			model_wait(model, WAIT_REFUSAL, head->request, head->stream, -EBUSY);
		else
			model_be_lax(model);
		return;
	}
	static struct stream_spec spec;
	int code = model_judge(model->world, (const char *)(open + 1), open->text_bytes, &spec);
	model_odd |= definition < 0 && !code;
	if (code)
		model_wait(model, WAIT_REFUSAL, head->request, head->stream, code);
	else
		model_begin_stream(model, head, &spec, definition);
}

/* A lease that the client may have without having read its announcement. */
static bool model_may_hold(const struct model_stream *s, const struct wire_release *release)
{
	return s->state == MODEL_OPENING ||
	       (release->extent == s->extent && release->slot < s->slots &&
		       (!s->given || release->serial >= s->serial));
}

static void model_sent_release(struct model *model, const struct wire_release *release, size_t size)
{
	struct model_stream *s = model_stream(model, release->head.stream);
	if (size != sizeof *release) {
		model_doom(model, release->head.request);
		return;
	}
	/* The daemon may have just ended it: this is ignored. */
	if (!s || s->state == MODEL_CLOSING || s->state == MODEL_OVER)
		return;
	bool holds = s->memory && release->extent == s->extent && release->slot < s->slots &&
		     s->slot[release->slot].held &&
		     s->slot[release->slot].serial == release->serial;
	if (holds) {
		if (model->reads)
			model_check_held(s, release->slot);
		s->slot[release->slot].held = false;
		s->held--;
	} else if (model_may_hold(s, release) || s->kind != MODEL_ALONE) {
		model_be_lax(model);
	} else {
		model_doom(model, release->head.request);
	}
}

static void model_sent_close(struct model *model, const struct wire_head *head, size_t size)
{
	struct model_stream *s = model_stream(model, head->stream);
	if (size != sizeof(struct wire_close)) {
		model_doom(model, head->request);
	} else if (s) {
		model_check_all_held(model, s);
		s->state = MODEL_CLOSING;
	}
}

/* Whether the answer is read from storage. */
static bool model_is_read(const struct wire_query *query)
{
	return query->kind == WIRE_QUERY_PATH || query->kind == WIRE_QUERY_SAMPLES;
}

static enum model_wait model_reply(const struct wire_query *query, const struct model_stream *s)
{
	bool known = query->kind >= WIRE_QUERY_STATUS && query->kind <= WIRE_QUERY_SAMPLES;
	if (known && query->kind == WIRE_QUERY_STATUS)
		return WAIT_ANSWER;
	if (!known || !s || s->state == MODEL_CLOSING)
		return WAIT_REFUSAL;
	if (s->state == MODEL_OPENING || model_has_error(s))
		return WAIT_EITHER;
	bool beyond = model_is_read(query) && query->argument >= WORLD_IMAGES;
	return beyond ? WAIT_REFUSAL : WAIT_ANSWER;
}

static void model_sent_query(struct model *model, const struct wire_query *query, size_t size)
{
	const struct wire_head *head = &query->head;
	const struct model_stream *s = model_stream(model, head->stream);
	if (size != sizeof *query || !head->request) {
		model_doom(model, head->request);
		return;
	}
	enum model_wait what = model_reply(query, s);
	model_wait(model, what, head->request, head->stream, -EINVAL);
	model_last(model)->late = model_is_read(query) && what != WAIT_REFUSAL;
}

static void model_sent_stop(struct model *model, const struct wire_head *head, size_t size)
{
	if (size != sizeof(struct wire_stop) || !head->request) {
		model_doom(model, head->request);
		return;
	}
	model_stopped = true;
	model_wait(model, WAIT_ANSWER, head->request, head->stream, 0);
}

static void model_sent_greeted(
	struct model *model, const struct wire_head *head, size_t size, int definition)
{
	const void *message = head;
	switch (head->type) {
	case WIRE_OPEN:
		model_sent_open(model, message, size, definition);
		return;
	case WIRE_RELEASE:
		model_sent_release(model, message, size);
		return;
	case WIRE_CLOSE:
		model_sent_close(model, head, size);
		return;
	case WIRE_QUERY:
		model_sent_query(model, message, size);
		return;
	case WIRE_STOP:
		model_sent_stop(model, head, size);
		return;
	default:
		model_doom(model, head->request);
	}
}

void model_sent(struct model *model, const void *bytes, size_t size, unsigned fds, int definition)
{
	/* The daemon checks sizes before fields. */
	static union {
		struct wire_head head;
		struct wire_hello hello;
		uint8_t bytes[WIRE_MESSAGE_MAX + 64];
	} message;
	if (model->doomed || model->lax || model->half)
		return;
	if (model_stopped) {
		model_be_lax(model);
		return;
	}
	if (size == 0) {
		model_sent_end(model);
		return;
	}
	model_figures.sent++;
	memset(&message, 0, sizeof(struct wire_hello));
	memcpy(message.bytes, bytes, UTIL_MIN(size, sizeof message.bytes));
	if (fds == 1)
		model_be_lax(model); /* closed, or refused */
	else if (fds || size > WIRE_MESSAGE_MAX || size < sizeof message.head ||
		 message.head.bytes != size)
		model_doom(model, 0);
	else if (!model->greeted)
		model_sent_hello(model, &message.hello, size);
	else
		model_sent_greeted(model, &message.head, size, definition);
}

void model_sent_end(struct model *model)
{
	model->half = model->doomed = true;
	model_let_go(model);
}
