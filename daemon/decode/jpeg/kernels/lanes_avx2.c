/* lanes_avx2: four scalar lanes with BMI2's shifts, for x86-64 with AVX2 and BMI2 (only this file
 * is compiled with them); empty elsewhere. See lanes_scalar_body.h. */
#if defined(__AVX2__) && defined(__BMI2__)
#define LANES_TABLE lanes_avx2
#define LANES_NAME "avx2"
#define LANES_UNSTUFF unstuff_avx2
#define LANES_CHECKSUM checksum_avx2
#include "decode/jpeg/kernels/lanes_scalar_body.h"
#else
typedef int lanes_avx2_empty;
#endif
