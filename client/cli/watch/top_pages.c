/* top_pages: the pages: one stream in detail, memory, notices, help; see top_view.h. */
#include "client/cli/watch/top_parts.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/bar.h"
#include "client/cli/recipe.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES_TEXT = 1024, PAGES_BAR = 32 };

/* "progressive 12, cmyk 3": an object of counts. */
static void pages_counts(const struct node *counts, char *buffer, size_t room)
{
	size_t n = 0;
	buffer[0] = 0;
	for (size_t i = 0; i < document_count(counts) && n + 1 < room; i++) {
		char number[32];
		const char *name = "";
		double value = document_value(document_at(counts, i, &name));
		n += (size_t)snprintf(buffer + n, room - n, "%s%s %s", n ? ", " : "", name,
			top_count(value, number, sizeof number));
	}
}

/* An object of seconds as shares of their sum. */
static void pages_shares(const struct node *seconds, char *buffer, size_t room)
{
	size_t n = 0;
	double sum = 0;
	buffer[0] = 0;
	for (size_t i = 0; i < document_count(seconds); i++)
		sum += UTIL_MAX(document_value(document_at(seconds, i, NULL)), 0.0);
	for (size_t i = 0; i < document_count(seconds) && n + 1 < room; i++) {
		char percent[24];
		const char *name = "";
		double value = document_value(document_at(seconds, i, &name));
		n += (size_t)snprintf(buffer + n, room - n, "%s%s %s", n ? ", " : "", name,
			top_percent(top_share(value, sum), percent, sizeof percent));
	}
}

/* The plural ending. */
static const char *pages_s(double n)
{
	return n == 1 ? "" : "s";
}

static void pages_recipe(const struct node *stream, struct paper *paper)
{
	char text[PAGES_TEXT];
	struct recipe recipe;
	if (!document_get(stream, "batch_size"))
		return;
	recipe_of_stream(&recipe, stream);
	recipe_describe(&recipe, text, sizeof text);
	top_line(paper, "recipe", PAPER_PLAIN, text);
}

static void pages_share(const struct node *stream, struct paper *paper)
{
	char text[PAGES_TEXT];
	double world = document_number(stream, "world_size", 0),
	       wait_for = document_number(stream, "wait_for", 1);
	bool detaches = strcmp(document_text(stream, "laggard", "block"), "detach") == 0;
	if (!document_get(stream, "share"))
		return;
	if (answer_splits(stream))
		(void)snprintf(text, sizeof text, "split among %.0f rank%s, this is rank %.0f",
			world, pages_s(world), document_number(stream, "rank", 0));
	else
		(void)snprintf(text, sizeof text,
			"every batch to every trainer, once %.0f have joined", wait_for);
	(void)strncat(
		text, detaches ? "; laggards are detached" : "", sizeof text - strlen(text) - 1);
	top_line(paper, "group", PAPER_PLAIN, text);
}

static void pages_position(const struct node *stream, struct paper *paper)
{
	char text[PAGES_TEXT], at[32], of[32], samples[32], images[32];
	const char *state = document_text(stream, "state", "");
	top_line(paper, "state", strcmp(state, "serving") == 0 ? PAPER_PLAIN : PAPER_WARN, state);
	if (document_get(stream, "indexed_samples")) {
		(void)snprintf(text, sizeof text, "%s samples so far, %s",
			top_count(document_number(stream, "indexed_samples", 0), samples,
				sizeof samples),
			top_bytes_of(document_number(stream, "indexed_bytes", 0),
				top_number(stream, "total_bytes"), at, sizeof at));
		top_line(paper, "indexed", PAPER_PLAIN, text);
	}
	if (!document_get(stream, "batches"))
		return;
	(void)snprintf(text, sizeof text, "epoch %.0f, batch %s of %s; %s samples",
		document_number(stream, "epoch", 0),
		top_count(document_number(stream, "batch", 0), at, sizeof at),
		top_count(document_number(stream, "batches", 0), of, sizeof of),
		top_count(document_number(
				  stream, "order_samples", document_number(stream, "samples", 0)),
			samples, sizeof samples));
	top_line(paper, "at", PAPER_PLAIN, text);
	(void)snprintf(text, sizeof text, "%s images/s; %s images since it was opened",
		top_count(document_number(stream, "rate", 0), at, sizeof at),
		top_count(document_number(stream, "images", 0), images, sizeof images));
	top_line(paper, "rate", PAPER_PLAIN, text);
}

