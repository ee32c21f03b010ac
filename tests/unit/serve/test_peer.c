/* peer: what a process may hold, what remains for others, and that charges are returned. */
#include "serve/session/peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { USER = 1000 };

static struct peer_book book_of(uint32_t clients, uint32_t streams)
{
	struct peer_book book = {0};
	peer_book_set(&book, clients, streams);
	book.uid = USER;
	return book;
}

static struct peer_name process(pid_t pid)
{
	return (struct peer_name){.pid = pid, .uid = USER};
}

/* How many more of a kind the process gets; `fault` then has the sentence of the refusal. */
static uint32_t take_all(
	struct peer_book *book, struct peer_name name, enum peer_kind kind, struct fault *fault)
{
	uint32_t got = 0;
	while (!peer_may(book, &name, kind, fault)) {
		assert_non_null(peer_charge(book, &name, kind));
		got++;
	}
	return got;
}

static void give_all(struct peer_book *book)
{
	while (book->peers)
		for (int kind = 0; kind < PEER_KINDS; kind++)
			if (book->peers->held[kind]) {
				peer_discharge(book, book->peers, (enum peer_kind)kind);
				break;
			}
	for (int kind = 0; kind < PEER_KINDS; kind++)
		assert_int_equal(book->held[kind], 0);
}

static void one_process_gets_its_share_and_is_told(void **state)
{
	(void)state;
	static const struct {
		enum peer_kind kind;
		uint32_t share;
		const char *words[3];
	} kinds[] = {
		{PEER_CLIENTS, 64, {"process 7 has 64 connections", "one process", "max_clients"}},
		{PEER_STREAMS, 32, {"process 7 has 32 streams", "one process", "max_streams"}},
		{PEER_OPENINGS, 32, {"process 7 has 32", "hangs", "wait"}},
		{PEER_KEPT, 48, {"process 7 has 48", "mapped", "let go"}},
		{PEER_ANSWERS, 4, {"process 7 has 4 long answers", "let go of", "close"}},
	};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		struct peer_book book = book_of(256, 64);
		struct fault fault;
		assert_int_equal(
			take_all(&book, process(7), kinds[i].kind, &fault), kinds[i].share);
		assert_int_equal(peer_share(&book, kinds[i].kind), kinds[i].share);
		for (int word = 0; word < 3; word++)
			if (!strstr(fault.text, kinds[i].words[word]))
				fail_msg("no \"%s\" in: %s", kinds[i].words[word], fault.text);
		struct peer_name other = process(8);
		assert_int_equal(peer_may(&book, &other, kinds[i].kind, &fault), 0);
		give_all(&book);
		assert_true(take_all(&book, process(7), kinds[i].kind, &fault) == kinds[i].share);
		give_all(&book);
	}
}

/* However many processes take everything they can, the last eighth stays for processes that have
 * none. */
static void newcomers_find_room(void **state)
{
	(void)state;
	for (uint32_t most = 2; most <= 4096; most += most < 20 ? 1 : most / 3) {
		struct peer_book book = book_of(most, 64);
		struct fault fault;
		uint32_t taken = 0, reserve = most < 16 ? 1 : most / 8;
		pid_t pid = 1;
		while (taken < most - reserve)
			taken += take_all(&book, process(pid++), PEER_CLIENTS, &fault);
		assert_int_equal(taken, most - reserve);
		uint32_t newcomers = 0;
		while (!peer_may(&book, &(struct peer_name){.pid = pid, .uid = USER}, PEER_CLIENTS,
			&fault)) {
			struct peer_name name = process(pid++);
			assert_non_null(peer_charge(&book, &name, PEER_CLIENTS));
			assert_int_equal(peer_may(&book, &name, PEER_CLIENTS, &fault), -EBUSY);
			newcomers++;
		}
		assert_int_equal(taken + newcomers, most - most / 16);
		give_all(&book);
	}
}

/* The same for every kind: four processes that keep answers do not lock out another one. */
static void newcomers_find_room_of_every_kind(void **state)
{
	(void)state;
	for (int kind = 0; kind < PEER_KINDS; kind++) {
		struct peer_book book = book_of(256, 64);
		struct fault fault;
		for (pid_t pid = 1; pid <= 5; pid++)
			(void)take_all(&book, process(pid), (enum peer_kind)kind, &fault);
		assert_non_null(strstr(fault.text, "processes that have none"));
		struct peer_name newcomer = process(6);
		assert_int_equal(peer_may(&book, &newcomer, (enum peer_kind)kind, &fault), 0);
		give_all(&book);
	}
}

