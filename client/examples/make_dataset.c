/* make_dataset: paints a small JPEG dataset, for machines that have none.
 *
 *   make_dataset OUT [--classes 6] [--per-class 200] [--seed 0] [--min-side 200] [--max-side 600]
 *                    [--threads 0] [--tars [--per-shard 400]]
 *
 * It paints six kinds of image (beach, bricks, forest, mountains, night, pebbles) with the sizes,
 * qualities and samplings of photographs: noise at all scales, smooth gradients and edges, so that
 * decoding costs what it costs on real data. Colors and proportions overlap between the classes: a
 * small convolutional network learns them in a minute, but not at once.
 *
 * Writes OUT/CLASS/CLASS_00000.jpg, or with --tars shuffled WebDataset shards OUT/shard-000000.tar
 * of NUMBER.jpg and NUMBER.cls. Every image is a function of (seed, class, number): the same
 * command makes the same files, with any number of threads. Needs only libjpeg. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jpeglib.h>

enum {
	CLASSES = 6,
	LATTICE = 256,
	TAR_BLOCK = 512,
	TRUNKS = 12,
	SIDE_MAX = 4096,
	PATH_ROOM = 4200
};

static const char *const class_names[CLASSES] = {
	"beach", "bricks", "forest", "mountains", "night", "pebbles"};

struct rgb {
	float r, g, b;
};

/* What is random about one image. Each painter reads the fields that it needs. */
struct scene {
	uint64_t random; /* state of scene_draw */
	float ox, oy; /* where in the noise this image is */
	float horizon, scale, light; /* fractions of the height, cells per height, 0.6 .. 1.2 */
	float slope_x, slope_y; /* how the light falls off */
	struct rgb near, far, sky;
	float trunk[TRUNKS], trunk_width[TRUNKS];
};

typedef struct rgb paint_fn(const struct scene *scene, float u, float v);

static float lattice[LATTICE][LATTICE]; /* written before the threads start */

/* ---- randomness and noise ---- */

