/* status: `penstock status` shows what the running daemon is doing, as a table or as the daemon's
 * JSON. `penstock stop` ends the daemon. Main thread. */
#include "client/cli/cli.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/document.h"
#include "client/cli/options.h"
#include "client/cli/recipe.h"
#include "client/cli/table.h"
#include "penstock/penstock.h"
#include "proto/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STATUS_WIDTH = 80, STATUS_NAME = 12 };

static void status_field(const char *name, const char *value)
{
	table_sentence(2, STATUS_NAME, name, value, STATUS_WIDTH);
}

/* A line that is left out if an older daemon does not report it, or if the feature is off. */
static void status_given(const char *name, const char *value)
{
	if (*value)
		status_field(name, value);
}

static void status_cache(const struct node *cache)
{
	char text[160];
	(void)snprintf(text, sizeof text, "%s; holds %s samples, %s; %s hits, %s misses",
		document_text(cache, "mode", "?"),
		table_count(document_u64(cache, "samples", 0)).text,
		table_bytes(document_u64(cache, "bytes", 0)).text,
		table_count(document_u64(cache, "hits", 0)).text,
		table_count(document_u64(cache, "misses", 0)).text);
	status_field("cache", text);
}

static void status_broken_blocks(uint64_t blocks)
{
	char text[128];
	(void)snprintf(text, sizeof text,
		"%s block%s with wrong checksums, fetched again: check the disk",
		table_count(blocks).text, blocks == 1 ? "" : "s");
	status_field("", text);
}

/* "slowdown 12, stall 3" */
static void status_retried(const struct node *retried)
{
	char text[256] = "";
	size_t at = 0;
	for (size_t i = 0; i < document_count(retried); i++) {
		const char *reason = "";
		const struct node *count = document_at(retried, i, &reason);
		if (at < sizeof text)
			at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %s",
				at ? ", " : "tried again: ", reason,
				table_count(document_whole(document_value(count))).text);
	}
	status_given("", text);
}

/* "64 connections, first byte 12 ms, p99 90 ms; 1.2 GiB in 9,120 requests, 3 tried again" */
static void status_remote(const struct node *remote)
{
	const struct node *cache = document_get(remote, "cache");
	const double hits = document_number(remote, "hit_bytes", 0);
	const double all = hits + document_number(remote, "miss_bytes", 0);
	char text[320];
	if (!remote)
		return;
	(void)snprintf(text, sizeof text,
		"%.0f connections, first byte %s, p99 %s; %s in %s requests, %s tried again",
		document_number(remote, "connections", 0),
		table_seconds(document_number(remote, "first_byte_p50_s", 0)).text,
		table_seconds(document_number(remote, "first_byte_p99_s", 0)).text,
		table_bytes(document_u64(remote, "bytes", 0)).text,
		table_count(document_u64(remote, "requests", 0)).text,
		table_count(document_u64(remote, "retries", 0)).text);
	status_field("remote", text);
	status_retried(document_get(remote, "retried"));
	status_given("", document_text(remote, "waiting", ""));
	if (!cache)
		return;
	(void)snprintf(text, sizeof text, "%s of %s used; %.0f %% of the bytes came from it",
		table_bytes(document_u64(cache, "used", 0)).text,
		table_bytes(document_u64(cache, "size", 0)).text, all > 0 ? 100 * hits / all : 0);
	status_field("disk cache", text);
	if (document_u64(cache, "broken_blocks", 0))
		status_broken_blocks(document_u64(cache, "broken_blocks", 0));
}

static void status_confined(const struct node *confinement)
{
	const struct node *roots = document_get(confinement, "roots");
	status_given("confined", document_text(confinement, "describe", ""));
	for (size_t i = 0; i < document_count(roots); i++)
		status_field(i ? "" : "roots", document_string(document_at(roots, i, NULL)));
}

/* Older daemons report only whether entry points are wanted. */
static void status_entry_points(const struct node *root)
{
	const char *plain = document_bool(root, "checkpoints", true) ? "kept" : "off";
	const char *kept = document_text(root, "checkpoints_kept", plain);
	char text[64];
	(void)snprintf(
		text, sizeof text, "%s%s", kept, strstr(kept, " kept") ? " (see the note)" : "");
	status_field("entry points", text);
}

