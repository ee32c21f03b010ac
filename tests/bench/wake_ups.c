/* wake_ups: how long it takes until a thread that sleeps in recv has a message of a thread that
 * computes, with nothing else on the machine: the least that a batch's way to its trainer can take.
 * docs/design/decisions/long-turns.md has the figures.
 *
 *   wake_ups [MILLISECONDS]
 *
 * The computing thread, a worker, has a message every MILLISECONDS (10). It sends it either itself
 * (one wake-up) or by way of a thread that waits in epoll_wait, as the daemon's event loop does
 * (two wake-ups). Prints the median and the 99th percentile of both. */
#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MESSAGES = 400 };

static struct {
	int event, out, in; /* to the loop; the two ends of the trainer's socket */
	_Atomic uint64_t sent_ns;
	uint64_t took_ns[MESSAGES];
} way;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void send_message(void)
{
	uint64_t message = 1;
	if (send(way.out, &message, sizeof(message), 0) != sizeof(message))
		fail("send");
}

static void *loop(void *context)
{
	struct epoll_event event = {.events = EPOLLIN};
	int queue = epoll_create1(EPOLL_CLOEXEC);
	if (queue < 0 || epoll_ctl(queue, EPOLL_CTL_ADD, way.event, &event))
		fail("epoll");
	for (int i = 0; i < MESSAGES; i++) {
		uint64_t count;
		if (epoll_wait(queue, &event, 1, -1) != 1 ||
			read(way.event, &count, sizeof(count)) != sizeof(count))
			fail("epoll_wait");
		send_message();
	}
	(void)close(queue);
	return context;
}

static void *trainer(void *context)
{
	for (int i = 0; i < MESSAGES; i++) {
		uint64_t message;
		if (recv(way.in, &message, sizeof(message), 0) != sizeof(message))
			fail("recv");
		way.took_ns[i] = clock_ns() - atomic_load(&way.sent_ns);
	}
	return context;
}

static void compute(uint64_t ns)
{
	uint64_t begin = clock_ns();
	while (clock_ns() - begin < ns)
		continue;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void measure(bool by_loop, uint64_t pause_ns)
{
	pthread_t threads[2];
	uint64_t one = 1;
	if (pthread_create(&threads[0], NULL, trainer, NULL) ||
		(by_loop && pthread_create(&threads[1], NULL, loop, NULL)))
		fail("pthread_create");
	for (int i = 0; i < MESSAGES; i++) {
		compute(pause_ns);
		atomic_store(&way.sent_ns, clock_ns());
		if (!by_loop)
			send_message();
		else if (write(way.event, &one, sizeof(one)) != sizeof(one))
			fail("write");
	}
	(void)pthread_join(threads[0], NULL);
	if (by_loop)
		(void)pthread_join(threads[1], NULL);
	qsort(way.took_ns, MESSAGES, sizeof(way.took_ns[0]), ascending);
	const uint64_t median = way.took_ns[MESSAGES / 2], p99 = way.took_ns[MESSAGES * 99 / 100];
	(void)printf("%s: median %.1f us, 99th percentile %.1f us\n",
		by_loop ? "two wake-ups" : "one wake-up", (double)median / 1e3, (double)p99 / 1e3);
}

int main(int count, char **words)
{
	int pair[2], ms = count > 1 ? atoi(words[1]) : 10;
	if (ms <= 0) {
		(void)fprintf(stderr, "usage: wake_ups [MILLISECONDS]\n");
		return 2;
	}
	way.event = eventfd(0, EFD_CLOEXEC);
	if (way.event < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		fail("socketpair");
	way.out = pair[0];
	way.in = pair[1];
	for (int i = 0; i < 3; i++) {
		measure(false, (uint64_t)ms * 1000000);
		measure(true, (uint64_t)ms * 1000000);
	}
	return 0;
}
