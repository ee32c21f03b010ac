/* report: see report.h. For people it is one screen of 80 columns, with the verdict last. */
#include "client/cli/bench/report.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/inspect/machine.h"
#include "client/cli/table.h"

#include <inttypes.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { REPORT_WIDTH = 80, REPORT_NAME = 15, REPORT_VALUE = 12, REPORT_TEXT = 1024 };

/* "  name           value unit    note" */
__attribute__((format(printf, 3, 4))) static void report_line(
	const char *name, const char *value, const char *format, ...)
{
	char note[REPORT_WIDTH * 2];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(note, sizeof note, format, args);
	va_end(args);
	(void)printf("  %-*s%*s  %.*s\n", REPORT_NAME, name, REPORT_VALUE, value,
		REPORT_WIDTH - REPORT_NAME - REPORT_VALUE - 4, note);
}

void report_sentence(const char *name, const char *format, ...)
{
	char text[REPORT_TEXT];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (*text)
		table_sentence(2, REPORT_NAME, name, cli_tame(text), REPORT_WIDTH);
}

void report_source(const char *source)
{
	char text[REPORT_TEXT];
	(void)snprintf(text, sizeof text, "%s", source);
	(void)printf("%s\n", cli_tame(text));
}

/* What all trainers got together, and how far apart they are. */
static void report_trainers(const struct measure *measure)
{
	static const struct {
		const char *share, *what;
	} kinds[] = {{"all", "that share every batch"}, {"split", "ranks"},
		{"private", "with a stream each"}};
	double least = measure->images_per_s, most = least;
	const char *what = "";
	if (measure->trainers == 1)
		return;
	for (unsigned i = 0; i < measure->trainers; i++) {
		least = UTIL_MIN(least, measure->trainer[i].images_per_s);
		most = UTIL_MAX(most, measure->trainer[i].images_per_s);
	}
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++)
		if (strcmp(kinds[i].share, measure->share) == 0)
			what = kinds[i].what;
	report_line("all trainers",
		table_count((uint64_t)(measure->images_per_s * measure->trainers + 0.5)).text,
		"%u %s, %s to %s each", measure->trainers, what,
		table_count((uint64_t)(least + 0.5)).text,
		table_count((uint64_t)(most + 0.5)).text);
}

/* The rate as a line of blocks. Each block covers several batches: with one or two the line would
 * be jagged. */
