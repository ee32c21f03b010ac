/* pool: see pool.h.
 *
 * The tensor of a batch has tens of megabytes. The kernel clears every page of new memory, and
 * takes the pages back as soon as the tensor is freed. Huge pages make that cheaper, and reusing
 * blocks avoids it.
 *
 * A pool exists as long as its object or one of its blocks exists. Once its object is gone, it
 * keeps no unused blocks.
 *
 * Thread: any, with the GIL, which guards the pool. */
#include "client/python/src/pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <structmember.h>

enum { POOL_ALIGNMENT = 4096, POOL_HUGE_PAGE = 2 << 20 };

struct pool {
	Py_ssize_t block_bytes;
	size_t page_bytes, mapped_bytes;
	Py_ssize_t refs; /* held by its object and by each block */
	Py_ssize_t keep; /* the most unused blocks that it keeps */
	Py_ssize_t unused_count;
	void **unused; /* has room for `keep` */
};

struct pool_object {
	PyObject ob_base;
	struct pool *pool;
};

/* ---- memory ---- */

/* Bytes of a page; at least POOL_ALIGNMENT, which a block is promised to have. */
static size_t pool_page(void)
{
	long bytes = sysconf(_SC_PAGESIZE);
	return bytes > POOL_ALIGNMENT ? (size_t)bytes : POOL_ALIGNMENT;
}

static size_t pool_alignment(const struct pool *pool)
{
	return pool->mapped_bytes < POOL_HUGE_PAGE ? pool->page_bytes : POOL_HUGE_PAGE;
}

/* Maps more than is needed and unmaps the rest, because older kernels do not align mappings to huge
 * pages. */
static void *pool_map(const struct pool *pool)
{
	size_t alignment = pool_alignment(pool), slack = alignment - pool->page_bytes;
	char *mapped = mmap(NULL, pool->mapped_bytes + slack, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED)
		return NULL;
	size_t before = -(uintptr_t)mapped & (alignment - 1);
	if (before)
		(void)munmap(mapped, before);
	if (slack > before)
		(void)munmap(mapped + before + pool->mapped_bytes, slack - before);
	/* On failure, the block has ordinary pages. */
	if (slack)
		(void)madvise(mapped + before, pool->mapped_bytes, MADV_HUGEPAGE);
	return mapped + before;
}

static void pool_unref(struct pool *pool)
{
	if (--pool->refs > 0)
		return;
	free(pool->unused);
	free(pool);
}

/* The pool keeps no unused blocks from now on. */
static void pool_close(struct pool *pool)
{
	while (pool->unused_count > 0)
		(void)munmap(pool->unused[--pool->unused_count], pool->mapped_bytes);
	pool->keep = 0;
	pool_unref(pool);
}

static void *pool_take(struct pool *pool)
{
	/* The block that was returned last is the most likely to be in a cache. */
	return pool->unused_count > 0 ? pool->unused[--pool->unused_count] : pool_map(pool);
}

static void pool_put(struct pool *pool, void *memory)
{
	if (pool->unused_count < pool->keep)
		pool->unused[pool->unused_count++] = memory;
	else
		(void)munmap(memory, pool->mapped_bytes);
}

/* ---- Pool ---- */

static struct pool *pool_make(Py_ssize_t block_bytes, Py_ssize_t keep)
{
	struct pool *pool = calloc(1, sizeof *pool);
	void **unused = calloc((size_t)keep + 1, sizeof *unused);
	if (!pool || !unused) {
		free(pool);
		free(unused);
		PyErr_NoMemory();
		return NULL;
	}
	size_t page = pool_page();
	*pool = (struct pool){.block_bytes = block_bytes,
		.page_bytes = page,
		.mapped_bytes = ((size_t)block_bytes + page - 1) / page * page,
		.refs = 1,
		.keep = keep,
		.unused = unused};
	return pool;
}

