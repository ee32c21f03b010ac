/* timm_dump: what timm's policies come to, for timm_policies.py to compare.
 *
 * usage: timm_dump arguments < lines
 *        timm_dump configs < lines
 *        timm_dump RGB_FILE WIDTH HEIGHT < jobs > images
 *
 * Each line of the first is "NAME MAGNITUDE NEGATIVE TRANSLATE", and gives the argument in
 * hexadecimal. Each line of the second is a string for a policy, and gives its numbers, and the
 * string as it is written back.
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. A job is a line
 *
 *   FILTER R G B TRANSLATE ITEM ...
 *
 * of items: "op NAME MAGNITUDE NEGATIVE SHARE", or "mix SHARE CHAINS" or "blend SHARE CHAINS", and
 * for each chain "chain WEIGHT" followed by its ops. It puts out WIDTH x HEIGHT x 3 bytes. Exit
 * code 2 for what cannot be read. */
#include "augment/step_timm.h"
#include "definition/transforms/transforms_timm.h"
#include "dump_plans.h"

static bool word_read(const char **ret)
{
	*ret = strtok(NULL, " \n");
	return *ret != NULL;
}

static bool number_read(double *ret)
{
	const char *text;
	char *end;
	if (!word_read(&text))
		return false;
	*ret = strtod(text, &end);
	return *end == '\0';
}

static bool op_find(const char *name, enum timm_op *ret)
{
	for (unsigned i = 0; i < TIMM_OPS; i++)
		if (name && strcmp(timm_op_names[i], name) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static bool drawn_read(struct timm_drawn *ret)
{
	double negative;
	if (!number_read(&ret->magnitude) || !number_read(&negative))
		return false;
	ret->negative = negative != 0;
	return true;
}

/* --- arguments and configs --- */

static int arguments_run(void)
{
	char line[256];
	while (fgets(line, sizeof(line), stdin)) {
		enum timm_op op;
		struct timm_drawn drawn = {0};
		double translate;
		if (!op_find(strtok(line, " \n"), &op) || !drawn_read(&drawn) ||
			!number_read(&translate))
			return DUMP_JOB;
		printf("%a\n", timm_argument(op, &drawn, translate));
	}
	return 0;
}

static int configs_run(void)
{
	char line[256], text[TRANSFORMS_TIMM_TEXT];
	while (fgets(line, sizeof(line), stdin)) {
		struct fault fault;
		struct step step = {.timm.translate = -1};
		double numbers[TRANSFORMS_TIMM_NUMBERS];
		line[strcspn(line, "\n")] = '\0';
		if (transforms_timm_parse(line, strlen(line), &step, &fault) < 0) {
			printf("refused: %s\n", fault.text);
			continue;
		}
		size_t count = transforms_timm_numbers(&step, numbers);
		for (size_t i = 0; i < count; i++)
			printf("%.17g ", numbers[i]);
		transforms_timm_text(&step, text);
		printf("%s\n", text);
	}
	return 0;
}

/* --- jobs --- */

static bool step_read(char *line, struct step *ret)
{
	const char *filter = strtok(line, " \n");
	*ret = (struct step){.interpolation = WEIGHTS_FILTERS};
	for (unsigned i = 0; filter && i < WEIGHTS_FILTERS; i++)
		if (strcmp(weights_filter_names[i], filter) == 0)
			ret->interpolation = i;
	for (int c = 0; c < 3; c++)
		if (!number_read(&ret->fill[c]))
			return false;
	return ret->interpolation != WEIGHTS_FILTERS && number_read(&ret->timm.translate);
}

static bool op_read(struct step_sample *sample, const struct step *step)
{
	const char *name;
	enum timm_op op;
	struct timm_drawn drawn = {.filter = step->interpolation};
	if (!word_read(&name) || !op_find(name, &op) || !drawn_read(&drawn) ||
		!number_read(&drawn.share))
		return false;
	timm_apply(sample, step, op, &drawn);
	return true;
}

static bool mix_read(struct step_sample *sample, enum op_kind kind)
{
	double share, chains;
	if (!number_read(&share) || !number_read(&chains))
		return false;
	step_push(sample,
		&(const struct op){.kind = kind, .amount = share, .chains = (uint32_t)chains});
	return true;
}

static bool items_read(struct step_sample *sample, const struct step *step)
{
	struct step_plan *plan = sample->plan;
	struct op *chain = NULL;
	for (const char *item; word_read(&item);) {
		double weight;
		bool ok = true;
		if (strcmp(item, "op") == 0) {
			ok = op_read(sample, step);
		} else if (strcmp(item, "mix") == 0 || strcmp(item, "blend") == 0) {
			ok = mix_read(sample, *item == 'm' ? OP_TIMM_MIX : OP_TIMM_BLEND);
		} else if (strcmp(item, "chain") == 0 && number_read(&weight)) {
			chain = &plan->op[plan->count];
			step_push_amount(sample, OP_CHAIN, weight);
		} else {
			return false;
		}
		if (!ok)
			return false;
		if (chain)
			chain->length = (uint32_t)(&plan->op[plan->count] - chain) - 1;
	}
	return true;
}

/* The weights of the chains become their amounts. */
static void plan_blend(struct step_plan *plan)
{
	float weights[STEP_PLAN_MAX];
	uint32_t count = 0;
	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->op[i].kind == OP_CHAIN)
			weights[count++] = (float)plan->op[i].amount;
	timm_blended(weights, count, (float)plan->op[0].amount);
	count = 0;
	for (uint32_t i = 0; i < plan->count; i++)
		if (plan->op[i].kind == OP_CHAIN)
			plan->op[i].amount = weights[count++];
}

static bool plan_read(char *line, const struct dump *dump, struct step_plan *ret)
{
	struct step_sample sample = {.width = dump->width, .height = dump->height, .plan = ret};
	struct step step;
	ret->count = 0;
	if (!step_read(line, &step) || !items_read(&sample, &step))
		return false;
	if (ret->count && ret->op[0].kind == OP_TIMM_BLEND)
		plan_blend(ret);
	return true;
}

int main(int argc, char **argv)
{
	static const struct step_recipe recipe = {.count = 1,
		.step = {{.kind = STEP_TIMM_AUTO_AUGMENT, .timm.policy = STEP_TIMM_AUGMIX}}};
	if (argc == 2 && strcmp(argv[1], "arguments") == 0)
		return arguments_run();
	if (argc == 2 && strcmp(argv[1], "configs") == 0)
		return configs_run();
	return dump_plans(argc, argv, &recipe, plan_read);
}
