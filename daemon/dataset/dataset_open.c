/* dataset_open: from what a user names to an open dataset: finds each shard's index, builds the
 * indexes that are missing or stale, and sums up. One thread; blocks. dataset.c answers questions
 * about the opened dataset.
 *
 * There are two passes over the shards, so that progress reports know how much there is to build:
 * the first finds indexes (opening_find.c), the second builds (opening_build.c). */
#include "base/clock.h"
#include "base/host/limits.h"
#include "base/store.h"
#include "base/util.h"
#include "dataset/container/image_names.h"
#include "dataset/digest.h"
#include "dataset/opening/opening.h"
#include "dataset/source/source.h"
#include "labels/label_rule.h"
#include "labels/labels.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const char *const label_names[] = {
	[DATASET_LABELS_AUTO] = "auto",
	[DATASET_LABELS_NONE] = "none",
	[DATASET_LABELS_FOLDER] = "folder",
	[DATASET_LABELS_CLS] = "cls",
	[DATASET_LABELS_JSON] = "json",
	[DATASET_LABELS_PATH] = "a path into json",
	[DATASET_LABELS_MANIFEST] = "a manifest",
	[DATASET_LABELS_COLUMN] = "a column",
};

/* Called before the first index is built. */
static int labels_ready(struct opening *opening)
{
	int rc = opening->rule && opening->cache ? store_folder_make(opening->cache) : 0;
	/* If the cache folder cannot be created, the manifest's table is stored elsewhere. */
	return opening->rule ? labels_prepare(opening->labels, rc == 0 ? opening->cache : NULL,
				       opening->fault)
			     : 0;
}

/* Each thread that builds reads its shard with several requests at once. */
enum { BUILD_THREADS = 4 };

/* For a team. */
static int build_one(struct opening *opening, uint32_t number, struct fault *fault)
{
	if (!opening->missing[number])
		return 0;
	opening_resume(opening, fault);
	int rc = opening_build(opening, number);
	opening_pause(opening);
	return rc;
}

static int shards_index(struct opening *opening)
{
	uint32_t shards = opening->dataset->shards;
	bool built = false;
	uint64_t began = clock_ns();
	const bool remote = dataset_remote(opening->dataset);
	/* The labels of a rule are looked up by one thread. */
	const unsigned threads = opening->rule ? 1 : BUILD_THREADS;
	int connected = opening_connect(opening);
	if (connected < 0)
		return connected;
	for (uint32_t i = 0; i < shards; i++) {
		int rc = opening_find(opening, i);
		if (rc < 0)
			return rc;
	}
	for (uint32_t i = 0; i < shards; i++) {
		int rc = opening->missing[i] && !built ? labels_ready(opening) : 0;
		if (rc == 0 && opening->missing[i])
			rc = remote ? opening_team(opening, threads, build_one)
				    : opening_build(opening, i);
		if (rc < 0)
			return rc;
		built |= opening->missing[i];
		if (built && remote)
			break; /* the team has built all of them */
	}
	opening->dataset->indexed_ns = built ? clock_ns() - began : 0;
	return 0;
}

/* Shards with samples must agree on where their labels come from. */
static int sources_agree(const struct opening *opening, uint32_t *first, uint32_t number)
{
	const struct dataset *dataset = opening->dataset;
	if (*first == UINT32_MAX)
		*first = number;
	const struct dataset_shard *a = &dataset->shard[*first], *b = &dataset->shard[number];
	if (opening->asked != DATASET_LABELS_NONE && a->source == b->source &&
		opening->classes_differ[0])
		return fault_set(opening->fault, -EINVAL, "%s", opening->classes_differ);
	if (opening->asked == DATASET_LABELS_NONE || a->source == b->source)
		return 0;
	return fault_set(opening->fault, -EINVAL,
		"the labels of %s come from \"%s\", those of %s from \"%s\": label all shards in "
		"the same way, or ask for labels: none",
		a->path, label_names[a->source], b->path, label_names[b->source]);
}

