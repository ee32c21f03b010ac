/* dlpack: see dlpack.h.
 *
 * The structs and numbers are those of DLPack 1.0 (dmlc/dlpack, include/dlpack/dlpack.h). Only the
 * versioned struct can mark memory as read-only, so a view is exported only with it. A copy is
 * writable and is exported in either form.
 *
 * A consumer calls the deleter from any thread, with or without the GIL, so the deleters do not use
 * Python. A capsule that was not consumed keeps its first name; its destructor calls the deleter.
 *
 * Thread: any, with the GIL; the deleters without it. */
#include "client/python/src/dlpack.h"

#include "client/python/src/errors.h"
#include "client/python/src/view.h"

#include <stdlib.h>
#include <string.h>

enum { DLPACK_CPU = 1 };
/* DLDataTypeCode. */
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4 };
enum { DLPACK_READ_ONLY = 1, DLPACK_COPIED = 2 };
enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0 };

struct dlpack_tensor {
	void *data;
	struct {
		int32_t type, id;
	} device;
	int32_t dims;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} dtype;
	int64_t *shape, *strides; /* in elements */
	uint64_t byte_offset;
};

struct dlpack_managed {
	struct dlpack_tensor tensor;
	void *context;
	void (*deleter)(struct dlpack_managed *);
};

struct dlpack_versioned {
	struct {
		uint32_t major, minor;
	} version;
	void *context;
	void (*deleter)(struct dlpack_versioned *);
	uint64_t flags;
	struct dlpack_tensor tensor;
};

static_assert(sizeof(struct dlpack_tensor) == 48, "layout of DLPack's dlpack.h");
static_assert(sizeof(struct dlpack_managed) == 64, "layout of DLPack's dlpack.h");
static_assert(offsetof(struct dlpack_versioned, tensor) == 32, "layout of DLPack's dlpack.h");

/* What a capsule points into. */
struct dlpack {
	union {
		struct dlpack_managed managed;
		struct dlpack_versioned versioned;
	} as;
	struct lease *lease; /* NULL: a copy */
	void *copy;
	int64_t shape[VIEW_DIMS], strides[VIEW_DIMS];
};

/* ---- ends ---- */

static void dlpack_free(struct dlpack *self)
{
	if (self->lease)
		lease_unref(self->lease);
	free(self->copy);
	free(self);
}

static void dlpack_delete_managed(struct dlpack_managed *managed)
{
	dlpack_free(managed->context);
}

static void dlpack_delete_versioned(struct dlpack_versioned *versioned)
{
	dlpack_free(versioned->context);
}

static const char dlpack_managed_name[] = "dltensor";
static const char dlpack_versioned_name[] = "dltensor_versioned";

static void dlpack_drop_capsule(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, dlpack_versioned_name)) {
		struct dlpack_versioned *versioned =
			PyCapsule_GetPointer(capsule, dlpack_versioned_name);
		versioned->deleter(versioned);
	} else if (PyCapsule_IsValid(capsule, dlpack_managed_name)) {
		struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, dlpack_managed_name);
		managed->deleter(managed);
	}
}

/* ---- arguments ---- */

struct dlpack_request {
	bool versioned, copy;
};

static bool dlpack_is_cpu(PyObject *device)
{
	int type, id;
	if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &id))
		return false;
	return type == DLPACK_CPU && id == 0;
}

static int dlpack_read_version(PyObject *version, struct dlpack_request *request)
{
	int major, minor;
	if (version == Py_None)
		return 0;
	if (!PyTuple_Check(version)) {
		PyErr_SetString(
			PyExc_TypeError, "max_version: expected a tuple (major, minor), or None");
		return -1;
	}
	if (!PyArg_ParseTuple(version, "ii", &major, &minor))
		return -1;
	request->versioned = major >= DLPACK_MAJOR;
	return 0;
}

