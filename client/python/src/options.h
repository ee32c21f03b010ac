/* options: a dict -> struct penstock_options. */
#pragma once

#include "client/python/src/module.h"
#include "penstock/penstock.h"

/* The most texts that the options can point to. */
enum { OPTIONS_TEXTS = 26 };

struct options {
	struct penstock_options options;
	PyObject *kept[OPTIONS_TEXTS]; /* bytes objects */
	unsigned kept_count;
	float mean[3], std[3];
};

/* Reads a dict. Its keys are fields of the struct; a value of None counts as absent. Texts are
 * anything that os.fsencode accepts. 0; -1 with an exception: TypeError for an unknown key or a
 * wrong type, ArgumentError that names the key for a number out of range or a zero byte. Call
 * options_deinit in both cases. */
int options_init(struct module_state *state, struct options *options, PyObject *dict);

/* A dict of proto/keys.h: name -> (kind, option, who, value, low, high), the columns of that table.
 * NULL with an exception. */
PyObject *options_keys(void);

void options_deinit(struct options *options);
