/* The daemon against clients that send anything: programs of up to three attacking connections. A
 * model of PROTOCOL.md judges each message, while a well-behaved trainer must keep getting exactly
 * the right batches.
 *
 * A program is a string of bytes: for libFuzzer, or drawn at random (drive.h). After each
 * program all attackers have hung up, and no lease, stream, list, reserved byte or descriptor of
 * theirs remains. At the end the test prints how many messages it judged. */
#include "fuzz/wire/model.h"

#ifndef PENSTOCK_LIBFUZZER
#include "fuzz/drive.h"
enum { FDS_OTHER = 0 };
#else
enum { FDS_OTHER = 8 }; /* libFuzzer opens files between cases */
#endif

#include "base/clock.h"
#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ATTACKERS = 3,
	ACTIONS = 320,
	FDS_MOST = 6,
	WATCHER_LEARNS = 240, /* batches before the first attack */
	AWAIT_MS = 60000,
	FDS_EVERY = 16, /* programs */
	QUIET_TURNS = 50,
	ENVELOPE = 8192,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct world world;
static struct model watcher, attacker[ATTACKERS];
static uint64_t quiet_reserved, programs, watched;
static int quiet_fds;
static uint32_t requests; /* of openings; never reused */

/* ---- the program ---- */

static const uint8_t *tape;
static size_t tape_left;

static uint32_t take(uint32_t below)
{
	if (!tape_left)
		return 0;
	tape_left--;
	return *tape++ % below;
}

static uint32_t take_word(void)
{
	static const uint32_t words[] = {0, 1, 2, 3, 7, 16, 64, 255, 1024, 65535, 65536, 0x7fffffff,
		0x80000000, 0xfffffffe, 0xffffffff, 101};
	uint32_t kind = take(4);
	if (kind == 0)
		return words[take(UTIL_COUNT(words))];
	uint32_t word = take(256);
	return kind == 1 ? word : word << 8 | take(256);
}

/* ---- sending ---- */

static bool is_there(const struct model *m)
{
	return m->fd >= 0;
}

/* Judges the messages that have arrived; a client that does not read leaves them in the socket. */
static void look(struct model *m)
{
	if (is_there(m) && m->reads)
		model_read(m);
}

static void settle(struct model *m)
{
	world_settle(&world, m->fd);
	look(m);
	if (m->reads)
		model_settled(m);
}

