/* view: see view.h.
 *
 * A consumer of the buffer holds the View, and the View holds the lease. The buffer protocol sees
 * the records of samples as bytes, (count, 64); np.frombuffer gives them a structured dtype.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/view.h"

#include "client/python/src/batch.h"
#include "client/python/src/dlpack.h"
#include "client/python/src/errors.h"

#include <string.h>

/* ---- shapes ---- */

static void view_lay_out(struct view *view)
{
	view->bytes = view->item_bytes;
	for (int i = view->dims - 1; i >= 0; i--) {
		view->strides[i] = view->bytes;
		view->bytes *= view->shape[i];
	}
}

static int view_of_images(struct view *view, uint32_t group)
{
	/* bfloat16 has no format in Python: its views are uint16 with the same bits. */
	static const struct {
		const char *format;
		Py_ssize_t item_bytes;
	} dtypes[] = {
		[PENSTOCK_UINT8] = {"B", 1},
		[PENSTOCK_FLOAT32] = {"f", 4},
		[PENSTOCK_FLOAT16] = {"e", 2},
		[PENSTOCK_BFLOAT16] = {"H", 2},
	};
	const struct penstock_stream_info *info = &view->lease->channel->info;
	struct batch_images images;
	if (batch_group(view->lease, group, &images) < 0)
		return -1;
	int line = info->layout == PENSTOCK_NCHW ? 2 : 1;
	view->data = images.images;
	view->format = dtypes[info->dtype].format;
	view->item_bytes = dtypes[info->dtype].item_bytes;
	view->dims = 4;
	view->shape[0] = images.rows;
	view->shape[line] = images.height;
	view->shape[line + 1] = images.width;
	view->shape[line == 1 ? 3 : 1] = info->channels;
	return 0;
}

static int view_of_labels(struct view *view, uint32_t group)
{
	(void)group;
	const struct penstock_batch *batch = &view->lease->batch;
	view->shape[0] = batch->count;
	view->data = batch->labels;
	view->format = "q";
	view->item_bytes = sizeof(int64_t);
	view->shape[1] = view->lease->channel->info.label_width;
	view->dims = view->shape[1] > 1 ? 2 : 1;
	if (!batch->label_values)
		return 0;
	view->data = batch->label_values;
	view->format = "f";
	view->item_bytes = sizeof(float);
	view->dims = 2;
	return 0;
}

static int view_of_samples(struct view *view, uint32_t group)
{
	(void)group;
	view->data = view->lease->batch.samples;
	view->format = "B";
	view->item_bytes = 1;
	view->dims = 2;
	view->shape[0] = batch_rows(view->lease);
	view->shape[1] = sizeof(struct penstock_sample);
	return 0;
}

typedef int view_of(struct view *view, uint32_t group);

static view_of *view_find(PyObject *name)
{
	if (PyUnicode_CompareWithASCIIString(name, "images") == 0)
		return view_of_images;
	if (PyUnicode_CompareWithASCIIString(name, "labels") == 0)
		return view_of_labels;
	return PyUnicode_CompareWithASCIIString(name, "samples") == 0 ? view_of_samples : NULL;
}

PyObject *view_new(struct module_state *state, struct lease *lease, PyObject *name, uint32_t group)
{
	if (!PyUnicode_Check(name))
		return PyErr_Format(PyExc_TypeError, "the name of a view must be a str");
	view_of *fill = view_find(name);
	if (!fill)
		return PyErr_Format(PyExc_ValueError,
			"there is no view %R: expected 'images', 'labels' or 'samples'", name);
	struct view *self = (struct view *)PyType_GenericAlloc(state->view, 0);
	if (!self)
		return NULL;
	self->lease = lease_ref(lease);
	if (fill(self, group) < 0) {
		Py_DECREF(self);
		return NULL;
	}
	view_lay_out(self);
	return (PyObject *)self;
}

