/* large: the bytes of a sample that no read buffer holds (FETCH_E_TOO_LARGE).
 *
 * A worker copies the file to a temporary one (base/host/spill.h) and maps that, so that what the
 * sample becomes does not depend on the memory budget. The pages of the map that were read are
 * dropped again (struct decode_job, `mapped`). It maps a copy because a dataset's own file may be
 * cut short at any time, which a map answers with SIGBUS. Blocks. */
#pragma once

#include "base/fault.h"
#include "base/host/spill.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

enum { LARGE_SLACK = 64 }; /* readable bytes after the sample's, as fetch promises them */

/* 0; an enum fetch_outcome above FETCH_OK where the sample is at fault, with the error of reading
 * it in *ret_error; or a negative errno. Both with a fault. */
int large_read(const struct spill *spill, const struct dataset *dataset, uint64_t number,
	uint8_t **ret_data, uint32_t *ret_size, int *ret_error, struct fault *fault);

/* An outcome of large_read as fetch has it, for which a shard that was replaced, and a file that
 * may not be read, end the stream: which of the two reads a sample depends on the memory budget,
 * and must not decide what becomes of it. */
int large_like_fetch(const struct dataset *dataset, int outcome, int error);

/* Whether a file of another size is there, after an outcome of large_read: fetch_item.resized. */
bool large_resized(const struct dataset *dataset, uint64_t number, int outcome);
void large_free(uint8_t *data, uint32_t size);
