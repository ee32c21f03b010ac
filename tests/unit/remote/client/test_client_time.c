/* What depends on time: hedges, stalls, servers that are gone, limits, cancellation, TLS, and the
 * disturbed scenario, with timings scaled down. No assertion needs a fast machine. */
#include "client_fixture.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

enum { MANY = 400, MANY_SIZE = 20000 };

static struct many {
	struct client_request request;
	char url[160];
	uint8_t buffer[MANY_SIZE + 8];
} many[MANY];
static pthread_mutex_t many_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t many_changed = PTHREAD_COND_INITIALIZER;
static unsigned many_ended;

static void many_done(struct client_request *request)
{
	(void)request;
	(void)pthread_mutex_lock(&many_lock);
	many_ended++;
	(void)pthread_cond_broadcast(&many_changed);
	(void)pthread_mutex_unlock(&many_lock);
}

static void many_begin(unsigned count, const char *query)
{
	many_ended = 0;
	for (unsigned i = 0; i < count; i++) {
		memset(many[i].buffer, 0x5a, sizeof many[i].buffer);
		(void)snprintf(many[i].url, sizeof many[i].url, "%s&n=%u", fixture_url(query), i);
		many[i].request = (struct client_request){.url = many[i].url,
			.offset = (uint64_t)i * 2500,
			.size = MANY_SIZE,
			.buffer = many[i].buffer,
			.done = many_done};
		client_begin(fixture.client, &many[i].request);
	}
}

static void many_wait(unsigned count)
{
	(void)pthread_mutex_lock(&many_lock);
	while (many_ended < count)
		(void)pthread_cond_wait(&many_changed, &many_lock);
	(void)pthread_mutex_unlock(&many_lock);
}

static void many_are_right(unsigned count)
{
	many_wait(count);
	for (unsigned i = 0; i < count; i++) {
		if (many[i].request.result != 0)
			fail_msg("%u: %s", i, many[i].request.fault.text);
		assert_memory_equal(many[i].buffer, fixture_object + (size_t)i * 2500, MANY_SIZE);
		assert_int_equal(many[i].buffer[MANY_SIZE], 0x5a);
	}
}

static void nap(unsigned ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	(void)nanosleep(&time, NULL);
}

/* 5 % of the answers are 503, 1 % stall, 1 % end short, 2 % of the connections are reset. */
static void test_disturbed(void **state)
{
	fixture_client((struct client_options){
		.connections = 16, .hedge = 0.02, .stall_ms = 150, .backoff_ms = 2});
	many_begin(MANY, "?fault=disturb:7&for=1");
	many_are_right(MANY);
	struct client_stats stats = fixture_stats();
	assert_int_equal(stats.done, MANY);
	assert_true(stats.retries[CLIENT_RETRY_SLOWDOWN] > 5);
	assert_true(stats.retries[CLIENT_RETRY_RESET] > 2);
	assert_true(stats.retries[CLIENT_RETRY_STALL] + stats.hedges_won > 0);
	assert_true(stats.hedges <= MANY / 50);
	/* A few refusals by chance do not say that the server wants fewer requests. */
	assert_int_equal(stats.slowdowns, 0);
	assert_int_equal(stats.connections, 0);
	assert_int_equal(stats.queued, 0);
	/* Everything that came was stored once, or is known to be wasted. */
	assert_int_equal(stats.bytes - stats.bytes_wasted, (uint64_t)MANY * MANY_SIZE);
	fixture_stop();
}