static void report_over_time(const struct measure *measure)
{
	enum { REPORT_SPARKS = 32, REPORT_SPARK_BATCHES = 8, REPORT_LEVELS = 8 };
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"},
				 *const letters[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
	const char *const *sparks = strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? blocks : letters;
	unsigned columns = (unsigned)UTIL_MIN(
		measure->trainer[0].batches / REPORT_SPARK_BATCHES, (uint64_t)REPORT_SPARKS);
	double rate[REPORT_SPARKS] = {0};
	columns = UTIL_MIN(columns, measure->series.count);
	if (columns < 2)
		return;
	series_rates(&measure->series, columns, rate);
	double least = rate[0], most = rate[0];
	for (unsigned i = 1; i < columns; i++) {
		least = UTIL_MIN(least, rate[i]);
		most = UTIL_MAX(most, rate[i]);
	}
	(void)printf("  %-*s ", REPORT_NAME, "over time");
	for (unsigned i = 0; i < columns; i++)
		(void)printf("%s",
			sparks[most > 0 ? (int)(rate[i] / most * (REPORT_LEVELS - 1) + 0.5) : 0]);
	(void)printf("  %s to %s images/s\n", table_count((uint64_t)least).text,
		table_count((uint64_t)most).text);
}

static void report_rate(const struct measure *measure)
{
	report_line("images/s", table_rate(measure->images_per_s).text, "%s images in %.1f s%s",
		table_count((uint64_t)(measure->images + 0.5)).text, measure->seconds,
		measure->trainers > 1 ? ", for each trainer" : "");
	report_trainers(measure);
	report_over_time(measure);
}

/* Microseconds below a millisecond. */
static struct table_words report_short(double seconds)
{
	struct table_words words = table_seconds(seconds);
	if (seconds < 0.9995e-3)
		(void)snprintf(words.text, sizeof words.text, "%.0f us", seconds * 1e6);
	return words;
}

static void report_times(const struct measure *measure)
{
	const struct histogram_summary *arrivals = &measure->arrivals,
				       *announced = &measure->announced;
	char waited[16];
	report_line("first batch", table_seconds(measure->first_batch_s).text, "after the start");
	report_line("batch", table_seconds(arrivals->p50_s).text,
		"median; 99 %% %s, 99.9 %% %s, max %s", table_seconds(arrivals->p99_s).text,
		table_seconds(arrivals->p999_s).text, table_seconds(arrivals->max_s).text);
	(void)snprintf(waited, sizeof waited, "%.1f %%", measure->waited * 100);
	report_line("waiting", waited, "of the time; 99 %% of waits %s, max %s",
		table_seconds(measure->waits.p99_s).text, table_seconds(measure->waits.max_s).text);
	if (announced->total)
		report_line("announced", report_short(announced->p50_s).text,
			"from complete to a waiting trainer; 99 %% %s",
			report_short(announced->p99_s).text);
	else
		report_line("announced", "-", "no trainer waited: every batch was ready");
}

const char *report_stage_name(const char *key)
{
	return strcmp(key, "checkpoints") == 0 ? "entry points" : key;
}

/* Seconds, seconds for an image, and the share of all as a number and as a bar. A part of a stage
 * that took nothing is left out. */
static void report_stage(
	const struct measure *measure, int indent, const char *stage, double seconds, double total)
{
	static const char bar[] = "####################";
	double share = total > 0 ? seconds / total : 0;
	char name[24];
	if (indent > 2 && share < 0.0005)
		return;
	(void)snprintf(name, sizeof name, "%*s%s", indent, "", report_stage_name(stage));
	report_line(name, table_seconds(seconds).text, "%7.1f us/image %5.1f %%  %.*s",
		measure->images_made > 0 ? seconds / measure->images_made * 1e6 : 0, share * 100,
		(int)(share * (sizeof bar - 1) + 0.5), bar);
}

static void report_cpu(const struct measure *measure)
{
	double threads = document_number(measure->stats, "threads", 0), total = 0;
	if (measure->cpu_known)
		report_line("CPU", table_seconds(measure->cpu_s).text,
			"%.2f cores of %.0f decoding thread%s; %.3g ms/image",
			measure->cpu_s / measure->seconds, threads, threads == 1 ? "" : "s",
			measure->images_made > 0 ? measure->cpu_s / measure->images_made * 1e3 : 0);
	else
		report_line("CPU", "?", "the daemon is in another pid namespace");
	for (int i = 0; i < MEASURE_STAGES; i++)
		total += measure->stage_s[i];
	for (int i = 0; i < MEASURE_STAGES; i++) {
		report_stage(measure, 2, measure_stage[i], measure->stage_s[i], total);
		if (strcmp(measure_stage[i], "decode") == 0)
			for (int j = 0; j < MEASURE_DECODE_STAGES; j++)
				report_stage(measure, 3, measure_decode_stage[j],
					measure->decode_stage_s[j], total);
	}
}

/* The cgroup's figure counts everything in it, and the page cache. */
static void report_memory(const struct measure *measure)
{
	struct table_words budget = table_bytes(measure->budget),
			   cgroup = table_bytes(measure->cgroup_peak);
	if (measure->memory_known)
		report_line("memory", table_bytes(measure->peak_memory).text, "peak%s%s%s%s",
			measure->budget ? "; budget " : " of daemon and trainers",
			measure->budget ? budget.text : "", measure->cgroup_peak ? "; cgroup " : "",
			measure->cgroup_peak ? cgroup.text : "");
	else
		report_line("memory", "?", "the daemon is another user's or container's");
}

static void report_storage(const struct measure *measure)
{
	double window = 0;
	for (unsigned i = 0; i < measure->series.count; i++)
		window += (double)measure->series.sample[i].bytes_read;
	if (measure->bytes_known)
		report_line("from storage", table_bytes(measure->bytes_read).text,
			"in the whole run; %s/s in the window",
			table_bytes((uint64_t)(window / measure->seconds)).text);
	else
		report_line("from storage", "?", "the daemon is another user's or container's");
}

/* After the first epoch a run is warm, if memory holds what it read. */
static void report_cold(const struct measure *measure)
{
	const struct cold *cold = &measure->cold;
	if (measure->is_cold)
		report_line("cold",
			table_bytes(cold->cached_before -
				    UTIL_MIN(cold->cached_before, cold->cached_after))
				.text,
			"dropped of %s, %s left%s", table_bytes(cold->bytes).text,
			table_bytes(cold->cached_after).text,
			measure->images_made > (double)measure->samples ? "; over 1 epoch" : "");
}

static void report_cache(const struct node *cache)
{
	uint64_t hits = document_u64(cache, "hits", 0), misses = document_u64(cache, "misses", 0);
	if (hits || misses)
		report_line("cache", table_bytes(document_u64(cache, "bytes", 0)).text,
			"%s hits, %s misses", table_count(hits).text, table_count(misses).text);
}

/* The whole run, from its daemon's start. */
static void report_remote(const struct node *remote)
{
	const struct node *cache = document_get(remote, "cache");
	uint64_t hits = document_u64(remote, "hit_bytes", 0),
		 hedges = document_u64(remote, "hedges", 0);
	if (!remote)
		return;
	report_line("remote", table_bytes(document_u64(remote, "bytes", 0)).text,
		"%s requests, %s tried again, %s hedge%s",
		table_count(document_u64(remote, "requests", 0)).text,
		table_count(document_u64(remote, "retries", 0)).text, table_count(hedges).text,
		hedges == 1 ? "" : "s");
	report_line("first byte",
		table_seconds(document_number(remote, "first_byte_p50_s", 0)).text, "99 %%: %s",
		table_seconds(document_number(remote, "first_byte_p99_s", 0)).text);
	if (cache)
		report_line("disk cache", table_bytes(hits).text, "read from it; %s of %s used",
			table_bytes(document_u64(cache, "used", 0)).text,
			table_bytes(document_u64(cache, "size", 0)).text);
}

double report_counts_words(const struct node *counts, char *buffer, size_t room)
{
	size_t at = 0;
	double total = 0;
	*buffer = 0;
	for (size_t i = 0; i < document_count(counts); i++) {
		const char *reason = "";
		double count = document_value(document_at(counts, i, &reason));
		total += count;
		if (count > 0 && at < room)
			at += (size_t)snprintf(buffer + at, room - at, "%s%s %s", at ? ", " : "",
				strcmp(reason, "checkpoint") == 0 ? "entry point" : reason,
				table_count((uint64_t)count).text);
	}
	return total;
}

static void report_counts(const char *name, const char *what, const struct node *counts)
{
	char note[160];
	double total = report_counts_words(counts, note, sizeof note);
	if (total > 0)
		report_line(name, table_count((uint64_t)total).text, "%s%s", what, note);
}

/* "97.1, 96.9" of few, "least 88.0, most 97.1" of many. */
static void report_utilization(const struct accelerate *accelerate, char *buffer, size_t room)
{
	enum { REPORT_FEW = 6 };
	double least = 1, most = 0;
	size_t at = 0;
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
		[ACCELERATE_DATASET] = "; an epoch of this dataset has no batch for one more",
		[ACCELERATE_MEMORY] = "; the memory does not hold the batches of one more",
		[ACCELERATE_MOST] = "; bench simulates no more"};
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
			"this machine feeds %s, perhaps more (--accelerators auto finds out)",
			what);
	else
		(void)snprintf(buffer, room, "by the rate of this run this machine feeds %s", what);
}

