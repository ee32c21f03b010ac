/* plan: `penstock plan`: what every rank of a job will get, before a user reserves a GPU: batches,
 * samples, what is dropped and padded, where each rank begins, and the memory. It needs no daemon.
 *
 * order.h and serve/budget.h determine all of it: nothing is an estimate. Ranks that get the
 * same share one line. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "batch/extent.h"
#include "client/cli/catalog.h"
#include "client/cli/inspect/machine.h"
#include "client/cli/inspect/plan_reads.h"
#include "client/cli/inspect/resume.h"
#include "client/cli/options.h"
#include "client/cli/recipe.h"
#include "client/cli/table.h"
#include "proto/jsontext.h"
#include "serve/budget.h"
#include "stream/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
	PLAN_WIDTH = 80,
	PLAN_NAME = 11,
	PLAN_RANKS = 16, /* that get a line each */
	PLAN_SAMPLES = 3, /* of a rank's first rows */
	PLAN_SLOTS = 4, /* the daemon's default for prefetch */
	PLAN_SLOTS_LEAST = 2,
	PLAN_NOTES = 8,
	PLAN_NOTE = 320,
};

struct plan {
	const char *source, *named_state;
	struct recipe recipe;
	struct recipe_cut cut;
	uint64_t epochs, prefetch, ranks_per_node, nodes;
	uint64_t cache_bytes; /* of each node */
	bool json;

	struct order_epoch epoch;
	struct course whole; /* from the beginning of an epoch */
	struct resume_place from; /* the beginning, or the position of the state */
	uint64_t batches,
		left; /* of one rank: for a whole epoch; for the epoch in which it resumes */
	uint64_t wanted, least; /* --memory of one node's daemon: as requested; with prefetch 2 */
	unsigned threads; /* decoding threads that it would have here */
	bool full_known, blocks_known; /* what it reads with these orders */
	struct plan_job job; /* if either is known */
	char note[PLAN_NOTES][PLAN_NOTE];
	unsigned notes;
};

/* What one rank gets from `from` to the end of its epoch. */
struct plan_rank {
	struct order_slice first, last;
	struct course_share share;
};

static const struct command plan_command = {
	.name = "plan",
	.operands = "SOURCE",
	.min_operands = 1,
	.max_operands = 1,
	.about =
		"Shows what every rank of a job will get of SOURCE, before you reserve a GPU: how\n"
		"many batches and samples, what is dropped or padded, where each rank begins, and\n"
		"how much memory its batches take. Starts nothing.",
};

