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

/* Reports what was reported last. For work that takes time before there are samples. 0, or
 * -ECANCELED if the caller stops the build. */
static inline int index_progress_ask(const struct index_progress *progress, struct fault *fault)
{
	if (!progress->call || !progress->call(progress->context, progress->told_samples,
				       progress->told_bytes, progress->total_bytes))
		return 0;
	return fault_set(fault, -ECANCELED,
		"stopped while indexing, after %llu samples; the index of this shard was not kept",
		(unsigned long long)progress->told_samples);
}

/* Reports that `samples` and `bytes` of the current shard are done. 0, or -ECANCELED if the caller
 * stops the build. */
static inline int index_progress_step(
	struct index_progress *progress, uint64_t samples, uint64_t bytes, struct fault *fault)
{
	samples += progress->samples;
	bytes += progress->bytes;
	if (samples < progress->told_samples + INDEX_PROGRESS_SAMPLES &&
		bytes < progress->told_bytes + INDEX_PROGRESS_BYTES)
		return 0;
	progress->told_samples = samples;
	progress->told_bytes = bytes;
	return index_progress_ask(progress, fault);
}
