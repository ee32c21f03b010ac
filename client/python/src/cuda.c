/* cuda: see cuda.h.
 *
 * An attached stream belongs to the attachment, whose thread calls it. The attachment keeps the
 * turn (channel.h) for all that time, so that no other thread calls the stream. One thread at a
 * time uses the attachment. If a thread detaches while another thread waits, the waiting thread
 * detaches.
 *
 * Thread: any, with the GIL; bodies of calls without it. */
#ifdef PENSTOCK_PYTHON_CUDA
#include "client/python/src/cuda.h"

#include "client/python/src/call.h"
#include "client/python/src/errors.h"
#include "client/python/src/mixer.h"
#include "client/python/src/stream.h"
#include "penstock/cuda.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	CUDA_LOOK_MS = 100, /* how often a thread that waits for the turn checks for signals */
	CUDA_STATE_ROOM = 512, /* for the text of penstock_cuda_state */
};

struct cuda {
	PyObject ob_base;
	struct channel *channel; /* NULL: detached */
	struct penstock_cuda *attachment;
	struct penstock_cuda_batch batch; /* held if `images` is not NULL */
	PyThreadState *caller; /* of the call in progress, or NULL */
	bool ending; /* the call in progress detaches when it ends */
};

/* ---- attaching ---- */

static int cuda_interrupted(void *data)
{
	const struct cuda *self = data;
	PyEval_RestoreThread(self->caller);
	int result = PyErr_CheckSignals() < 0 || self->ending;
	(void)PyEval_SaveThread();
	return result;
}

static int cuda_read_dtype(const char *name, uint32_t *ret_dtype)
{
	static const char *const names[] = {
		[PENSTOCK_CUDA_FLOAT32] = "float32",
		[PENSTOCK_CUDA_FLOAT16] = "float16",
		[PENSTOCK_CUDA_BFLOAT16] = "bfloat16",
	};
	for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (strcmp(name, names[i]) == 0) {
			*ret_dtype = i;
			return 0;
		}
	}
	PyErr_Format(PyExc_ValueError,
		"dtype: expected 'float32', 'float16' or 'bfloat16', got '%s'", name);
	return -1;
}

static int cuda_read_options(
	PyObject *args, PyObject *kwargs, PyObject **ret_stream, struct penstock_cuda_options *o)
{
	static char *names[] = {"stream", "device", "dtype", "channels_last", "mean", "std",
		"prefetch", "mixup", "cutmix", "mix", "mix_switch", "erase", "erase_scale",
		"erase_ratio", "erase_value", "erase_random", "epochs", NULL};
	const char *dtype;
	int channels_last, random = 0;
	PyObject *epochs = NULL;
	penstock_cuda_options_init(o);
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oisp(fff)(fff)|I$ddddd(dd)(dd)(fff)pO",
		    names, ret_stream, &o->device, &dtype, &channels_last, &o->mean[0], &o->mean[1],
		    &o->mean[2], &o->std[0], &o->std[1], &o->std[2], &o->prefetch, &o->mixup,
		    &o->cutmix, &o->mix, &o->mix_switch, &o->erase, &o->erase_scale[0],
		    &o->erase_scale[1], &o->erase_ratio[0], &o->erase_ratio[1], &o->erase_value[0],
		    &o->erase_value[1], &o->erase_value[2], &random, &epochs))
		return -1;
	o->erase_random = random;
	o->layout = channels_last ? PENSTOCK_CUDA_NHWC : PENSTOCK_CUDA_NCHW;
	if (cuda_read_dtype(dtype, &o->dtype) < 0)
		return -1;
	return mixer_read_epochs(epochs, &o->epochs, &o->epoch_count);
}

/* Takes the turn. It passes no interrupt data, because the attachment's thread handles no signals.
 * 0; -1 with an exception. */
static int cuda_take_turn(struct module_state *state, struct channel *channel)
{
	for (;;) {
		int result;
		Py_BEGIN_ALLOW_THREADS;
		result = channel_take(channel, NULL, CUDA_LOOK_MS);
		Py_END_ALLOW_THREADS;
		if (result == 0)
			return 0;
		if (result == CHANNEL_E_MINE) {
			errors_raise(state, -EINPROGRESS,
				"the stream is already attached to a device, or this thread is "
				"using it: open another stream");
			return -1;
		}
		if (PyErr_CheckSignals() < 0)
			return -1;
	}
}

