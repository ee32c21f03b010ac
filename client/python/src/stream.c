/* stream: see stream.h.
 *
 * `next` does not wait inside the library. It looks for a batch with the turn and waits without it,
 * so that other threads can drop their views and ask questions meanwhile. Locks: channel.h.
 *
 * Thread: any, with the GIL; the bodies of calls (call.h) with the turn and without the GIL. */
#include "client/python/src/stream.h"

#include "client/python/src/batch.h"
#include "client/python/src/call.h"
#include "client/python/src/errors.h"
#include "client/python/src/options.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <structmember.h>

enum {
	STREAM_LOOK_MS = 100, /* how often a wait checks for signals */
	STREAM_STATE_ROOM = 512, /* for the text of penstock_stream_state */
	STREAM_HELD_MS = 1, /* with a timeout of 0 the library does not report -EDEADLK */
};

struct stream {
	PyObject ob_base;
	struct channel *channel; /* NULL: closed */
};

/* ---- opening and closing ---- */

static int stream_open_channel(
	struct module_state *state, struct channel *channel, struct options *options)
{
	struct penstock_stream *stream = NULL;
	PyThreadState *thread = PyEval_SaveThread();
	channel->interrupt_data = thread;
	options->options.interrupt = call_interrupted;
	options->options.interrupt_data = channel;
	int result = penstock_stream_open(&options->options, &stream);
	PyEval_RestoreThread(thread);
	if (result == 0)
		channel_begin(channel, stream);
	if (PyErr_Occurred())
		return -1;
	if (result < 0)
		errors_raise(state, result, penstock_error());
	return result < 0 ? -1 : 0;
}

static struct channel *stream_new_channel(struct module_state *state, PyObject *dict)
{
	struct options options;
	struct channel *channel = NULL;
	int result = options_init(state, &options, dict);
	if (result == 0) {
		channel = channel_new();
		if (!channel)
			errors_raise_format(state, -errno,
				"cannot open a stream: %s: close other files or loaders, or raise "
				"`ulimit -n`",
				strerror(errno));
	}
	if (channel && stream_open_channel(state, channel, &options) < 0) {
		channel_unref(channel);
		channel = NULL;
	}
	options_deinit(&options);
	return channel;
}

