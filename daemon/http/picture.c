/* picture: sheets, from the wish for one to the PNG.
 *
 * One at a time: who asks is suspended; the event loop is waked and copies rows (http_sheet_give);
 * a thread draws them; then all who wanted one of that stream are answered. One that is a second
 * old at most is given to whoever asks meanwhile, so that any number of viewers cost the event loop
 * one copy a second. */
#include "http/http_impl.h"
#include "http/sheet.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { PICTURE_STACK = 256 << 10 };

/* ---- asking ---- */

static void picture_ask(struct http *http, uint32_t stream)
{
	http->drawing = (struct drawing){
		.http = http, .asked = true, .stream = stream, .asked_ns = clock_ns()};
	pthread_mutex_lock(&http->lock);
	struct http_sheet *late = http->sheet; /* for who gave up waiting */
	http->sheet = NULL;
	http->sheet_given = false;
	http->sheet_wanted = true;
	http->sheet_stream = stream;
	pthread_mutex_unlock(&http->lock);
	free(late);
	http->wake(http->wake_context);
}

static bool picture_is_fresh(const struct http *http, uint32_t stream)
{
	return http->picture.drawn_ns && http->picture.stream == stream &&
	       clock_ns() - http->picture.drawn_ns < HTTP_SHEET_FRESH_MS * HTTP_MS_NS;
}

bool picture_of(struct http *http, struct place *place, uint32_t stream, bool json,
	struct MHD_Response **ret)
{
	struct picture *picture = &http->picture;
	if (place->drawn || picture_is_fresh(http, stream)) {
		place->drawn = false;
		*ret = !picture->any || picture->stream != stream ? NULL
		       : json                                     ? picture->json
								  : picture->png;
		return true;
	}
	place->suspended = true;
	place->stream = stream;
	MHD_suspend_connection(place->connection);
	if (!http->drawing.asked)
		picture_ask(http, stream);
	return false;
}

/* ---- drawing ---- */

static void *picture_draw(void *argument)
{
	struct drawing *drawing = argument;
	(void)pthread_setname_np(pthread_self(), "penstock-sheet");
	drawing->json = http_sheet_json(drawing->sheet);
	if (http_sheet_png(drawing->sheet, &drawing->png, &drawing->png_bytes))
		drawing->png = NULL;
	atomic_store_explicit(&drawing->done, true, memory_order_release);
	http_poke(drawing->http);
	return NULL;
}

static bool picture_start(struct drawing *drawing, struct http_sheet *sheet)
{
	pthread_attr_t attr;
	drawing->sheet = sheet;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PICTURE_STACK);
	drawing->started = pthread_create(&drawing->thread, &attr, picture_draw, drawing) == 0;
	pthread_attr_destroy(&attr);
	return drawing->started;
}

/* ---- answering ---- */

static void picture_forget(struct picture *picture)
{
	if (picture->png)
		MHD_destroy_response(picture->png);
	if (picture->json)
		MHD_destroy_response(picture->json);
	*picture = (struct picture){0};
}

/* All who wanted one of this stream go on; the next wish is asked for. */
static void picture_answer(struct http *http)
{
	uint32_t stream = http->drawing.stream;
	const struct place *next = NULL;
	http->drawing.asked = http->drawing.started = false;
	for (unsigned i = 0; i < http->places; i++) {
		struct place *place = &http->place[i];
		if (place->fd < 0 || !place->suspended)
			continue;
		if (place->stream != stream) {
			next = place;
			continue;
		}
		place->suspended = false;
		place->drawn = true;
		place->since_ns = clock_ns();
		MHD_resume_connection(place->connection);
	}
	if (next)
		picture_ask(http, next->stream);
}

/* There is no sheet: no such stream, no batch, no memory, or no answer. */
static void picture_none(struct http *http)
{
	picture_forget(&http->picture);
	http->picture.stream = http->drawing.stream;
	picture_answer(http);
}

static void picture_drawn(struct http *http)
{
	struct drawing *drawing = &http->drawing;
	struct picture *picture = &http->picture;
	(void)pthread_join(drawing->thread, NULL);
	picture_forget(picture);
	*picture = (struct picture){.any = true, .stream = drawing->stream, .drawn_ns = clock_ns()};
	if (drawing->png)
		picture->png = answer_make("image/png", drawing->png, drawing->png_bytes, true);
	if (drawing->json)
		picture->json =
			answer_make("application/json", drawing->json, strlen(drawing->json), true);
	free(drawing->sheet);
	picture_answer(http);
}

/* What the event loop gave: true when it has answered. */
static bool picture_take(struct http *http, struct http_sheet **ret)
{
	pthread_mutex_lock(&http->lock);
	bool given = http->sheet_given;
	*ret = http->sheet;
	http->sheet_given = false;
	http->sheet = NULL;
	pthread_mutex_unlock(&http->lock);
	return given;
}

void picture_turn(struct http *http)
{
	struct drawing *drawing = &http->drawing;
	struct http_sheet *sheet;
	if (drawing->started && atomic_load_explicit(&drawing->done, memory_order_acquire))
		picture_drawn(http);
	if (!drawing->asked || drawing->started)
		return;
	if (!picture_take(http, &sheet)) {
		if (clock_ns() - drawing->asked_ns > HTTP_SHEET_WAIT_S * HTTP_S_NS)
			picture_none(http);
		return;
	}
	if (sheet && sheet->stream != drawing->stream) {
		free(sheet); /* it too came late; ours is still to come */
	} else if (!sheet || !picture_start(drawing, sheet)) {
		free(sheet);
		picture_none(http);
	}
}

void picture_deinit(struct http *http)
{
	struct drawing *drawing = &http->drawing;
	if (drawing->started) {
		(void)pthread_join(drawing->thread, NULL);
		free(drawing->sheet);
		free(drawing->png);
		free(drawing->json);
		drawing->started = false;
	}
	free(http->sheet);
	picture_forget(&http->picture);
}
