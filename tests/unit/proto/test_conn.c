/* conn: whole messages, descriptors, hang-ups, malformed peers, the socket's path. */
#include "proto/conn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	int a, b;
	int fds; /* open before */
};

static int count_fds(void)
{
	int n = 0;
	DIR *folder = opendir("/proc/self/fd");
	assert_non_null(folder);
	while (readdir(folder))
		n++;
	(void)closedir(folder);
	return n;
}

static int pair_setup(void **state)
{
	static struct pair pair;
	int fd[2];
	pair.fds = count_fds();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd) < 0)
		return -1;
	pair.a = fd[0];
	pair.b = fd[1];
	*state = &pair;
	return 0;
}

/* Every test ends with the open descriptors that it began with. */
static int pair_teardown(void **state)
{
	struct pair *pair = *state;
	if (pair->a >= 0)
		(void)close(pair->a);
	if (pair->b >= 0)
		(void)close(pair->b);
	return count_fds() == pair->fds ? 0 : -1;
}

static struct conn_message message; /* 64 KiB: not for a stack */

static void test_round_trip(void **state)
{
	struct pair *pair = *state;
	struct wire_error error = {.head = {.type = WIRE_ERROR, .request = 7, .stream = 3},
		.code = -EIO,
		.text_bytes = 5};
	assert_int_equal(conn_receive(pair->b, true, &message), -EAGAIN);
	assert_int_equal(
		conn_send(pair->a, true, &error.head, sizeof error, "hello", 5, -1), CONN_OK);
	assert_int_equal(error.head.bytes, sizeof error + 5);
	assert_int_equal(conn_receive(pair->b, false, &message), CONN_OK);
	assert_int_equal(message.size, sizeof error + 5);
	assert_int_equal(message.fd, -1);
	const struct wire_error *view = conn_view(
		&message, WIRE_ERROR, sizeof *view, offsetof(struct wire_error, text_bytes));
	assert_non_null(view);
	assert_int_equal(view->code, -EIO);
	assert_int_equal(view->head.request, 7);
	assert_memory_equal(view + 1, "hello", 5);

	assert_null(conn_view(&message, WIRE_ANSWER, sizeof(struct wire_answer), 0));
	assert_null(conn_view(&message, WIRE_ERROR, sizeof *view,
		0)); /* a text in a message that may have none */
	message.size--;
	assert_null(conn_view(
		&message, WIRE_ERROR, sizeof *view, offsetof(struct wire_error, text_bytes)));
	message.size = sizeof(struct wire_head);
	assert_null(conn_view(
		&message, WIRE_ERROR, sizeof *view, offsetof(struct wire_error, text_bytes)));
}

static void test_longest(void **state)
{
	struct pair *pair = *state;
	static char text[WIRE_MESSAGE_MAX];
	struct wire_open open_message = {.head = {.type = WIRE_OPEN}};
	uint32_t most = WIRE_MESSAGE_MAX - sizeof open_message;
	open_message.text_bytes = most;
	memset(text, 'x', sizeof text);
	assert_int_equal(conn_send(pair->a, true, &open_message.head, sizeof open_message, text,
				 most + 1, -1),
		-EMSGSIZE);
	assert_int_equal(conn_send(pair->a, true, &open_message.head, sizeof open_message, text,
				 SIZE_MAX, -1),
		-EMSGSIZE);
	assert_int_equal(conn_receive(pair->b, true, &message), -EAGAIN);
	assert_int_equal(
		conn_send(pair->a, true, &open_message.head, sizeof open_message, text, most, -1),
		CONN_OK);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_OK);
	assert_int_equal(message.size, WIRE_MESSAGE_MAX);
	assert_non_null(conn_view(
		&message, WIRE_OPEN, sizeof open_message, offsetof(struct wire_open, text_bytes)));
}