static int plan_options(struct plan *plan, int argc, char **argv)
{
	const struct option table[] = {
		RECIPE_CUT_OPTIONS(plan->cut),
		RECIPE_OPTIONS(plan->recipe),
		{"epochs", 'e', OPTION_NUMBER, &plan->epochs, "N",
			"also show how many batches N epochs have", 1, UINT32_MAX, NULL},
		{"state", 0, OPTION_TEXT, &plan->named_state, "STATE",
			"show what is left from this state on: a file, -, or the text itself", 0, 0,
			NULL},
		{"prefetch", 0, OPTION_NUMBER, &plan->prefetch, "N",
			"batches of a rank that may exist at once (4)", 2, EXTENT_SLOTS_MAX, NULL},
		{"ranks-per-node", 0, OPTION_NUMBER, &plan->ranks_per_node, "N",
			"ranks that one daemon serves, for the memory (all)", 1, 65536, NULL},
		{"nodes", 0, OPTION_NUMBER, &plan->nodes, "N",
			"nodes that the ranks are divided among, for the memory and the reads (1)",
			1, 65536, NULL},
		{"cache-size", 0, OPTION_SIZE, &plan->cache_bytes, "SIZE",
			"a cache that each node has: what it spares (none)", 1, 0, NULL},
		{"json", 'j', OPTION_FLAG, &plan->json, NULL, "print one JSON object", 0, 0, NULL},
	};
	const char *operand[OPTIONS_OPERANDS];
	int r = options_parse(&plan_command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r;
	plan->source = operand[0];
	if (plan->nodes && plan->cut.world_size % plan->nodes) {
		cli_note("--nodes %" PRIu64 " does not divide the --world-size of %" PRIu64
			 ": expected as many ranks on each node",
			plan->nodes, plan->cut.world_size);
		return -EINVAL;
	}
	if (plan->nodes && plan->ranks_per_node) {
		cli_note("--nodes and --ranks-per-node cannot both be; leave one out");
		return -EINVAL;
	}
	if (plan->nodes)
		plan->ranks_per_node = plan->cut.world_size / plan->nodes;
	if (!plan->ranks_per_node)
		plan->ranks_per_node = plan->cut.world_size;
	if (plan->ranks_per_node > plan->cut.world_size) {
		cli_note("--ranks-per-node %" PRIu64 " is more than the --world-size of %" PRIu64,
			plan->ranks_per_node, plan->cut.world_size);
		return -EINVAL;
	}
	r = recipe_check_source(plan->source, "plan");
	if (!r)
		r = recipe_settle(&plan->recipe);
	return r < 0 ? r : recipe_check_cut(&plan->recipe, &plan->cut);
}

/* ---- numbers ---- */

static uint64_t plan_global(const struct plan *plan)
{
	return (uint64_t)plan->epoch.batch_size * plan->epoch.world_size;
}

/* The samples of a whole epoch that no rank gets. */
static uint64_t plan_dropped(const struct plan *plan)
{
	return plan->epoch.samples - order_left(&plan->epoch, 0);
}

/* The rows of the last batch of an epoch, over all ranks, without padding. */
static uint64_t plan_last_rows(const struct course *course)
{
	return course_rows(course, course_left(course) - 1);
}

/* The padded rows of all ranks in that epoch. */
static uint64_t plan_padded(const struct course *course)
{
	uint64_t padded = 0;
	for (uint32_t rank = 0; rank < course->epoch.world_size; rank++)
		padded += course_share(course, rank).padded;
	return padded;
}

static struct plan_rank plan_rank(const struct plan *plan, uint32_t rank)
{
	const struct course *course = &plan->from.course;
	return (struct plan_rank){
		.first = course_batch(course, 0, rank).slice,
		.last = course_batch(course, plan->left - 1, rank).slice,
		.share = course_share(course, rank),
	};
}

static uint64_t plan_slot_bytes(const struct plan *plan)
{
	const struct stream_spec *spec = &plan->recipe.spec;
	const struct extent_geometry geometry =
		stream_geometry(spec, plan->recipe.parts.dataset[0]);
	return extent_stride(&geometry);
}

/* The batches of a rank in all requested epochs, from `from` on; 0: they are over already. */
static uint64_t plan_total(const struct plan *plan)
{
	if (plan->epochs <= plan->from.epoch)
		return 0;
	return plan->left + (plan->epochs - plan->from.epoch - 1) * plan->batches;
}

/* ---- notes ---- */

__attribute__((format(printf, 2, 3))) static void plan_note(
	struct plan *plan, const char *format, ...)
{
	if (plan->notes == PLAN_NOTES)
		return;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(plan->note[plan->notes++], PLAN_NOTE, format, args);
	va_end(args);
}

static void plan_note_dropped(struct plan *plan)
{
	uint64_t dropped = plan_dropped(plan);
	double share = (double)dropped / (double)plan->epoch.samples;
	if (dropped && !plan->recipe.spec.shuffle && !plan->recipe.spec.sampling.epoch_length)
		plan_note(plan,
			"without shuffling the %" PRIu64 " dropped samples are the same in every "
			"epoch, the last of the dataset: they are never seen",
			dropped);
	else if (share > 0.05)
		plan_note(plan,
			"%.0f %% of every epoch is dropped (different samples in each); smaller "
			"batches or --no-drop-last would drop less",
			share * 100);
}

/* Buckets that get no batch, and short batches in training. */
static void plan_note_buckets(struct plan *plan)
{
	const struct buckets *buckets = plan->epoch.buckets;
	char text[PLAN_NOTE / 2] = "", size[SHAPE_SIZE_TEXT];
	size_t at = 0;
	uint64_t padded = plan_padded(&plan->whole);
	for (uint32_t i = 0; i < buckets->count && at < sizeof text; i++)
		if (!plan->whole.whole.batches[i])
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", at ? ", " : "",
				shape_size_text(plan->recipe.spec.buckets.size[i], size));
	if (at)
		plan_note(plan, "buckets without a batch: %s", text);
	if (padded)
		plan_note(plan,
			"%" PRIu64 " rows are padded, in short batches of buckets that have fewer "
			"rows than there are ranks; leave padded rows out of metrics",
			padded);
}