/* A recorder without a file still measures; a note reports why it has no file. */
static void status_recorder(const struct node *root)
{
	const struct node *recorder = document_get(root, "recorder");
	bool noted = document_count(document_get(root, "notices"));
	bool writes = document_bool(recorder, "writes", true);
	if (!recorder)
		return;
	status_given("recorder", writes  ? document_text(recorder, "path", "")
				 : noted ? "none (see the note)"
					 : "none yet");
}

/* Only where the daemon places by NUMA node. */
static void status_numa(const struct node *nodes)
{
	for (size_t i = 0; i < document_count(nodes); i++) {
		const struct node *node = document_at(nodes, i, NULL);
		char text[160];
		(void)snprintf(text, sizeof text,
			"node %.0f: CPUs %.0f, decoding threads %.0f, reading threads %.0f, "
			"streams %.0f",
			document_number(node, "node", 0), document_number(node, "cpus", 0),
			document_number(node, "workers", 0),
			document_number(node, "reader_threads", 0),
			document_number(node, "streams", 0));
		status_field(i ? "" : "numa", text);
	}
}

static void status_daemon(const struct node *root)
{
	char text[64];
	(void)printf("penstockd %s, pid %.0f, up %s\n", document_text(root, "version", "?"),
		document_number(root, "pid", 0),
		table_clock(document_number(root, "uptime_s", 0)).text);
	status_field("socket", document_text(root, "socket", "?"));
	status_field("reader", document_text(root, "reader", "?"));
	status_field("io", document_text(root, "io", "?"));
	(void)snprintf(text, sizeof text, "%.0f decoding", document_number(root, "threads", 0));
	status_field("threads", text);
	status_numa(document_get(root, "numa"));
	status_cache(document_get(root, "cache"));
	status_remote(document_get(root, "remote"));
	status_entry_points(root);
	status_given("page", document_text(root, "http", ""));
	status_confined(document_get(root, "confinement"));
	status_recorder(root);
}

/* The first lines answer why a user asks. An older daemon has no remedy. */
static void status_verdict(const struct node *root)
{
	const char *verdict = document_text(root, "verdict", ""),
		   *remedy = document_text(root, "remedy", "");
	bool none = !document_count(document_get(root, "streams"));
	if (none)
		verdict = "no stream is open";
	if (!*verdict)
		return;
	table_sentence(0, 2 + STATUS_NAME, "verdict", verdict, STATUS_WIDTH);
	if (*remedy && !none)
		table_sentence(0, 2 + STATUS_NAME, "remedy", remedy, STATUS_WIDTH);
	(void)printf("\n");
}

static void status_memory(const struct node *memory)
{
	char text[96];
	(void)snprintf(text, sizeof text, "%s of %s reserved",
		table_bytes(document_u64(memory, "reserved", 0)).text,
		table_bytes(document_u64(memory, "budget", 0)).text);
	status_field("memory", text);
	const struct node *lines = document_get(memory, "lines");
	struct table *table = table_new();
	for (size_t i = 0; table && i < document_count(lines); i++) {
		const struct node *line = document_at(lines, i, NULL);
		table_row(table);
		table_cell(table, true, "%s", table_bytes(document_u64(line, "bytes", 0)).text);
		table_cell(table, false, "%s", document_text(line, "name", "?"));
	}
	if (table)
		table_print(table, 2 + STATUS_NAME + 1);
	table_free(table);
}

static void status_head(struct table *table)
{
	static const struct {
		const char *name;
		bool right;
	} columns[] = {{"stream", false}, {"epoch", true}, {"batch", true}, {"shape", true},
		{"ready", true}, {"images/s", true}, {"broken", true}};
	table_row(table);
	for (size_t i = 0; i < UTIL_COUNT(columns); i++)
		table_cell(table, columns[i].right, "%s", columns[i].name);
}

