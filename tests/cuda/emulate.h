/* emulate: runs the source of client/cuda/kernels.cu on the CPU. For tests. */
#pragma once

#include "client/cuda/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a device function of this name exists. */
bool emulate_knows(const char *name);
/* How often functions have read 16 bytes at once in this host thread. */
uint64_t emulate_wide_reads(void);
/* Runs it in this thread, blocks and their threads one after the other. `arguments` is its struct,
 * whose pointers are the host's. Ends the process if the function does not exist. Thread: any. */
void emulate_launch(const char *name, const void *arguments, struct kernels_grid grid);

#ifdef __cplusplus
}
#endif