/* SplitMix64's output function (Steele, Lea, Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014). */
static uint64_t mix64(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static float unit_of(uint64_t bits)
{
	return (float)(bits >> 40) / (float)(1u << 24);
}

static float scene_draw(struct scene *scene, float low, float high)
{
	scene->random = mix64(scene->random);
	return low + (high - low) * unit_of(scene->random);
}

/* A fixed random number in [0, 1) for each cell of a grid. */
static float cell_value(const struct scene *scene, int x, int y, unsigned which)
{
	uint64_t cell = (uint64_t)(uint32_t)x << 32 | (uint32_t)y;

	return unit_of(mix64(cell ^ mix64((uint64_t)(scene->ox * 4096) + which)));
}

static float smooth(float t)
{
	return t * t * (3 - 2 * t);
}

static float blend(float a, float b, float t)
{
	return a + (b - a) * t;
}

static struct rgb blend_rgb(struct rgb a, struct rgb b, float t)
{
	return (struct rgb){blend(a.r, b.r, t), blend(a.g, b.g, t), blend(a.b, b.b, t)};
}

static struct rgb scale_rgb(struct rgb a, float t)
{
	return (struct rgb){a.r * t, a.g * t, a.b * t};
}

static float clamp01(float x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* Value noise: the lattice, smoothly interpolated. The result is 0 .. 1, with features one unit
 * wide. */
static float noise(float x, float y)
{
	float fx = floorf(x), fy = floorf(y);
	float tx = smooth(x - fx), ty = smooth(y - fy);
	unsigned x0 = (unsigned)(int)fx % LATTICE, y0 = (unsigned)(int)fy % LATTICE;
	unsigned x1 = (x0 + 1) % LATTICE, y1 = (y0 + 1) % LATTICE;

	return blend(blend(lattice[y0][x0], lattice[y0][x1], tx),
		blend(lattice[y1][x0], lattice[y1][x1], tx), ty);
}

/* Octaves of noise, each half as strong as the one before: the spectrum of natural images. */
static float fractal(float x, float y, int octaves)
{
	float sum = 0, weight = 0.5f;

	for (int octave = 0; octave < octaves; octave++) {
		sum += weight * noise(x, y);
		weight *= 0.5f;
		/* Not exactly 2, so that the lattices of two octaves do not line up. */
		x = x * 2.03f + 17;
		y = y * 2.03f + 31;
	}
	return sum;
}

/* ---- the six painters: (u, v) in units of the height, v down ---- */

static struct rgb paint_sky(const struct scene *scene, float u, float v, float clouds)
{
	struct rgb white = {235, 235, 235};
	struct rgb sky = blend_rgb(scene->sky, white, 0.15f + 0.5f * v);
	float cloud = fractal(scene->ox + u * 3, scene->oy + v * 7, 4) - 0.5f;

	return blend_rgb(sky, white, clamp01(cloud * clouds));
}

static struct rgb paint_beach(const struct scene *scene, float u, float v)
{
	float shore = scene->horizon + 0.22f + 0.12f * noise(scene->ox + u * 2, scene->oy);

	if (v < scene->horizon)
		return paint_sky(scene, u, v, 4);
	if (v < shore) {
		/* Waves grow toward the viewer. */
		float depth = v - scene->horizon + 0.03f;
		float wave = fractal(scene->ox + u * 2 / depth, scene->oy + 6 / depth, 3);
		return scale_rgb(blend_rgb(scene->far, scene->sky, wave), 0.7f + 0.6f * wave);
	}
	return scale_rgb(
		scene->near, 0.75f + 0.4f * fractal(scene->ox + u * 40, scene->oy + v * 60, 3));
}

static struct rgb paint_bricks(const struct scene *scene, float u, float v)
{
	float row = floorf(v * scene->scale);
	float x = u * scene->scale / 2.4f + ((int)row & 1 ? 0.5f : 0);
	float column = floorf(x), in_x = x - column, in_y = v * scene->scale - row;
	float grain = fractal(scene->ox + u * 30, scene->oy + v * 30, 4);
	float light = scene->light * (0.8f + 0.5f * grain);

	if (in_x < 0.05f || in_y < 0.12f)
		return scale_rgb(scene->far, light);
	return scale_rgb(
		scene->near, light * (0.65f + 0.5f * cell_value(scene, (int)column, (int)row, 1)));
}

static struct rgb paint_forest(const struct scene *scene, float u, float v)
{
	float leaves = fractal(scene->ox + u * 9, scene->oy + v * 9, 5);
	struct rgb color = blend_rgb(
		scale_rgb(scene->near, 0.4f), scene->far, smooth(clamp01(leaves * 2 - 0.5f)));

	if (v > scene->horizon + 0.35f)
		return scale_rgb((struct rgb){110, 85, 50}, 0.4f + 0.9f * leaves);
	for (int i = 0; i < TRUNKS; i++) {
		float bend = 0.03f * noise(scene->ox + (float)i * 7, v * 3);
		float across = (u - scene->trunk[i] - bend) / scene->trunk_width[i];
		if (across > -1 && across < 1) {
			float bark = fractal(scene->ox + across * 4 + (float)i, v * 14, 3);
			return scale_rgb(
				(struct rgb){95, 75, 60}, (1.1f - across * across) * (0.4f + bark));
		}
	}
	return color;
}

static struct rgb paint_mountains(const struct scene *scene, float u, float v)
{
	/* Ridges from the nearest to the farthest; the first one that reaches this height is
	 * visible. */
	for (int ridge = 0; ridge < 3; ridge++) {
		float distance = (float)ridge / 3;
		float peak = fractal(
			scene->ox + u * (2.2f - distance) + (float)ridge * 40, scene->oy, 5);
		float top = scene->horizon + 0.45f - 0.22f * (float)ridge - 0.55f * peak + 0.2f;
		if (v < top)
			continue;
		float rock = fractal(scene->ox + u * 12, scene->oy + v * 12, 4);
		struct rgb color =
			scale_rgb(blend_rgb(scene->near, scene->sky, distance), 0.5f + 0.9f * rock);
		float snow = clamp01((0.35f - v + 0.3f * rock) * 8) * clamp01(1 - (v - top) * 9);
		return blend_rgb(color, (struct rgb){240, 240, 245}, snow);
	}
	return paint_sky(scene, u, v, 3);
}

static struct rgb paint_night(const struct scene *scene, float u, float v)
{
	float house = floorf(u * 7);
	float roof = scene->horizon + 0.25f * cell_value(scene, (int)house, 0, 2);
	struct rgb dark = scale_rgb(scene->sky, 0.08f + 0.18f * v);

	if (v > roof) {
		float wx = u * 7 * 5, wy = v * 26;
		bool lit = cell_value(scene, (int)floorf(wx), (int)floorf(wy), 3) > 0.7f;
		bool glass = wx - floorf(wx) > 0.35f && wy - floorf(wy) > 0.4f;
		if (lit && glass)
			return scale_rgb((struct rgb){255, 215, 130}, 0.6f + 0.4f * noise(wx, wy));
		return scale_rgb(
			(struct rgb){38, 36, 44}, 0.6f + 0.6f * noise(scene->ox + u * 50, v * 50));
	}
	float sx = u * 45, sy = v * 45;
	float star = cell_value(scene, (int)floorf(sx), (int)floorf(sy), 4);
	float dx = sx - floorf(sx) - 0.5f, dy = sy - floorf(sy) - 0.5f;
	if (star > 0.9f && dx * dx + dy * dy < 0.03f)
		return scale_rgb((struct rgb){255, 250, 240}, star);
	return scale_rgb(dark, 0.7f + 0.8f * fractal(scene->ox + u * 2, scene->oy + v * 2, 4));
}

static struct rgb paint_pebbles(const struct scene *scene, float u, float v)
{
	float x = u * scene->scale, y = v * scene->scale;
	float nearest = 9, second = 9, tint = 0;

	for (int cy = (int)floorf(y) - 1; cy <= (int)floorf(y) + 1; cy++)
		for (int cx = (int)floorf(x) - 1; cx <= (int)floorf(x) + 1; cx++) {
			float dx = (float)cx + 0.15f + 0.7f * cell_value(scene, cx, cy, 5) - x;
			float dy = (float)cy + 0.15f + 0.7f * cell_value(scene, cx, cy, 6) - y;
			float distance = dx * dx + dy * dy;
			if (distance < nearest) {
				second = nearest;
				nearest = distance;
				tint = cell_value(scene, cx, cy, 7);
			} else if (distance < second) {
				second = distance;
			}
		}
	/* Dark where two stones meet, bright in the middle of a stone. */
	float gap = clamp01((sqrtf(second) - sqrtf(nearest)) * 5);
	float grain = fractal(scene->ox + u * 25, scene->oy + v * 25, 3);
	struct rgb stone = blend_rgb(scene->near, scene->far, tint);
	return scale_rgb(stone, scene->light * gap * (1 - 0.6f * nearest) * (0.6f + 0.6f * grain));
}

static paint_fn *const painters[CLASSES] = {
	paint_beach, paint_bricks, paint_forest, paint_mountains, paint_night, paint_pebbles};

/* ---- one image ---- */

struct image {
	unsigned width, height;
	bool gray, progressive;
	int quality, sampling; /* of luma: 1 (4:4:4) or 2 (4:2:0) */
	struct scene scene;
};

/* Ranges from which each class's colors are drawn. They are wide, so that color alone does not
 * identify the class. */
static struct rgb draw_color(struct scene *scene, struct rgb low, struct rgb high)
{
	float t = scene_draw(scene, 0, 1);
	struct rgb color = blend_rgb(low, high, t);

	color.r += scene_draw(scene, -25, 25);
	color.g += scene_draw(scene, -25, 25);
	color.b += scene_draw(scene, -25, 25);
	return color;
}

static void scene_init(struct scene *scene, unsigned class, uint64_t key)
{
	static const struct rgb near_range[CLASSES][2] = {{{215, 190, 140}, {170, 150, 125}},
		{{170, 80, 60}, {150, 140, 120}}, {{50, 90, 40}, {110, 120, 50}},
		{{90, 95, 80}, {120, 105, 95}}, {{40, 40, 50}, {60, 50, 45}},
		{{150, 145, 140}, {120, 100, 85}}};
	static const struct rgb far_range[CLASSES][2] = {{{40, 90, 130}, {70, 130, 130}},
		{{190, 185, 175}, {120, 115, 110}}, {{140, 180, 80}, {200, 190, 110}},
		{{110, 120, 150}, {140, 140, 140}}, {{60, 60, 90}, {90, 70, 60}},
		{{200, 195, 180}, {90, 95, 105}}};

	*scene = (struct scene){.random = key};
	scene->ox = scene_draw(scene, 0, 200);
	scene->oy = scene_draw(scene, 0, 200);
	scene->horizon = scene_draw(scene, 0.3f, 0.6f);
	scene->scale = scene_draw(scene, 7, 15);
	scene->light = scene_draw(scene, 0.6f, 1.2f);
	scene->slope_x = scene_draw(scene, -0.35f, 0.35f);
	scene->slope_y = scene_draw(scene, -0.35f, 0.35f);
	scene->near = draw_color(scene, near_range[class][0], near_range[class][1]);
	scene->far = draw_color(scene, far_range[class][0], far_range[class][1]);
	scene->sky = draw_color(scene, (struct rgb){90, 140, 210}, (struct rgb){190, 150, 130});
	for (int i = 0; i < TRUNKS; i++) {
		scene->trunk[i] = scene_draw(scene, -0.1f, 1.9f);
		scene->trunk_width[i] = scene_draw(scene, 0.012f, 0.06f);
	}
}

/* A side between the bounds, evenly distributed in its logarithm. */
static unsigned draw_side(struct scene *scene, unsigned low, unsigned high)
{
	return (unsigned)((float)low * expf(scene_draw(scene, 0, logf((float)high / (float)low))) +
			  0.5f);
}

static void image_init(
	struct image *image, unsigned class, uint64_t key, unsigned low, unsigned high)
{
	struct scene dice = {.random = mix64(key)};

	image->width = draw_side(&dice, low, high);
	image->height = draw_side(&dice, low, high);
	/* The mix of kinds in large photo collections: mostly baseline 4:4:4, some 4:2:0, a few
	 * progressive or gray. */
	image->quality = (int)scene_draw(&dice, 84, 97);
	image->sampling = scene_draw(&dice, 0, 1) < 0.25f ? 2 : 1;
	image->progressive = scene_draw(&dice, 0, 1) < 0.04f;
	image->gray = scene_draw(&dice, 0, 1) < 0.02f;
	scene_init(&image->scene, class, mix64(key + 1));
}

static uint8_t to_byte(float x)
{
	return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x + 0.5f);
}

static void paint_row(const struct image *image, unsigned class, unsigned y, uint8_t *rgb)
{
	const struct scene *scene = &image->scene;
	float v = ((float)y + 0.5f) / (float)image->height;
	uint64_t grain = mix64(scene->random + y);

	for (unsigned x = 0; x < image->width; x++) {
		float u = ((float)x + 0.5f) / (float)image->height;
		struct rgb color = painters[class](scene, u, v);
		float light = 1 + scene->slope_x * (u - 0.5f) + scene->slope_y * (v - 0.5f);
		/* The grain of a sensor, which keeps real photographs from compressing to
		 * nothing. */
		grain = grain * 6364136223846793005u + 1442695040888963407u;
		float noise_level = (unit_of(grain) - 0.5f) * 22;
		rgb[3 * x] = to_byte(color.r * light + noise_level);
		rgb[3 * x + 1] = to_byte(color.g * light + noise_level);
		rgb[3 * x + 2] = to_byte(color.b * light + noise_level);
	}
}

/* The image as a JPEG file, allocated with malloc. libjpeg's default handler ends the process on
 * its only possible error, lack of memory. */
static size_t image_encode(const struct image *image, unsigned class, unsigned char **ret_jpeg)
{
	struct jpeg_compress_struct jpeg;
	struct jpeg_error_mgr errors;
	unsigned char *bytes = NULL;
	unsigned long size = 0;
	uint8_t row[3 * SIDE_MAX];
	JSAMPROW rows[1] = {row};

	jpeg.err = jpeg_std_error(&errors);
	jpeg_create_compress(&jpeg);
	jpeg_mem_dest(&jpeg, &bytes, &size);
	jpeg.image_width = image->width;
	jpeg.image_height = image->height;
	jpeg.input_components = 3;
	jpeg.in_color_space = JCS_RGB;
	jpeg_set_defaults(&jpeg);
	if (image->gray)
		jpeg_set_colorspace(&jpeg, JCS_GRAYSCALE);
	jpeg_set_quality(&jpeg, image->quality, TRUE);
	jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor =
		image->gray ? 1 : image->sampling;
	if (image->progressive)
		jpeg_simple_progression(&jpeg);
	jpeg_start_compress(&jpeg, TRUE);
	while (jpeg.next_scanline < jpeg.image_height) {
		paint_row(image, class, jpeg.next_scanline, row);
		(void)jpeg_write_scanlines(&jpeg, rows, 1);
	}
	jpeg_finish_compress(&jpeg);
	jpeg_destroy_compress(&jpeg);
	*ret_jpeg = bytes;
	return size;
}

/* ---- the dataset ---- */

struct job {
	const char *out;
	unsigned classes, per_class, per_shard, low, high, threads;
	uint64_t seed;
	bool tars;
	unsigned parts; /* images, or shards: what one thread takes at a time */
	_Atomic unsigned next; /* The next part to take. Relaxed: a ticket, which orders nothing. */
	/* Written so far. Relaxed: it is read after the threads were joined. */
	_Atomic uint64_t bytes;
};

static void fail(const char *what, const char *path)
{
	fprintf(stderr, "make_dataset: %s %s: %s\n", what, path, strerror(errno));
	exit(1);
}

static size_t render(
	const struct job *job, unsigned class, unsigned number, unsigned char **ret_jpeg)
{
	struct image image;

	image_init(&image, class, mix64(job->seed) ^ mix64((uint64_t) class << 32 | number),
		job->low, job->high);
	return image_encode(&image, class, ret_jpeg);
}

static FILE *create(const char *path)
{
	/* "x": an existing dataset belongs to somebody and is not touched. */
	FILE *file = fopen(path, "wxe");

	if (!file)
		fail("cannot create", path);
	return file;
}

static void finish(FILE *file, const char *path)
{
	if (ferror(file) || fclose(file) != 0)
		fail("cannot write", path);
}

static void make_file(struct job *job, unsigned part)
{
	unsigned class = part % job->classes, number = part / job->classes;
	char path[PATH_ROOM];
	unsigned char *jpeg;
	size_t size = render(job, class, number, &jpeg);
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s/%s_%05u.jpg", job->out, class_names[class],
		class_names[class], number);
	file = create(path);
	(void)fwrite(jpeg, 1, size, file);
	finish(file, path);
	atomic_fetch_add_explicit(&job->bytes, size, memory_order_relaxed);
	free(jpeg);
}

