/* http: the server without a daemon: answers before anything is published; sheets that are
 * available, missing or not asked for; connections beyond the limit; many clients that want
 * sheets or read slowly; a process without free descriptors; and a stop while requests run. */
#include "base/clock.h"
#include "http/http.h"
#include "http/sheet_png.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ANSWER_ROOM = 1 << 16,
	LIMIT_MS = 60000,
	WISHES = 4,
	WISH_NS = 200000000, /* HTTP_SHEET_EVERY_MS */
	WAITERS = HTTP_CONNECTIONS / 2,
	LARGE = 2 << 20,
	DEAF_MS = 1000, /* HTTP_DEAF_MS */
	READERS = 8, /* of 2 MiB each; the server may hold 8 MiB for them */
};

static atomic_int woken;

static void count_wake(void *context)
{
	(void)context;
	atomic_fetch_add(&woken, 1);
}

static struct http *serve(void)
{
	struct http_options options = {.address = "0", .folder = "/", .wake = count_wake};
	struct http *http;
	struct fault fault;
	if (http_new(&options, &http, &fault))
		fail_msg("%s", fault.text);
	assert_false(http_is_open(http));
	atomic_store(&woken, 0);
	return http;
}

static void connect_to(const struct http *http, int fd)
{
	unsigned port;
	assert_int_equal(sscanf(http_address(http), "http://127.0.0.1:%u/", &port), 1);
	struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&name, sizeof name), 0);
}

static int client_of(const struct http *http)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	connect_to(http, fd);
	return fd;
}

