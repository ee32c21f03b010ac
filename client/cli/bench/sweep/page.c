/* page: see page.h. Every text that comes from a dataset, a path or another program goes through
 * page_put, which escapes it. */
#include "client/cli/bench/sweep/page.h"

#include "base/util.h"
#include "client/cli/bench/report.h"
#include "client/cli/bench/sweep/sweep_points.h"
#include "client/cli/bench/sweep/sweep_show.h"
#include "client/cli/document.h"
#include "client/cli/draw/markup.h"
#include "client/cli/inspect/machine.h"
#include "client/cli/output.h"
#include "client/cli/table.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* page.css; CMake makes an array of it. */
extern const char page_style[];

/* clang-format off */
static const char page_head[] =
"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
"<meta name=\"color-scheme\" content=\"light dark\">\n";
/* clang-format on */

/* What page_put writes before and after its words: a row of a table with a name, a cell of one, a
 * large figure with its meaning, a gray paragraph. */
#define PAGE_FACT(name) "<tr><td>" name "</td><td class=\"words\">", "</td></tr>\n"
#define PAGE_CELL "<td>", "</td>"
#define PAGE_FIGURE(what) "<div><b>", "</b><span>" what "</span></div>\n"
#define PAGE_MUTED "<p class=\"muted\">", "</p>\n"

/* Writes the words, formatted and escaped, between two pieces of markup. */
__attribute__((format(printf, 4, 5))) static void page_put(
	FILE *file, const char *before, const char *after, const char *format, ...)
{
	enum { PAGE_WORDS = 4608 }; /* a path and a sentence */
	char text[PAGE_WORDS];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	(void)fputs(before, file);
	markup_text(file, text);
	(void)fputs(after, file);
}

static void page_begin(FILE *file, const char *title, const char *class)
{
	(void)fprintf(file, "<section class=\"%s\">\n<h2>%s</h2>\n", class, title);
}

static void page_end(FILE *file)
{
	(void)fprintf(file, "</section>\n");
}

/* ---- what the run found ---- */

static void page_title(FILE *file, const struct sweep *sweep)
{
	char when[64];
	time_t now = time(NULL);
	struct tm local;
	(void)localtime_r(&now, &local);
	(void)strftime(when, sizeof when, "%Y-%m-%d %H:%M %Z", &local);
	(void)fputs(page_head, file);
	page_put(file, "<title>", "</title>\n<style>\n", "penstock bench: %s",
		sweep->measure->source);
	(void)fputs(page_style, file);
	page_put(file, "</style>\n</head>\n<body>\n<main>\n<h1>", "</h1>\n", "%s",
		sweep->measure->source);
	page_put(file, PAGE_MUTED, "penstock bench, %s", when);
}

static void page_verdict(FILE *file, const struct measure *run)
{
	char remedy[VERDICT_TEXT];
	page_begin(file, "Verdict", "verdict");
	page_put(file, "<p>", "</p>\n", "%s", document_text(run->stats, "verdict", "none"));
	if (*measure_remedy(run, remedy))
		page_put(file, "<p class=\"remedy\"><b>Remedy:</b> ", "</p>\n", "%s", remedy);
	page_end(file);
}

static void page_figures(FILE *file, const struct sweep *sweep, const struct sweep_point *point)
{
	const struct measure *run = sweep_middle(point);
	char name[128];
	page_begin(file, "In short", "");
	(void)fprintf(file, "<div class=\"figures\">\n");
	page_put(file, "<div><b>", "</b>", "%s", table_rate(spread_median(&point->rate)).text);
	if (point->rate.count > 1)
		page_put(file, "<span>", "</span></div>\n",
			"images/s, median of %zu rounds: %s to %s", point->rate.count,
			table_rate(spread_least(&point->rate)).text,
			table_rate(spread_most(&point->rate)).text);
	else
		(void)fprintf(file, "<span>images/s</span></div>\n");
	if (point->ratio.count)
		page_put(file, PAGE_FIGURE("times libjpeg-turbo's full decode"), "%.2f",
			spread_median(&point->ratio));
	if (point->times.count)
		page_put(file, PAGE_FIGURE("times PyTorch's DataLoader"), "%.2f",
			spread_median(&point->times));
	page_put(file, PAGE_FIGURE("between batches at the 99th percentile"), "%s",
		table_seconds(run->arrivals.p99_s).text);
	page_put(file, PAGE_FIGURE("of the time a trainer waited"), "%.0f %%", run->waited * 100);
	if (run->memory_known)
		page_put(file, PAGE_FIGURE("peak memory of daemon and trainers"), "%s",
			table_bytes(run->peak_memory).text);
	if (run->cpu_known)
		page_put(file, PAGE_FIGURE("processors used by the daemon"), "%.2f",
			run->cpu_s / run->seconds);
	(void)fprintf(file, "</div>\n");
	if (sweep->points > 1)
		page_put(file, PAGE_MUTED,
			"The fastest point: %s. The figures below are from its run nearest to the "
			"median.",
			sweep_name(point, name, sizeof name));
	page_end(file);
}