/* A full socket is not a fault: its client does not read. */
static void put(struct model *m, const void *bytes, size_t size, unsigned fds, int definition)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(FDS_MOST * sizeof(int))];
	} control;
	struct iovec part = {(void *)(uintptr_t)bytes, size};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	if (fds) {
		memset(&control, 0, sizeof control);
		header.msg_control = control.room;
		header.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(fds * sizeof(int));
		for (unsigned i = 0; i < fds; i++)
			memcpy(CMSG_DATA(c) + i * sizeof(int), &m->fd, sizeof(int));
	}
	look(m);
	/* The daemon does not handle it before the next turn. */
	if (sendmsg(m->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		model_sent(m, bytes, size, fds, definition);
	else if (!m->doomed && !m->lax && m->reads && !(fds && errno == EPERM))
		world_wrong("a message of %zu bytes cannot be sent: %s", size, strerror(errno));
}

static void note(
	const struct model *m, const char *what, const struct wire_head *head, unsigned fds)
{
	world_note("%td: %s: type %u, %u bytes, request %u, stream %u, %u fds", m - attacker, what,
		head->type, head->bytes, head->request, head->stream, fds);
}

static bool burst; /* sends messages without a turn between them */

static void send_message(struct model *m, void *message, size_t size, unsigned fds, int definition)
{
	struct wire_head *head = message;
	note(m, "sends", head, fds);
	put(m, message, size, fds, definition);
	if (!burst)
		settle(m);
}

/* ---- messages ---- */

static void say_hello(struct model *m)
{
	struct wire_hello hello = {.head = {WIRE_HELLO, sizeof hello, 1, 0},
		.magic = WIRE_MAGIC,
		.version_min = 1,
		.version_max = 1 + take(3)};
	switch (take(24)) {
	case 1:
		hello.version_min = take_word();
		break;
	case 2:
		hello.magic ^= 1ull << take(64);
		break;
	case 3:
		hello.version_max = take_word();
		break;
	case 4:
		hello.head.request = 0;
		break;
	case 5:
		hello.features = take_word();
		break;
	default:
		break;
	}
	send_message(m, &hello, sizeof hello, 0, -1);
}

/* A stream's number: mostly small, so that numbers collide. */
static uint32_t take_number(void)
{
	uint32_t number = 1 + take(20);
	return number > 18 ? take_word() : number;
}

static struct {
	struct wire_open open;
	char text[ENVELOPE];
} letter;

static void send_open(struct model *m, uint32_t number, size_t size, int definition)
{
	letter.open = (struct wire_open){
		.head = {WIRE_OPEN, (uint32_t)(sizeof letter.open + size), ++requests, number},
		.text_bytes = (uint32_t)size};
	world_note("   %.*s", (int)UTIL_MIN(size, (size_t)230), letter.text);
	send_message(m, &letter, sizeof letter.open + size, 0, definition);
}

/* Puts a state into the definition that ends with }. */
static size_t add_state(const struct model *m, size_t size)
{
	const struct model_stream *s = NULL;
	for (unsigned i = 0; i < MODEL_STREAMS && !s; i++)
		if (m->stream[i].state == MODEL_OPEN && m->stream[i].kind == MODEL_ALONE &&
			m->stream[i].definition >= 0)
			s = &m->stream[i];
	if (!s)
		return size;
	const struct wire_opened *o = &s->opened;
	int n = snprintf(letter.text + size - 1, sizeof letter.text - size,
		",\"state\":{\"version\":1,\"fingerprint\":\"%016llx\",\"order\":\"%016llx\","
		"\"transform\":\"%016llx\",\"seed\":%llu,\"epoch\":%llu,\"position\":%llu}}",
		(unsigned long long)o->fingerprint, (unsigned long long)o->order,
		(unsigned long long)o->transform, (unsigned long long)o->seed,
		(unsigned long long)s->epoch, (unsigned long long)s->position);
	return size - 1 + (size_t)n;
}

static bool step_open(struct model *m)
{
	uint32_t number = take_number();
	int definition = (int)take(model_definition_count - 1);
	size_t size = world_text(
		&world, model_definitions[definition].text, letter.text, sizeof letter.text);
	if (take(8) == 7) {
		/* The state of another definition may fit or not. */
		size = add_state(m, size);
		definition = -1;
	}
	send_open(m, number, size, definition);
	return definition >= 0 && model_definitions[definition].kind == MODEL_ALONE;
}

static size_t mutate_text(size_t size)
{
	static const char *const words[] = {"\"", "{", "}", "[", "]", ":", ",", "0", "-1", "1e9",
		"65536", "65537", "2049", "null", "true", "false", "\"group\":\"g\",",
		"\"share\":\"split\",", "\"rank\":3,", "\"world_size\":65536,", "\"prefetch\":64,",
		"\"batch_size\":65536,", "\"image_size\":4096,", "\"epochs\":1,",
		"\"wait_for\":1024,", "\"reconnect\":true,", "\"views\":8,", "\"state\":{},",
		"\"transforms\":[{\"resize\":8}],", "\"labels\":\"none\",", "\"split\":\"[:50%]\",",
		"\"repeats\":16,", "\"epoch_length\":3,", "\"dtype\":\"bfloat16\",", "\xff", "\n",
		"&a ", "*a", "<<: ", "- ", "? "};
	uint32_t times = 1 + take(3);
	while (times--) {
		size_t at = 1 + (take_word() % (uint32_t)size);
		const char *word = words[take(UTIL_COUNT(words))];
		uint32_t how = take(8);
		if (how < 6 || size < 8) {
			/* Inserts keys at the front, where they count as keys. */
			at = how < 4 ? 1 : at;
			memmove(letter.text + at + strlen(word), letter.text + at, size - at);
			memcpy(letter.text + at, word, strlen(word));
			size += strlen(word);
		} else if (how == 6) {
			letter.text[at - 1] = (char)take(256);
		} else {
			size = UTIL_MAX(at, (size_t)1);
		}
	}
	return size;
}

/* However the text was changed, the daemon opens nothing outside the world. */
static bool stays_inside(size_t size)
{
	static struct stream_spec spec;
	struct fault fault;
	if (spec_parse(letter.text, size, "open request", &spec, &fault))
		return true;
	return !strncmp(spec.source, world.root, strlen(world.root)) ||
	       (!spec.source[0] && spec.name[0]);
}

static void step_open_changed(struct model *m)
{
	uint32_t number = take_number();
	size_t size = world_text(&world, model_definitions[take(model_definition_count)].text,
		letter.text, sizeof letter.text);
	size = mutate_text(size);
	if (stays_inside(size))
		send_open(m, number, size, -1);
}

static struct model_stream *take_stream(struct model *m, bool holding)
{
	uint32_t from = take(MODEL_STREAMS);
	for (unsigned i = 0; i < MODEL_STREAMS; i++) {
		struct model_stream *s = &m->stream[(from + i) % MODEL_STREAMS];
		if (s->state == MODEL_OPEN && (s->held || !holding))
			return s;
	}
	return NULL;
}

static void send_release(struct model *m, const struct wire_release *release)
{
	struct wire_release message = *release;
	message.head.type = WIRE_RELEASE;
	message.head.bytes = sizeof message;
	world_note("   extent %u, slot %u, serial %llu", message.extent, message.slot,
		(unsigned long long)message.serial);
	send_message(m, &message, sizeof message, 0, -1);
}

static uint32_t held_slot(const struct model_stream *s)
{
	uint32_t slot = take(64) % s->slots;
	while (!s->slot[slot].held)
		slot = (slot + 1) % s->slots;
	return slot;
}

static void step_release(struct model *m)
{
	const struct model_stream *s = take_stream(m, true);
	if (!s)
		return;
	uint32_t slot = held_slot(s);
	send_release(m, &(struct wire_release){.head.stream = s->number,
				.extent = s->extent,
				.slot = slot,
				.serial = s->slot[slot].serial});
}

/* Releases a batch that it does not hold: with a changed field, with another stream's number, or
 * twice. */
static void step_release_wrong(struct model *m)
{
	const struct model_stream *s = take_stream(m, true);
	const struct model_stream *other = take_stream(&attacker[take(ATTACKERS)], true);
	struct wire_release release = {.head.stream = take_number(),
		.extent = take_word(),
		.slot = take_word(),
		.serial = take_word()};
	if (s) {
		uint32_t slot = held_slot(s);
		release = (struct wire_release){.head.stream = s->number,
			.extent = s->extent,
			.slot = slot,
			.serial = s->slot[slot].serial};
	}
	switch (take(6)) {
	case 0:
		release.extent += 1 + take(4);
		break;
	case 1:
		release.slot = take_word();
		break;
	case 2:
		release.serial -= 1 + take(4);
		break;
	case 3:
		release.head.stream = take_number();
		break;
	case 4:
		if (other) {
			uint32_t slot = held_slot(other);
			release.extent = other->extent;
			release.slot = slot;
			release.serial = other->slot[slot].serial;
		}
		break;
	default:
		if (s)
			send_release(m, &release);
		break;
	}
	if (is_there(m))
		send_release(m, &release);
}

static void step_close(struct model *m)
{
	const struct model_stream *s = take_stream(m, false);
	struct wire_close message = {.head = {WIRE_CLOSE, sizeof message, take(4) ? 0 : take_word(),
					     s && take(4) ? s->number : take_number()}};
	send_message(m, &message, sizeof message, 0, -1);
}

static void step_query(struct model *m)
{
	const struct model_stream *s = take_stream(m, false);
	struct wire_query message = {.head = {WIRE_QUERY, sizeof message, 0x10000 + take(256),
					     s && take(4) ? s->number : take_number()},
		.kind = take(9),
		.argument = take(8) ? take(16) : (uint64_t)take_word() << take(33)};
	/* Answers to these come in any order, so they have their own numbers. */
	uint32_t own = message.kind == WIRE_QUERY_PATH || message.kind == WIRE_QUERY_SAMPLES;
	message.head.request += own << 8;
	if (take(16) == 15)
		message.head.request = take(2) ? 0 : 0xffffffff - own;
	send_message(m, &message, sizeof message, 0, -1);
}

/* ---- malformed messages ---- */

static void step_garbage(struct model *m)
{
	static union {
		struct wire_head head;
		uint8_t bytes[WIRE_MESSAGE_MAX + 64];
	} garbage;
	static const uint32_t sizes[] = {0, 1, 8, 15, 16, 17, 24, 32, 39, 40, 41, 64, 160, 32768,
		65535, 65536, 65537, 65600};
	uint32_t size = take(4) ? sizes[take(UTIL_COUNT(sizes))] : take(256);
	memset(garbage.bytes, (int)take(256), size);
	garbage.head.type = take(3) ? 1 + take(7) : take_word();
	garbage.head.bytes = take(4) ? size : take_word();
	garbage.head.request = take(2) ? take_word() : ++requests;
	garbage.head.stream = take_number();
	for (uint32_t i = take(6); i > 0 && size > 16; i--)
		garbage.bytes[16 + take_word() % (size - 16)] = (uint8_t)take(256);
	if (garbage.head.type == WIRE_STOP || garbage.head.type == WIRE_OPEN)
		garbage.head.bytes = size ^ 4; /* neither may be a valid value */
	send_message(m, &garbage, size, take(8) ? 0 : take(FDS_MOST), -1);
}

/* Correct except for its length, or for a descriptor that comes with it. */
static void step_misshapen(struct model *m)
{
	struct {
		struct wire_query query;
		uint8_t more[32];
	} message = {
		.query = {.head = {WIRE_QUERY, 0, 0x20000, take_number()}, .kind = 1 + take(6)}};
	static const uint32_t types[] = {WIRE_HELLO, WIRE_RELEASE, WIRE_CLOSE, WIRE_QUERY,
		WIRE_QUERY, WIRE_QUERY, WIRE_QUERY, WIRE_QUERY};
	uint32_t size = sizeof message.query;
	uint32_t fds = take(FDS_MOST + 1);
	if (take(2)) {
		message.query.head.type = types[take(UTIL_COUNT(types))];
		size = 16 + take(sizeof message - 16 + 1);
	}
	message.query.head.bytes = size;
	send_message(m, &message, size, fds, -1);
}

static void step_burst(struct model *m)
{
	burst = true;
	for (uint32_t i = take(48); i > 0 && is_there(m) && !m->doomed; i--)
		if (take(32) == 31)
			step_release_wrong(m);
		else if (take(4) == 3)
			step_release(m);
		else
			step_query(m);
	burst = false;
	settle(m);
}

/* Asks repeatedly and reads nothing. */
static void step_flood(struct model *m)
{
	uint32_t times = take(4) ? 0 : take(256);
	uint64_t counted = model_figures.sent;
	m->reads = false;
	burst = true;
	for (uint32_t i = 0; i < times; i++) {
		struct wire_query message = {.head = {WIRE_QUERY, sizeof message, 0x30000 + i, 0},
			.kind = WIRE_QUERY_STATUS};
		put(m, &message, sizeof message, 0, -1);
		if (i % 8 == 7)
			world_settle(&world, m->fd);
	}
	burst = false;
	model_figures.flood += model_figures.sent - counted;
	model_figures.sent = counted;
	world_note("%td: has asked %u times and read nothing", m - attacker, times);
	world_settle(&world, m->fd);
}

static void step_stop(struct model *m)
{
	struct wire_stop message = {.head = {WIRE_STOP, sizeof message, 0x40000, 0}};
	/* Starting a daemon takes milliseconds. */
	if (take(256) != 77 || take(4))
		return;
	send_message(m, &message, sizeof message, 0, -1);
}

/* ---- time ---- */

static bool waits_for_opening(const struct model *m)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++)
		if (m->stream[i].state == MODEL_OPENING && m->stream[i].must_open)
			return true;
	return false;
}