/* tp_new does everything, so that every Stream has been opened, and only once. */
static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"options", NULL};
	PyObject *dict;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &PyDict_Type, &dict))
		return NULL;
	struct stream *self = (struct stream *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	self->channel = stream_new_channel(module_state_of((PyObject *)self), dict);
	if (!self->channel) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

/* Without the GIL: unmapping may take milliseconds. */
static PyObject *stream_close(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct stream *self = (struct stream *)object;
	struct channel *channel = self->channel;
	self->channel = NULL;
	if (channel) {
		Py_BEGIN_ALLOW_THREADS;
		channel_close(channel);
		Py_END_ALLOW_THREADS;
	}
	Py_RETURN_NONE;
}

static void stream_dealloc(PyObject *object)
{
	struct channel *channel = ((struct stream *)object)->channel;
	if (channel)
		channel_close(channel);
	module_free_object(object);
}

struct channel *stream_channel(struct module_state *state, PyObject *object)
{
	if (!PyObject_TypeCheck(object, state->stream)) {
		PyErr_SetString(PyExc_TypeError, "expected a Stream");
		return NULL;
	}
	struct channel *channel = ((struct stream *)object)->channel;
	if (!channel)
		errors_raise_closed(state);
	else if (channel_is_forked(channel))
		errors_raise_forked(state, (long)channel->owner);
	else
		return channel;
	return NULL;
}

/* Makes a call with a reference to the channel, because another thread may close the object
 * meanwhile. 0; -1 with an exception. */
static int stream_call(PyObject *object, struct call *call, call_body *body, void *data)
{
	struct module_state *state = module_state_of(object);
	struct channel *channel = stream_channel(state, object);
	if (!channel)
		return -1;
	*call = (struct call){.channel = channel_ref(channel)};
	int result = call_run(state, call, body, data);
	channel_unref(channel);
	return result;
}

/* ---- the next batch ---- */

struct stream_next {
	struct channel *channel;
	struct lease *lease;
	int64_t deadline_ns; /* INT64_MAX: none */
	int32_t timeout_ms;
	char *why; /* malloc'ed: the daemon's sentence about what it is waiting for */
};

static int64_t stream_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Like penstock_stream_next with a timeout of 0, but also returns -EDEADLK. */
static int stream_look(struct channel *channel, void *data)
{
	struct stream_next *next = data;
	struct penstock_batch *batch = &next->lease->batch;
	(void)channel_settle(channel);
	int result = penstock_stream_next(channel->stream, batch, 0);
	if (result == -EAGAIN && channel->held == channel->info.slots)
		result = penstock_stream_next(channel->stream, batch, STREAM_HELD_MS);
	/* Some of the held batches belong to a daemon that is gone, or were dropped meanwhile. */
	if (result == -ETIMEDOUT || (result == -EDEADLK && channel_settle(channel)))
		result = -EAGAIN;
	if (result == 0)
		channel->held++;
	for (uint32_t i = 0; result == 0 && i < (channel->groups ? channel->groups : 1); i++)
		next->lease->images[i] = penstock_batch_images(channel->stream, batch, i);
	return result;
}

/* The timeout has passed: asks for the reason, and looks for a batch once more. */
static int stream_look_why(struct channel *channel, void *data)
{
	struct stream_next *next = data;
	int result = penstock_stream_wait(channel->stream, &next->why);
	if (result == -EINTR)
		return result;
	if (result < 0)
		next->why = strdup(penstock_error());
	return stream_look(channel, data);
}

/* Waits a while for a message to the stream, or for its closing. */
static int stream_pause(const struct stream_next *next)
{
	struct pollfd fds[] = {{.fd = next->channel->stream_fd, .events = POLLIN},
		{.fd = next->channel->bell_fd, .events = POLLIN}};
	int64_t left_ms = (next->deadline_ns - stream_now_ns()) / 1000000 + 1;
	/* The deadline may have passed since the caller checked it; poll() waits forever if the
	 * timeout is negative. */
	if (left_ms < 0)
		left_ms = 0;
	Py_BEGIN_ALLOW_THREADS;
	(void)poll(fds, 2, left_ms < STREAM_LOOK_MS ? (int)left_ms : STREAM_LOOK_MS);
	Py_END_ALLOW_THREADS;
	return PyErr_CheckSignals();
}

/* Views in reference cycles hold slots too, until the garbage collector runs. */
static int stream_collect(struct module_state *state, struct stream_next *next, struct call *call)
{
	PyGC_Collect();
	return call_run(state, call, stream_look, next);
}

static int stream_await(struct module_state *state, struct stream_next *next, struct call *call)
{
	int result;
	do {
		result = call_run(state, call, stream_look, next);
		if (result == 0 && call->result == -EDEADLK)
			result = stream_collect(state, next, call);
		if (result < 0 || call->result != -EAGAIN)
			return result;
		if (stream_now_ns() >= next->deadline_ns)
			break;
		result = stream_pause(next);
	} while (result == 0);
	/* A caller that does not wait for a batch does not wait for an explanation either. */
	if (result < 0 || next->timeout_ms == 0)
		return result;
	return call_run(state, call, stream_look_why, next);
}

static PyObject *stream_raise_next(
	struct module_state *state, const struct stream_next *next, const struct call *call)
{
	if (call->result == -EAGAIN)
		return errors_raise_format(state, -ETIMEDOUT, "no batch within %.*f s: %s",
			next->timeout_ms % 100 ? 3 : 1, next->timeout_ms / 1000.0,
			next->why ? next->why : "the call was made without waiting");
	if (call->result == -EDEADLK)
		return errors_raise_format(state, -EDEADLK,
			"all %u batches of the stream are held by zero-copy views in this process, "
			"so no other batch can come: delete the views, copy the data that you want "
			"to keep (array.copy(), tensor.clone()), or use a prefetch larger than %u",
			next->channel->info.slots, next->channel->info.slots);
	return errors_raise(state, call->result, call->sentence);
}

static PyObject *stream_judge_next(
	struct module_state *state, struct stream_next *next, const struct call *call)
{
	if (call->result < 0)
		return stream_raise_next(state, next, call);
	if (call->result == PENSTOCK_END)
		Py_RETURN_NONE;
	PyObject *batch = batch_new(state, next->lease);
	if (batch)
		next->lease = NULL;
	return batch;
}

static int stream_begin_next(
	struct module_state *state, PyObject *object, long timeout_ms, struct stream_next *next)
{
	struct channel *channel = stream_channel(state, object);
	if (!channel)
		return -1;
	if (timeout_ms == PENSTOCK_TIMEOUT_DEFAULT)
		timeout_ms = penstock_stream_timeout_ms(channel->stream);
	if (timeout_ms > INT32_MAX || (timeout_ms < 0 && timeout_ms != PENSTOCK_FOREVER)) {
		PyErr_Format(PyExc_ValueError,
			"timeout_ms: expected 0 to 2147483647, -1 for the stream's own, or -2 for "
			"no limit, got %ld",
			timeout_ms);
		return -1;
	}
	next->timeout_ms = (int32_t)timeout_ms;
	next->deadline_ns = timeout_ms == PENSTOCK_FOREVER
				    ? INT64_MAX
				    : stream_now_ns() + (int64_t)timeout_ms * 1000000;
	next->lease = lease_new(channel);
	if (!next->lease) {
		PyErr_NoMemory();
		return -1;
	}
	next->channel = channel_ref(channel);
	return 0;
}

static PyObject *stream_next(PyObject *object, PyObject *args)
{
	struct module_state *state = module_state_of(object);
	struct stream_next next = {0};
	long timeout_ms;
	if (!PyArg_ParseTuple(args, "l", &timeout_ms) ||
		stream_begin_next(state, object, timeout_ms, &next) < 0)
		return NULL;
	struct call call = {.channel = next.channel};
	PyObject *batch = NULL;
	if (stream_await(state, &next, &call) == 0)
		batch = stream_judge_next(state, &next, &call);
	if (next.lease)
		lease_unref(next.lease);
	channel_unref(next.channel);
	free(next.why);
	return batch;
}

/* ---- questions ---- */

struct stream_text {
	char *text; /* malloc'ed */
	uint64_t index;
};

static int stream_ask_state(struct channel *channel, void *data)
{
	struct stream_text *ask = data;
	ask->text = malloc(STREAM_STATE_ROOM);
	return ask->text ? penstock_stream_state(channel->stream, ask->text, STREAM_STATE_ROOM)
			 : -ENOMEM;
}

static int stream_ask_classes(struct channel *channel, void *data)
{
	return penstock_stream_classes(channel->stream, &((struct stream_text *)data)->text);
}

static int stream_ask_path(struct channel *channel, void *data)
{
	struct stream_text *ask = data;
	return penstock_stream_path(channel->stream, ask->index, &ask->text);
}

static int stream_ask_samples(struct channel *channel, void *data)
{
	struct stream_text *ask = data;
	return penstock_stream_samples(channel->stream, ask->index, &ask->text);
}

static int stream_ask_stats(struct channel *channel, void *data)
{
	return penstock_stream_stats(channel->stream, &((struct stream_text *)data)->text);
}

static int stream_ask_config(struct channel *channel, void *data)
{
	return penstock_stream_config(channel->stream, &((struct stream_text *)data)->text);
}

/* Names of files and folders need not be UTF-8. os.fsencode turns the text back into the same
 * bytes. */
static PyObject *stream_decode(const char *text, size_t bytes)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes, "surrogateescape");
}

