/* top_table: streams and trainers, a row each; see top_view.h. */
#include "client/cli/watch/top_parts.h"

#include "base/util.h"
#include "client/cli/answer.h"
#include "client/cli/bar.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_SLOTS = 8, TABLE_SLOTS_MOST = 32, TABLE_VERDICT = 32 };

enum stream_column {
	STREAM_NAME,
	STREAM_DIFFERS,
	STREAM_STATE,
	STREAM_EPOCH,
	STREAM_BATCH,
	STREAM_RATE,
	STREAM_SLOTS,
	STREAM_READY,
	STREAM_WAITS,
	STREAM_BOTTLENECK,
	STREAM_TRAINERS,
	STREAM_BROKEN,
	STREAM_SHAPE,
	STREAM_SOURCE,
	STREAM_COLUMNS
};

static const struct column stream_columns[STREAM_COLUMNS] = {
	[STREAM_NAME] = {"stream", false, 0, 13, 0},
	[STREAM_DIFFERS] = {"differs", false, 4, 20, 0},
	[STREAM_STATE] = {"state", false, 7, 0, 0},
	[STREAM_EPOCH] = {"epoch", true, 6, 0, 0},
	[STREAM_BATCH] = {"batch", true, 2, 0, 0},
	[STREAM_RATE] = {"images/s", true, 1, 0, 0},
	[STREAM_SLOTS] = {"slots", false, 9, 0, TABLE_SLOTS_MOST},
	[STREAM_READY] = {"ready", true, 10, 0, 0},
	[STREAM_WAITS] = {"waits", true, 3, 0, 0},
	[STREAM_BOTTLENECK] = {"held up by", false, 5, 0, 0},
	[STREAM_TRAINERS] = {"trainers", true, 8, 0, 0},
	[STREAM_BROKEN] = {"broken", true, 11, 0, 0},
	[STREAM_SHAPE] = {"shape", true, 12, 0, 0},
	[STREAM_SOURCE] = {"source", false, 13, 20, 0},
};

enum trainer_column {
	TRAINER_PID,
	TRAINER_STREAM,
	TRAINER_GIVEN,
	TRAINER_AT,
	TRAINER_HELD,
	TRAINER_WAITS,
	TRAINER_CPU,
	TRAINER_RESIDENT,
	TRAINER_GPU,
	TRAINER_BLOCKS,
	TRAINER_COMMAND,
	TRAINER_COLUMNS
};

static const struct column trainer_columns[TRAINER_COLUMNS] = {
	[TRAINER_PID] = {"trainer", true, 0, 0, 0},
	[TRAINER_STREAM] = {"stream", false, 7, 8, 0},
	[TRAINER_GIVEN] = {"batches", true, 4, 0, 0},
	[TRAINER_AT] = {"at", true, 10, 0, 0},
	[TRAINER_HELD] = {"holds", true, 3, 0, 0},
	[TRAINER_WAITS] = {"waits", true, 1, 0, 0},
	[TRAINER_CPU] = {"CPUs", true, 9, 0, 0},
	[TRAINER_RESIDENT] = {"memory", true, 5, 0, 0},
	[TRAINER_GPU] = {"GPU memory", true, 6, 0, 0},
	[TRAINER_BLOCKS] = {"blocks others", true, 2, 0, 0},
	[TRAINER_COMMAND] = {"command", false, 8, 10, 0},
};

static const char *const stream_orders[] = {"newest first", "waits", "images/s", "name"};
static const char *const trainer_orders[] = {"newest first", "waits", "memory", "holds"};

unsigned top_orders(enum top_page page)
{
	if (page == TOP_STREAMS)
		return UTIL_COUNT(stream_orders);
	return page == TOP_TRAINERS ? UTIL_COUNT(trainer_orders) : 0;
}

const char *top_order_name(enum top_page page, unsigned order)
{
	if (order >= top_orders(page))
		return "";
	return page == TOP_STREAMS ? stream_orders[order] : trainer_orders[order];
}

void top_identity(const struct node *stream, char *buffer, size_t room)
{
	const struct node *first = document_at(document_get(stream, "trainers"), 0, NULL);
	const char *name = document_text(stream, "name", ""),
		   *group = document_text(stream, "group", "");
	int n = snprintf(buffer, room, "%.0f %.60s\n%.60s\n%.60s",
		document_number(stream, "rank", 0), name, group,
		document_text(stream, "source", ""));
	/* Streams of one dataset without a name: by what stays as it is when others come and go. */
	if (!*name && !*group && n > 0 && (size_t)n < room)
		(void)snprintf(buffer + n, room - (size_t)n, "\n%.0f %d %.0f %.0f %.0f",
			document_number(first, "pid", 0), document_bool(stream, "train", true),
			document_number(stream, "seed", 0),
			document_number(stream, "image_size", 0),
			document_number(stream, "batch_size", 0));
}

