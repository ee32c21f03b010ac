/* emulate: runs client/cuda/kernels.cu, the very source, on the CPU. For tests. */
#pragma once

#include "client/cuda/kernels.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether there is a device function of this name. */
bool emulate_knows(const char *name);
/* Runs it in this thread, blocks and their threads one after the other. `arguments` is its struct,
 * whose pointers are the host's. Ends the process when there is no such function. Thread: any. */
void emulate_launch(const char *name, const void *arguments, struct kernels_grid grid);

#ifdef __cplusplus
}
#endif
