/* picture: contact sheets, from the request to the PNG. Thread: penstock-http.
 *
 * One sheet at a time: the connection that asks is suspended; the event loop is woken and copies
 * rows (http_sheet_give); a task draws them; then all connections that wait for a sheet of that
 * stream are answered. A sheet serves further requests for almost a second, so any number of
 * viewers of a stream cost the event loop one copy a second; and for all streams together the event
 * loop is woken at most once in HTTP_SHEET_EVERY_MS. */
#include "http/http_impl.h"
#include "http/sheet_png.h"

#include "base/clock.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PICTURE_NICE = 10 }; /* where processors are short, decoding goes first */

/* ---- asking ---- */

static void picture_ask(struct http *http, uint32_t stream)
{
	http->drawing = (struct drawing){.asked = true, .stream = stream, .asked_ns = clock_ns()};
	pthread_mutex_lock(&http->lock);
	struct http_sheet *late = http->sheet; /* too late for the last request */
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

/* Whether too many connections wait for sheets: they cannot be ended to make room for others. */
static bool picture_is_crowded(const struct http *http)
{
	unsigned waiting = 1;
	for (unsigned i = 0; i < http->places; i++)
		waiting += http->place[i].fd >= 0 && http->place[i].suspended;
	return waiting > UTIL_MAX(http->places / HTTP_SHEET_SHARE, 1u);
}

enum picture_outcome picture_of(
	struct http *http, struct place *place, uint32_t stream, bool json, struct document *ret)
{
	const struct picture *picture = &http->picture;
	if (place->drawn || picture_is_fresh(http, stream)) {
		bool any = picture->any && picture->stream == stream;
		place->drawn = false;
		*ret = !any ? (struct document){0} : json ? picture->json : picture->png;
		return PICTURE_HERE;
	}
	if (picture_is_crowded(http))
		return PICTURE_CROWDED;
	place->suspended = true;
	place->stream = stream;
	MHD_suspend_connection(place->connection);
	return PICTURE_LATER;
}

/* ---- drawing ---- */

static void picture_draw(void *argument)
{
	struct drawing *drawing = argument;
	(void)setpriority(PRIO_PROCESS, (id_t)gettid(), PICTURE_NICE);
	drawing->json = http_sheet_json(drawing->sheet);
	if (http_sheet_png(drawing->sheet, &drawing->png, &drawing->png_bytes))
		drawing->png = NULL;
}

static bool picture_start(struct http *http, struct http_sheet *sheet)
{
	struct drawing *drawing = &http->drawing;
	drawing->sheet = sheet;
	drawing->task = (struct task){.name = "penstock-sheet",
		.run = picture_draw,
		.argument = drawing,
		.wake = http_poke,
		.context = http};
	return task_start(&drawing->task) == 0;
}

/* ---- answering ---- */

static void picture_forget(struct picture *picture)
{
	document_forget(&picture->png);
	document_forget(&picture->json);
	*picture = (struct picture){0};
}

/* Resumes all connections that wait for a sheet of this stream. */
static void picture_answer(struct http *http)
{
	http->drawing.asked = false;
	for (unsigned i = 0; i < http->places; i++) {
		struct place *place = &http->place[i];
		if (place->fd < 0 || !place->suspended || place->stream != http->drawing.stream)
			continue;
		place->suspended = false;
		place->drawn = true;
		place->since_ns = clock_ns();
		MHD_resume_connection(place->connection);
	}
}

/* Whether a resumed connection has not yet taken its sheet. */
static bool picture_is_due(const struct http *http)
{
	for (unsigned i = 0; i < http->places; i++)
		if (http->place[i].fd >= 0 && http->place[i].drawn)
			return true;
	return false;
}

/* The place that has waited longest for a sheet, or NULL. */
static const struct place *picture_next(const struct http *http)
{
	const struct place *next = NULL;
	for (unsigned i = 0; i < http->places; i++) {
		const struct place *p = &http->place[i];
		if (p->fd >= 0 && p->suspended && (!next || p->since_ns < next->since_ns))
			next = p;
	}
	return next;
}

static void picture_ask_next(struct http *http)
{
	const struct place *next = picture_next(http);
	if (next && clock_ns() - http->drawing.asked_ns >= HTTP_SHEET_EVERY_MS * HTTP_MS_NS)
		picture_ask(http, next->stream);
}

uint64_t picture_due_ns(const struct http *http)
{
	const struct drawing *drawing = &http->drawing;
	if (picture_is_due(http))
		return clock_ns() + HTTP_SHEET_TURN_MS * HTTP_MS_NS;
	if (drawing->asked && !drawing->task.running)
		return drawing->asked_ns + HTTP_SHEET_WAIT_S * HTTP_S_NS;
	if (!drawing->asked && picture_next(http))
		return drawing->asked_ns + HTTP_SHEET_EVERY_MS * HTTP_MS_NS;
	return UINT64_MAX;
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
	picture_forget(picture);
	*picture = (struct picture){.any = true, .stream = drawing->stream, .drawn_ns = clock_ns()};
	if (drawing->png)
		picture->png = document_make("image/png", drawing->png, drawing->png_bytes, true);
	if (drawing->json)
		picture->json = document_make(
			"application/json", drawing->json, strlen(drawing->json), true);
	free(drawing->sheet);
	picture_answer(http);
}

/* Takes what the event loop has given, which may be NULL; false where it has not answered yet. */
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

bool picture_turn(struct http *http)
{
	struct drawing *drawing = &http->drawing;
	struct http_sheet *sheet;
	if (task_collect(&drawing->task))
		picture_drawn(http);
	if (drawing->task.running || picture_is_due(http))
		return picture_is_due(http);
	if (!drawing->asked)
		picture_ask_next(http);
	if (!drawing->asked)
		return false;
	if (!picture_take(http, &sheet)) {
		if (clock_ns() - drawing->asked_ns > HTTP_SHEET_WAIT_S * HTTP_S_NS)
			picture_none(http);
	} else if (sheet && sheet->stream != drawing->stream) {
		free(sheet); /* a late one, of another stream; the right one is still to come */
	} else if (!sheet || !picture_start(http, sheet)) {
		free(sheet);
		picture_none(http);
	}
	return picture_is_due(http);
}

void picture_deinit(struct http *http)
{
	struct drawing *drawing = &http->drawing;
	if (drawing->task.running) {
		task_join(&drawing->task);
		free(drawing->sheet);
		free(drawing->png);
		free(drawing->json);
	}
	free(http->sheet);
	picture_forget(&http->picture);
}