static void pages_slots(const struct top_view *view, const struct node *stream, struct paper *paper)
{
	char bar[BAR_ROOM], text[PAGES_TEXT], each[24];
	double amounts[BAR_KINDS] = {document_number(stream, "leased", 0),
		document_number(stream, "ready", 0), document_number(stream, "slots_filling", 0),
		document_number(stream, "slots_free", 0)};
	for (int i = 0; i < BAR_KINDS; i++)
		if (!(amounts[i] >= 0 && amounts[i] < 1e9))
			return;
	if (!document_get(stream, "slots"))
		return;
	top_line(paper, "slots", PAPER_PLAIN,
		bar_parts(amounts, BAR_KINDS, UTIL_MIN(PAGES_BAR, paper->width / 3), view->utf8,
			bar));
	(void)snprintf(text, sizeof text,
		"%.0f held, %.0f ready, %.0f being filled, %.0f free; %s each%s%s", amounts[0],
		amounts[1], amounts[2], amounts[3],
		top_bytes(top_number(stream, "slot_bytes"), each, sizeof each),
		document_bool(stream, "locked", false) ? ", locked" : "",
		document_bool(stream, "huge_pages", false) ? ", huge pages" : "");
	top_line(paper, "", PAPER_PLAIN, text);
}

static void pages_evidence(
	const struct top_view *view, const struct node *stream, struct paper *paper)
{
	static const struct {
		const char *key, *label;
	} shares[] = {{"trainer_wait", "trainers"}, {"slots_full", "slots full"},
		{"workers_idle", "idle"}, {"cpu_busy", "processors"}, {"cpu_stolen", "stolen"},
		{"read_busy", "reading"}, {"buffers_full", "buffers"}};
	const struct node *evidence = document_get(stream, "bottleneck");
	top_line(paper, "verdict", PAPER_BOLD, document_text(stream, "verdict", ""));
	top_line(paper, "remedy", PAPER_PLAIN, document_text(stream, "remedy", ""));
	for (size_t i = 0; i < UTIL_COUNT(shares); i++) {
		char percent[24];
		double share = top_number(evidence, shares[i].key);
		top_bar_line(view, paper, shares[i].label, share,
			top_percent(share, percent, sizeof percent));
	}
	double p50 = top_number(document_get(stream, "waits_ms"), "p50"),
	       p99 = top_number(document_get(stream, "waits_ms"), "p99");
	char text[PAGES_TEXT] = "";
	if (!isnan(p50) && !isnan(p99))
		(void)snprintf(text, sizeof text, "p50 %.3g ms, p99 %.3g ms for a batch", p50, p99);
	top_line(paper, "waited", PAPER_PLAIN, text);
}

static void pages_decoding(const struct node *stream, struct paper *paper)
{
	char text[PAGES_TEXT];
	pages_shares(document_get(stream, "decode_stages"), text, sizeof text);
	top_line(paper, "decoding", PAPER_PLAIN, text);
	pages_counts(document_get(stream, "fallbacks"), text, sizeof text);
	top_line(paper, "to libjpeg", PAPER_PLAIN, text);
	pages_counts(document_get(stream, "checkpoints"), text, sizeof text);
	top_line(paper, "entry points", PAPER_PLAIN, text);
	pages_counts(document_get(stream, "broken"), text, sizeof text);
	top_line(paper, "broken", PAPER_WARN, text);
	top_line(paper, "notice", PAPER_WARN, document_text(stream, "notice", ""));
}

void top_page_stream(const struct top_view *view, const struct node *stream, struct paper *paper)
{
	struct top_rows rows;
	char text[PAGES_TEXT];
	if (!stream) {
		paper_line(paper);
		paper_wrap(paper, PAPER_WARN, "this stream has ended");
		return;
	}
	(void)snprintf(text, sizeof text, "%s", answer_name(stream));
	top_line(paper, "stream", PAPER_BOLD, text);
	top_line(paper, "differs", PAPER_PLAIN, answer_differs(stream));
	top_line(paper, "source", PAPER_PLAIN, document_text(stream, "source", ""));
	pages_recipe(stream, paper);
	pages_share(stream, paper);
	pages_position(stream, paper);
	pages_slots(view, stream, paper);
	pages_evidence(view, stream, paper);
	pages_decoding(stream, paper);
	if (top_rows_trainers(view, stream, paper->width, &rows) < 0)
		return;
	paper_line(paper);
	if (rows.count)
		columns_head(&rows.columns, paper);
	for (size_t i = 0; i < rows.count; i++)
		columns_row(&rows.columns, paper, i);
	top_rows_free(&rows);
}