/* A last batch of less than a quarter of a batch. */
static void plan_note_last(struct plan *plan)
{
	uint64_t rows = plan_last_rows(&plan->whole), global = plan_global(plan);
	if (plan->epoch.buckets) {
		plan_note_buckets(plan);
		return;
	}
	if (plan_padded(&plan->whole))
		plan_note(plan,
			"%" PRIu64 " of %" PRIu32 " ranks have nothing of their own in the last "
			"batch: each gets the epoch's last sample again, flagged as padded, so "
			"that "
			"no rank waits for another; leave padded rows out of metrics",
			plan_padded(&plan->whole), plan->epoch.world_size);
	if (rows * 4 < global && plan->recipe.spec.train)
		plan_note(plan,
			"the last batch has %" PRIu64 " of %" PRIu64
			" rows: in training such a step "
			"weighs as much as a full one; --drop-last leaves it out",
			rows, global);
	if (plan->epoch.samples < plan->epoch.world_size)
		plan_note(plan, "there are fewer samples than ranks");
}

static void plan_note_memory(struct plan *plan)
{
	uint64_t budget = budget_default();
	if (plan->wanted > budget)
		plan_note(plan,
			"penstockd's default budget on this machine, %s, is too small: start it "
			"with --memory %" PRIu64 "M or more",
			table_bytes(budget).text, plan->wanted >> 20);
}

static void plan_note_state(struct plan *plan, const struct resume_difference *difference)
{
	char text[PLAN_NOTE];
	resume_sentence(difference, text, sizeof text);
	plan_note(plan, "the state's %s: %.280s", difference->what, text);
}

static void plan_judge(struct plan *plan)
{
	plan_note_dropped(plan);
	plan_note_last(plan);
	plan_note_memory(plan);
	if (plan->cut.world_size % plan->ranks_per_node)
		plan_note(plan, "%" PRIu64 " ranks do not fill nodes of %" PRIu64 ": one has fewer",
			plan->cut.world_size, plan->ranks_per_node);
	if (plan->named_state && plan->epochs && !plan_total(plan))
		plan_note(plan, "the state is past the %" PRIu64 " epochs: nothing is left",
			plan->epochs);
}

/* ---- for people ---- */

__attribute__((format(printf, 2, 3))) static void plan_line(
	const char *name, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	table_sentence(2, PLAN_NAME, name, text, PLAN_WIDTH);
}

static uint64_t plan_dataset_bytes(const struct concat *parts)
{
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < parts->count; i++)
		bytes += dataset_bytes(parts->dataset[i]);
	return bytes;
}

/* Whether a group of views has a list of operations that works on whole images. */
static bool plan_is_whole(const struct plan *plan)
{
	const struct stream_spec *spec = &plan->recipe.spec;
	for (uint32_t i = 0; i < spec_groups(spec); i++)
		if (spec_pixels(spec, i).kind == PIXEL_WHOLE)
			return true;
	return false;
}

static void plan_say_dataset(const struct plan *plan)
{
	const struct concat *parts = &plan->recipe.parts;
	char kind[48], recipe[RECIPE_TEXT], name[640], few[64] = "";
	uint64_t samples = concat_samples(parts);
	catalog_kind(parts->dataset[0], kind, sizeof kind);
	if (parts->count > 1)
		(void)snprintf(kind, sizeof kind, "%" PRIu32 " datasets", parts->count);
	(void)snprintf(name, sizeof name, "%s", plan->source);
	(void)printf("%s\n", cli_tame(name));
	if (plan->epoch.samples != samples)
		(void)snprintf(few, sizeof few, "; an epoch has %s%s",
			table_count(plan->epoch.samples).text,
			plan->recipe.spec.sampling.epoch_length ? "" : " of them");
	plan_line("dataset", "%s: %s sample%s, %s%s", kind, table_count(samples).text,
		samples == 1 ? "" : "s", table_bytes(plan_dataset_bytes(parts)).text, few);
	recipe_describe(&plan->recipe, recipe, sizeof recipe);
	plan_line("stream", "%s", recipe);
	if (plan_is_whole(plan))
		plan_line("decoding",
			"whole images: the list does not begin with the crop or resize that gives "
			"the size");
	plan_line("ranks", "%" PRIu32 ", with %" PRIu32 " each of a global batch of %s",
		plan->epoch.world_size, plan->epoch.batch_size,
		table_count(plan_global(plan)).text);
	(void)printf("\n");
}

