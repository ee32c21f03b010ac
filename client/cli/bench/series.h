/* series: how a run of `penstock bench` went over time, in bounded memory.
 *
 * Samples are added ten times a second. When SERIES_MAX of them are held, neighbours are joined two
 * by two, and from then on each holds twice as many as before: a run of ten seconds has its tenths
 * of seconds, one of a day its minutes. What is counted is never lost by that: images and bytes of
 * all samples together are those of the run. Plain data; one thread. */
#pragma once

#include <stdint.h>

enum { SERIES_MAX = 240 };

/* What is shorter has no rate worth telling. */
#define SERIES_LEAST_S 0.01

/* What happened since the sample before. */
struct series_sample {
	double t_s; /* its end, since the window began */
	double images; /* average of the trainers */
	double waits; /* share of the time that a trainer waited for a batch, average */
	double cpu; /* processors' worth that the daemon used; negative: not known */
	uint64_t memory; /* bytes of daemon and trainers: the highest; 0: not known */
	uint64_t bytes_read; /* that storage delivered to the daemon */
};

struct series {
	struct series_sample sample[SERIES_MAX];
	unsigned count;
	unsigned each, last; /* how many a sample stands for, and the last one so far; 0: one */
};

/* The next. Where it ends no later than the one before, or hardly later (the last look at a run
 * whose window ended meanwhile), it becomes part of that one. */
void series_add(struct series *series, const struct series_sample *sample);

/* Seconds that sample `i` covers. */
double series_span_s(const struct series *series, unsigned i);

/* Images a second in `columns` equal parts of the time there is (at most SERIES_MAX; samples that
 * lie in two parts are cut). Nothing where there is no sample. */
void series_rates(const struct series *series, unsigned columns, double *ret_rates);
