/* channels: see channels.h. Thread: any, with the GIL. */
#include "client/python/src/channels.h"

static int channels_read_one(PyObject *sequence, Py_ssize_t i, float *ret_value)
{
	PyObject *item = PySequence_GetItem(sequence, i);
	double value = item ? PyFloat_AsDouble(item) : -1;
	Py_XDECREF(item);
	if (value == -1 && PyErr_Occurred())
		return -1;
	*ret_value = (float)value;
	return 0;
}

int channels_read(PyObject *sequence, const char *name, float ret_values[3])
{
	Py_ssize_t n = PySequence_Size(sequence);
	if (n < 0)
		return -1;
	if (n != 3) {
		PyErr_Format(PyExc_ValueError,
			"%s: expected three numbers, for red, green and blue, got %zd", name, n);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		if (channels_read_one(sequence, i, &ret_values[i]) < 0)
			return -1;
	}
	return 0;
}