/* The ranks of one job have one stream each, with the same name. */
static bool status_of_one_job(const struct node *a, const struct node *b)
{
	return answer_splits(a) && answer_splits(b) &&
	       strcmp(document_text(a, "group", ""), document_text(b, "group", "")) == 0;
}

/* ", at batch 12 of epoch 3": the last batch that it received. Older daemons do not report it. */
static void status_progress(const struct node *trainer, char *buffer, size_t room)
{
	buffer[0] = 0;
	if (!document_get(trainer, "epoch"))
		return;
	if (document_number(trainer, "given", 1) == 0)
		(void)snprintf(buffer, room, ", has received no batch yet");
	else
		(void)snprintf(buffer, room, ", at batch %.0f of epoch %.0f",
			document_number(trainer, "batch", 0), document_number(trainer, "epoch", 0));
}

/* "trainer 4121, at batch 12 of epoch 3, holds 2, waits 3 % of the time" */
static void status_trainer(const struct node *stream, const struct node *trainer)
{
	char rank[24] = "", progress[80], holds[32] = "", waits[48] = "", blocks[64] = "",
	     text[280];
	double held = document_number(trainer, "held", 0);
	double share = document_number(trainer, "waits", 0);
	if (answer_splits(stream))
		(void)snprintf(
			rank, sizeof rank, "rank %.0f: ", document_number(stream, "rank", 0));
	status_progress(trainer, progress, sizeof progress);
	if (held > 0)
		(void)snprintf(holds, sizeof holds, ", holds %.0f", held);
	if (share >= 0.005)
		(void)snprintf(waits, sizeof waits, ", waits %.0f %% of the time", 100 * share);
	if (document_bool(trainer, "blocks", false))
		(void)snprintf(blocks, sizeof blocks, "; others wait for it (%.1f s)",
			document_number(trainer, "held_s", 0));
	(void)snprintf(text, sizeof text, "%strainer %.0f%s%s%s%s", rank,
		document_number(trainer, "pid", 0), progress, holds, waits, blocks);
	table_sentence(0, 1, "", text, STATUS_WIDTH);
}

/* One line per trainer; trainers of the job's other ranks are included. */
static void status_trainers(const struct node *streams, size_t at)
{
	const struct node *stream = document_at(streams, at, NULL);
	size_t shown = 0;
	for (size_t i = at; i < document_count(streams); i++) {
		const struct node *one = document_at(streams, i, NULL),
				  *trainers = document_get(one, "trainers");
		if (i != at && !status_of_one_job(stream, one))
			continue;
		for (size_t k = 0; k < document_count(trainers); k++, shown++)
			status_trainer(one, document_at(trainers, k, NULL));
	}
	if (!shown)
		(void)printf("  no trainer\n");
}

/* The number of trainers of a stream and of the other streams of its job. `ret_given`: how many of
 * them have received a batch. */
static size_t status_attached(
	const struct node *streams, const struct node *stream, size_t *ret_given)
{
	size_t n = 0, given = 0;
	for (size_t i = 0; i < document_count(streams); i++) {
		const struct node *one = document_at(streams, i, NULL),
				  *trainers = document_get(one, "trainers");
		if (one != stream && !status_of_one_job(stream, one))
			continue;
		n += document_count(trainers);
		for (size_t k = 0; k < document_count(trainers); k++)
			given += document_number(document_at(trainers, k, NULL), "given", 0) > 0;
	}
	*ret_given = given;
	return n;
}

/* "split among 4 ranks, 3 of them here"; "every batch shared by 2 trainers; waits for 4" */
static void status_share(const struct node *streams, const struct node *stream)
{
	char whom[96], begins[48] = "", text[192];
	size_t given, here = status_attached(streams, stream, &given);
	double wait_for = document_number(stream, "wait_for", 1);
	double world_size = document_number(stream, "world_size", 0);
	bool detaches = strcmp(document_text(stream, "laggard", "block"), "detach") == 0;
	if (!document_get(stream, "share"))
		return;
	if (answer_splits(stream))
		(void)snprintf(whom, sizeof whom, "split among %.0f rank%s, %zu of them here",
			world_size, world_size == 1 ? "" : "s", here);
	else if (here > 1 || wait_for > 1)
		(void)snprintf(whom, sizeof whom, "every batch shared by %zu trainer%s", here,
			here == 1 ? "" : "s");
	else
		return;
	if (wait_for > (double)here && !given)
		(void)snprintf(begins, sizeof begins, "; waits for %.0f", wait_for);
	(void)snprintf(text, sizeof text, "%s%s%s", whom, begins,
		detaches ? "; laggards are detached" : "");
	table_sentence(0, 1, "", text, STATUS_WIDTH);
}

