/* report: see report.h. For people: one screen of 80 columns, the verdict last. */
#include "client/cli/bench/report.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/table.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_WIDTH = 80, REPORT_NAME = 14, REPORT_VALUE = 12 };

/* "  name           value unit    note" */
static void report_line(const char *name, const char *value, const char *note)
{
	(void)printf("  %-*s%*s  %.*s\n", REPORT_NAME, name, REPORT_VALUE, value,
		REPORT_WIDTH - REPORT_NAME - REPORT_VALUE - 4, note);
}

static void report_rate(const struct measure *measure)
{
	char note[96];
	(void)snprintf(note, sizeof note, "%s images in %.1f s%s",
		table_count((uint64_t)(measure->images + 0.5)).text, measure->seconds,
		measure->trainers > 1 ? ", for each trainer" : "");
	report_line("images/s", table_rate(measure->images_per_s).text, note);
}

/* What all trainers got together, and how far they are apart. */
static void report_trainers(const struct measure *measure)
{
	static const struct {
		const char *share, *what;
	} kinds[] = {{"all", "that share every batch"}, {"split", "ranks"},
		{"private", "streams of their own"}};
	double least = measure->images_per_s, most = least;
	char note[128];
	const char *what = "";
	for (unsigned i = 0; i < measure->trainers; i++) {
		least = UTIL_MIN(least, measure->trainer[i].images_per_s);
		most = UTIL_MAX(most, measure->trainer[i].images_per_s);
	}
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++)
		if (strcmp(kinds[i].share, measure->share) == 0)
			what = kinds[i].what;
	(void)snprintf(note, sizeof note, "%u %s, %s to %s each", measure->trainers, what,
		table_count((uint64_t)(least + 0.5)).text,
		table_count((uint64_t)(most + 0.5)).text);
	if (measure->trainers > 1)
		report_line("all trainers",
			table_count((uint64_t)(measure->images_per_s * measure->trainers + 0.5))
				.text,
			note);
}

/* Below a millisecond in microseconds. */
static struct table_words report_short(double seconds)
{
	if (seconds >= 0.9995e-3)
		return table_seconds(seconds);
	struct table_words words;
	(void)snprintf(words.text, sizeof words.text, "%.0f us", seconds * 1e6);
	return words;
}

static void report_announce(const struct measure *measure)
{
	char note[96];
	(void)snprintf(note, sizeof note, "from ready to a waiting trainer; 99 %% in %s",
		report_short(measure->announced.p99_s).text);
	if (measure->announced.total)
		report_line("announced", report_short(measure->announced.p50_s).text, note);
	else
		report_line("announced", "?", "no trainer ever waited: batches lay ready");
}

/* Median, and how far the rare ones are from it. */
static void report_quantiles(
	const char *name, const struct histogram_summary *times, const char *what)
{
	char note[128];
	(void)snprintf(note, sizeof note, "%s; 99 %% %s, 99.9 %% %s, most %s", what,
		table_seconds(times->p99_s).text, table_seconds(times->p999_s).text,
		table_seconds(times->max_s).text);
	report_line(name, table_seconds(times->p50_s).text, note);
}

static void report_waits(const struct measure *measure)
{
	char value[24], note[128];
	(void)snprintf(value, sizeof value, "%.1f %%", measure->waited * 100);
	(void)snprintf(note, sizeof note, "of the time; 99 %% within %s, most %s",
		table_seconds(measure->waits.p99_s).text, table_seconds(measure->waits.max_s).text);
	report_line("waiting", value, note);
}

static void report_times(const struct measure *measure)
{
	report_line("first batch", table_seconds(measure->first_batch_s).text, "after the start");
	report_quantiles("batch", &measure->arrivals, "median");
	report_waits(measure);
	report_announce(measure);
}

/* The rate as a line of blocks, each a part of the time with some batches in it: single ones would
 * make it jagged. */
