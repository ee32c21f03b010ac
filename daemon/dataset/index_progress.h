/* index_progress: reports progress while indexes are built, so that the caller can show it or stop
 * the build. Used by the thread that builds. */
#pragma once

#include "base/fault.h"
#include "base/progress.h"

#include <errno.h>
#include <stdint.h>

struct index_progress {
	progress_fn *call; /* NULL: no reports */
	void *context;
	uint64_t samples, bytes; /* of the shards that are finished */
	uint64_t total_bytes;
	uint64_t told_samples, told_bytes;
};

enum { INDEX_PROGRESS_SAMPLES = 10000, INDEX_PROGRESS_BYTES = 64 << 20 };

/* Reports that `samples` and `bytes` of the current shard are done, however few those are. 0, or
 * -ECANCELED if the caller stops the build. */
static inline int index_progress_report(
	struct index_progress *progress, uint64_t samples, uint64_t bytes, struct fault *fault)
{
	progress->told_samples = samples += progress->samples;
	progress->told_bytes = bytes += progress->bytes;
	if (!progress->call ||
		!progress->call(progress->context, samples, bytes, progress->total_bytes))
		return 0;
	return fault_set(fault, -ECANCELED,
		"stopped while indexing, after %llu samples; the index of this shard was not kept",
		(unsigned long long)samples);
}

/* The same, where enough was done since the last report. */
static inline int index_progress_step(
	struct index_progress *progress, uint64_t samples, uint64_t bytes, struct fault *fault)
{
	if (progress->samples + samples < progress->told_samples + INDEX_PROGRESS_SAMPLES &&
		progress->bytes + bytes < progress->told_bytes + INDEX_PROGRESS_BYTES)
		return 0;
	return index_progress_report(progress, samples, bytes, fault);
}
