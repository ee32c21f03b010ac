/* mixer: see mixer.h.
 *
 * The plan passes through Python as bytes. The caller plans a batch and mixes its labels while it
 * holds the batch. It mixes the images, which are in the block, after it has released the batch.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/mixer.h"

#include "client/python/src/batch.h"
#include "client/python/src/convert.h"
#include "client/python/src/errors.h"
#include "client/python/src/pool.h"

#include <string.h>

struct mixer {
	PyObject ob_base;
	struct penstock_mix *mix;
	uint32_t classes;
};

static int mixer_read_epoch(PyObject *listed, Py_ssize_t i, struct penstock_mix_epoch *epoch)
{
	PyObject *tuple = PySequence_GetItem(listed, i);
	unsigned long long number = 0;
	int result = -1;
	if (tuple && PyTuple_Check(tuple) &&
		PyArg_ParseTuple(tuple, "Kddddf", &number, &epoch->mixup, &epoch->cutmix,
			&epoch->mix, &epoch->mix_switch, &epoch->smoothing))
		result = 0;
	else if (tuple && !PyErr_Occurred())
		PyErr_SetString(PyExc_TypeError, "epochs: expected tuples");
	Py_XDECREF(tuple);
	epoch->epoch = number;
	epoch->reserved = 0;
	return result;
}

int mixer_read_epochs(
	PyObject *listed, const struct penstock_mix_epoch **ret_epochs, size_t *ret_count)
{
	*ret_epochs = NULL;
	*ret_count = 0;
	Py_ssize_t count = listed ? PySequence_Size(listed) : 0;
	if (count <= 0)
		return count < 0 ? -1 : 0;
	struct penstock_mix_epoch *epochs = PyMem_Malloc((size_t)count * sizeof *epochs);
	if (!epochs) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < count; i++) {
		if (mixer_read_epoch(listed, i, &epochs[i]) < 0) {
			PyMem_Free(epochs);
			return -1;
		}
	}
	*ret_epochs = epochs;
	*ret_count = (size_t)count;
	return 0;
}

static int mixer_read_options(
	PyObject *args, PyObject *kwargs, struct penstock_mix_options *options)
{
	static char *names[] = {"mixup", "cutmix", "mix", "mix_switch", "erase", "erase_scale",
		"erase_ratio", "erase_value", "erase_random", "classes", "smoothing", "epochs",
		NULL};
	int random = 0;
	PyObject *epochs = NULL;
	penstock_mix_options_init(options);
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$ddddd(dd)(dd)(fff)pIfO", names,
		    &options->mixup, &options->cutmix, &options->mix, &options->mix_switch,
		    &options->erase, &options->erase_scale[0], &options->erase_scale[1],
		    &options->erase_ratio[0], &options->erase_ratio[1], &options->erase_value[0],
		    &options->erase_value[1], &options->erase_value[2], &random, &options->classes,
		    &options->smoothing, &epochs))
		return -1;
	options->erase_random = random;
	return mixer_read_epochs(epochs, &options->epochs, &options->epoch_count);
}

static PyObject *mixer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct penstock_mix_options options;
	if (mixer_read_options(args, kwargs, &options) < 0)
		return NULL;
	struct mixer *self = (struct mixer *)PyType_GenericAlloc(type, 0);
	if (!self) {
		PyMem_Free((void *)(uintptr_t)options.epochs);
		return NULL;
	}
	self->classes = options.classes;
	int result = penstock_mix_new(&options, &self->mix);
	PyMem_Free((void *)(uintptr_t)options.epochs);
	if (result < 0) {
		errors_raise(module_state_of((PyObject *)self), result, penstock_error());
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static PyObject *mixer_plan(PyObject *object, PyObject *batch)
{
	const struct lease *lease = batch_lease(module_state_of(object), batch);
	if (!lease)
		return NULL;
	size_t bytes = batch_rows(lease) * sizeof(struct penstock_mix_row);
	PyObject *rows = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
	/* Writing to a bytes object is allowed here: no other code has seen it yet. */
	char *to = rows ? PyBytes_AsString(rows) : NULL;
	if (to)
		penstock_mix_plan(((struct mixer *)object)->mix, &lease->channel->info,
			&lease->batch, (struct penstock_mix_row *)(void *)to);
	return rows;
}

/* The rows in `bytes`, which mixer_plan made. NULL with an exception. */
static const struct penstock_mix_row *mixer_rows(PyObject *bytes, uint32_t *ret_count)
{
	char *rows;
	Py_ssize_t size;
	if (PyBytes_AsStringAndSize(bytes, &rows, &size) < 0)
		return NULL;
	if ((size_t)size % sizeof(struct penstock_mix_row)) {
		PyErr_SetString(PyExc_ValueError, "expected the bytes that Mixer.plan() returned");
		return NULL;
	}
	*ret_count = (uint32_t)((size_t)size / sizeof(struct penstock_mix_row));
	return (const struct penstock_mix_row *)(const void *)rows;
}