/* A connection that has room for it must get a batch, or the end. */
static bool waits_for_batch(const struct model *m)
{
	for (unsigned i = 0; i < MODEL_STREAMS; i++) {
		const struct model_stream *s = &m->stream[i];
		if (s->state == MODEL_OPEN && s->kind == MODEL_ALONE && s->definition >= 0 &&
			!s->ended && s->held < s->opened.slots && !s->count)
			return true;
	}
	return false;
}

static void await(struct model *m, bool (*waits)(const struct model *m))
{
	uint64_t end_ns = clock_ns() + AWAIT_MS * 1000000ull;
	while (is_there(m) && m->reads && !m->doomed && !m->lax && !model_stopped && waits(m)) {
		if (clock_ns() > end_ns)
			world_wrong("nothing came for %d ms", AWAIT_MS);
		world_turn(&world, 20);
		look(m);
		look(&watcher);
	}
}

/* ---- the watcher ---- */

static void watcher_open(void)
{
	size_t size = world_text(&world, model_definitions[model_definition_count - 1].text,
		letter.text, sizeof letter.text);
	letter.open = (struct wire_open){
		.head = {WIRE_OPEN, (uint32_t)(sizeof letter.open + size), ++requests, 1},
		.text_bytes = (uint32_t)size};
	put(&watcher, &letter, sizeof letter.open + size, 0, (int)model_definition_count - 1);
}