static int cuda_attach(struct module_state *state, struct cuda *self, PyObject *stream,
	const struct penstock_cuda_options *options)
{
	struct channel *channel = stream_channel(state, stream);
	if (!channel || cuda_take_turn(state, channel) < 0)
		return -1;
	int result;
	Py_BEGIN_ALLOW_THREADS;
	result = penstock_cuda_attach(channel->stream, options, &self->attachment);
	if (result < 0)
		channel_give(channel);
	Py_END_ALLOW_THREADS;
	if (result < 0) {
		errors_raise(state, result, penstock_error());
		return -1;
	}
	self->channel = channel_ref(channel);
	return 0;
}

static PyObject *cuda_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct penstock_cuda_options options;
	PyObject *stream;
	if (cuda_read_options(args, kwargs, &stream, &options) < 0)
		return NULL;
	struct cuda *self = (struct cuda *)PyType_GenericAlloc(type, 0);
	if (!self) {
		PyMem_Free((void *)(uintptr_t)options.epochs);
		return NULL;
	}
	options.interrupt = cuda_interrupted;
	options.interrupt_data = self;
	int result = cuda_attach(module_state_of((PyObject *)self), self, stream, &options);
	PyMem_Free((void *)(uintptr_t)options.epochs);
	if (result < 0) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

/* ---- detaching ---- */

/* Waits for the device. In a forked child it only frees memory of the host. */
static void cuda_end(struct cuda *self)
{
	struct channel *channel = self->channel;
	struct penstock_cuda *attachment = self->attachment;
	self->channel = NULL;
	self->attachment = NULL;
	if (!channel)
		return;
	Py_BEGIN_ALLOW_THREADS;
	penstock_cuda_detach(attachment);
	if (!channel_is_forked(channel))
		channel_give(channel);
	channel_unref(channel);
	Py_END_ALLOW_THREADS;
}

static PyObject *cuda_detach(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct cuda *self = (struct cuda *)object;
	/* In a forked child, the thread of the call in progress does not exist. */
	if (self->caller && !channel_is_forked(self->channel))
		self->ending = true;
	else
		cuda_end(self);
	Py_RETURN_NONE;
}

/* Leaves the attachment to the end of the process if the device does not finish. */
static PyObject *cuda_leave(PyObject *object, PyObject *args)
{
	struct cuda *self = (struct cuda *)object;
	struct channel *channel = self->channel;
	struct penstock_cuda *attachment = self->attachment;
	int timeout_ms, result;
	if (!PyArg_ParseTuple(args, "i", &timeout_ms))
		return NULL;
	if (!channel || channel_is_forked(channel)) {
		cuda_end(self);
		Py_RETURN_NONE;
	}
	if (self->caller) {
		self->ending = true;
		return PyUnicode_FromString("another thread is using the attachment");
	}
	self->channel = NULL;
	self->attachment = NULL;
	Py_BEGIN_ALLOW_THREADS;
	result = penstock_cuda_detach_within(attachment, timeout_ms);
	/* Otherwise its thread still uses the stream: the turn is never given back. */
	if (result == 0) {
		channel_give(channel);
		channel_unref(channel);
	}
	Py_END_ALLOW_THREADS;
	if (result < 0)
		return PyUnicode_FromString(penstock_error());
	Py_RETURN_NONE;
}

static void cuda_dealloc(PyObject *object)
{
	cuda_end((struct cuda *)object);
	module_free_object(object);
}

/* ---- calls ---- */

typedef int cuda_body(struct cuda *self, void *data);

static int cuda_check(struct module_state *state, const struct cuda *self)
{
	if (!self->channel)
		errors_raise_closed(state);
	else if (channel_is_forked(self->channel))
		errors_raise_forked(state, (long)self->channel->owner);
	else if (self->caller)
		errors_raise(state, -EINPROGRESS,
			"another thread, or the code that this signal handler interrupted, is "
			"using the same loader: use a loader on a device from one thread only");
	else
		return 0;
	return -1;
}

/* Runs `body` without the GIL. Returns what `body` returns, or -1 with an exception. */
static int cuda_run(PyObject *object, cuda_body *body, void *data)
{
	struct module_state *state = module_state_of(object);
	struct cuda *self = (struct cuda *)object;
	if (cuda_check(state, self) < 0)
		return -1;
	self->caller = PyEval_SaveThread();
	int result = body(self, data);
	PyEval_RestoreThread(self->caller);
	self->caller = NULL;
	if (self->ending)
		cuda_end(self);
	if (PyErr_Occurred())
		return -1;
	if (self->ending) {
		errors_raise_closed(state);
		return -1;
	}
	if (result < 0)
		errors_raise(state, result, penstock_error());
	return result < 0 ? -1 : result;
}

