/* fake: see fake.h. All processes have one thread. */
#include "client/fake.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { FAKE_GAVE_UP = 99, FAKE_ALARM_S = 40 };

static struct conn_message fake_message;

/* ---- the process ---- */

_Noreturn static void fake_give_up(const char *why)
{
	(void)fprintf(stderr, "fake daemon: %s\n", why);
	_exit(FAKE_GAVE_UP);
}

_Noreturn static void fake_run(int listener, fake_serve *serve, const void *argument)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)alarm(FAKE_ALARM_S);
	for (;;) {
		struct pollfd ready = {.fd = listener, .events = POLLIN};
		(void)poll(&ready, 1, -1);
		int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			continue;
		serve(fd, argument);
		(void)close(fd);
	}
}

static void fake_listen(struct fake *fake, fake_serve *serve, const void *argument)
{
	int listener;
	FAKE_WANT(conn_listen(fake->socket, &listener) == 0);
	fake->pid = fork();
	if (fake->pid == 0)
		fake_run(listener, serve, argument);
	(void)close(listener);
	FAKE_WANT(fake->pid > 0);
}

void fake_start(struct fake *fake, fake_serve *serve, const void *argument)
{
	(void)snprintf(fake->folder, sizeof fake->folder, "/tmp/penstock-fake-XXXXXX");
	FAKE_WANT(mkdtemp(fake->folder));
	(void)snprintf(fake->socket, sizeof fake->socket, "%s/p.sock", fake->folder);
	fake_listen(fake, serve, argument);
}

/* Whether it has given up already. */
static bool fake_end(struct fake *fake)
{
	int status = 0;
	pid_t done = waitpid(fake->pid, &status, WNOHANG);
	if (done == 0) {
		(void)kill(fake->pid, SIGKILL);
		(void)waitpid(fake->pid, NULL, 0);
	}
	return done > 0 && WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

void fake_kill(struct fake *fake)
{
	FAKE_WANT(!fake_end(fake));
}

void fake_restart(struct fake *fake, fake_serve *serve, const void *argument)
{
	fake_listen(fake, serve, argument);
}

bool fake_stop(struct fake *fake)
{
	char command[128];
	bool gave_up = fake_end(fake);
	(void)signal(SIGCHLD,
		SIG_DFL); /* a test may have ignored it, and system() could not wait then */
	(void)snprintf(command, sizeof command, "rm -rf %s", fake->folder);
	return system(command) == 0 && !gave_up;
}

/* ---- the application ---- */

struct penstock_options fake_options(const struct fake *fake)
{
	struct penstock_options options;
	penstock_options_init(&options);
	options.source = "/data";
	options.socket = fake->socket;
	options.private_daemon = 0;
	return options;
}

struct penstock_stream *fake_open_stream(const struct penstock_options *options)
{
	struct penstock_stream *stream = NULL;
	int result = penstock_stream_open(options, &stream);
	if (result != 0)
		(void)fprintf(stderr, "open: %d: %s\n", result, penstock_error());
	FAKE_WANT(result == 0 && stream);
	return stream;
}

void fake_close(struct fake *fake, struct penstock_stream *stream)
{
	penstock_stream_close(stream);
	FAKE_WANT(fake_stop(fake));
}

/* ---- messages ---- */

const struct conn_message *fake_receive(int fd)
{
	int result = conn_receive(fd, false, &fake_message);
	if (result == CONN_E_CLOSED)
		return NULL;
	if (result != CONN_OK || fake_message.fd >= 0)
		fake_give_up("the client sent a malformed message");
	return &fake_message;
}

const struct conn_message *fake_expect(int fd, enum wire_type type)
{
	const struct conn_message *message = fake_receive(fd);
	if (!message || message->head.type != (uint32_t)type)
		fake_give_up(message ? "the client sent another message than expected"
				     : "the client hung up early");
	return message;
}

void fake_send(int fd, struct wire_head *head, size_t bytes, const void *text, size_t text_bytes,
	int pass_fd)
{
	int result = conn_send(fd, false, head, bytes, text, text_bytes, pass_fd);
	if (result < 0)
		fake_give_up(strerror(-result));
}

void fake_send_raw(int fd, const void *bytes, size_t size, int pass_fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {(void *)(uintptr_t)bytes, size};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
	memset(control, 0, sizeof control);
	if (pass_fd >= 0) {
		header.msg_control = control;
		header.msg_controllen = sizeof control;
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof pass_fd);
	}
	if (sendmsg(fd, &header, MSG_NOSIGNAL) < 0)
		fake_give_up(strerror(errno));
}

