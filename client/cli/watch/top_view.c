/* top_view: keys, selection, and which part gets which lines; see top_view.h. */
#include "client/cli/watch/top_parts.h"

#include "base/util.h"
#include "client/cli/answer.h"

#include <math.h>
#include <string.h>

static size_t view_streams(const struct top_view *view)
{
	return document_count(document_get(view->now, "streams"));
}

/* The selected stream: found by its name if it still exists, else by its row. */
static const struct node *view_find(struct top_view *view, const struct top_rows *rows)
{
	char name[TOP_NAME];
	if (!rows->count)
		return NULL;
	for (size_t i = 0; view->name[0] && i < rows->count; i++) {
		top_identity(rows->row[i].stream, name, sizeof name);
		if (strcmp(name, view->name) == 0) {
			view->selected = i;
			return rows->row[i].stream;
		}
	}
	/* On its detail page, another stream must not take its place. */
	if (view->page == TOP_STREAM && view->name[0])
		return NULL;
	view->selected = UTIL_MIN(view->selected, rows->count - 1);
	return rows->row[view->selected].stream;
}

/* Selects a row of the table of streams; clamps a row outside the table. */
static void view_select(struct top_view *view, int64_t row)
{
	struct top_rows rows;
	if (top_rows_streams(view, 1, &rows) < 0)
		return;
	if (rows.count) {
		int64_t last = (int64_t)rows.count - 1;
		view->selected = (size_t)UTIL_MAX(UTIL_MIN(row, last), 0);
		top_identity(rows.row[view->selected].stream, view->name, sizeof view->name);
	}
	top_rows_free(&rows);
}

void top_view_take(
	struct top_view *view, const struct node *now, const struct node *before, double elapsed_s)
{
	/* A new daemon counts from zero. */
	bool same = before && document_number(now, "pid", 0) == document_number(before, "pid", 0) &&
		    document_number(now, "uptime_s", 0) >= document_number(before, "uptime_s", 0);
	view->now = now;
	view->before = same && elapsed_s > 0 ? before : NULL;
	view->elapsed_s = elapsed_s;
}

/* Keys that move: the selection on the first page, the text on the others. */
static enum top_outcome view_move(struct top_view *view, int key)
{
	int page = UTIL_MAX(view->window - 1, 1);
	int step = key == TOP_KEY_UP || key == 'k'          ? -1
		   : key == TOP_KEY_DOWN || key == 'j'      ? 1
		   : key == TOP_KEY_PAGE_UP                 ? -page
		   : key == TOP_KEY_PAGE_DOWN || key == ' ' ? page
		   : key == TOP_KEY_HOME                    ? INT32_MIN / 2
		   : key == TOP_KEY_END                     ? INT32_MAX / 2
							    : 0;
	if (!step)
		return TOP_NOTHING;
	if (view->page == TOP_STREAMS)
		view_select(view, (int64_t)view->selected + step);
	else
		view->scroll =
			UTIL_MAX(UTIL_MIN(view->scroll + step, view->lines - view->window), 0);
	return TOP_REDRAW;
}

static enum top_outcome view_turn(struct top_view *view, enum top_page page)
{
	if (page != view->page && view->page != TOP_HELP)
		view->back = page == TOP_HELP ? view->page : TOP_STREAMS;
	view->page = page;
	view->scroll = 0;
	return TOP_REDRAW;
}

/* The next step of 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60 s, from any interval. */
static void view_pace(struct top_view *view, bool slower)
{
	static const double steps[] = {
		TOP_INTERVAL_LEAST_S, 0.5, 1, 2, 5, 10, 20, 30, TOP_INTERVAL_MOST_S};
	size_t n = UTIL_COUNT(steps), i = 0;
	if (slower) {
		while (i + 1 < n && steps[i] <= view->interval_s)
			i++;
	} else {
		i = n - 1;
		while (i && steps[i] >= view->interval_s)
			i--;
	}
	view->interval_s = steps[i];
}

static enum top_outcome view_change(struct top_view *view, int key)
{
	unsigned orders = top_orders(view->page);
	switch (key) {
	case 'o':
		if (!orders)
			return TOP_NOTHING;
		view->order[view->page] = (view->order[view->page] + 1) % orders;
		return TOP_REDRAW;
	case 'p':
		view->paused = !view->paused;
		return TOP_REDRAW;
	case '+':
	case '-':
		view_pace(view, key == '+');
		return TOP_REDRAW;
	default:
		return view_move(view, key);
	}
}

