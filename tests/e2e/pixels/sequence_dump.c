/* Makes rows by lists of transforms, for sequence_lists.py.
 *
 * usage: sequence_dump < jobs > rows
 *
 * A job is a line: SEED EPOCH POSITION VIEW FAST PATH LIST, with a list as in a definition.
 *
 * With SEQUENCE_POOL=BYTES in the environment, images that are larger than a worker's own memory
 * share BYTES, and the rest goes to files in SEQUENCE_SPILL.
 *
 * The answer is a line "OUTCOME WIDTH HEIGHT WHOLE", the sentence of an outcome other than ok or
 * of a list that is refused, and the row's bytes. Each row is made three times: by itself,
 * together with others, and again from its record. */
#include "e2e/pixels/dump.h"

#include "definition/spec.h"
#include "definition/transforms/transforms.h"
#include "stream/postprocess.h"
#include "stream/row.h"

#include <inttypes.h>

enum { SEQUENCE_LINE = 1 << 16, SEQUENCE_SIDE = 2048, SEQUENCE_SLACK = 64, SEQUENCE_TOGETHER = 3 };

struct sequence_dump {
	struct row_maker maker;
	uint8_t *data;
	size_t size;
	char path[4096];
	uint8_t *row[2];
};

struct sequence_list {
	struct stream_spec spec;
	struct pixel_recipe recipe;
	struct postprocess postprocess;
	struct postprocessor *postprocessor;
};

/* Keeps the last file. */
static int dump_file(struct sequence_dump *dump, const char *path)
{
	if (strcmp(dump->path, path) == 0)
		return 0;
	cleanup(close_file) FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END))
		return -1;
	dump->size = (size_t)ftell(file);
	rewind(file);
	free(dump->data);
	dump->data = calloc(1, dump->size + SEQUENCE_SLACK);
	(void)snprintf(dump->path, sizeof dump->path, "%s", path);
	return dump->data && fread(dump->data, 1, dump->size, file) == dump->size ? 0 : -1;
}

struct dump_together {
	struct row_job job[SEQUENCE_TOGETHER];
	unsigned next;
};

static struct row_job *together_next(void *context)
{
	struct dump_together *together = context;
	return together->next < SEQUENCE_TOGETHER ? &together->job[together->next++] : NULL;
}

static void together_done(void *context, struct row_job *job)
{
	(void)context;
	(void)job;
}

/* Whether rows made together, and again, equal the first. All of them are the same one, so that the
 * order does not matter. */
static bool dump_agrees(struct sequence_dump *dump, struct sequence_list *list,
	const struct pixel_key *key, const struct slots_record *record, int outcome, size_t bytes)
{
	struct dump_together together = {.next = 0};
	for (unsigned i = 0; i < SEQUENCE_TOGETHER; i++)
		together.job[i] = (struct row_job){.data = dump->data,
			.size = dump->size,
			.recipe = &list->recipe,
			.key = *key,
			.postprocessor = list->postprocessor,
			.out = dump->row[1]};
	row_make_many(&dump->maker,
		&(struct row_source){
			.next = together_next, .done = together_done, .context = &together});
	for (unsigned i = 0; i < SEQUENCE_TOGETHER; i++)
		if (together.job[i].outcome != outcome)
			return false;
	if (outcome)
		return true;
	if (memcmp(dump->row[0], dump->row[1], bytes) != 0)
		return false;
	memset(dump->row[1], 0, bytes);
	return row_make_again(&dump->maker, dump->data, dump->size, &list->recipe, record, key,
		       list->postprocessor, dump->row[1]) == 0 &&
	       memcmp(dump->row[0], dump->row[1], bytes) == 0;
}

static int dump_row(
	struct sequence_dump *dump, struct sequence_list *list, const struct pixel_key *key)
{
	const struct pixel_size size = list->recipe.size;
	const size_t bytes = (size_t)3 * size.width * size.height;
	struct slots_record record = {0};
	int outcome = row_make(&dump->maker, dump->data, dump->size, &list->recipe, key,
		list->postprocessor, dump->row[0], &record);
	char text[512];
	(void)snprintf(text, sizeof text, "%s", decoder_message(dump->maker.decoder));
	if (!dump_agrees(dump, list, key, &record, outcome, bytes))
		return dump_refuse(DUMP_FAILED, "another row", "made together, or again");
	printf("%s %" PRIu32 " %" PRIu32 " %d\n", decode_outcome_name((enum decode_outcome)outcome),
		size.width, size.height, transforms_whole(&list->spec.transforms));
	if (outcome)
		printf("%s\n", text);
	else
		(void)fwrite(dump->row[0], 1, bytes, stdout);
	return 0;
}

static int dump_list(
	struct sequence_dump *dump, const char *text, bool fast, const struct pixel_key *key)
{
	static char definition[SEQUENCE_LINE + 128];
	struct sequence_list list = {.postprocessor = NULL};
	struct fault fault;
	(void)snprintf(definition, sizeof definition,
		"{\"source\": \"/x\", \"decode\": \"%s\", \"transforms\": %s}",
		fast ? "fast" : "exact", text);
	if (spec_parse(definition, strlen(definition), "list", &list.spec, &fault) < 0) {
		printf("refused 0 0 0\n%s\n", fault.text);
		return 0;
	}
	list.recipe = spec_pixels(&list.spec, 0);
	int result = postprocess_init(&list.postprocess, &list.spec, 0, &fault);
	if (!result && postprocess_needed(&list.spec, 0))
		result = postprocessor_new(&list.postprocess, &list.postprocessor, &fault);
	result = result ? dump_refuse_fault(result, &fault) : dump_row(dump, &list, key);
	postprocessor_free(list.postprocessor);
	postprocess_deinit(&list.postprocess);
	return result;
}

static int dump_job(struct sequence_dump *dump, char *line)
{
	char path[4096];
	int at = 0, fast;
	struct pixel_key key;
	if (sscanf(line, "%" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %d %4095s %n", &key.seed,
		    &key.epoch, &key.position, &key.view, &fast, path, &at) != 6)
		return dump_refuse(DUMP_JOB, line, "expected a job");
	if (dump_file(dump, path))
		return dump_refuse(DUMP_JOB, path, "cannot be read");
	return dump_list(dump, line + at, fast, &key);
}

int main(void)
{
	static char line[SEQUENCE_LINE];
	static struct sequence_dump dump;
	struct decode_limits limits = decode_limits_default();
	struct fault fault;
	const char *side = getenv("SEQUENCE_SIDE"), *bytes = getenv("SEQUENCE_POOL");
	uint32_t most = side ? (uint32_t)strtoul(side, NULL, 10) : SEQUENCE_SIDE;
	struct permit pool;
	const struct spill spill = {getenv("SEQUENCE_SPILL")};
	if (bytes) {
		permit_init(&pool, strtoull(bytes, NULL, 10));
		limits.large = &pool;
		limits.spill = &spill;
	}
	int result = row_maker_init(&dump.maker, &limits, most, &fault);
	for (int i = 0; i < 2 && !result; i++)
		dump.row[i] = malloc((size_t)3 * SEQUENCE_SIDE * SEQUENCE_SIDE);
	result = result ? dump_refuse_fault(result, &fault) : 0;
	while (!result && fgets(line, sizeof line, stdin))
		result = dump_job(&dump, line);
	row_maker_deinit(&dump.maker);
	if (bytes)
		permit_deinit(&pool);
	free(dump.data);
	free(dump.row[0]);
	free(dump.row[1]);
	return result;
}