/* "2 rows for ranks 0-8, 1 for the others" */
static void plan_share(uint64_t rows, uint64_t ranks, char *buffer, size_t room)
{
	char first[48] = "rank 0";
	uint64_t each = rows / ranks, more = rows % ranks;
	if (more > 1)
		(void)snprintf(first, sizeof first, "ranks 0-%" PRIu64, more - 1);
	if (!more)
		(void)snprintf(buffer, room, "%" PRIu64 " for each rank", each);
	else if (each)
		(void)snprintf(buffer, room, "%" PRIu64 " for %s, %" PRIu64 " for the others",
			each + 1, first, each);
	else
		(void)snprintf(buffer, room, "1 for %s, a padded row for the others", first);
}

static void plan_say_last(const struct plan *plan)
{
	char shared[128];
	uint64_t last = plan_last_rows(&plan->whole);
	if (plan->epoch.buckets)
		return;
	plan_share(last, plan->epoch.world_size, shared, sizeof shared);
	if (last == plan_global(plan))
		plan_line("last batch", "full, like all others");
	else
		plan_line("last batch", "%s of %s rows: %s", table_count(last).text,
			table_count(plan_global(plan)).text, shared);
}

/* A line for each bucket: its samples, and the batches of all ranks together. */
static void plan_say_buckets(const struct plan *plan)
{
	const struct buckets *buckets = plan->epoch.buckets;
	const uint64_t global = plan_global(plan);
	char size[SHAPE_SIZE_TEXT], rest[64];
	for (uint32_t i = 0; i < buckets->count; i++) {
		uint64_t left = buckets->rows[i] % global;
		rest[0] = 0;
		if (left)
			(void)snprintf(rest, sizeof rest,
				plan->epoch.drop_last ? ", %" PRIu64 " dropped"
						      : ", the last one of %" PRIu64 " rows",
				left);
		plan_line(i ? "" : "buckets", "%s: %s sample%s, %s batch%s%s",
			shape_size_text(plan->recipe.spec.buckets.size[i], size),
			table_count(buckets->rows[i]).text, buckets->rows[i] == 1 ? "" : "s",
			table_count(plan->whole.whole.batches[i]).text,
			plan->whole.whole.batches[i] == 1 ? "" : "es", rest);
	}
}

static void plan_say_epoch(const struct plan *plan)
{
	char share[24] = "";
	uint64_t dropped = plan_dropped(plan);
	plan_line("batches", "%s for each rank and epoch", table_count(plan->batches).text);
	if (dropped)
		(void)snprintf(share, sizeof share, " (%.2g %%)",
			100 * (double)dropped / (double)plan->epoch.samples);
	plan_line("samples", "%s in each epoch, %s dropped%s",
		table_count(plan->epoch.samples - dropped).text,
		dropped ? table_count(dropped).text : "none", share);
	plan_say_last(plan);
	if (plan->epoch.buckets)
		plan_say_buckets(plan);
}

static void plan_say_from(const struct plan *plan)
{
	if (plan->named_state)
		plan_line("goes on",
			"at batch %" PRIu64 " of epoch %" PRIu64
			", position %s; %s batch%s of it left",
			plan->from.batch, plan->from.epoch, table_count(plan->from.position).text,
			table_count(plan->left).text, plan->left == 1 ? "" : "es");
	if (plan->epochs)
		plan_line("all", "%s batches for each rank in %s%" PRIu64 " epoch%s",
			table_count(plan_total(plan)).text,
			plan->named_state ? "what is left of " : "", plan->epochs,
			plan->epochs == 1 ? "" : "s");
}

static void plan_say_memory(const struct plan *plan)
{
	uint64_t bytes = plan_slot_bytes(plan);
	plan_line("memory", "%" PRIu64 " slots of %s a rank: %s, %s on a node of %" PRIu64,
		plan->prefetch, table_bytes(bytes).text, table_bytes(bytes * plan->prefetch).text,
		table_bytes(bytes * plan->prefetch * plan->ranks_per_node).text,
		plan->ranks_per_node);
	plan_line("penstockd",
		"--memory %" PRIu64 "M or more; %" PRIu64 "M if prefetch is %d (%u decoding "
		"thread%s, as on this machine)",
		plan->wanted >> 20, plan->least >> 20, PLAN_SLOTS_LEAST, plan->threads,
		plan->threads == 1 ? "" : "s");
}

