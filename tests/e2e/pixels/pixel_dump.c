/* pixel_dump: runs only the pixel stage on raw pixels, for pixel_pillow.py to compare with Pillow.
 *
 * usage: pixel_dump RGB_FILE WIDTH HEIGHT < jobs > rows
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. Each line of standard input is a job:
 *
 * A SIZE is two numbers, height and width.
 *
 *   train SIZE X Y W H FLIP    that crop resized to SIZE
 *   eval SIZE                  the evaluation recipe
 *   draw SIZE SEED EPOCH POS   the crop that training draws; the plan goes to standard error
 *   crop SIZE SEED EPOCH POS RESIZE FLIP MODE LEFT TOP RIGHT BOTTOM R G B
 *                              RandomCrop of what Resize(RESIZE) made, or, if that is 0, of the
 *                              image, with that padding of enum pixel_padding_mode, and as needed;
 *                              MODE -1: CenterCrop. The window's place goes to standard error
 *   resize W H FLIP FILTER X0 Y0 X1 Y1   Image.resize((W, H), FILTER, box=...), FILTER by name
 *
 * Each writes height x width x 3 bytes, the last one H x W x 3. Exit code 2: a job cannot be
 * read. */
#include "dump.h"
#include "pixel/pixel.h"
#include "pixel/resample.h"

#include <inttypes.h>

enum { SIZE_MAX_PIXELS = 2048 };

static bool job_train(const char *line, const struct dump *image, struct pixel_recipe *recipe,
	struct pixel_plan *plan)
{
	uint32_t x, y, w, h;
	int flip;
	if (sscanf(line,
		    "train %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32
		    " %d",
		    &recipe->size.height, &recipe->size.width, &x, &y, &w, &h, &flip) != 7)
		return false;
	if (!pixel_crop_fits(x, y, w, h, image->width, image->height))
		return false;
	pixel_plan_from_crop(recipe, x, y, w, h, flip != 0, image->width, image->height, plan);
	return true;
}

static bool job_draw(const char *line, const struct dump *image, struct pixel_recipe *recipe,
	struct pixel_plan *plan)
{
	struct pixel_key key = {0};
	if (sscanf(line, "draw %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu64,
		    &recipe->size.height, &recipe->size.width, &key.seed, &key.epoch,
		    &key.position) != 5)
		return false;
	pixel_plan_make(recipe, &key, image->width, image->height, plan);
	(void)fprintf(stderr, "%u %u %u %u %d\n", plan->crop_x, plan->crop_y, plan->crop_w,
		plan->crop_h, plan->flip);
	return true;
}

static bool job_eval(const char *line, const struct dump *image, struct pixel_recipe *recipe,
	struct pixel_plan *plan)
{
	struct pixel_key key = {0};
	struct pixel_size size;
	if (sscanf(line, "eval %" SCNu32 " %" SCNu32, &size.height, &size.width) != 2)
		return false;
	*recipe = pixel_recipe_eval(size);
	pixel_plan_make(recipe, &key, image->width, image->height, plan);
	return true;
}

static bool job_crop(const char *line, const struct dump *image, struct pixel_recipe *recipe,
	struct pixel_plan *plan)
{
	struct pixel_key key = {0};
	struct pixel_padding *pad = &recipe->padding;
	int flip, mode;
	uint32_t resize;
	*recipe = (struct pixel_recipe){.kind = PIXEL_CROP};
	if (sscanf(line,
		    "crop %" SCNu32 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32
		    " %d %d %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %hhu %hhu %hhu",
		    &recipe->size.height, &recipe->size.width, &key.seed, &key.epoch, &key.position,
		    &resize, &flip, &mode, &pad->left, &pad->top, &pad->right, &pad->bottom,
		    &pad->fill[0], &pad->fill[1], &pad->fill[2]) != 15)
		return false;
	if (resize)
		recipe->kind = PIXEL_RESIZE;
	recipe->resize = pixel_square(resize);
	recipe->random_window = mode >= 0;
	recipe->flip = recipe->flip_vertical = flip;
	pad->mode = mode >= 0 ? (enum pixel_padding_mode)mode : PIXEL_PAD_CONSTANT;
	pad->if_needed = mode >= 0;
	pixel_plan_make(recipe, &key, image->width, image->height, plan);
	(void)fprintf(stderr, "%u %u\n", plan->place_x, plan->place_y);
	return true;
}