static enum top_outcome view_closer(struct top_view *view)
{
	if (view->page != TOP_STREAMS || !view_streams(view))
		return TOP_NOTHING;
	view_select(view, (int64_t)view->selected);
	return view_turn(view, TOP_STREAM);
}

enum top_outcome top_view_key(struct top_view *view, int key)
{
	switch (key) {
	case 'q':
	case 'Q':
		return TOP_QUIT;
	case 's':
		return view_turn(view, TOP_STREAMS);
	case 't':
		return view_turn(view, TOP_TRAINERS);
	case 'm':
		return view_turn(view, TOP_MEMORY);
	case 'n':
		return view_turn(view, TOP_NOTICES);
	case '?':
	case 'h':
		return view_turn(view, view->page == TOP_HELP ? view->back : TOP_HELP);
	case TOP_KEY_BACK:
		return view_turn(view, view->page == TOP_HELP ? view->back : TOP_STREAMS);
	case TOP_KEY_ENTER:
		return view_closer(view);
	default:
		return view_change(view, key);
	}
}

/* The keys, the most needed first, as many as fit. */
static void view_keys(const struct top_view *view, struct paper *paper)
{
	static const struct {
		const char *key, *what;
	} keys[] = {{"q", "quit"}, {"?", "help"}, {"Enter", "closer"}, {"t", "trainers"},
		{"m", "memory"}, {"n", "notices"}, {"s", "streams"}, {"o", "order: "},
		{"p", "pause"}, {"+-", "pace"}};
	const char *order = top_order_name(view->page, view->order[view->page]);
	paper_line(paper);
	for (size_t i = 0; i < UTIL_COUNT(keys); i++) {
		bool sorts = keys[i].key[0] == 'o', first = view->page == TOP_STREAMS;
		bool useless = (keys[i].key[0] == 'E' && !first) || (sorts && !*order) ||
			       (keys[i].key[0] == 's' && first);
		int wanted = (int)(strlen(keys[i].key) + strlen(keys[i].what) + 1 +
				   (sorts ? strlen(order) : 0));
		int gap = paper->at ? 2 : 0;
		if (useless || paper->at + gap + wanted > paper->width)
			continue;
		paper_tab(paper, paper->at + gap);
		paper_put(paper, PAPER_BOLD, "%s", keys[i].key);
		paper_put(paper, PAPER_DIM, " %s%s", keys[i].what, sorts ? order : "");
	}
}

/* The rows from `first` on of a table with more rows than fit. */
static void view_rows(
	const struct top_rows *rows, size_t first, size_t count, bool mark, struct paper *paper)
{
	for (size_t i = first; i < first + count && i < rows->count; i++) {
		columns_row(&rows->columns, paper, i);
		if (mark && i == rows->view->selected)
			paper_mark(paper, PAPER_REVERSE);
	}
}

/* The streams, in the given number of lines, the selected one among them. */
static void view_table(
	struct top_view *view, struct top_rows *rows, int height, struct paper *paper)
{
	int shown = UTIL_MAX(height - 1, 1);
	if (height > 1)
		columns_head(&rows->columns, paper);
	int64_t last = (int64_t)rows->count - shown,
		first = UTIL_MIN((int64_t)view->selected - shown / 2, last);
	view->window = shown;
	view_rows(rows, (size_t)UTIL_MAX(first, 0), (size_t)shown, true, paper);
}

/* The lines that remain below the streams show the trainers, so that the user need not open their
 * page. */
static void view_below(const struct top_view *view, int height, struct paper *paper)
{
	enum { VIEW_LEAST = 3 }; /* a blank line, the titles, a trainer */
	struct top_rows rows;
	int left = height - paper->rows;
	if (left < VIEW_LEAST || top_rows_trainers(view, NULL, paper->width, &rows) < 0)
		return;
	if (rows.count) {
		paper_line(paper);
		columns_head(&rows.columns, paper);
		view_rows(&rows, 0, (size_t)left - 2, false, paper);
	}
	top_rows_free(&rows);
}

/* The head and the streams share the lines: first the title, the sentence and a few streams,
 * then the bars, then the other streams. */
static void view_first(struct top_view *view, int height, struct paper *paper)
{
	struct top_rows rows;
	struct paper facts;
	if (top_rows_streams(view, paper->width, &rows) < 0)
		return;
	(void)view_find(view, &rows);
	paper_init(&facts, paper->width, view->utf8);
	top_facts(view, &facts);
	int left = height - paper->rows,
	    table = rows.count ? (int)UTIL_MIN(rows.count, 500) + 1 : 0;
	int least = UTIL_MIN(table, UTIL_MAX(4, left / 3));
	int bars = UTIL_MAX(UTIL_MIN(facts.rows, left - least), 0);
	paper_append(paper, &facts, 0, bars);
	paper_free(&facts);
	left -= bars;
	if (bars && left > table) {
		paper_line(paper);
		left--;
	}
	if (table && left > 0)
		view_table(view, &rows, left, paper);
	view_below(view, height, paper);
	top_rows_free(&rows);
}

