/* Metrics and the page against requests of any kind: methods, targets, versions, headers, sizes,
 * incomplete, simultaneous and slow ones, on up to three connections.
 *
 * The test runs the server's loop, and the clock is a number. Expected: each answer is
 * well-formed, has the declared length, the right status where the test can know it, and the
 * headers that keep other sites out; no answer comes unasked or echoes the request; the server
 * closes a connection that is silent for ten seconds; it answers the scrape of a well-behaved
 * client after each case, and leaks no connection place, descriptor or memory. */
#include "http/http_impl.h"
#include "http/sheet_png.h"

#ifndef PENSTOCK_LIBFUZZER
#include "fuzz/drive.h"
enum { FDS_OTHER = 0 };
#else
enum { FDS_OTHER = 8 }; /* libFuzzer opens files between cases */
#endif

#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
	CLIENTS = 3,
	ASKED = 24, /* on one connection */
	ROOM = 1 << 20,
	REQUEST = 40 << 10,
	PATIENCE = 20000, /* turns */
	STEPS = 12,
	CHECKED_EVERY = 64,
	MEMORY_EVERY = 4096,
	MEMORY_SLACK = 1 << 20,
	TEXT = 3000,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The expected answer; status 0: any answer, or none. */
struct asked {
	int status;
	bool head;
};

struct client {
	int fd; /* -1: not connected */
	bool closed; /* closed by the other end */
	bool odd; /* the following requests may be answered or not */
	struct asked asked[ASKED];
	unsigned count, answered;
	size_t size; /* of what came and was not read as an answer yet */
	char *room;
};

static struct http *http;
static struct client client[CLIENTS];
static uint64_t cases, requests, answers, exact, ended, ahead_ns;
static atomic_int wishes;
static char folder[64];
static int quiet_fds;

/* ---- time ---- */

int __real_clock_gettime(clockid_t which, struct timespec *ret);
int __wrap_clock_gettime(clockid_t which, struct timespec *ret);

int __wrap_clock_gettime(clockid_t which, struct timespec *ret)
{
	int result = __real_clock_gettime(which, ret);
	uint64_t ns = (uint64_t)ret->tv_nsec + __atomic_load_n(&ahead_ns, __ATOMIC_RELAXED);
	if (which == CLOCK_MONOTONIC) {
		ret->tv_sec += (time_t)(ns / 1000000000);
		ret->tv_nsec = (long)(ns % 1000000000);
	}
	return result;
}

static void pass_ms(uint64_t ms)
{
	__atomic_fetch_add(&ahead_ns, ms * 1000000, __ATOMIC_RELAXED);
}

/* ---- the case's bytes ---- */

static const uint8_t *tape;
static size_t left;

static uint32_t take(uint32_t below)
{
	if (!left)
		return 0;
	left--;
	return *tape++ % below;
}

static char request[REQUEST];
static size_t request_size;

static _Noreturn void wrong(const char *what, const struct client *c)
{
	(void)fprintf(stderr, "%.*s\nWRONG: %s\n", (int)request_size, request, what);
	if (c)
		(void)fprintf(stderr, "%u asked, %u answered, %zu bytes: %.300s\n", c->count,
			c->answered, c->size, c->room);
	abort();
}

/* ---- the server ---- */

static void wish(void *context)
{
	(void)context;
	atomic_fetch_add(&wishes, 1);
}

static void grant(void)
{
	uint32_t stream;
	if (!atomic_exchange(&wishes, 0) || !http_sheet_wanted(http, &stream))
		return;
	struct http_sheet *sheet = stream ? NULL : http_sheet_new(2, 4, 4);
	if (sheet) {
		sheet->batch_rows = 2;
		sheet->step = 1;
		memset(sheet->pixels, 9, (size_t)2 * 4 * 4 * 3);
	}
	http_sheet_give(http, sheet);
}

static void turn(int timeout_ms)
{
	http_turn(http, timeout_ms);
	grant();
}

static char *text_of(const char *what)
{
	char *text = malloc(TEXT);
	if (!text)
		wrong("no memory", NULL);
	memset(text, 'x', TEXT - 1);
	memcpy(text, what, strlen(what));
	text[TEXT - 1] = 0;
	return text;
}

