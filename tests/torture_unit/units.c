/* The scenarios of torture_units: the libraries of the stages, the recorder's and pack's. */
#include "torture_unit/torture.h"

const struct torture_scenario *const torture_lists[] = {torture_base, torture_source,
	torture_stream, torture_pixels, torture_record, torture_pack, NULL};