/* "8,008 requests, 1.2 GiB; later epochs 4,004 requests, 600 MiB, 50 % from the cache" */
static void plan_say_order(const struct plan *plan, const char *name,
	struct plan_reads (*reads)(const struct plan_job *, uint32_t, bool))
{
	const struct plan_reads first = reads(&plan->job, 0, false),
				later = reads(&plan->job, 0, true);
	char more[160] = "";
	if (plan->cache_bytes)
		(void)snprintf(more, sizeof more,
			"; later epochs %s request%s, %s, %.0f %% from the cache",
			table_count(later.requests).text, later.requests == 1 ? "" : "s",
			table_bytes(later.bytes).text,
			later.samples ? 100 * (double)later.hits / (double)later.samples : 0);
	plan_line(name, "%s request%s, %s%s%s", table_count(first.requests).text,
		first.requests == 1 ? "" : "s", table_bytes(first.bytes).text,
		plan_nodes(&plan->job) > 1 ? " a node" : "", more);
}

/* Only where somebody asks for it. */
static void plan_say_reads(const struct plan *plan)
{
	char name[32];
	if (!plan->nodes && !plan->cache_bytes && plan->recipe.spec.shuffle != SHUFFLE_BLOCKS)
		return;
	if (!plan->full_known) {
		plan_line("reads", "not known beforehand of batches with buckets");
		return;
	}
	plan_say_order(plan, "full", plan_reads_full);
	(void)snprintf(name, sizeof name, "window %" PRIu32, plan->job.blocks.window);
	if (plan->blocks_known)
		plan_say_order(plan, name, plan_reads_blocks);
	else
		plan_line("blocks", "not known beforehand of a stream with these keys");
}

/* "1234 77 9": the samples of a rank's first rows. */
static void plan_cell_samples(
	const struct plan *plan, struct table *table, const struct order_slice *first)
{
	char text[96] = "";
	size_t at = 0;
	for (uint32_t row = 0; row < UTIL_MIN(first->count, (uint32_t)PLAN_SAMPLES); row++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%" PRIu64, row ? " " : "",
			recipe_sample(&plan->recipe, plan->from.epoch, first->position + row));
	table_cell(table, false, "%s%s", text, first->count > PLAN_SAMPLES ? " ..." : "");
}

static void plan_row(const struct plan *plan, struct table *table, uint32_t rank, uint32_t end)
{
	const struct plan_rank one = plan_rank(plan, rank);
	table_row(table);
	if (end == rank + 1)
		table_cell(table, true, "%" PRIu32, rank);
	else
		table_cell(table, true, "%" PRIu32 "-%" PRIu32, rank, end - 1);
	table_cell(table, true, "%s", table_count(plan->left).text);
	table_cell(table, true, "%s", table_count(one.share.rows - one.share.padded).text);
	table_cell(table, true, "%" PRIu32, one.last.count - one.last.padded);
	table_cell(table, true, "%" PRIu64, one.share.padded);
	table_cell(table, true, "%s", table_count(one.first.position).text);
	plan_cell_samples(plan, table, &one.first);
}

/* The first rank after `rank` that gets a different amount. */
static uint32_t plan_alike(const struct plan *plan, uint32_t rank)
{
	uint64_t rows = plan_last_rows(&plan->from.course);
	uint64_t more = rows % plan->epoch.world_size;
	return rank < more ? (uint32_t)more : plan->epoch.world_size;
}

static int plan_say_ranks(const struct plan *plan)
{
	static const char *const head[] = {
		"rank", "batches", "samples", "in the last", "padded", "begins at", "with samples"};
	struct table *table = table_new();
	if (!table)
		return cli_fail(CLI_FAILED, "not enough memory for a table");
	table_row(table);
	for (size_t i = 0; i < UTIL_COUNT(head); i++)
		table_cell(table, i + 1 < UTIL_COUNT(head), "%s", head[i]);
	bool each = plan->epoch.world_size <= PLAN_RANKS;
	for (uint32_t rank = 0, end; rank < plan->epoch.world_size; rank = end) {
		end = each ? rank + 1 : plan_alike(plan, rank);
		plan_row(plan, table, rank, end);
	}
	(void)printf("\n");
	table_print(table, 2);
	if (!each)
		(void)printf("  (ranks that get the same share a line; --json lists each)\n");
	table_free(table);
	return CLI_OK;
}