/* "job rank 2", "(private), eval, seed 3": what tells streams apart is a part of the name, as
 * long as it is short. */
static void status_name(const struct node *stream, int most, char *buffer, size_t room)
{
	const char *differs = answer_differs(stream);
	size_t size = strlen(differs);
	char rank[24] = "";
	if (answer_splits(stream))
		(void)snprintf(rank, sizeof rank, " rank %.0f", document_number(stream, "rank", 0));
	(void)snprintf(buffer, room, "%.120s%s%s%.*s%s", answer_name(stream), rank,
		*differs ? ", " : "", (int)utf8_cut(differs, (size_t)most), differs,
		size > (size_t)most ? "..." : "");
}

static void status_row(struct table *table, const struct node *stream)
{
	enum { STATUS_DIFFERS = 32 };
	struct recipe recipe;
	char name[TABLE_CELL];
	recipe_of_stream(&recipe, stream);
	status_name(stream, STATUS_DIFFERS, name, sizeof name);
	table_row(table);
	table_cell(table, false, "%s", name);
	table_cell(table, true, "%.0f", document_number(stream, "epoch", 0));
	table_cell(table, true, "%.0f/%.0f", document_number(stream, "batch", 0),
		document_number(stream, "batches", 0));
	/* As in top: 64x224, 64x256x128. */
	const struct pixel_size size = recipe_size(&recipe);
	char width[16] = "";
	if (size.width != size.height)
		(void)snprintf(width, sizeof width, "x%" PRIu32, size.width);
	table_cell(table, true, "%.0fx%" PRIu32 "%s", document_number(stream, "batch_size", 0),
		size.height, width);
	table_cell(table, true, "%.0f/%.0f", document_number(stream, "ready", 0),
		document_number(stream, "slots", 0));
	table_cell(table, true, "%s", table_count(document_u64(stream, "rate", 0)).text);
	table_cell(table, true, "%s", table_count(document_whole(answer_broken(stream))).text);
}

static void status_recipe(const struct node *stream)
{
	char text[RECIPE_TEXT];
	struct recipe recipe;
	recipe_of_stream(&recipe, stream);
	recipe_describe(&recipe, text, sizeof text);
	table_sentence(0, 1, "", text, STATUS_WIDTH);
}

/* The source of labels if it is not class names: "labels by manifest: /data/val.csv" */
static void status_labels(const struct node *stream)
{
	const struct node *labels = document_get(stream, "labels");
	for (size_t i = 0; i < document_count(labels); i++) {
		const char *key = "";
		char text[600];
		const struct node *value = document_at(labels, i, &key);
		if (strcmp(key, "only") == 0)
			(void)snprintf(
				text, sizeof text, "only the samples that the manifest names");
		else
			(void)snprintf(
				text, sizeof text, "labels by %s: %s", key, document_string(value));
		table_sentence(0, 1, "", text, STATUS_WIDTH);
	}
}

/* The verdict on a single stream is the daemon's, which comes first. */
static void status_held(const struct node *streams, const struct node *stream)
{
	const char *verdict = document_text(stream, "verdict", ""),
		   *remedy = document_text(stream, "remedy", "");
	char text[1024];
	if (document_count(streams) < 2)
		return;
	if (*verdict)
		table_sentence(0, 1, "", verdict, STATUS_WIDTH);
	(void)snprintf(text, sizeof text, "remedy: %s", remedy);
	if (*remedy)
		table_sentence(0, 1, "", text, STATUS_WIDTH);
}