/* One member of a ustar archive (POSIX.1-1988, "Extended tar format"). */
static void tar_member(FILE *file, const char *name, const void *data, size_t size)
{
	static const char zeros[TAR_BLOCK];
	char head[TAR_BLOCK] = {0};
	unsigned sum = 0;

	(void)snprintf(head, 100, "%s", name);
	(void)snprintf(head + 100, 8, "%07o", 0644u);
	(void)snprintf(head + 108, 8, "%07o", 0u);
	(void)snprintf(head + 116, 8, "%07o", 0u);
	(void)snprintf(head + 124, 12, "%011zo", size);
	(void)snprintf(head + 136, 12, "%011o", 0u);
	memset(head + 148, ' ', 8); /* the checksum counts its own field as blanks */
	head[156] = '0';
	memcpy(head + 257, "ustar", sizeof("ustar"));
	head[263] = head[264] = '0'; /* the format's version */
	for (int i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)head[i];
	(void)snprintf(head + 148, 8, "%06o", sum);
	(void)fwrite(head, 1, sizeof(head), file);
	(void)fwrite(data, 1, size, file);
	(void)fwrite(zeros, 1, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK, file);
}

/* The number within the classes of the n-th sample of the shards: n times a number that is prime to
 * the total, which visits all samples. */
