/* waiting: see waiting.h. */
#include "client/cuda/waiting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	WAITING_LEAST_BATCHES = 10, /* the first batches wait for the daemon to begin */
	WAITING_NOTABLE = 5, /* percent */
	WAITING_SENTENCE_BYTES = 160,
	WAITING_MORE_BYTES = 400,
};

void waiting_add(struct waiting *waiting, uint64_t begun_ns, uint64_t ended_ns, uint64_t starved_ns)
{
	uint64_t took_ns = ended_ns - begun_ns;
	if (starved_ns > took_ns)
		starved_ns = took_ns;
	waiting->first_ns = waiting->first_ns ? waiting->first_ns : begun_ns;
	waiting->last_ns = ended_ns;
	waiting->daemon_ns += starved_ns;
	waiting->device_ns += took_ns - starved_ns;
}

static double waiting_percent(const struct waiting *waiting, uint64_t ns)
{
	uint64_t whole_ns = waiting->last_ns - waiting->first_ns;
	if (ns >= whole_ns)
		return ns ? 100 : 0;
	return 100 * (double)ns / (double)whole_ns;
}

void waiting_verdict(const struct waiting *waiting, uint64_t batches, uint64_t stalled_ns,
	char *buffer, size_t room)
{
	double daemon = waiting_percent(waiting, waiting->daemon_ns),
	       device = waiting_percent(waiting, waiting->device_ns),
	       stalled = waiting_percent(waiting, stalled_ns);
	if (batches < WAITING_LEAST_BATCHES)
		(void)snprintf(buffer, room, "not measured yet");
	else if (daemon >= WAITING_NOTABLE)
		(void)snprintf(buffer, room,
			"the daemon is too slow: the trainer waits for it %.0f %% of the time",
			daemon);
	else if (stalled >= WAITING_NOTABLE)
		(void)snprintf(buffer, room,
			"copies are too slow: the device waits for them %.0f %% of the time",
			stalled);
	else if (device >= WAITING_NOTABLE)
		(void)snprintf(buffer, room,
			"bound by the device: the trainer waits for it %.0f %% of the time",
			device);
	else
		(void)snprintf(buffer, room,
			"the trainer waits neither for the daemon nor for the device");
}

char *waiting_extend(
	const struct waiting *waiting, uint64_t batches, uint64_t stalled_ns, const char *json)
{
	char verdict[WAITING_SENTENCE_BYTES];
	const char *end = strrchr(json, '}');
	size_t kept = end ? (size_t)(end - json) : strlen(json), room = kept + WAITING_MORE_BYTES;
	char *text = malloc(room);
	if (!text)
		return NULL;
	waiting_verdict(waiting, batches, stalled_ns, verdict, sizeof verdict);
	memcpy(text, json, kept);
	(void)snprintf(text + kept, room - kept,
		"%s\"device\":{\"verdict\":\"%s\",\"batches\":%" PRIu64
		",\"waited_daemon_ns\":%" PRIu64 ",\"waited_device_ns\":%" PRIu64
		",\"stalled_ns\":%" PRIu64 "}}",
		kept > 1 ? "," : "", verdict, batches, waiting->daemon_ns, waiting->device_ns,
		stalled_ns);
	return text;
}