/* What does not fit into the row: the source, what the stream is doing, its trainers. */
static void status_sentences(const struct node *streams, size_t at)
{
	const struct node *stream = document_at(streams, at, NULL);
	const char *state = document_text(stream, "state", "serving"),
		   *differs = answer_differs(stream);
	(void)printf("%s%s%s: %s\n", answer_name(stream), *differs ? ", " : "", differs,
		document_text(stream, "source", "?"));
	status_recipe(stream);
	status_labels(stream);
	status_share(streams, stream);
	if (document_get(stream, "indexed_samples"))
		(void)printf("  %s: %s sample%s so far\n", state,
			table_count(document_u64(stream, "indexed_samples", 0)).text,
			document_u64(stream, "indexed_samples", 0) == 1 ? "" : "s");
	else if (strcmp(state, "serving") != 0)
		(void)printf("  %s\n", state);
	else
		status_held(streams, stream);
	status_trainers(streams, at);
}

/* Whether an earlier stream of the same job has already reported it. */
static bool status_told(const struct node *streams, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (status_of_one_job(
			    document_at(streams, i, NULL), document_at(streams, at, NULL)))
			return true;
	return false;
}

static void status_streams(const struct node *streams)
{
	struct table *table = table_new();
	if (!table)
		return;
	status_head(table);
	for (size_t i = 0; i < document_count(streams); i++)
		status_row(table, document_at(streams, i, NULL));
	(void)printf("\n");
	table_print(table, 0);
	table_free(table);
	(void)printf("\n");
	for (size_t i = 0; i < document_count(streams); i++)
		if (!status_told(streams, i))
			status_sentences(streams, i);
}

static void status_print(const struct node *root)
{
	const struct node *streams = document_get(root, "streams"),
			  *notices = document_get(root, "notices");
	status_verdict(root);
	status_daemon(root);
	status_memory(document_get(root, "memory"));
	if (document_count(streams))
		status_streams(streams);
	for (size_t i = 0; i < document_count(notices); i++)
		(void)printf("note: %s\n", document_string(document_at(notices, i, NULL)));
}

int status_main(int argc, char **argv)
{
	static const struct command command = {
		.name = "status",
		.operands = "",
		.about = "Shows what the running daemon is doing: what holds its trainers up, its "
			 "memory,\nits streams and their trainers.",
	};
	bool as_json = false;
	const char *socket = NULL, *operand[OPTIONS_OPERANDS];
	const struct option table[] = {
		{"socket", 0, OPTION_TEXT, &socket, "PATH",
			"the daemon's socket (PENSTOCK_SOCKET, or the one found)", 0, 0, NULL},
		{"json", 'j', OPTION_FLAG, &as_json, NULL,
			"print the daemon's answer, one JSON object", 0, 0, NULL},
	};
	int r = options_parse(&command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	cleanup(free_ptr) char *text = NULL;
	struct node *root;
	char said[ANSWER_SENTENCE];
	if (answer_ask(socket, &text, &root, said) < 0)
		return cli_fail(CLI_FAILED, "%s", said);
	if (as_json) {
		(void)printf("%s\n", text);
	} else {
		document_tame(root);
		status_print(root);
	}
	document_free(root);
	return CLI_OK;
}

int stop_main(int argc, char **argv)
{
	static const struct command command = {
		.name = "stop",
		.operands = "",
		.about = "Ends the running daemon after its trainers have received what is ready "
			 "for them.",
	};
	const char *socket = NULL, *operand[OPTIONS_OPERANDS];
	const struct option table[] = {
		{"socket", 0, OPTION_TEXT, &socket, "PATH",
			"the daemon's socket (PENSTOCK_SOCKET, or the one found)", 0, 0, NULL},
	};
	int r = options_parse(&command, table, UTIL_COUNT(table), argc, argv, operand);
	if (r != OPTIONS_OK)
		return r < 0 ? CLI_USAGE : CLI_OK;
	r = penstock_daemon_stop(socket);
	if (r == 0)
		return CLI_OK;
	const char *why = penstock_error();
	return cli_fail(CLI_FAILED, "%s", *why ? why : strerror(-r));
}