static void publish(void)
{
	http_publish(
		http, HTTP_METRICS, text_of("# TYPE penstock_up gauge\npenstock_up 1\n# EOF\n# "));
	http_publish(http, HTTP_STATUS, text_of("{\"pid\":1,\"text\":\""));
}

static int count_fds(void)
{
	int n = 0;
	DIR *all = opendir("/proc/self/fd");
	if (!all)
		wrong("/proc/self/fd", NULL);
	while (readdir(all))
		n++;
	(void)closedir(all);
	return n;
}

/* Its thread ends: this one turns its loop. */
static void begin(void)
{
	struct fault fault;
	(void)snprintf(folder, sizeof folder, "/tmp/penstock-http-XXXXXX");
	if (!mkdtemp(folder))
		wrong("no folder", NULL);
	struct http_options options = {.address = "auto", .folder = folder, .wake = wish};
	if (http_new(&options, &http, &fault))
		wrong(fault.text, NULL);
	pthread_mutex_lock(&http->lock);
	http->stop = true;
	pthread_mutex_unlock(&http->lock);
	http_poke(http);
	(void)pthread_join(http->thread, NULL);
	http->thread_runs = http->stop = false;
	for (int i = 0; i < CLIENTS; i++) {
		client[i] = (struct client){.fd = -1, .room = malloc(ROOM)};
		if (!client[i].room)
			wrong("no memory", NULL);
	}
	publish();
	quiet_fds = count_fds();
}

/* ---- clients ---- */

static void connect_client(struct client *c)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char *room = c->room;
	(void)snprintf(name.sun_path, sizeof name.sun_path, "%s/http.sock", folder);
	*c = (struct client){.room = room};
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&name, sizeof name))
		wrong("nobody listens", NULL);
	turn(0);
}

static void hang_up(struct client *c)
{
	if (c->fd >= 0)
		(void)close(c->fd);
	c->fd = -1;
}

/* ---- answers ---- */

