/* batch: see batch.h.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/batch.h"

#include "client/python/src/call.h"
#include "client/python/src/errors.h"
#include "client/python/src/view.h"

#include <errno.h>
#include <stddef.h>

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