static void watcher_connect(void)
{
	struct wire_hello hello = {.head = {WIRE_HELLO, sizeof hello, 1, 0},
		.magic = WIRE_MAGIC,
		.version_min = 1,
		.version_max = 1};
	model_begin(&watcher, &world);
	watcher.fd = world_connect(&world);
	watcher.reads = true;
	put(&watcher, &hello, sizeof hello, 0, -1);
	watcher_open();
}

/* Reads all messages and releases all batches; reopens after the last epoch. */
static void watcher_goes_on(void)
{
	model_read(&watcher);
	model_learns = true; /* no other trainer is ahead of it */
	struct model_stream *s = model_stream(&watcher, 1);
	for (uint32_t slot = 0; s && slot < s->slots; slot++) {
		if (!s->slot[slot].held)
			continue;
		struct wire_release release = {.head = {WIRE_RELEASE, sizeof release, 0, 1},
			.extent = s->extent,
			.slot = slot,
			.serial = s->slot[slot].serial};
		put(&watcher, &release, sizeof release, 0, -1);
		watched++;
	}
	if (s && s->ended) {
		struct wire_close close_it = {.head = {WIRE_CLOSE, sizeof close_it, 0, 1}};
		put(&watcher, &close_it, sizeof close_it, 0, -1);
		world_settle(&world, watcher.fd);
		model_read(&watcher);
		watcher_open();
	}
}