/* ---- batches ---- */

/* A batch that was delivered and not released is delivered again: a signal may have interrupted the
 * caller between the two. */
static int cuda_body_next(struct cuda *self, void *data)
{
	if (self->batch.images)
		return 0;
	return penstock_cuda_next(self->attachment, &self->batch, *(const int32_t *)data);
}

static PyObject *cuda_describe(const struct penstock_cuda_batch *batch)
{
	PyObject *samples = PyBytes_FromStringAndSize(
		(const char *)batch->samples, (Py_ssize_t)(batch->count * sizeof *batch->samples));
	return Py_BuildValue("INKKNKK", batch->count, PyBool_FromLong(batch->flags & PENSTOCK_LAST),
		batch->epoch, batch->batch, samples, (unsigned long long)(uintptr_t)batch->images,
		(unsigned long long)(uintptr_t)batch->labels);
}

static PyObject *cuda_next(PyObject *object, PyObject *args)
{
	struct cuda *self = (struct cuda *)object;
	int timeout_ms;
	if (!PyArg_ParseTuple(args, "i", &timeout_ms))
		return NULL;
	int32_t timeout = timeout_ms;
	int result = cuda_run(object, cuda_body_next, &timeout);
	if (result < 0)
		return NULL;
	if (result == PENSTOCK_END)
		Py_RETURN_NONE;
	return cuda_describe(&self->batch);
}

struct cuda_work {
	unsigned long long out; /* address of device memory */
	unsigned long long queue; /* a CUDA stream */
	unsigned int classes;
	float smoothing;
};

static struct CUstream_st *cuda_queue(const struct cuda_work *work)
{
	return (struct CUstream_st *)(uintptr_t)work->queue;
}

static int cuda_body_transform(struct cuda *self, void *data)
{
	const struct cuda_work *work = data;
	return penstock_cuda_transform(
		self->attachment, &self->batch, (void *)(uintptr_t)work->out, cuda_queue(work));
}

static int cuda_body_targets(struct cuda *self, void *data)
{
	const struct cuda_work *work = data;
	return penstock_cuda_targets(self->attachment, &self->batch, work->classes, work->smoothing,
		(float *)(uintptr_t)work->out, cuda_queue(work));
}

static int cuda_body_wait(struct cuda *self, void *data)
{
	return penstock_cuda_wait(self->attachment, &self->batch, cuda_queue(data));
}

static int cuda_body_release(struct cuda *self, void *data)
{
	return penstock_cuda_release(self->attachment, &self->batch, cuda_queue(data));
}