static int plan_people(const struct plan *plan)
{
	plan_say_dataset(plan);
	plan_say_epoch(plan);
	plan_say_from(plan);
	plan_say_memory(plan);
	plan_say_reads(plan);
	int code = plan_say_ranks(plan);
	for (unsigned i = 0; i < plan->notes; i++) {
		(void)printf("%s", i ? "" : "\n");
		table_sentence(2, 5, "note:", plan->note[i], PLAN_WIDTH);
	}
	return code;
}

/* ---- jSON ---- */

static void plan_json_buckets(struct jsontext *json, const struct plan *plan)
{
	const struct buckets *buckets = plan->epoch.buckets;
	jsontext_array(json, "buckets");
	for (uint32_t i = 0; i < buckets->count; i++) {
		jsontext_object(json, NULL);
		jsontext_u64(json, "height", plan->recipe.spec.buckets.size[i].height);
		jsontext_u64(json, "width", plan->recipe.spec.buckets.size[i].width);
		jsontext_u64(json, "samples", buckets->rows[i]);
		jsontext_u64(json, "batches", plan->whole.whole.batches[i]);
		jsontext_end(json);
	}
	jsontext_end(json);
}

static void plan_json_epoch(struct jsontext *json, const struct plan *plan)
{
	char hex[20];
	(void)snprintf(hex, sizeof hex, "%016" PRIx64, concat_fingerprint(&plan->recipe.parts));
	jsontext_string(json, "source", plan->source);
	jsontext_string(json, "fingerprint", hex);
	jsontext_u64(json, "samples", plan->epoch.samples);
	jsontext_bool(json, "train", plan->recipe.spec.train);
	jsontext_bool(json, "shuffle", plan->recipe.spec.shuffle != SHUFFLE_NONE);
	if (plan->recipe.spec.shuffle == SHUFFLE_BLOCKS)
		jsontext_u64(json, "window", plan->recipe.spec.window);
	jsontext_bool(json, "drop_last", plan->epoch.drop_last);
	jsontext_u64(json, "seed", plan->recipe.spec.seed);
	jsontext_bool(json, "whole_images", plan_is_whole(plan));
	shape_json_size(json, "image_size", plan->recipe.spec.image_size);
	if (plan->recipe.spec.transforms.count)
		transforms_json(json, "transforms", &plan->recipe.spec.transforms);
	if (plan->recipe.spec.views.groups)
		views_json(json, "view_groups", &plan->recipe.spec.views);
	jsontext_u64(json, "batch_size", plan->epoch.batch_size);
	jsontext_u64(json, "world_size", plan->epoch.world_size);
	jsontext_u64(json, "global_batch", plan_global(plan));
	jsontext_u64(json, "batches", plan->batches);
	jsontext_u64(json, "samples_used", order_left(&plan->epoch, 0));
	jsontext_u64(json, "samples_dropped", plan_dropped(plan));
	jsontext_u64(json, "last_batch_rows", plan_last_rows(&plan->whole));
	jsontext_u64(json, "rows_padded", plan_padded(&plan->whole));
	if (plan->epoch.buckets)
		plan_json_buckets(json, plan);
}

static void plan_json_from(struct jsontext *json, const struct plan *plan)
{
	jsontext_object(json, "from");
	jsontext_u64(json, "epoch", plan->from.epoch);
	jsontext_u64(json, "batch", plan->from.batch);
	jsontext_u64(json, "position", plan->from.position);
	jsontext_u64(json, "batches_left", plan->left);
	jsontext_u64(json, "samples_left", course_samples(&plan->from.course));
	jsontext_u64(json, "last_batch_rows", plan_last_rows(&plan->from.course));
	jsontext_u64(json, "rows_padded", plan_padded(&plan->from.course));
	jsontext_end(json);
	if (!plan->epochs)
		return;
	jsontext_u64(json, "epochs", plan->epochs);
	jsontext_u64(json, "total_batches", plan_total(plan));
}

