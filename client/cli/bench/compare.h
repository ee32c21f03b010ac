/* compare: PyTorch's DataLoader over the same files, by compare_torch.py, which is part of the
 * command, in the user's own Python. What exactly is compared is told there and in
 * penstock-bench(1). Main thread; blocks for as long as the Python runs. */
#pragma once

#include "client/cli/recipe.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct dataset;

struct compare {
	char python[PATH_MAX];
	char version[4][48]; /* of Python, torch, torchvision, Pillow */
	int list_fd; /* of the files, for all runs; -1: none yet */
	bool whole_files; /* a folder's; else parts of tars */
	uint64_t samples, listed;
};

enum { COMPARE_PYTHON, COMPARE_TORCH, COMPARE_TORCHVISION, COMPARE_PILLOW };

struct compare_run {
	double images_per_s, seconds;
	uint64_t images, broken;
};

/* Finds the Python (`python`, else $VIRTUAL_ENV's, else python3 of the PATH) and asks it for torch
 * and torchvision. CLI_OK; or CLI_USAGE after saying what is missing and what to do. */
int compare_init(struct compare *compare, const char *python);
void compare_deinit(struct compare *compare);

/* Lists a dataset's files: all, or 4 million that are evenly spread. CLI_OK, or the exit code after
 * saying why. */
int compare_list(struct compare *compare, const struct dataset *dataset);

/* One measured run with `workers` processes. CLI_OK, or the exit code after saying why. */
int compare_run(const struct compare *compare, const struct recipe *recipe, unsigned workers,
	double seconds, double warmup_s, struct compare_run *ret);