static unsigned shuffled(const struct job *job, unsigned n)
{
	unsigned total = job->classes * job->per_class;
	uint64_t step = (total * 5u / 8u) | 1u;

	for (;; step += 2) {
		uint64_t a = step, b = total;
		while (b) {
			uint64_t rest = a % b;
			a = b;
			b = rest;
		}
		if (a == 1)
			return (unsigned)((n * step + job->seed % total) % total);
	}
}

static void make_shard(struct job *job, unsigned part)
{
	unsigned total = job->classes * job->per_class;
	unsigned begin = part * job->per_shard;
	unsigned end = begin + job->per_shard < total ? begin + job->per_shard : total;
	char path[PATH_ROOM], name[32], label[16];
	static const char trailer[2 * TAR_BLOCK];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/shard-%06u.tar", job->out, part);
	file = create(path);
	for (unsigned n = begin; n < end; n++) {
		unsigned from = shuffled(job, n);
		unsigned char *jpeg;
		size_t size = render(job, from % job->classes, from / job->classes, &jpeg);

		(void)snprintf(name, sizeof(name), "%08u.jpg", n);
		tar_member(file, name, jpeg, size);
		(void)snprintf(name, sizeof(name), "%08u.cls", n);
		(void)snprintf(label, sizeof(label), "%u", from % job->classes);
		tar_member(file, name, label, strlen(label));
		atomic_fetch_add_explicit(&job->bytes, size, memory_order_relaxed);
		free(jpeg);
	}
	(void)fwrite(trailer, 1, sizeof(trailer), file);
	finish(file, path);
}

