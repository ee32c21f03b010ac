/* progress: how a long job reports how far it is. */
#pragma once

#include <stdint.h>

/* Called now and then while an index is built, with the samples and bytes read so far, of
 * `total_bytes` (0: unknown); and while a manifest is read, with its bytes and no samples. A
 * callback that returns nonzero stops the job: dataset_open then returns -ECANCELED. */
typedef int progress_fn(void *context, uint64_t samples, uint64_t bytes, uint64_t total_bytes);
