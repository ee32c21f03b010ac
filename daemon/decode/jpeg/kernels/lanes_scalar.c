/* lanes_scalar: four lanes in plain C, for any processor; see lanes_scalar_body.h. */
#define LANES_TABLE lanes_c
#define LANES_NAME "c"
#define LANES_UNSTUFF unstuff_c
#define LANES_CHECKSUM checksum_c
#include "decode/jpeg/kernels/lanes_scalar_body.h"
