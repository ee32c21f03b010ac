/* report: see report.h. The keys of the JSON are part of the interface: append, never rename. */
#include "client/cli/report.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/table.h"
#include "proto/jsontext.h"

#include <errno.h>
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
	char images[24], whole[24], value[48], note[96];
	(void)table_count((uint64_t)measure->images_per_s, whole, sizeof whole);
	(void)snprintf(value, sizeof value, "%s", whole);
	if (measure->images_per_s < 100)
		(void)snprintf(value, sizeof value, "%.1f", measure->images_per_s);
	(void)snprintf(note, sizeof note, "%s images in %.1f s%s",
		table_count((uint64_t)(measure->images + 0.5), images, sizeof images),
		measure->seconds, measure->trainers > 1 ? ", for each trainer" : "");
	report_line("images/s", value, note);
}

/* What all trainers got together, and how far they are apart. */
static void report_trainers(const struct measure *measure)
{
	static const struct {
		const char *share, *what;
	} kinds[] = {{"all", "that share every batch"}, {"split", "ranks"},
		{"private", "streams of their own"}};
	double least = measure->images_per_s, most = least;
	char value[24], slow[24], fast[24], note[128];
	const char *what = "";
	for (unsigned i = 0; i < measure->trainers; i++) {
		least = UTIL_MIN(least, measure->trainer_images_per_s[i]);
		most = UTIL_MAX(most, measure->trainer_images_per_s[i]);
	}
	for (size_t i = 0; i < UTIL_COUNT(kinds); i++)
		if (strcmp(kinds[i].share, measure->share) == 0)
			what = kinds[i].what;
	(void)snprintf(note, sizeof note, "%u %s, %s to %s each", measure->trainers, what,
		table_count((uint64_t)least, slow, sizeof slow),
		table_count((uint64_t)most, fast, sizeof fast));
	if (measure->trainers > 1)
		report_line("all trainers",
			table_count((uint64_t)(measure->images_per_s * measure->trainers), value,
				sizeof value),
			note);
}

static void report_announce(const struct measure *measure)
{
	char value[24], note[96];
	(void)snprintf(value, sizeof value, "%.0f us", measure->announced.p50_s * 1e6);
	(void)snprintf(note, sizeof note, "from ready to a waiting trainer; 99 %% in %.0f us",
		measure->announced.p99_s * 1e6);
	if (measure->announced.total)
		report_line("announced", value, note);
	else
		report_line("announced", "?", "no trainer ever waited: batches lay ready");
}

static void report_times(const struct measure *measure)
{
	char value[24], tail[24], note[96];
	report_line("first batch", table_seconds(measure->first_batch_s, value, sizeof value),
		"after the command began");
	(void)table_seconds(measure->arrivals.p99_s, tail, sizeof tail);
	(void)snprintf(note, sizeof note, "between batches, median; 99 %% within %s", tail);
	report_line("batch", table_seconds(measure->arrivals.p50_s, value, sizeof value), note);
	report_announce(measure);
}

/* Seconds, what that is for an image, the share of all as a number and as a bar. Stages that took
 * nothing are left out where they are parts of another. */
static void report_stage_line(
	const struct measure *measure, int indent, const char *stage, double seconds, double total)
{
	char name[24], value[24], note[96], bar[32];
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
	report_line(name, table_seconds(seconds, value, sizeof value), note);
}

