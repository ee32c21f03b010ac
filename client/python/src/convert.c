/* convert: see convert.h.
 *
 * Each call holds a reference to the lease, which keeps the batch while its rows are read without
 * the GIL. The caller's arguments keep the block.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/convert.h"

#include "client/python/src/batch.h"
#include "client/python/src/channels.h"
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

int convert_read_dtype(const char *name, uint32_t *ret_dtype)
{
	for (uint32_t i = 0; i < sizeof converter_dtypes / sizeof *converter_dtypes; i++) {
		if (strcmp(name, converter_dtypes[i]) == 0) {
			*ret_dtype = i;
			return 0;
		}
	}
	PyErr_Format(PyExc_ValueError,
		"dtype: expected 'uint8', 'float32', 'float16' or 'bfloat16', got '%s'", name);
	return -1;
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
	if (convert_read_dtype(dtype, &options->dtype) < 0 ||
		channels_read(mean, "mean", options->mean) < 0)
		return -1;
	return channels_read(std, "std", options->std);
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

/* Reads the arguments (batch, block): returns the lease of the batch, and the block unchecked. */
static struct lease *convert_read_target(
	struct module_state *state, PyObject *args, PyObject **ret_target)
{
	PyObject *batch;
	if (!PyArg_ParseTuple(args, "OO", &batch, ret_target))
		return NULL;
	return batch_lease(state, batch);
}

/* The same, with the number of a group of views as an optional third argument. */
static struct lease *convert_read_group(struct module_state *state, PyObject *args,
	PyObject **ret_target, struct batch_images *ret_images)
{
	PyObject *batch;
	unsigned int group = 0;
	if (!PyArg_ParseTuple(args, "OO|I", &batch, ret_target, &group))
		return NULL;
	struct lease *lease = batch_lease(state, batch);
	return lease && batch_group(lease, group, ret_images) == 0 ? lease : NULL;
}

static PyObject *converter_images(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	const struct penstock_convert *convert = ((struct converter *)object)->convert;
	PyObject *target;
	struct batch_images images;
	struct lease *lease = convert_read_group(state, args, &target, &images);
	if (!lease)
		return NULL;
	if (lease->channel->info.dtype != PENSTOCK_UINT8 ||
		lease->channel->info.layout != PENSTOCK_NHWC) {
		PyErr_SetString(PyExc_ValueError,
			"the daemon has already converted this stream's images: use fill_images()");
		return NULL;
	}
	struct block *block = block_check(state, target,
		images.rows * penstock_convert_row_bytes(convert, images.height, images.width));
	if (!block)
		return NULL;
	lease_ref(lease);
	Py_BEGIN_ALLOW_THREADS;
	penstock_convert_rows(
		convert, images.images, images.rows, images.height, images.width, block->address);
	Py_END_ALLOW_THREADS;
	lease_unref(lease);
	Py_RETURN_NONE;
}

static PyObject *converter_rows(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	const struct penstock_convert *convert = ((struct converter *)object)->convert;
	PyObject *rows, *target;
	unsigned int count, height, width;
	if (!PyArg_ParseTuple(args, "OOIII", &rows, &target, &count, &height, &width))
		return NULL;
	const struct block *from = block_check(state, rows, (size_t)count * height * width * 3);
	if (!from)
		return NULL;
	const struct block *to = block_check(
		state, target, count * penstock_convert_row_bytes(convert, height, width));
	if (!to)
		return NULL;
	/* The caller's arguments keep both blocks. */
	Py_BEGIN_ALLOW_THREADS;
	penstock_convert_rows(convert, from->address, count, height, width, to->address);
	Py_END_ALLOW_THREADS;
	Py_RETURN_NONE;
}

PyObject *convert_fill_images(PyObject *module, PyObject *args)
{
	struct module_state *state = PyModule_GetState(module);
	PyObject *target;
	struct batch_images images;
	struct lease *lease = convert_read_group(state, args, &target, &images);
	if (!lease)
		return NULL;
	/* A pixel has three channels; by enum penstock_dtype. */
	static const uint8_t pixel_bytes[] = {3, 12, 6, 6};
	size_t bytes = (size_t)images.rows * images.height * images.width *
		       pixel_bytes[lease->channel->info.dtype];
	struct block *block = block_check(state, target, bytes);
	if (!block)
		return NULL;
	lease_ref(lease);
	Py_BEGIN_ALLOW_THREADS;
	memcpy(block->address, images.images, bytes);
	Py_END_ALLOW_THREADS;
	lease_unref(lease);
	Py_RETURN_NONE;
}

/* Labels are seldom more than a few thousand bytes, so releasing the GIL would not pay. */
PyObject *convert_fill_labels(PyObject *module, PyObject *args)
{
	struct module_state *state = PyModule_GetState(module);
	PyObject *target;
	const struct lease *lease = convert_read_target(state, args, &target);
	if (!lease)
		return NULL;
	const struct penstock_batch *batch = &lease->batch;
	const void *labels = batch->label_values;
	size_t bytes = (size_t)batch->count * lease->channel->info.label_width * sizeof(float);
	if (!labels) {
		labels = batch->labels;
		bytes = (size_t)batch->count * lease->channel->info.label_width *
			sizeof *batch->labels;
	}
	struct block *block = block_check(state, target, bytes);
	if (!block)
		return NULL;
	memcpy(block->address, labels, bytes);
	Py_RETURN_NONE;
}

static void converter_dealloc(PyObject *object)
{
	penstock_convert_free(((struct converter *)object)->convert);
	module_free_object(object);
}

static PyMethodDef converter_methods[] = {
	{"row_bytes", converter_row_bytes, METH_VARARGS,
		"row_bytes(height, width): bytes of one converted image."},
	{"images", converter_images, METH_VARARGS,
		"images(batch, block): converts the valid rows into the block."},
	{"rows", converter_rows, METH_VARARGS,
		"rows(source, target, count, height, width): converts uint8 rows of a block into "
		"another block."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot converter_slots[] = {
	{Py_tp_doc, "Converter(dtype, channels_last, mean, std): converts images into tensors."},
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
