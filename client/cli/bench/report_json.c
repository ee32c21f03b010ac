/* report_json: one run as JSON. The keys are part of the interface: append, never rename. */
#include "client/cli/bench/report.h"

#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "proto/jsontext.h"

#include <math.h>

void report_json_known(
	struct jsontext *json, const char *key, bool known, double value, int decimals)
{
	jsontext_number(json, key, known ? value : NAN, decimals);
}

/* What the daemon said under `key`, as it said it. */
static void report_json_copy(struct jsontext *json, const char *key, const struct node *stats)
{
	cleanup(free_ptr) char *text = document_dump(document_get(stats, key));
	json->text.failed |= !text;
	jsontext_raw(json, key, text ? text : "null");
}

static void report_json_stages(struct jsontext *json, const char *key, const char *const *name,
	const double *seconds, int count)
{
	jsontext_object(json, key);
	for (int i = 0; i < count; i++)
		jsontext_number(json, name[i], seconds[i], 4);
	jsontext_end(json);
}

static void report_json_trainers(const struct measure *measure, struct jsontext *json)
{
	const struct histogram_summary *announced = &measure->announced;
	jsontext_string(json, "share", measure->share);
	jsontext_array(json, "trainer_images_per_s");
	for (unsigned i = 0; i < measure->trainers; i++)
		jsontext_number(json, NULL, measure->trainer[i].images_per_s, 1);
	jsontext_end(json);
	report_json_known(json, "announce_p50_us", announced->total, announced->p50_s * 1e6, 1);
	report_json_known(json, "announce_p99_us", announced->total, announced->p99_s * 1e6, 1);
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
	report_json_known(json, "cpu_s", measure->cpu_known, measure->cpu_s, 3);
	report_json_known(
		json, "peak_memory_bytes", measure->memory_known, (double)measure->peak_memory, 0);
	report_json_known(json, "bytes_read", measure->bytes_known, (double)measure->bytes_read, 0);
	report_json_stages(json, "stages", measure_stage, measure->stage_s, MEASURE_STAGES);
	report_json_stages(json, "decode_stages", measure_decode_stage, measure->decode_stage_s,
		MEASURE_DECODE_STAGES);
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
		jsontext_string(json, "cold", NULL);
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

static void report_json_accelerate(const struct accelerate *accelerate, struct jsontext *json)
{
	static const char *const bounds[] = {[ACCELERATE_FREE] = "tried",
		[ACCELERATE_DATASET] = "dataset",
		[ACCELERATE_MEMORY] = "memory",
		[ACCELERATE_MOST] = "limit"};
	if (!accelerate) {
		jsontext_string(json, "accelerators", NULL);
		return;
	}
	bool tried = accelerate->free_images_per_s > 0;
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
	jsontext_string(json, "fed_by", tried ? bounds[accelerate->bound] : "rate");
	report_json_known(json, "free_images_per_s", tried, accelerate->free_images_per_s, 1);
	report_json_tries(accelerate, json);
	jsontext_end(json);
}

int report_json(const struct measure *measure, const struct accelerate *accelerate)
{
	static const char *const copied[] = {"fallbacks", "broken", "checkpoints", "cache"};
	const struct node *stats = measure->stats;
	struct jsontext json = {0};
	char remedy[VERDICT_TEXT];
	jsontext_object(&json, NULL);
	report_json_numbers(measure, &json);
	for (size_t i = 0; i < UTIL_COUNT(copied); i++)
		report_json_copy(&json, copied[i], stats);
	/* Local files are not requested. */
	if (document_get(stats, "remote"))
		report_json_copy(&json, "remote", stats);
	else
		jsontext_string(&json, "remote", NULL);
	jsontext_string(&json, "verdict", document_text(stats, "verdict", ""));
	jsontext_string(&json, "remedy", measure_remedy(measure, remedy));
	report_json_trainers(measure, &json);
	report_json_more(measure, &json);
	report_json_accelerate(accelerate, &json);
	/* An older daemon gives no evidence for its verdict. */
	if (document_get(stats, "bottleneck"))
		report_json_copy(&json, "bottleneck", stats);
	else
		jsontext_string(&json, "bottleneck", NULL);
	jsontext_end(&json);
	return cli_print_json(&json);
}