static int pages_by_bytes(const void *a, const void *b)
{
	double x = document_number(*(const struct node *const *)a, "bytes", 0),
	       y = document_number(*(const struct node *const *)b, "bytes", 0);
	return (x < y) - (x > y);
}

static void pages_ledger_line(
	const struct top_view *view, const struct node *line, double budget, struct paper *paper)
{
	enum { PAGES_NUMBER = 11, PAGES_CELLS = 16 };
	char bytes[24], bar[BAR_ROOM];
	double amount = document_number(line, "bytes", 0);
	paper_line(paper);
	paper_field(paper, PAPER_PLAIN, top_bytes(amount, bytes, sizeof bytes), PAGES_NUMBER, true);
	paper_tab(paper, paper->at + 1);
	double share = top_share(amount, budget);
	paper_put(paper, PAPER_GOOD, "%s",
		bar_share(isnan(share) ? 0 : share, PAGES_CELLS, view->utf8, bar));
	paper_tab(paper, paper->at + 1);
	paper_wrap(paper, PAPER_PLAIN, document_text(line, "name", "?"));
}

static void pages_ledger(const struct top_view *view, struct paper *paper)
{
	const struct node *memory = document_get(view->now, "memory"),
			  *lines = document_get(memory, "lines");
	double budget = top_number(memory, "budget"), reserved = top_number(memory, "reserved");
	size_t count = document_count(lines);
	char text[64];
	const struct node **line = calloc(count + 1, sizeof *line);
	top_bar_line(view, paper, "ledger", top_share(reserved, budget),
		top_bytes_of(reserved, budget, text, sizeof text));
	for (size_t i = 0; line && i < count; i++)
		line[i] = document_at(lines, i, NULL);
	if (line)
		qsort(line, count, sizeof *line, pages_by_bytes);
	for (size_t i = 0; line && i < count; i++)
		pages_ledger_line(view, line[i], budget, paper);
	free(line);
}

static void pages_cache(const struct node *root, struct paper *paper)
{
	char hits[32], misses[32], samples[32], bytes[24], text[PAGES_TEXT];
	const struct node *cache = document_get(root, "cache");
	if (!document_get(cache, "mode"))
		return;
	(void)snprintf(text, sizeof text, "%s; holds %s samples, %s; %s hits, %s misses",
		document_text(cache, "mode", "?"),
		top_count(document_number(cache, "samples", 0), samples, sizeof samples),
		top_bytes(document_number(cache, "bytes", 0), bytes, sizeof bytes),
		top_count(document_number(cache, "hits", 0), hits, sizeof hits),
		top_count(document_number(cache, "misses", 0), misses, sizeof misses));
	top_line(paper, "cache", PAPER_PLAIN, text);
}

static void pages_disk_cache(const struct node *remote, struct paper *paper)
{
	char used[48], hits[24], text[PAGES_TEXT];
	const struct node *cache = document_get(remote, "cache");
	if (!cache)
		return;
	(void)snprintf(text, sizeof text, "%s; %s read from it",
		top_bytes_of(
			top_number(cache, "used"), top_number(cache, "size"), used, sizeof used),
		top_bytes(top_number(remote, "hit_bytes"), hits, sizeof hits));
	top_line(paper, "disk cache", PAPER_PLAIN, text);
}

static void pages_machine(const struct top_view *view, struct paper *paper)
{
	const struct node *machine = document_get(view->now, "machine"),
			  *cgroup = document_get(machine, "cgroup");
	double total = top_number(machine, "total"), free_now = top_number(machine, "available");
	double used = top_number(cgroup, "used"), limit = top_number(cgroup, "limit");
	char text[PAGES_TEXT], number[24];
	top_bar_line(view, paper, "machine", top_share(total - free_now, total),
		top_bytes_of(total - free_now, total, text, sizeof text));
	top_bar_line(view, paper, "cgroup", top_share(used, limit),
		top_bytes_of(used, limit, text, sizeof text));
	top_line(paper, "", PAPER_PLAIN, document_text(cgroup, "path", ""));
	double kills = top_number(cgroup, "oom_kills");
	if (isnan(kills))
		kills = top_number(machine, "oom_kills");
	top_line(paper, "OOM kills", kills > 0 ? PAPER_BAD : PAPER_PLAIN,
		top_count(kills, number, sizeof number));
	top_line(paper, "swap free", PAPER_PLAIN,
		top_bytes(top_number(machine, "swap_free"), number, sizeof number));
	top_line(paper, "disk free", PAPER_PLAIN,
		top_bytes(top_number(machine, "disk_free"), number, sizeof number));
}

