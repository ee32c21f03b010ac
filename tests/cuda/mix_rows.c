/* Prints the plan of mix_plan, for torchvision_mix.py.
 *
 *     cuda_mix_rows SEED EPOCH FIRST COUNT BATCHES HEIGHT WIDTH [NAME=VALUE]...
 *
 * BATCHES batches of COUNT rows, starting at position FIRST. A line per row: position, flags,
 * the erased and the cut rectangle (x y w h), partner, blend, partner_blend, weight,
 * partner_weight; floats in hexadecimal. */
#include "base/util.h"
#include "client/cuda/mix.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	size_t offset;
} settings[] = {
	{"flip", offsetof(struct penstock_cuda_options, flip)},
	{"erase", offsetof(struct penstock_cuda_options, erase)},
	{"erase_scale_from", offsetof(struct penstock_cuda_options, erase_scale[0])},
	{"erase_scale_to", offsetof(struct penstock_cuda_options, erase_scale[1])},
	{"erase_ratio_from", offsetof(struct penstock_cuda_options, erase_ratio[0])},
	{"erase_ratio_to", offsetof(struct penstock_cuda_options, erase_ratio[1])},
	{"mixup", offsetof(struct penstock_cuda_options, mixup)},
	{"cutmix", offsetof(struct penstock_cuda_options, cutmix)},
	{"mix", offsetof(struct penstock_cuda_options, mix)},
	{"mix_switch", offsetof(struct penstock_cuda_options, mix_switch)},
};

/* Sets the option that `text` names as NAME=VALUE. 0, or -1 if there is no such option. */
static int set(struct penstock_cuda_options *options, const char *text)
{
	const char *equals = strchr(text, '=');
	for (size_t i = 0; equals && i < UTIL_COUNT(settings); i++) {
		size_t length = (size_t)(equals - text);
		if (strlen(settings[i].name) != length ||
			strncmp(settings[i].name, text, length) != 0)
			continue;
		double value = strtod(equals + 1, NULL);
		memcpy((char *)options + settings[i].offset, &value, sizeof value);
		return 0;
	}
	fprintf(stderr, "no option: %s\n", text);
	return -1;
}

static void print_row(const struct penstock_cuda_row *row)
{
	printf("%llu %u %u %u %u %u %u %u %u %u %u %a %a %a %a\n",
		(unsigned long long)row->position, row->flags, row->erase_x, row->erase_y,
		row->erase_w, row->erase_h, row->cut_x, row->cut_y, row->cut_w, row->cut_h,
		row->partner, row->blend, row->partner_blend, row->weight, row->partner_weight);
}

enum { SEED = 1, EPOCH, FIRST, COUNT, BATCHES, HEIGHT, WIDTH, OPTIONS, ROWS = 4096 };

int main(int argc, char **argv)
{
	static struct penstock_sample samples[ROWS];
	static struct penstock_cuda_row rows[ROWS];
	struct penstock_cuda_options options = {.size = sizeof options,
		.prefetch = 2,
		.std = {1, 1, 1},
		.erase_scale = {0.02, 0.33},
		.erase_ratio = {0.3, 3.3},
		.mix = 1,
		.mix_switch = 0.5};
	uint64_t number[OPTIONS];
	if (argc < OPTIONS)
		return 2;
	for (int i = SEED; i < OPTIONS; i++)
		number[i] = strtoull(argv[i], NULL, 0);
	for (int i = OPTIONS; i < argc; i++) {
		if (set(&options, argv[i]) < 0)
			return 2;
	}
	if (number[COUNT] > ROWS || mix_check(&options) < 0) {
		fprintf(stderr, "refused: %s\n", penstock_error());
		return 2;
	}
	uint64_t position = number[FIRST];
	for (uint64_t batch = 0; batch < number[BATCHES]; batch++) {
		for (uint64_t i = 0; i < number[COUNT]; i++)
			samples[i].position = position++;
		mix_plan(&options, number[SEED], number[EPOCH], samples, (uint32_t)number[COUNT],
			(uint32_t)number[HEIGHT], (uint32_t)number[WIDTH], rows);
		for (uint64_t i = 0; i < number[COUNT]; i++)
			print_row(&rows[i]);
	}
	return 0;
}