static void ask(int fd, const char *path)
{
	char request[256];
	int n = snprintf(request, sizeof request,
		"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
	assert_int_equal(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
}

/* Reads until the server closes. Returns the status. */
static int answer_of(int fd, char *answer)
{
	size_t size = 0;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	for (ssize_t n = 1; n > 0; size += n > 0 ? (size_t)n : 0) {
		assert_int_equal(poll(&ready, 1, LIMIT_MS), 1);
		n = recv(fd, answer + size, ANSWER_ROOM - 1 - size, 0);
	}
	answer[size] = 0;
	(void)close(fd);
	int status = 0;
	(void)sscanf(answer, "HTTP/1.1 %d ", &status);
	return status;
}

static int get(const struct http *http, const char *path, char *answer)
{
	int fd = client_of(http);
	ask(fd, path);
	return answer_of(fd, answer);
}

/* Plays the event loop: waits until a client wants a sheet. */
static uint32_t wait_for_wish(struct http *http)
{
	uint32_t stream;
	for (int i = 0; i < LIMIT_MS; i++) {
		if (http_sheet_wanted(http, &stream))
			return stream;
		(void)poll(NULL, 0, 1);
	}
	fail_msg("no sheet was asked for");
	return 0;
}

/* The server stores the request before it wakes the loop. */
static void wait_for_bell(void)
{
	for (int i = 0; i < LIMIT_MS && atomic_load(&woken) == 0; i++)
		(void)poll(NULL, 0, 1);
	assert_true(atomic_load(&woken) >= 1);
}

static struct http_sheet *sheet_of(uint32_t stream)
{
	struct http_sheet *sheet = http_sheet_new(2, 4, 4);
	assert_non_null(sheet);
	sheet->stream = stream;
	sheet->batch_rows = 2;
	memset(sheet->pixels, 7, (size_t)2 * 4 * 4 * 3);
	return sheet;
}

static void nothing_published_is_said(void **state)
{
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	(void)state;
	assert_int_equal(get(http, "/metrics", answer), 503);
	assert_int_equal(get(http, "/status", answer), 503);
	assert_int_equal(get(http, "/healthz", answer), 503);
	assert_int_equal(get(http, "/", answer), 200);
	assert_int_equal(get(http, "/none", answer), 404);
	http_free(http);
}

static void the_newest_is_served(void **state)
{
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	struct http_stats stats;
	(void)state;
	for (int i = 0; i < 50; i++) {
		char text[64];
		(void)snprintf(text, sizeof text, "# TYPE x gauge\n# HELP x X.\nx %d\n# EOF\n", i);
		http_publish(http, HTTP_METRICS, strdup(text));
		http_publish(http, HTTP_STATUS, strdup("{\"old\": 1}"));
		(void)snprintf(text, sizeof text, "{\"new\": %d}", i);
		http_publish(http, HTTP_STATUS, strdup(text));
		assert_int_equal(get(http, "/status", answer), 200);
		assert_non_null(strstr(answer, text));
		assert_int_equal(get(http, "/metrics", answer), 200);
		(void)snprintf(text, sizeof text, "\nx %d\n", i);
		assert_non_null(strstr(answer, text));
		assert_null(strstr(answer, "# EOF"));
	}
	assert_int_equal(get(http, "/healthz", answer), 200);
	http_stats_read(http, &stats);
	assert_int_equal(stats.requests, 101);
	assert_int_equal(stats.refused, 0);
	http_free(http);
}

static void sheets_are_given_or_not(void **state)
{
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	int fd = client_of(http), other = client_of(http);
	(void)state;
	http_sheet_give(http, sheet_of(1)); /* nobody asked */
	ask(fd, "/sheet.json?stream=3");
	assert_int_equal(wait_for_wish(http), 3);
	wait_for_bell();
	ask(other, "/sheet?stream=5");
	http_sheet_give(http, sheet_of(3));
	assert_int_equal(answer_of(fd, answer), 200);
	assert_non_null(strstr(answer, "\"stream\":3"));
	/* A client that wanted another stream comes next. */
	assert_int_equal(wait_for_wish(http), 5);
	http_sheet_give(http, NULL);
	assert_int_equal(answer_of(other, answer), 404);
	fd = client_of(http);
	ask(fd, "/sheet?stream=9");
	assert_int_equal(wait_for_wish(http), 9);
	http_sheet_give(http, sheet_of(8)); /* came too late for another client */
	http_sheet_give(http, sheet_of(9));
	assert_int_equal(answer_of(fd, answer), 200);
	assert_memory_equal(strstr(answer, "\r\n\r\n") + 4, "\x89PNG", 4);
	http_free(http);
}

static void ask_for_sheet(int fd, unsigned stream)
{
	char path[40];
	(void)snprintf(path, sizeof path, "/sheet?stream=%u", stream);
	ask(fd, path);
}

/* Waits until the server has handled everything sent so far. */
static void settle(const struct http *http)
{
	static char answer[ANSWER_ROOM];
	assert_int_equal(get(http, "/none", answer), 404);
	assert_int_equal(get(http, "/none", answer), 404);
}

/* This holds for every request; otherwise a flood of requests would wake the event loop once for
 * each. */
static void the_event_loop_is_asked_seldom_and_in_turn(void **state)
{
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	int fd[WISHES];
	(void)state;
	for (int i = 0; i < WISHES; i++) {
		fd[i] = client_of(http);
		settle(http); /* so that the first client is first in the queue */
	}
	uint64_t begin = clock_ns();
	for (unsigned i = WISHES; i-- > 0;) {
		ask_for_sheet(fd[i], i);
		settle(http);
	}
	for (unsigned i = WISHES; i-- > 0;) {
		assert_int_equal(wait_for_wish(http), i);
		http_sheet_give(http, NULL);
		assert_int_equal(answer_of(fd[i], answer), 404);
	}
	assert_true(clock_ns() - begin >= (uint64_t)(WISHES - 1) * WISH_NS);
	assert_int_equal(atomic_load(&woken), WISHES);
	http_free(http);
}

static void who_waits_for_sheets_leaves_places(void **state)
{
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	int fd[WAITERS];
	(void)state;
	for (unsigned i = 0; i < WAITERS; i++)
		ask_for_sheet(fd[i] = client_of(http), i);
	settle(http);
	assert_int_equal(get(http, "/sheet?stream=0", answer), 503);
	assert_non_null(strstr(answer, "too many clients wait"));
	http_free(http);
	for (unsigned i = 0; i < WAITERS; i++)
		(void)close(fd[i]);
}

static void publish_large(struct http *http)
{
	char *text = malloc(LARGE + 1);
	assert_non_null(text);
	memset(text, ' ', LARGE);
	text[LARGE] = 0;
	http_publish(http, HTTP_STATUS, text);
}

/* Sends a request and does not read the answer that has begun. */
static int lazy_reader(const struct http *http)
{
	int fd = client_of(http);
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	ask(fd, "/status");
	assert_int_equal(poll(&ready, 1, LIMIT_MS), 1);
	return fd;
}

static size_t read_all(int fd)
{
	static char part[1 << 16];
	size_t size = 0;
	for (ssize_t n = 1; n > 0; size += n > 0 ? (size_t)n : 0)
		n = recv(fd, part, sizeof part, 0);
	(void)close(fd);
	return size;
}

static void slow_readers_hold_few_old_answers(void **state)
{
	struct http *http = serve();
	int fd[READERS];
	(void)state;
	for (int i = 0; i < READERS; i++) {
		publish_large(http);
		fd[i] = lazy_reader(http);
	}
	settle(http);
	/* The last client reads the newest sheet, and the four before it the sheets that the
	 * server may hold. The server has closed the first clients. */
	for (int i = 0; i < READERS; i++)
		if (i < READERS - 5)
			assert_true(read_all(fd[i]) < LARGE);
		else
			assert_true(read_all(fd[i]) > LARGE);
	http_free(http);
}

static void it_ends_whoever_waits(void **state)
{
	static char answer[ANSWER_ROOM];
	(void)state;
	for (int given = 0; given < 2; given++) {
		struct http *http = serve();
		int sheet = client_of(http), silent = client_of(http), half = client_of(http);
		assert_int_equal(send(half, "GET / HT", 8, MSG_NOSIGNAL), 8);
		ask(sheet, "/sheet");
		(void)wait_for_wish(http);
		if (given)
			http_sheet_give(http, sheet_of(0));
		http_free(http);
		(void)answer_of(sheet, answer);
		assert_int_equal(answer_of(silent, answer), 0);
		assert_int_equal(answer_of(half, answer), 0);
	}
}

static void the_oldest_that_never_asked_makes_room(void **state)
{
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	int silent[2 * HTTP_CONNECTIONS];
	struct http_stats stats;
	(void)state;
	for (int i = 0; i < 2 * HTTP_CONNECTIONS; i++)
		silent[i] = client_of(http);
	assert_int_equal(get(http, "/", answer), 200);
	http_stats_read(http, &stats);
	assert_true(stats.connections <= HTTP_CONNECTIONS);
	assert_true(stats.refused >= HTTP_CONNECTIONS);
	/* The first connections are closed, the last is open. */
	assert_int_equal(answer_of(silent[0], answer), 0);
	ask(silent[2 * HTTP_CONNECTIONS - 1], "/");
	assert_int_equal(answer_of(silent[2 * HTTP_CONNECTIONS - 1], answer), 200);
	for (int i = 1; i < 2 * HTTP_CONNECTIONS - 1; i++)
		(void)close(silent[i]);
	http_free(http);
}

/* Where log lines go while a test reads them. */
struct caught {
	int file, before;
};

static struct caught catch_log(void)
{
	struct caught caught = {
		.file = memfd_create("log", MFD_CLOEXEC), .before = dup(STDERR_FILENO)};
	assert_true(caught.file >= 0 && caught.before >= 0);
	assert_int_equal(dup2(caught.file, STDERR_FILENO), STDERR_FILENO);
	return caught;
}

static void let_log_go(const struct caught *caught)
{
	assert_int_equal(dup2(caught->before, STDERR_FILENO), STDERR_FILENO);
	(void)close(caught->before);
	(void)close(caught->file);
}

static unsigned times_said(const struct caught *caught, const char *words)
{
	char text[ANSWER_ROOM];
	ssize_t size = pread(caught->file, text, sizeof text - 1, 0);
	unsigned times = 0;
	text[size > 0 ? size : 0] = 0;
	for (const char *at = text; (at = strstr(at, words)); at++)
		times++;
	return times;
}

static void wait_until_said(const struct caught *caught, const char *words, unsigned times)
{
	for (int i = 0; i < LIMIT_MS && times_said(caught, words) < times; i++)
		(void)poll(NULL, 0, 1);
	assert_int_equal(times_said(caught, words), times);
}

/* The process may not open another descriptor. */
static struct rlimit take_descriptors(void)
{
	struct rlimit before, none;
	int next = dup(STDERR_FILENO);
	assert_true(next >= 0);
	(void)close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	return before;
}

static void who_cannot_connect_is_told_of_once_until_it_works(void **state)
{
	static const char words[] = "clients cannot connect to metrics and the page";
	static char answer[ANSWER_ROOM];
	struct http *http = serve();
	struct caught caught = catch_log();
	(void)state;
	for (unsigned times = 1; times <= 2; times++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct rlimit limit = take_descriptors();
		connect_to(http, fd);
		wait_until_said(&caught, words, times);
		/* The server tries again each second, without another message. */
		(void)poll(NULL, 0, times == 1 ? DEAF_MS * 5 / 2 : 0);
		assert_int_equal(times_said(&caught, words), times);
		assert_int_equal(times_said(&caught, "ulimit -n"), times);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
		ask(fd, "/");
		assert_int_equal(answer_of(fd, answer), 200);
	}
	let_log_go(&caught);
	http_free(http);
}

static void a_wrong_address_is_a_sentence(void **state)
{
	struct http_options options = {.address = "nowhere", .folder = "/", .wake = count_wake};
	struct http *http = NULL;
	struct fault fault = {""};
	(void)state;
	assert_true(http_new(&options, &http, &fault) < 0);
	assert_null(http);
	assert_non_null(strstr(fault.text, "nowhere"));
	assert_int_equal(http_check_address("off", &fault), 0);
	assert_int_equal(http_check_address("auto", &fault), 0);
	assert_true(http_check_address("nowhere", &fault) < 0);
	http_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_published_is_said),
		cmocka_unit_test(the_newest_is_served),
		cmocka_unit_test(sheets_are_given_or_not),
		cmocka_unit_test(the_event_loop_is_asked_seldom_and_in_turn),
		cmocka_unit_test(who_waits_for_sheets_leaves_places),
		cmocka_unit_test(slow_readers_hold_few_old_answers),
		cmocka_unit_test(it_ends_whoever_waits),
		cmocka_unit_test(the_oldest_that_never_asked_makes_room),
		cmocka_unit_test(who_cannot_connect_is_told_of_once_until_it_works),
		cmocka_unit_test(a_wrong_address_is_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