/* The last part of a path: it tells unnamed streams apart. */
static const char *table_last(const char *path)
{
	const char *last = strrchr(path, '/');
	return last && last[1] ? last + 1 : path;
}

static void table_name(const struct node *stream, struct columns_cell *cell)
{
	if (answer_splits(stream))
		(void)snprintf(cell->text, sizeof cell->text, "%.200s rank %.0f",
			answer_name(stream), document_number(stream, "rank", 0));
	else if (*document_text(stream, "name", "") || *document_text(stream, "group", ""))
		(void)snprintf(cell->text, sizeof cell->text, "%s", answer_name(stream));
	else
		(void)snprintf(cell->text, sizeof cell->text, "%s %.200s", answer_name(stream),
			table_last(document_text(stream, "source", "")));
}

/* A row of a trainer has no column for what tells streams of a dataset apart: a stream without a
 * name is then "imagenet, eval". */
static void table_trainer_stream(const struct node *stream, struct columns_cell *cell)
{
	const char *differs = answer_differs(stream);
	if (!*differs || answer_splits(stream) || *document_text(stream, "name", "") ||
		*document_text(stream, "group", ""))
		table_name(stream, cell);
	else
		(void)snprintf(cell->text, sizeof cell->text, "%.200s, %.200s",
			table_last(document_text(stream, "source", "")), differs);
}

static void table_number(double value, struct columns_cell *cell)
{
	(void)top_count(value, cell->text, sizeof cell->text);
}

static void table_percent(double share, struct columns_cell *cell)
{
	(void)top_percent(share, cell->text, sizeof cell->text);
	cell->attr = top_wait_attr(share);
}

static void table_state(const struct node *stream, struct columns_cell *cell)
{
	const char *state = document_text(stream, "state", "");
	bool waits = strncmp(state, "waiting", 7) == 0;
	(void)snprintf(cell->text, sizeof cell->text, "%s", waits ? "waiting" : state);
	if (strcmp(state, "serving") != 0)
		cell->attr = PAPER_WARN;
}

static void table_batch(const struct node *stream, struct columns_cell *cell)
{
	char at[32], of[32];
	if (isnan(top_number(stream, "batches")))
		return;
	(void)snprintf(cell->text, sizeof cell->text, "%s/%s",
		top_count(document_number(stream, "batch", 0), at, sizeof at),
		top_count(document_number(stream, "batches", 0), of, sizeof of));
}

/* Before the table is planned, the bar has its least width. */
static void table_slots(
	const struct top_rows *rows, const struct node *stream, struct columns_cell *cell)
{
	int width = UTIL_MAX(rows->columns.width[STREAM_SLOTS], TABLE_SLOTS);
	const double amounts[BAR_KINDS] = {document_number(stream, "leased", 0),
		document_number(stream, "ready", 0), document_number(stream, "slots_filling", 0),
		document_number(stream, "slots_free", 0)};
	for (int i = 0; i < BAR_KINDS; i++)
		if (!(amounts[i] >= 0 && amounts[i] < 1e9))
			return;
	char bar[BAR_ROOM];
	(void)snprintf(cell->text, sizeof cell->text, "%s",
		bar_parts(amounts, BAR_KINDS, width, rows->view->utf8, bar));
}

static void table_bottleneck(const struct node *stream, struct columns_cell *cell)
{
	const struct node *bottleneck = document_get(stream, "bottleneck");
	const char *kind = document_text(bottleneck, "kind", ""),
		   *verdict = document_text(stream, "verdict", "");
	char share[24];
	if (*kind && strcmp(kind, "unknown") != 0)
		(void)snprintf(cell->text, sizeof cell->text, "%s %s", kind,
			strcmp(kind, "none") == 0 ? ""
						  : top_percent(top_number(bottleneck, "share"),
							    share, sizeof share));
	else if (!*kind)
		(void)snprintf(cell->text, sizeof cell->text, "%.*s",
			(int)UTIL_MIN(strcspn(verdict, ":,"), (size_t)TABLE_VERDICT), verdict);
}

static void table_shape(const struct node *stream, struct columns_cell *cell)
{
	/* A number, or [height, width]. */
	const struct node *size = document_get(stream, "image_size");
	const double batch = document_number(stream, "batch_size", 0);
	if (!document_get(stream, "batch_size"))
		return;
	if (document_count(size) == 2)
		(void)snprintf(cell->text, sizeof cell->text, "%.0fx%.0fx%.0f", batch,
			document_value(document_at(size, 0, NULL)),
			document_value(document_at(size, 1, NULL)));
	else
		(void)snprintf(cell->text, sizeof cell->text, "%.0fx%.0f", batch,
			document_number(stream, "image_size", 0));
}

