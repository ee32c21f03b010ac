/* options: see options.h.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/options.h"

#include "client/python/src/channels.h"
#include "client/python/src/errors.h"
#include "proto/keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum option_kind {
	OPTION_TEXT,
	OPTION_I32,
	OPTION_U32,
	OPTION_U64,
	OPTION_DOUBLE,
	OPTION_CHANNELS
};

struct option {
	const char *name;
	enum option_kind kind;
	size_t offset;
};

#define OPTION(kind, name)                                                    \
	{                                                                     \
#name, OPTION_##kind, offsetof(struct penstock_options, name) \
	}

/* The keys of a stream, and what else the struct has but for `size` and the callback, which are the
 * module's own. */
#define OPTION_OF_NONE(name)
#define OPTION_OF_TEXT(name) OPTION(TEXT, name),
#define OPTION_OF_PATH(name) OPTION(TEXT, name),
#define OPTION_OF_JSON(name) OPTION(TEXT, name),
#define OPTION_OF_U32(name) OPTION(U32, name),
#define OPTION_OF_SIZE(name) OPTION(U32, name),
#define OPTION_OF_VIEWS(name) OPTION(U32, name),
#define OPTION_OF_I32(name) OPTION(I32, name),
#define OPTION_OF_U64(name) OPTION(U64, name),
#define OPTION_OF_REAL(name) OPTION(DOUBLE, name),
#define OPTION_OF_FLAG(name) OPTION(I32, name),
#define OPTION_OF_SWITCH(name) OPTION(I32, name),
#define OPTION_OF_SHUFFLE(name) OPTION(I32, name),
#define OPTION_OF_CHANNELS(name) OPTION(CHANNELS, name),
#define OPTION_OF(with, name, kind, field, place, low, high, plain, extra, option, ...) \
	OPTION_OF_##option(name)

static const struct option option_table[] = {
	PENSTOCK_KEYS(OPTION_OF, ) OPTION(TEXT, source),
	OPTION(TEXT, sources),
	OPTION(TEXT, image_sizes),
	OPTION(TEXT, view_groups),
	OPTION(U32, rank),
	OPTION(U32, world_size),
	OPTION(TEXT, state),
	OPTION(TEXT, socket),
	OPTION(I32, timeout_ms),
	OPTION(I32, private_daemon),
	OPTION(TEXT, daemon_memory),
	OPTION(U32, daemon_threads),
	OPTION(I32, reconnect_ms),
	OPTION(U32, restarts),
};

static const struct option *option_find(PyObject *key)
{
	for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++) {
		if (PyUnicode_CompareWithASCIIString(key, option_table[i].name) == 0)
			return &option_table[i];
	}
	return NULL;
}

static int option_take_text(struct module_state *state, struct options *options,
	const struct option *o, PyObject *value)
{
	PyObject *bytes = NULL;
	char *text;
	/* A dict has each key once, unless the keys' type compares unequal to itself. */
	if (options->kept_count == OPTIONS_TEXTS) {
		PyErr_Format(PyExc_TypeError, "%s is given more than once", o->name);
		return -1;
	}
	if (!PyUnicode_FSConverter(value, &bytes)) {
		if (PyErr_ExceptionMatches(PyExc_ValueError) &&
			!PyErr_ExceptionMatches(PyExc_UnicodeError)) {
			PyErr_Clear();
			errors_raise_format(state, -EINVAL,
				"%s contains a zero byte, which no path or name can have", o->name);
		}
		return -1;
	}
	options->kept[options->kept_count++] = bytes;
	text = PyBytes_AsString(bytes);
	memcpy((char *)&options->options + o->offset, &text, sizeof text);
	return text ? 0 : -1;
}

static int option_refuse(
	struct module_state *state, const struct option *o, PyObject *value, const char *expected)
{
	PyObject *shown = PyObject_Str(value);
	const char *text = shown ? PyUnicode_AsUTF8AndSize(shown, NULL) : NULL;
	if (text)
		errors_raise_format(
			state, -EINVAL, "%s: expected %s, got %s", o->name, expected, text);
	Py_XDECREF(shown);
	return -1;
}

static int option_take_signed(struct module_state *state, struct options *options,
	const struct option *o, PyObject *value)
{
	int overflow = 0;
	long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	if (number == -1 && PyErr_Occurred())
		return -1;
	if (overflow || number < INT32_MIN || number > INT32_MAX)
		return option_refuse(state, o, value, "a whole number, -2147483648 to 2147483647");
	int32_t small = (int32_t)number;
	memcpy((char *)&options->options + o->offset, &small, sizeof small);
	return 0;
}

