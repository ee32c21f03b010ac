/* large: see large.h. */
#include "stream/large.h"

#include "base/size.h"
#include "base/util.h"
#include "fetch/fetch.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static int large_spill_failed(
	const struct spill *spill, const struct sample *sample, int error, struct fault *fault)
{
	char size[16];
	return fault_set(fault, error,
		"sample %llu (%s) has %s, more than the memory budget has for large files; it is "
		"read through a temporary file in %s, which fails: %s; make room there, set "
		"cache_dir to a folder on a disk with room, or raise memory",
		(unsigned long long)sample->number, sample->name,
		size_format(sample->size, size, sizeof size), spill->folder, strerror(-error));
}

bool large_resized(const struct dataset *dataset, uint64_t number, int outcome)
{
	char path[4096 + 512];
	struct stat st;
	return (outcome == FETCH_E_CHANGED || outcome == FETCH_E_SHORT) &&
	       dataset_path(dataset, number, path, sizeof path, NULL) == 0 &&
	       stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int large_read(const struct spill *spill, const struct dataset *dataset, uint64_t number,
	uint8_t **ret_data, uint32_t *ret_size, int *ret_error, struct fault *fault)
{
	struct sample sample;
	int unwritten = 0, rc = dataset_sample(dataset, number, &sample, fault);
	*ret_error = 0;
	if (rc)
		return rc;
	cleanup(close_fd) int fd = spill_open(spill);
	if (fd < 0)
		return large_spill_failed(spill, &sample, fd, fault);
	rc = dataset_copy(dataset, &sample, fd, &unwritten, fault);
	if (rc && !unwritten) {
		int outcome = (int)fetch_outcome_of(rc);
		*ret_error = rc;
		return outcome > FETCH_OK ? outcome : rc;
	}
	if (!rc)
		rc = spill_map(fd, sample.size, LARGE_SLACK, ret_data);
	if (rc)
		return large_spill_failed(spill, &sample, rc, fault);
	*ret_size = sample.size;
	return 0;
}

int large_like_fetch(const struct dataset *dataset, int outcome, int error)
{
	bool ends = error == -EACCES || (error == -ESTALE && !dataset_in_files(dataset));
	return outcome > FETCH_OK && ends ? error : outcome;
}

void large_free(uint8_t *data, uint32_t size)
{
	spill_unmap(data, size, LARGE_SLACK);
}
