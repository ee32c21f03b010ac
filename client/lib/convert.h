/* convert: what is behind struct penstock_convert: proto/convert/convert.h. */
#pragma once

#include "penstock/penstock.h"
#include "proto/convert/convert.h"

struct penstock_convert {
	struct convert convert;
};

/* Says why there are no kernels: what convert_choose gave. Returns `code`. */
int convert_refuse(int code);
