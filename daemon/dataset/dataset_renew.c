/* dataset_renew: images of a folder that were rewritten in place.
 *
 * A folder's index holds the size of each image, and the modification times of the directories.
 * Writing into a file changes its size and not the directory, so the index looks up to date. The
 * first reader that meets such a file opens the dataset once more, with `instead_of`; these
 * functions say whether that is needed, and whether readers of the old dataset can go on with the
 * new one. */
#include "dataset/dataset_impl.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

bool dataset_was(const struct dataset *dataset, uint64_t fingerprint)
{
	bool was = fingerprint == dataset->fingerprint;
	for (uint32_t i = 0; i < dataset->earlier_count; i++)
		was |= fingerprint == dataset->earlier[i];
	return was;
}

uint64_t dataset_earlier(const struct dataset *dataset, uint32_t i)
{
	return i < dataset->earlier_count ? dataset->earlier[i] : 0;
}

static bool classes_same(const struct dataset *a, const struct dataset *b)
{
	bool same = a->classes == b->classes;
	for (uint32_t i = 0; same && i < a->classes; i++)
		same = strcmp(a->class_names[i], b->class_names[i]) == 0;
	return same;
}

int dataset_continues(const struct dataset *old, const struct dataset *fresh, struct fault *fault)
{
	const char *path = old->shard[0].path;
	if (old->count != fresh->count)
		return fault_set(fault, -ESTALE,
			"images of %s were rewritten, added or removed after it was opened: it had "
			"%llu samples, and has %llu now; open it again",
			path, (unsigned long long)old->count, (unsigned long long)fresh->count);
	if (old->names != fresh->names || old->rule != fresh->rule ||
		old->label_type != fresh->label_type || old->label_width != fresh->label_width ||
		old->labelled != fresh->labelled || !classes_same(old, fresh))
		return fault_set(fault, -ESTALE,
			"images of %s were rewritten after it was opened, and some have other "
			"names "
			"or labels now: open it again",
			path);
	return 0;
}

/* A page that was read last. */
struct window {
	uint64_t page; /* 0: none; that is the head's number */
	uint8_t bytes[INDEX_PAGE];
};

static int window_move(const struct dataset *dataset, const struct dataset_page *at,
	struct window *window, struct fault *fault)
{
	if (window->page == at->page)
		return 0;
	window->page = 0;
	int rc = dataset_page_read(dataset, at, window->bytes, fault);
	if (rc == 0)
		window->page = at->page;
	return rc;
}

struct sizes {
	const struct dataset *dataset;
	struct window records, names;
	char name[INDEX_NAME_MAX + 1];
};

/* Reads a record, and its name into sizes->name. */
static int sizes_read(
	struct sizes *sizes, uint64_t number, struct index_record *ret, struct fault *fault)
{
	const struct dataset *dataset = sizes->dataset;
	struct dataset_page at;
	uint64_t position;
	int rc = dataset_locate(dataset, number, &at);
	if (rc == 0)
		rc = window_move(dataset, &at, &sizes->records, fault);
	if (rc == 0)
		rc = dataset_record(
			dataset, &at, sizes->records.bytes, false, ret, &position, fault);
	if (rc == 0)
		rc = dataset_locate_name(dataset, 0, ret, &at, fault);
	if (rc == 0)
		rc = window_move(dataset, &at, &sizes->names, fault);
	if (rc == 0)
		rc = dataset_name(dataset, 0, ret, sizes->names.bytes, false, sizes->name,
			sizeof sizes->name, fault);
	return rc;
}

static bool size_fits(const struct sizes *sizes, uint32_t size)
{
	struct stat st;
	return fstatat(sizes->dataset->root_fd, sizes->name, &st, 0) < 0 ||
	       (S_ISREG(st.st_mode) && (uint64_t)st.st_size == size);
}

int dataset_sizes_fit(const struct dataset *dataset, const struct dataset_options *options,
	bool *ret, struct fault *fault)
{
	enum { SIZES_ROUND = 4096 };
	bool fits = true;
	/* The stamp of a folder in a bucket covers the sizes. */
	const bool files = dataset->container->files && !dataset_remote(dataset);
	struct sizes *sizes = files ? calloc(1, sizeof *sizes) : NULL;
	if (files && !sizes)
		return fault_set(fault, -ENOMEM, "no memory to check the sizes of %s",
			dataset->shard[0].path);
	int rc = 0;
	if (sizes)
		sizes->dataset = dataset;
	for (uint64_t i = 0; sizes && fits && rc == 0 && i < dataset->count; i++) {
		struct index_record record = {0};
		rc = sizes_read(sizes, i, &record, fault);
		if (rc == 0)
			fits = size_fits(sizes, record.size);
		if (rc == 0 && i % SIZES_ROUND == 0 && options->progress &&
			options->progress(options->progress_context, i, 0, 0))
			rc = fault_set(fault, -ECANCELED, "stopped while checking the sizes of %s",
				dataset->shard[0].path);
	}
	free(sizes);
	if (rc == 0)
		*ret = fits;
	return rc;
}