static void pages_gpus(const struct top_view *view, struct paper *paper)
{
	const struct node *gpus = document_get(view->now, "gpus");
	for (size_t i = 0; i < document_count(gpus); i++) {
		const struct node *gpu = document_at(gpus, i, NULL);
		char label[24], bytes[48], busy[24], text[PAGES_TEXT];
		double used = top_number(gpu, "used"), total = top_number(gpu, "total");
		(void)snprintf(
			label, sizeof label, "GPU %.0f", document_number(gpu, "device", (double)i));
		(void)top_percent(top_number(gpu, "busy"), busy, sizeof busy);
		(void)snprintf(text, sizeof text, "%s%s%s%s %s",
			top_bytes_of(used, total, bytes, sizeof bytes), *busy ? ", " : "", busy,
			*busy ? " busy," : ",", document_text(gpu, "name", ""));
		top_bar_line(view, paper, label, top_share(used, total), text);
	}
}

void top_page_memory(const struct top_view *view, struct paper *paper)
{
	char text[PAGES_TEXT];
	const struct node *root = view->now, *recorder = document_get(root, "recorder");
	pages_ledger(view, paper);
	top_line(paper, "resident", PAPER_PLAIN,
		top_bytes(top_number(root, "resident_bytes"), text, sizeof text));
	pages_cache(root, paper);
	pages_disk_cache(document_get(root, "remote"), paper);
	pages_machine(view, paper);
	pages_gpus(view, paper);
	top_line(paper, "reader", PAPER_PLAIN, document_text(root, "reader", ""));
	top_line(paper, "socket", PAPER_PLAIN, document_text(root, "socket", ""));
	top_line(paper, "page", PAPER_PLAIN, document_text(root, "http", ""));
	top_line(paper, "recorder", PAPER_PLAIN, document_text(recorder, "path", ""));
}

void top_page_notices(const struct top_view *view, struct paper *paper)
{
	const struct node *notices = document_get(view->now, "notices"),
			  *streams = document_get(view->now, "streams");
	int before = paper->rows;
	for (size_t i = 0; i < document_count(notices); i++)
		top_line(paper, "daemon", PAPER_PLAIN,
			document_string(document_at(notices, i, NULL)));
	for (size_t i = 0; i < document_count(streams); i++) {
		const struct node *one = document_at(streams, i, NULL);
		top_line(paper, answer_name(one), PAPER_PLAIN, document_text(one, "notice", ""));
	}
	if (paper->rows == before) {
		paper_line(paper);
		paper_put(paper, PAPER_PLAIN, "no notices");
	}
}

void top_page_help(struct paper *paper)
{
	static const struct {
		const char *key, *what;
	} keys[] = {{"s", "streams, the first page"},
		{"up, down", "select a stream, or scroll the page; also j and k, PgUp and PgDn, "
			     "Home and "
			     "End"},
		{"Enter", "show the selected stream in detail"}, {"t", "trainers"},
		{"m", "memory and machine"}, {"n", "notices"},
		{"o", "sort the rows in another order"}, {"p", "pause; again: continue"},
		{"+ and -", "ask less often, more often"}, {"Esc", "back"}, {"q", "end"}, {"", ""},
		{"waits",
			"share of the last seconds in which a trainer held no batch and waited for "
			"one: what the loader costs it"},
		{"differs", "what tells the stream apart from the others of its dataset"},
		{"slots", "batches in memory, from dark to light: held by trainers, ready, being "
			  "filled, free"},
		{"held up by", "what keeps this stream from being faster; `trainer`: nothing in "
			       "penstock"},
		{"holds", "batches that a trainer has not returned yet"},
		{"blocks", "how long the other trainers of its group have waited for this one"},
		{"ledger", "how much of the memory budget is reserved, and for what"},
		{"pressure", "share of the last ten seconds that some/all tasks waited for it "
			     "(PSI)"}};
	for (size_t i = 0; i < UTIL_COUNT(keys); i++) {
		if (*keys[i].what)
			top_line(paper, keys[i].key, PAPER_PLAIN, keys[i].what);
		else
			paper_line(paper);
	}
}