/* A folder has one index. */
static void earlier_take(struct dataset *dataset, const struct index_head *head, bool labels)
{
	dataset->names = labels ? head->digest_names : head->digest_names_unlabelled;
	for (; dataset->earlier_count < head->earlier_count; dataset->earlier_count++) {
		const struct index_digests *was = &head->earlier[dataset->earlier_count];
		dataset->earlier[dataset->earlier_count] =
			digest_finish(labels ? was->digest : was->unlabelled, dataset->count);
	}
}

/* Opens a folder's index now: it may be replaced at any time by one with other sizes, and this
 * dataset must go on with its own. */
static int index_hold(const struct dataset *dataset, struct fault *fault)
{
	int fd;
	if (!dataset->container->files)
		return 0;
	int rc = dataset_index_acquire(dataset, 0, &fd, fault);
	if (rc == 0)
		dataset_index_release(dataset, 0);
	return rc;
}

static int dataset_sum(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	bool labels = opening->asked != DATASET_LABELS_NONE;
	uint64_t digest = 0;
	uint32_t first = UINT32_MAX;
	for (uint32_t i = 0; i < dataset->shards; i++) {
		const struct index_head *head = &opening->heads[i];
		dataset->shard[i].first = dataset->count;
		opening->dotted += head->dotted;
		opening->labelless += head->labelless;
		if (head->dotted)
			opening_example(opening, dataset->shard[i].path);
		if (head->samples == 0)
			continue;
		int rc = sources_agree(opening, &first, i);
		if (rc < 0)
			return rc;
		dataset->count += head->samples;
		dataset->bytes += head->bytes;
		dataset->largest = UTIL_MAX(dataset->largest, head->largest);
		digest = digest_concat(
			digest, labels ? head->digest : head->digest_unlabelled, head->samples);
	}
	dataset->labelled = labels && first != UINT32_MAX &&
			    dataset->shard[first].source != DATASET_LABELS_NONE;
	dataset->fingerprint = digest_finish(digest, dataset->count);
	if (dataset->container->files)
		earlier_take(dataset, &opening->heads[0], labels);
	if (dataset->container->files && opening->heads[0].members > dataset->count)
		dataset->passed = opening->heads[0].members - dataset->count;
	return 0;
}

/* Makes the dataset's shards out of the paths, which it takes over. */
static int dataset_prepare(struct dataset *dataset, struct source_paths *paths,
	enum dataset_kind kind, struct fault *fault)
{
	dataset->kind = kind;
	dataset->container = container_of(kind);
	dataset->shard = calloc(paths->count, sizeof *dataset->shard);
	if (!dataset->shard)
		return fault_set(fault, -ENOMEM, "no memory for %zu shards", paths->count);
	dataset->shards = (uint32_t)paths->count;
	for (uint32_t i = 0; i < dataset->shards; i++)
		dataset->shard[i].path = paths->path[i];
	paths->count = 0;
	if (!dataset->container->files || dataset_remote(dataset))
		return 0;
	dataset->root_fd = open(dataset->shard[0].path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dataset->root_fd < 0)
		return fault_set(fault, -errno, "%s cannot be opened: %s%s", dataset->shard[0].path,
			strerror(errno), limits_hint(errno));
	return 0;
}

/* Opens the files that the label rule names, before the indexes are examined. */
static int labels_begin(struct opening *opening)
{
	const struct label_rule *rule = opening->options.rule;
	struct dataset *dataset = opening->dataset;
	opening->asked = rule ? rule->from : opening->options.labels;
	if (!rule || label_rule_plain(rule))
		return 0;
	int rc = labels_open(opening->options.rule, opening->options.progress,
		opening->options.progress_context,
		dataset->container->files ? dataset->shard[0].path : NULL, &opening->labels,
		opening->fault);
	if (rc < 0)
		return rc;
	opening->rule = labels_index_hash(opening->labels);
	dataset->rule = labels_hash(opening->labels);
	dataset->only = rule->only ? dataset->rule : 0;
	return 0;
}

