/* augment_dump: carries ops out on raw pixels, for augment_pillow.py to compare with Pillow.
 *
 * usage: augment_dump RGB_FILE WIDTH HEIGHT < jobs > images
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. Each line of standard input is a job: ops with
 * their parameters, in the order in which they are done (unit/augment/words.h).
 *
 * Each job puts out WIDTH x HEIGHT x 3 bytes. Exit code 2 for a job that cannot be read, 3 where
 * PENSTOCK_KERNELS names what is not there. */
#include "augment/augment.h"
#include "base/util.h"

#include <errno.h>

#include "unit/augment/words.h"

enum { SIDE_MOST = 2048, EXIT_JOB = 2, EXIT_KERNELS = 3 };

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
		if (!words_read(line, &plan)) {
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