void fake_send_error(int fd, uint32_t request, uint32_t stream, int code, const char *sentence)
{
	struct wire_error error = {
		.head = {.type = WIRE_ERROR, .request = request, .stream = stream},
		.code = code,
		.text_bytes = (uint32_t)strlen(sentence)};
	fake_send(fd, &error.head, sizeof error, sentence, error.text_bytes, -1);
}

void fake_send_answer(int fd, uint32_t request, const char *text)
{
	size_t size = strlen(text);
	bool fits = size <= WIRE_INLINE_MAX;
	struct wire_answer answer = {.head = {.type = WIRE_ANSWER, .request = request},
		.total_bytes = size,
		.text_bytes = fits ? (uint32_t)size : 0};
	int memory = -1;
	if (!fits) {
		memory = memfd_create("fake-answer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (write(memory, text, size) != (ssize_t)size ||
			fcntl(memory, F_ADD_SEALS, FAKE_SEALS) < 0)
			fake_give_up("no memfd");
	}
	fake_send(fd, &answer.head, sizeof answer, text, answer.text_bytes, memory);
	if (memory >= 0)
		(void)close(memory);
}

_Noreturn void fake_die_without_hangup(int fd)
{
	if (fork() == 0) {
		struct pollfd closed = {.fd = fd, .events = POLLRDHUP};
		(void)poll(&closed, 1, 8000);
	}
	_exit(0);
}

static void fake_greet(int fd, pid_t pid, uint64_t features)
{
	const struct conn_message *message = fake_expect(fd, WIRE_HELLO);
	const struct wire_hello *hello = conn_view(message, WIRE_HELLO, sizeof *hello, 0);
	if (!hello || hello->magic != WIRE_MAGIC || hello->version_min > 1 ||
		hello->version_max < 1)
		fake_give_up("bad HELLO");
	struct wire_welcome welcome = {
		.head = {.type = WIRE_WELCOME, .request = hello->head.request},
		.magic = WIRE_MAGIC,
		.version = 1,
		.pid = pid,
		.features = hello->features & features,
		.text_bytes = 5};
	fake_send(fd, &welcome.head, sizeof welcome, "0.1.0", 5, -1);
}

void fake_welcome_as(int fd, pid_t pid)
{
	fake_greet(fd, pid, 0);
}

void fake_welcome_with(int fd, uint64_t features)
{
	fake_greet(fd, getpid(), features);
}

void fake_welcome(int fd)
{
	fake_welcome_as(fd, getpid());
}

static uint32_t fake_views(const struct fake_shape *shape)
{
	return shape->views ? shape->views : 1;
}

static uint32_t fake_pixel_type(const struct fake_shape *shape)
{
	return shape->pixel_type ? shape->pixel_type : SLOTS_U8;
}

static uint32_t fake_pixel_layout(const struct fake_shape *shape)
{
	return shape->pixel_layout ? shape->pixel_layout : SLOTS_NHWC;
}

static uint32_t fake_label_type(const struct fake_shape *shape)
{
	return shape->label_width ? SLOTS_LABEL_F32 : SLOTS_LABEL_I64;
}

static uint32_t fake_label_width(const struct fake_shape *shape)
{
	return shape->label_width ? shape->label_width : 1;
}

struct wire_opened fake_opened(const struct fake_shape *shape)
{
	return (struct wire_opened){
		.head = {.type = WIRE_OPENED},
		.samples = (uint64_t)shape->batches * shape->batch_size,
		.epoch_samples = (uint64_t)shape->batches * shape->batch_size,
		.batches = shape->batches,
		.fingerprint = 0xc0ffee,
		.order = 0x123,
		.transform = 0xfedcba9876543210,
		.seed = 7,
		.batch_size = shape->batch_size,
		.height = shape->side,
		.width = shape->side,
		.channels = 3,
		.pixel_type = fake_pixel_type(shape),
		.pixel_layout = fake_pixel_layout(shape),
		.label_type = fake_label_type(shape),
		.label_width = fake_label_width(shape),
		.world_size = 1,
		.classes = 2,
		.shuffle = 1,
		.train = 1,
		.slots = shape->slots,
		.views = fake_views(shape),
	};
}

