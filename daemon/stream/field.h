/* field: what a sample without a field, or with one that is too long, becomes, and the sentence for
 * it. For the stream's tickets, and for commands that make rows without a daemon. Any thread. */
#pragma once

#include "base/fault.h"
#include "dataset/dataset.h"
#include "dataset/fields.h"

#include <stdbool.h>
#include <stdint.h>

/* The outcome of a field that was read with the outcome `result` (enum fetch_outcome, or a negative
 * errno): the same, or what the field's `long` says of one that is `longer` than its max. A field
 * that is missing and may be is FETCH_OK: it has no bytes. */
int field_judge(const struct field *field, int result, bool longer);

/* Writes the sentence for an outcome above FETCH_OK, or a negative errno, of a sample of the
 * dataset. Returns it. Reads the index. */
int field_fault(const struct dataset *dataset, uint64_t sample, const struct field *field,
	int result, struct fault *fault);

/* Reads field `number` of the list and judges it. `buffer` has room for its max. 0; an enum
 * fetch_outcome with a fault: the sample is broken; or a negative errno with a fault. Blocks. */
int field_read(const struct dataset *dataset, uint64_t sample, const struct field_list *list,
	uint32_t number, void *buffer, uint32_t *ret_size, struct fault *fault);