static void table_ready(const struct node *stream, struct columns_cell *cell)
{
	if (document_get(stream, "slots"))
		(void)snprintf(cell->text, sizeof cell->text, "%.0f/%.0f",
			document_number(stream, "ready", 0), document_number(stream, "slots", 0));
}

static void table_stream_place(const struct top_rows *rows, const struct node *stream, int column,
	struct columns_cell *cell)
{
	switch ((enum stream_column)column) {
	case STREAM_NAME:
		table_name(stream, cell);
		break;
	case STREAM_DIFFERS:
		(void)snprintf(cell->text, sizeof cell->text, "%s", answer_differs(stream));
		break;
	case STREAM_STATE:
		table_state(stream, cell);
		break;
	case STREAM_EPOCH:
		table_number(top_number(stream, "epoch"), cell);
		break;
	case STREAM_BATCH:
		table_batch(stream, cell);
		break;
	case STREAM_SLOTS:
		table_slots(rows, stream, cell);
		break;
	case STREAM_READY:
		table_ready(stream, cell);
		break;
	case STREAM_SHAPE:
		table_shape(stream, cell);
		break;
	default:
		break;
	}
}

static void table_stream_pace(const struct node *stream, int column, struct columns_cell *cell)
{
	double broken;
	switch ((enum stream_column)column) {
	case STREAM_RATE:
		table_number(top_number(stream, "rate"), cell);
		break;
	case STREAM_WAITS:
		table_percent(top_waits(stream), cell);
		break;
	case STREAM_BOTTLENECK:
		table_bottleneck(stream, cell);
		break;
	case STREAM_TRAINERS:
		table_number((double)document_count(document_get(stream, "trainers")), cell);
		break;
	case STREAM_BROKEN:
		broken = answer_broken(stream);
		table_number(broken, cell);
		cell->attr = broken > 0 ? PAPER_WARN : PAPER_PLAIN;
		break;
	case STREAM_SOURCE:
		(void)snprintf(
			cell->text, sizeof cell->text, "%s", document_text(stream, "source", ""));
		break;
	default:
		break;
	}
}

static void table_stream_cell(
	const void *context, size_t row, int column, struct columns_cell *ret_cell)
{
	const struct top_rows *rows = context;
	const struct node *stream = rows->row[row].stream;
	table_stream_place(rows, stream, column, ret_cell);
	table_stream_pace(stream, column, ret_cell);
}

static void table_at(const struct node *trainer, struct columns_cell *cell)
{
	char batch[32];
	if (document_number(trainer, "given", 0) > 0)
		(void)snprintf(cell->text, sizeof cell->text, "%.0f:%s",
			document_number(trainer, "epoch", 0),
			top_count(document_number(trainer, "batch", 0), batch, sizeof batch));
}

/* Leaves out the folder of the program: what follows tells trainers apart. */
static void table_command(const char *command, struct columns_cell *cell)
{
	size_t program = strcspn(command, " "), from = program;
	while (from && command[from - 1] != '/')
		from--;
	(void)snprintf(cell->text, sizeof cell->text, "%s", command + from);
}

static void table_blocks(const struct node *trainer, struct columns_cell *cell)
{
	cell->attr = PAPER_BAD;
	if (document_bool(trainer, "blocks", false))
		(void)snprintf(cell->text, sizeof cell->text, "%.1f s",
			document_number(trainer, "held_s", 0));
}

static void table_trainer_batches(const struct node *trainer, int column, struct columns_cell *cell)
{
	switch ((enum trainer_column)column) {
	case TRAINER_GIVEN:
		table_number(top_number(trainer, "given"), cell);
		break;
	case TRAINER_AT:
		table_at(trainer, cell);
		break;
	case TRAINER_HELD:
		table_number(top_number(trainer, "held"), cell);
		break;
	case TRAINER_WAITS:
		table_percent(top_number(trainer, "waits"), cell);
		break;
	case TRAINER_BLOCKS:
		table_blocks(trainer, cell);
		break;
	default:
		break;
	}
}

