/* opening_notice: see opening.h. Sentences for the user who opened the dataset. */
#include "dataset/opening.h"

#include "base/util.h"
#include "dataset/tar.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

void opening_example(struct opening *opening, const char *path)
{
	if (!opening->example[0])
		(void)snprintf(opening->example, sizeof opening->example, "%.300s", path);
}

int opening_nonempty(const struct opening *opening)
{
	const struct dataset *dataset = opening->dataset;
	if (dataset->count)
		return 0;
	cleanup(close_fd) int fd = opening_shard(opening, 0);
	struct container_empty empty = {
		.path = dataset->shard[0].path,
		.fd = fd,
		.size = dataset->shard[0].size,
		.shards = dataset->shards,
		.dotted = opening->dotted,
	};
	for (uint32_t i = 0; i < dataset->shards; i++)
		empty.members += opening->heads[i].members;
	return dataset->container->empty(&empty, opening->fault);
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

/* Says which places were tried, and why each could not be used. */
static void notice_homeless(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	notice_add(dataset,
		"%llu of %u index%s (%s) %s kept in a temporary file and must be built again at "
		"each start:",
		(unsigned long long)opening->homeless, dataset->shards,
		dataset->shards == 1 ? "" : "es", opening->example,
		opening->homeless == 1 ? "is" : "are");
	if (!dataset->container->files && !opening->options.index_in_cache)
		notice_add(dataset, "an index beside the shard cannot be written (%s), and",
			strerror(-opening->place_error[PLACE_BESIDE]));
	if (opening->cache)
		notice_add(dataset, "the cache folder %.300s cannot be used (%s).", opening->cache,
			strerror(-opening->place_error[PLACE_CACHE]));
	else
		notice_add(dataset,
			"no cache folder is known (neither XDG_CACHE_HOME nor HOME is set).");
}

static void warning_add(struct dataset *dataset, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Further warnings than there is room for are left out. */
static void warning_add(struct dataset *dataset, const char *format, ...)
{
	if (dataset->warnings == DATASET_WARNINGS)
		return;
	char *text = dataset->warning[dataset->warnings++];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof dataset->warning[0], format, args);
	va_end(args);
}

/* How many shards end in a way, and the first of them. */
static uint32_t tails_count(const struct opening *opening, enum tar_end end, uint32_t *ret_first)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < opening->dataset->shards; i++) {
		if (opening->heads[i].tail != (uint64_t)end)
			continue;
		if (!count)
			*ret_first = i;
		count++;
	}
	return count;
}

/* Warns of shards that may be less than, or more than, what their user takes them for. All of them
 * are read up to their end. */
static void warn_tail(struct opening *opening, enum tar_end end)
{
	struct dataset *dataset = opening->dataset;
	uint32_t first = 0, count = tails_count(opening, end, &first);
	char shard[400];
	if (!count)
		return;
	int used = snprintf(shard, sizeof shard, "%.300s", dataset->shard[first].path);
	if (count > 1)
		(void)snprintf(shard + used, sizeof shard - (size_t)used,
			", like %u more of the %u shards,", count - 1, dataset->shards);
	unsigned long long at = (unsigned long long)opening->heads[first].tail_at;
	if (end == TAR_END_CUT)
		warning_add(dataset,
			"%s ends at byte %llu without the two blocks of zeros that end a tar: it "
			"may have been cut off between two members; compare its size with the "
			"original's, or pack it again",
			shard, at);
	else if (end == TAR_END_TAR)
		warning_add(dataset,
			"%s has another tar after its end, from byte %llu on, which is not read: "
			"name tars one by one instead of joining them with cat",
			shard, at);
	else
		warning_add(dataset,
			"%s has other bytes after its end, from byte %llu on, which are not read: "
			"compare its size with the original's",
			shard, at);
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
	if (opening->reordered && opening->missing[0])
		notice_add(dataset,
			"The index of %.300s had the order of an earlier release and was built "
			"again: samples now have the order of torchvision's ImageFolder.",
			dataset->shard[0].path);
	if (opening->dotted) {
		char text[sizeof dataset->notice];
		dataset->container->left_out(opening->dotted, opening->example, text, sizeof text);
		notice_add(dataset, "%s", text);
	}
	warn_tail(opening, TAR_END_CUT);
	warn_tail(opening, TAR_END_TAR);
	warn_tail(opening, TAR_END_BYTES);
	if (opening->labelless && opening->asked == DATASET_LABELS_AUTO)
		notice_add(dataset,
			"The images have no labels: %llu .json files beside them have neither "
			"\"label\" nor \"cls\".",
			(unsigned long long)opening->labelless);
}
