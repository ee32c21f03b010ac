/* renamed: see renamed.h. */
#include "base/renamed.h"

#include "base/util.h"

#include <string.h>

const struct renamed renamed_options[] = {
	{"no-checkpoints", "no-entry-points"},
	{NULL, NULL},
};

const struct renamed renamed_keys[] = {
	{"checkpoints", "entry_points"},
	{NULL, NULL},
};

_Static_assert(UTIL_COUNT(renamed_options) <= RENAMED_MAX + 1, "RENAMED_MAX");
_Static_assert(UTIL_COUNT(renamed_keys) <= RENAMED_MAX + 1, "RENAMED_MAX");

const char *renamed_name(const struct renamed *table, const char *old)
{
	while (table->old && strcmp(table->old, old) != 0)
		table++;
	return table->name;
}

const char *renamed_say(const char *dashes, const char *old, const char *name, struct fault *ret)
{
	(void)fault_set(ret, 0, "%s%s is the old name of %s%s; use the new name", dashes, old,
		dashes, name);
	return ret->text;
}

bool renamed_beside(int argc, char *const *argv, const char *name)
{
	size_t size = strlen(name);
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strncmp(argv[i], "--", 2) == 0 && strncmp(argv[i] + 2, name, size) == 0 &&
			(!argv[i][2 + size] || argv[i][2 + size] == '='))
			return true;
	return false;
}