typedef PyObject *stream_make(const char *text);

static PyObject *stream_make_text(const char *text)
{
	return stream_decode(text, strlen(text));
}

static PyObject *stream_make_path(const char *text)
{
	return PyUnicode_DecodeFSDefault(text);
}

static PyObject *stream_make_lines(const char *text)
{
	PyObject *lines = PyList_New(0);
	while (lines && *text) {
		size_t bytes = strcspn(text, "\n");
		PyObject *line = stream_decode(text, bytes);
		int result = line ? PyList_Append(lines, line) : -1;
		Py_XDECREF(line);
		if (result < 0) {
			Py_DECREF(lines);
			return NULL;
		}
		text += bytes;
		text += *text == '\n';
	}
	return lines;
}

static PyObject *stream_ask(PyObject *object, call_body *body, uint64_t index, stream_make *make)
{
	struct call call;
	struct stream_text ask = {.index = index};
	PyObject *answer = NULL;
	if (stream_call(object, &call, body, &ask) == 0)
		answer = call.result < 0
				 ? errors_raise(module_state_of(object), call.result, call.sentence)
				 : make(ask.text);
	free(ask.text);
	return answer;
}

static PyObject *stream_state(PyObject *object, PyObject *unused)
{
	(void)unused;
	return stream_ask(object, stream_ask_state, 0, stream_make_text);
}

