/* machine: a made-up machine below a temporary folder: files of /proc and /sys as a kernel shows
 * them. To be included after cmocka. */
#pragma once

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct machine {
	char root[64];
};

/* A test's set-up: an empty machine; machine_deinit is its teardown. */
static inline int machine_init(void **state)
{
	static struct machine machine;
	(void)snprintf(machine.root, sizeof machine.root, "/tmp/penstock-machine-XXXXXX");
	*state = &machine;
	return mkdtemp(machine.root) ? 0 : -1;
}

/* Writes a file and the folders above it. */
static inline void put(struct machine *m, const char *path, const char *text)
{
	char full[PATH_MAX];
	(void)snprintf(full, sizeof full, "%s%s", m->root, path);
	for (char *slash = strchr(full + strlen(m->root) + 1, '/'); slash;
		slash = strchr(slash + 1, '/')) {
		*slash = 0;
		assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	FILE *file = fopen(full, "we");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static inline int remove_entry(const char *path, const struct stat *s, int type, struct FTW *ftw)
{
	(void)s, (void)type, (void)ftw;
	return remove(path);
}

static inline int machine_deinit(void **state)
{
	struct machine *m = *state;
	return nftw(m->root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
