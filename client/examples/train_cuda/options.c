/* The command line of train_cuda. See options.h. */
#include "options.h"

#include <getopt.h>
#include <math.h>
#include <penstock/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct number {
	const char *name;
	size_t at; /* offset in struct options */
	double first; /* the default */
	double least, most;
	unsigned multiple; /* the number must be a multiple of this; 0: it need not be whole */
	bool recipe; /* must be the same when the run is resumed */
};

#define AT(field) offsetof(struct options, field)

static const struct number numbers[] = {
	{"steps", AT(steps), -1, 1, 1e12, 1, true},
	{"epochs", AT(epochs), -1, 1, 1e9, 1, true},
	{"stop-at", AT(stop_at), -1, 0, 1e12, 1, false},
	{"seconds", AT(seconds), -1, 0, 1e9, 0, false},
	{"every", AT(every), -1, 1, 1e12, 1, false},
	{"batch-size", AT(batch), 256, 2, 32768, 1, true},
	{"image-size", AT(image), 224, NET_SIDE_MIN, NET_SIDE_MAX, 1, true},
	{"width", AT(width), 64, OPS_PACK, 1024, OPS_PACK, true},
	{"blocks", AT(blocks), 2, 1, NET_BLOCKS_MAX, 1, true},
	{"classes", AT(classes), -1, 2, 100000, 1, true},
	{"seed", AT(seed), 0, 0, 1e15, 1, true},
	{"rate", AT(rate), -1, 0, 100, 0, true},
	{"momentum", AT(momentum), 0.9, 0, 1, 0, true},
	{"decay", AT(decay), 1e-4, 0, 1, 0, true},
	{"warmup", AT(warmup), -1, 0, 1e12, 1, true},
	{"smoothing", AT(smoothing), 0, 0, 1, 0, true},
	{"mixup", AT(mixup), 0, 0, 100, 0, true},
	{"cutmix", AT(cutmix), 0, 0, 100, 0, true},
	{"device", AT(device), -1, 0, 1023, 1, false},
	{"prefetch", AT(prefetch), 2, 1, 64, 1, false},
};

enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

enum word { CHECKPOINT = NUMBERS, VALIDATE, MEMORY, RESUME, HELP, OPTIONS };

static void usage(FILE *file)
{
	fprintf(file,
		"usage: train_cuda SOURCE [--steps N | --epochs 10] [--stop-at STEP] [--seconds "
		"N]\n"
		"                  [--batch-size 256] [--image-size 224] [--width 64] [--blocks "
		"2]\n"
		"                  [--classes N] [--seed 0] [--rate R] [--momentum 0.9]\n"
		"                  [--decay 0.0001] [--warmup STEPS] [--smoothing 0] [--mixup "
		"ALPHA]\n"
		"                  [--cutmix ALPHA] [--validate SOURCE] [--every STEPS]\n"
		"                  [--device N] [--memory auto|registered|ring] [--prefetch 2]\n"
		"                  [--checkpoint FILE [--resume]]\n"
		"Trains a residual network on an NVIDIA GPU with batches from penstock. SOURCE: a "
		"folder, tars,\nor stream:NAME.\n");
}

static double *value_at(struct options *options, const struct number *number)
{
	return (double *)((char *)options + number->at);
}

static void take_number(struct options *options, const struct number *number, const char *text)
{
	char *end;
	double value = strtod(text, &end);
	bool whole = number->multiple == 0 || fmod(value, number->multiple) == 0;

	if (end == text || *end || !(value >= number->least) || value > number->most || !whole) {
		fprintf(stderr, "train_cuda: --%s %s: expected a ", number->name, text);
		if (number->multiple > 1)
			fprintf(stderr, "multiple of %u", number->multiple);
		else
			fprintf(stderr, "%snumber", number->multiple ? "whole " : "");
		fprintf(stderr, " from %g to %g\n", number->least, number->most);
		exit(2);
	}
	*value_at(options, number) = value;
}

static void take_memory(struct options *options, const char *text)
{
	static const char *const names[] = {[PENSTOCK_CUDA_AUTO] = "auto",
		[PENSTOCK_CUDA_REGISTERED] = "registered",
		[PENSTOCK_CUDA_RING] = "ring"};

	for (uint32_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i]) == 0) {
			options->memory = i;
			return;
		}
	fprintf(stderr, "train_cuda: --memory %s: expected auto, registered or ring\n", text);
	exit(2);
}

static void take_option(struct options *options, int option, const char *text)
{
	if (option >= 0 && option < NUMBERS) {
		take_number(options, &numbers[option], text);
		return;
	}
	switch (option) {
	case CHECKPOINT:
		options->checkpoint = text;
		break;
	case VALIDATE:
		options->validate = text;
		break;
	case MEMORY:
		take_memory(options, text);
		break;
	case RESUME:
		options->resume = true;
		break;
	case HELP:
	case 'h':
		usage(stdout);
		exit(0);
	default:
		usage(stderr);
		exit(2);
	}
}

/* The table for getopt. The values are the indices in `numbers`, then enum word. */
static void list_options(struct option list[OPTIONS + 1])
{
	for (int i = 0; i < NUMBERS; i++)
		list[i] = (struct option){numbers[i].name, required_argument, NULL, i};
	list[CHECKPOINT] = (struct option){"checkpoint", required_argument, NULL, CHECKPOINT};
	list[VALIDATE] = (struct option){"validate", required_argument, NULL, VALIDATE};
	list[MEMORY] = (struct option){"memory", required_argument, NULL, MEMORY};
	list[RESUME] = (struct option){"resume", no_argument, NULL, RESUME};
	list[HELP] = (struct option){"help", no_argument, NULL, HELP};
	list[OPTIONS] = (struct option){0};
}

/* What is wrong with the combination of options; NULL: nothing. */
static const char *misuse(const struct options *options, int sources)
{
	if (sources != 1)
		return sources ? "expected one SOURCE; name several tars by one pattern, in "
				 "quotes"
			       : "expected a SOURCE";
	if (options->resume && !options->checkpoint)
		return "--resume: expected --checkpoint FILE too, to resume from";
	if (options->steps > 0 && options->epochs > 0)
		return "--steps and --epochs: expected one of them, because both set the length of "
		       "the run";
	return NULL;
}

void options_parse(struct options *options, int argc, char **argv)
{
	struct option list[OPTIONS + 1];
	int option;

	*options = (struct options){.memory = PENSTOCK_CUDA_AUTO};
	for (int i = 0; i < NUMBERS; i++)
		*value_at(options, &numbers[i]) = numbers[i].first;
	list_options(list);
	while ((option = getopt_long(argc, argv, "h", list, NULL)) != -1)
		take_option(options, option, optarg);
	const char *wrong = misuse(options, argc - optind);
	if (wrong) {
		fprintf(stderr, "train_cuda: %s\n", wrong);
		usage(stderr);
		exit(2);
	}
	options->source = argv[optind];
}

unsigned options_recipe(
	const struct options *options, struct checkpoint_value ret_values[CHECKPOINT_VALUES])
{
	struct options copy = *options;
	unsigned count = 0;

	for (int i = 0; i < NUMBERS; i++) {
		if (!numbers[i].recipe)
			continue;
		struct checkpoint_value *value = &ret_values[count++];
		*value = (struct checkpoint_value){.value = *value_at(&copy, &numbers[i])};
		memcpy(value->name, numbers[i].name, strlen(numbers[i].name) + 1);
	}
	return count;
}