static void table_trainer_cell(
	const void *context, size_t row, int column, struct columns_cell *ret_cell)
{
	const struct top_rows *rows = context;
	const struct node *trainer = rows->row[row].trainer;
	char *text = ret_cell->text;
	double cpu;
	switch ((enum trainer_column)column) {
	case TRAINER_PID:
		(void)snprintf(text, COLUMNS_CELL, "%.0f", document_number(trainer, "pid", 0));
		break;
	case TRAINER_STREAM:
		if (rows->several)
			table_trainer_stream(rows->row[row].stream, ret_cell);
		break;
	case TRAINER_CPU:
		cpu = top_number(trainer, "cpu");
		if (cpu >= 0)
			(void)snprintf(text, COLUMNS_CELL, "%.2f", cpu);
		break;
	case TRAINER_RESIDENT:
		(void)top_bytes(top_number(trainer, "resident_bytes"), text, COLUMNS_CELL);
		break;
	case TRAINER_GPU:
		(void)top_bytes(top_number(trainer, "gpu_bytes"), text, COLUMNS_CELL);
		break;
	case TRAINER_COMMAND:
		table_command(document_text(trainer, "command", ""), ret_cell);
		break;
	default:
		table_trainer_batches(trainer, column, ret_cell);
	}
}

static double table_stream_key(const struct node *stream, unsigned order)
{
	double key = order == 1 ? top_waits(stream) : order == 2 ? top_number(stream, "rate") : 0;
	return isnan(key) ? -1 : key;
}

static double table_trainer_key(const struct node *trainer, unsigned order)
{
	static const char *const keys[] = {"", "waits", "resident_bytes", "held"};
	double key = order ? top_number(trainer, keys[order]) : 0;
	return isnan(key) ? -1 : key;
}

/* The largest first; equal rows stay in the order in which they were opened. */
static int table_by_key(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return (x->place > y->place) - (x->place < y->place);
}

static int table_by_name(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	int r = strcmp(answer_name(x->stream), answer_name(y->stream));
	return r ? r : (x->place > y->place) - (x->place < y->place);
}

static void table_plan(struct top_rows *rows, const struct column *column, int count, int width)
{
	rows->columns.column = column;
	rows->columns.count = count;
	rows->columns.rows = rows->count;
	rows->columns.context = rows;
	columns_plan(&rows->columns, width, rows->view->utf8);
}

int top_rows_streams(const struct top_view *view, int width, struct top_rows *ret_rows)
{
	const struct node *streams = document_get(view->now, "streams");
	unsigned order = view->order[TOP_STREAMS];
	size_t count = document_count(streams);
	*ret_rows = (struct top_rows){.view = view, .columns.cell = table_stream_cell};
	ret_rows->row = calloc(count + 1, sizeof *ret_rows->row);
	if (!ret_rows->row)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct node *one = document_at(streams, i, NULL);
		ret_rows->row[ret_rows->count++] = (struct top_row){
			.stream = one, .key = table_stream_key(one, order), .place = i};
	}
	qsort(ret_rows->row, count, sizeof *ret_rows->row,
		order == UTIL_COUNT(stream_orders) - 1 ? table_by_name : table_by_key);
	table_plan(ret_rows, stream_columns, STREAM_COLUMNS, width);
	return 0;
}

static size_t table_count_trainers(const struct node *streams, const struct node *only)
{
	size_t count = 0;
	for (size_t i = 0; i < document_count(streams); i++) {
		const struct node *one = document_at(streams, i, NULL);
		if (!only || one == only)
			count += document_count(document_get(one, "trainers"));
	}
	return count;
}

int top_rows_trainers(
	const struct top_view *view, const struct node *only, int width, struct top_rows *ret_rows)
{
	const struct node *streams = document_get(view->now, "streams");
	unsigned order = view->order[TOP_TRAINERS];
	*ret_rows = (struct top_rows){
		.view = view, .several = !only, .columns.cell = table_trainer_cell};
	ret_rows->row = calloc(table_count_trainers(streams, only) + 1, sizeof *ret_rows->row);
	if (!ret_rows->row)
		return -ENOMEM;
	for (size_t i = 0; i < document_count(streams); i++) {
		const struct node *stream = document_at(streams, i, NULL),
				  *trainers = document_get(stream, "trainers");
		if (only && stream != only)
			continue;
		for (size_t k = 0; k < document_count(trainers); k++) {
			const struct node *one = document_at(trainers, k, NULL);
			size_t place = ret_rows->count++;
			ret_rows->row[place] = (struct top_row){.stream = stream,
				.trainer = one,
				.key = table_trainer_key(one, order),
				.place = place};
		}
	}
	qsort(ret_rows->row, ret_rows->count, sizeof *ret_rows->row, table_by_key);
	table_plan(ret_rows, trainer_columns, TRAINER_COLUMNS, width);
	return 0;
}

void top_rows_free(struct top_rows *rows)
{
	free(rows->row);
	rows->row = NULL;
}
