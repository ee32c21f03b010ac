/* pack_command: `penstock pack`: its options, its progress, its report. pack.h does the work.
 *
 * The main thread writes the shards; pack's own threads make the images. */
#include "client/cli/cli.h"

#include "base/clock.h"
#include "base/host/cpu.h"
#include "base/util.h"
#include "client/cli/catalog.h"
#include "client/cli/options.h"
#include "client/cli/pack/cost.h"
#include "client/cli/pack/pack.h"
#include "client/cli/progress.h"
#include "client/cli/table.h"
#include "proto/jsontext.h"
#include "remote/upload.h"
#include "remote/url.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	PACK_LINE_NS = 10000000000, /* between two plain lines of progress */
	PACK_BROKEN_SHOWN = 20,
	PACK_SHORT_S = 60, /* beside JSON, the cost of a run that is shorter is not told */
	PACK_SHARD_LEAST = 1 << 16,
};

struct packing {
	const char *source, *output, *interval, *subsampling;
	struct catalog_choice choice;
	uint64_t threads, max_side, quality, shard_bytes, memory;
	bool no_verify, json, subsampling_given;

	struct dataset *dataset;
	struct pattern pattern;
	struct pack_options options;
	struct pack_result result;
	struct progress progress;
	bool begun; /* when the first progress was reported */
	uint64_t start_ns, line_ns;
	uint64_t first_samples, first_bytes; /* at that time: a resumed pack reports its own rate */
	double seconds;
	struct cost cost; /* images 0: not measured */
};

static const struct command pack_command = {
	.name = "pack",
	.operands = "SOURCE OUT-%06d.tar",
	.min_operands = 2,
	.max_operands = 2,
	.about = "Rewrites SOURCE into WebDataset tar files: the same pixels in fewer bytes, with\n"
		 "restart markers, so that a crop is decoded without the rest. A run that was\n"
		 "interrupted continues where it stopped. --max-side and --quality make it lossy.\n"
		 "Broken images are left out and listed; the command then exits with 1.",
};

/* "12", "row", "0" */
static int packing_interval(const struct packing *packing, struct jpegout_interval *ret)
{
	char *end;
	*ret = (struct jpegout_interval){.row = strcmp(packing->interval, "row") == 0};
	if (ret->row)
		return CLI_OK;
	errno = 0;
	unsigned long mcus = strtoul(packing->interval, &end, 10);
	if (packing->interval[0] < '0' || packing->interval[0] > '9' || *end || errno ||
		mcus > JPEGOUT_MCUS_MOST)
		return cli_fail(CLI_USAGE,
			"--restart-interval: expected a number of MCUs from 0 (no markers) to %d, "
			"or row, got \"%s\"",
			JPEGOUT_MCUS_MOST, packing->interval);
	ret->mcus = (uint32_t)mcus;
	return CLI_OK;
}

static enum image_subsampling packing_subsampling(const char *text)
{
	if (strcmp(text, "422") == 0)
		return IMAGE_422;
	if (strcmp(text, "444") == 0)
		return IMAGE_444;
	return strcmp(text, "keep") == 0 ? IMAGE_KEEP : IMAGE_420;
}

static bool packing_lossy(const struct packing *packing)
{
	return packing->max_side || packing->quality;
}

