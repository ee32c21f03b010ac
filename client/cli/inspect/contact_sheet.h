/* sheet: draws a batch as a contact sheet: for each row its source with the crop marked, beside it
 * the row as the network sees it, and underneath its class, its number and what was done to it.
 * Main thread. */
#pragma once

#include "base/fault.h"
#include "client/cli/draw/canvas.h"
#include "dataset/concat.h"
#include "penstock/penstock.h"
#include "pixel/pixel.h"

struct contact_sheet {
	const char *title, *subtitle;
	const struct concat *parts; /* where the sources are read */
	const struct penstock_batch *batch;
	const struct penstock_stream_info *info;
	struct pixel_recipe recipe; /* how its rows were made */
	unsigned rows, columns, tile; /* rows drawn; cells in a line; pixels of a picture's side */
};

/* 0 and a canvas for the caller to free; -ENOMEM; -errno with a fault when the sources cannot be
 * read. */
int contact_sheet_draw(
	const struct contact_sheet *sheet, struct canvas *ret_canvas, struct fault *fault);