/* One process gets its share and does not lock out the next. */
static void a_small_configuration_serves_two_processes(void **state)
{
	(void)state;
	static const struct {
		enum peer_kind kind;
		const char *key, *last;
	} kinds[] = {{PEER_CLIENTS, "max_clients", "connections is for processes that have none"},
		{PEER_STREAMS, "max_streams", "streams is for processes that have none"}};
	for (uint32_t most = 1; most <= 5; most++)
		for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
			struct peer_book book = book_of(most, most);
			struct peer_name next = process(8);
			struct fault fault;
			uint32_t share = most == 1 ? 1 : most - 1;
			assert_int_equal(take_all(&book, process(7), kinds[i].kind, &fault), share);
			assert_non_null(strstr(fault.text, kinds[i].key));
			if (most > 1 && most < 5)
				assert_non_null(strstr(fault.text, kinds[i].last));
			assert_int_equal(
				take_all(&book, next, kinds[i].kind, &fault), most - share);
			give_all(&book);
		}
}

static void root_gets_in(void **state)
{
	(void)state;
	struct peer_book book = book_of(256, 64);
	struct fault fault;
	uint32_t taken = 0, got;
	pid_t pid = 1;
	do {
		got = take_all(&book, process(pid++), PEER_CLIENTS, &fault);
		taken += got;
	} while (got);
	assert_int_equal(taken, 240);
	assert_non_null(strstr(fault.text, "root"));
	struct peer_name root = {.pid = 5000, .uid = 0};
	assert_int_equal(peer_may(&book, &root, PEER_CLIENTS, &fault), 0);
	book.uid = 0; /* root's own daemon: nothing is reserved for root */
	struct peer_name more = process(pid);
	assert_int_equal(peer_may(&book, &more, PEER_CLIENTS, &fault), 0);
	give_all(&book);
}

/* If the kernel has inodes for pidfds, a reused pid counts as another process. A process that
 * cannot be identified has no limit of its own. */
static void processes_are_told_apart(void **state)
{
	(void)state;
	struct peer_book book = book_of(256, 64);
	struct fault fault;
	struct peer_name first = {.pid = 7, .uid = USER, .inode = 1};
	struct peer_name second = {.pid = 7, .uid = USER, .inode = 2};
	struct peer_name unseen = {.pid = 0, .uid = USER};
	assert_int_equal(take_all(&book, first, PEER_ANSWERS, &fault), 4);
	assert_int_equal(peer_may(&book, &second, PEER_ANSWERS, &fault), 0);
	assert_int_equal(take_all(&book, unseen, PEER_ANSWERS, &fault), 12); /* all that exist */
	assert_non_null(strstr(fault.text, "(16)"));
	give_all(&book);
}

static void a_turn_has_so_many_costly_messages(void **state)
{
	(void)state;
	struct peer peer = {0};
	for (uint64_t turn = 1; turn < 4; turn++) {
		int handled = 0;
		while (peer_has_turn(&peer, turn)) {
			assert_true(peer_has_turn(&peer, turn)); /* asking costs nothing */
			peer_spend(&peer);
			handled++;
		}
		assert_int_equal(handled, 16);
	}
}

static void who_is_at_the_other_end(void **state)
{
	(void)state;
	int ends[2], pidfd = -2;
	struct peer_name name;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(peer_look(ends[0], &name, &pidfd), 0);
	assert_int_equal(name.pid, getpid());
	assert_int_equal(name.uid, geteuid());
	if (pidfd >= 0)
		(void)close(pidfd);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_int_equal(peer_look(-1, &name, &pidfd), -EBADF);
	assert_int_equal(peer_look(STDIN_FILENO, &name, &pidfd) < 0, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process_gets_its_share_and_is_told),
		cmocka_unit_test(newcomers_find_room),
		cmocka_unit_test(newcomers_find_room_of_every_kind),
		cmocka_unit_test(a_small_configuration_serves_two_processes),
		cmocka_unit_test(root_gets_in),
		cmocka_unit_test(processes_are_told_apart),
		cmocka_unit_test(a_turn_has_so_many_costly_messages),
		cmocka_unit_test(who_is_at_the_other_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