static int packing_settle(struct packing *packing)
{
	struct fault fault = {{0}};
	struct image_options *image = &packing->options.recipe.image;
	*image = (struct image_options){
		.max_side = (uint32_t)packing->max_side,
		.quality = (unsigned)packing->quality,
		.subsampling = packing_subsampling(packing->subsampling),
		.verify = !packing->no_verify,
	};
	int code = packing_interval(packing, &image->interval);
	if (code != CLI_OK)
		return code;
	if (packing->subsampling_given && !packing_lossy(packing))
		return cli_fail(CLI_USAGE,
			"--subsampling applies to images that are encoded again: add --max-side or "
			"--quality");
	if (pattern_parse(packing->output, &packing->pattern, &fault) < 0 ||
		(remote_is_url(packing->output) &&
			upload_check(packing->pattern.folder, &fault) < 0))
		return cli_fail(CLI_USAGE, "%s", fault.text);
	code = catalog_fields(&packing->choice, &packing->options.recipe.fields);
	if (code != CLI_OK)
		return code;
	/* A field is stored as a whole. */
	for (uint32_t i = 0; i < packing->options.recipe.fields.count; i++)
		packing->options.recipe.fields.at[i].max = FIELD_BYTES_MAX;
	packing->options.recipe.shard_bytes = packing->shard_bytes;
	packing->options.recipe.memory_bytes = packing->memory;
	packing->options.threads = (unsigned)packing->threads;
	packing->options.context = packing;
	return CLI_OK;
}

