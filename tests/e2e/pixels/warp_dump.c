/* warp_dump: rotations, shears, perspectives and flips of raw pixels, for warp_pillow.py to compare
 * with Pillow and torchvision.
 *
 * usage: warp_dump RGB_FILE WIDTH HEIGHT < jobs > images
 *
 * The file holds WIDTH x HEIGHT pixels of R, G, B. Each line of standard input is a job: its name,
 * FILTER and FILL of three numbers, and
 *
 *   affine M0 .. M5, perspective M0 .. M7      these matrices
 *   horizontal, vertical                       flips
 *   turn ANGLE, turn_about ANGLE X Y           F.rotate
 *   move ANGLE X Y SCALE SHEAR_X SHEAR_Y       F.affine
 *   move_about ... CENTER_X CENTER_Y           the same
 *   tilt X Y X Y X Y X Y                       F.perspective to these corners
 *   shear_x, shear_y, translate_x, translate_y MAGNITUDE   of RandAugment
 *
 * Each puts WIDTH x HEIGHT x 3 bytes out, and the op that it came to on standard error. Exit code 2
 * for a job that cannot be read. */
#include "augment/kernels/kernels.h"
#include "augment/step_warp.h"
#include "augment/warp.h"
#include "dump.h"

struct job {
	struct step_warp warp;
	char name[16];
	double number[8];
	int count;
};

static bool job_plain(const struct job *job, struct op *op)
{
	*op = (struct op){.filter = job->warp.interpolation};
	memcpy(op->fill, job->warp.fill, sizeof(op->fill));
	memcpy(op->matrix, job->number, sizeof(job->number));
	if (strcmp(job->name, "affine") == 0)
		op->kind = OP_AFFINE;
	else if (strcmp(job->name, "perspective") == 0)
		op->kind = OP_PERSPECTIVE;
	else if (strcmp(job->name, "horizontal") == 0)
		op->kind = OP_FLIP_HORIZONTAL;
	else if (strcmp(job->name, "vertical") == 0)
		op->kind = OP_FLIP_VERTICAL;
	else
		return false;
	return true;
}

static bool job_move(const struct job *job, struct op *op)
{
	const double *n = job->number;
	struct step_affine affine = {.angle = n[0],
		.translate = {(int32_t)n[1], (int32_t)n[2]},
		.scale = n[3],
		.shear = {n[4], n[5]},
		.center = job->count == 8 ? n + 6 : NULL};
	return step_warp_affine(&job->warp, &affine, op);
}

static bool job_tilt(const struct job *job, struct op *op)
{
	int32_t corners[4][2];
	for (int i = 0; i < 8; i++)
		corners[i / 2][i % 2] = (int32_t)job->number[i];
	return step_warp_perspective(&job->warp, corners, op);
}

static bool job_turn(const struct job *job, struct op *op)
{
	return step_warp_rotate(
		&job->warp, job->number[0], job->count == 3 ? job->number + 1 : NULL, op);
}

static bool job_shear_x(const struct job *job, struct op *op)
{
	return step_warp_shear_x(&job->warp, job->number[0], op);
}

static bool job_shear_y(const struct job *job, struct op *op)
{
	return step_warp_shear_y(&job->warp, job->number[0], op);
}

static bool job_translate_x(const struct job *job, struct op *op)
{
	return step_warp_translate_x(&job->warp, job->number[0], op);
}

static bool job_translate_y(const struct job *job, struct op *op)
{
	return step_warp_translate_y(&job->warp, job->number[0], op);
}

static const struct {
	const char *name;
	int count;
	bool (*run)(const struct job *job, struct op *op);
} jobs[] = {
	{"affine", 6, job_plain},
	{"perspective", 8, job_plain},
	{"horizontal", 0, job_plain},
	{"vertical", 0, job_plain},
	{"turn", 1, job_turn},
	{"turn_about", 3, job_turn},
	{"move", 6, job_move},
	{"move_about", 8, job_move},
	{"tilt", 8, job_tilt},
	{"shear_x", 1, job_shear_x},
	{"shear_y", 1, job_shear_y},
	{"translate_x", 1, job_translate_x},
	{"translate_y", 1, job_translate_y},
};

static bool job_read(const char *line, struct job *job)
{
	char filter[16];
	uint8_t *fill = job->warp.fill;
	double *n = job->number;
	int fields = sscanf(line, "%15s %15s %hhu %hhu %hhu %la %la %la %la %la %la %la %la",
		job->name, filter, &fill[0], &fill[1], &fill[2], &n[0], &n[1], &n[2], &n[3], &n[4],
		&n[5], &n[6], &n[7]);
	job->count = fields - 5;
	for (int f = 0; f < WEIGHTS_FILTERS; f++)
		if (strcmp(filter, weights_filter_names[f]) == 0)
			job->warp.interpolation = (enum weights_filter)f;
	return fields >= 5;
}

/* 1 where there is an op, 0 where the image stays, -1 where the line is no job. */
static int job_op(const char *line, struct job *job, struct op *op)
{
	if (!job_read(line, job))
		return -1;
	for (size_t i = 0; i < UTIL_COUNT(jobs); i++)
		if (strcmp(job->name, jobs[i].name) == 0 && job->count == jobs[i].count)
			return jobs[i].run(job, op);
	return -1;
}

static void op_tell(const struct op *op)
{
	(void)fprintf(stderr, "%d %a", (int)op->kind, op->amount);
	for (int i = 0; i < OP_MATRIX; i++)
		(void)fprintf(stderr, " %a", op->matrix[i]);
	(void)fprintf(stderr, "\n");
}

static int jobs_run(const struct apply *apply, const struct op_image *image, uint8_t *out)
{
	char line[512];
	size_t bytes = (size_t)3 * image->width * image->height;
	while (fgets(line, sizeof(line), stdin)) {
		struct job job = {.warp = {.width = image->width, .height = image->height}};
		struct op op;
		int found = job_op(line, &job, &op);
		if (found < 0)
			return dump_refuse(DUMP_JOB, "cannot read a job", line);
		if (found) {
			op_tell(&op);
			warp_apply(apply, &op, image, out);
		} else {
			(void)fprintf(stderr, "stays\n");
			memcpy(out, image->pixels, bytes);
		}
		if (fwrite(out, 1, bytes, stdout) != bytes)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct dump dump;
	struct apply apply = {0};
	struct fault fault = {""};
	int code = dump_open(&dump, argc, argv);
	if (code)
		return code;
	cleanup(free_ptr) uint8_t *rgb = dump.rgb, *out = malloc(dump.bytes);
	int rc = augment_kernels_choose(&apply.kernels, &fault);
	if (rc < 0)
		return dump_refuse_fault(rc, &fault);
	struct op_image image = {.pixels = rgb, .width = dump.width, .height = dump.height};
	cleanup(free_ptr) void *scratch = malloc(warp_scratch(UTIL_MAX(dump.width, dump.height)));
	apply.scratch = scratch;
	return scratch && out ? jobs_run(&apply, &image, out) : DUMP_FAILED;
}
