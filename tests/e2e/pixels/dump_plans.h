/* dump_plans: jobs that are lists of operations, a line each; see dump.h. */
#pragma once

#include "augment/augment.h"
#include "dump.h"

enum { DUMP_PLANS_SIDE_MOST = 2048 };

/* Makes a plan of a line of standard input. */
typedef bool dump_plan_read(char *line, const struct dump *dump, struct step_plan *ret);

static inline int dump_plans_each(
	struct augmenter *augmenter, const struct dump *dump, dump_plan_read *read)
{
	static struct step_plan plan;
	char line[4096];
	cleanup(free_ptr) uint8_t *out = malloc(dump->bytes);
	while (out && fgets(line, sizeof(line), stdin)) {
		if (!read(line, dump, &plan))
			return dump_refuse(DUMP_JOB, "cannot read a job", line);
		memcpy(augmenter_image(augmenter), dump->rgb, dump->bytes);
		augmenter_run(augmenter, &plan, dump->width, dump->height, out);
		(void)fwrite(out, 1, dump->bytes, stdout);
	}
	return out && fflush(stdout) == 0 ? 0 : DUMP_FAILED;
}

/* All of a program but its reading of jobs: each puts out WIDTH x HEIGHT x 3 bytes. Returns the
 * exit code. */
static inline int dump_plans(
	int argc, char **argv, const struct step_recipe *recipe, dump_plan_read *read)
{
	struct dump dump;
	struct augmenter *augmenter;
	struct fault fault;
	int code = dump_open(&dump, argc, argv);
	if (code)
		return code;
	cleanup(free_ptr) uint8_t *rgb = dump.rgb;
	(void)rgb; /* freed on every way out */
	uint32_t side = UTIL_MAX(dump.width, dump.height);
	if (side > DUMP_PLANS_SIDE_MOST)
		return dump_refuse(DUMP_JOB, argv[1], "is too large");
	int rc = augmenter_new(recipe, side, &augmenter, &fault);
	if (rc < 0)
		return dump_refuse_fault(rc, &fault);
	code = dump_plans_each(augmenter, &dump, read);
	augmenter_free(augmenter);
	return code;
}