static void report_accelerate(const struct accelerate *accelerate)
{
	char each[96], fed[128], few[64] = "", tries[ACCELERATE_TRIES * 24] = "";
	size_t at = 0;
	report_utilization(accelerate, each, sizeof each);
	report_fed(accelerate, fed, sizeof fed);
	if (accelerate->steps < ACCELERATE_STEPS)
		(void)snprintf(few, sizeof few, ", in only %" PRIu64 " steps", accelerate->steps);
	report_sentence("accelerators",
		"%u x %s%s (batches of %" PRIu64 ", %.6g ms each): utilization %.1f %% (%s), %s "
		"the line of %.0f %%%s; %s. The terms are those of MLPerf Storage's ResNet-50 "
		"workload, but images are really decoded: this is not a result of MLPerf Storage",
		accelerate->count, accelerate->profile, accelerate->altered ? ", altered" : "",
		accelerate->batch_size, accelerate->step_s * 1e3, accelerate->mean * 100, each,
		accelerate->passed ? "above" : "below", ACCELERATE_LINE * 100, few, fed);
	/* "3: 99.2 %, 4: 81.7 %" */
	for (unsigned i = 0; i < accelerate->tries_made; i++)
		at += (size_t)snprintf(tries + at, sizeof tries - at, "%s%u: %.1f %%",
			i ? ", " : "", accelerate->tries[i].count,
			accelerate->tries[i].utilisation * 100);
	if (accelerate->tries_made > 1)
		report_sentence("tried", "%s", tries);
}