static void plan_json_memory(struct jsontext *json, const struct plan *plan)
{
	uint64_t slot = plan_slot_bytes(plan);
	jsontext_object(json, "memory");
	jsontext_u64(json, "slots", plan->prefetch);
	jsontext_u64(json, "slot_bytes", slot);
	jsontext_u64(json, "rank_bytes", slot * plan->prefetch);
	jsontext_u64(json, "ranks_per_node", plan->ranks_per_node);
	jsontext_u64(json, "node_bytes", slot * plan->prefetch * plan->ranks_per_node);
	jsontext_u64(json, "threads", plan->threads);
	jsontext_u64(json, "daemon_bytes", plan->wanted);
	jsontext_u64(json, "daemon_bytes_least", plan->least);
	jsontext_end(json);
}

static void plan_json_node(
	struct jsontext *json, const char *key, const struct plan_reads *reads, uint64_t nodes)
{
	jsontext_object(json, key);
	jsontext_u64(json, "samples", reads->samples);
	jsontext_u64(json, "requests", reads->requests);
	jsontext_u64(json, "bytes", reads->bytes);
	jsontext_u64(json, "hits", reads->hits);
	jsontext_u64(json, "egress_bytes", reads->bytes * nodes);
	jsontext_end(json);
}

static void plan_json_order(struct jsontext *json, const char *key, bool known,
	const struct plan_job *job,
	struct plan_reads (*reads)(const struct plan_job *, uint32_t, bool))
{
	if (!known) {
		jsontext_raw(json, key, "null");
		return;
	}
	const struct plan_reads first = reads(job, 0, false), later = reads(job, 0, true);
	jsontext_object(json, key);
	plan_json_node(json, "first", &first, plan_nodes(job));
	plan_json_node(json, "later", &later, plan_nodes(job));
	jsontext_end(json);
}

/* Writes what the first node reads; the others read as much, or less where they have fewer
 * ranks. */
static void plan_json_reads(struct jsontext *json, const struct plan *plan)
{
	const struct plan_job *job = &plan->job;
	jsontext_object(json, "reads");
	jsontext_u64(json, "nodes", (plan->cut.world_size - 1) / plan->ranks_per_node + 1);
	jsontext_u64(json, "cache_bytes", plan->cache_bytes);
	jsontext_u64(json, "window", plan->blocks_known ? job->blocks.window : 0);
	jsontext_u64(json, "block_samples", plan->blocks_known ? job->blocks.block : 0);
	jsontext_u64(json, "blocks", plan->blocks_known ? blocks_count(&job->blocks) : 0);
	plan_json_order(json, "full", plan->full_known, job, plan_reads_full);
	plan_json_order(json, "by_blocks", plan->blocks_known, job, plan_reads_blocks);
	jsontext_end(json);
}

static void plan_json_rank(struct jsontext *json, const struct plan *plan, uint32_t rank)
{
	const struct plan_rank one = plan_rank(plan, rank);
	jsontext_object(json, NULL);
	jsontext_u64(json, "rank", rank);
	jsontext_u64(json, "batches", plan->left);
	jsontext_u64(json, "samples", one.share.rows - one.share.padded);
	jsontext_u64(json, "last_batch_samples", one.last.count - one.last.padded);
	jsontext_u64(json, "rows_padded", one.share.padded);
	jsontext_u64(json, "first_position", one.first.position);
	jsontext_array(json, "first_samples");
	for (uint32_t row = 0; row < UTIL_MIN(one.first.count, (uint32_t)PLAN_SAMPLES); row++)
		jsontext_u64(json, NULL,
			recipe_sample(&plan->recipe, plan->from.epoch, one.first.position + row));
	jsontext_end(json);
	jsontext_end(json);
}

static int plan_json(const struct plan *plan)
{
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	plan_json_epoch(&json, plan);
	plan_json_from(&json, plan);
	plan_json_memory(&json, plan);
	plan_json_reads(&json, plan);
	jsontext_array(&json, "ranks");
	for (uint32_t rank = 0; rank < plan->epoch.world_size; rank++)
		plan_json_rank(&json, plan, rank);
	jsontext_end(&json);
	jsontext_array(&json, "notes");
	for (unsigned i = 0; i < plan->notes; i++)
		jsontext_string(&json, NULL, plan->note[i]);
	jsontext_end(&json);
	jsontext_end(&json);
	return cli_print_json(&json);
}

/* ---- main ---- */

