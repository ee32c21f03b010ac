/* model: see model.h. The daemon's own parser decides which texts are definitions. */
#include "model.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* With more at once, or with memory on its way back, a process may be refused the next. */
/* Unread answers must fit in the socket: six of the longest do not fit. */
enum { OPENINGS_SURE = 12, REQUESTS_MOST = 5 };
enum { ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE };

struct model_figures model_figures;
bool model_odd, model_stopped, model_learns;
unsigned model_openings;

#define PLAIN "\"source\":\"@/data\",\"batch_size\":2,\"image_size\":8"
const struct model_definition model_definitions[] = {
	{"{" PLAIN ",\"train\":false,\"epochs\":2}", MODEL_ALONE, true},
	{"{" PLAIN ",\"seed\":3,\"epochs\":3,\"prefetch\":2}", MODEL_ALONE, true},
	{"{" PLAIN ",\"seed\":4}", MODEL_ALONE, true},
	{"{\"source\":\"@/data\",\"batch_size\":1,\"image_size\":12,\"dtype\":\"float16\","
	 "\"layout\":\"NCHW\",\"views\":2,\"epochs\":1}",
		MODEL_ALONE, true},
	{"{" PLAIN ",\"pin_memory\":true,\"epochs\":4,\"shuffle\":false}", MODEL_ALONE, true},
	{"{\"source\":\"@/data\",\"indices\":\"@/list.npy\",\"batch_size\":2,\"image_size\":8,"
	 "\"epochs\":3,\"drop_last\":false}",
		MODEL_ALONE, true},
	{"{" PLAIN ",\"weights\":\"@/weights.npy\",\"epochs\":2}", MODEL_ALONE, true},
	{"{" PLAIN ",\"weights\":\"balanced\",\"epochs\":2,\"repeats\":2}", MODEL_ALONE, true},
	{"{\"source\":\"@/data\",\"batch_size\":3,\"image_size\":{\"0\":8,\"1\":16},\"epochs\":2}",
		MODEL_ALONE, true},
	{"{" PLAIN ",\"group\":\"g\",\"train\":false,\"epochs\":4}", MODEL_SHARED, true},
	{"{" PLAIN ",\"group\":\"h\",\"seed\":9,\"wait_for\":2,\"laggard\":\"detach\","
	 "\"laggard_timeout_s\":1}",
		MODEL_SHARED, true},
	{"{" PLAIN ",\"group\":\"s\",\"share\":\"split\",\"rank\":0,\"world_size\":2,\"epochs\":2,"
	 "\"train\":false}",
		MODEL_SHARED, true},
	{"{" PLAIN ",\"group\":\"s\",\"share\":\"split\",\"rank\":1,\"world_size\":2,\"epochs\":2,"
	 "\"train\":false}",
		MODEL_SHARED, true},
	{"{\"stream\":\"named\",\"epochs\":3}", MODEL_SHARED, true},
	{"{\"source\":\"@/bad\",\"batch_size\":2,\"image_size\":8,\"on_broken\":\"mark\","
	 "\"max_broken\":1,\"epochs\":2}",
		MODEL_ALONE, true},
	{"{\"source\":\"@/bad\",\"batch_size\":2,\"image_size\":8,\"on_broken\":\"fail\"}",
		MODEL_FRAIL, true},
	{"{\"source\":\"@/bad\",\"batch_size\":2,\"image_size\":8,\"max_broken\":0.001}",
		MODEL_FRAIL, true},
	/* The watcher's values. */
	{"{" PLAIN ",\"seed\":11,\"epochs\":48,\"prefetch\":2}", MODEL_ALONE, true},
};
const unsigned model_definition_count = UTIL_COUNT(model_definitions);

static uint64_t contents[MODEL_DEFINITIONS][MODEL_HASHES];

void model_begin(struct model *model, struct world *world)
{
	*model = (struct model){.world = world, .fd = -1};
}

static void model_drop_held(struct model_stream *s)
{
	for (uint32_t slot = 0; slot < MODEL_SLOTS; slot++)
		s->slot[slot].held = false;
	s->held = 0;
}

