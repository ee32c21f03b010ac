/* folder_hint: a user named a folder without images. It may hold the files of another kind of
 * dataset, itself or in its folders, or files that are not read: the sentence says so, and what to
 * name instead. Opens a bounded number of files and folders, of those below the roots. Blocks. */
#pragma once

#include "base/fault.h"

/* `fd` is the folder `path`. -EINVAL with the sentence; 0: nothing in it is known. */
int folder_hint(const char *path, int fd, struct fault *fault);
