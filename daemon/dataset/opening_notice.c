/* opening_notice: see opening.h. Sentences for whoever named the dataset. */
#include "dataset/opening.h"

#include "base/util.h"
#include "dataset/tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

void opening_example(struct opening *opening, const char *path)
{
	if (!opening->example[0])
		(void)snprintf(opening->example, sizeof opening->example, "%.300s", path);
}

/* Does a folder without images hold tars? Then they were meant. */
static bool folder_has_tars(int root_fd)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool tars = false;
	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	for (struct dirent *dent; !tars && (dent = readdir(dir));) {
		size_t size = strlen(dent->d_name);
		tars = size > 4 && !strcmp(dent->d_name + size - 4, ".tar");
	}
	(void)closedir(dir);
	return tars;
}

/* Says what there is instead of images: the first file of the first tar, unless that tar has none.
 */
static void first_member(const struct opening *opening, char *buffer, size_t room)
{
	const struct dataset_shard *shard = &opening->dataset->shard[0];
	cleanup(close_fd) int fd = open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup(free_ptr) struct tar_reader *reader = malloc(sizeof *reader);
	struct tar_member member;
	if (fd < 0 || !reader)
		return;
	tar_init(reader, fd, shard->size, shard->path);
	int rc;
	do
		rc = tar_next(reader, &member, NULL);
	while (rc > 0 && member.kind == TAR_OTHER);
	if (rc > 0)
		(void)snprintf(buffer, room, ", the first is %.400s", member.name);
	tar_deinit(reader);
}

int opening_nonempty(const struct opening *opening)
{
	const struct dataset *dataset = opening->dataset;
	const char *path = dataset->shard[0].path;
	uint64_t members = 0;
	if (dataset->count)
		return 0;
	if (dataset->kind == DATASET_FOLDER && folder_has_tars(dataset->root_fd))
		return fault_set(opening->fault, -EINVAL,
			"%s holds no images, but tars: name them, as in \"%s/*.tar\"", path, path);
	if (dataset->kind == DATASET_FOLDER)
		return fault_set(opening->fault, -EINVAL,
			"%s holds no images: expected .jpg, .jpeg or .png files in it or in its "
			"folders",
			path);
	for (uint32_t i = 0; i < dataset->shards; i++)
		members += opening->heads[i].members;
	char first[512] = "", dotted[96] = "";
	if (members)
		first_member(opening, first, sizeof first);
	if (opening->dotted)
		(void)snprintf(dotted, sizeof dotted,
			" (%llu of them for a second dot before the extension)",
			(unsigned long long)opening->dotted);
	return fault_set(opening->fault, -EINVAL,
		"%s%s: no images among %llu members%s%s: expected KEY.jpg, KEY.jpeg or KEY.png, "
		"and no dot in KEY",
		path, dataset->shards > 1 ? " and the tars behind it" : "",
		(unsigned long long)members, dotted, first);
}

static void notice_add(struct dataset *dataset, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void notice_add(struct dataset *dataset, const char *format, ...)
{
	size_t used = strlen(dataset->notice);
	if (used && used + 1 < sizeof dataset->notice)
		dataset->notice[used++] = ' ';
	va_list args;
	va_start(args, format);
	(void)vsnprintf(dataset->notice + used, sizeof dataset->notice - used, format, args);
	va_end(args);
}

/* Which places were tried, and why each could not be used. */
static void notice_homeless(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	notice_add(dataset,
		"%llu of %u index%s (%s) %s in a temporary file and %s built again at each start:",
		(unsigned long long)opening->homeless, dataset->shards,
		dataset->shards == 1 ? "" : "es", opening->example,
		opening->homeless == 1 ? "lies" : "lie", opening->homeless == 1 ? "is" : "are");
	if (dataset->kind == DATASET_TARS && !opening->options.index_in_cache)
		notice_add(dataset, "beside the shard none can be written (%s), and",
			strerror(-opening->place_error[PLACE_BESIDE]));
	if (opening->cache)
		notice_add(dataset, "the cache folder %.300s cannot be used (%s).", opening->cache,
			strerror(-opening->place_error[PLACE_CACHE]));
	else
		notice_add(dataset, "there is no cache folder (neither XDG_CACHE_HOME nor HOME "
				    "names one).");
}

void opening_notice(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	if (opening->homeless)
		notice_homeless(opening);
	if (opening->damaged)
		notice_add(dataset, "%llu damaged index%s built again.",
			(unsigned long long)opening->damaged,
			opening->damaged == 1 ? " was" : "es were");
	if (opening->dotted && dataset->kind == DATASET_FOLDER)
		notice_add(dataset,
			"%llu image%s left out for the extension (%s): GIF, WebP, BMP, TIFF and "
			"the like are not read; make JPEG or PNG of them (.jfif and .jpe: name "
			"them .jpg).",
			(unsigned long long)opening->dotted,
			opening->dotted == 1 ? " was" : "s were", opening->example);
	else if (opening->dotted)
		notice_add(dataset,
			"%llu images (%s) were left out: their names have a second dot before the "
			"extension, which "
			"WebDataset takes for another kind of member.",
			(unsigned long long)opening->dotted, opening->example);
	if (opening->labelless && opening->asked == DATASET_LABELS_AUTO)
		notice_add(dataset,
			"The images have no labels: %llu .json beside them hold neither \"label\" "
			"nor \"cls\".",
			(unsigned long long)opening->labelless);
}
