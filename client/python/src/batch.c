/* batch: see batch.h.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/batch.h"

#include "client/python/src/call.h"
#include "client/python/src/errors.h"
#include "client/python/src/view.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include <structmember.h>

PyObject *batch_new(struct module_state *state, struct lease *lease)
{
	struct batch *self = (struct batch *)PyType_GenericAlloc(state->batch, 0);
	if (!self)
		return NULL;
	self->lease = lease;
	self->count = lease->batch.count;
	self->height = lease->batch.height;
	self->width = lease->batch.width;
	self->last = (lease->batch.flags & PENSTOCK_LAST) != 0;
	self->epoch = lease->batch.epoch;
	self->batch = lease->batch.batch;
	return (PyObject *)self;
}

struct lease *batch_lease(struct module_state *state, PyObject *object)
{
	if (!PyObject_TypeCheck(object, state->batch)) {
		PyErr_SetString(PyExc_TypeError, "expected a Batch that Stream.next() returned");
		return NULL;
	}
	struct lease *lease = ((struct batch *)object)->lease;
	if (!lease)
		PyErr_SetString(state->closed_error,
			"this batch was released: get the next one from the stream");
	else if (channel_is_forked(lease->channel))
		errors_raise_forked(state, (long)lease->channel->owner);
	else
		return lease;
	return NULL;
}

uint32_t batch_rows(const struct lease *lease)
{
	return lease->batch.count * lease->channel->info.views;
}

int batch_group(const struct lease *lease, uint32_t group, struct batch_images *ret)
{
	const struct channel *channel = lease->channel;
	const struct penstock_batch *batch = &lease->batch;
	if (group >= (channel->groups ? channel->groups : 1)) {
		PyErr_Format(PyExc_IndexError, "the stream has %u groups of views, no group %u",
			channel->groups, group);
		return -1;
	}
	*ret = (struct batch_images){
		lease->images[group], batch_rows(lease), batch->height, batch->width};
	if (channel->groups) {
		ret->rows = batch->count * channel->group[group].views;
		ret->height = channel->group[group].height;
		ret->width = channel->group[group].width;
	}
	return 0;
}

static PyObject *batch_view(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	PyObject *name;
	unsigned int group = 0;
	if (!PyArg_ParseTuple(args, "O|I", &name, &group))
		return NULL;
	struct lease *lease = batch_lease(state, object);
	return lease ? view_new(state, lease, name, group) : NULL;
}

/* The bytes of one field of a batch's samples. */
struct batch_field {
	struct lease *lease;
	uint32_t field;
	struct batch_field_bytes {
		const void *bytes;
		size_t size;
	} * sample; /* count of them */
};

static int batch_ask_field(struct channel *channel, void *data)
{
	struct batch_field *ask = data;
	int result = 0;
	for (uint32_t i = 0; result == 0 && i < ask->lease->batch.count; i++)
		result = penstock_batch_field(channel->stream, &ask->lease->batch, ask->field, i,
			&ask->sample[i].bytes, &ask->sample[i].size);
	return result;
}

static PyObject *batch_field_item(struct module_state *state, struct lease *lease,
	const struct batch_field_bytes *at, bool copy)
{
	if (copy)
		return PyBytes_FromStringAndSize(at->bytes, (Py_ssize_t)at->size);
	PyObject *view = view_of_bytes(state, lease, at->bytes, at->size);
	PyObject *memory = view ? PyMemoryView_FromObject(view) : NULL;
	Py_XDECREF(view);
	return memory;
}

static PyObject *batch_field_list(
	struct module_state *state, const struct batch_field *ask, bool copy)
{
	PyObject *list = PyList_New(0);
	for (uint32_t i = 0; list && i < ask->lease->batch.count; i++) {
		PyObject *item = batch_field_item(state, ask->lease, &ask->sample[i], copy);
		if (!item || PyList_Append(list, item) < 0)
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	return list;
}

static PyObject *batch_field(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	unsigned int field;
	int copy;
	if (!PyArg_ParseTuple(args, "Ip", &field, &copy))
		return NULL;
	struct lease *lease = batch_lease(state, object);
	if (!lease)
		return NULL;
	struct batch_field ask = {.lease = lease_ref(lease), .field = field};
	struct call call = {.channel = lease->channel};
	PyObject *list = NULL;
	ask.sample = calloc(lease->batch.count ? lease->batch.count : 1, sizeof *ask.sample);
	if (!ask.sample)
		PyErr_NoMemory();
	else if (call_run(state, &call, batch_ask_field, &ask) == 0)
		list = call.result < 0 ? errors_raise(state, call.result, call.sentence)
				       : batch_field_list(state, &ask, copy != 0);
	free(ask.sample);
	lease_unref(ask.lease);
	return list;
}

/* `data` is the lease. The caller has taken it out of the object and holds the only reference,
 * so no other thread can make a view of it. */
static int batch_give_back(struct channel *channel, void *data)
{
	(void)channel;
	return lease_release(data);
}

static PyObject *batch_release(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct module_state *state = module_state_of(object);
	struct batch *self = (struct batch *)object;
	if (!self->lease)
		Py_RETURN_NONE;
	struct lease *lease = batch_lease(state, object);
	if (!lease)
		return NULL;
	unsigned refs = atomic_load_explicit(&lease->refs, memory_order_acquire);
	if (refs > 1)
		return errors_raise_format(state, -EDEADLK,
			"%u of this batch's views are still alive: delete them before you release "
			"the batch, or copy the data that you want to keep",
			refs - 1);
	struct call call = {.channel = lease->channel, .after_close = true};
	self->lease = NULL;
	int result = call_run(state, &call, batch_give_back, lease);
	lease_unref(lease);
	if (result < 0)
		return NULL;
	if (call.result < 0)
		return errors_raise(state, call.result, call.sentence);
	Py_RETURN_NONE;
}

static void batch_dealloc(PyObject *object)
{
	struct lease *lease = ((struct batch *)object)->lease;
	if (lease)
		lease_unref(lease);
	module_free_object(object);
}

static PyMemberDef batch_members[] = {
	{"count", T_UINT, offsetof(struct batch, count), READONLY, "number of valid samples"},
	{"height", T_UINT, offsetof(struct batch, height), READONLY, "height of its images"},
	{"width", T_UINT, offsetof(struct batch, width), READONLY, "width of its images"},
	{"last", T_BOOL, offsetof(struct batch, last), READONLY,
		"whether it is the last one of its epoch"},
	{"epoch", T_ULONGLONG, offsetof(struct batch, epoch), READONLY, "its epoch, from 0"},
	{"batch", T_ULONGLONG, offsetof(struct batch, batch), READONLY,
		"its number within the epoch, from 0"},
	{NULL, 0, 0, 0, NULL},
};

static PyMethodDef batch_methods[] = {
	{"view", batch_view, METH_VARARGS,
		"view(name, group=0): a View of its images (of a group of views), labels or "
		"samples."},
	{"field", batch_field, METH_VARARGS,
		"field(number, copy): the field of each valid sample: bytes, or memoryviews."},
	{"release", batch_release, METH_NOARGS, "Returns the batch to the daemon now."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot batch_slots[] = {
	{Py_tp_doc, "A batch in shared memory."},
	{Py_tp_new, MODULE_SLOT(module_refuse_new)},
	{Py_tp_dealloc, MODULE_SLOT(batch_dealloc)},
	{Py_tp_members, batch_members},
	{Py_tp_methods, batch_methods},
	{0, NULL},
};

PyType_Spec batch_spec = {
	.name = "penstock._penstock.Batch",
	.basicsize = sizeof(struct batch),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = batch_slots,
};