static void test_malformed(void **state)
{
	struct pair *pair = *state;
	static uint8_t raw[WIRE_MESSAGE_MAX + 8];
	struct wire_head head = {.type = WIRE_CLOSE, .bytes = sizeof head};

	assert_int_equal(send(pair->a, &head, sizeof head - 1, 0), sizeof head - 1); /* cut */
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
	assert_int_equal(send(pair->a, "x", 1, 0), 1);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
	head.bytes = sizeof head + 1; /* claims more bytes than it has */
	assert_int_equal(send(pair->a, &head, sizeof head, 0), sizeof head);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
	head.bytes = sizeof head - 8; /* claims fewer bytes */
	assert_int_equal(send(pair->a, &head, sizeof head, 0), sizeof head);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
	head.bytes = sizeof raw; /* correct, but too long */
	memcpy(raw, &head, sizeof head);
	assert_int_equal(send(pair->a, raw, sizeof raw, 0), sizeof raw);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
	head.bytes = sizeof head; /* the connection itself is unharmed */
	assert_int_equal(send(pair->a, &head, sizeof head, 0), sizeof head);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_OK);
}

static void test_descriptor(void **state)
{
	struct pair *pair = *state;
	int memory = memfd_create("test", MFD_CLOEXEC);
	struct wire_extent extent = {.head = {.type = WIRE_EXTENT}};
	assert_int_equal(write(memory, "abc", 3), 3);
	assert_int_equal(
		conn_send(pair->a, true, &extent.head, sizeof extent, NULL, 0, memory), CONN_OK);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_OK);
	assert_true(message.fd >= 0);
	assert_int_equal(fcntl(message.fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	char bytes[4] = "";
	assert_int_equal(pread(message.fd, bytes, 3, 0), 3);
	assert_string_equal(bytes, "abc");
	(void)close(message.fd);
	(void)close(memory);
}

/* Sends `count` copies of descriptor 0 with a good or a bad message. */
static void send_descriptors(int to, unsigned count, uint32_t bytes)
{
	char control[CMSG_SPACE(16 * sizeof(int))];
	struct wire_head head = {.type = WIRE_CLOSE, .bytes = bytes};
	struct iovec part = {&head, sizeof head};
	struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control};
	memset(control, 0, sizeof control);
	header.msg_controllen = CMSG_SPACE(count * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int)); /* all zero: descriptor 0 each */
	assert_int_equal(sendmsg(to, &header, 0), sizeof head);
}

static void test_too_many_descriptors(void **state)
{
	struct pair *pair = *state;
	for (unsigned count = 2; count <= 16; count++) {
		send_descriptors(pair->a, count, sizeof(struct wire_head));
		assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
		assert_int_equal(message.fd, -1);
	}
	/* The teardown checks that a descriptor of a malformed message is closed too. */
	send_descriptors(pair->a, 1, 99);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_MALFORMED);
	assert_int_equal(message.fd, -1);
}

static void test_no_room_for_descriptor(void **state)
{
	struct pair *pair = *state;
	struct rlimit old, none;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 3;
	send_descriptors(pair->a, 1, sizeof(struct wire_head));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	int result = conn_receive(pair->b, true, &message);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(result, -EMFILE);
	assert_int_equal(message.fd, -1);
}