static void test_hedge(void **state)
{
	fixture_client((struct client_options){.connections = 4, .hedge = 0.5, .stall_ms = 60000});
	for (int i = 0; i < 40; i++)
		fixture_get_right("", 0, 10);
	struct client_stats before = fixture_stats();
	assert_true(before.hedges <= 20);
	uint64_t begun = clock_ns();
	fixture_get_right("?fault=stall:20", 1000, 5000);
	/* In the middle of a body the rival asks for the rest. */
	fixture_get_right("?fault=stall:20&body=3000", 1000, 5000);
	/* The first goes on while its rival waits: the rival's bytes come too late to be stored. */
	fixture_get_right("?fault=race:0.25:0.6&body=1000&times=2", 1000, 5000);
	/* The second attempt is as late as the first: there is a third. */
	fixture_get_right("?fault=stall:21&times=2", 1000, 5000);
	assert_true(clock_ns() - begun < 15000000000u);
	struct client_stats after = fixture_stats();
	assert_true(after.hedges >= before.hedges + 4);
	assert_true(after.hedges_won >= before.hedges_won + 2);
	for (int i = 0; i < CLIENT_RETRIES; i++)
		assert_int_equal(after.retries[i], 0);
	assert_true(after.first_byte.count >= 44);
	/* A request that wants the header Link has one attempt at a time. */
	char link[64];
	struct fault fault;
	struct client_request listing = {.url = fixture_url("?fault=stall:0.3"),
		.buffer = fixture_buffer,
		.room = OBJECT_SIZE,
		.link = link,
		.link_room = sizeof link};
	assert_int_equal(client_perform(fixture.client, &listing, &fault), 0);
	assert_int_equal(fixture_stats().hedges, after.hedges);
	fixture_stop();
}

static void test_stalls(void **state)
{
	fixture_client((struct client_options){.connections = 4, .stall_ms = 100});
	uint64_t begun = clock_ns();
	fixture_get_right("?fault=stall:21", 1000, 5000);
	fixture_get_right("?fault=stall:20&body=1234&times=2", 1000, 5000);
	fixture_get_right("?fault=drip:0.02", 1000, 60000);
	assert_true(clock_ns() - begun < 15000000000u);
	assert_int_equal(fixture_stats().retries[CLIENT_RETRY_STALL], 4);
	/* What came before a stall is not asked for again. */
	assert_int_equal(fixture_stats().bytes_wasted, 0);
	assert_int_equal(fixture_stats().bytes, 70000);
	struct client_request request;
	fixture_stop();
	fixture_client((struct client_options){.stall_ms = 100, .timeout_s = 1});
	assert_int_equal(
		fixture_get("?fault=drip:0.02&times=0", 0, 60000, &request, NULL), -ETIMEDOUT);
	assert_non_null(strstr(request.fault.text, "gave up after 1 s"));
	assert_non_null(strstr(request.fault.text, "/object?...: the server sen"));
	fixture_stop();
}

/* A port on which nothing listens. */
static unsigned closed_port(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	(void)close(fd);
	return ntohs(address.sin_port);
}

static void test_gone_for_good(void **state)
{
	struct fault fault;
	char url[128];
	unsigned port = closed_port();
	fixture_client((struct client_options){.connections = 2, .timeout_s = 2});
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/object", port);
	uint64_t begun = clock_ns();
	/* More than there are connections. */
	for (unsigned i = 0; i < 8; i++) {
		(void)snprintf(many[i].url, sizeof many[i].url, "%s", url);
		many[i].request = (struct client_request){
			.url = many[i].url, .size = 5, .buffer = many[i].buffer, .done = many_done};
	}
	many_ended = 0;
	for (unsigned i = 0; i < 8; i++)
		client_begin(fixture.client, &many[i].request);
	nap(1500);
	struct client_stats stats = fixture_stats();
	assert_non_null(strstr(stats.waiting, "waiting for http://127.0.0.1:"));
	assert_non_null(strstr(stats.waiting, ": connection refused for 1 s"));
	many_wait(8);
	assert_true(clock_ns() - begun > 1900000000u);
	for (unsigned i = 0; i < 8; i++) {
		const char *text = many[i].request.fault.text;
		assert_int_equal(many[i].request.result, -ETIMEDOUT);
		if (!strstr(text, "gave up after 2 s") || !strstr(text, url) ||
			!strstr(text, "refused"))
			fail_msg("%s", text);
	}
	assert_true(fixture_stats().waiting_ns > 0);
	struct client_request once = {
		.url = url, .size = 5, .buffer = fixture_buffer, .flags = CLIENT_ONCE};
	assert_int_equal(client_perform(fixture.client, &once, &fault), -ECONNREFUSED);
	fixture_stop();
}