static void watcher_gets(uint64_t batches)
{
	uint64_t end_ns = clock_ns() + AWAIT_MS * 1000000ull, wanted = watched + batches;
	watcher_goes_on();
	while (watched < wanted) {
		if (clock_ns() > end_ns)
			world_wrong("the watcher got no batch for %d ms", AWAIT_MS);
		world_turn(&world, 20);
		watcher_goes_on();
	}
}

/* ---- the world before and after ---- */

/* Each definition is read once, undisturbed. */
static void learn(void)
{
	struct model *m = &attacker[0];
	for (unsigned d = 0; d + 1 < model_definition_count; d++) {
		if (model_definitions[d].kind != MODEL_ALONE)
			continue;
		m->fd = world_connect(&world);
		m->reads = true;
		struct wire_hello hello = {.head = {WIRE_HELLO, sizeof hello, 1, 0},
			.magic = WIRE_MAGIC,
			.version_min = 1,
			.version_max = 1};
		send_message(m, &hello, sizeof hello, 0, -1);
		size_t size = world_text(
			&world, model_definitions[d].text, letter.text, sizeof letter.text);
		send_open(m, 1, size, (int)d);
		await(m, waits_for_opening);
		const struct model_stream *s = &m->stream[0];
		for (unsigned i = 0; i < 24 && !s->ended; i++) {
			while (!s->held && !s->ended) {
				world_turn(&world, 20);
				model_read(m);
			}
			for (uint32_t slot = 0; slot < s->slots; slot++)
				if (s->slot[slot].held)
					send_release(m, &(struct wire_release){.head.stream = 1,
								.extent = s->extent,
								.slot = slot,
								.serial = s->slot[slot].serial});
		}
		model_hang_up(m);
		world_calm(&world, 0, 0);
		model_openings = 0;
		world_forget();
	}
}

static void watch(void)
{
	watcher_connect();
	watcher_gets(4);
	world_calm(&world, 1, 1);
	quiet_reserved = world_reserved(&world);
}

static void begin(void)
{
	for (unsigned i = 0; i < ATTACKERS; i++)
		model_begin(&attacker[i], &world);
	world_make(&world);
	model_learns = true;
	learn();
	watch();
	watcher_gets(WATCHER_LEARNS);
	world_calm(&world, 1, 1);
	/* Turns until its slots are full and no file is being read. */
	for (int i = 0; i < QUIET_TURNS; i++)
		world_turn(&world, 2);
	quiet_fds = world_fds();
}

