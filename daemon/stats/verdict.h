/* verdict: what holds the job up, in one sentence, from how long everybody waited.
 *
 * Pure: the same numbers give the same sentence. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct verdict_input { /* over one window of time */
	double seconds;
	double trainer_wait_s; /* some trainer had given everything back and waited for a batch */
	double slots_full_s; /* every slot was complete or held: nothing could be produced */
	double workers_idle_s; /* all workers together, waiting for samples */
	double decode_cpu_s; /* CPU time of decoding and resampling */
	unsigned threads; /* workers */
	unsigned cpus;
	uint64_t images;
	uint64_t held_most; /* batches held by the trainer that holds most, and its pid */
	uint64_t slots;
	int held_pid;
	unsigned trainers;
};

/* Writes e.g. "trainer-bound, 97 %: batches wait for the trainer" and returns `buffer` (160 bytes
 * suffice). */
const char *verdict_write(const struct verdict_input *input, char *buffer, size_t room);