static void test_gone_and_back(void **state)
{
	char port[16], url[64];
	struct fixture first = fixture;
	unsigned free_port = closed_port();
	fixture_client((struct client_options){.backoff_ms = 20});
	(void)snprintf(port, sizeof port, "%u", free_port);
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/object", free_port);
	many_ended = 0;
	many[0].request = (struct client_request){
		.url = url, .size = MANY_SIZE, .buffer = many[0].buffer, .done = many_done};
	client_begin(fixture.client, &many[0].request);
	nap(100);
	fixture_spawn(port);
	many_are_right(1);
	assert_string_equal(fixture_stats().waiting, "");
	assert_true(fixture_stats().retries[CLIENT_RETRY_CONNECT] > 0);
	fixture_stop();
	int status;
	(void)close(fixture.server_in);
	(void)waitpid(fixture.server, &status, 0);
	fixture = first;
}

static void test_cancel(void **state)
{
	fixture_client((struct client_options){.connections = 8, .hedge = 0.5});
	many_begin(40, "?fault=stall:30");
	nap(50);
	/* In each state: running, queued, and some that have just begun. */
	for (unsigned i = 0; i < 40; i++)
		client_cancel(fixture.client, &many[i].request);
	many_wait(40);
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(many[i].request.result, -ECANCELED);
		client_cancel(fixture.client, &many[i].request); /* too late: nothing happens */
		assert_int_equal(many[i].buffer[0], 0x5a);
	}
	many_begin(40, "?fault=status:503&times=3");
	for (unsigned i = 0; i < 40; i += 2)
		client_cancel(fixture.client, &many[i].request);
	many_wait(40);
	for (unsigned i = 1; i < 40; i += 2)
		assert_int_equal(many[i].request.result, 0);
	assert_true(fixture_stats().canceled >= 40);
	/* While bodies arrive. */
	many_begin(100, "?x");
	for (unsigned i = 0; i < 100; i++)
		client_cancel(fixture.client, &many[i].request);
	many_wait(100);
	/* Stopping cancels what is left. */
	many_begin(40, "?fault=stall:30&more");
	nap(20);
	fixture_stop();
	assert_int_equal(many_ended, 40);
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(many[i].request.result, -ECANCELED);
}

/* A server that does not answer holds up no other, even if there are more requests for it than
 * connections. The two servers are two names of one. */
static void test_hanging_beside(void **state)
{
	char url[256];
	struct client_request request;
	struct fault fault;
	(void)snprintf(url, sizeof url, "http://localhost:%u/object?beside", fixture.port);
	fixture_client((struct client_options){.connections = 4, .stall_ms = 60000});
	many_begin(40, "?fault=stall:30&beside");
	for (int i = 0; i < 100 && fixture_stats().connections < 4; i++)
		nap(20);
	uint64_t begun = clock_ns();
	for (unsigned i = 0; i < 10; i++) {
		request = (struct client_request){
			.url = url, .offset = i, .size = 5000, .buffer = fixture_buffer};
		assert_int_equal(client_perform(fixture.client, &request, &fault), 0);
		assert_memory_equal(fixture_buffer, fixture_object + i, 5000);
	}
	assert_true(clock_ns() - begun < 15000000000u);
	fixture_stop();
	assert_int_equal(many_ended, 40);
}

static void test_slow_down(void **state)
{
	fixture_client((struct client_options){.connections = 16});
	many_begin(16, "?fault=status:503:SlowDown");
	many_are_right(16);
	/* A burst is one event; the retries of a slow machine may be another. */
	assert_in_range(fixture_stats().slowdowns, 1, 4);
	for (int i = 0; i < 100 && fixture_stats().connections_limit < 16; i++) {
		many_begin(16, "?y");
		many_are_right(16);
		nap(20);
	}
	fixture_stop();
	struct client_stats stats;
	fixture_client((struct client_options){.connections = 3});
	many_begin(60, "?fault=stall:0.01");
	nap(30);
	stats = fixture_stats();
	assert_in_range(stats.connections, 0, 3);
	many_are_right(60);
	assert_true(fixture_stats().connects <= 3);
	fixture_stop();
}

