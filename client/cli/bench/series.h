/* series: a run of `penstock bench` over time, in bounded memory.
 *
 * Samples are added ten times a second. When there are SERIES_MAX of them, neighbors are joined
 * in pairs, and from then on each sample stands for twice as many as before: a run of ten
 * seconds has tenths of seconds, a run of a day has minutes. Joining loses no counts: the images
 * and bytes of all samples are those of the run. Plain data; one thread. */
#pragma once

#include <stdint.h>

enum { SERIES_MAX = 240 };

/* A sample shorter than this has no meaningful rate. */
#define SERIES_LEAST_S 0.01

/* What happened since the previous sample. */
struct series_sample {
	double t_s; /* its end, since the start of the window */
	double images; /* average of the trainers */
	double waits; /* share of the time in which a trainer waited for a batch, average */
	double cpu; /* processors that the daemon used; negative: not known */
	uint64_t memory; /* highest sum of daemon and trainers in bytes; 0: not known */
	uint64_t bytes_read; /* that storage delivered to the daemon */
};

struct series {
	struct series_sample sample[SERIES_MAX];
	unsigned count;
	unsigned each, last; /* how many additions a sample stands for, and the last one so far */
};

/* Adds the next sample. If it ends no later than the previous one, or hardly later (the last
 * look at a run whose window has just ended), it becomes part of that one. */
void series_add(struct series *series, const struct series_sample *sample);

/* Seconds that sample `i` covers. */
double series_span_s(const struct series *series, unsigned i);

/* Images a second in `columns` equal parts of the time (at most SERIES_MAX). A sample that is in
 * two parts is divided. Writes nothing if there is no sample. */
void series_rates(const struct series *series, unsigned columns, double *ret_rates);