static PyObject *pool_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = {"block_bytes", "keep", NULL};
	Py_ssize_t block_bytes, keep = 2;
	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "n|n", names, &block_bytes, &keep))
		return NULL;
	if (block_bytes < 1 || block_bytes > PY_SSIZE_T_MAX / 2)
		return PyErr_Format(PyExc_ValueError, "block_bytes: expected 1 to %zd, got %zd",
			PY_SSIZE_T_MAX / 2, block_bytes);
	if (keep < 0 || keep > UINT16_MAX)
		return PyErr_Format(
			PyExc_ValueError, "keep: expected 0 to %d, got %zd", UINT16_MAX, keep);
	struct pool_object *self = (struct pool_object *)PyType_GenericAlloc(type, 0);
	if (!self)
		return NULL;
	self->pool = pool_make(block_bytes, keep);
	if (!self->pool) {
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static PyObject *pool_take_block(PyObject *object, PyObject *unused)
{
	(void)unused;
	struct pool *pool = ((struct pool_object *)object)->pool;
	struct block *block =
		(struct block *)PyType_GenericAlloc(module_state_of(object)->block, 0);
	if (!block)
		return NULL;
	block->address = pool_take(pool);
	if (!block->address) {
		Py_DECREF(block);
		return PyErr_NoMemory();
	}
	block->bytes = pool->block_bytes;
	block->pool = pool;
	pool->refs++;
	return (PyObject *)block;
}

static void pool_dealloc(PyObject *object)
{
	struct pool *pool = ((struct pool_object *)object)->pool;
	if (pool)
		pool_close(pool);
	module_free_object(object);
}

static PyMethodDef pool_methods[] = {
	{"take", pool_take_block, METH_NOARGS, "Returns an unused Block, or a new one."},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot pool_slots[] = {
	{Py_tp_doc, "Pool(block_bytes, keep=2): reuses blocks of one size."},
	{Py_tp_new, MODULE_SLOT(pool_new)},
	{Py_tp_dealloc, MODULE_SLOT(pool_dealloc)},
	{Py_tp_methods, pool_methods},
	{0, NULL},
};

PyType_Spec pool_spec = {
	.name = "penstock._penstock.Pool",
	.basicsize = sizeof(struct pool_object),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = pool_slots,
};

/* ---- Block ---- */

struct block *block_check(struct module_state *state, PyObject *object, size_t bytes)
{
	if (!PyObject_TypeCheck(object, state->block)) {
		PyErr_SetString(PyExc_TypeError, "expected a Block that Pool.take() returned");
		return NULL;
	}
	struct block *block = (struct block *)object;
	if ((size_t)block->bytes < bytes) {
		PyErr_Format(PyExc_ValueError, "the block has %zd bytes: expected at least %zu",
			block->bytes, bytes);
		return NULL;
	}
	return block;
}

static int block_get_buffer(PyObject *object, Py_buffer *buffer, int flags)
{
	const struct block *self = (const struct block *)object;
	return PyBuffer_FillInfo(buffer, object, self->address, self->bytes, 0, flags);
}

static PyObject *block_get_address(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromVoidPtr(((struct block *)object)->address);
}

static void block_dealloc(PyObject *object)
{
	struct block *self = (struct block *)object;
	if (self->pool) {
		pool_put(self->pool, self->address);
		pool_unref(self->pool);
	}
	module_free_object(object);
}

static PyMemberDef block_members[] = {
	{"nbytes", T_PYSSIZET, offsetof(struct block, bytes), READONLY, NULL},
	{NULL, 0, 0, 0, NULL},
};

static PyGetSetDef block_getters[] = {
	{"address", block_get_address, NULL, NULL, NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot block_slots[] = {
	{Py_tp_doc, "Writable memory of a Pool."},
	{Py_tp_new, MODULE_SLOT(module_refuse_new)},
	{Py_tp_dealloc, MODULE_SLOT(block_dealloc)},
	{Py_tp_members, block_members},
	{Py_tp_getset, block_getters},
	{Py_bf_getbuffer, MODULE_SLOT(block_get_buffer)},
	{0, NULL},
};

PyType_Spec block_spec = {
	.name = "penstock._penstock.Block",
	.basicsize = sizeof(struct block),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = block_slots,
};