static void view_trainers(struct top_view *view, int height, struct paper *paper)
{
	struct top_rows rows;
	if (top_rows_trainers(view, NULL, paper->width, &rows) < 0)
		return;
	if (!rows.count) {
		paper_line(paper);
		paper_put(paper, PAPER_PLAIN, "no trainers");
	} else if (height - paper->rows > 1) {
		columns_head(&rows.columns, paper);
	}
	view->lines = (int)UTIL_MIN(rows.count, INT32_MAX);
	view->window = UTIL_MAX(height - paper->rows, 1);
	view->scroll = UTIL_MAX(UTIL_MIN(view->scroll, view->lines - view->window), 0);
	view_rows(&rows, (size_t)view->scroll, (size_t)view->window, false, paper);
	top_rows_free(&rows);
}

/* A page of text: as much as fits, from the scroll position on. */
static void view_text(struct top_view *view, int height, struct paper *paper)
{
	struct paper page;
	struct top_rows rows;
	paper_init(&page, paper->width, view->utf8);
	if (view->page == TOP_STREAM && top_rows_streams(view, paper->width, &rows) == 0) {
		top_page_stream(view, view_find(view, &rows), &page);
		top_rows_free(&rows);
	} else if (view->page == TOP_MEMORY) {
		top_page_memory(view, &page);
	} else if (view->page == TOP_NOTICES) {
		top_page_notices(view, &page);
	} else if (view->page == TOP_HELP) {
		top_page_help(&page);
	}
	view->lines = page.rows;
	view->window = UTIL_MAX(height - paper->rows, 1);
	view->scroll = UTIL_MAX(UTIL_MIN(view->scroll, view->lines - view->window), 0);
	paper_append(paper, &page, view->scroll, view->window);
	paper_free(&page);
}

/* Appends at most the given number of lines of a part that may be long. */
static void view_part(const struct top_view *view,
	void (*part)(const struct top_view *, struct paper *), int most, struct paper *paper)
{
	struct paper whole;
	paper_init(&whole, paper->width, view->utf8);
	part(view, &whole);
	paper_append(paper, &whole, 0, UTIL_MIN(whole.rows, most));
	paper_free(&whole);
}

void top_view_draw(struct top_view *view, int height, struct paper *ret_paper)
{
	enum { VIEW_FOOT = 6 }; /* A lower terminal has no line for the keys. */
	int body = height >= VIEW_FOOT ? height - 1 : height;
	if (view->gone[0])
		view_part(view, top_gone, UTIL_MAX(height / 2, 1), ret_paper);
	if (ret_paper->rows < body)
		view_part(view, top_title, 1, ret_paper);
	if (view->page == TOP_STREAMS && ret_paper->rows < body)
		view_part(view, top_verdict, UTIL_MAX(height / 4, 1), ret_paper);
	if (ret_paper->rows < body && view->page == TOP_STREAMS)
		view_first(view, body, ret_paper);
	else if (ret_paper->rows < body && view->page == TOP_TRAINERS)
		view_trainers(view, body, ret_paper);
	else if (ret_paper->rows < body)
		view_text(view, body, ret_paper);
	while (ret_paper->rows < body && !ret_paper->failed)
		paper_line(ret_paper);
	if (body < height)
		view_keys(view, ret_paper);
}

void top_view_print(struct top_view *view, struct paper *ret_paper)
{
	struct top_rows rows;
	top_title(view, ret_paper);
	top_verdict(view, ret_paper);
	top_facts(view, ret_paper);
	if (top_rows_streams(view, ret_paper->width, &rows) == 0) {
		if (rows.count) {
			paper_line(ret_paper);
			columns_head(&rows.columns, ret_paper);
		}
		view_rows(&rows, 0, rows.count, false, ret_paper);
		top_rows_free(&rows);
	}
	if (top_rows_trainers(view, NULL, ret_paper->width, &rows) == 0) {
		if (rows.count) {
			paper_line(ret_paper);
			columns_head(&rows.columns, ret_paper);
		}
		view_rows(&rows, 0, rows.count, false, ret_paper);
		top_rows_free(&rows);
	}
	if (document_count(document_get(view->now, "notices")))
		top_page_notices(view, ret_paper);
}
