/* contact_sheet: draws a batch as a contact sheet: for each row its source with the crop marked,
 * next to it the row as the network sees it, and below them its class, the name of its file, its
 * number and what was done to it. Main thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/draw/canvas.h"
#include "dataset/concat.h"
#include "penstock/penstock.h"
#include "pixel/pixel.h"

/* The views of one group. */
struct contact_sheet_group {
	uint32_t views, height, width;
	const uint8_t *images;
	struct pixel_recipe recipe; /* how they were made */
};

struct contact_sheet {
	const char *title, *subtitle;
	const struct concat *parts; /* the dataset of the sources */
	const struct penstock_batch *batch;
	const struct penstock_stream_info *info;
	const struct contact_sheet_group *group; /* `groups`, at least one; all views together */
	uint32_t groups;
	unsigned rows, columns, tile; /* rows to draw; cells per line; pixels of an image's side */
};

/* Rows whose source is left blank, because it cannot be read or decoded: how many, and why the
 * first one. */
struct contact_sheet_blank {
	unsigned rows;
	uint64_t sample;
	struct fault why;
};

/* 0 and a canvas that the caller frees; -ENOMEM; -errno with a fault if the index of the sources
 * cannot be read. */
int contact_sheet_draw(const struct contact_sheet *sheet, struct canvas *ret_canvas,
	struct contact_sheet_blank *ret_blank, struct fault *fault);
