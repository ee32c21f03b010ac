/* client_fixture: a client and the fault server (tests/remote/fault_server.py: a STAND-IN for
 * servers that misbehave), with one object of known bytes. */
#pragma once

#include "remote/client/client.h"

#include "base/util.h"
#include "unit/folder_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

enum { OBJECT_SIZE = 1 << 20 };

struct fixture {
	char *folder;
	pid_t server;
	int server_in; /* its standard input: it runs until this is closed */
	unsigned port;
	bool tls;
	struct client *client;
	struct client_options options;
};
static struct fixture fixture;
static uint8_t fixture_object[OBJECT_SIZE], fixture_buffer[OBJECT_SIZE + 16];

static void fixture_spawn(const char *port)
{
	int in[2], out[2];
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	fixture.server = fork();
	assert_true(fixture.server >= 0);
	if (fixture.server == 0) {
		(void)dup2(in[0], 0);
		(void)dup2(out[1], 1);
		(void)execl(PENSTOCK_PYTHON, PENSTOCK_PYTHON, PENSTOCK_FAULT_SERVER, fixture.folder,
			"--port", port, fixture.tls ? "--tls" : NULL, (char *)NULL);
		_exit(127);
	}
	(void)close(in[0]);
	(void)close(out[1]);
	fixture.server_in = in[1];
	FILE *said = fdopen(out[0], "r");
	assert_non_null(said);
	assert_int_equal(fscanf(said, "port %u", &fixture.port), 1);
	(void)fclose(said);
}

static int fixture_setup(void **state)
{
	(void)state;
	char path[512];
	(void)alarm(110);
	(void)unsetenv("http_proxy");
	fixture.folder = fixture_folder();
	uint64_t x = 88172645463325252u;
	for (size_t i = 0; i < OBJECT_SIZE; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		fixture_object[i] = (uint8_t)(x >> 32);
	}
	(void)snprintf(path, sizeof path, "%s/object", fixture.folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(fixture_object, 1, OBJECT_SIZE, file), OBJECT_SIZE);
	assert_int_equal(fclose(file), 0);
	fixture_spawn("0");
	return 0;
}

static int fixture_teardown(void **state)
{
	(void)state;
	int status;
	(void)close(fixture.server_in);
	(void)waitpid(fixture.server, &status, 0);
	fixture_remove(fixture.folder);
	return 0;
}

/* Timings are those of a test: short. A field that is set in `options` counts. */
__attribute__((unused)) static void fixture_client(struct client_options options)
{
	struct fault fault = {{0}};
	if (!options.timeout_s)
		options.timeout_s = 20;
	if (!options.backoff_ms)
		options.backoff_ms = 5;
	if (client_start(&options, &fixture.client, &fault) != 0)
		fail_msg("%s", fault.text);
}

__attribute__((unused)) static struct client_stats fixture_stats(void)
{
	struct client_stats stats;
	client_stats_read(fixture.client, &stats);
	return stats;
}

__attribute__((unused)) static void fixture_stop(void)
{
	client_stop(fixture.client);
	fixture.client = NULL;
}

/* "http://127.0.0.1:PORT/object" and what is appended. */
static const char *fixture_url(const char *append)
{
	static char url[1024];
	(void)snprintf(url, sizeof url, "http%s://127.0.0.1:%u/object%s", fixture.tls ? "s" : "",
		fixture.port, append);
	return url;
}

/* Reads a range of the object; the rest of the buffer must stay as it was. */
__attribute__((unused)) static int fixture_get(const char *append, uint64_t offset, uint64_t size,
	struct client_request *ret, const char *etag)
{
	struct fault fault;
	memset(fixture_buffer, 0xa5, sizeof fixture_buffer);
	*ret = (struct client_request){.url = fixture_url(append),
		.offset = offset,
		.size = size,
		.buffer = fixture_buffer,
		.room = OBJECT_SIZE,
		.etag = etag};
	int result = client_perform(fixture.client, ret, &fault);
	for (size_t i = 0; i < 16; i++)
		assert_int_equal(fixture_buffer[(size ? size : OBJECT_SIZE) + i], 0xa5);
	return result;
}

__attribute__((unused)) static void fixture_get_right(
	const char *append, uint64_t offset, uint64_t size)
{
	struct client_request request;
	int result = fixture_get(append, offset, size, &request, NULL);
	if (result != 0)
		fail_msg("%s: %s", append, request.fault.text);
	assert_int_equal(request.received, size);
	assert_memory_equal(fixture_buffer, fixture_object + offset, size);
}

__attribute__((unused)) static void fixture_get_wrong(
	const char *append, int expected, const char *sentence)
{
	struct client_request request;
	int result = fixture_get(append, 1000, 5000, &request, NULL);
	if (result != expected || !strstr(request.fault.text, sentence))
		fail_msg("%s: %d \"%s\", expected %d \"%s\"", append, result, request.fault.text,
			expected, sentence);
	/* Nothing that a terminal obeys, and no query. */
	for (const char *p = request.fault.text; *p; p++)
		assert_in_range((unsigned char)*p, ' ', '~');
	assert_null(strstr(request.fault.text, "fault="));
}