/* The value of a field, in the head that ends before `end`. */
static const char *field(const char *head, const char *end, const char *name)
{
	for (const char *line = head; line && line < end; line = strstr(line, "\r\n")) {
		line += line == head ? 0 : 2;
		if (!strncasecmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			return line + strlen(name) + 1 + strspn(line + strlen(name) + 1, " ");
	}
	return NULL;
}

/* The headers that keep other sites out. libmicrohttpd's own refusals lack them, and have no
 * body. */
static void check_fences(const struct client *c, const char *end, int status)
{
	static const char *const fences[] = {"Content-Security-Policy", "X-Content-Type-Options",
		"X-Frame-Options", "Referrer-Policy", "Cross-Origin-Resource-Policy",
		"Cache-Control"};
	bool ours =
		status == 200 || status == 403 || status == 404 || status == 405 || status == 503;
	for (size_t i = 0; i < UTIL_COUNT(fences) && ours; i++)
		if (!field(c->room, end, fences[i]))
			wrong(fences[i], c);
	if (field(c->room, end, "Access-Control-Allow-Origin") || field(c->room, end, "Set-Cookie"))
		wrong("a field that lets others in", c);
}

static void check_status(struct client *c, int status)
{
	const struct asked *a = &c->asked[c->answered];
	if (c->answered >= c->count)
		wrong("an answer to nothing", c);
	if (a->status && !c->odd && status != a->status) {
		(void)fprintf(stderr, "%d, expected %d\n", status, a->status);
		wrong("another status than expected", c);
	}
	exact += a->status && !c->odd;
	c->odd |= !a->status;
}

/* One answer, if it is whole: its bytes, else 0. */
static size_t read_answer(struct client *c)
{
	int status = 0, minor = -1;
	const char *end = memmem(c->room, c->size, "\r\n\r\n", 4);
	if (!end)
		return 0;
	bool line = sscanf(c->room, "HTTP/1.%1d %3d ", &minor, &status) == 2 && status >= 100 &&
		    status <= 599;
	/* Which of them were HEAD is not known any more. */
	if (!line && c->odd)
		return c->size;
	if (!line)
		wrong("no status line", c);
	size_t head = (size_t)(end + 4 - c->room);
	if (status == 100)
		return head;
	const char *length = field(c->room, end, "Content-Length");
	size_t body = length ? strtoul(length, NULL, 10) : 0;
	bool empty = c->answered < c->count && c->asked[c->answered].head;
	if (!length)
		wrong("an answer that does not say its length", c);
	if (!empty && c->size < head + body)
		return 0;
	check_status(c, status);
	check_fences(c, end, status);
	const char *connection = field(c->room, end, "Connection");
	/* Anything that was sent after it is not read. */
	c->odd |= connection && !strncasecmp(connection, "close", 5);
	c->answered++;
	answers++;
	return head + (empty ? 0 : body);
}

static void look(struct client *c)
{
	while (c->fd >= 0 && !c->closed) {
		ssize_t n = recv(c->fd, c->room + c->size, ROOM - 1 - c->size, 0);
		if (n < 0 && errno == EAGAIN)
			return;
		c->closed = n <= 0;
		ended += c->closed;
		c->size += n > 0 ? (size_t)n : 0;
		c->room[c->size] = 0;
		if (memmem(c->room, c->size, "zzmarkzz", 8))
			wrong("what was asked is in the answer", c);
		for (size_t whole; (whole = read_answer(c)) > 0;) {
			c->size -= whole;
			memmove(c->room, c->room + whole, c->size + 1);
		}
		if (c->size >= ROOM - 1)
			wrong("an answer without end", c);
	}
}

/* Until all that is sure is answered. */
static void await(struct client *c)
{
	for (int i = 0; i < PATIENCE && !c->closed && c->answered < c->count && !c->odd; i++) {
		turn(i < 4 ? 0 : 1);
		if (i > 8)
			pass_ms(50);
		look(c);
		if (c->answered < c->count && !c->asked[c->answered].status)
			return;
	}
	if (c->answered < c->count && !c->odd && c->asked[c->answered].status)
		wrong("no answer", c);
}

/* ---- requests ---- */

static void put(const char *text)
{
	size_t n = strlen(text);
	if (request_size + n < sizeof request)
		memcpy(request + request_size, text, n);
	request_size += request_size + n < sizeof request ? n : 0;
}

static void put_many(char byte, size_t n)
{
	n = UTIL_MIN(n, sizeof request - 1 - request_size);
	memset(request + request_size, byte, n);
	request_size += n;
}

static bool put_method(bool *ret_get, bool *ret_head)
{
	static const char *const odd[] = {"get", "BREW", "TRACE", "CONNECT", "", "G\tET", "GET\x01",
		"PRI", "AVERYLONGMETHODTHATNOBODYKNOWS"};
	static const char *const known[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"};
	uint32_t kind = take(16);
	*ret_get = kind < 11;
	*ret_head = kind == 9 || kind == 10;
	if (kind < 11)
		put(*ret_head ? "HEAD" : "GET");
	else if (kind < 14)
		put(known[take(UTIL_COUNT(known))]);
	else
		put(odd[take(UTIL_COUNT(odd))]);
	return kind < 14;
}

/* The status of a GET of it; 0: cannot be told. */
static int put_target(void)
{
	static const struct {
		const char *text;
		int status;
	} targets[] = {{"/", 200}, {"/metrics", 200}, {"/status", 200}, {"/healthz", 200},
		{"/metrics?x=1", 200}, {"/status?", 200}, {"/none", 404}, {"/status/", 404},
		{"//", 404}, {"/../etc/passwd", 404}, {"/metrics%00", 0}, {"/%73tatus", 200},
		{"/%", 0}, {"/?zzmarkzz=<script>", 200}, {"/sheet?stream=x", 400},
		{"/sheet?stream=99999", 400}, {"/sheet?stream=-1", 400}, {"/sheet?stream=", 400},
		{"/sheet.json?stream=0x1", 400}, {"http://localhost/status", 0}, {"*", 0}, {"", 0},
		{"status", 0}, {"/\x80\xff", 0}, {"/zzmarkzz", 404}, {"/a b", 0}};
	uint32_t kind = take(32);
	if (kind < UTIL_COUNT(targets)) {
		put(targets[kind].text);
		return targets[kind].status;
	}
	if (kind == 31) {
		put("/");
		put_many('a', (size_t)take(256) * take(160));
		return 0;
	}
	if (kind >= 29) {
		put("/sheet?stream=");
		put(take(2) ? "0" : "7");
		return 0;
	}
	put(kind % 2 ? "/metrics" : "/");
	return 200;
}

/* Whether the name is meant: 1, 0, or -1 where it cannot be told. */
static int put_host(void)
{
	static const char *const ours[] = {
		"localhost", "127.0.0.1", "127.0.0.1:9470", "[::1]:80", "LOCALHOST:1", "10.0.0.1"};
	static const char *const others[] = {
		"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "a"};
	uint32_t kind = take(24);
	if (kind == 23)
		return -1;
	put("Host: ");
	if (kind == 22) {
		put_many((char)take(256), take(64));
		put("\r\n");
		return -1;
	}
	put(kind < 19 ? ours[kind % UTIL_COUNT(ours)] : others[kind % UTIL_COUNT(others)]);
	put("\r\n");
	return kind < 19;
}

/* Whether the request is still one whose status can be told. */
static bool put_field(void)
{
	static const char *const odd[] = {"Content-Length: 5\r\n", "Content-Length: -1\r\n",
		"Content-Length: 99999999999999999999\r\n", "Transfer-Encoding: chunked\r\n",
		"Transfer-Encoding: zz\r\nContent-Length: 3\r\n", "Expect: 100-continue\r\n",
		"Host: localhost\r\n", " folded\r\n", ": nameless\r\n", "nothing\r\n",
		"Connection: upgrade\r\nUpgrade: h2c\r\n", "A\x01: b\r\n", "B: \x00\r\n", "\n",
		"Connection: close\r\n", "Range: bytes=0-5\r\n", "Accept: \r\n"};
	static const char *const plain[] = {"X-Mark: zzmarkzz\r\n", "Accept: */*\r\n",
		"Accept: application/openmetrics-text; version=1.0.0\r\n",
		"Cookie: zzmarkzz=zzmarkzz\r\n", "Accept-Encoding: gzip\r\n",
		"Origin: http://evil.example\r\n", "If-None-Match: *\r\n"};
	uint32_t kind = take(16);
	if (kind < 11) {
		put(plain[take(UTIL_COUNT(plain))]);
		return true;
	}
	if (kind < 15) {
		put(odd[take(UTIL_COUNT(odd))]);
		return false;
	}
	put("X-Long: ");
	put_many('b', (size_t)take(256) * take(128));
	put("\r\n");
	return false;
}

static struct asked make_request(void)
{
	bool get, head, known = put_method(&get, &head);
	put(" ");
	int status = put_target();
	static const char *const versions[] = {
		"HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "", "HTTP/1.1 x"};
	bool odd = take(24) == 23;
	put(" ");
	put(odd ? versions[take(UTIL_COUNT(versions))] : "HTTP/1.1");
	put("\r\n");
	int host = put_host();
	bool plain = known && !odd && host >= 0;
	for (uint32_t fields = take(5); fields > 0; fields--)
		plain &= put_field();
	put("\r\n");
	requests++;
	if (!plain)
		return (struct asked){.status = 0, .head = head};
	/* The server checks the host first, then the method, then the target; libmicrohttpd's
	 * own refusals come before. */
	if (status != 0 && !host)
		status = 403;
	else if (status != 0 && !get)
		status = 405;
	return (struct asked){.status = status, .head = head};
}

/* ---- steps ---- */

/* In pieces, with turns between. */
static void send_pieces(struct client *c, const char *bytes, size_t size)
{
	while (size > 0 && !c->closed) {
		size_t piece = take(4) ? size : 1 + (size_t)take(255) * take(16);
		piece = UTIL_MIN(piece, size);
		ssize_t n = send(c->fd, bytes, piece, MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return;
		bytes += n > 0 ? n : 0;
		size -= n > 0 ? (size_t)n : 0;
		turn(0);
		look(c);
	}
}

/* Bytes that are not a proper request may count as several. */
static void expect_more(struct client *c)
{
	bool sure = !c->odd;
	for (unsigned i = c->answered; i < c->count; i++)
		sure &= c->asked[i].status != 0;
	while (!sure && c->count < ASKED)
		c->asked[c->count++] = (struct asked){0};
}

static void step_ask(struct client *c)
{
	request_size = 0;
	uint32_t times = take(4) ? 1 : 1 + take(6);
	while (times-- && c->count < ASKED)
		c->asked[c->count++] = make_request();
	expect_more(c);
	send_pieces(c, request, request_size);
	if (take(4))
		await(c);
}

/* Part of a request, a changed request, or other bytes. Afterward any answer may come on this
 * connection. */
static void step_spoil(struct client *c)
{
	request_size = 0;
	if (c->count == ASKED)
		return;
	c->asked[c->count++] = (struct asked){.head = make_request().head};
	for (uint32_t i = take(6); i > 0; i--)
		request[(take(256) * 256u + take(256)) % request_size] = (char)take(256);
	if (take(2))
		request_size = (take(256) * 256u + take(256)) % request_size;
	c->odd = true;
	expect_more(c);
	send_pieces(c, request, request_size);
}

/* A connection that has not sent a whole request within ten seconds is closed. */
static void step_wait(struct client *c)
{
	bool idle = c->answered == c->count;
	/* Lets the server learn that its answer was sent. */
	for (int i = 0; i < 4; i++)
		turn(0);
	pass_ms(12000);
	for (int i = 0; i < 64 && !c->closed; i++) {
		turn(0);
		look(c);
	}
	/* The others were silent for the same time. */
	for (int i = 0; i < CLIENTS; i++)
		look(&client[i]);
	if (!c->closed && idle)
		wrong("a silent connection is not closed", c);
	publish();
}

static void step_half(struct client *c)
{
	(void)shutdown(c->fd, SHUT_WR);
	c->odd = true;
	turn(0);
	look(c);
}

static void step_publish(struct client *c)
{
	publish();
	turn(0);
	look(c);
}

static void step(struct client *c)
{
	static void (*const steps[])(struct client * c) = {step_ask, step_ask, step_ask, step_ask,
		step_ask, step_ask, step_ask, step_ask, step_ask, step_ask, step_spoil, step_spoil,
		hang_up, step_half, step_publish, step_wait};
	if (c->fd < 0)
		connect_client(c);
	if (c->closed)
		hang_up(c);
	else
		steps[take(UTIL_COUNT(steps))](c);
}

/* ---- after each case ---- */

static void scrape(void)
{
	struct client *c = &client[0];
	connect_client(c);
	c->asked[c->count++] = (struct asked){.status = 200};
	static const char text[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
	if (send(c->fd, text, sizeof text - 1, MSG_NOSIGNAL) != sizeof text - 1)
		wrong("a scrape cannot be sent", c);
	await(c);
	if (c->answered != 1)
		wrong("a scrape is not answered", c);
	hang_up(c);
}

static bool memory_grew(void)
{
	static size_t first;
	size_t now = mallinfo2().uordblks;
	first = first ? first : now;
	return now > first + MEMORY_SLACK;
}

static void leave(void)
{
	for (int i = 0; i < CLIENTS; i++)
		hang_up(&client[i]);
	scrape();
	for (int i = 0; i < PATIENCE && atomic_load(&http->connections); i++) {
		turn(i < 8 ? 0 : 1);
		pass_ms(i < 8 ? 0 : 100);
	}
	if (atomic_load(&http->connections))
		wrong("a connection leaks", NULL);
	if (cases % CHECKED_EVERY == 0 && count_fds() > quiet_fds + FDS_OTHER)
		wrong("descriptors leak", NULL);
	if (cases % MEMORY_EVERY == 0 && memory_grew())
		wrong("memory grows", NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!http)
		begin();
	tape = data;
	left = size;
	publish();
	for (int i = 0; i < STEPS && left; i++)
		step(&client[take(4) ? 0 : take(CLIENTS)]);
	cases++;
	leave();
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	return drive_noise(bytes, 16 + draw(random, (uint32_t)room - 16), random);
}

static void end(void)
{
	if (http) {
		http_free(http);
		(void)rmdir(folder);
	}
	(void)printf("%llu cases: %llu requests, %llu answers, %llu of them with a status that was "
		     "to be expected, %llu connections ended by the server\n",
		(unsigned long long)cases, (unsigned long long)requests,
		(unsigned long long)answers, (unsigned long long)exact, (unsigned long long)ended);
}

const struct drive fuzz_drive = {"fuzz_http", 256, compose, end};
#endif
