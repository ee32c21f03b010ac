/* address: which texts are addresses, the message for each that is not, and the sockets that
 * they create. */
#include "http/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void what_is_written_is_understood(void **state)
{
	struct address a;
	struct fault fault;
	(void)state;
	assert_int_equal(address_parse("auto", "/run/penstock", &a, &fault), 0);
	assert_true(a.local);
	assert_string_equal(a.path, "/run/penstock/http.sock");
	assert_int_equal(address_parse("unix:/x/y.sock", NULL, &a, &fault), 0);
	assert_true(a.local);
	assert_string_equal(a.path, "/x/y.sock");
	assert_int_equal(address_parse("9470", NULL, &a, &fault), 0);
	assert_false(a.local);
	assert_string_equal(a.host, "127.0.0.1");
	assert_int_equal(a.port, 9470);
	assert_int_equal(address_parse("node-1.example.org:80", NULL, &a, &fault), 0);
	assert_string_equal(a.host, "node-1.example.org");
	assert_int_equal(a.port, 80);
	assert_int_equal(address_parse("[::1]:65535", NULL, &a, &fault), 0);
	assert_string_equal(a.host, "::1");
	assert_int_equal(a.port, 65535);
	assert_int_equal(address_parse("0", NULL, &a, &fault), 0);
	assert_int_equal(a.port, 0);
}

static void what_is_no_address_is_refused_with_a_sentence(void **state)
{
	static const struct {
		const char *text, *says;
	} wrong[] = {{"", "expected auto, off, a PORT"}, {"on", "a port is a number"},
		{"65536", "a port is a number"}, {"-1", "a port is a number"},
		{"99999999999999999999", "a port is a number"}, {"localhost", "a port is a number"},
		{"localhost:", "a port is a number"}, {"localhost:http", "a port is a number"},
		{":80", "not a host"}, {"a b:80", "not a host"}, {"::1:80", "in brackets"},
		{"[]:80", "not a host"}, {"[::1:80", "in brackets"},
		{"[fe80]:80", "do not hold an IPv6 address"},
		{"[127.0.0.1]:80", "do not hold an IPv6 address"}, {"unix:", "absolute"},
		{"unix:http.sock", "absolute"}, {"unix:/tmp/", "absolute"},
		{"http://localhost:80", "in brackets"}, {"80/", "a port is a number"}};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(wrong); i++) {
		struct fault fault = {""};
		struct address a = {.port = 7};
		assert_int_equal(address_parse(wrong[i].text, "/run", &a, &fault), -EINVAL);
		assert_int_equal(a.port, 7);
		if (!strstr(fault.text, wrong[i].says))
			fail_msg("%s: \"%s\" does not say \"%s\"", wrong[i].text, fault.text,
				wrong[i].says);
	}
	char text[400], host[400];
	struct fault fault;
	struct address a;
	memset(text, 'x', sizeof text);
	memcpy(text, "unix:/", 6);
	text[5 + 107] = 0;
	assert_int_equal(address_parse(text, NULL, &a, &fault), 0);
	text[5 + 107] = 'x';
	text[5 + 108] = 0;
	assert_int_equal(address_parse(text, NULL, &a, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "108 bytes"));
	assert_int_equal(address_parse("auto", text + 5, &a, &fault), -EINVAL);
	memset(host, 'h', sizeof host);
	memcpy(host + 256, ":80", 4);
	assert_int_equal(address_parse(host, NULL, &a, &fault), -EINVAL);
}

static void must_fail(const char *text, int code, const char *says)
{
	struct address a;
	struct address_socket s;
	struct fault fault = {""};
	assert_int_equal(address_parse(text, NULL, &a, &fault), 0);
	int result = address_listen(&a, &s, &fault);
	if (result != code || !strstr(fault.text, says))
		fail_msg("%s: %d, \"%s\"", text, result, fault.text);
}

