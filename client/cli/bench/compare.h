/* compare: measures PyTorch's DataLoader over the same files. The user's own Python runs
 * compare_torch.py, which is part of the command. That script and penstock-bench(1) say what
 * exactly is compared. Main thread; blocks for as long as the Python runs. */
#pragma once

#include "client/cli/recipe.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct dataset;

enum { COMPARE_PYTHON, COMPARE_TORCH, COMPARE_TORCHVISION, COMPARE_PILLOW, COMPARE_VERSIONS };
/* "python", "torch", "torchvision", "pillow" */
extern const char *const compare_version_name[COMPARE_VERSIONS];

struct compare {
	char python[PATH_MAX];
	char version[COMPARE_VERSIONS][48];
	int list_fd; /* the list of files, for all runs; -1: none yet */
	bool whole_files; /* a folder's files; else parts of tar files */
	uint64_t samples, listed;
};

struct compare_run {
	double images_per_s;
	uint64_t broken;
};

/* Finds the Python (`python`, or $VIRTUAL_ENV's, or python3 in PATH) and asks it for torch and
 * torchvision. CLI_OK; or CLI_USAGE after saying what is missing and what to do. */
int compare_init(struct compare *compare, const char *python);
void compare_deinit(struct compare *compare);

/* Lists a dataset's files: all of them, or 4 million that are evenly spread. CLI_OK, or the exit
 * code after saying why. */
int compare_list(struct compare *compare, const struct dataset *dataset);

/* One measured run with `workers` processes. CLI_OK, or the exit code after saying why. */
int compare_run(const struct compare *compare, const struct recipe *recipe, unsigned workers,
	double seconds, double warmup_s, struct compare_run *ret);