uint64_t fake_resume(const struct conn_message *open, const struct fake_shape *shape)
{
	unsigned long long epoch = 0, position = 0;
	char text[4096];
	size_t size = open->size - sizeof(struct wire_open);
	if (size >= sizeof text)
		fake_give_up("a long OPEN");
	memcpy(text, open->bytes + sizeof(struct wire_open), size);
	text[size] = '\0';
	const char *state = strstr(text, "\"state\":{");
	if (!state)
		return 0;
	const char *at = strstr(state, "\"epoch\":");
	if (!at || sscanf(at, "\"epoch\":%llu,\"position\":%llu", &epoch, &position) != 2)
		fake_give_up("a state without its place");
	return epoch * shape->batches + position / shape->batch_size;
}

struct wire_opened fake_opened_at(
	const struct conn_message *open, const struct fake_shape *shape, uint64_t ordinal)
{
	struct wire_opened opened = fake_opened(shape);
	opened.head.request = open->head.request;
	opened.head.stream = open->head.stream;
	opened.epoch = ordinal / shape->batches;
	opened.batch = ordinal % shape->batches;
	opened.position = opened.batch * shape->batch_size;
	return opened;
}

void fake_open(int fd, const struct fake_shape *shape)
{
	const struct conn_message *message = fake_expect(fd, WIRE_OPEN);
	if (!conn_view(message, WIRE_OPEN, sizeof(struct wire_open),
		    offsetof(struct wire_open, text_bytes)))
		fake_give_up("bad OPEN");
	struct wire_opened opened = fake_opened(shape);
	opened.head.request = message->head.request;
	opened.head.stream = message->head.stream;
	fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
}

/* ---- memory ---- */

static uint64_t fake_align(uint64_t value, uint64_t to)
{
	return (value + to - 1) / to * to;
}

/* Of the batches that come. */
static uint64_t fake_row_bytes(const struct fake_shape *shape)
{
	uint64_t side = shape->side - shape->less;
	return side * side * 3 * slots_pixel_bytes(fake_pixel_type(shape));
}

static void fake_offsets(
	const struct fake_shape *shape, struct slots_head *head, uint64_t *ret_stride)
{
	const uint64_t samples = shape->batch_size, rows = samples * fake_views(shape);
	const uint64_t label =
		(uint64_t)slots_label_bytes(fake_label_type(shape)) * fake_label_width(shape);
	head->images_offset = fake_align(sizeof *head, 64);
	head->labels_offset = fake_align(head->images_offset + fake_row_bytes(shape) * rows, 64);
	head->records_offset = fake_align(head->labels_offset + label * samples, 64);
	*ret_stride = fake_align(head->records_offset + 64 * rows, SLOTS_ALIGN);
}

