/* open: what the application asked for, as the text of WIRE_OPEN. */
#pragma once

#include "penstock/penstock.h"
#include "proto/jsontext.h"

/* Copies the application's options into those of this library's release, defaults where its release
 * had none. 0, -EINVAL. */
int open_take_options(const struct penstock_options *options, struct penstock_options *ret_options);

/* Writes the mapping; jsontext_free is the caller's. 0, -EINVAL, -ENOMEM, -errno of getcwd. */
int open_write(const struct penstock_options *options, struct jsontext *json);
