/* folder: the images of a folder, in the order of their keys.
 *
 * The key of a file is its relative path less its last extension; files come in the bytewise order
 * of their keys, those with equal keys (x.jpg and x.png) in that of their names. Sorting one
 * directory at a time gives that order over the whole tree when a directory sorts by its name with
 * a slash behind it: "a-b/" comes before "a/", because '-' comes before '/', and so do all keys in
 * them.
 *
 * Memory: the names of the directories on the way from the root to the one being read, with about
 * 16 bytes for each image in them: 1.3 million images in a thousand folders need some 100 KiB, all
 * in one folder 50 MiB, while the walk lasts. One descriptor per level. Symbolic links are
 * followed; one that leads back to where it hangs is an error. Left out: names with a leading dot,
 * "__MACOSX", what has another extension than .jpg .jpeg .png in any case, and what is neither file
 * nor directory.
 *
 * Blocks. One walk per thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOLDER_DEPTH_MAX = 64 };

/* What the walk tells. Each returns 0 to go on, or a negative errno that ends the walk (with
 * `fault` filled). */
struct folder_sink {
	void *context;
	/* The directories in the root, sorted bytewise by their names alone, before anything else.
	 */
	int (*classes)(void *context, char *const *names, size_t count, struct fault *fault);
	/* A directory is entered; `path` is relative, "" for the root. */
	int (*directory)(void *context, const char *path, int64_t mtime_ns, struct fault *fault);
	/* An image; `size` is 0 also for a symbolic link to nothing. */
	int (*file)(void *context, const char *path, uint64_t size, struct fault *fault);
	/* A file that is passed over for its name's extension. NULL: nobody counts them. */
	void (*other)(void *context, const char *name);
};

/* Walks the tree below `root_fd` (borrowed). `root` is its path, for faults. 0; -ELOOP;
 * -ENAMETOOLONG; -ESTALE something changed meanwhile; -errno; or what the sink returned. */
int folder_walk(int root_fd, const char *root, const struct folder_sink *sink, struct fault *fault);

/* The enum sample_format that a name's last extension stands for; 0: none. Pure. */
int folder_format(const char *name);

/* Whether a name's last extension is that of images in a format that is not read. Pure. */
bool folder_foreign(const char *name);

/* Bytes of a path without its last extension, for paths that folder_format knows. Pure. */
size_t folder_key_size(const char *path);

/* Waits until a change would show as another modification time: file systems stamp by a clock that
 * ticks every 4 to 10 ms, so what is written within the tick of `mtime_ns` leaves no trace. At most
 * 20 ms. */
void folder_settle(int64_t mtime_ns);