static int option_take_unsigned(struct module_state *state, struct options *options,
	const struct option *o, PyObject *value)
{
	unsigned long long most = o->kind == OPTION_U32 ? UINT32_MAX : UINT64_MAX;
	unsigned long long number = PyLong_AsUnsignedLongLong(value);
	bool failed = number == (unsigned long long)-1 && PyErr_Occurred();
	if (failed && !PyErr_ExceptionMatches(PyExc_OverflowError))
		return -1;
	PyErr_Clear();
	if (failed || number > most)
		return option_refuse(state, o, value,
			o->kind == OPTION_U32 ? "a whole number, 0 to 4294967295"
					      : "a whole number, 0 to 18446744073709551615");
	uint32_t small = (uint32_t)number;
	uint64_t large = number;
	if (o->kind == OPTION_U32)
		memcpy((char *)&options->options + o->offset, &small, sizeof small);
	else
		memcpy((char *)&options->options + o->offset, &large, sizeof large);
	return 0;
}

static int option_take_double(struct options *options, const struct option *o, PyObject *value)
{
	double number = PyFloat_AsDouble(value);
	if (number == -1.0 && PyErr_Occurred())
		return -1;
	memcpy((char *)&options->options + o->offset, &number, sizeof number);
	return 0;
}

static int option_take_channels(struct options *options, const struct option *o, PyObject *value)
{
	float *kept =
		o->offset == offsetof(struct penstock_options, mean) ? options->mean : options->std;
	const float *channels = kept;
	if (channels_read(value, o->name, kept) < 0)
		return -1;
	memcpy((char *)&options->options + o->offset, &channels, sizeof channels);
	return 0;
}

static int option_take_integer(struct module_state *state, struct options *options,
	const struct option *o, PyObject *value)
{
	PyObject *index = PyNumber_Index(value);
	if (!index)
		return -1;
	int result = o->kind == OPTION_I32 ? option_take_signed(state, options, o, index)
					   : option_take_unsigned(state, options, o, index);
	Py_DECREF(index);
	return result;
}

static int option_take(
	struct module_state *state, struct options *options, PyObject *key, PyObject *value)
{
	if (!PyUnicode_Check(key)) {
		PyErr_SetString(PyExc_TypeError, "the name of an option must be a str");
		return -1;
	}
	const struct option *o = option_find(key);
	if (!o) {
		PyErr_Format(PyExc_TypeError, "there is no option %R", key);
		return -1;
	}
	if (value == Py_None)
		return 0;
	switch (o->kind) {
	case OPTION_TEXT:
		return option_take_text(state, options, o, value);
	case OPTION_DOUBLE:
		return option_take_double(options, o, value);
	case OPTION_CHANNELS:
		return option_take_channels(options, o, value);
	case OPTION_I32:
	case OPTION_U32:
	case OPTION_U64:
		break;
	}
	return option_take_integer(state, options, o, value);
}

#define OPTION_KEY(with, name, kind, field, place, low, high, plain, extra, option, who, alike, \
	cli, opt, letter, value, ...)                                                           \
	{#name, #kind, #option, #who, "" value, (unsigned long long)(low),                      \
		(unsigned long long)(high)},

PyObject *options_keys(void)
{
	static const struct {
		const char *name, *kind, *option, *who, *value;
		unsigned long long low, high;
	} keys[] = {PENSTOCK_KEYS(OPTION_KEY, )};
	PyObject *dict = PyDict_New();
	for (size_t i = 0; dict && i < sizeof keys / sizeof *keys; i++) {
		/* The least value of a signed key is negative. */
		const bool negative = strcmp(keys[i].option, "I32") == 0;
		PyObject *row = Py_BuildValue(negative ? "(ssssLK)" : "(ssssKK)", keys[i].kind,
			keys[i].option, keys[i].who, keys[i].value, keys[i].low, keys[i].high);
		if (!row || PyDict_SetItemString(dict, keys[i].name, row) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(row);
	}
	return dict;
}

int options_init(struct module_state *state, struct options *options, PyObject *dict)
{
	Py_ssize_t at = 0;
	PyObject *key, *value;
	int result = 0;
	memset(options, 0, sizeof *options);
	penstock_options_init(&options->options);
	/* Reading a value may run Python code that changes the dict, so a copy is read. */
	PyObject *copy = PyDict_Copy(dict);
	if (!copy)
		return -1;
	while (result == 0 && PyDict_Next(copy, &at, &key, &value))
		result = option_take(state, options, key, value);
	Py_DECREF(copy);
	return result;
}

void options_deinit(struct options *options)
{
	while (options->kept_count > 0)
		Py_DECREF(options->kept[--options->kept_count]);
}
