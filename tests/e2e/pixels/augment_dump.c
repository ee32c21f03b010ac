/* augment_dump: carries ops out on raw pixels, for augment_pillow.py to compare with Pillow.
 *
 * usage: augment_dump RGB_FILE WIDTH HEIGHT < jobs > images
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. Each line of standard input is a job: ops with
 * their parameters, in the order in which they are done (unit/augment/words.h).
 *
 * Each job puts out WIDTH x HEIGHT x 3 bytes. Exit codes: dump.h. */
#include "dump_plans.h"

#include "unit/augment/words.h"

static bool plan_read(char *line, const struct dump *dump, struct step_plan *ret)
{
	(void)dump;
	return words_read(line, ret);
}

int main(int argc, char **argv)
{
	static const struct step_recipe recipe;
	return dump_plans(argc, argv, &recipe, plan_read);
}
