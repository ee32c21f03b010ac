/* options: a dict -> struct penstock_options. */
#pragma once

#include "client/python/src/module.h"
#include "penstock/penstock.h"

/* Texts that the options point to. */
enum { OPTIONS_TEXTS = 24 };

struct options {
	struct penstock_options options;
	PyObject *kept[OPTIONS_TEXTS]; /* bytes objects */
	unsigned kept_count;
	float mean[3], std[3];
};

/* Takes a dict: keys are fields of the struct, None is as if absent. Texts are what os.fsencode
 * takes. 0; -1 with an exception: TypeError an unknown key or another type, ArgumentError (named) a
 * number out of its range or a zero byte. To be deinited in both cases. */
int options_init(struct module_state *state, struct options *options, PyObject *dict);

void options_deinit(struct options *options);