static int mixer_read_images(PyObject *args, PyObject **ret_rows, PyObject **ret_block,
	struct penstock_mix_images *images)
{
	const char *dtype;
	int channels_last;
	if (!PyArg_ParseTuple(args, "OOspII", ret_rows, ret_block, &dtype, &channels_last,
		    &images->height, &images->width))
		return -1;
	images->layout = channels_last ? PENSTOCK_NHWC : PENSTOCK_NCHW;
	return convert_read_dtype(dtype, &images->dtype);
}

static PyObject *mixer_images(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	struct penstock_mix_images images = {0};
	PyObject *bytes, *target;
	uint32_t count;
	if (mixer_read_images(args, &bytes, &target, &images) < 0)
		return NULL;
	const struct penstock_mix_row *rows = mixer_rows(bytes, &count);
	size_t value = images.dtype == PENSTOCK_FLOAT32 ? 4 : 2;
	struct block *block =
		rows ? block_check(state, target,
			       (size_t)count * images.height * images.width * 3 * value)
		     : NULL;
	if (!block)
		return NULL;
	images.memory = block->address;
	int result;
	Py_BEGIN_ALLOW_THREADS;
	result = penstock_mix_apply(((struct mixer *)object)->mix, rows, count, &images);
	Py_END_ALLOW_THREADS;
	if (result < 0)
		return errors_raise(state, result, penstock_error());
	Py_RETURN_NONE;
}

struct mixer_labels {
	const struct penstock_mix *mix;
	const struct penstock_mix_row *rows;
	uint32_t count, width;
	struct lease *lease;
	float *out;
};

static int mixer_write_labels(const struct mixer_labels *labels)
{
	const struct penstock_batch *batch = &labels->lease->batch;
	uint32_t views = labels->lease->channel->info.views;
	if (batch->label_values)
		return penstock_mix_values(labels->mix, labels->rows, labels->count, views,
			batch->label_values, labels->width, labels->out);
	return penstock_mix_targets(
		labels->mix, labels->rows, labels->count, views, batch->labels, labels->out);
}

static PyObject *mixer_labels(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	struct mixer_labels labels = {.mix = ((struct mixer *)object)->mix};
	PyObject *bytes, *batch, *target;
	if (!PyArg_ParseTuple(args, "OOO", &bytes, &batch, &target))
		return NULL;
	labels.lease = batch_lease(state, batch);
	labels.rows = labels.lease ? mixer_rows(bytes, &labels.count) : NULL;
	if (!labels.rows)
		return NULL;
	labels.width = labels.lease->batch.label_values ? labels.lease->channel->info.label_width
							: ((struct mixer *)object)->classes;
	struct block *block = block_check(
		state, target, (size_t)labels.lease->batch.count * labels.width * sizeof(float));
	if (!block)
		return NULL;
	if (labels.count != batch_rows(labels.lease)) {
		PyErr_SetString(PyExc_ValueError, "the rows were planned for another batch");
		return NULL;
	}
	labels.out = block->address;
	lease_ref(labels.lease);
	int result;
	Py_BEGIN_ALLOW_THREADS;
	result = mixer_write_labels(&labels);
	Py_END_ALLOW_THREADS;
	lease_unref(labels.lease);
	if (result < 0)
		return errors_raise(state, result, penstock_error());
	Py_RETURN_NONE;
}

static void mixer_dealloc(PyObject *object)
{
	penstock_mix_free(((struct mixer *)object)->mix);
	module_free_object(object);
}

static PyMethodDef mixer_methods[] = {
	{"plan", mixer_plan, METH_O, "plan(batch): draws what is done to its rows, as bytes."},
	{"images", mixer_images, METH_VARARGS,
		"images(rows, block, dtype, channels_last, height, width): erases and mixes in "
		"place."},
	{"labels", mixer_labels, METH_VARARGS, "labels(rows, batch, block): writes soft labels."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot mixer_slots[] = {
	{Py_tp_doc, "Mixer(...): MixUp, CutMix, erasing and soft labels."},
	{Py_tp_new, MODULE_SLOT(mixer_new)},
	{Py_tp_dealloc, MODULE_SLOT(mixer_dealloc)},
	{Py_tp_methods, mixer_methods},
	{0, NULL},
};

PyType_Spec mixer_spec = {
	.name = "penstock._penstock.Mixer",
	.basicsize = sizeof(struct mixer),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = mixer_slots,
};
