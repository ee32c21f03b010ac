/* page: see page.h. Whatever a dataset, a path or another program says goes through markup_text. */
#include "client/cli/bench/sweep/page.h"

#include "base/util.h"
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

/* clang-format off */
static const char page_head[] =
"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
"<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char page_style[] =
"<style>\n"
":root{--back:#f4f6f8;--drawing-paper:#fff;--drawing-ink:#1c2126;--drawing-muted:#59636e;--drawing-grid:#dde2e8;"
"--drawing-1:#1f63b5;--drawing-2:#c8590c;--drawing-3:#177a51;--drawing-4:#9a3a94;--drawing-5:#8a6900;--drawing-6:#b8303a;"
"--drawing-7:#0b7c91;--drawing-8:#5b5f66}\n"
"@media (prefers-color-scheme:dark){:root{--back:#12161b;--drawing-paper:#1b2128;--drawing-ink:#e7ebf0;--drawing-muted:#9aa6b2;"
"--drawing-grid:#333d48;--drawing-1:#6fb1ff;--drawing-2:#ff9c57;--drawing-3:#4fcf97;--drawing-4:#dd8ad7;--drawing-5:#dcb84a;"
"--drawing-6:#ff8a8f;--drawing-7:#55cbe0;--drawing-8:#b0b6bf}}\n"
"*{box-sizing:border-box}\n"
"body{margin:0;background:var(--back);color:var(--drawing-ink);font:16px/1.5 system-ui,'DejaVu Sans',Arial,sans-serif}\n"
"main{max-width:62rem;margin:0 auto;padding:1.5rem 1rem 3rem}\n"
"h1{font-size:1.5rem;line-height:1.25;margin:0 0 .25rem;overflow-wrap:anywhere}\n"
"h2{font-size:1.1rem;margin:0 0 .75rem}\n"
"p{margin:.25rem 0;overflow-wrap:anywhere}\n"
".muted{color:var(--drawing-muted)}\n"
"section{background:var(--drawing-paper);border:1px solid var(--drawing-grid);border-radius:.5rem;padding:1rem;margin-top:1rem}\n"
".verdict{border-left:.3rem solid var(--drawing-1)}\n"
".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9.5rem,1fr));gap:.75rem}\n"
".figures div{min-width:0}\n.figures b{display:block;font-size:1.5rem;line-height:1.2;font-variant-numeric:tabular-nums}\n"
".figures span{color:var(--drawing-muted);font-size:.875rem}\n"
".wide{overflow-x:auto}\n"
"table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9375rem}\n"
"th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--drawing-grid);white-space:nowrap}\n"
"th:first-child,td:first-child{text-align:left}\n"
"th{color:var(--drawing-muted);font-weight:600}\n"
"td.words{white-space:normal;text-align:left;overflow-wrap:anywhere}\n"
".bar{display:block;height:.55rem;min-width:1px;border-radius:.2rem;background:var(--drawing-1)}\n"
".bars td:last-child{width:40%;min-width:5rem}\n"
"pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere;font:.875rem/1.5 ui-monospace,'DejaVu Sans Mono',monospace}\n"
"svg{display:block;width:100%;height:auto}\n"
".plot{min-width:36rem}\n"
"@media print{body{background:#fff}section{break-inside:avoid}}\n"
"</style>\n";
/* clang-format on */