/* The daemon may have taken its leases back: their slots may be overwritten. */
static void model_let_go(struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		model_drop_held(&model->stream[i]);
}

static void model_be_lax(struct model *model)
{
	model_figures.lax += !model->lax;
	model->lax = true;
	model_let_go(model);
}

struct model_stream *model_stream(struct model *model, uint32_t number)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].state != MODEL_NONE && model->stream[i].number == number)
			return &model->stream[i];
	return NULL;
}

unsigned model_streams(const struct model *model)
{
	unsigned n = 0;
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		n += model->stream[i].state != MODEL_NONE;
	return n;
}

/* ---- memory ---- */

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

/* For a trainer that was detached or given up: the message that ended the lease follows the
 * announcement in the same socket. */
static bool model_is_overwritten(const struct model_stream *s, const struct wire_batch *b)
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

static void model_check_held(const struct model_stream *s, uint32_t slot)
{
	if (model_hash(s, slot) != s->slot[slot].hash)
		world_wrong("stream %u, slot %u: a leased slot was overwritten", s->number, slot);
}

/* A client that does not read does not know what it still holds. */
static void model_check_all_held(const struct model *model, struct model_stream *s)
{
	for (uint32_t i = 0; i < s->slots && model->reads; i++)
		if (s->slot[i].held)
			model_check_held(s, i);
	model_drop_held(s);
}

static void model_forget_stream(const struct model *model, struct model_stream *s)
{
	model_check_all_held(model, s);
	if (s->memory)
		(void)munmap((void *)(uintptr_t)s->map, s->bytes);
	s->state = MODEL_NONE;
	s->memory = s->overwritten = false;
}

/* ---- sent messages ---- */

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

/* ---- received messages ---- */

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

static void model_lease(struct model_stream *s, const struct wire_batch *b)
{
	model_check_head(s, b);
	model_check_content(s, b);
	s->slot[b->slot].held = true;
	s->slot[b->slot].serial = b->serial;
	s->held++;
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

static void model_got(struct model *model, const struct conn_message *message)
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

/* The daemon has hung up. */
static void model_ended(struct model *model)
{
	bool flooded = model->unread > REQUESTS_MOST;
	if (!model->lax && !model->told && !model->half && !flooded && !model_stopped)
		world_wrong("the daemon hung up without an ERROR");
	if (flooded)
		model_be_lax(model);
	model_let_go(model);
	model->told = model->doomed = true;
}

static void model_close_streams(struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].state == MODEL_CLOSING)
			model_forget_stream(model, &model->stream[i]);
}

/* Everything that the daemon sent has been read. */
static void model_check_overwritten(const struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].overwritten && !model->lax)
			world_wrong("stream %u: a leased slot was filled again: no ERROR "
				    "(-ECANCELED) came, and no hang-up",
				model->stream[i].number);
}

void model_read(struct model *model)
{
	static struct conn_message message;
	int result;
	while ((result = conn_receive(model->fd, true, &message)) == CONN_OK) {
		model_got(model, &message);
		if (message.fd >= 0)
			(void)close(message.fd);
	}
	if (result == CONN_E_CLOSED)
		model_ended(model);
	else if (result != -EAGAIN)
		world_wrong("received bytes are not a message: %d", result);
	else
		model_check_overwritten(model);
	model_close_streams(model);
}

void model_settled(const struct model *model)
{
	const struct model_waiting *next = model->count ? &model->waiting[model->first] : NULL;
	if (model->lax || model->half || model_stopped)
		return;
	if (next)
		world_wrong("request %u, stream %u is not answered (%d)", next->request,
			next->stream, (int)next->what);
	if (model->doomed && !model->told)
		world_wrong("the connection should have ended");
}

void model_hang_up(struct model *model)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (model->stream[i].state != MODEL_NONE)
			model_forget_stream(model, &model->stream[i]);
	(void)close(model->fd);
	model_begin(model, model->world);
}