/* A close message with `count` descriptors. 0 or -errno. */
static int send_close_with(int to, size_t count)
{
	static union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} control;
	struct wire_close out = {.head = {.type = WIRE_CLOSE, .bytes = sizeof out, .stream = 1}};
	struct iovec part = {.iov_base = &out, .iov_len = sizeof out};
	struct msghdr header = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	memset(&control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	for (size_t i = 0; i < count; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &to, sizeof to);
	return sendmsg(to, &header, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* A receiver that accepts no descriptors gets none, whatever the peer sends, and gets an error;
 * the next message arrives normally. */
static void test_descriptors_are_not_taken(void **state)
{
	static const size_t counts[] = {1, 2, 4, 5, 64, 253};
	struct pair *pair = *state;
	struct wire_close fine = {.head = {.type = WIRE_CLOSE, .stream = 1}};
	int before = count_fds();
	assert_int_equal(conn_receive_plain(pair->b, &message), -EAGAIN);
	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		assert_int_equal(send_close_with(pair->a, counts[i]), 0);
		assert_int_equal(conn_receive_plain(pair->b, &message), CONN_E_FDS);
		assert_int_equal(message.fd, -1);
		assert_int_equal(count_fds(), before);
	}
	assert_int_equal(conn_send(pair->a, true, &fine.head, sizeof fine, NULL, 0, -1), CONN_OK);
	assert_int_equal(conn_receive_plain(pair->b, &message), CONN_OK);
	assert_int_equal(message.size, sizeof fine);
	if (conn_refuse_fds(pair->b)) { /* Linux 6.16 */
		assert_int_equal(send_close_with(pair->a, 1), -EPERM);
		assert_int_equal(conn_receive_plain(pair->b, &message), -EAGAIN);
	}
	(void)close(pair->a);
	pair->a = -1;
	assert_int_equal(conn_receive_plain(pair->b, &message), CONN_E_CLOSED);
}

static void test_hangup(void **state)
{
	struct pair *pair = *state;
	struct wire_close last = {.head = {.type = WIRE_CLOSE}};
	assert_int_equal(conn_send(pair->a, true, &last.head, sizeof last, NULL, 0, -1), CONN_OK);
	(void)close(pair->a);
	pair->a = -1;
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_OK);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_CLOSED);
	assert_int_equal(conn_receive(pair->b, false, &message), CONN_E_CLOSED);
	/* SIGPIPE has its default disposition here: it would end the test. */
	assert_int_equal(
		conn_send(pair->b, true, &last.head, sizeof last, NULL, 0, -1), CONN_E_CLOSED);
}

/* A peer that closes while it has unread messages resets the connection; its last message must
 * still arrive. */
static void test_last_words(void **state)
{
	struct pair *pair = *state;
	struct wire_close noise = {.head = {.type = WIRE_CLOSE}};
	struct wire_error words = {.head = {.type = WIRE_ERROR}, .code = -EPROTO, .text_bytes = 4};
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			conn_send(pair->b, true, &noise.head, sizeof noise, NULL, 0, -1), CONN_OK);
	assert_int_equal(
		conn_send(pair->a, true, &words.head, sizeof words, "why?", 4, -1), CONN_OK);
	(void)close(pair->a);
	pair->a = -1;
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_OK);
	assert_int_equal(message.head.type, WIRE_ERROR);
	assert_int_equal(conn_receive(pair->b, true, &message), CONN_E_CLOSED);
}

static void test_full(void **state)
{
	struct pair *pair = *state;
	struct wire_close noise = {.head = {.type = WIRE_CLOSE}};
	int sent = 0, result;
	while ((result = conn_send(pair->a, true, &noise.head, sizeof noise, NULL, 0, -1)) ==
		CONN_OK)
		sent++;
	assert_int_equal(result, -EAGAIN);
	assert_true(sent > 16);
	for (int i = 0; i < sent; i++)
		assert_int_equal(conn_receive(pair->b, true, &message), CONN_OK);
	assert_int_equal(conn_receive(pair->b, true, &message), -EAGAIN);
}

/* ---- sockets ---- */

struct place {
	char folder[64], socket[96];
};

static int place_setup(void **state)
{
	static struct place place;
	(void)snprintf(place.folder, sizeof place.folder, "/tmp/penstock-test-XXXXXX");
	if (!mkdtemp(place.folder))
		return -1;
	(void)snprintf(place.socket, sizeof place.socket, "%s/s/p.sock", place.folder);
	*state = &place;
	return 0;
}

static int place_teardown(void **state)
{
	struct place *place = *state;
	char command[128];
	(void)snprintf(command, sizeof command, "rm -rf %s", place->folder);
	return system(command);
}