static void test_retry_after(void **state)
{
	fixture_client((struct client_options){0});
	uint64_t begun = clock_ns();
	fixture_get_right("?fault=status:503&after=1", 0, 5);
	assert_true(clock_ns() - begun >= 1000000000u);
	fixture_stop();
}

static void test_bandwidth(void **state)
{
	fixture_client((struct client_options){.connections = 8, .bandwidth = 4 << 20});
	uint64_t begun = clock_ns();
	many_begin(100, "?z"); /* 2 MB: at least 0.4 s, less what the bucket holds */
	many_are_right(100);
	fixture_get_right("?z", 0, OBJECT_SIZE);
	assert_true(clock_ns() - begun > 500000000u);
	assert_true(fixture_stats().throttled_ns > 0);
	fixture_stop();
}

static void test_idle_connections(void **state)
{
	fixture_client((struct client_options){0});
	fixture_get_right("", 0, 5);
	nap(5100);
	fixture_get_right("", 0, 5);
	assert_int_equal(fixture_stats().connects, 2);
	fixture_stop();
}

static void test_tls(void **state)
{
	char command[512], file[96], port[16] = "0";
	struct fixture first = fixture;
	struct client_request request;
	(void)snprintf(command, sizeof command,
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
		"-days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 "
		"-keyout %s/key.pem -out %s/cert.pem 2>/dev/null",
		fixture.folder, fixture.folder);
	if (system(command) != 0)
		skip();
	(void)snprintf(file, sizeof file, "%s/cert.pem", fixture.folder);
	fixture.tls = true;
	fixture_spawn(port);
	fixture_client((struct client_options){0});
	fixture_get_wrong("", -EKEYREJECTED,
		"the server's TLS certificate could not be verified: name the authority that "
		"signed it in AWS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE");
	assert_int_equal(fixture_stats().requests, 1);
	fixture_stop();
	assert_int_equal(setenv("AWS_CA_BUNDLE", file, 1), 0);
	fixture_client((struct client_options){0});
	fixture_get_right("", 1000, 500000);
	/* The name must be right, too. */
	char url[64];
	struct fault fault;
	(void)snprintf(url, sizeof url, "https://localhost:%u/object", fixture.port);
	request = (struct client_request){.url = url, .size = 5, .buffer = fixture_buffer};
	assert_int_equal(client_perform(fixture.client, &request, &fault), -EKEYREJECTED);
	/* Plain HTTP on a port of TLS, and a redirect that would give TLS up. */
	(void)snprintf(url, sizeof url, "http://127.0.0.1:%u/object", fixture.port);
	request.flags = CLIENT_ONCE;
	assert_true(client_perform(fixture.client, &request, &fault) < 0);
	assert_int_equal(
		fixture_get("?fault=redirect:http://127.0.0.1:1/x", 0, 5, &request, NULL), -EACCES);
	assert_non_null(strstr(request.fault.text, "redirects that give up TLS are not followed"));
	fixture_stop();
	assert_int_equal(setenv("AWS_CA_BUNDLE", "/nonexistent/ca.pem", 1), 0);
	fixture_client((struct client_options){0});
	fixture_get_wrong("", -EKEYREJECTED, "certificate authorities cannot be read");
	fixture_stop();
	assert_int_equal(unsetenv("AWS_CA_BUNDLE"), 0);
	(void)unlink(file);
	(void)snprintf(file, sizeof file, "%s/key.pem", fixture.folder);
	(void)unlink(file);
	int status;
	(void)close(fixture.server_in);
	(void)waitpid(fixture.server, &status, 0);
	fixture = first;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_disturbed),
		cmocka_unit_test(test_hedge),
		cmocka_unit_test(test_stalls),
		cmocka_unit_test(test_gone_for_good),
		cmocka_unit_test(test_gone_and_back),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_hanging_beside),
		cmocka_unit_test(test_slow_down),
		cmocka_unit_test(test_retry_after),
		cmocka_unit_test(test_bandwidth),
		cmocka_unit_test(test_idle_connections),
		cmocka_unit_test(test_tls),
	};
	return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