static void page_words(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Formatted, and then escaped. */
static void page_words(FILE *file, const char *format, ...)
{
	enum { PAGE_WORDS = 4608 }; /* a path and a sentence */
	char text[PAGE_WORDS];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	markup_text(file, text);
}

static void page_begin(FILE *file, const char *title, const char *class)
{
	(void)fprintf(file, "<section%s%s%s>\n<h2>%s</h2>\n", *class ? " class=\"" : "", class,
		*class ? "\"" : "", title);
}

static void page_end(FILE *file)
{
	(void)fprintf(file, "</section>\n");
}

/* A row of two cells, the second words. */
static void page_fact(FILE *file, const char *name, const char *words)
{
	(void)fprintf(file, "<tr><td>%s</td><td class=\"words\">", name);
	markup_text(file, words);
	(void)fprintf(file, "</td></tr>\n");
}

static void page_figure(FILE *file, const char *value, const char *what)
{
	(void)fprintf(file, "<div><b>");
	markup_text(file, value);
	(void)fprintf(file, "</b><span>");
	markup_text(file, what);
	(void)fprintf(file, "</span></div>\n");
}

/* ---- sections about one run ---- */

static void page_title(FILE *file, const struct sweep *sweep)
{
	char when[64] = "";
	time_t now = time(NULL);
	struct tm local;
	if (localtime_r(&now, &local))
		(void)strftime(when, sizeof when, "%Y-%m-%d %H:%M %Z", &local);
	(void)fputs(page_head, file);
	(void)fprintf(file, "<title>");
	page_words(file, "penstock bench: %s", sweep->measure->source);
	(void)fprintf(file, "</title>\n");
	(void)fputs(page_style, file);
	(void)fprintf(file, "</head>\n<body>\n<main>\n<h1>");
	markup_text(file, sweep->measure->source);
	(void)fprintf(file, "</h1>\n<p class=\"muted\">penstock bench, ");
	markup_text(file, when);
	(void)fprintf(file, "</p>\n");
}

static void page_verdict(FILE *file, const struct measure *run)
{
	page_begin(file, "Verdict", "verdict");
	(void)fprintf(file, "<p>");
	markup_text(file, document_text(run->stats, "verdict", "none"));
	(void)fprintf(file, "</p>\n");
	page_end(file);
}

static void page_figures(FILE *file, const struct sweep *sweep, const struct sweep_point *point)
{
	const struct measure *run = sweep_middle(point);
	char value[64], what[128];
	page_begin(file, "In short", "");
	(void)fprintf(file, "<div class=\"figures\">\n");
	(void)snprintf(what, sizeof what, "images/s");
	if (point->rate.count > 1)
		(void)snprintf(what, sizeof what, "images/s, median of %zu rounds: %s to %s",
			point->rate.count, table_rate(spread_least(&point->rate)).text,
			table_rate(spread_most(&point->rate)).text);
	page_figure(file, table_rate(spread_median(&point->rate)).text, what);
	if (point->ratio.count) {
		(void)snprintf(value, sizeof value, "%.2f", spread_median(&point->ratio));
		page_figure(file, value, "times libjpeg-turbo's full decode");
	}
	if (point->times.count) {
		(void)snprintf(value, sizeof value, "%.2f", spread_median(&point->times));
		page_figure(file, value, "times PyTorch's DataLoader");
	}
	(void)snprintf(what, sizeof what, "between batches at the 99th percentile");
	page_figure(file, table_seconds(run->arrivals.p99_s).text, what);
	(void)snprintf(value, sizeof value, "%.0f %%", run->waited * 100);
	page_figure(file, value, "of the time a trainer waited");
	if (run->memory_known)
		page_figure(file, table_bytes(run->peak_memory).text,
			"memory at most, daemon and trainers");
	if (run->cpu_known) {
		(void)snprintf(value, sizeof value, "%.2f", run->cpu_s / run->seconds);
		page_figure(file, value, "processors busy in the daemon");
	}
	(void)fprintf(file, "</div>\n");
	if (sweep->points > 1) {
		(void)fprintf(file, "<p class=\"muted\">The fastest point: ");
		markup_text(file, sweep_name(point, what, sizeof what));
		(void)fprintf(
			file, ". The figures below are of its run nearest to the median.</p>\n");
	}
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
	for (size_t i = 0; i < UTIL_COUNT(quantiles); i++) {
		(void)fprintf(file, "<td>");
		markup_text(file, times->total ? table_seconds(quantiles[i]).text : "-");
		(void)fprintf(file, "</td>");
	}
	(void)fprintf(file, "<td>%s</td></tr>\n", table_count(times->total).text);
}

static void page_latencies(FILE *file, const struct measure *run)
{
	page_begin(file, "Batches", "");
	(void)fprintf(file, "<div class=\"wide\"><table>\n<tr><th></th><th>50 %%</th><th>90 %%</th>"
			    "<th>95 %%</th><th>99 %%</th><th>99.9 %%</th><th>longest</th>"
			    "<th>batches</th></tr>\n");
	page_latency(file, "between two arrivals", &run->arrivals);
	page_latency(file, "waited for by a trainer", &run->waits);
	page_latency(file, "ready until a waiting trainer has it", &run->announced);
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
		indent, name, table_seconds(seconds).text, share * 100, share * 100);
}