PyObject *view_of_bytes(
	struct module_state *state, struct lease *lease, const void *data, size_t size)
{
	struct view *self = (struct view *)PyType_GenericAlloc(state->view, 0);
	if (!self)
		return NULL;
	self->lease = lease_ref(lease);
	self->data = data;
	self->format = "B";
	self->item_bytes = 1;
	self->dims = 1;
	self->shape[0] = (Py_ssize_t)size;
	view_lay_out(self);
	return (PyObject *)self;
}

int view_check(struct module_state *state, const struct view *view)
{
	if (!channel_is_forked(view->lease->channel))
		return 0;
	errors_raise_forked(state, (long)view->lease->channel->owner);
	return -1;
}

/* ---- the buffer protocol ---- */

static int view_refuse(struct module_state *state, const struct view *view, int flags)
{
	if (view_check(state, view) < 0)
		return -1;
	if (flags & PyBUF_WRITABLE) {
		PyErr_SetString(state->read_only_error,
			"a zero-copy view cannot be written to: its memory belongs to the daemon, "
			"and other trainers may read it. Copy it first, or leave zero_copy out");
		return -1;
	}
	bool columns = (flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS &&
		       (flags & PyBUF_C_CONTIGUOUS) != PyBUF_C_CONTIGUOUS;
	if (columns && view->dims > 1) {
		PyErr_SetString(PyExc_BufferError, "a view is in C order (row by row) and cannot "
						   "be exported in Fortran order");
		return -1;
	}
	return 0;
}

static int view_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	struct view *self = (struct view *)object;
	buffer->obj = NULL;
	if (view_refuse(module_state_of(object), self, flags) < 0)
		return -1;
	*buffer = (Py_buffer){
		/* The protocol has no pointer to const; `readonly` below says it. */
		.buf = (void *)(uintptr_t)self->data,
		.len = self->bytes,
		.itemsize = self->item_bytes,
		.readonly = 1,
		.ndim = self->dims,
		.format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)self->format : NULL,
		.shape = flags & PyBUF_ND ? self->shape : NULL,
		.strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL,
	};
	Py_INCREF(object);
	buffer->obj = object;
	return 0;
}

/* ---- the object ---- */

static PyObject *view_get_shape(PyObject *object, void *unused)
{
	(void)unused;
	const struct view *self = (const struct view *)object;
	PyObject *shape = PyTuple_New(self->dims);
	for (int i = 0; shape && i < self->dims; i++) {
		PyObject *side = PyLong_FromSsize_t(self->shape[i]);
		if (!side || PyTuple_SetItem(shape, i, side) < 0) {
			Py_DECREF(shape);
			return NULL;
		}
	}
	return shape;
}

static void view_dealloc(PyObject *object)
{
	struct lease *lease = ((struct view *)object)->lease;
	if (lease)
		lease_unref(lease);
	module_free_object(object);
}

static PyGetSetDef view_getters[] = {
	{"shape", view_get_shape, NULL, NULL, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef view_methods[] = {
	{"__dlpack__", (PyCFunction)(void (*)(void))dlpack_export, METH_VARARGS | METH_KEYWORDS,
		"A DLPack capsule: read-only, or of a copy."},
	{"__dlpack_device__", dlpack_device, METH_NOARGS, "The device of DLPack: the CPU."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot view_slots[] = {
	{Py_tp_doc, "The read-only memory of a batch."},
	{Py_tp_new, MODULE_SLOT(module_refuse_new)},
	{Py_tp_dealloc, MODULE_SLOT(view_dealloc)},
	{Py_tp_getset, view_getters},
	{Py_tp_methods, view_methods},
	{Py_bf_getbuffer, MODULE_SLOT(view_get_buffer)},
	{0, NULL},
};

PyType_Spec view_spec = {
	.name = "penstock._penstock.View",
	.basicsize = sizeof(struct view),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = view_slots,
};
