/* liar: see liar.h. */
#include "liar.h"

#include "base/util.h"
#include "client/lib/wait.h"
#include "proto/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

enum {
	EXTENTS = 4, /* that the liar has at once */
	ALL_SEALS = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE,
	BURST = 6,
	TICK_MS = 1000,
	SIDE_MAX = 65535,
};

struct liar_figures liar_figures;

struct extent {
	bool used, announced, withdrawn;
	uint32_t number, slots;
	uint64_t stride, bytes;
	uint8_t *map;
	bool held[LIAR_SLOTS];
};

/* The state of one connection. */
static struct {
	int fd;
	bool welcomed, opened, ended, strange, hung_up;
	bool broke; /* the client must accept nothing more */
	bool unsure; /* it is unknown what the client must accept */
	uint32_t hello, open; /* requests; 0: not seen */
	uint32_t last_request; /* of the client's */
	struct wire_opened shape;
	struct extent extent[EXTENTS];
	uint32_t next_extent;
	bool started;
	uint64_t serial, epoch, batch, position;
	unsigned out; /* leases */
	struct liar_batch queue[LIAR_QUEUE];
	unsigned first, count;
	uint32_t questions[16];
	unsigned asked;
} now = {.fd = -1};

static const uint8_t *tape;
static size_t left;
static bool pinned;
static int64_t clock_now_ns;
static uint64_t marks;

uint32_t liar_draw(uint32_t below)
{
	if (!left)
		return 0;
	left--;
	return *tape++ % below;
}

bool liar_is_over(void)
{
	return left == 0;
}

static uint32_t draw_word(void)
{
	static const uint32_t words[] = {0, 1, 2, 3, 4, 7, 8, 63, 64, 65, 255, 1024, 1025, 4096,
		65535, 65536, 65537, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff};
	return liar_draw(3) ? words[liar_draw(UTIL_COUNT(words))] : liar_draw(256);
}

static bool one_in_times(uint32_t n)
{
	return left && liar_draw(n) == n - 1;
}

int64_t liar_now_ns(void)
{
	return clock_now_ns;
}

/* ---- the liar's knowledge ---- */

bool liar_welcomed(void)
{
	return now.welcomed && now.opened;
}

bool liar_ended(void)
{
	return now.ended;
}

bool liar_broke(void)
{
	return now.broke || now.unsure || now.hung_up;
}

bool liar_is_unsure(void)
{
	return now.unsure;
}

bool liar_is_strange(void)
{
	return now.strange;
}

struct liar_batch *liar_next(void)
{
	return now.count ? &now.queue[now.first] : NULL;
}

void liar_given(void)
{
	now.first = (now.first + 1) % LIAR_QUEUE;
	now.count--;
}

/* ---- memory ---- */

static uint64_t align64(uint64_t n)
{
	return (n + 63) / 64 * 64;
}

static uint64_t row_bytes(const struct wire_opened *o)
{
	return (uint64_t)o->height * o->width * o->channels * slots_pixel_bytes(o->pixel_type);
}

static void lay_out(const struct wire_opened *o, struct slots_head *head, uint64_t *ret_stride)
{
	uint64_t rows = (uint64_t)o->batch_size * o->views;
	uint64_t label = (uint64_t)slots_label_bytes(o->label_type) * o->label_width;
	head->images_offset = align64(sizeof *head);
	head->labels_offset = align64(head->images_offset + rows * row_bytes(o));
	head->records_offset = align64(head->labels_offset + label * o->batch_size);
	*ret_stride =
		(head->records_offset + 64 * rows + SLOTS_ALIGN - 1) / SLOTS_ALIGN * SLOTS_ALIGN;
}

static void unmap(struct extent *e)
{
	if (e->used && e->map)
		(void)munmap(e->map, e->bytes);
	*e = (struct extent){0};
}

static struct extent *find(uint32_t number)
{
	for (unsigned i = 0; i < EXTENTS; i++)
		if (now.extent[i].used && now.extent[i].announced && now.extent[i].number == number)
			return &now.extent[i];
	return NULL;
}

