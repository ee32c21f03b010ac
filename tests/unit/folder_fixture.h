/* folder_fixture: temporary folders for tests. Every helper asserts its own success. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static inline int fixture_remove_one(
	const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

/* A new folder below TMPDIR; fixture_remove removes it with everything in it. */
static inline char *fixture_folder(void)
{
	const char *where = getenv("TMPDIR");
	char *path;
	assert_true(
		asprintf(&path, "%s/penstock-test-XXXXXX", where && *where ? where : "/tmp") > 0);
	assert_non_null(mkdtemp(path));
	return path;
}

static inline void fixture_remove(char *folder)
{
	assert_int_equal(nftw(folder, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	free(folder);
}
