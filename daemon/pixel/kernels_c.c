/* kernels_c: for the processor that the whole build is for; see kernels.h. */
#define KERNELS_TABLE kernels_c
#define KERNELS_NAME "c"
#include "pixel/kernels_body.h"