static int page_plot(FILE *file, const struct plot *plot)
{
	struct drawing drawing;
	plot_draw(plot, &drawing);
	(void)fprintf(file, "<div class=\"wide\"><div class=\"plot\">");
	int r = drawing_svg(&drawing, true, file);
	(void)fprintf(file, "</div></div>\n");
	drawing_deinit(&drawing);
	return r;
}

static int page_over_time(FILE *file, const struct measure *run)
{
	struct sweep_plot plot;
	int r = sweep_plot_over_time(&plot, run, "Images a second over time");
	if (r < 0)
		return r;
	page_begin(file, "Over time", "");
	r = page_plot(file, &plot.plot);
	page_end(file);
	sweep_plot_deinit(&plot);
	return r;
}

static void page_latency(FILE *file, const char *name, const struct histogram_summary *times)
{
	const double quantiles[] = {times->p50_s, times->p90_s, times->p95_s, times->p99_s,
		times->p999_s, times->max_s};
	(void)fprintf(file, "<tr><td>%s</td>", name);
	for (size_t i = 0; i < UTIL_COUNT(quantiles); i++)
		page_put(file, PAGE_CELL, "%s",
			times->total ? table_seconds(quantiles[i]).text : "-");
	page_put(file, "<td>", "</td></tr>\n", "%s", table_count(times->total).text);
}

static void page_latencies(FILE *file, const struct measure *run)
{
	page_begin(file, "Batches", "");
	(void)fprintf(file, "<div class=\"wide\"><table>\n<tr><th></th><th>50 %%</th><th>90 %%</th>"
			    "<th>95 %%</th><th>99 %%</th><th>99.9 %%</th><th>longest</th>"
			    "<th>batches</th></tr>\n");
	page_latency(file, "between two arrivals", &run->arrivals);
	page_latency(file, "waited for by a trainer", &run->waits);
	page_latency(file, "from complete to a waiting trainer", &run->announced);
	(void)fprintf(file, "</table></div>\n");
	page_end(file);
}

static void page_stage(
	FILE *file, const char *indent, const char *name, double seconds, double total)
{
	double share = total > 0 ? seconds / total : 0;
	(void)fprintf(file,
		"<tr><td>%s%s</td><td>%s</td><td>%.1f %%</td><td><span class=\"bar\" "
		"style=\"width:%.1f%%\"></span></td></tr>\n",
		indent, report_stage_name(name), table_seconds(seconds).text, share * 100,
		share * 100);
}