static void report_over_time(const struct measure *measure)
{
	enum { REPORT_SPARKS = 32, REPORT_SPARK_BATCHES = 8, REPORT_LEVELS = 8 };
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
				 *const letters[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	bool utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
	uint64_t batches = measure->trainer[0].batches;
	unsigned columns =
		(unsigned)UTIL_MIN(batches / REPORT_SPARK_BATCHES, (uint64_t)REPORT_SPARKS);
	double rate[REPORT_SPARKS] = {0}, least = 0, most = 0;
	columns = UTIL_MIN(columns, measure->series.count);
	if (columns < 2)
		return;
	series_rates(&measure->series, columns, rate);
	least = most = rate[0];
	for (unsigned i = 1; i < columns; i++) {
		least = UTIL_MIN(least, rate[i]);
		most = UTIL_MAX(most, rate[i]);
	}
	(void)printf("  %-*s ", REPORT_NAME, "over time");
	for (unsigned i = 0; i < columns; i++) {
		unsigned level =
			most > 0 ? (unsigned)(rate[i] / most * (REPORT_LEVELS - 1) + 0.5) : 0;
		(void)printf("%s", (utf8 ? blocks : letters)[level]);
	}
	(void)printf("  %s to %s images/s\n", table_count((uint64_t)least).text,
		table_count((uint64_t)most).text);
}

/* Seconds, what that is for an image, the share of all as a number and as a bar. Stages that took
 * nothing are left out where they are parts of another. */
static void report_stage_line(
	const struct measure *measure, int indent, const char *stage, double seconds, double total)
{
	char name[24], note[96], bar[32];
	double share = total > 0 ? seconds / total : 0;
	int cells = (int)(share * 20 + 0.5);
	if (indent > 2 && share < 0.0005)
		return;
	memset(bar, '#', (size_t)cells);
	bar[cells] = 0;
	(void)snprintf(name, sizeof name, "%*s%s", indent, "", stage);
	(void)snprintf(note, sizeof note, "%7.1f us an image %5.1f %%  %s",
		measure->images_made > 0 ? seconds / measure->images_made * 1e6 : 0, share * 100,
		bar);
	report_line(name, table_seconds(seconds).text, note);
}

static void report_cpu(const struct measure *measure)
{
	char note[128];
	double per_image_ms =
		measure->images_made > 0 ? measure->cpu_s / measure->images_made * 1e3 : 0;
	double threads = document_number(measure->stats, "threads", 0);
	(void)snprintf(note, sizeof note, "%.2f cores of %.0f decoding thread%s; %.2f ms an image",
		measure->cpu_s / measure->seconds, threads, threads == 1 ? "" : "s", per_image_ms);
	report_line("CPU", measure->cpu_known ? table_seconds(measure->cpu_s).text : "?",
		measure->cpu_known ? note : "the daemon is in another pid namespace");
	double total = 0;
	for (int i = 0; i < MEASURE_STAGES; i++)
		total += measure->stage_s[i];
	for (int i = 0; i < MEASURE_STAGES; i++) {
		report_stage_line(measure, 2, measure_stage[i], measure->stage_s[i], total);
		if (strcmp(measure_stage[i], "decode") == 0)
			for (int j = 0; j < MEASURE_DECODE_STAGES; j++)
				report_stage_line(measure, 3, measure_decode_stage[j],
					measure->decode_stage_s[j], total);
	}
}

static void report_storage(const struct measure *measure)
{
	char note[96];
	double window = 0;
	for (unsigned i = 0; i < measure->series.count; i++)
		window += (double)measure->series.sample[i].bytes_read;
	(void)snprintf(note, sizeof note, "in the whole run; %s/s while measured",
		table_bytes((uint64_t)(window / measure->seconds)).text);
	report_line("from storage",
		measure->bytes_known ? table_bytes(measure->bytes_read).text : "?",
		measure->bytes_known ? note : "the daemon is another user's or container's");
}

/* Of the page cache. Beyond the first epoch a run is warm, where what it read fits into memory. */
static void report_cold(const struct measure *measure)
{
	char note[128];
	double epochs = measure->images_made / (double)measure->samples;
	(void)snprintf(note, sizeof note, "dropped of %s, %s left%s",
		table_bytes(measure->cold.bytes).text, table_bytes(measure->cold.cached_after).text,
		epochs > 1 ? "; warm after an epoch" : "");
	if (measure->is_cold)
		report_line("cold",
			table_bytes(
				measure->cold.cached_before -
				UTIL_MIN(measure->cold.cached_before, measure->cold.cached_after))
				.text,
			note);
}

/* The cgroup's is of all that is in it, page cache included. */
static void report_memory(const struct measure *measure)
{
	char budget[40] = "", cgroup[40] = "", note[128];
	if (measure->budget)
		(void)snprintf(
			budget, sizeof budget, "; budget %s", table_bytes(measure->budget).text);
	if (measure->cgroup_peak)
		(void)snprintf(cgroup, sizeof cgroup, "; cgroup %s",
			table_bytes(measure->cgroup_peak).text);
	(void)snprintf(note, sizeof note, "peak%s%s%s", *budget ? "" : " of daemon and trainers",
		budget, cgroup);
	report_line("memory", measure->memory_known ? table_bytes(measure->peak_memory).text : "?",
		measure->memory_known ? note : "the daemon is another user's or container's");
	report_storage(measure);
	report_cold(measure);
}

/* Nothing where nothing was cached. */
static void report_cache(const struct node *cache)
{
	char note[96];
	if (!document_u64(cache, "hits", 0) && !document_u64(cache, "misses", 0))
		return;
	(void)snprintf(note, sizeof note, "%s hits, %s misses",
		table_count(document_u64(cache, "hits", 0)).text,
		table_count(document_u64(cache, "misses", 0)).text);
	report_line("cache", table_bytes(document_u64(cache, "bytes", 0)).text, note);
}

/* "corrupt 3, truncated 1", behind what they are where the name does not say it. */
static void report_counts(const char *name, const char *what, const struct node *counts)
{
	char note[160] = "";
	size_t at = 0;
	double total = 0;
	for (size_t i = 0; i < document_count(counts); i++) {
		const char *reason = "";
		double count = document_value(document_at(counts, i, &reason));
		if (count == 0)
			continue;
		total += count;
		if (at < sizeof note)
			at += (size_t)snprintf(note + at, sizeof note - at, "%s%s %s",
				at ? ", " : what, reason, table_count((uint64_t)count).text);
	}
	if (total > 0)
		report_line(name, table_count((uint64_t)total).text, note);
}

/* "97.1, 96.9" of few, "least 88.0, most 97.1" of many. */
static void report_utilisation(const struct accelerate *accelerate, char *buffer, size_t room)
{
	enum { REPORT_FEW = 6 };
	double least = 1, most = 0;
	size_t at = 0;
	buffer[0] = 0;
	for (unsigned i = 0; i < accelerate->count; i++) {
		double each = accelerate->utilisation[i];
		least = UTIL_MIN(least, each);
		most = UTIL_MAX(most, each);
		if (accelerate->count <= REPORT_FEW && at < room)
			at += (size_t)snprintf(
				buffer + at, room - at, "%s%.1f", at ? ", " : "", each * 100);
	}
	if (accelerate->count > REPORT_FEW)
		(void)snprintf(buffer, room, "least %.1f, most %.1f", least * 100, most * 100);
}

/* "this machine feeds 2 h100 accelerators", and how that is known. */
static void report_fed(const struct accelerate *accelerate, char *buffer, size_t room)
{
	static const char *const bounds[] = {[ACCELERATE_FREE] = "",
		[ACCELERATE_DATASET] = "; more have no batch each in an epoch of this dataset",
		[ACCELERATE_MEMORY] = "; the memory holds the batches of no more",
		[ACCELERATE_MOST] = "; bench has no more"};
	bool tried = accelerate->free_images_per_s > 0;
	char what[48];
	(void)snprintf(what, sizeof what, "%u %s accelerator%s", accelerate->fed,
		accelerate->altered ? "such" : accelerate->profile,
		accelerate->fed == 1 ? "" : "s");
	if (!accelerate->fed)
		(void)snprintf(buffer, room, "this machine cannot feed one%s",
			tried ? "" : ", by the rate of this run");
	else if (tried)
		(void)snprintf(buffer, room, "this machine feeds %s%s%s",
			accelerate->fed_more ? "at least " : "", what, bounds[accelerate->bound]);
	else if (accelerate->fed_more)
		(void)snprintf(buffer, room,
			"this machine feeds %s, perhaps more (--accelerators auto tries)", what);
	else
		(void)snprintf(buffer, room, "by the rate of this run this machine feeds %s", what);
}

/* "3: 99.2 %, 4: 81.7 %" */
static void report_tries(const struct accelerate *accelerate)
{
	char text[ACCELERATE_TRIES * 24] = "";
	size_t at = 0;
	for (unsigned i = 0; i < accelerate->tries_made; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%u: %.1f %%", i ? ", " : "",
			accelerate->tries[i].count, accelerate->tries[i].utilisation * 100);
	if (accelerate->tries_made > 1)
		table_sentence(2, REPORT_NAME, "tried", text, REPORT_WIDTH);
}

static void report_accelerate(const struct accelerate *accelerate)
{
	char each[96], fed[128], few[64] = "", text[640];
	report_utilisation(accelerate, each, sizeof each);
	report_fed(accelerate, fed, sizeof fed);
	if (accelerate->steps < ACCELERATE_STEPS)
		(void)snprintf(few, sizeof few, ", in %" PRIu64 " steps, which are few",
			accelerate->steps);
	(void)snprintf(text, sizeof text,
		"%u x %s%s (batches of %" PRIu64 ", %.6g ms each): utilisation %.1f %% (%s), %s "
		"the line of %.0f %%%s; %s. The terms are those of MLPerf Storage's ResNet-50 "
		"workload, but with real decoding: not a result of MLPerf Storage",
		accelerate->count, accelerate->profile, accelerate->altered ? ", altered" : "",
		accelerate->batch_size, accelerate->step_s * 1e3, accelerate->mean * 100, each,
		accelerate->passed ? "above" : "below", ACCELERATE_LINE * 100, few, fed);
	table_sentence(2, REPORT_NAME, "accelerators", text, REPORT_WIDTH);
	report_tries(accelerate);
}

/* Its shares are the daemon's, which looks back ten seconds whatever was measured here. */
static void report_verdict(const struct measure *measure)
{
	char verdict[640], text[800];
	(void)snprintf(
		verdict, sizeof verdict, "%s", document_text(measure->stats, "verdict", "none"));
	(void)snprintf(text, sizeof text,
		" (as the daemon saw its last ten seconds; the lines "
		"above are of %s)",
		table_seconds(measure->seconds).text);
	if (!strchr(verdict, '%'))
		*text = 0;
	(void)strncat(verdict, text, sizeof verdict - strlen(verdict) - 1);
	table_sentence(2, REPORT_NAME, "verdict", cli_tame(verdict), REPORT_WIDTH);
}

void report_people(const struct measure *measure, const struct accelerate *accelerate)
{
	char text[320];
	(void)snprintf(text, sizeof text, "%s", measure->source);
	(void)printf("%s\n", cli_tame(text));
	if (*measure->dataset)
		table_sentence(2, REPORT_NAME, "dataset", measure->dataset, REPORT_WIDTH);
	(void)snprintf(text, sizeof text, "%s, %u trainer%s", measure->described, measure->trainers,
		measure->trainers == 1 ? "" : "s");
	table_sentence(2, REPORT_NAME, "stream", text, REPORT_WIDTH);
	(void)snprintf(text, sizeof text, "%s, io %s", document_text(measure->stats, "reader", "?"),
		document_text(measure->stats, "io", "?"));
	table_sentence(2, REPORT_NAME, "reader", text, REPORT_WIDTH);
	(void)printf("\n");
	report_rate(measure);
	report_trainers(measure);
	report_over_time(measure);
	report_times(measure);
	report_cpu(measure);
	report_memory(measure);
	report_cache(document_get(measure->stats, "cache"));
	report_counts(
		"fallbacks", "left to libjpeg-turbo: ", document_get(measure->stats, "fallbacks"));
	report_counts("broken", "", document_get(measure->stats, "broken"));
	report_counts("checkpoints", "", document_get(measure->stats, "checkpoints"));
	(void)printf("\n");
	if (accelerate)
		report_accelerate(accelerate);
	report_verdict(measure);
}