static PyObject *cuda_transform(PyObject *object, PyObject *args)
{
	struct cuda_work work = {0};
	if (!PyArg_ParseTuple(args, "KK", &work.out, &work.queue) ||
		cuda_run(object, cuda_body_transform, &work) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *cuda_targets(PyObject *object, PyObject *args)
{
	struct cuda_work work = {0};
	if (!PyArg_ParseTuple(
		    args, "KKIf", &work.out, &work.queue, &work.classes, &work.smoothing) ||
		cuda_run(object, cuda_body_targets, &work) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *cuda_queue_work(PyObject *object, PyObject *args, cuda_body *body)
{
	struct cuda_work work = {0};
	if (!PyArg_ParseTuple(args, "K", &work.queue) || cuda_run(object, body, &work) < 0)
		return NULL;
	Py_RETURN_NONE;
}

static PyObject *cuda_wait(PyObject *object, PyObject *args)
{
	return cuda_queue_work(object, args, cuda_body_wait);
}

static PyObject *cuda_release(PyObject *object, PyObject *args)
{
	return cuda_queue_work(object, args, cuda_body_release);
}

/* ---- questions ---- */

static int cuda_body_state(struct cuda *self, void *data)
{
	return penstock_cuda_state(self->attachment, data, CUDA_STATE_ROOM);
}

static PyObject *cuda_state(PyObject *object, PyObject *unused)
{
	(void)unused;
	char text[CUDA_STATE_ROOM];
	return cuda_run(object, cuda_body_state, text) < 0 ? NULL : PyUnicode_FromString(text);
}

struct cuda_question {
	unsigned long long index;
	char *answer; /* malloc'ed */
};

static int cuda_body_path(struct cuda *self, void *data)
{
	struct cuda_question *question = data;
	return penstock_cuda_path(self->attachment, question->index, &question->answer);
}

static int cuda_body_samples(struct cuda *self, void *data)
{
	struct cuda_question *question = data;
	return penstock_cuda_samples(self->attachment, question->index, &question->answer);
}

static int cuda_body_stats(struct cuda *self, void *data)
{
	return penstock_cuda_stats(self->attachment, &((struct cuda_question *)data)->answer);
}

static PyObject *cuda_ask_of(PyObject *object, PyObject *args, cuda_body *body)
{
	struct cuda_question question = {0};
	PyObject *text = NULL;
	if (PyArg_ParseTuple(args, "K", &question.index) && cuda_run(object, body, &question) >= 0)
		text = PyUnicode_DecodeFSDefault(question.answer);
	free(question.answer);
	return text;
}

static PyObject *cuda_path(PyObject *object, PyObject *args)
{
	return cuda_ask_of(object, args, cuda_body_path);
}

static PyObject *cuda_samples(PyObject *object, PyObject *args)
{
	return cuda_ask_of(object, args, cuda_body_samples);
}

static PyObject *cuda_stats(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct cuda_question question = {0};
	PyObject *text = NULL;
	if (cuda_run(object, cuda_body_stats, &question) >= 0)
		text = PyUnicode_DecodeUTF8(
			question.answer, (Py_ssize_t)strlen(question.answer), "surrogateescape");
	free(question.answer);
	return text;
}

static int cuda_body_info(struct cuda *self, void *data)
{
	return penstock_cuda_info(self->attachment, data);
}

static PyObject *cuda_get_info(PyObject *object, void *unused)
{
	(void)unused;
	struct penstock_cuda_info info = {.size = sizeof info};
	if (cuda_run(object, cuda_body_info, &info) < 0)
		return NULL;
	return Py_BuildValue("{s:i,s:i,s:I,s:s,s:I,s:K,s:K,s:K,s:s,s:s}", "device", info.device,
		"driver", info.driver, "capability", info.capability, "memory",
		info.memory == PENSTOCK_CUDA_RING ? "ring" : "registered", "buffers", info.buffers,
		"device_bytes", info.device_bytes, "pinned_bytes", info.pinned_bytes,
		"output_bytes", info.output_bytes, "name", info.name, "why", info.why);
}

static PyGetSetDef cuda_getters[] = {
	{"info", cuda_get_info, NULL, "The fields of struct penstock_cuda_info.", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef cuda_methods[] = {
	{"next", cuda_next, METH_VARARGS,
		"next(timeout_ms): (count, last, epoch, batch, samples, images, labels); images "
		"and labels are addresses on the device. None after the last epoch."},
	{"transform", cuda_transform, METH_VARARGS,
		"transform(out, queue): writes the normalized images to `out`."},
	{"targets", cuda_targets, METH_VARARGS,
		"targets(out, queue, classes, smoothing): writes the soft labels to `out`."},
	{"wait", cuda_wait, METH_VARARGS,
		"wait(queue): the CUDA stream waits for the batch, the caller does not."},
	{"release", cuda_release, METH_VARARGS, "release(queue): returns the batch."},
	{"state", cuda_state, METH_NOARGS, "The position of the loop, as JSON."},
	{"path", cuda_path, METH_VARARGS, "path(index): a file, or SHARD!MEMBER."},
	{"samples", cuda_samples, METH_VARARGS,
		"samples(first): lines of labels and paths, of at most 1,024 samples."},
	{"stats", cuda_stats, METH_NOARGS, "Counters and verdict, as JSON."},
	{"leave", cuda_leave, METH_VARARGS,
		"leave(timeout_ms): detaches at the end of the process. None; or why the "
		"attachment is left as it is."},
	{"detach", cuda_detach, METH_NOARGS, "Waits for the device and refuses further calls."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot cuda_slots[] = {
	{Py_tp_doc, "Cuda(stream, device, dtype, channels_last, mean, std, prefetch=2)"},
	{Py_tp_new, MODULE_SLOT(cuda_new)},
	{Py_tp_dealloc, MODULE_SLOT(cuda_dealloc)},
	{Py_tp_getset, cuda_getters},
	{Py_tp_methods, cuda_methods},
	{0, NULL},
};

PyType_Spec cuda_spec = {
	.name = "penstock._penstock.Cuda",
	.basicsize = sizeof(struct cuda),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = cuda_slots,
};
#endif