static bool job_resize(const char *line, const struct dump *image, struct resample_job *job)
{
	int flip;
	char filter[16];
	struct weights_axis *x = &job->x, *y = &job->y;
	if (sscanf(line, "resize %" SCNu32 " %" SCNu32 " %d %15s %f %f %f %f", &x->result,
		    &y->result, &flip, filter, &x->from, &y->from, &x->to, &y->to) != 8)
		return false;
	x->window = x->result;
	y->window = y->result;
	x->source = image->width;
	y->source = image->height;
	job->flip = flip != 0;
	for (int f = 0; f < WEIGHTS_FILTERS; f++)
		if (strcmp(filter, weights_filter_names[f]) == 0) {
			x->filter = y->filter = (enum weights_filter)f;
			return x->result <= SIZE_MAX_PIXELS && y->result <= SIZE_MAX_PIXELS;
		}
	return false;
}

/* Either of the two takes rows. */
struct taker {
	struct pixel_sink *sink;
	struct resample *resample;
};

/* Feeds only the region, each row in buffers of exactly the size that is promised, so that a
 * sanitizer sees a byte too far. */
static void rows_feed(const struct taker *to, const struct dump *image, struct pixel_region region)
{
	size_t width = region.x1 - region.x0;
	uint8_t *rows[PIXEL_PLANES];
	for (int c = 0; c < PIXEL_PLANES; c++)
		if (!(rows[c] = malloc(width + PIXEL_ROW_SLACK)))
			abort();
	for (uint32_t y = region.y0; y < region.y1; y++) {
		const uint8_t *from = image->rgb + 3 * ((size_t)y * image->width + region.x0);
		for (size_t i = 0; i < 3 * width; i++)
			rows[i % 3][i / 3] = from[i];
		if (to->sink)
			pixel_sink_row(to->sink, (const uint8_t *const *)rows);
		else
			resample_row(to->resample, (const uint8_t *const *)rows);
	}
	for (int c = 0; c < PIXEL_PLANES; c++)
		free(rows[c]);
}

static void job_run(struct pixel_sink *sink, const struct pixel_recipe *recipe,
	const struct pixel_plan *plan, const struct dump *image, uint8_t *out)
{
	struct pixel_region region;
	pixel_sink_begin(sink, recipe, plan, out, &region);
	rows_feed(&(struct taker){.sink = sink}, image, region);
	pixel_sink_end(sink);
}

static int resize_run(struct resample *resample, struct resample_job *job, const struct dump *image)
{
	size_t bytes = 3 * (size_t)job->x.result * job->y.result;
	cleanup(free_ptr) uint8_t *out = malloc(bytes);
	if (!out)
		return 1;
	struct resample_region r;
	job->out = out;
	resample_begin(resample, job, &r);
	rows_feed(&(struct taker){.resample = resample}, image,
		(struct pixel_region){r.x0, r.y0, r.x1, r.y1});
	return fwrite(out, 1, bytes, stdout) == bytes ? 0 : 1;
}

static int jobs_run(struct pixel_sink *sink, struct resample *resample, const struct dump *image)
{
	char line[256];
	while (fgets(line, sizeof(line), stdin)) {
		struct pixel_recipe recipe = pixel_recipe_train(pixel_square(1));
		struct pixel_plan plan;
		struct resample_job job = {0};
		if (job_resize(line, image, &job)) {
			if (resize_run(resample, &job, image))
				return 1;
			continue;
		}
		if (!job_train(line, image, &recipe, &plan) &&
			!job_draw(line, image, &recipe, &plan) &&
			!job_crop(line, image, &recipe, &plan) &&
			!job_eval(line, image, &recipe, &plan))
			return dump_refuse(DUMP_JOB, "cannot read a job", line);
		size_t bytes = 3 * (size_t)recipe.size.height * recipe.size.width;
		cleanup(free_ptr) uint8_t *out = malloc(bytes);
		if (!out)
			return 1;
		job_run(sink, &recipe, &plan, image, out);
		if (fwrite(out, 1, bytes, stdout) != bytes)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct dump image;
	struct fault fault = {""};
	struct pixel_sink *sink = NULL;
	struct resample *resample = NULL;
	int code = dump_open(&image, argc, argv);
	if (code)
		return code;
	cleanup(free_ptr) uint8_t *rgb = image.rgb;
	(void)rgb; /* freed on every way out */
	int rc = pixel_sink_new(SIZE_MAX_PIXELS, &sink, &fault);
	if (rc == 0)
		rc = resample_new(SIZE_MAX_PIXELS, &resample, &fault);
	code = rc < 0 ? dump_refuse_fault(rc, &fault) : jobs_run(sink, resample, &image);
	pixel_sink_free(sink);
	resample_free(resample);
	return code;
}