/* The daemon that was asked to end ends, and another one serves in the same way. */
static void begin_again(void)
{
	uint64_t end_ns = clock_ns() + AWAIT_MS * 1000000ull;
	model_hang_up(&watcher);
	while (!world.over) {
		if (clock_ns() > end_ns)
			world_wrong("the daemon was asked to end, and continues");
		world_turn(&world, 20);
	}
	world_finish(&world);
	world_begin(&world);
	model_stopped = false;
	watch();
}

static void leave(void)
{
	for (unsigned i = 0; i < ATTACKERS; i++)
		if (is_there(&attacker[i]))
			model_hang_up(&attacker[i]);
	if (model_stopped) {
		begin_again();
		return;
	}
	watcher_gets(1);
	world_calm(&world, 1, 1);
	world_returns(&world, quiet_reserved);
	if (programs % FDS_EVERY == 0 && !world_has_fds(&world, quiet_fds + FDS_OTHER))
		world_wrong("%d descriptors are open, %d were open before", world_fds(), quiet_fds);
}

/* ---- one program ---- */

static void step_connect(struct model *m)
{
	m->fd = world_connect(&world);
	m->reads = true;
	world_note("%td: connects", m - attacker);
	if (take(16))
		say_hello(m);
}

static void step_open_some(struct model *m)
{
	uint32_t how = take(8);
	if (how == 7) {
		step_open_changed(m);
		return;
	}
	step_open(m);
	if (how < 6)
		await(m, waits_for_opening);
	if (how < 3)
		await(m, waits_for_batch);
}

static void step_hang_up(struct model *m)
{
	world_note("%td: hangs up", m - attacker);
	model_hang_up(m);
}

static void step_say_no_more(struct model *m)
{
	world_note("%td: shuts its sending half", m - attacker);
	look(m);
	model_sent_end(m);
	(void)shutdown(m->fd, SHUT_WR);
	world_turn(&world, 0);
}

static void step_read_or_not(struct model *m)
{
	m->reads = !m->reads;
	world_note("%td: reads%s", m - attacker, m->reads ? "" : " no more");
	world_turn(&world, 0);
	if (m->reads)
		settle(m);
}

static void step_time(struct model *m)
{
	world_turn(&world, (int)take(3));
	look(m);
	if (take(4) == 0)
		watcher_goes_on();
}

static void step(struct model *m)
{
	static void (*const steps[])(struct model * m) = {step_open_some, step_open_some,
		step_open_some, step_release, step_release, step_release, step_release,
		step_release, step_release, step_query, step_query, step_query, step_query,
		step_close, step_burst, step_burst, step_burst, step_burst, step_time, step_time,
		step_time, step_open_some, step_release, step_release, step_query,
		step_release_wrong, step_garbage, step_misshapen, step_hang_up, step_read_or_not,
		step_flood, step_stop, step_say_no_more};
	if (model_stopped)
		return;
	if (!is_there(m))
		step_connect(m);
	else if (m->doomed || (m->lax && take(2)))
		step_hang_up(m);
	else
		steps[take(UTIL_COUNT(steps))](m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!world.server)
		begin();
	tape = data;
	tape_left = size;
	model_odd = false;
	model_openings = 0;
	world_forget();
	for (unsigned i = 0; i < ACTIONS && tape_left; i++)
		step(&attacker[take(8) < 5 ? 0 : take(ATTACKERS)]);
	leave();
	programs++;
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	return drive_noise(bytes, 64 + draw(random, (uint32_t)room - 64), random);
}

static void report(void)
{
	const struct model_figures *f = &model_figures;
	(void)printf("%llu programs: %llu messages judged, %llu came back; %llu streams and %llu "
		     "batches checked, %llu protocol errors, %llu restarts, %llu lax connections, "
		     "%llu requests of floods, %llu batches of the watcher, %llu batches read of "
		     "too late\n",
		(unsigned long long)programs, (unsigned long long)f->sent,
		(unsigned long long)f->received, (unsigned long long)f->opened,
		(unsigned long long)f->batches, (unsigned long long)f->protocol_errors,
		(unsigned long long)world.restarts, (unsigned long long)f->lax,
		(unsigned long long)f->flood, (unsigned long long)watched,
		(unsigned long long)f->overwritten);
}

static void end(void)
{
	if (world.server) {
		model_hang_up(&watcher);
		world_remove(&world);
	}
	report();
}

const struct drive fuzz_drive = {"fuzz_wire", 3072, compose, end};
#endif