static void *work(void *context)
{
	struct job *job = context;
	unsigned part;

	while ((part = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) <
		job->parts) {
		if (job->tars)
			make_shard(job, part);
		else
			make_file(job, part);
	}
	return NULL;
}

static void make_folders(const struct job *job)
{
	char path[PATH_ROOM];

	if (mkdir(job->out, 0777) != 0 && errno != EEXIST)
		fail("cannot make the folder", job->out);
	for (unsigned class = 0; class < job->classes && !job->tars; class ++) {
		(void)snprintf(path, sizeof(path), "%s/%s", job->out, class_names[class]);
		if (mkdir(path, 0777) != 0 && errno != EEXIST)
			fail("cannot make the folder", path);
	}
}

static void run_threads(struct job *job)
{
	pthread_t thread[64];
	unsigned started = 0;

	/* If a thread does not start, the others, including this one, take its parts. */
	while (started + 1 < job->threads && pthread_create(&thread[started], NULL, work, job) == 0)
		started++;
	(void)work(job);
	while (started > 0)
		(void)pthread_join(thread[--started], NULL);
}

static unsigned number(const char *text, const char *option, unsigned long low, unsigned long high)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || end == text || *end || value < low || value > high) {
		fprintf(stderr, "make_dataset: --%s %s: expected a number from %lu to %lu\n",
			option, text, low, high);
		exit(2);
	}
	return (unsigned)value;
}