/* The index of a folder does not depend on fields. */
static int fields_begin(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	const struct field_list *fields = opening->options.fields;
	for (uint32_t i = 0; fields && dataset->container->files && i < fields->count; i++) {
		const char *dot = strrchr(fields->at[i].name, '.');
		if (image_names_folder(dot ? dot + 1 : fields->at[i].name))
			return fault_set(opening->fault, -EINVAL,
				"fields: in a folder, files named .%s are samples, as in "
				"torchvision's ImageFolder: give them another extension, or read "
				"tars, where a field is never a sample's image",
				fields->at[i].name);
	}
	if (fields && fields->count && dataset->container->files && dataset_remote(dataset))
		return fault_set(opening->fault, -EINVAL,
			"fields: of a folder in a bucket, only images are read: pack the folder "
			"into tars, which have their fields beside each image");
	if (!fields || dataset->container->files)
		return 0;
	opening->fields = *opening->options.fields;
	opening->fields_hash = field_list_hash(&opening->fields);
	dataset->fields = opening->fields_hash;
	dataset->field_count = opening->fields.count;
	return 0;
}

static int columns_begin(struct opening *opening)
{
	const struct dataset *dataset = opening->dataset;
	if (!opening->options.columns)
		return 0;
	opening->columns = *opening->options.columns;
	opening->columns_hash = column_choice_hash(&opening->columns);
	if (!opening->columns_hash || dataset->container->columns)
		return 0;
	return fault_set(opening->fault, -EINVAL,
		"%s: %s of a %s cannot be chosen, because it has no columns: leave out %s",
		opening->columns.image[0]   ? "image_column"
		: opening->columns.label[0] ? "label_column"
					    : "label_offset",
		opening->columns.image[0] ? "the image" : "the label", dataset->container->name,
		opening->columns.image[0]   ? "image_column"
		: opening->columns.label[0] ? "label_column"
					    : "label_offset");
}

/* Folders and tars have sentences of their own. */
static int labels_possible(const struct opening *opening)
{
	static const char *const words[] = {
		[DATASET_LABELS_FOLDER] = "class folders",
		[DATASET_LABELS_CLS] = ".cls files",
		[DATASET_LABELS_JSON] = ".json files",
		[DATASET_LABELS_PATH] = ".json files",
	};
	const struct dataset *dataset = opening->dataset;
	const enum dataset_labels asked = opening->asked;
	if (dataset->kind <= DATASET_TARS || asked < DATASET_LABELS_FOLDER ||
		asked > DATASET_LABELS_PATH || (dataset->container->labels >> asked & 1))
		return 0;
	return fault_set(opening->fault, -EINVAL,
		"labels: %s is read as %s, whose labels do not come from %s: leave labels out, or "
		"write a manifest",
		dataset->shard[0].path, dataset->container->name, words[asked]);
}

