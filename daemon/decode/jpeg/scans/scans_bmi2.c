/* scans_bmi2: with BMI2's shifts, for x86-64 (only this file is compiled with them); empty
 * elsewhere. Without pdep: processors that have BMI2 but not AVX-512 include those of AMD where it
 * takes hundreds of cycles. See scans_body.h. */
#if defined(__AVX2__) && defined(__BMI2__)
#define SCANS_TABLE scans_bmi2
#define SCANS_NAME "avx2"
#include "decode/jpeg/scans/scans_body.h"
#else
typedef int scans_bmi2_empty;
#endif
