/* module: see module.h.
 *
 * Thread: any, with the GIL. */
#include "client/python/src/module.h"

#include "client/python/src/batch.h"
#include "client/python/src/convert.h"
#include "client/python/src/cuda.h"
#include "client/python/src/errors.h"
#include "client/python/src/mixer.h"
#include "client/python/src/options.h"
#include "client/python/src/pool.h"
#include "client/python/src/stream.h"
#include "client/python/src/view.h"
#include "penstock/penstock.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct module_state *module_state_of(PyObject *object)
{
	return PyType_GetModuleState(Py_TYPE(object));
}

PyObject *module_refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	(void)type;
	(void)args;
	(void)kwargs;
	PyErr_SetString(PyExc_TypeError, "only penstock creates objects of this type");
	return NULL;
}

void module_free_object(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);
	/* Types of the stable ABI live on the heap, and each object holds a reference to its
	 * type. */
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *module_daemon_status(PyObject *module, PyObject *socket)
{
	PyObject *path = NULL;
	char *json = NULL;
	if (socket != Py_None && !PyUnicode_FSConverter(socket, &path))
		return NULL;
	const char *name = path ? PyBytes_AsString(path) : NULL;
	int result;
	Py_BEGIN_ALLOW_THREADS;
	result = penstock_daemon_status(name, &json);
	Py_END_ALLOW_THREADS;
	Py_XDECREF(path);
	if (result < 0)
		return errors_raise(PyModule_GetState(module), result, penstock_error());
	PyObject *text = PyUnicode_DecodeUTF8(json, (Py_ssize_t)strlen(json), "surrogateescape");
	free(json);
	return text;
}

static PyMethodDef module_functions[] = {
	{"daemon_status", module_daemon_status, METH_O, "daemon_status(socket): JSON."},
	{"fill_images", convert_fill_images, METH_VARARGS,
		"fill_images(batch, block, group=0): copies the images of the valid rows, "
		"unconverted."},
	{"fill_labels", convert_fill_labels, METH_VARARGS,
		"fill_labels(batch, block): copies the labels of the valid samples."},
	{NULL, NULL, 0, NULL},
};

/* ---- starting ---- */

/* Takes over the reference to `value`. */
static int module_add(PyObject *module, const char *name, PyObject *value)
{
	if (value && PyModule_AddObject(module, name, value) == 0)
		return 0;
	Py_XDECREF(value);
	return -1;
}

/* The file that this code was loaded from. */
static PyObject *module_library(void)
{
	Dl_info info;
	if (!dladdr((const void *)(uintptr_t)&module_library, &info) || !info.dli_fname) {
		PyErr_SetString(PyExc_ImportError,
			"cannot find out from which file penstock._penstock was loaded");
		return NULL;
	}
	return PyUnicode_DecodeFSDefault(info.dli_fname);
}

static int module_take_errors(struct module_state *state)
{
	PyObject *errors = PyImport_ImportModule("penstock.errors");
	if (!errors)
		return -1;
	state->from_code = PyObject_GetAttrString(errors, "from_code");
	state->closed_error = PyObject_GetAttrString(errors, "ClosedError");
	state->read_only_error = PyObject_GetAttrString(errors, "ReadOnlyError");
	Py_DECREF(errors);
	return state->from_code && state->closed_error && state->read_only_error ? 0 : -1;
}

static int module_add_type(
	PyObject *module, PyType_Spec *spec, const char *name, PyTypeObject **ret_type)
{
	PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
	*ret_type = (PyTypeObject *)type;
	Py_XINCREF(type);
	return module_add(module, name, type);
}

static int module_add_types(PyObject *module, struct module_state *state)
{
	const struct {
		PyType_Spec *spec;
		const char *name;
		PyTypeObject **type;
	} types[] = {
		{&stream_spec, "Stream", &state->stream},
		{&batch_spec, "Batch", &state->batch},
		{&view_spec, "View", &state->view},
		{&pool_spec, "Pool", &state->pool},
		{&block_spec, "Block", &state->block},
		{&converter_spec, "Converter", &state->converter},
		{&mixer_spec, "Mixer", &state->mixer},
#ifdef PENSTOCK_PYTHON_CUDA
		{&cuda_spec, "Cuda", &state->cuda},
#endif
	};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		if (module_add_type(module, types[i].spec, types[i].name, types[i].type) < 0)
			return -1;
	}
	return 0;
}

/* Signals, the GIL and fork() belong to the process: module.h. */
static int module_refuse_subinterpreter(void)
{
	static int64_t first = -1;
	int64_t mine = PyInterpreterState_GetID(PyInterpreterState_Get());
	if (first < 0)
		first = mine;
	if (mine == first)
		return 0;
	PyErr_SetString(PyExc_ImportError,
		"another interpreter of this process has imported penstock: use it there");
	return -1;
}

static int module_exec(PyObject *module)
{
	struct module_state *state = PyModule_GetState(module);
	if (module_refuse_subinterpreter() < 0 || module_take_errors(state) < 0 ||
		module_add_types(module, state) < 0 ||
		module_add(module, "LIBRARY", module_library()) < 0 ||
		module_add(module, "KEYS", options_keys()) < 0)
		return -1;
	return module_add(module, "VERSION", PyUnicode_FromString(penstock_version()));
}

/* ---- ending ---- */

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct module_state *state = PyModule_GetState(module);
	Py_VISIT(state->from_code);
	Py_VISIT(state->closed_error);
	Py_VISIT(state->read_only_error);
	Py_VISIT(state->stream);
	Py_VISIT(state->batch);
	Py_VISIT(state->view);
	Py_VISIT(state->pool);
	Py_VISIT(state->block);
	Py_VISIT(state->converter);
	Py_VISIT(state->mixer);
	Py_VISIT(state->cuda);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct module_state *state = PyModule_GetState(module);
	Py_CLEAR(state->from_code);
	Py_CLEAR(state->closed_error);
	Py_CLEAR(state->read_only_error);
	Py_CLEAR(state->stream);
	Py_CLEAR(state->batch);
	Py_CLEAR(state->view);
	Py_CLEAR(state->pool);
	Py_CLEAR(state->block);
	Py_CLEAR(state->converter);
	Py_CLEAR(state->mixer);
	Py_CLEAR(state->cuda);
	return 0;
}

static void module_free(void *module)
{
	(void)module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
	{Py_mod_exec, MODULE_SLOT(module_exec)},
	{0, NULL},
};

static struct PyModuleDef module_definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_penstock",
	.m_doc = "The compiled half of penstock: libpenstock. It computes and waits without the "
		 "GIL.\n\n"
		 "Private to the package. Only one interpreter of a process can use it, and only "
		 "in a Python with a GIL.",
	.m_size = sizeof(struct module_state),
	.m_methods = module_functions,
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__penstock(void);

PyMODINIT_FUNC PyInit__penstock(void)
{
	return PyModuleDef_Init(&module_definition);
}