static void report_cpu(const struct measure *measure)
{
	char value[24], note[128];
	double per_image_ms =
		measure->images_made > 0 ? measure->cpu_s / measure->images_made * 1e3 : 0;
	double threads = document_number(measure->stats, "threads", 0);
	(void)snprintf(note, sizeof note, "%.2f cores of %.0f decoding thread%s; %.2f ms an image",
		measure->cpu_s / measure->seconds, threads, threads == 1 ? "" : "s", per_image_ms);
	report_line("CPU",
		measure->cpu_known ? table_seconds(measure->cpu_s, value, sizeof value) : "?",
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

static void report_memory(const struct measure *measure)
{
	char value[24], budget[24], note[96] = "peak of daemon and trainers";
	if (measure->budget)
		(void)snprintf(note, sizeof note, "peak of daemon and trainers; budget %s",
			table_bytes(measure->budget, budget, sizeof budget));
	report_line("memory",
		measure->memory_known ? table_bytes(measure->peak_memory, value, sizeof value)
				      : "?",
		measure->memory_known ? note : "the daemon is another user's or container's");
	report_line("from storage",
		measure->bytes_known ? table_bytes(measure->bytes_read, value, sizeof value) : "?",
		measure->bytes_known ? "in the whole run"
				     : "the daemon is another user's or container's");
}

/* Nothing where nothing was cached. */
static void report_cache(const struct node *cache)
{
	char hits[24], misses[24], value[24], note[96];
	if (!document_u64(cache, "hits", 0) && !document_u64(cache, "misses", 0))
		return;
	(void)snprintf(note, sizeof note, "%s hits, %s misses",
		table_count(document_u64(cache, "hits", 0), hits, sizeof hits),
		table_count(document_u64(cache, "misses", 0), misses, sizeof misses));
	report_line(
		"cache", table_bytes(document_u64(cache, "bytes", 0), value, sizeof value), note);
}

/* "corrupt 3, truncated 1" */
static void report_counts(const char *name, const struct node *counts)
{
	char note[160] = "", value[24];
	size_t at = 0;
	double total = 0;
	for (size_t i = 0; i < document_count(counts); i++) {
		const char *reason = "";
		double count = document_value(document_at(counts, i, &reason));
		if (count == 0)
			continue;
		total += count;
		if (at < sizeof note)
			at += (size_t)snprintf(note + at, sizeof note - at, "%s%s %.0f",
				at ? ", " : "", reason, count);
	}
	if (total > 0)
		report_line(name, table_count((uint64_t)total, value, sizeof value), note);
}

void report_people(const struct measure *measure)
{
	char text[320], verdict[640];
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
	report_times(measure);
	report_cpu(measure);
	report_memory(measure);
	report_cache(document_get(measure->stats, "cache"));
	report_counts("fallbacks", document_get(measure->stats, "fallbacks"));
	report_counts("broken", document_get(measure->stats, "broken"));
	report_counts("checkpoints", document_get(measure->stats, "checkpoints"));
	(void)printf("\n");
	(void)snprintf(
		verdict, sizeof verdict, "%s", document_text(measure->stats, "verdict", "none"));
	table_sentence(2, REPORT_NAME, "verdict", cli_tame(verdict), REPORT_WIDTH);
}

static void report_json_trainers(const struct measure *measure, struct jsontext *json)
{
	jsontext_string(json, "share", measure->share);
	jsontext_array(json, "trainer_images_per_s");
	for (unsigned i = 0; i < measure->trainers; i++)
		jsontext_number(json, NULL, measure->trainer_images_per_s[i], 1);
	jsontext_end(json);
	if (measure->announced.total) {
		jsontext_number(json, "announce_p50_us", measure->announced.p50_s * 1e6, 1);
		jsontext_number(json, "announce_p99_us", measure->announced.p99_s * 1e6, 1);
	} else {
		jsontext_raw(json, "announce_p50_us", "null");
		jsontext_raw(json, "announce_p99_us", "null");
	}
}

static void report_json_numbers(const struct measure *measure, struct jsontext *json)
{
	jsontext_number(json, "images_per_s", measure->images_per_s, 1);
	jsontext_u64(json, "batch_size", measure->batch_size);
	jsontext_u64(json, "threads", document_u64(measure->stats, "threads", 0));
	jsontext_u64(json, "trainers", measure->trainers);
	jsontext_number(json, "seconds", measure->seconds, 3);
	jsontext_u64(json, "images", (uint64_t)(measure->images + 0.5));
	jsontext_number(json, "first_batch_s", measure->first_batch_s, 4);
	jsontext_number(json, "batch_p50_ms", measure->arrivals.p50_s * 1e3, 3);
	jsontext_number(json, "batch_p99_ms", measure->arrivals.p99_s * 1e3, 3);
	if (measure->cpu_known)
		jsontext_number(json, "cpu_s", measure->cpu_s, 3);
	else
		jsontext_raw(json, "cpu_s", "null");
	if (measure->memory_known)
		jsontext_u64(json, "peak_memory_bytes", measure->peak_memory);
	else
		jsontext_raw(json, "peak_memory_bytes", "null");
	if (measure->bytes_known)
		jsontext_u64(json, "bytes_read", measure->bytes_read);
	else
		jsontext_raw(json, "bytes_read", "null");
}

int report_json(const struct measure *measure)
{
	cleanup(free_ptr) char *fallbacks =
		document_dump(document_get(measure->stats, "fallbacks"));
	cleanup(free_ptr) char *checkpoints =
		document_dump(document_get(measure->stats, "checkpoints"));
	cleanup(free_ptr) char *broken = document_dump(document_get(measure->stats, "broken"));
	cleanup(free_ptr) char *cache = document_dump(document_get(measure->stats, "cache"));
	if (!fallbacks || !checkpoints || !broken || !cache)
		return -ENOMEM;
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	report_json_numbers(measure, &json);
	jsontext_object(&json, "stages");
	for (int i = 0; i < MEASURE_STAGES; i++)
		jsontext_number(&json, measure_stage[i], measure->stage_s[i], 4);
	jsontext_end(&json);
	jsontext_object(&json, "decode_stages");
	for (int i = 0; i < MEASURE_DECODE_STAGES; i++)
		jsontext_number(&json, measure_decode_stage[i], measure->decode_stage_s[i], 4);
	jsontext_end(&json);
	jsontext_raw(&json, "fallbacks", fallbacks);
	jsontext_raw(&json, "broken", broken);
	jsontext_raw(&json, "checkpoints", checkpoints);
	jsontext_raw(&json, "cache", cache);
	jsontext_string(&json, "verdict", document_text(measure->stats, "verdict", ""));
	report_json_trainers(measure, &json);
	jsontext_end(&json);
	int r = json.failed ? -ENOMEM : 0;
	if (r == 0)
		(void)printf("%s\n", json.text);
	jsontext_free(&json);
	return r;
}
