/* progress: what a caller that waits for something long is told now and then. */
#pragma once

#include <stdint.h>

/* Called now and then while an index is built: bytes and samples seen so far, of `total_bytes` (0:
 * unknown); while a manifest is read, of its bytes, with no samples. Return nonzero to stop:
 * dataset_open then returns -ECANCELED. */
typedef int progress_fn(void *context, uint64_t samples, uint64_t bytes, uint64_t total_bytes);