static void page_stages(FILE *file, const struct measure *run)
{
	double total = 0;
	for (int i = 0; i < MEASURE_STAGES; i++)
		total += run->stage_s[i];
	page_begin(file, "Where the CPU time goes", "");
	(void)fprintf(file, "<table class=\"bars\">\n<tr><th>stage</th><th>CPU</th><th>share</th>"
			    "<th></th></tr>\n");
	for (int i = 0; i < MEASURE_STAGES; i++) {
		page_stage(file, "", measure_stage[i], run->stage_s[i], total);
		if (strcmp(measure_stage[i], "decode") != 0)
			continue;
		for (int j = 0; j < MEASURE_DECODE_STAGES; j++)
			if (run->decode_stage_s[j] > 0)
				page_stage(file, "&nbsp;&nbsp;", measure_decode_stage[j],
					run->decode_stage_s[j], total);
	}
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

/* "corrupt 3, truncated 1"; "none" if all are 0. */
static const char *page_counts(const struct node *counts, char *words, size_t room)
{
	return report_counts_words(counts, words, room) > 0 ? words : "none";
}

static void page_memory(FILE *file, const struct measure *run)
{
	const struct node *stats = run->stats;
	char words[512];
	page_begin(file, "Memory and storage", "");
	(void)fprintf(file, "<table>\n");
	page_put(file, PAGE_FACT("peak of daemon and trainers"), "%s",
		run->memory_known ? table_bytes(run->peak_memory).text : "not known");
	page_put(file, PAGE_FACT("peak of the cgroup, with the page cache"), "%s",
		run->cgroup_peak ? table_bytes(run->cgroup_peak).text : "not known");
	if (run->budget)
		page_put(file, PAGE_FACT("budget"), "%s", table_bytes(run->budget).text);
	page_put(file, PAGE_FACT("read from storage"), "%s",
		run->bytes_known ? table_bytes(run->bytes_read).text : "not known");
	if (run->bytes_known && run->images_made > 0)
		page_put(file, PAGE_FACT("read for each image of the window"), "%s",
			table_bytes((uint64_t)((double)run->bytes_read / run->images_made)).text);
	page_put(file, PAGE_FACT("entry points"), "%s",
		page_counts(document_get(stats, "checkpoints"), words, sizeof words));
	page_put(file, PAGE_FACT("images left to libjpeg-turbo"), "%s",
		page_counts(document_get(stats, "fallbacks"), words, sizeof words));
	page_put(file, PAGE_FACT("broken images"), "%s",
		page_counts(document_get(stats, "broken"), words, sizeof words));
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

/* ---- what was compared ---- */

static void page_rate(FILE *file, const struct spread *spread, double rate)
{
	page_put(file, PAGE_CELL, "%s", spread->count ? table_rate(rate).text : "-");
}

/* What was measured beside the loader, and the ratio to it. */
static void page_beside(FILE *file, const struct spread *beside, const struct spread *ratio)
{
	page_rate(file, beside, spread_median(beside));
	if (ratio->count)
		page_put(file, PAGE_CELL, "%.2f", spread_median(ratio));
	else
		(void)fputs("<td>-</td>", file);
}

static void page_point(FILE *file, const struct sweep *sweep, const struct sweep_point *point)
{
	/* The daemon chooses the number of threads, unless it was given. */
	if (point->threads)
		page_put(file, "<tr><td>", "</td>", "%" PRIu64, point->threads);
	else
		(void)fputs("<tr><td>-</td>", file);
	page_put(file, PAGE_CELL, "%" PRIu64, point->batch_size);
	char size[SHAPE_SIZE_TEXT];
	page_put(file, PAGE_CELL, "%s", shape_size_text(point->image_size, size));
	page_rate(file, &point->rate, spread_median(&point->rate));
	if (sweep->rounds > 1) {
		page_rate(file, &point->rate, spread_least(&point->rate));
		page_rate(file, &point->rate, spread_most(&point->rate));
	}
	if (sweep->yardstick)
		page_beside(file, &point->yardstick, &point->ratio);
	if (sweep->options->compare)
		page_beside(file, &point->torch, &point->times);
	(void)fprintf(file, "<td>%s</td></tr>\n", point->failed ? "failed" : "");
}

static void page_table(FILE *file, const struct sweep *sweep)
{
	(void)fprintf(file,
		"<div class=\"wide\"><table>\n<tr><th>threads</th><th>batch</th>"
		"<th>px</th><th>images/s</th>%s%s%s<th></th></tr>\n",
		sweep->rounds > 1 ? "<th>least</th><th>most</th>" : "",
		sweep->yardstick ? "<th>libjpeg-turbo</th><th>ratio</th>" : "",
		sweep->options->compare ? "<th>DataLoader</th><th>times</th>" : "");
	for (size_t i = 0; i < sweep->points; i++)
		page_point(file, sweep, &sweep->point[i]);
	(void)fprintf(file, "</table></div>\n");
}

static int page_sweep_plot(FILE *file, const struct sweep *sweep)
{
	struct sweep_plot plot;
	int r = sweep_plot_init(&plot, sweep);
	if (r == 0)
		r = page_plot(file, &plot.plot);
	sweep_plot_deinit(&plot);
	return r;
}

static int page_compared(FILE *file, const struct sweep *sweep)
{
	char words[512];
	if (!sweep_compares(sweep))
		return 0;
	page_begin(file, sweep->grid.swept ? "The sweep" : "Compared", "");
	int r = sweep->grid.swept ? page_sweep_plot(file, sweep) : 0;
	page_table(file, sweep);
	page_put(file, PAGE_MUTED,
		"%u round%s of %.3g s for each point, interleaved, every second one in the "
		"opposite order; medians, and ratios round by round.",
		sweep->rounds, sweep->rounds == 1 ? "" : "s", sweep->measure->seconds);
	if (*sweep_yardstick_words(sweep, words, sizeof words))
		page_put(file, PAGE_MUTED, "Yardstick: %s.", words);
	if (*sweep_torch_words(sweep, words, sizeof words))
		page_put(file, PAGE_MUTED, "DataLoader: %s.", words);
	if (sweep_made_entry_points(sweep))
		page_put(file, PAGE_MUTED, "Entry points: " SWEEP_MADE ".");
	page_end(file);
	return r;
}

/* ---- how it was measured ---- */

/* An argument as it can be pasted into a shell. */
static void page_argument(FILE *file, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=./:,@%";
	if (*text && text[strspn(text, plain)] == 0) {
		page_put(file, " ", "", "%s", text);
		return;
	}
	page_put(file, " ", "", "'");
	while (*text) {
		/* In pieces that page_put has room for. */
		int size = (int)UTIL_MIN(strcspn(text, "'"), 1024u);
		page_put(file, "", "", "%.*s%s", size, text, text[size] == '\'' ? "'\\''" : "");
		text += size + (text[size] == '\'');
	}
	page_put(file, "", "", "'");
}

static void page_command(FILE *file, const struct sweep *sweep)
{
	page_begin(file, "The command", "");
	(void)fprintf(file, "<pre>penstock bench");
	for (int i = 1; i < sweep->argc; i++)
		page_argument(file, sweep->argv[i]);
	(void)fprintf(file, "</pre>\n");
	page_end(file);
}

static void page_dataset(FILE *file, const struct sweep *sweep, const struct measure *run)
{
	const struct node *stats = run->stats;
	page_begin(file, "What was measured", "");
	(void)fprintf(file, "<table>\n");
	page_put(file, PAGE_FACT("source"), "%s", sweep->measure->source);
	if (*run->dataset)
		page_put(file, PAGE_FACT("dataset"), "%s", run->dataset);
	page_put(file, PAGE_FACT("stream"), "%s", run->described);
	page_put(file, PAGE_FACT("trainers"), "%u%s%s", run->trainers,
		run->trainers > 1 ? ", share " : "", run->trainers > 1 ? run->share : "");
	page_put(file, PAGE_FACT("reader"), "%s, io %s", document_text(stats, "reader", "?"),
		document_text(stats, "io", "?"));
	page_put(file, PAGE_FACT("decoding threads"), "%.0f", document_number(stats, "threads", 0));
	page_put(file, PAGE_FACT("window"), "%.3g s, after %.3g s of warm-up", run->seconds,
		sweep->measure->warmup_s);
	page_put(file, PAGE_FACT("page cache"), "%s",
		run->is_cold ? "the dataset's files were dropped first" : "as it was");
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

static void page_machine(FILE *file)
{
	struct machine machine;
	machine_read(&machine);
	page_begin(file, "The machine", "");
	(void)fprintf(file, "<table>\n");
	page_put(file, PAGE_FACT("processor"), "%s", machine.model);
	page_put(file, PAGE_FACT("processors"), "%u of %u may be used", machine.cpus,
		machine.cpus_online);
	page_put(file, PAGE_FACT("memory"), "%s available; the limit is %s (%s)",
		table_bytes(machine.memory.available).text, table_bytes(machine.memory.limit).text,
		machine.memory.source);
	page_put(file, PAGE_FACT("kernel"), "%s", machine.kernel);
	page_put(file, PAGE_FACT("io_uring"), "%s",
		machine.io_uring ? "yes" : machine.io_uring_text);
	page_put(file, PAGE_FACT("versions"), "penstock %s, %s, %s", PENSTOCK_VERSION, machine.jpeg,
		machine.png);
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

static int page_write(FILE *file, const char *name, const void *context, struct fault *fault)
{
	const struct sweep *sweep = context;
	const struct sweep_point *best = sweep_fastest(sweep);
	const struct measure *run = sweep_middle(best);
	page_title(file, sweep);
	page_verdict(file, run);
	page_figures(file, sweep, best);
	/* Figures mean little without the machine that they are of. */
	page_machine(file);
	int r = page_compared(file, sweep);
	if (r == 0)
		r = page_over_time(file, run);
	page_latencies(file, run);
	page_stages(file, run);
	page_memory(file, run);
	page_dataset(file, sweep, run);
	page_command(file, sweep);
	(void)fprintf(file, "</main>\n</body>\n</html>\n");
	return r < 0 ? fault_set(fault, r, "cannot write %s: out of memory", name) : 0;
}

int page_save(const struct sweep *sweep, const char *path, struct fault *fault)
{
	return output_write(path, true, page_write, sweep, fault);
}