struct fake_memory fake_memory(const struct fake_shape *shape, int seals)
{
	struct fake_memory memory;
	struct slots_head head;
	fake_offsets(shape, &head, &memory.stride);
	memory.size = memory.stride * shape->slots;
	memory.fd = memfd_create("fake-extent", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (ftruncate(memory.fd, (off_t)memory.size) < 0)
		fake_give_up("no memory");
	memory.bytes = mmap(NULL, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd, 0);
	if (memory.bytes == MAP_FAILED || fcntl(memory.fd, F_ADD_SEALS, seals) < 0)
		fake_give_up("no sealed memory");
	return memory;
}

struct wire_extent fake_extent(const struct fake_shape *shape, const struct fake_memory *memory)
{
	return (struct wire_extent){.head = {.type = WIRE_EXTENT, .stream = 1},
		.extent = 0,
		.slot_count = shape->slots,
		.slot_stride = memory->stride,
		.bytes = memory->size};
}

struct slots_head *fake_slot(const struct fake_memory *memory, uint32_t slot)
{
	return (struct slots_head *)(void *)(memory->bytes + slot * memory->stride);
}

uint8_t fake_pixel(uint64_t ordinal, uint32_t row)
{
	return (uint8_t)(ordinal * 16 + row);
}

int64_t fake_label(uint64_t ordinal, uint32_t row)
{
	return (int64_t)(ordinal * 100 + row);
}

uint64_t fake_ready_ns(uint64_t ordinal)
{
	return 1000000 + ordinal;
}

static void fake_fill_rows(
	const struct fake_shape *shape, struct slots_head *head, uint64_t ordinal)
{
	uint8_t *slot = (uint8_t *)head;
	int64_t *labels = (int64_t *)(void *)(slot + head->labels_offset);
	float *values = (float *)(void *)(slot + head->labels_offset);
	struct slots_record *records = (struct slots_record *)(void *)(slot + head->records_offset);
	uint32_t views = fake_views(shape);
	for (uint32_t row = 0; row < shape->batch_size * views; row++) {
		uint32_t sample = row / views;
		memset(slot + head->images_offset + row * head->row_bytes, fake_pixel(ordinal, row),
			head->row_bytes);
		if (!shape->label_width)
			labels[sample] = fake_label(ordinal, sample);
		for (uint32_t i = 0; i < shape->label_width; i++)
			values[sample * shape->label_width + i] =
				(float)(fake_label(ordinal, sample) + i);
		records[row] = (struct slots_record){.index = sample,
			.label = fake_label(ordinal, sample),
			.flags = SLOTS_FLIPPED,
			.view = row % views};
	}
}

struct wire_batch fake_fill(const struct fake_shape *shape, const struct fake_memory *memory,
	uint32_t slot, uint64_t ordinal)
{
	uint64_t epoch = ordinal / shape->batches, batch = ordinal % shape->batches, stride;
	struct slots_head *head = fake_slot(memory, slot);
	*head = (struct slots_head){
		.magic = SLOTS_MAGIC,
		.version = SLOTS_VERSION,
		.head_bytes = sizeof *head,
		.serial = shape->first_serial + ordinal,
		.epoch = epoch,
		.batch = batch,
		.position = batch * shape->batch_size,
		.count = shape->batch_size,
		.batch_size = shape->batch_size,
		.height = shape->side - shape->less,
		.width = shape->side - shape->less,
		.channels = 3,
		.pixel_type = fake_pixel_type(shape),
		.pixel_layout = fake_pixel_layout(shape),
		.label_type = fake_label_type(shape),
		.label_width = fake_label_width(shape),
		.views = fake_views(shape),
		.record_bytes = sizeof(struct slots_record),
		.row_bytes = fake_row_bytes(shape),
		.ready_ns = fake_ready_ns(ordinal),
	};
	fake_offsets(shape, head, &stride);
	fake_fill_rows(shape, head, ordinal);
	return (struct wire_batch){.head = {.type = WIRE_BATCH, .stream = 1},
		.slot = slot,
		.serial = head->serial,
		.epoch = epoch,
		.batch = batch,
		.position = head->position,
		.count = head->count,
		.flags = batch + 1 == shape->batches ? WIRE_BATCH_LAST : 0};
}

/* ---- a good daemon ---- */

struct fake_stream {
	const struct fake_shape *shape;
	struct fake_memory memory;
	uint64_t next;
	uint32_t busy; /* bit per slot */
	bool ended;
};

static void fake_push(int fd, struct fake_stream *stream)
{
	const struct fake_shape *shape = stream->shape;
	for (uint32_t slot = 0; slot < shape->slots; slot++) {
		bool over = shape->epochs && stream->next == shape->epochs * shape->batches;
		if (over || stream->busy & (1u << slot))
			continue;
		struct wire_batch batch = fake_fill(shape, &stream->memory, slot, stream->next++);
		stream->busy |= 1u << slot;
		fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
	}
	if (shape->epochs && stream->next == shape->epochs * shape->batches && !stream->ended) {
		struct wire_end end = {.head = {.type = WIRE_END, .stream = 1},
			.epochs = shape->epochs,
			.batches = stream->next};
		stream->ended = true;
		fake_send(fd, &end.head, sizeof end, NULL, 0, -1);
	}
}

static void fake_answer_query(int fd, const struct conn_message *message)
{
	const struct wire_query *query = conn_view(message, WIRE_QUERY, sizeof *query, 0);
	if (!query)
		fake_give_up("bad QUERY");
	switch (query->kind) {
	case WIRE_QUERY_STATUS:
		fake_send_answer(fd, query->head.request, "{\"pid\":1}");
		break;
	case WIRE_QUERY_CLASSES:
		fake_send_answer(fd, query->head.request, "cat\ndog\n");
		break;
	case WIRE_QUERY_SAMPLES:
		fake_send_answer(fd, query->head.request,
			query->argument == 3 ? "1 /data/3.jpg\n" : "0 /data/x.jpg\n");
		break;
	case WIRE_QUERY_PATH:
		fake_send_answer(fd, query->head.request,
			query->argument == 3 ? "/data/3.jpg" : "/data/x.jpg");
		break;
	default:
		fake_send_error(fd, query->head.request, query->head.stream, -EINVAL,
			"this daemon does not know that");
	}
}

static void fake_on_release(struct fake_stream *stream, const struct conn_message *message)
{
	const struct wire_release *release = conn_view(message, WIRE_RELEASE, sizeof *release, 0);
	bool held = release && release->extent == 0 && release->slot < stream->shape->slots &&
		    stream->busy & (1u << release->slot) &&
		    fake_slot(&stream->memory, release->slot)->serial == release->serial;
	if (!held)
		fake_give_up("the client released what it did not hold");
	stream->busy &= ~(1u << release->slot);
}

/* Memory that will be pinned stays writable: each stream of this daemon has one reader. */
static int fake_seals(const struct conn_message *open)
{
	static const char pinned[] = "\"pin_memory\":true";
	return memmem(open->bytes, open->size, pinned, sizeof pinned - 1)
		       ? FAKE_SEALS & ~F_SEAL_FUTURE_WRITE
		       : FAKE_SEALS;
}

struct fake_memory fake_send_memory(int fd, const struct fake_shape *shape)
{
	struct fake_memory memory = fake_memory(shape, FAKE_SEALS);
	struct wire_extent extent = fake_extent(shape, &memory);
	fake_send(fd, &extent.head, sizeof extent, NULL, 0, memory.fd);
	return memory;
}

void fake_send_batch(int fd, const struct fake_shape *shape, const struct fake_memory *memory,
	uint32_t slot, uint64_t ordinal)
{
	struct wire_batch batch = fake_fill(shape, memory, slot, ordinal);
	fake_send(fd, &batch.head, sizeof batch, NULL, 0, -1);
}

void fake_serve_well(int fd, const void *shape)
{
	struct fake_stream stream = {.shape = shape, .memory.fd = -1};
	const struct conn_message *message;
	fake_welcome(fd);
	while ((message = fake_receive(fd))) {
		if (message->head.type == WIRE_OPEN) {
			stream.next = fake_resume(message, shape);
			struct wire_opened opened = fake_opened_at(message, shape, stream.next);
			fake_send(fd, &opened.head, sizeof opened, NULL, 0, -1);
			stream.memory = fake_memory(shape, fake_seals(message));
			struct wire_extent extent = fake_extent(shape, &stream.memory);
			fake_send(fd, &extent.head, sizeof extent, NULL, 0, stream.memory.fd);
		} else if (message->head.type == WIRE_RELEASE) {
			fake_on_release(&stream, message);
		} else if (message->head.type == WIRE_QUERY) {
			fake_answer_query(fd, message);
		} else if (message->head.type == WIRE_STOP) {
			fake_send_answer(fd, message->head.request, "");
			_exit(0);
		} else if (message->head.type != WIRE_CLOSE) {
			fake_give_up("the client sent a message of unknown type");
		} else {
			break;
		}
		if (stream.memory.fd >= 0)
			fake_push(fd, &stream);
	}
	if (stream.memory.fd >= 0) {
		(void)munmap(stream.memory.bytes, stream.memory.size);
		(void)close(stream.memory.fd);
	}
}

/* ---- checking ---- */

void fake_want(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	(void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	exit(1);
}

int fake_count_fds(void)
{
	int n = 0;
	DIR *folder = opendir("/proc/self/fd");
	FAKE_WANT(folder);
	while (readdir(folder))
		n++;
	(void)closedir(folder);
	return n;
}

int fake_count_memfds(void)
{
	int n = 0;
	char line[1024];
	FILE *maps = fopen("/proc/self/maps", "re");
	FAKE_WANT(maps);
	while (fgets(line, sizeof line, maps))
		n += strstr(line, "/memfd:") != NULL;
	(void)fclose(maps);
	return n;
}

void fake_check(void (*test)(const void *argument), const void *argument, const char *name)
{
	int status;
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(FAKE_ALARM_S);
		int fds = fake_count_fds(), memfds = fake_count_memfds();
		test(argument);
		FAKE_WANT(fake_count_fds() == fds);
		FAKE_WANT(fake_count_memfds() == memfds);
		exit(0);
	}
	assert_true(pid > 0);
	while (waitpid(pid, &status, 0) < 0)
		assert_int_equal(errno, EINTR);
	if (WIFSIGNALED(status))
		fail_msg("%s: ended by signal %d", name, WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		fail_msg("%s: exit code %d", name, WEXITSTATUS(status));
}