static void test_listen(void **state)
{
	struct place *place = *state;
	int listener, client;
	struct stat status;
	assert_int_equal(conn_connect(place->socket, &client), -ENOENT);
	assert_int_equal(conn_make_folder(place->socket), 0);
	assert_int_equal(conn_make_folder(place->socket), 0); /* and again */
	assert_int_equal(conn_connect(place->socket, &client), -ENOENT);
	mode_t old = umask(0);
	assert_int_equal(conn_listen(place->socket, &listener), 0);
	(void)umask(old);
	assert_int_equal(stat(place->socket, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(fcntl(listener, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	assert_int_equal(accept(listener, NULL, NULL), -1);
	assert_int_equal(errno, EAGAIN);

	assert_int_equal(conn_connect(place->socket, &client), 0);
	int served = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(served >= 0);
	uid_t uid;
	pid_t pid;
	assert_int_equal(conn_peer(served, &uid, &pid), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(pid, getpid());
	(void)close(client);
	(void)close(served);
	(void)close(listener);

	assert_int_equal(conn_connect(place->socket, &client), -ECONNREFUSED); /* stale */
	assert_int_equal(conn_listen(place->socket, &listener), 0); /* is replaced */
	assert_int_equal(conn_connect(place->socket, &client), 0);
	(void)close(client);
	(void)close(listener);
}

static void on_signal(int number)
{
	(void)number;
}

/* The signals end after a while, so that a call that never finishes because of them finishes
 * then. */
static pid_t start_storm(void)
{
	enum { SIGNALS = 2000, PAUSE_US = 5000 };
	struct sigaction action = {.sa_handler = on_signal};
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	pid_t target = getpid(), child = fork();
	assert_true(child >= 0);
	for (int i = 0; child == 0 && i < SIGNALS && kill(target, SIGUSR1) == 0; i++)
		(void)usleep(PAUSE_US);
	if (child == 0)
		_exit(0);
	return child;
}

/* A process that handles signals all the time, as under a profiler, also gives up on a stopped
 * listener. */
static void test_signals_do_not_lengthen_connecting(void **state)
{
	struct place *place = *state;
	int listener, waiting, client;
	assert_int_equal(conn_make_folder(place->socket), 0);
	assert_int_equal(conn_listen(place->socket, &listener), 0);
	assert_int_equal(listen(listener, 0), 0);
	assert_int_equal(conn_connect(place->socket, &waiting), 0);
	pid_t storm = start_storm();
	assert_int_equal(conn_connect_within(place->socket, 100, &client), -ETIMEDOUT);
	assert_int_equal(waitpid(storm, NULL, WNOHANG), 0);
	(void)kill(storm, SIGKILL);
	assert_int_equal(waitpid(storm, NULL, 0), storm);
	(void)close(waiting);
	(void)close(listener);
}

static void test_listen_spares_files(void **state)
{
	struct place *place = *state;
	int listener;
	assert_int_equal(conn_make_folder(place->socket), 0);
	int file = open(place->socket, O_CREAT | O_WRONLY, 0600);
	assert_true(file >= 0);
	assert_int_equal(write(file, "mine", 4), 4);
	(void)close(file);
	assert_int_equal(conn_listen(place->socket, &listener), -EEXIST);
	struct stat status;
	assert_int_equal(stat(place->socket, &status), 0);
	assert_int_equal(status.st_size, 4);
}

static void test_folder_refused(void **state)
{
	struct place *place = *state;
	char folder[80], socket[96];
	(void)snprintf(folder, sizeof folder, "%s/open", place->folder);
	(void)snprintf(socket, sizeof socket, "%s/p.sock", folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(conn_make_folder(socket), -EPERM); /* others may enter */
	assert_int_equal(chmod(folder, 0700), 0);
	assert_int_equal(conn_make_folder(socket), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(folder, 12345, -1), 0);
		assert_int_equal(conn_make_folder(socket), -EPERM); /* another user's */
		assert_int_equal(chown(folder, 0, -1), 0);
	}
	char link[80];
	(void)snprintf(link, sizeof link, "%s/link", place->folder);
	(void)snprintf(socket, sizeof socket, "%s/p.sock", link);
	assert_int_equal(symlink(folder, link), 0);
	assert_int_equal(conn_make_folder(socket), -EPERM);
	(void)snprintf(socket, sizeof socket, "%s/no/such/p.sock", place->folder);
	assert_int_equal(conn_make_folder(socket), -ENOENT);
}

static void test_long_path(void **state)
{
	(void)state;
	char path[200] = "/tmp/";
	int fd = -7;
	memset(path + 5, 'x', 103);
	path[108] = '\0'; /* 108 with the zero is one too many */
	assert_int_equal(conn_connect(path, &fd), -ENAMETOOLONG);
	assert_int_equal(conn_listen(path, &fd), -ENAMETOOLONG);
	path[107] = '\0';
	assert_int_equal(conn_connect(path, &fd), -ENOENT);
	assert_int_equal(conn_connect("", &fd), -ENOENT);
	assert_int_equal(fd, -7); /* written only on success */
}

static void test_default_path(void **state)
{
	struct place *place = *state;
	char path[200], wanted[200];
	(void)setenv("PENSTOCK_SOCKET", "/x/y.sock", 1);
	(void)setenv("XDG_RUNTIME_DIR", place->folder, 1);
	(void)setenv("TMPDIR", "/var/tmp", 1);
	assert_int_equal(conn_default_path(path, sizeof path), 0);
	assert_string_equal(path, "/x/y.sock");
	(void)setenv("PENSTOCK_SOCKET", "", 1);
	assert_int_equal(conn_default_path(path, sizeof path), 0);
	(void)snprintf(wanted, sizeof wanted, "%s/penstock/penstock.sock", place->folder);
	assert_string_equal(path, wanted);
	/* Slurm carries the variable from the login node to nodes where the folder does not exist.
	 */
	(void)setenv("XDG_RUNTIME_DIR", "/run/user/no-such-folder", 1);
	assert_int_equal(conn_default_path(path, sizeof path), 0);
	(void)snprintf(wanted, sizeof wanted, "/var/tmp/penstock-%lu/penstock.sock",
		(unsigned long)geteuid());
	assert_string_equal(path, wanted);
	(void)unsetenv("TMPDIR");
	assert_int_equal(conn_default_path(path, sizeof path), 0);
	(void)snprintf(
		wanted, sizeof wanted, "/tmp/penstock-%lu/penstock.sock", (unsigned long)geteuid());
	assert_string_equal(path, wanted);
	assert_int_equal(conn_default_path(path, 10), -ENAMETOOLONG);
	memset(path, 'x', 150);
	path[150] = '\0';
	(void)setenv("PENSTOCK_SOCKET", path, 1);
	assert_int_equal(conn_default_path(path, sizeof path), -ENAMETOOLONG);
	(void)unsetenv("PENSTOCK_SOCKET");
}

int main(void)
{
#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, pair_setup, pair_teardown)
#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, place_setup, place_teardown)
	const struct CMUnitTest tests[] = {
		WITH_PAIR(test_round_trip),
		WITH_PAIR(test_longest),
		WITH_PAIR(test_malformed),
		WITH_PAIR(test_descriptor),
		WITH_PAIR(test_too_many_descriptors),
		WITH_PAIR(test_no_room_for_descriptor),
		WITH_PAIR(test_descriptors_are_not_taken),
		WITH_PAIR(test_hangup),
		WITH_PAIR(test_last_words),
		WITH_PAIR(test_full),
		WITH_PLACE(test_listen),
		WITH_PLACE(test_signals_do_not_lengthen_connecting),
		WITH_PLACE(test_listen_spares_files),
		WITH_PLACE(test_folder_refused),
		cmocka_unit_test(test_long_path),
		WITH_PLACE(test_default_path),
	};
	(void)alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