static struct address_socket must_listen(const char *text, struct address *ret)
{
	struct address_socket s;
	struct fault fault = {""};
	assert_int_equal(address_parse(text, NULL, ret, &fault), 0);
	if (address_listen(ret, &s, &fault))
		fail_msg("%s: %s", text, fault.text);
	assert_true(fcntl(s.fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(s.fd, F_GETFD) & FD_CLOEXEC);
	return s;
}

static void a_port_that_is_taken_is_said(void **state)
{
	struct address a, b;
	char text[64];
	(void)state;
	struct address_socket s = must_listen("0", &a);
	assert_false(s.open);
	assert_memory_equal(s.text, "http://127.0.0.1:", 17);
	unsigned long port = strtoul(s.text + 17, NULL, 10);
	(void)snprintf(text, sizeof text, "127.0.0.1:%lu", port);
	must_fail(text, -EADDRINUSE, "another port");
	must_fail("192.0.2.1:9470", -EADDRNOTAVAIL, "does not have that address");
	must_fail("no-such-host.invalid:80", -EADDRNOTAVAIL, "name an address of this machine");
	address_close(&a, &s);
	assert_int_equal(s.fd, -1);
	s = must_listen("0.0.0.0:0", &b);
	assert_true(s.open);
	address_close(&b, &s);
}

static void unix_sockets_are_private_and_stale_ones_replaced(void **state)
{
	char folder[] = "/tmp/penstock-test-XXXXXX", text[160], path[128];
	struct address a;
	struct stat status;
	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof path, "%s/h.sock", folder);
	(void)snprintf(text, sizeof text, "unix:%s", path);
	struct address_socket s = must_listen(text, &a);
	assert_int_equal(lstat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_false(s.open);
	assert_string_equal(s.text, text);
	must_fail(text, -EADDRINUSE, "another process listens there");
	/* A killed daemon leaves its socket; the next one replaces it. */
	(void)close(s.fd);
	assert_int_equal(lstat(path, &status), 0);
	s = must_listen(text, &a);
	address_close(&a, &s);
	assert_int_equal(lstat(path, &status), -1);
	/* The close leaves a path alone that another file has taken over. */
	s = must_listen(text, &a);
	assert_int_equal(unlink(path), 0);
	int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(file >= 0);
	(void)close(file);
	address_close(&a, &s);
	assert_int_equal(lstat(path, &status), 0);
	must_fail(text, -EEXIST, "not a socket");
	assert_int_equal(unlink(path), 0);
	(void)snprintf(text, sizeof text, "unix:%s/none/h.sock", folder);
	must_fail(text, -ENOENT, "make the folder");
	assert_int_equal(rmdir(folder), 0);
}

static void only_our_names_are_ours(void **state)
{
	static const char *const names[] = {"node1", "node1.example.org", ""};
	static const char *const ours[] = {"localhost", "LOCALHOST:9470", "localhost.:80",
		"127.0.0.1", "127.0.0.1:9470", "10.1.2.3:80", "[::1]", "[::1]:9470",
		"[2001:db8::1]:1", "node1", "Node1:80", "node1.example.org:9470",
		"node1.example.org."};
	static const char *const others[] = {"", ":80", "evil.example", "evil.example:9470",
		"localhost.evil.example", "127.0.0.1.evil.example", "node1.evil.example", "xnode1",
		"localhost:x", "localhost:99999999", "[::1", "[::1]x", "[evil.example]", "[]",
		"127.0.0.1:80:90", "localhost localhost", "2130706433", "0x7f.1", "."};
	char large[1024];
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(ours); i++)
		if (!address_names_us(ours[i], names, UTIL_COUNT(names)))
			fail_msg("%s was refused", ours[i]);
	for (size_t i = 0; i < UTIL_COUNT(others); i++)
		if (address_names_us(others[i], names, UTIL_COUNT(names)))
			fail_msg("%s was taken", others[i]);
	memset(large, 'a', sizeof large);
	large[sizeof large - 1] = 0;
	assert_false(address_names_us(large, names, UTIL_COUNT(names)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_understood),
		cmocka_unit_test(what_is_no_address_is_refused_with_a_sentence),
		cmocka_unit_test(a_port_that_is_taken_is_said),
		cmocka_unit_test(unix_sockets_are_private_and_stale_ones_replaced),
		cmocka_unit_test(only_our_names_are_ours),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