static PyObject *stream_classes(PyObject *object, PyObject *unused)
{
	(void)unused;
	return stream_ask(object, stream_ask_classes, 0, stream_make_lines);
}

static PyObject *stream_ask_of(PyObject *object, PyObject *number, call_body *body)
{
	PyObject *whole = PyNumber_Index(number);
	if (!whole)
		return NULL;
	unsigned long long index = PyLong_AsUnsignedLongLong(whole);
	Py_DECREF(whole);
	if (index == (unsigned long long)-1 && PyErr_Occurred())
		return NULL;
	return stream_ask(object, body, index, stream_make_path);
}

static PyObject *stream_path(PyObject *object, PyObject *number)
{
	return stream_ask_of(object, number, stream_ask_path);
}

static PyObject *stream_samples(PyObject *object, PyObject *number)
{
	return stream_ask_of(object, number, stream_ask_samples);
}

static PyObject *stream_stats(PyObject *object, PyObject *unused)
{
	(void)unused;
	return stream_ask(object, stream_ask_stats, 0, stream_make_text);
}

static PyObject *stream_config(PyObject *object, PyObject *unused)
{
	(void)unused;
	return stream_ask(object, stream_ask_config, 0, stream_make_text);
}

/* ---- attributes ---- */

struct stream_field {
	const char *name;
	size_t offset;
	bool wide; /* true: uint64_t; false: uint32_t */
};

#define STREAM_WIDE(name)                                                \
	{                                                                \
#name, offsetof(struct penstock_stream_info, name), true \
	}
#define STREAM_NARROW(name)                                               \
	{                                                                 \
#name, offsetof(struct penstock_stream_info, name), false \
	}

static const struct stream_field stream_fields[] = {
	STREAM_WIDE(samples),
	STREAM_WIDE(batches),
	STREAM_WIDE(fingerprint),
	STREAM_WIDE(seed),
	STREAM_WIDE(epoch),
	STREAM_WIDE(batch),
	STREAM_NARROW(batch_size),
	STREAM_NARROW(height),
	STREAM_NARROW(width),
	STREAM_NARROW(channels),
	STREAM_NARROW(classes),
	STREAM_NARROW(slots),
	STREAM_NARROW(rank),
	STREAM_NARROW(world_size),
	STREAM_NARROW(shuffle),
	STREAM_NARROW(train),
	STREAM_NARROW(views),
	STREAM_NARROW(dtype),
	STREAM_NARROW(layout),
	STREAM_NARROW(label_type),
	STREAM_NARROW(label_width),
	STREAM_NARROW(salt),
};

static int stream_put_field(
	PyObject *dict, const struct penstock_stream_info *info, const struct stream_field *field)
{
	const char *at = (const char *)info + field->offset;
	uint64_t wide = 0;
	uint32_t narrow = 0;
	memcpy(field->wide ? (void *)&wide : (void *)&narrow, at,
		field->wide ? sizeof wide : sizeof narrow);
	PyObject *value = PyLong_FromUnsignedLongLong(field->wide ? wide : narrow);
	int result = value ? PyDict_SetItemString(dict, field->name, value) : -1;
	Py_XDECREF(value);
	return result;
}

static PyObject *stream_get_info(PyObject *object, void *unused)
{
	(void)unused;
	const struct channel *channel = stream_channel(module_state_of(object), object);
	PyObject *dict = channel ? PyDict_New() : NULL;
	for (size_t i = 0; dict && i < sizeof stream_fields / sizeof *stream_fields; i++) {
		if (stream_put_field(dict, &channel->info, &stream_fields[i]) < 0) {
			Py_DECREF(dict);
			return NULL;
		}
	}
	return dict;
}