static int opening_run(struct opening *opening)
{
	struct dataset *dataset = opening->dataset;
	assert(dataset->shards > 0);
	char folder[4096];
	int begun = labels_begin(opening);
	if (begun < 0)
		return begun;
	int refused = fields_begin(opening);
	if (refused == 0)
		refused = columns_begin(opening);
	if (refused == 0)
		refused = labels_possible(opening);
	if (refused < 0)
		return refused;
	if (!store_cache_folder(opening->options.cache_dir, folder, sizeof folder))
		opening->cache = strdup(folder);
	opening->heads = calloc(dataset->shards, sizeof *opening->heads);
	opening->missing = calloc(dataset->shards, sizeof *opening->missing);
	if (!opening->heads || !opening->missing)
		return fault_set(
			opening->fault, -ENOMEM, "no memory for %u shards", dataset->shards);
	int rc = shards_index(opening);
	if (rc == 0)
		rc = dataset_sum(opening);
	if (rc == 0)
		rc = opening_nonempty(opening);
	if (rc == 0)
		rc = opening_judge(opening);
	if (rc == 0 && dataset_index_files_new(dataset) < 0)
		rc = fault_set(opening->fault, -ENOMEM, "no memory for %u shards", dataset->shards);
	if (rc == 0)
		rc = index_hold(dataset, opening->fault);
	if (rc == 0 && (opening->labels || dataset_label_source(dataset) == DATASET_LABELS_COLUMN))
		rc = dataset_labels_settle(
			dataset, opening->heads, opening->labels, opening->cache, opening->fault);
	if (rc == 0)
		opening_notice(opening);
	dataset->cache_folder = opening->cache;
	dataset->index_in_cache = opening->options.index_in_cache;
	opening->cache = NULL;
	return rc;
}

/* A dataset without labels has no classes either, whether the caller asked for no labels or the
 * folders have none. */
static void classes_drop(struct dataset *dataset)
{
	if (dataset->labelled)
		return;
	dataset_classes_free(dataset);
}

static int dataset_open_once(const char *spec, const struct dataset_options *options,
	struct dataset **ret, struct fault *fault)
{
	static const struct dataset_options defaults;
	struct source_paths paths = {0};
	enum dataset_kind kind = DATASET_FOLDER;
	struct dataset *dataset = calloc(1, sizeof *dataset);
	if (!dataset)
		return fault_set(fault, -ENOMEM, "no memory for a dataset");
	dataset->root_fd = dataset->scratch_fd = -1;
	dataset->label_type = LABEL_TYPE_CLASS;
	dataset->label_width = 1;
	struct opening opening = {
		.options = options ? *options : defaults, .dataset = dataset, .fault = fault};
	opening.progress.call = opening.options.progress;
	opening.progress.context = opening.options.progress_context;
	int rc = source_expand(spec, &paths, &kind, fault);
	if (rc == 0)
		rc = dataset_prepare(dataset, &paths, kind, fault);
	if (rc == 0)
		rc = opening_run(&opening);
	source_paths_free(&paths);
	labels_free(opening.labels);
	free(opening.cache);
	free(opening.heads);
	free(opening.missing);
	for (enum place place = 0; place < PLACES; place++)
		free(opening.tidied[place]);
	if (rc < 0) {
		dataset_free(dataset);
		return rc;
	}
	classes_drop(dataset);
	*ret = dataset;
	return 0;
}

/* Whether the index that was found may be used: an index that was built now may. */
static int dataset_is_sound(const struct dataset *dataset, const struct dataset_options *options,
	bool *ret, struct fault *fault)
{
	*ret = true;
	if (dataset->indexed_ns || options->anew || (!options->check_sizes && !options->instead_of))
		return 0;
	return dataset_sizes_fit(dataset, options, ret, fault);
}

/* A folder may have two indexes, one for the labels of the samples and one without. So the index
 * that is found in place of one that is out of date may be out of date, too. */
int dataset_open(const char *spec, const struct dataset_options *options, struct dataset **ret,
	struct fault *fault)
{
	struct dataset_options again = {0};
	struct dataset *dataset = NULL, *stale = NULL;
	bool sound = false;
	int rc = 0;
	if (options)
		again = *options;
	while (rc == 0 && !sound) {
		rc = dataset_open_once(spec, &again, &dataset, fault);
		dataset_free(stale);
		stale = NULL;
		if (rc == 0)
			rc = dataset_is_sound(dataset, &again, &sound, fault);
		if (rc == 0 && sound)
			break;
		again.anew = again.instead_of != NULL;
		again.instead_of = stale = dataset;
		dataset = NULL;
	}
	dataset_free(stale);
	if (rc == 0)
		*ret = dataset;
	return rc;
}
