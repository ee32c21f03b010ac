/* opening_notice: see opening.h. Sentences for the user who opened the dataset. */
#include "dataset/opening/opening.h"

#include "base/store.h"
#include "base/util.h"
#include "dataset/container/class_folders.h"
#include "dataset/container/image_names.h"
#include "dataset/container/tar.h"
#include "labels/labels.h"

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
	/* dataset_labels_settle names a line of a manifest that names no sample. */
	if (dataset->count || (opening->labels && labels_rule(opening->labels)->only))
		return 0;
	cleanup(close_blob) struct blob blob = {0};
	const int opened = opening_shard(opening, 0, &blob);
	struct container_empty empty = {
		.path = dataset->shard[0].path,
		.blob = opened < 0 ? NULL : &blob,
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
	if (!dataset->container->files && !opening->options.index_in_cache &&
		!opening->fields_hash && !opening->columns_hash)
		notice_add(dataset, "an index beside the shard cannot be written (%s), and",
			strerror(-opening->place_error[PLACE_BESIDE]));
	if (opening->cache)
		notice_add(dataset, "the cache folder %.300s cannot be used (%s).", opening->cache,
			store_error(opening->place_error[PLACE_CACHE]));
	else
		notice_add(dataset,
			"no cache folder is known (neither XDG_CACHE_HOME nor HOME is set).");
}

int opening_judge(const struct opening *opening)
{
	const struct dataset *dataset = opening->dataset;
	bool folders = dataset_label_source(dataset) == DATASET_LABELS_FOLDER;
	if (opening->options.class_order != CLASS_ORDER_BYTEWISE && !folders)
		return fault_set(opening->fault, -EINVAL,
			"class_order: natural sorts class folders, but the labels of %s do not "
			"come from class folders: leave class_order out",
			dataset->shard[0].path);
	if (!folders || opening->options.nested || !opening->split_like[0])
		return 0;
	return class_folders_split_fault(dataset->shard[0].path, false, dataset->class_names,
		dataset->classes, opening->split_like, opening->fault);
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

static int passed_compare(const void *a, const void *b)
{
	const struct opening_passed *left = a, *right = b;
	if (left->count != right->count)
		return left->count > right->count ? -1 : 1;
	return strcmp(left->text, right->text);
}

/* Files that often are beside images and are not taken for images. */
static bool passed_is_companion(const struct opening_passed *passed)
{
	static const char *const companions[] = {".txt", ".csv", ".tsv", ".json", ".jsonl", ".md",
		".rst", ".xml", ".yaml", ".yml", ".npy", ".npz", ".mat", ".pkl", ".parquet",
		".html", ".pdf", ".log", ".py", ".ipynb", ".sh", ".md5", ".sha1", ".sha256", ".ini",
		".db", ".cls", ".zip", ".tar", ".gz", ".tgz"};
	for (size_t i = 0; i < UTIL_COUNT(companions); i++)
		if (!strcmp(passed->text, companions[i]))
			return true;
	return passed->text[0] && passed->text[0] != '.'; /* README */
}

/* Whether torchvision's ImageFolder takes such a file. */
static bool passed_is_taken_there(const struct opening_passed *passed)
{
	return !strcmp(passed->text, INDEX_PASSED_HIDDEN);
}

/* Adds "10 .webp" to a list. */
static void passed_say(const struct opening_passed *passed, char *text, size_t room)
{
	const char *what = !passed->text[0] ? "without one"
			   : !strcmp(passed->text, INDEX_PASSED_HIDDEN)
				   ? "images whose names begin with a dot"
			   : !strcmp(passed->text, INDEX_PASSED_OTHERS) ? "with others"
									: passed->text;
	size_t used = strlen(text);
	(void)snprintf(text + used, room - used, "%s%llu %s", used ? ", " : "",
		(unsigned long long)passed->count, what);
}

static void warn_passed(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	char list[400] = "";
	uint64_t count = 0;
	bool taken = false;
	qsort(opening->passed, opening->passed_kinds, sizeof opening->passed[0], passed_compare);
	for (uint32_t i = 0; i < opening->passed_kinds; i++) {
		const struct opening_passed *passed = &opening->passed[i];
		passed_say(passed, dataset->passed_text, sizeof dataset->passed_text);
		if (passed_is_companion(passed))
			continue;
		passed_say(passed, list, sizeof list);
		count += passed->count;
		taken |= passed_is_taken_there(passed);
	}
	if (count)
		warning_add(dataset,
			"%llu file%s of %.200s %s passed over for %s extension%s (%s): "
			"expected " IMAGE_NAMES_FOLDER
			"; convert or rename the images among them%s",
			(unsigned long long)count, count == 1 ? "" : "s", dataset->shard[0].path,
			count == 1 ? "was" : "were", count == 1 ? "its" : "their",
			count == 1 ? "" : "s", list,
			taken ? " (torchvision's ImageFolder reads some of them, so that samples "
				"have other numbers there)"
			      : "");
}

/* The folder of class folders may have been meant, and not the folder above it. */
static void warn_nested(const struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	if (dataset_label_source(dataset) != DATASET_LABELS_FOLDER || opening->options.nested ||
		opening->heads[0].direct || !dataset->classes)
		return;
	const bool archive = !dataset->container->files;
	warning_add(dataset,
		"the class folders of %.200s hold folders only (%u class%s: %.60s%s%.60s%s), and "
		"labels are numbers of these outer folders: if the inner ones are the classes, "
		"%s, such as %.200s%s%.60s; nested: true (--nested) says that the outer ones are "
		"meant; torchvision's ImageFolder takes both",
		dataset->shard[0].path, dataset->classes, dataset->classes == 1 ? "" : "es",
		dataset->class_names[0], dataset->classes > 1 ? ", " : "",
		dataset->classes > 1 ? dataset->class_names[1] : "",
		dataset->classes > 2 ? ", ..." : "",
		archive ? "make an archive of their folder" : "name their folder",
		archive ? "" : dataset->shard[0].path, archive ? "" : "/", dataset->class_names[0]);
}

static void opening_warn(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	char text[FAULT_TEXT];
	warn_passed(opening);
	warn_nested(opening);
	if (!opening->dotted || !dataset->container->left_out)
		return;
	dataset->container->left_out(opening->dotted, opening->example, text, sizeof text);
	warning_add(dataset, "%s", text);
}

void opening_notice(struct opening *opening)
{
	opening_warn(opening);
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
	if (opening->partless)
		notice_add(dataset,
			"Indexes of an earlier release, by which each image in a compressed page "
			"unpacks the page up to itself, were built again.");
	if (opening->gained)
		notice_add(dataset,
			"%llu sample%s added to %.300s: an earlier release took only .jpg, .jpeg "
			"and .png for images. States that were taken with it do not fit.",
			(unsigned long long)opening->gained,
			opening->gained == 1 ? " was" : "s were", dataset->shard[0].path);
	warn_tail(opening, TAR_END_CUT);
	warn_tail(opening, TAR_END_TAR);
	warn_tail(opening, TAR_END_BYTES);
	if (opening->labelless && opening->asked == DATASET_LABELS_AUTO)
		notice_add(dataset,
			"The images have no labels: %llu .json files beside them have neither "
			"\"label\" nor \"cls\".",
			(unsigned long long)opening->labelless);
}