/* [(views, height, width, name), ...] of the groups of views; [] if they are not divided. */
static PyObject *stream_get_groups(PyObject *object, void *unused)
{
	(void)unused;
	const struct channel *channel = stream_channel(module_state_of(object), object);
	PyObject *list = channel ? PyList_New(0) : NULL;
	for (uint32_t i = 0; list && i < channel->groups; i++) {
		const struct penstock_view_group *group = &channel->group[i];
		PyObject *item = Py_BuildValue(
			"(IIIs)", group->views, group->height, group->width, group->name);
		if (!item || PyList_Append(list, item) < 0)
			Py_CLEAR(list);
		Py_XDECREF(item);
	}
	return list;
}

static int stream_ask_pid(struct channel *channel, void *data)
{
	*(long *)data = penstock_stream_daemon_pid(channel->stream);
	return 0;
}

static PyObject *stream_get_daemon_pid(PyObject *object, void *unused)
{
	(void)unused;
	struct call call;
	long pid = 0;
	return stream_call(object, &call, stream_ask_pid, &pid) < 0 ? NULL : PyLong_FromLong(pid);
}

/* Without the turn, which libpenstock_cuda's thread has while it is attached. */
static PyObject *stream_get_replaced(PyObject *object, void *unused)
{
	(void)unused;
	const struct channel *channel = stream_channel(module_state_of(object), object);
	int32_t gone = 0, now = 0;
	if (!channel)
		return NULL;
	const uint32_t count = penstock_stream_replaced(channel->stream, &gone, &now);
	return Py_BuildValue("(Iii)", (unsigned int)count, (int)gone, (int)now);
}

static PyObject *stream_get_fields(PyObject *object, void *unused)
{
	(void)unused;
	const struct channel *channel = stream_channel(module_state_of(object), object);
	PyObject *list = channel ? PyList_New(0) : NULL;
	const uint32_t count = channel ? penstock_stream_fields(channel->stream) : 0;
	for (uint32_t i = 0; list && i < count; i++) {
		struct penstock_field field;
		PyObject *name =
			penstock_stream_field(channel->stream, i, &field) == 0
				? PyUnicode_DecodeUTF8(field.name, (Py_ssize_t)strlen(field.name),
					  "surrogateescape")
				: NULL;
		if (!name || PyList_Append(list, name) < 0)
			Py_CLEAR(list);
		Py_XDECREF(name);
	}
	return list;
}

static PyObject *stream_get_closed(PyObject *object, void *unused)
{
	(void)unused;
	return PyBool_FromLong(!((struct stream *)object)->channel);
}

static PyGetSetDef stream_getters[] = {
	{"groups", stream_get_groups, NULL, "(views, height, width, name) of each group of views.",
		NULL},
	{"info", stream_get_info, NULL, "The fields of struct penstock_stream_info.", NULL},
	{"daemon_pid", stream_get_daemon_pid, NULL, NULL, NULL},
	{"replaced", stream_get_replaced, NULL,
		"(count, gone pid, pid): how many daemons were replaced, and the last pair.", NULL},
	{"fields", stream_get_fields, NULL, "The names of the fields.", NULL},
	{"closed", stream_get_closed, NULL, NULL, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef stream_methods[] = {
	{"next", stream_next, METH_VARARGS,
		"next(timeout_ms): the next Batch; None after the last epoch."},
	{"state", stream_state, METH_NOARGS, "The position of the loop, as JSON."},
	{"classes", stream_classes, METH_NOARGS, "The class names, by label."},
	{"path", stream_path, METH_O, "path(index): a file, or SHARD!MEMBER."},
	{"samples", stream_samples, METH_O,
		"samples(first): lines of labels and paths, of at most 1,024 samples."},
	{"stats", stream_stats, METH_NOARGS, "Counters and verdict, as JSON."},
	{"config", stream_config, METH_NOARGS, "The full definition, as JSON."},
	{"close", stream_close, METH_NOARGS, "Refuses further calls. Views stay readable."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot stream_slots[] = {
	{Py_tp_doc, "Stream(options): opens a stream of the daemon."},
	{Py_tp_new, MODULE_SLOT(stream_new)},
	{Py_tp_dealloc, MODULE_SLOT(stream_dealloc)},
	{Py_tp_getset, stream_getters},
	{Py_tp_methods, stream_methods},
	{0, NULL},
};

PyType_Spec stream_spec = {
	.name = "penstock._penstock.Stream",
	.basicsize = sizeof(struct stream),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = stream_slots,
};
