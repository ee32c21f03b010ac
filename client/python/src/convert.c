/* convert: see convert.h.
 *
 * A lease of its own keeps the batch while its rows are read without the GIL; the block is an
 * argument of the caller's.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/convert.h"

#include "client/python/src/batch.h"
#include "client/python/src/errors.h"
#include "client/python/src/pool.h"

#include <string.h>

struct converter {
	PyObject ob_base;
	struct penstock_convert *convert;
};

/* ---- options ---- */

static const char *const converter_dtypes[] = {
	[PENSTOCK_UINT8] = "uint8",
	[PENSTOCK_FLOAT32] = "float32",
	[PENSTOCK_FLOAT16] = "float16",
	[PENSTOCK_BFLOAT16] = "bfloat16",
};

static int converter_read_dtype(const char *name, uint32_t *ret_dtype)
{
	for (uint32_t i = 0; i < sizeof converter_dtypes / sizeof *converter_dtypes; i++) {
		if (strcmp(name, converter_dtypes[i]) == 0) {
			*ret_dtype = i;
			return 0;
		}
	}
	PyErr_Format(PyExc_ValueError,
		"dtype is \"%s\": expected uint8, float32, float16 or bfloat16", name);
	return -1;
}

static int converter_read_channel(PyObject *sequence, Py_ssize_t i, float *ret_value)
{
	PyObject *item = PySequence_GetItem(sequence, i);
	double value = item ? PyFloat_AsDouble(item) : -1;
	Py_XDECREF(item);
	if (value == -1 && PyErr_Occurred())
		return -1;
	*ret_value = (float)value;
	return 0;
}

static int converter_read_channels(PyObject *sequence, const char *name, float *ret_values)
{
	Py_ssize_t n = PySequence_Size(sequence);
	if (n < 0)
		return -1;
	if (n != 3) {
		PyErr_Format(PyExc_ValueError,
			"%s has %zd numbers: expected 3, for red, green and blue", name, n);
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		if (converter_read_channel(sequence, i, &ret_values[i]) < 0)
			return -1;
	}
	return 0;
}

static int converter_read_options(
	PyObject *args, PyObject *kwargs, struct penstock_convert_options *options)
{
	static char *names[] = {"dtype", "channels_last", "mean", "std", NULL};
	const char *dtype;
	int channels_last;
	PyObject *mean, *std;
	penstock_convert_options_init(options);
	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "spOO", names, &dtype, &channels_last, &mean, &std))
		return -1;
	options->layout = channels_last ? PENSTOCK_NHWC : PENSTOCK_NCHW;
	if (converter_read_dtype(dtype, &options->dtype) < 0 ||
		converter_read_channels(mean, "mean", options->mean) < 0)
		return -1;
	return converter_read_channels(std, "std", options->std);
}

static PyObject *converter_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct penstock_convert_options options;
	if (converter_read_options(args, kwargs, &options) < 0)
		return NULL;
	struct converter *self = (struct converter *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	int result = penstock_convert_new(&options, &self->convert);
	if (result < 0) {
		errors_raise(module_state_of((PyObject *)self), result, penstock_error());
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

/* ---- work ---- */

static PyObject *converter_row_bytes(PyObject *object, PyObject *args)
{
	unsigned int height, width;
	if (!PyArg_ParseTuple(args, "II", &height, &width))
		return NULL;
	return PyLong_FromSize_t(
		penstock_convert_row_bytes(((struct converter *)object)->convert, height, width));
}

static PyObject *converter_images(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	const struct penstock_convert *convert = ((struct converter *)object)->convert;
	PyObject *batch, *target;
	if (!PyArg_ParseTuple(args, "OO", &batch, &target))
		return NULL;
	struct lease *lease = batch_lease(state, batch);
	if (!lease)
		return NULL;
	const struct penstock_stream_info *info = &lease->channel->info;
	uint32_t count = lease->batch.count;
	struct block *block = block_check(state, target,
		count * penstock_convert_row_bytes(convert, info->height, info->width));
	if (!block)
		return NULL;
	lease_ref(lease);
	Py_BEGIN_ALLOW_THREADS;
	penstock_convert_rows(
		convert, lease->batch.images, count, info->height, info->width, block->address);
	Py_END_ALLOW_THREADS;
	lease_unref(lease);
	Py_RETURN_NONE;
}

/* A few hundred bytes: not worth letting go of the GIL. */
PyObject *convert_fill_labels(PyObject *module, PyObject *args)
{
	struct module_state *state = PyModule_GetState(module);
	PyObject *batch, *target;
	if (!PyArg_ParseTuple(args, "OO", &batch, &target))
		return NULL;
	const struct lease *lease = batch_lease(state, batch);
	if (!lease)
		return NULL;
	size_t bytes = lease->batch.count * sizeof *lease->batch.labels;
	struct block *block = block_check(state, target, bytes);
	if (!block)
		return NULL;
	memcpy(block->address, lease->batch.labels, bytes);
	Py_RETURN_NONE;
}

static void converter_dealloc(PyObject *object)
{
	penstock_convert_free(((struct converter *)object)->convert);
	module_free_object(object);
}

static PyMethodDef converter_methods[] = {
	{"row_bytes", converter_row_bytes, METH_VARARGS, "row_bytes(height, width)"},
	{"images", converter_images, METH_VARARGS, "images(batch, block): writes the valid rows."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot converter_slots[] = {
	{Py_tp_doc, "Converter(dtype, channels_last, mean, std): makes tensors of images."},
	{Py_tp_new, MODULE_SLOT(converter_new)},
	{Py_tp_dealloc, MODULE_SLOT(converter_dealloc)},
	{Py_tp_methods, converter_methods},
	{0, NULL},
};

PyType_Spec converter_spec = {
	.name = "penstock._penstock.Converter",
	.basicsize = sizeof(struct converter),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = converter_slots,
};
