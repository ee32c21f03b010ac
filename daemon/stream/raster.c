/* raster: see raster.h. Runs on workers, or in the threads of the command. */
#include "stream/raster.h"

#include "base/size.h"
#include "base/util.h"
#include "pixel/pixel.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int raster_init(struct raster *raster, size_t own)
{
	*raster = (struct raster){.own = own, .file = -1};
	if (!own)
		return 0;
	raster->block = aligned_alloc(RASTER_ALIGN, util_align(own, RASTER_ALIGN));
	return raster->block ? 0 : -ENOMEM;
}

void raster_deinit(struct raster *raster)
{
	raster_give_back(raster);
	free(raster->block);
	raster->block = NULL;
	raster->own = 0;
}

void raster_give_back(struct raster *raster)
{
	if (raster->memory && raster->memory != raster->block) {
		if (raster->file >= 0)
			spill_unmap(raster->memory, raster->bytes, 0);
		else
			free(raster->memory);
		if (raster->file >= 0)
			util_close_fd(&raster->file);
		if (raster->pool)
			permit_release(raster->pool, raster->bytes);
	}
	raster->memory = NULL;
	raster->pool = NULL;
	raster->file = -1;
	raster->bytes = 0;
}

/* Memory under a permit. 0, -ENOMEM, or -EAGAIN: the pool has too little. */
static int raster_borrow(struct raster *raster, struct permit *pool, uint64_t bytes, bool wait)
{
	int refused = !pool ? 0 : wait ? permit_acquire(pool, bytes) : permit_try(pool, bytes);
	if (refused == PERMIT_E_TOO_LARGE)
		permit_note(pool, bytes);
	if (refused)
		return -EAGAIN;
	raster->memory = aligned_alloc(RASTER_ALIGN, bytes);
	if (raster->memory) {
		raster->pool = pool;
		return 0;
	}
	if (pool)
		permit_release(pool, bytes);
	return -ENOMEM;
}

static int raster_spill(struct raster *raster, const struct spill *spill, uint64_t bytes)
{
	if (!spill)
		return -ENOMEM;
	int file = spill_open(spill);
	if (file < 0)
		return file;
	int result = spill_memory(file, bytes, &raster->memory);
	if (result) {
		raster->memory = NULL;
		util_close_fd(&file);
		return result;
	}
	raster->file = file;
	return 0;
}

int raster_take(struct raster *raster, const struct raster_beyond *beyond, uint64_t bytes,
	bool wait, uint8_t **ret)
{
	assert(bytes > 0);
	raster_give_back(raster);
	bytes = util_align(bytes, RASTER_ALIGN);
	int result = 0;
	if (raster->block && bytes <= raster->own)
		raster->memory = raster->block;
	else
		result = raster_borrow(raster, beyond->pool, bytes, wait);
	if (result == -EAGAIN)
		result = raster_spill(raster, beyond->spill, bytes);
	if (result)
		return result;
	raster->bytes = bytes;
	*ret = raster->memory;
	return 0;
}

const char *raster_text(
	const struct raster_beyond *beyond, uint64_t bytes, int error, char buffer[RASTER_TEXT])
{
	char wanted[16];
	(void)snprintf(buffer, RASTER_TEXT,
		"the decoded image needs %s, more than the memory budget has for large images; "
		"it goes to a temporary file in %.200s, which fails: %s; make room there, set "
		"cache_dir to a folder on a disk with room, or raise memory",
		size_format(bytes, wanted, sizeof wanted),
		beyond->spill ? beyond->spill->folder : "no folder", strerror(-error));
	return buffer;
}

/* ---- planar rows ---- */

static size_t rows_pitch(uint32_t width)
{
	return util_align(width, RASTER_ALIGN);
}

uint64_t raster_rows_bytes(uint32_t width, uint32_t height)
{
	return (uint64_t)PIXEL_PLANES * rows_pitch(width) * height + PIXEL_ROW_SLACK;
}

void raster_rows_init(struct raster_rows *rows, uint8_t *memory, uint32_t width, uint32_t height)
{
	*rows = (struct raster_rows){
		.memory = memory, .width = width, .height = height, .pitch = rows_pitch(width)};
}

static uint8_t *rows_plane(const struct raster_rows *rows, uint32_t y, size_t plane)
{
	return rows->memory + rows->pitch * ((size_t)PIXEL_PLANES * y + plane);
}

void raster_rows_add(void *rows, const uint8_t *const rgb[PIXEL_PLANES])
{
	struct raster_rows *own = rows;
	assert(own->rows < own->height);
	for (size_t plane = 0; plane < PIXEL_PLANES; plane++)
		memcpy(rows_plane(own, own->rows, plane), rgb[plane], own->width);
	own->rows++;
}

void raster_rows_get(const struct raster_rows *rows, uint32_t x, uint32_t y, const uint8_t *ret[3])
{
	assert(x < rows->width && y < rows->rows);
	for (size_t plane = 0; plane < PIXEL_PLANES; plane++)
		ret[plane] = rows_plane(rows, y, plane) + x;
}