static void usage(FILE *file)
{
	fprintf(file, "usage: make_dataset OUT [--classes 6] [--per-class 200] [--seed 0] "
		      "[--min-side 200] [--max-side 600]\n"
		      "                        [--threads 0] [--tars [--per-shard 400]]\n"
		      "Paints a small JPEG dataset: class folders in OUT, or WebDataset shards "
		      "OUT/shard-000000.tar.\n");
}

/* Stores the value of one option in the job. */
static void take_option(struct job *job, int option, const char *name, const char *value)
{
	switch (option) {
	case 'c':
		job->classes = number(value, name, 2, CLASSES);
		break;
	case 'n':
		job->per_class = number(value, name, 1, 100000);
		break;
	case 's':
		job->seed = number(value, name, 0, UINT32_MAX);
		break;
	case 'l':
		job->low = number(value, name, 16, SIDE_MAX);
		break;
	case 'u':
		job->high = number(value, name, 16, SIDE_MAX);
		break;
	case 'j':
		job->threads = number(value, name, 0, 64);
		break;
	case 'p':
		job->per_shard = number(value, name, 1, 100000000);
		break;
	case 't':
		job->tars = true;
		break;
	case 'h':
		usage(stdout);
		exit(0);
	default:
		usage(stderr);
		exit(2);
	}
}

static void parse(struct job *job, int argc, char **argv)
{
	static const struct option options[] = {{"classes", required_argument, NULL, 'c'},
		{"per-class", required_argument, NULL, 'n'}, {"seed", required_argument, NULL, 's'},
		{"min-side", required_argument, NULL, 'l'},
		{"max-side", required_argument, NULL, 'u'},
		{"threads", required_argument, NULL, 'j'},
		{"per-shard", required_argument, NULL, 'p'}, {"tars", no_argument, NULL, 't'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int option, at = 0;

	while ((option = getopt_long(argc, argv, "h", options, &at)) != -1)
		take_option(job, option, options[at].name, optarg);
	if (optind != argc - 1 || strlen(argv[optind]) > PATH_ROOM - 64 || job->low > job->high) {
		usage(stderr);
		exit(2);
	}
	job->out = argv[optind];
	if (job->threads == 0) {
		long online = sysconf(_SC_NPROCESSORS_ONLN);
		job->threads = online < 1 ? 1 : online > 64 ? 64 : (unsigned)online;
	}
	job->parts = job->classes * job->per_class;
	if (job->tars)
		job->parts = (job->parts + job->per_shard - 1) / job->per_shard;
}

int main(int argc, char **argv)
{
	static struct job job = {
		.classes = CLASSES, .per_class = 200, .per_shard = 400, .low = 200, .high = 600};
	struct timespec begin, end;

	parse(&job, argc, argv);
	(void)clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned i = 0; i < LATTICE * LATTICE; i++)
		lattice[i / LATTICE][i % LATTICE] = unit_of(mix64(mix64(job.seed) + i));
	make_folders(&job);
	run_threads(&job);
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%u images of %u classes, %.1f MB, in %s (%.1f s)\n", job.classes * job.per_class,
		job.classes, (double)job.bytes / 1e6, job.out,
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	return 0;
}
