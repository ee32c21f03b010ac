/* kernels_avx2: for x86-64 with AVX2 (this file alone is compiled with -mavx2); empty elsewhere.
 * See kernels.h. */
#ifdef __AVX2__
#define KERNELS_TABLE kernels_avx2
#define KERNELS_NAME "avx2"
#include "pixel/kernels_body.h"
#else
typedef int kernels_avx2_empty;
#endif