/* ---- the client's messages ---- */

static void heard_release(const struct wire_release *r)
{
	struct extent *e = find(r->extent);
	if (!e || r->slot >= e->slots || !e->held[r->slot]) {
		if (now.broke || now.unsure)
			return;
		(void)fprintf(stderr, "WRONG: the client released a batch that it did not hold\n");
		abort();
	}
	e->held[r->slot] = false;
	now.out--;
}

static void heard(const struct conn_message *m)
{
	if (m->head.request)
		now.last_request = m->head.request;
	switch (m->head.type) {
	case WIRE_HELLO:
		now.hello = m->head.request;
		return;
	case WIRE_OPEN:
		now.open = m->head.request;
		return;
	case WIRE_RELEASE:
		heard_release(conn_view(m, WIRE_RELEASE, sizeof(struct wire_release), 0));
		return;
	case WIRE_QUERY:
		now.questions[now.asked++ % UTIL_COUNT(now.questions)] = m->head.request;
		return;
	default:
		return;
	}
}

static void listen_to_client(void)
{
	static struct conn_message message;
	while (now.fd >= 0 && conn_receive(now.fd, true, &message) == CONN_OK)
		heard(&message);
}

/* ---- the liar's messages ---- */

static void hang_up(void)
{
	if (now.fd >= 0)
		(void)close(now.fd);
	now.fd = -1;
	now.hung_up = true;
	liar_figures.hangs++;
}

/* Sends a message that is known to be correct or wrong. */
static void say(void *message, size_t size, const void *text, size_t text_bytes, int fd, bool right)
{
	if (now.fd < 0)
		return;
	int result = conn_send(now.fd, true, message, size, text, text_bytes, fd);
	if (result == -EAGAIN)
		return; /* the client has not read for a long time: only this message is lost */
	liar_figures.messages++;
	liar_figures.right += right;
	liar_figures.wrong += !right;
	now.broke |= !right;
}

