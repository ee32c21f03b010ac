/* words: how tests write ops: names and numbers; each line is a list of ops in their order.
 *
 *   brightness F, contrast F, saturation F, hue F, grayscale, invert, posterize BITS,
 *   solarize LEVEL, equalize, autocontrast, sharpness F, blur KX KY SX SY, pillow_blur RADIUS,
 *   flip_horizontal, flip_vertical */
#pragma once

#include "augment/augment.h"
#include "base/util.h"

struct word {
	const char *name;
	enum op_kind kind;
	int numbers;
};

static const struct word words[] = {
	{"brightness", OP_BRIGHTNESS, 1},
	{"contrast", OP_CONTRAST, 1},
	{"saturation", OP_SATURATION, 1},
	{"hue", OP_HUE, 1},
	{"grayscale", OP_GRAYSCALE, 0},
	{"invert", OP_INVERT, 0},
	{"posterize", OP_POSTERIZE, 1},
	{"solarize", OP_SOLARIZE, 1},
	{"equalize", OP_EQUALIZE, 0},
	{"autocontrast", OP_AUTOCONTRAST, 0},
	{"sharpness", OP_SHARPNESS, 1},
	{"blur", OP_BLUR, 4},
	{"pillow_blur", OP_PILLOW_BLUR, 1},
	{"flip_horizontal", OP_FLIP_HORIZONTAL, 0},
	{"flip_vertical", OP_FLIP_VERTICAL, 0},
};

static inline const struct word *word_find(const char *name)
{
	for (size_t i = 0; i < UTIL_COUNT(words); i++)
		if (strcmp(words[i].name, name) == 0)
			return &words[i];
	return NULL;
}

static inline bool numbers_read(int count, double *ret)
{
	for (int i = 0; i < count; i++) {
		const char *text = strtok(NULL, " \n");
		char *end;
		ret[i] = text ? strtod(text, &end) : 0;
		if (!text || *end)
			return false;
	}
	return true;
}

static inline bool op_read(const char *name, struct op *ret)
{
	const struct word *word = word_find(name);
	double number[4] = {0};
	if (!word || !numbers_read(word->numbers, number))
		return false;
	*ret = (struct op){.kind = word->kind, .amount = number[0]};
	if (word->kind == OP_BLUR) {
		for (int i = 0; i < 2; i++) {
			ret->kernel[i] = (uint32_t)number[i];
			ret->sigma[i] = number[2 + i];
		}
	}
	return true;
}

static inline bool words_read(char *line, struct step_plan *ret)
{
	ret->count = 0;
	for (char *name = strtok(line, " \n"); name; name = strtok(NULL, " \n"))
		if (ret->count == STEP_PLAN_MAX || !op_read(name, &ret->op[ret->count++]))
			return false;
	return true;
}
