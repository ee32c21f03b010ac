/* report: see report.h. The keys of the JSON are part of the interface: append, never rename. */
#include "client/cli/bench/report.h"

#include "base/util.h"
#include "client/cli/document.h"
#include "proto/jsontext.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static void report_json_trainers(const struct measure *measure, struct jsontext *json)
{
	jsontext_string(json, "share", measure->share);
	jsontext_array(json, "trainer_images_per_s");
	for (unsigned i = 0; i < measure->trainers; i++)
		jsontext_number(json, NULL, measure->trainer[i].images_per_s, 1);
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

static void report_json_quantiles(
	struct jsontext *json, const char *key, const struct histogram_summary *times)
{
	const struct {
		const char *key;
		double seconds;
	} each[] = {{"p50", times->p50_s}, {"p90", times->p90_s}, {"p95", times->p95_s},
		{"p99", times->p99_s}, {"p999", times->p999_s}, {"max", times->max_s}};
	jsontext_object(json, key);
	for (size_t i = 0; i < UTIL_COUNT(each); i++)
		jsontext_number(json, each[i].key, each[i].seconds * 1e3, 4);
	jsontext_end(json);
}

/* null where it is not known. */
static void report_json_known(
	struct jsontext *json, const char *key, bool known, double value, int decimals)
{
	if (known)
		jsontext_number(json, key, value, decimals);
	else
		jsontext_raw(json, key, "null");
}

static void report_json_series(const struct measure *measure, struct jsontext *json)
{
	jsontext_array(json, "series");
	for (unsigned i = 0; i < measure->series.count; i++) {
		const struct series_sample *sample = &measure->series.sample[i];
		double span_s = series_span_s(&measure->series, i);
		jsontext_object(json, NULL);
		jsontext_number(json, "t_s", sample->t_s, 4);
		jsontext_number(json, "images", sample->images, 2);
		jsontext_number(json, "images_per_s", sample->images / span_s, 1);
		jsontext_number(json, "waits", sample->waits, 4);
		report_json_known(json, "cpu", sample->cpu >= 0, sample->cpu, 3);
		report_json_known(json, "memory_bytes", sample->memory, (double)sample->memory, 0);
		report_json_known(
			json, "bytes_read", measure->bytes_known, (double)sample->bytes_read, 0);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void report_json_cold(const struct measure *measure, struct jsontext *json)
{
	if (!measure->is_cold) {
		jsontext_raw(json, "cold", "null");
		return;
	}
	jsontext_object(json, "cold");
	jsontext_u64(json, "files", measure->cold.files);
	jsontext_u64(json, "bytes", measure->cold.bytes);
	jsontext_u64(json, "cached_before", measure->cold.cached_before);
	jsontext_u64(json, "cached_after", measure->cold.cached_after);
	jsontext_number(json, "epochs", measure->images_made / (double)measure->samples, 3);
	jsontext_end(json);
}

static void report_json_more(const struct measure *measure, struct jsontext *json)
{
	report_json_quantiles(json, "batch_ms", &measure->arrivals);
	report_json_quantiles(json, "wait_ms", &measure->waits);
	jsontext_number(json, "waits", measure->waited, 4);
	jsontext_array(json, "trainer_waits");
	for (unsigned i = 0; i < measure->trainers; i++)
		jsontext_number(json, NULL, measure->trainer[i].waits, 4);
	jsontext_end(json);
	report_json_known(
		json, "cgroup_peak_bytes", measure->cgroup_peak, (double)measure->cgroup_peak, 0);
	jsontext_bool(json, "cgroup_peak_exact", measure->cgroup_exact);
	report_json_known(json, "step_ms", measure->step_s > 0, measure->step_s * 1e3, 3);
	report_json_known(json, "rate", measure->rate > 0, measure->rate, 3);
	report_json_series(measure, json);
	report_json_cold(measure, json);
}

static void report_json_tries(const struct accelerate *accelerate, struct jsontext *json)
{
	jsontext_array(json, "tries");
	for (unsigned i = 0; i < accelerate->tries_made; i++) {
		const struct accelerate_try *one = &accelerate->tries[i];
		jsontext_object(json, NULL);
		jsontext_u64(json, "accelerators", one->count);
		jsontext_number(json, "utilisation", one->utilisation, 4);
		jsontext_number(json, "images_per_s", one->images_per_s, 1);
		jsontext_bool(json, "passed", one->passed);
		jsontext_end(json);
	}
	jsontext_end(json);
}

/* How the number that can be fed is known. */
static const char *report_json_known_by(const struct accelerate *accelerate)
{
	static const char *const bounds[] = {[ACCELERATE_FREE] = "tried",
		[ACCELERATE_DATASET] = "dataset",
		[ACCELERATE_MEMORY] = "memory",
		[ACCELERATE_MOST] = "limit"};
	if (accelerate->free_images_per_s > 0)
		return bounds[accelerate->bound];
	return "rate";
}

static void report_json_accelerate(const struct accelerate *accelerate, struct jsontext *json)
{
	if (!accelerate) {
		jsontext_raw(json, "accelerators", "null");
		return;
	}
	jsontext_object(json, "accelerators");
	jsontext_u64(json, "count", accelerate->count);
	jsontext_string(json, "profile", accelerate->profile);
	jsontext_bool(json, "altered", accelerate->altered);
	jsontext_u64(json, "batch_size", accelerate->batch_size);
	jsontext_number(json, "step_ms", accelerate->step_s * 1e3, 3);
	jsontext_number(
		json, "images_per_s_each", (double)accelerate->batch_size / accelerate->step_s, 1);
	jsontext_array(json, "utilisation");
	for (unsigned i = 0; i < accelerate->count; i++)
		jsontext_number(json, NULL, accelerate->utilisation[i], 4);
	jsontext_end(json);
	jsontext_number(json, "utilisation_mean", accelerate->mean, 4);
	jsontext_u64(json, "steps", accelerate->steps);
	jsontext_u64(json, "memory_bytes", accelerate->memory);
	jsontext_number(json, "line", ACCELERATE_LINE, 2);
	jsontext_bool(json, "passed", accelerate->passed);
	jsontext_u64(json, "fed", accelerate->fed);
	jsontext_bool(json, "fed_or_more", accelerate->fed_more);
	jsontext_string(json, "fed_by", report_json_known_by(accelerate));
	report_json_known(json, "free_images_per_s", accelerate->free_images_per_s > 0,
		accelerate->free_images_per_s, 1);
	report_json_tries(accelerate, json);
	jsontext_end(json);
}

/* The evidence for the verdict, as the daemon gives it; null where it gives none. */
static int report_json_bottleneck(const struct measure *measure, struct jsontext *json)
{
	const struct node *found = document_get(measure->stats, "bottleneck");
	cleanup(free_ptr) char *text = found ? document_dump(found) : NULL;
	if (found && !text)
		return -ENOMEM;
	jsontext_raw(json, "bottleneck", text ? text : "null");
	return 0;
}

int report_json(const struct measure *measure, const struct accelerate *accelerate)
{
	cleanup(free_ptr) char *fallbacks =
		document_dump(document_get(measure->stats, "fallbacks"));
	cleanup(free_ptr) char *entry_points =
		document_dump(document_get(measure->stats, "checkpoints"));
	cleanup(free_ptr) char *broken = document_dump(document_get(measure->stats, "broken"));
	cleanup(free_ptr) char *cache = document_dump(document_get(measure->stats, "cache"));
	if (!fallbacks || !entry_points || !broken || !cache)
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
	jsontext_raw(&json, "checkpoints", entry_points);
	jsontext_raw(&json, "cache", cache);
	jsontext_string(&json, "verdict", document_text(measure->stats, "verdict", ""));
	report_json_trainers(measure, &json);
	report_json_more(measure, &json);
	report_json_accelerate(accelerate, &json);
	int r = report_json_bottleneck(measure, &json);
	jsontext_end(&json);
	if (json.text.failed)
		r = -ENOMEM;
	if (r == 0)
		(void)printf("%s\n", json.text.bytes);
	jsontext_free(&json);
	return r;
}