static int dlpack_read_request(PyObject *args, PyObject *kwargs, struct dlpack_request *request)
{
	static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
	PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
	if (!PyArg_ParseTupleAndKeywords(
		    args, kwargs, "|$OOOO", names, &stream, &version, &device, &copy))
		return -1;
	if (device != Py_None && !dlpack_is_cpu(device)) {
		PyErr_SetString(PyExc_BufferError,
			"a view is in the CPU's memory, dl_device=(1, 0): copy it to the other "
			"device from there");
		return -1;
	}
	if (stream != Py_None) {
		PyErr_SetString(
			PyExc_BufferError, "stream: expected None, because the CPU has no streams");
		return -1;
	}
	*request = (struct dlpack_request){.copy = copy == Py_True};
	return dlpack_read_version(version, request);
}

/* ---- making one ---- */

/* The code of a view's format. bfloat16 has no format of its own: its views have 'H'. */
static uint8_t dlpack_code(char format)
{
	if (format == 'q')
		return DLPACK_INT;
	if (format == 'B')
		return DLPACK_UINT;
	return format == 'H' ? DLPACK_BFLOAT : DLPACK_FLOAT;
}

static void dlpack_fill_tensor(
	struct dlpack_tensor *tensor, struct dlpack *self, const struct view *view)
{
	tensor->data = self->copy ? self->copy : (void *)(uintptr_t)view->data;
	tensor->device.type = DLPACK_CPU;
	tensor->dims = view->dims;
	tensor->dtype.code = dlpack_code(*view->format);
	tensor->dtype.bits = (uint8_t)(view->item_bytes * 8);
	tensor->dtype.lanes = 1;
	tensor->shape = self->shape;
	tensor->strides = self->strides;
	for (int i = 0; i < view->dims; i++) {
		self->shape[i] = view->shape[i];
		self->strides[i] = view->strides[i] / view->item_bytes;
	}
}

static int dlpack_hold(struct dlpack *self, const struct view *view, bool copy)
{
	if (!copy) {
		self->lease = lease_ref(view->lease);
		return 0;
	}
	self->copy = malloc((size_t)view->bytes);
	if (!self->copy)
		return -1;
	/* The caller holds the view, which keeps the batch. */
	Py_BEGIN_ALLOW_THREADS;
	memcpy(self->copy, view->data, (size_t)view->bytes);
	Py_END_ALLOW_THREADS;
	return 0;
}

static PyObject *dlpack_capsule(
	struct dlpack *self, const struct view *view, const struct dlpack_request *request)
{
	if (!request->versioned) {
		struct dlpack_managed *managed = &self->as.managed;
		managed->context = self;
		managed->deleter = dlpack_delete_managed;
		dlpack_fill_tensor(&managed->tensor, self, view);
		return PyCapsule_New(managed, dlpack_managed_name, dlpack_drop_capsule);
	}
	struct dlpack_versioned *versioned = &self->as.versioned;
	versioned->version.major = DLPACK_MAJOR;
	versioned->version.minor = DLPACK_MINOR;
	versioned->context = self;
	versioned->deleter = dlpack_delete_versioned;
	versioned->flags = request->copy ? DLPACK_COPIED : DLPACK_READ_ONLY;
	dlpack_fill_tensor(&versioned->tensor, self, view);
	return PyCapsule_New(versioned, dlpack_versioned_name, dlpack_drop_capsule);
}

PyObject *dlpack_export(PyObject *object, PyObject *args, PyObject *kwargs)
{
	const struct view *view = (const struct view *)object;
	struct dlpack_request request;
	if (view_check(module_state_of(object), view) < 0 ||
		dlpack_read_request(args, kwargs, &request) < 0)
		return NULL;
	if (!request.versioned && !request.copy) {
		PyErr_SetString(PyExc_BufferError,
			"a view is read-only, which DLPack can express only from version 1.0 on: "
			"pass max_version=(1, 0), or copy=True");
		return NULL;
	}
	struct dlpack *self = calloc(1, sizeof *self);
	if (!self)
		return PyErr_NoMemory();
	if (dlpack_hold(self, view, request.copy) < 0) {
		free(self);
		return PyErr_NoMemory();
	}
	PyObject *capsule = dlpack_capsule(self, view, &request);
	if (!capsule)
		dlpack_free(self);
	return capsule;
}

PyObject *dlpack_device(PyObject *view, PyObject *unused)
{
	(void)view;
	(void)unused;
	return Py_BuildValue("(ii)", DLPACK_CPU, 0);
}