static int packing_options(struct packing *packing, int argc, char **argv)
{
	const struct option table[] = {
		{"max-side", 0, OPTION_NUMBER, &packing->max_side, "N",
			"lossy: at most N pixels on the longer side", 1, IMAGE_SIDE_MOST, NULL},
		{"quality", 'q', OPTION_NUMBER, &packing->quality, "Q",
			"lossy: encode every image again, 1 to 100 (90 with only --max-side)", 1,
			100, NULL},
		{"subsampling", 0, OPTION_CHOICE, &packing->subsampling, "420|422|444|keep",
			"chroma subsampling of images encoded again (420)", 0, 0,
			&packing->subsampling_given},
		{"restart-interval", 'r', OPTION_TEXT, &packing->interval, "N",
			"MCUs between restart markers, or row, or 0 for none (row)", 0, 0, NULL},
		{"shard-size", 's', OPTION_SIZE, &packing->shard_bytes, "SIZE",
			"the largest size of one tar file (1G)", PACK_SHARD_LEAST, 0, NULL},
		{"threads", 't', OPTION_NUMBER, &packing->threads, "N",
			"working threads (all CPUs that may be used)", 1, 1024, NULL},
		{"memory", 'm', OPTION_SIZE, &packing->memory, "SIZE",
			"the most memory to use for images in progress (1G)", PACK_MEMORY_LEAST, 0,
			NULL},
		{"no-verify", 0, OPTION_FLAG, &packing->no_verify, NULL,
			"do not decode and compare packed images", 0, 0, NULL},
		CATALOG_CHOICE_OPTIONS(packing->choice),
		{"json", 'j', OPTION_FLAG, &packing->json, NULL, "print one JSON object", 0, 0,
			NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&pack_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r == OPTIONS_OK) {
		packing->source = operand[0];
		packing->output = operand[1];
	}
	if (!packing->threads)
		packing->threads = cpu_available();
	return r;
}

/* ---- progress ---- */

/* "1,402/s  38.1 MiB/s  0:12 left" */
static void packing_rates(
	const struct packing *packing, uint64_t samples, uint64_t bytes, char *out, size_t room)
{
	double seconds = (double)(clock_ns() - packing->start_ns) / 1e9;
	double per_s = (double)(samples - packing->first_samples) / UTIL_MAX(seconds, 1e-9);
	double bytes_s = (double)(bytes - packing->first_bytes) / UTIL_MAX(seconds, 1e-9);
	uint64_t rest = dataset_count(packing->dataset) - samples;
	(void)snprintf(out, room, "%s/s  %s/s  %s left", table_count((uint64_t)per_s).text,
		table_bytes((uint64_t)bytes_s).text,
		per_s > 0 ? table_clock((double)rest / per_s).text : "-");
}

static void packing_progress(void *context, uint64_t samples, uint64_t bytes_in, uint64_t bytes_out)
{
	struct packing *packing = context;
	char rates[96];
	(void)bytes_out;
	if (!packing->begun) {
		packing->begun = true;
		packing->start_ns = packing->line_ns = clock_ns();
		packing->first_samples = samples;
		packing->first_bytes = bytes_in;
		return;
	}
	packing_rates(packing, samples, bytes_in, rates, sizeof rates);
	progress_update(&packing->progress, samples, rates);
	if (packing->progress.terminal || clock_ns() - packing->line_ns < PACK_LINE_NS)
		return;
	packing->line_ns = clock_ns();
	cli_note("packed %s of %s images  %s", table_count(samples).text,
		table_count(dataset_count(packing->dataset)).text, rates);
}

/* "about 45 s", "about 52 min", "about 3.6 h" */
static void packing_duration(double seconds, char *buffer, size_t room)
{
	if (seconds < 100)
		(void)snprintf(buffer, room, "about %.0f s", UTIL_MAX(seconds, 1.0));
	else if (seconds < 100 * 60)
		(void)snprintf(buffer, room, "about %.0f min", seconds / 60);
	else
		(void)snprintf(buffer, room, "about %.1f h", seconds / 3600);
}

/* Beside JSON only if it takes long. */
static void packing_cost(void *context, const struct cost *cost)
{
	struct packing *packing = context;
	char text[160], duration[48];
	packing->cost = *cost;
	packing_duration(cost->seconds, duration, sizeof duration);
	(void)snprintf(text, sizeof text,
		"%s image%s at about %s images/s on %" PRIu64 " thread%s: %s",
		table_count(cost->images).text, cost->images == 1 ? "" : "s",
		table_rate(cost->images_per_s).text, packing->threads,
		packing->threads == 1 ? "" : "s", duration);
	if (!packing->json || cost->seconds >= PACK_SHORT_S)
		cli_note("%s", text);
}

static void packing_note(void *context, const char *text)
{
	(void)context;
	cli_note("%s", text);
}

/* ---- the report ---- */

static void packing_show_broken(const struct manifest *manifest)
{
	size_t shown = UTIL_MIN(manifest->broken_listed, (size_t)PACK_BROKEN_SHOWN);
	for (size_t i = 0; i < shown; i++) {
		const struct manifest_broken *broken = &manifest->broken[i];
		cli_note("left out: %s: %s%s%s", broken->path, broken->reason,
			*broken->message ? ": " : "", broken->message);
	}
	if (manifest->broken_count > shown)
		cli_note("left out: %" PRIu64 " more; the manifest lists them",
			manifest->broken_count - shown);
}

static uint64_t packing_sum(const struct manifest *manifest, int first, int last)
{
	uint64_t sum = 0;
	for (int i = first; i <= last; i++)
		sum += manifest->how[i];
	return sum;
}

static uint64_t packing_transcoded(const struct manifest *manifest)
{
	return packing_sum(manifest, IMAGE_TRANSCODED, IMAGE_TRANSCODED_PLAIN);
}

static uint64_t packing_verbatim(const struct manifest *manifest)
{
	return packing_sum(manifest, IMAGE_KEPT_PNG, IMAGE_KEPT_DIFFERS);
}

/* The most memory that it may take in all. */
static uint64_t packing_memory(const struct packing *packing)
{
	const struct recipe *recipe = &packing->options.recipe;
	return recipe->memory_bytes + packing->threads * pack_thread_bytes(recipe);
}

static double packing_rate(const struct packing *packing)
{
	uint64_t here = packing->result.manifest.next - packing->result.resumed_from;
	return here ? (double)here / UTIL_MAX(packing->seconds, 1e-9) : 0;
}

static void packing_print_images(const struct manifest *manifest)
{
	static const char *const words[IMAGE_HOWS] = {
		[IMAGE_TRANSCODED] = "transcoded",
		[IMAGE_TRANSCODED_WIDER] = "transcoded, with four times the interval",
		[IMAGE_TRANSCODED_PLAIN] = "transcoded, without restart markers",
		[IMAGE_REENCODED] = "encoded again (lossy)",
		[IMAGE_KEPT_PNG] = "kept: not a JPEG",
		[IMAGE_KEPT_COLOURS] = "kept: CMYK or YCCK",
		[IMAGE_KEPT_IRREGULAR] = "kept: irregular",
		[IMAGE_KEPT_SMALLER] = "kept: already smaller",
		[IMAGE_KEPT_MEMORY] = "kept: too large for --memory",
		[IMAGE_KEPT_DIFFERS] = "kept: would have differed",
	};
	for (int i = 0; i < IMAGE_HOWS; i++)
		if (manifest->how[i])
			(void)printf("  %12s  %s\n", table_count(manifest->how[i]).text, words[i]);
	if (manifest->broken_count)
		(void)printf(
			"  %12s  broken: left out\n", table_count(manifest->broken_count).text);
	if (manifest->renamed)
		(void)printf("  %12s  renamed, so that keys have no dots and are all different\n",
			table_count(manifest->renamed).text);
}

static void packing_print(const struct packing *packing)
{
	const struct manifest *manifest = &packing->result.manifest;
	double share = manifest->bytes_in
			       ? 100.0 * (double)manifest->bytes_out / (double)manifest->bytes_in
			       : 100;
	if (packing_lossy(packing))
		(void)printf("lossy: pixels differ from the source\n");
	if (packing->result.was_complete)
		(void)printf("already done: there was nothing left to pack\n");
	else if (packing->result.resumed_from)
		(void)printf("continued after %s samples that an earlier run had packed\n",
			table_count(packing->result.resumed_from).text);
	(void)printf("%s images in %zu shard%s: %s, %.1f %% of the source's %s\n",
		table_count(manifest->samples).text, manifest->shards,
		manifest->shards == 1 ? "" : "s", table_bytes(manifest->bytes_out).text, share,
		table_bytes(manifest->bytes_in).text);
	packing_print_images(manifest);
	if (!packing->result.was_complete)
		(void)printf("%s, %s images/s, with at most %s of memory\n",
			table_seconds(packing->seconds).text,
			table_count((uint64_t)packing_rate(packing)).text,
			table_bytes(packing_memory(packing)).text);
	(void)printf("fingerprint %016" PRIx64 ", of the source %016" PRIx64 "\n",
		manifest_fingerprint(manifest), manifest->source_fingerprint);
	(void)printf("manifest %s/%s.pack.json\n", packing->pattern.folder, packing->pattern.stem);
}

static void packing_json_counts(const struct packing *packing, struct jsontext *json)
{
	const struct manifest *manifest = &packing->result.manifest;
	jsontext_u64(json, "samples", manifest->samples);
	jsontext_u64(json, "bytes_in", manifest->bytes_in);
	jsontext_u64(json, "bytes_out", manifest->bytes_out);
	jsontext_u64(json, "stored_in", manifest->stored_in);
	jsontext_u64(json, "stored_out", manifest->stored_out);
	jsontext_u64(json, "transcoded", packing_transcoded(manifest));
	jsontext_u64(json, "verbatim", packing_verbatim(manifest));
	jsontext_u64(json, "reencoded", manifest->how[IMAGE_REENCODED]);
	jsontext_u64(json, "renamed", manifest->renamed);
	manifest_put_images(manifest, json);
	jsontext_u64(json, "shards", manifest->shards);
	jsontext_u64(json, "resumed_from", packing->result.resumed_from);
	jsontext_number(json, "seconds", packing->seconds, 3);
	jsontext_number(json, "images_per_s", packing_rate(packing), 1);
	jsontext_u64(json, "memory_bytes", packing_memory(packing));
	if (!packing->cost.images) {
		jsontext_raw(json, "estimate", "null");
		return;
	}
	jsontext_object(json, "estimate");
	jsontext_u64(json, "images", packing->cost.images);
	jsontext_number(json, "images_per_s", packing->cost.images_per_s, 1);
	jsontext_number(json, "seconds", packing->cost.seconds, 3);
	jsontext_u64(json, "threads", packing->threads);
	jsontext_end(json);
}

static void packing_json_interval(const struct packing *packing, struct jsontext *json)
{
	const struct jpegout_interval *interval = &packing->options.recipe.image.interval;
	char text[16] = "row";
	if (!interval->row)
		(void)snprintf(text, sizeof text, "%" PRIu32, interval->mcus);
	jsontext_string(json, "restart_interval", text);
}

static int packing_print_json(const struct packing *packing)
{
	const struct manifest *manifest = &packing->result.manifest;
	struct jsontext json = {0};
	char text[PATTERN_PATH + PATTERN_NAME];
	jsontext_object(&json, NULL);
	jsontext_string(&json, "source", packing->source);
	jsontext_string(&json, "output", packing->output);
	(void)snprintf(text, sizeof text, "%s/%s.pack.json", packing->pattern.folder,
		packing->pattern.stem);
	jsontext_string(&json, "manifest", text);
	jsontext_bool(&json, "lossy", packing_lossy(packing));
	packing_json_counts(packing, &json);
	(void)snprintf(text, sizeof text, "%016" PRIx64, manifest->source_fingerprint);
	jsontext_string(&json, "source_fingerprint", text);
	(void)snprintf(text, sizeof text, "%016" PRIx64, manifest_fingerprint(manifest));
	jsontext_string(&json, "fingerprint", text);
	packing_json_interval(packing, &json);
	manifest_put_broken(manifest, &json);
	jsontext_end(&json);
	return cli_print_json(&json);
}

/* An argument or an existing file is wrong: 2; else 1. */
static enum cli_exit packing_exit(int error)
{
	return error == -EEXIST || error == -ESTALE || error == -ERANGE ? CLI_USAGE
									: cli_exit_code(error);
}

static int packing_run(struct packing *packing)
{
	struct fault fault = {{0}};
	packing->options.progress = packing_progress;
	packing->options.note = packing_note;
	packing->options.cost = packing_cost;
	progress_begin(&packing->progress, "packing", PROGRESS_ITEMS,
		dataset_count(packing->dataset), true);
	uint64_t begin_ns = clock_ns();
	int r = pack_run(
		packing->dataset, &packing->pattern, &packing->options, &packing->result, &fault);
	packing->seconds = (double)(clock_ns() - begin_ns) / 1e9;
	progress_end(&packing->progress);
	if (r < 0)
		return cli_fail(packing_exit(r), "%s", fault.text);
	packing_show_broken(&packing->result.manifest);
	int code = CLI_OK;
	if (packing->json)
		code = packing_print_json(packing);
	else
		packing_print(packing);
	return code == CLI_OK && packing->result.manifest.broken_count ? CLI_FAILED : code;
}

/* A .cls holds one class. */
static int packing_labels(const struct packing *packing)
{
	if (dataset_label_type(packing->dataset) == LABEL_TYPE_CLASS)
		return CLI_OK;
	return cli_fail(CLI_USAGE,
		"%s: its labels have several values per sample, and pack writes one class (.cls): "
		"pack with --labels none, and read the tars with the same manifest, whose paths "
		"may be names of members or keys",
		packing->source);
}

int pack_main(int argc, char **argv)
{
	struct packing packing = {
		.choice = CATALOG_CHOICE_DEFAULT,
		.subsampling = "420",
		.interval = PACK_RESTART,
		.shard_bytes = PACK_SHARD_BYTES,
		.memory = PACK_MEMORY_BYTES,
	};
	int r = packing_options(&packing, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	int code = packing_settle(&packing);
	if (code == CLI_OK)
		code = catalog_open(packing.source, &packing.choice, &packing.dataset);
	if (code == CLI_OK)
		code = packing_labels(&packing);
	if (code == CLI_OK)
		code = packing_run(&packing);
	manifest_deinit(&packing.result.manifest);
	dataset_free(packing.dataset);
	return code;
}
