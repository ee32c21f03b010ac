/* policy_dump: what RandAugment and its kin come to, for policy_torchvision.py to compare.
 *
 * usage: policy_dump tables < lines
 *        policy_dump RGB_FILE WIDTH HEIGHT < jobs > images
 *
 * Each line of the first is "SPACE BINS WIDTH HEIGHT" (SPACE: rand, trivial, augmix), and gives a
 * line for each operation with a magnitude: its name and all its magnitudes in hexadecimal.
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. A job is a line
 *
 *   SPACE BINS FILTER R G B ITEM ...
 *
 * of items: "op NAME BIN SIGN" (SIGN 1: minus), or for AugMix "mix WEIGHT CHAINS", and for each
 * chain "chain WEIGHT" followed by its ops. It puts out WIDTH x HEIGHT x 3 bytes. Exit code 2
 * for what cannot be read. */
#include "augment/step_policy.h"
#include "dump_plans.h"

/* What a job begins with. */
struct setting {
	const struct policy_space *space;
	uint32_t bins;
	struct step step;
};

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

static bool whole_read(uint32_t *ret)
{
	double number;
	if (!number_read(&number) || !(number >= 0 && number <= 65535))
		return false;
	*ret = (uint32_t)number;
	return true;
}

static const struct policy_space *space_find(const char *name)
{
	if (name && strcmp(name, "rand") == 0)
		return &policy_space_rand;
	if (name && strcmp(name, "trivial") == 0)
		return &policy_space_trivial;
	return name && strcmp(name, "augmix") == 0 ? &policy_space_augmix : NULL;
}

static bool op_find(const char *name, enum policy_op *ret)
{
	for (unsigned i = 0; i < POLICY_OPS; i++)
		if (strcmp(policy_op_names[i], name) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static bool filter_find(const char *name, enum weights_filter *ret)
{
	for (unsigned i = 0; i < WEIGHTS_FILTERS; i++)
		if (strcmp(weights_filter_names[i], name) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* --- tables --- */

static void table_print(
	const struct policy_space *space, uint32_t bins, uint32_t width, uint32_t height)
{
	for (unsigned op = 0; op < POLICY_OPS; op++) {
		if (!policy_has_magnitude(op))
			continue;
		printf("%s", policy_op_names[op]);
		for (uint32_t bin = 0; bin < bins; bin++)
			printf(" %a", policy_magnitude(space, op, bin, bins, width, height));
		printf("\n");
	}
}

static int tables_run(void)
{
	char line[256];
	while (fgets(line, sizeof(line), stdin)) {
		const struct policy_space *space = space_find(strtok(line, " \n"));
		uint32_t bins, width, height;
		if (!space || !whole_read(&bins) || bins < 2 || !whole_read(&width) ||
			!whole_read(&height))
			return DUMP_JOB;
		table_print(space, bins, width, height);
	}
	return 0;
}

/* --- jobs --- */

static bool setting_read(char *line, struct setting *ret)
{
	const char *filter;
	uint32_t fill[3];
	*ret = (struct setting){.space = space_find(strtok(line, " \n"))};
	if (!ret->space || !whole_read(&ret->bins) || ret->bins < 2 || !word_read(&filter) ||
		!filter_find(filter, &ret->step.interpolation))
		return false;
	for (int c = 0; c < 3; c++) {
		if (!whole_read(&fill[c]) || fill[c] > 255)
			return false;
		ret->step.fill[c] = fill[c];
	}
	return true;
}

static bool op_read(struct step_sample *sample, const struct setting *setting)
{
	const char *name;
	enum policy_op op;
	uint32_t bin, minus;
	if (!word_read(&name) || !op_find(name, &op) || !whole_read(&bin) || bin >= setting->bins ||
		!whole_read(&minus))
		return false;
	policy_apply(sample, &setting->step, op,
		policy_drawn(
			sample, setting->space, op, bin, setting->bins, minus ? UINT32_MAX : 0));
	return true;
}

static bool mix_read(struct step_sample *sample)
{
	struct op op = {.kind = OP_AUGMIX};
	if (!number_read(&op.amount) || !whole_read(&op.chains))
		return false;
	step_push(sample, &op);
	return true;
}

static bool items_read(struct step_sample *sample, const struct setting *setting)
{
	struct step_plan *plan = sample->plan;
	struct op *chain = NULL;
	for (const char *item; word_read(&item);) {
		double weight;
		bool ok = true;
		if (strcmp(item, "op") == 0) {
			ok = op_read(sample, setting);
		} else if (strcmp(item, "mix") == 0) {
			ok = mix_read(sample);
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

static bool plan_read(char *line, const struct dump *dump, struct step_plan *ret)
{
	struct step_sample sample = {.width = dump->width, .height = dump->height, .plan = ret};
	struct setting setting;
	ret->count = 0;
	return setting_read(line, &setting) && items_read(&sample, &setting);
}

int main(int argc, char **argv)
{
	static const struct step_recipe recipe = {.count = 1,
		.step = {{.kind = STEP_AUG_MIX, .mixture_width = 10, .chain_depth = -1}}};
	if (argc == 2 && strcmp(argv[1], "tables") == 0)
		return tables_run();
	return dump_plans(argc, argv, &recipe, plan_read);
}