/* If such a stream would refuse the state, there is nothing to plan. */
static int plan_resume(struct plan *plan)
{
	struct spec_state state;
	const struct stream_spec *spec = &plan->recipe.spec;
	struct resume_difference difference[RESUME_DIFFERENCES];
	char text[512];
	int code = resume_read(plan->named_state, &state);
	if (code != CLI_OK)
		return code;
	unsigned n = resume_compare(&state, spec, &plan->recipe.parts, &plan->epoch, difference);
	for (unsigned i = 0; i < n; i++) {
		resume_sentence(&difference[i], text, sizeof text);
		if (difference[i].refused)
			code = cli_fail(CLI_FAILED, "the state does not fit: %s %s",
				difference[i].what, text);
		else
			plan_note_state(plan, &difference[i]);
	}
	if (code == CLI_OK)
		plan->from = resume_place(&state, &plan->epoch);
	return code;
}

static uint64_t plan_stream(const struct plan *plan, const struct stream_spec *spec, uint32_t slots)
{
	return stream_bytes(spec, plan->recipe.parts.dataset[0], machine_threads(), slots);
}

/* What the daemon of a node needs, including the memory that streams take besides their slots. */
static void plan_measure(struct plan *plan)
{
	const struct stream_spec *spec = &plan->recipe.spec;
	/* All ranks share one list. */
	uint64_t list = recipe_list_bytes(&plan->recipe), ranks = plan->ranks_per_node,
		 all = plan_stream(plan, spec, (uint32_t)plan->prefetch) * ranks + list,
		 two = plan_stream(plan, spec, PLAN_SLOTS_LEAST) * ranks + list;
	plan->wanted = machine_budget_for(all, &plan->threads);
	plan->least = machine_budget_for(two, &plan->threads);
}

/* What the nodes read. Samples of several sources, or drawn ones, are requests of their own. */
static void plan_count_reads(struct plan *plan)
{
	const struct sampler *sampler = &plan->recipe.sampler;
	const struct order *order = &sampler->order[0];
	const struct stream_spec *spec = &plan->recipe.spec;
	const struct dataset *dataset = plan->recipe.parts.dataset[0];
	const uint64_t all = plan_dataset_bytes(&plan->recipe.parts);
	const double share =
		(double)plan->epoch.samples / (double)concat_samples(&plan->recipe.parts);
	plan->full_known = !plan->epoch.buckets && sampler->repeats == 1;
	plan->blocks_known = plan->full_known && sampler->parts == 1 && !sampler->endless &&
			     !sampler->weights && spec->shuffle != SHUFFLE_NONE;
	plan->job = (struct plan_job){
		.epoch = plan->epoch,
		.ranks_per_node = (uint32_t)plan->ranks_per_node,
		.bytes = (uint64_t)((double)all * share),
		.cache_bytes = plan->cache_bytes,
		.blocks = {.samples = order->samples,
			.block = blocks_size(dataset_count(dataset), dataset_bytes(dataset)),
			.window = spec->window},
		.key = {.seed = spec->seed, .epoch = (uint32_t)plan->from.epoch},
	};
}

static int plan_lay_out(struct plan *plan)
{
	int code = recipe_load_parts(&plan->recipe);
	if (code != CLI_OK)
		return code;
	plan->epoch = recipe_epoch(&plan->recipe, &plan->cut, plan->recipe.sampler.length);
	plan->recipe.spec.drop_last = plan->epoch.drop_last;
	code = recipe_fits_epoch(&plan->epoch, plan->source);
	if (code == CLI_OK)
		plan->from.course = plan->whole = course_from(&plan->epoch, 0, 0);
	if (code == CLI_OK && plan->named_state)
		code = plan_resume(plan);
	if (code != CLI_OK)
		return code;
	plan->batches = order_batches(&plan->epoch, 0);
	plan->left = course_left(&plan->from.course);
	plan_measure(plan);
	plan_count_reads(plan);
	plan_judge(plan);
	return CLI_OK;
}

int plan_main(int argc, char **argv)
{
	struct plan plan = {
		.recipe = RECIPE_DEFAULT, .cut = RECIPE_CUT_DEFAULT, .prefetch = PLAN_SLOTS};
	int r = plan_options(&plan, argc, argv);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	int code = recipe_open_parts(&plan.recipe, plan.source);
	if (code == CLI_OK)
		code = plan_lay_out(&plan);
	if (code == CLI_OK)
		code = plan.json ? plan_json(&plan) : plan_people(&plan);
	recipe_unload(&plan.recipe);
	return code;
}