/* The verdict's percentages are the daemon's, over ten seconds, however long the window was. */
static void report_verdict(const struct measure *measure)
{
	const char *verdict = document_text(measure->stats, "verdict", "none");
	char remedy[VERDICT_TEXT];
	report_sentence("verdict", "%s", verdict);
	report_sentence("remedy", "%s", measure_remedy(measure, remedy));
	if (strchr(verdict, '%'))
		report_sentence("",
			"The verdict is about the daemon's last ten seconds; the lines above cover "
			"%s",
			table_seconds(measure->seconds).text);
}

/* Figures mean little without the machine that they are of. */
static void report_machine(void)
{
	struct machine machine;
	machine_read(&machine);
	report_sentence("machine", "%s; %u of %u processors may be used; %s of memory",
		machine.model, machine.cpus, machine.cpus_online,
		table_bytes(machine.memory.limit).text);
}

static void report_people(const struct measure *measure, const struct accelerate *accelerate)
{
	const struct node *stats = measure->stats;
	report_source(measure->source);
	report_machine();
	report_sentence("dataset", "%s", measure->dataset);
	report_sentence("stream", "%s, %u trainer%s", measure->described, measure->trainers,
		measure->trainers == 1 ? "" : "s");
	report_sentence("reader", "%s, io %s", document_text(stats, "reader", "?"),
		document_text(stats, "io", "?"));
	(void)printf("\n");
	report_rate(measure);
	report_times(measure);
	report_cpu(measure);
	report_memory(measure);
	report_storage(measure);
	report_cold(measure);
	report_cache(document_get(stats, "cache"));
	report_remote(document_get(stats, "remote"));
	report_counts("fallbacks", "to libjpeg-turbo: ", document_get(stats, "fallbacks"));
	report_counts("retries", "", document_get(document_get(stats, "remote"), "retried"));
	report_counts("broken", "", document_get(stats, "broken"));
	report_counts("entry points", "", document_get(stats, "checkpoints"));
	(void)printf("\n");
	if (accelerate)
		report_accelerate(accelerate);
	report_verdict(measure);
}

int report_print(const struct measure *measure, const struct accelerate *accelerate, bool as_json)
{
	if (as_json)
		return report_json(measure, accelerate);
	report_people(measure, accelerate);
	return CLI_OK;
}