static void page_stages(FILE *file, const struct measure *run)
{
	double total = 0;
	for (int i = 0; i < MEASURE_STAGES; i++)
		total += run->stage_s[i];
	page_begin(file, "Where the processors' time goes", "");
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

/* "corrupt 3, truncated 1"; "none" where all are 0. */
static void page_counts(FILE *file, const char *name, const struct node *counts)
{
	char words[512] = "";
	size_t at = 0;
	for (size_t i = 0; i < document_count(counts) && at < sizeof words; i++) {
		const char *reason = "";
		double count = document_value(document_at(counts, i, &reason));
		if (count > 0)
			at += (size_t)snprintf(words + at, sizeof words - at, "%s%s %.0f",
				at ? ", " : "", reason, count);
	}
	page_fact(file, name, at ? words : "none");
}

static void page_bytes(FILE *file, const char *name, bool known, uint64_t bytes)
{
	page_fact(file, name, known ? table_bytes(bytes).text : "not known");
}

static void page_memory(FILE *file, const struct measure *run)
{
	char text[128];
	page_begin(file, "Memory and storage", "");
	(void)fprintf(file, "<table>\n");
	page_bytes(file, "daemon and trainers, at most", run->memory_known, run->peak_memory);
	page_bytes(file, "the cgroup, page cache included", run->cgroup_peak, run->cgroup_peak);
	if (run->budget)
		page_bytes(file, "budget", true, run->budget);
	page_bytes(file, "read from storage", run->bytes_known, run->bytes_read);
	if (run->bytes_known && run->images_made > 0) {
		(void)snprintf(text, sizeof text, "%s",
			table_bytes((uint64_t)((double)run->bytes_read / run->images_made)).text);
		page_fact(file, "that is, for each image of the window", text);
	}
	page_counts(file, "checkpoints", document_get(run->stats, "checkpoints"));
	page_counts(file, "left to libjpeg-turbo", document_get(run->stats, "fallbacks"));
	page_counts(file, "broken images", document_get(run->stats, "broken"));
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

/* ---- sections about what was compared ---- */

static void page_cell(FILE *file, const struct spread *spread, bool whole)
{
	if (!spread->count)
		(void)fprintf(file, "<td>-</td>");
	else if (whole)
		(void)fprintf(file, "<td>%s</td>", table_rate(spread_median(spread)).text);
	else
		(void)fprintf(file, "<td>%.2f</td>", spread_median(spread));
}

/* Its ends; "-" where no run worked. */
static void page_ends(FILE *file, const struct spread *spread)
{
	(void)fprintf(file, "<td>%s</td><td>%s</td>",
		spread->count ? table_rate(spread_least(spread)).text : "-",
		spread->count ? table_rate(spread_most(spread)).text : "-");
}

static void page_point(FILE *file, const struct sweep *sweep, const struct sweep_point *point)
{
	char threads[24] = "-"; /* the daemon's choice, where none ran */
	if (point->threads)
		(void)snprintf(threads, sizeof threads, "%" PRIu64, point->threads);
	(void)fprintf(file, "<tr><td>%s</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td>", threads,
		point->batch_size, point->image_size);
	page_cell(file, &point->rate, true);
	if (sweep->rounds > 1)
		page_ends(file, &point->rate);
	if (sweep->yardstick) {
		page_cell(file, &point->yardstick, true);
		page_cell(file, &point->ratio, false);
	}
	if (sweep->options->compare) {
		page_cell(file, &point->torch, true);
		page_cell(file, &point->times, false);
	}
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

static void page_paragraph(FILE *file, const char *words)
{
	if (!*words)
		return;
	(void)fprintf(file, "<p class=\"muted\">");
	markup_text(file, words);
	(void)fprintf(file, "</p>\n");
}

static int page_compared(FILE *file, const struct sweep *sweep)
{
	char words[512];
	int r = 0;
	if (!sweep_compares(sweep))
		return 0;
	page_begin(file, sweep->grid.swept ? "The sweep" : "Compared", "");
	if (sweep->grid.swept) {
		struct sweep_plot plot;
		r = sweep_plot_init(&plot, sweep);
		if (r == 0)
			r = page_plot(file, &plot.plot);
		sweep_plot_deinit(&plot);
	}
	page_table(file, sweep);
	(void)snprintf(words, sizeof words,
		"%u round%s of %.3g s for each, interleaved, every second one in the opposite "
		"order; medians, and ratios round by round.",
		sweep->rounds, sweep->rounds == 1 ? "" : "s", sweep->measure->seconds);
	page_paragraph(file, words);
	page_paragraph(file, sweep_yardstick_words(sweep, words, sizeof words));
	page_paragraph(file, sweep_torch_words(sweep, words, sizeof words));
	if (sweep_made_entry_points(sweep))
		page_paragraph(file, "Some runs made checkpoints as they went, as a first epoch "
				     "does, so not all are alike.");
	page_end(file);
	return r;
}

/* ---- what it was done with ---- */

/* As it can be pasted into a shell. */
static void page_argument(FILE *file, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=./:,@%";
	if (*text && text[strspn(text, plain)] == 0) {
		markup_text(file, text);
		return;
	}
	markup_text(file, "'");
	while (*text) {
		char part[256];
		size_t size = strcspn(text, "'");
		size = UTIL_MIN(size, sizeof part - 1);
		memcpy(part, text, size);
		part[size] = 0;
		markup_text(file, part);
		text += size;
		if (*text == '\'') {
			markup_text(file, "'\\''");
			text++;
		}
	}
	markup_text(file, "'");
}

static void page_command(FILE *file, const struct sweep *sweep)
{
	page_begin(file, "The command", "");
	(void)fprintf(file, "<pre>penstock bench");
	for (int i = 1; i < sweep->argc; i++) {
		(void)fprintf(file, " ");
		page_argument(file, sweep->argv[i]);
	}
	(void)fprintf(file, "</pre>\n");
	page_end(file);
}

static void page_dataset(FILE *file, const struct sweep *sweep, const struct measure *run)
{
	char words[256];
	page_begin(file, "What was measured", "");
	(void)fprintf(file, "<table>\n");
	page_fact(file, "source", sweep->measure->source);
	if (*run->dataset)
		page_fact(file, "dataset", run->dataset);
	page_fact(file, "recipe", run->described);
	(void)snprintf(words, sizeof words, "%u%s%s", run->trainers,
		run->trainers > 1 ? ", share " : "", run->trainers > 1 ? run->share : "");
	page_fact(file, "trainers", words);
	(void)snprintf(words, sizeof words, "%s, io %s", document_text(run->stats, "reader", "?"),
		document_text(run->stats, "io", "?"));
	page_fact(file, "reader", words);
	(void)snprintf(words, sizeof words, "%.0f", document_number(run->stats, "threads", 0));
	page_fact(file, "decoding threads", words);
	(void)snprintf(words, sizeof words, "%.3g s, after %.3g s of warm-up", run->seconds,
		sweep->measure->warmup_s);
	page_fact(file, "window", words);
	page_fact(file, "page cache", run->is_cold ? "emptied of the dataset first" : "as it was");
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

static void page_cpu_model(char *buffer, size_t room)
{
	char line[256];
	cleanup(close_file) FILE *file = fopen("/proc/cpuinfo", "re");
	(void)snprintf(buffer, room, "not known");
	while (file && fgets(line, sizeof line, file)) {
		const char *value = strchr(line, ':');
		if (!value || strncmp(line, "model name", 10) != 0)
			continue;
		value += 1 + strspn(value + 1, " ");
		(void)snprintf(buffer, room, "%.*s", (int)strcspn(value, "\n"), value);
		return;
	}
}

static void page_machine(FILE *file)
{
	struct machine machine;
	char words[320];
	machine_read(&machine);
	page_begin(file, "The machine", "");
	(void)fprintf(file, "<table>\n");
	page_cpu_model(words, sizeof words);
	page_fact(file, "processor", words);
	(void)snprintf(
		words, sizeof words, "%u of %u may be used", machine.cpus, machine.cpus_online);
	page_fact(file, "processors", words);
	(void)snprintf(words, sizeof words, "%s can be had; the limit is %s (%s)",
		table_bytes(machine.memory.available).text, table_bytes(machine.memory.limit).text,
		machine.memory.source);
	page_fact(file, "memory", words);
	page_fact(file, "kernel", machine.kernel);
	page_fact(file, "io_uring", machine.io_uring ? "yes" : machine.io_uring_text);
	(void)snprintf(words, sizeof words, "penstock %s, %s, %s", PENSTOCK_VERSION, machine.jpeg,
		machine.png);
	page_fact(file, "versions", words);
	(void)fprintf(file, "</table>\n");
	page_end(file);
}

static int page_put(FILE *file, const char *name, const void *context, struct fault *fault)
{
	const struct sweep *sweep = context;
	const struct sweep_point *best = sweep_fastest(sweep);
	const struct measure *run = sweep_middle(best);
	page_title(file, sweep);
	page_verdict(file, run);
	page_figures(file, sweep, best);
	int r = page_compared(file, sweep);
	if (r == 0)
		r = page_over_time(file, run);
	page_latencies(file, run);
	page_stages(file, run);
	page_memory(file, run);
	page_dataset(file, sweep, run);
	page_machine(file);
	page_command(file, sweep);
	(void)fprintf(file, "</main>\n</body>\n</html>\n");
	return r < 0 ? fault_set(fault, r, "cannot write %s: no memory left", name) : 0;
}

int page_save(const struct sweep *sweep, const char *path, struct fault *fault)
{
	return output_write(path, true, page_put, sweep, fault);
}
