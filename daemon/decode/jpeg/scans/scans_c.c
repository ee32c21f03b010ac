/* scans_c: in plain C, for any processor; see scans_body.h. */
#define SCANS_TABLE scans_c
#define SCANS_NAME "c"
#include "decode/jpeg/scans/scans_body.h"
