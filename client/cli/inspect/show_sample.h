/* show_sample: `penstock show --sample`: what each operation of a recipe makes of one sample, in
 * several epochs, without a daemon. Main thread. */
#pragma once

#include "client/cli/recipe.h"
#include "dataset/dataset.h"

#include <stdbool.h>
#include <stdint.h>

struct show_sample {
	const char *output;
	const struct recipe *recipe;
	const struct dataset *dataset;
	uint64_t sample, view, epoch, draws, tile;
	bool json;
};

/* Returns an exit code, after printing what is wrong or what was drawn. */
int show_sample(const struct show_sample *ask);
