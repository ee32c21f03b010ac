/* kernels_avx512: for x86-64 with AVX-512 F, BW, VL (this file alone is compiled with them); empty
 * elsewhere. See kernels.h. */
#ifdef __AVX512BW__
#define KERNELS_TABLE kernels_avx512
#define KERNELS_NAME "avx512"
#include "pixel/kernels_body.h"
#else
typedef int kernels_avx512_empty;
#endif
