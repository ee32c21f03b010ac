/* errors: see errors.h.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/errors.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

PyObject *errors_raise(struct module_state *state, int code, const char *sentence)
{
	/* The sentence may contain names of files that are not UTF-8, and must still be
	 * printable. */
	PyObject *text =
		PyUnicode_DecodeUTF8(sentence, (Py_ssize_t)strlen(sentence), "backslashreplace");
	if (!text)
		return NULL;
	PyObject *error = PyObject_CallFunction(state->from_code, "iO", code, text);
	Py_DECREF(text);
	if (!error)
		return NULL;
	PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_DECREF(error);
	return NULL;
}

PyObject *errors_raise_format(struct module_state *state, int code, const char *format, ...)
{
	char sentence[1024];
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	return errors_raise(state, code, sentence);
}

PyObject *errors_raise_closed(struct module_state *state)
{
	PyErr_SetString(state->closed_error, "this stream was closed: open a new one");
	return NULL;
}

PyObject *errors_raise_forked(struct module_state *state, long owner)
{
	return errors_raise_format(state, -EBADF,
		"this stream belongs to the parent process (pid %ld): open one after fork(), "
		"in the process that reads it",
		owner);
}
