/* augment_dump: carries ops out on raw pixels, for augment_pillow.py to compare with Pillow.
 *
 * usage: augment_dump RGB_FILE WIDTH HEIGHT < jobs > images
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. Each line of standard input is a job: ops with
 * their parameters, in the order in which they are done:
 *
 *   brightness F, contrast F, saturation F, hue F, grayscale, invert, posterize BITS,
 *   solarize LEVEL, equalize, autocontrast, sharpness F, blur KX KY SX SY, pillow_blur RADIUS,
 *   flip_horizontal, flip_vertical
 *
 * Each job puts out WIDTH x HEIGHT x 3 bytes. Exit code 2 for a job that cannot be read, 3 where
 * PENSTOCK_KERNELS names what is not there. */
#include "augment/augment.h"
#include "base/util.h"

#include <errno.h>

enum { SIDE_MOST = 2048, EXIT_JOB = 2, EXIT_KERNELS = 3 };

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

static const struct word *word_find(const char *name)
{
	for (size_t i = 0; i < UTIL_COUNT(words); i++)
		if (strcmp(words[i].name, name) == 0)
			return &words[i];
	return NULL;
}

static bool numbers_read(int count, double *ret)
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

static bool op_read(const char *name, struct op *ret)
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

static bool plan_read(char *line, struct step_plan *ret)
{
	ret->count = 0;
	for (char *name = strtok(line, " \n"); name; name = strtok(NULL, " \n"))
		if (ret->count == STEP_PLAN_MAX || !op_read(name, &ret->op[ret->count++]))
			return false;
	return true;
}

static int image_read(const char *path, uint8_t *rgb, size_t bytes)
{
	cleanup(close_file) FILE *file = fopen(path, "rb");
	return file && fread(rgb, 1, bytes, file) == bytes ? 0 : -EINVAL;
}

static int jobs_run(
	struct augmenter *augmenter, const uint8_t *rgb, uint32_t width, uint32_t height)
{
	size_t bytes = (size_t)3 * width * height;
	cleanup(free_ptr) uint8_t *out = malloc(bytes);
	char line[4096];
	static struct step_plan plan;
	while (out && fgets(line, sizeof(line), stdin)) {
		if (!plan_read(line, &plan)) {
			(void)fprintf(stderr, "augment_dump: cannot read a job\n");
			return EXIT_JOB;
		}
		memcpy(augmenter_image(augmenter), rgb, bytes);
		augmenter_run(augmenter, &plan, width, height, out);
		(void)fwrite(out, 1, bytes, stdout);
	}
	return out && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	uint32_t width = argc == 4 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
	uint32_t height = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	if (width < 1 || width > SIDE_MOST || height < 1 || height > SIDE_MOST) {
		(void)fprintf(stderr, "usage: augment_dump RGB_FILE WIDTH HEIGHT < jobs\n");
		return EXIT_JOB;
	}
	size_t bytes = (size_t)3 * width * height;
	cleanup(free_ptr) uint8_t *rgb = malloc(bytes);
	if (!rgb || image_read(argv[1], rgb, bytes) < 0) {
		(void)fprintf(stderr, "augment_dump: %s: cannot be read\n", argv[1]);
		return EXIT_JOB;
	}
	struct augmenter *augmenter;
	struct fault fault;
	static const struct step_recipe recipe;
	int rc = augmenter_new(&recipe, UTIL_MAX(width, height), &augmenter, &fault);
	if (rc < 0) {
		(void)fprintf(stderr, "augment_dump: %s\n", fault.text);
		return rc == -ENOTSUP ? EXIT_KERNELS : 1;
	}
	int code = jobs_run(augmenter, rgb, width, height);
	augmenter_free(augmenter);
	return code;
}