static bool send_raw(const void *bytes, size_t size, int fd, int more)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control;
	struct iovec part = {(void *)(uintptr_t)bytes, size};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		const int fds[2] = {fd, more};
		size_t n = more >= 0 ? 2 : 1;
		memset(&control, 0, sizeof control);
		header.msg_control = control.room;
		header.msg_controllen = CMSG_SPACE(n * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	return sendmsg(now.fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* Sends any bytes. They may be correct by chance, so nothing is known afterward. */
static void say_garbage(void)
{
	union {
		struct wire_head head;
		uint8_t bytes[256];
	} garbage;
	static const uint32_t types[] = {WIRE_WELCOME, WIRE_OPENED, WIRE_EXTENT, WIRE_WITHDRAWN,
		WIRE_BATCH, WIRE_END, WIRE_ERROR, WIRE_ANSWER, WIRE_HELLO, 0, 109, 0xffffffff};
	static const uint32_t sizes[] = {0, 1, 15, 16, 24, 32, 40, 48, 64, 160, 161, 256};
	uint32_t size = sizes[liar_draw(UTIL_COUNT(sizes))];
	int other = -1;
	memset(&garbage, (int)liar_draw(256), sizeof garbage);
	garbage.head = (struct wire_head){types[liar_draw(UTIL_COUNT(types))],
		one_in_times(6) ? draw_word() : size, liar_draw(2) ? now.last_request : draw_word(),
		liar_draw(4) ? 1 : draw_word()};
	for (uint32_t i = liar_draw(8); i > 0; i--)
		garbage.bytes[16 + liar_draw(240)] = (uint8_t)liar_draw(256);
	if (one_in_times(4))
		other = liar_draw(2) ? eventfd(0, EFD_CLOEXEC)
				     : open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (send_raw(garbage.bytes, size, other, one_in_times(3) ? STDERR_FILENO : -1))
		liar_figures.messages++;
	if (other >= 0)
		(void)close(other);
	now.unsure = true;
}

static void say_welcome(void)
{
	struct wire_welcome w = {.head = {WIRE_WELCOME, 0, now.hello, 0},
		.magic = WIRE_MAGIC,
		.version = 1,
		.pid = getpid(),
		.text_bytes = 5};
	bool right = !now.welcomed && now.hello;
	switch (liar_draw(40)) {
	case 39:
		w.magic ^= 1ull << liar_draw(64);
		right = false;
		break;
	case 38:
		w.version = draw_word();
		right &= w.version == 1;
		break;
	case 37:
		w.features = 1ull << liar_draw(64);
		right &= w.features == WIRE_FEATURE_GROUPS; /* the only one that is offered */
		break;
	case 36:
		w.head.request += 1 + liar_draw(3);
		right = false;
		break;
	case 35:
		w.pid = (int32_t)draw_word(); /* believed if such a process is alive */
		now.unsure = true;
		break;
	default:
		break;
	}
	say(&w, sizeof w, "0.1.0", 5, -1, right);
	now.welcomed |= right;
}

static bool shape_fits(const struct wire_opened *o)
{
	return o->batch_size >= 1 && o->batch_size <= 65536 && o->height >= 1 &&
	       o->height <= SIDE_MAX && o->width >= 1 && o->width <= SIDE_MAX && o->channels >= 1 &&
	       o->channels <= 4 && o->views >= 1 && o->views <= SLOTS_VIEWS_MAX && o->slots >= 1 &&
	       o->slots <= WIRE_SLOTS_MAX && o->rank < o->world_size;
}

static bool shape_known(const struct wire_opened *o)
{
	return slots_pixel_bytes(o->pixel_type) && slots_label_bytes(o->label_type) &&
	       o->pixel_layout >= SLOTS_NHWC && o->pixel_layout <= SLOTS_NCHW && o->channels == 3 &&
	       o->label_width >= 1 &&
	       o->label_width <= (o->label_type == SLOTS_LABEL_F32 ? SLOTS_LABELS_MAX : 1u);
}

static void change_word(void *message, size_t size)
{
	uint32_t word = draw_word();
	size_t at = sizeof(struct wire_head) +
		    liar_draw((uint32_t)(size - sizeof(struct wire_head)) / 4) * 4;
	memcpy((uint8_t *)message + at, &word, sizeof word);
}

static void say_opened(void)
{
	struct wire_opened o = now.shape;
	o.head = (struct wire_head){WIRE_OPENED, 0, now.open, 1};
	bool asked = now.welcomed && now.open && !now.opened;
	if (one_in_times(20))
		change_word(&o, sizeof o);
	if (one_in_times(60))
		o.head.request++;
	bool right = asked && o.head.request == now.open && shape_fits(&o);
	if (right && !shape_known(&o))
		now.strange = now.unsure = true;
	/* Other tests cover sizes that cannot be allocated. */
	if (right && (row_bytes(&o) * o.batch_size * o.views > 1 << 16 || o.label_width > 16 ||
			     o.slots > LIAR_SLOTS))
		now.unsure = true;
	now.shape = o;
	say(&o, sizeof o, NULL, 0, -1, right);
	if (!right)
		return;
	now.opened = true;
	now.epoch = o.epoch;
	now.batch = o.batch;
	now.position = o.position;
}

static int make_memory(struct extent *e, int seals, uint64_t size)
{
	int fd = memfd_create("fuzz-extent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)size))
		return fd;
	void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	e->map = map == MAP_FAILED ? NULL : map;
	e->bytes = size;
	(void)fcntl(fd, F_ADD_SEALS, seals);
	return fd;
}

static int other_descriptor(void)
{
	switch (liar_draw(3)) {
	case 0:
		return eventfd(0, EFD_CLOEXEC);
	case 1:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	default:
		return -1;
	}
}

static bool extent_fits(const struct wire_extent *x, const struct extent *e, int seals)
{
	uint64_t need;
	int least = pinned ? ALL_SEALS & ~F_SEAL_FUTURE_WRITE : ALL_SEALS;
	return x->slot_count >= 1 && x->slot_count <= WIRE_SLOTS_MAX &&
	       x->slot_stride % SLOTS_ALIGN == 0 && x->slot_stride >= sizeof(struct slots_head) &&
	       !__builtin_mul_overflow(x->slot_stride, (uint64_t)x->slot_count, &need) &&
	       need <= x->bytes && x->bytes == e->bytes && (seals & least) == least;
}

static struct extent *free_extent(void)
{
	for (unsigned i = 0; i < EXTENTS; i++)
		if (!now.extent[i].used)
			return &now.extent[i];
	return NULL;
}

static bool flows(void)
{
	return now.opened && !now.ended && !now.strange;
}

static void say_extent(void)
{
	struct slots_head head = {0};
	struct extent *e = free_extent();
	uint64_t stride;
	if (!e || !flows())
		return;
	lay_out(&now.shape, &head, &stride);
	*e = (struct extent){.used = true, .number = now.next_extent++};
	e->slots = 1 + liar_draw(LIAR_SLOTS);
	e->stride = stride;
	struct wire_extent x = {.head = {WIRE_EXTENT, 0, 0, 1},
		.extent = e->number,
		.slot_count = e->slots,
		.slot_stride = stride,
		.bytes = stride * e->slots};
	uint64_t size = x.bytes;
	int seals = ALL_SEALS;
	if (one_in_times(16))
		seals &= ~(1 << liar_draw(5));
	if (one_in_times(20))
		size += SLOTS_ALIGN * (uint64_t)(liar_draw(3) - 1);
	if (one_in_times(20))
		change_word(&x, sizeof x);
	int fd = size ? make_memory(e, seals, size) : -1;
	if (fd >= 0 && e->map && !extent_fits(&x, e, seals))
		now.broke = true;
	bool right = fd >= 0 && e->map && extent_fits(&x, e, seals) && !find(x.extent) &&
		     x.slot_count <= LIAR_SLOTS && x.slot_stride >= stride;
	if (one_in_times(24)) {
		if (fd >= 0)
			(void)close(fd);
		fd = other_descriptor();
		right = false;
	}
	/* Correct, but for another stream; or a number that the client has forgotten. */
	now.unsure |= !right && !now.broke;
	e->number = x.extent;
	e->slots = x.slot_count;
	e->stride = x.slot_stride;
	e->announced = right;
	say(&x, sizeof x, NULL, 0, fd, right);
	if (fd >= 0)
		(void)close(fd);
	if (!right)
		unmap(e);
}

static void say_withdrawn(void)
{
	struct extent *e = &now.extent[liar_draw(EXTENTS)];
	struct wire_withdrawn w = {
		.head = {WIRE_WITHDRAWN, 0, 0, 1}, .extent = e->used ? e->number : draw_word()};
	struct extent *known = find(w.extent);
	if (!flows() || (!known && !one_in_times(16)))
		return;
	bool right = known && !known->withdrawn;
	/* The client forgets an extent that was withdrawn and is not leased: its number may come
	 * again. */
	if (known)
		known->withdrawn = true;
	say(&w, sizeof w, NULL, 0, -1, right);
}

static void fill(const struct extent *e, const struct wire_batch *b, struct liar_batch *ret)
{
	const struct wire_opened *o = &now.shape;
	uint8_t *slot = e->map + (uint64_t)b->slot * e->stride;
	uint64_t stride;
	struct slots_head head = {.magic = SLOTS_MAGIC,
		.version = SLOTS_VERSION,
		.head_bytes = sizeof head,
		.serial = b->serial,
		.epoch = b->epoch,
		.batch = b->batch,
		.position = b->position,
		.count = b->count,
		.batch_size = o->batch_size,
		.height = o->height,
		.width = o->width,
		.channels = o->channels,
		.pixel_type = o->pixel_type,
		.pixel_layout = o->pixel_layout,
		.label_type = o->label_type,
		.label_width = o->label_width,
		.record_bytes = sizeof(struct slots_record),
		.row_bytes = row_bytes(o),
		.views = o->views};
	lay_out(o, &head, &stride);
	*ret = (struct liar_batch){
		.message = *b, .slot = slot, .stride = e->stride, .sound = true, .mark = ++marks};
	memset(slot + head.images_offset, (int)(marks & 0xff),
		o->batch_size * (uint64_t)o->views * head.row_bytes);
	if (one_in_times(32)) {
		struct slots_head was = head;
		uint32_t word = draw_word();
		memcpy((uint8_t *)&head + liar_draw(sizeof head / 4) * 4, &word, sizeof word);
		/* Fields that the client does not check may have any value. */
		was.ready_ns = head.ready_ns;
		was.fields_offset = head.fields_offset;
		if (head.head_bytes > was.head_bytes)
			was.head_bytes = head.head_bytes;
		ret->sound = memcmp(&was, &head, sizeof head) == 0;
		/* Parts may be elsewhere in the slot. */
		now.unsure |= was.images_offset != head.images_offset ||
			      was.labels_offset != head.labels_offset ||
			      was.records_offset != head.records_offset;
	}
	memcpy(slot, &head, sizeof head);
}

static void go_on(const struct wire_batch *b)
{
	now.started = true;
	now.serial = b->serial + 1;
	now.out++;
	if (b->flags & WIRE_BATCH_LAST) {
		now.epoch = b->epoch + 1;
		now.batch = now.position = 0;
	} else {
		now.epoch = b->epoch;
		now.batch = b->batch + 1;
		now.position = b->position + (uint64_t)now.shape.batch_size * now.shape.world_size;
	}
}

static const char *batch_wrong(const struct wire_batch *b, const struct extent *e)
{
	if (!e || e->withdrawn || b->slot >= e->slots)
		return "memory";
	if (e->held[b->slot] || now.out >= now.shape.slots)
		return "lease";
	if (now.started && b->serial != now.serial)
		return "serial";
	if (b->count < 1 || b->count > now.shape.batch_size)
		return "count";
	if (b->epoch != now.epoch || b->batch != now.batch)
		return "name";
	return NULL;
}

static uint32_t free_slot(const struct extent *e)
{
	for (uint32_t slot = 0; slot < e->slots; slot++)
		if (!e->held[slot])
			return slot;
	return liar_draw(LIAR_SLOTS);
}

static void change_batch(struct wire_batch *b)
{
	switch (liar_draw(8)) {
	case 0:
		b->serial += liar_draw(4) - 1u;
		break;
	case 1:
		b->slot = draw_word();
		break;
	case 2:
		b->extent = draw_word();
		break;
	case 3:
		b->count = draw_word();
		break;
	case 4:
		b->epoch += liar_draw(3) - 1u;
		break;
	case 5:
		b->batch += liar_draw(3) - 1u;
		break;
	case 6:
		b->flags = draw_word();
		break;
	default:
		b->position = draw_word();
		break;
	}
}

static void say_batch(void)
{
	struct extent *e = &now.extent[liar_draw(EXTENTS)];
	if (!flows() || !e->used || !e->announced || now.count == LIAR_QUEUE)
		return;
	struct wire_batch b = {.head = {WIRE_BATCH, 0, 0, 1},
		.extent = e->number,
		.slot = free_slot(e),
		.serial = now.started ? now.serial : draw_word(),
		.epoch = now.epoch,
		.batch = now.batch,
		.position = now.position,
		.count = 1 + liar_draw(now.shape.batch_size),
		.flags = one_in_times(4) ? WIRE_BATCH_LAST : 0};
	if (now.out >= now.shape.slots && !one_in_times(8))
		return;
	if (one_in_times(40))
		change_batch(&b);
	struct extent *known = find(b.extent);
	bool right = !batch_wrong(&b, known);
	/* The client must not accept it after a message that breaks the protocol. */
	if (right && !now.broke) {
		struct liar_batch *ours = &now.queue[(now.first + now.count++) % LIAR_QUEUE];
		fill(known, &b, ours);
		known->held[b.slot] = true;
		go_on(&b);
		liar_figures.batches++;
		say(&b, sizeof b, NULL, 0, -1, true);
		now.broke |= !ours->sound;
	} else {
		say(&b, sizeof b, NULL, 0, -1, false);
	}
}

static void say_end(void)
{
	struct wire_end e = {
		.head = {WIRE_END, 0, 0, 1}, .epochs = now.epoch, .batches = now.serial};
	if (!flows() || !one_in_times(4))
		return;
	now.ended = true;
	say(&e, sizeof e, NULL, 0, -1, true);
}

/* An answer to a question, to no question, or the end of the stream or of the connection. */
static void say_error(void)
{
	static const int32_t codes[] = {-EPROTO, -EINVAL, -ENOMEM, -ECANCELED, -ESHUTDOWN, -EIO,
		-EAGAIN, -EINTR, -ETIMEDOUT, -EPIPE, -EDEADLK, -ENOENT, 0, 1, -4095, -4096,
		INT32_MIN};
	struct wire_error e = {.head = {WIRE_ERROR, 0, 0, liar_draw(3) ? 1 : 0},
		.code = codes[liar_draw(UTIL_COUNT(codes))]};
	char text[64];
	if (!now.welcomed || !one_in_times(8))
		return;
	if (one_in_times(2))
		e.head.request = liar_draw(2) ? now.last_request : draw_word();
	e.text_bytes = liar_draw(2) ? (uint32_t)snprintf(text, sizeof text, "it is as it is") : 0;
	/* It may end the stream, or answer a question; the liar knows only that it was sent. */
	if (now.fd >= 0)
		(void)conn_send(now.fd, true, &e.head, sizeof e, text, e.text_bytes, -1);
	liar_figures.messages++;
	now.unsure = true;
}

static void say_answer(void)
{
	struct wire_answer a = {.head = {WIRE_ANSWER, 0, 0, 1}};
	char text[] = "an answer";
	if (!now.asked)
		return;
	a.head.request = now.questions[--now.asked % UTIL_COUNT(now.questions)];
	a.total_bytes = a.text_bytes = sizeof text - 1;
	bool right = true;
	int fd = -1;
	if (one_in_times(6)) {
		struct extent memory = {0};
		int seals = one_in_times(3) ? ALL_SEALS & ~(1 << liar_draw(5)) : ALL_SEALS;
		fd = make_memory(&memory, seals, 40000);
		if (memory.map)
			(void)munmap(memory.map, memory.bytes);
		a.total_bytes = one_in_times(3) ? 40001 + draw_word() : 40000;
		a.text_bytes = 0;
		right = seals == ALL_SEALS && a.total_bytes == 40000;
	} else if (one_in_times(12)) {
		change_word(&a, sizeof a);
		right = false;
	}
	size_t bytes = fd >= 0 ? 0 : sizeof text - 1;
	say(&a, sizeof a, text, bytes, fd, true);
	/* A wrong answer fails only the question, or the stream. */
	now.unsure |= !right;
	if (fd >= 0)
		(void)close(fd);
}

/* Memory that the client may be reading. */
static void scribble(void)
{
	struct extent *e = &now.extent[liar_draw(EXTENTS)];
	if (!e->used || !e->map || !e->announced || !one_in_times(6))
		return;
	uint8_t *slot = e->map + (uint64_t)liar_draw(e->slots) * e->stride;
	uint32_t word = draw_word();
	memcpy(slot + liar_draw(sizeof(struct slots_head) / 4) * 4, &word, sizeof word);
	now.unsure = true;
}

static void say_next(void)
{
	static void (*const flow[])(void) = {say_batch, say_batch, say_batch, say_batch, say_batch,
		say_batch, say_batch, say_batch, say_answer, say_answer, say_extent, say_withdrawn,
		say_end, say_error, scribble, say_batch};
	if (!now.welcomed)
		say_welcome();
	else if (!now.opened && now.open)
		say_opened();
	else if (now.opened && !now.next_extent)
		say_extent();
	else
		flow[liar_draw(UTIL_COUNT(flow))]();
}

/* Its turn: the client waits. */
static void turn(void)
{
	listen_to_client();
	if (now.fd < 0)
		return;
	if (liar_is_over() || one_in_times(64)) {
		hang_up();
		return;
	}
	for (uint32_t i = 1 + liar_draw(BURST); i > 0 && now.fd >= 0; i--) {
		if (one_in_times(160))
			say_garbage();
		else
			say_next();
		listen_to_client();
	}
}

/* ---- replacements of the library's functions ---- */

int __wrap_conn_connect_within(const char *path, int limit_ms, int *ret_fd);
int __wrap_conn_connect(const char *path, int *ret_fd);
int64_t __wrap_wait_deadline(int64_t ms);
int __wrap_wait_left_ms(int64_t deadline_ns, int most_ms);
int __wrap_wait_poll(struct wait *wait, int fd, short events, int64_t deadline_ns);
int __wrap_wait_pause(struct wait *wait, int64_t ms);

static void forget_connection(void)
{
	if (now.fd >= 0)
		(void)close(now.fd);
	for (unsigned i = 0; i < EXTENTS; i++)
		unmap(&now.extent[i]);
	struct wire_opened shape = now.shape;
	memset(&now, 0, sizeof now);
	now.shape = shape;
	now.fd = -1;
}

int __wrap_conn_connect_within(const char *path, int limit_ms, int *ret_fd)
{
	static const int refusals[] = {-ENOENT, -ECONNREFUSED, -EACCES, -ETIMEDOUT};
	int pair[2];
	(void)path, (void)limit_ms;
	forget_connection();
	now.hung_up = liar_is_over();
	if (now.hung_up)
		return -ENOENT;
	if (one_in_times(24)) {
		now.unsure = true;
		return refusals[liar_draw(UTIL_COUNT(refusals))];
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	now.fd = pair[0];
	*ret_fd = pair[1];
	liar_figures.connections++;
	return 0;
}

int __wrap_conn_connect(const char *path, int *ret_fd)
{
	return __wrap_conn_connect_within(path, 5000, ret_fd);
}

int64_t __wrap_wait_deadline(int64_t ms)
{
	return clock_now_ns + ms * 1000000;
}

int __wrap_wait_left_ms(int64_t deadline_ns, int most_ms)
{
	int64_t left_ns = deadline_ns - clock_now_ns;
	int64_t left_ms = left_ns <= 0 ? 0 : (left_ns + 999999) / 1000000;
	return left_ms < most_ms ? (int)left_ms : most_ms;
}

int __wrap_wait_poll(struct wait *wait, int fd, short events, int64_t deadline_ns)
{
	struct pollfd wanted = {.fd = fd, .events = events};
	(void)wait;
	if (fd >= 0 && poll(&wanted, 1, 0) > 0)
		return 1;
	turn();
	if (fd >= 0 && poll(&wanted, 1, 0) > 0)
		return 1;
	clock_now_ns += (int64_t)__wrap_wait_left_ms(deadline_ns, TICK_MS) * 1000000;
	return 0;
}

int __wrap_wait_pause(struct wait *wait, int64_t ms)
{
	(void)wait;
	clock_now_ns += ms * 1000000;
	return 0;
}

/* ---- a case ---- */

void liar_begin(const uint8_t *bytes, size_t size, bool writable)
{
	tape = bytes;
	left = size;
	pinned = writable;
	clock_now_ns = 1000000000;
	now.fd = -1;
	forget_connection();
	bool floats = liar_draw(4) == 3;
	now.shape = (struct wire_opened){.samples = 60,
		.epoch_samples = 60,
		.batches = 20,
		.fingerprint = 1,
		.order = 2,
		.transform = 3,
		.batch_size = 1 + liar_draw(3),
		.height = 1 + liar_draw(8),
		.width = 1 + liar_draw(8),
		.channels = 3,
		.pixel_type = 1 + liar_draw(4),
		.pixel_layout = 1 + liar_draw(2),
		.label_type = floats ? SLOTS_LABEL_F32 : SLOTS_LABEL_I64,
		.label_width = floats ? 1 + liar_draw(5) : 1,
		.world_size = 1,
		.slots = 1 + liar_draw(4),
		.views = 1 + liar_draw(2)};
}

void liar_end(void)
{
	forget_connection();
}
