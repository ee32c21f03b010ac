/* convert: struct penstock_convert, around proto/convert/convert.h. */
#pragma once

#include "penstock/penstock.h"
#include "proto/convert/convert.h"

struct penstock_convert {
	struct convert convert;
};

/* Sets the sentence for `code` of convert_choose: why no kernels can be used. Returns `code`. */
int convert_refuse(int code);
