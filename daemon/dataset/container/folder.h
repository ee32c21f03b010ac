/* folder: walks the images of a folder in the order of torchvision's ImageFolder.
 *
 * That is: the images in the folder itself by their names; then its directories, the classes, by
 * their names (bytewise or natural). Within a class, its directories of any depth by their paths,
 * as sorted(os.walk(class, followlinks=True)) has them, and in each the images by their names.
 * Names and paths are compared by code point (base/name_order.h), and extensions count: "a-b" comes
 * between "a" and "a/c", and "img-1.jpg" before "img.jpg". ImageFolder takes no images beside the
 * class folders; a folder without directories has the order that it would have as a class.
 *
 * "a-b" lies between a directory and its own directories, so the walk does not go depth first: it
 * keeps the directories that it has seen and not entered, and always enters the first of them.
 *
 * Memory, while the walk lasts: the names in the directory that is being read, with about 16 bytes
 * per image, and the paths of the directories that were seen and not entered, with some 100 bytes
 * each. 1.3 million images in a thousand folders need some 200 KiB; in one folder, 50 MiB. Two
 * descriptors. Symbolic links are followed; a link that leads back to a folder above it is an
 * error, and so is a folder that links lead to more than 100 times. Left out: names that begin with
 * a dot, "__MACOSX", files with extensions that images do not have (image_names.h), and
 * everything that is neither a file nor a directory.
 *
 * Blocks. One walk per thread. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FOLDER_DEPTH_MAX = 64,
	/* A directory that links lead to more often is refused. */
	FOLDER_LINKS_MAX = 100,
};

/* The order of class folders, and so of their labels: as ImageFolder's, or as timm's. */
enum class_order { CLASS_ORDER_BYTEWISE, CLASS_ORDER_NATURAL };

/* What the walk reports. Each function returns 0 to continue, or a negative errno that ends the
 * walk (with `fault` filled). */
struct folder_sink {
	void *context;
	/* The names of the directories in the root, in the order of the walk. Called first. */
	int (*classes)(void *context, const char *const *names, size_t count, struct fault *fault);
	/* A directory is entered; `path` is relative, "" for the root. */
	int (*directory)(void *context, const char *path, int64_t mtime_ns, struct fault *fault);
	/* An image; `size` is also 0 for a symbolic link to nothing. */
	int (*file)(void *context, const char *path, uint64_t size, struct fault *fault);
	/* A file that is left out because of its extension, or an image whose name begins with a
	 * dot. NULL: not reported. */
	void (*other)(void *context, const char *name);
	/* Before `file`: an object's ETag; "": none that can be relied on. NULL: not reported. */
	void (*etag)(void *context, const char *etag);
};

/* Walks the tree below `root_fd` (borrowed). `root` is its path, for faults. 0; -ELOOP;
 * -ENAMETOOLONG; -ESTALE if the folder changed meanwhile; -errno; or what the sink returned. */
int folder_walk(int root_fd, const char *root, enum class_order order,
	const struct folder_sink *sink, struct fault *fault);

/* The enum sample_format of a name's last extension; 0: not one that is read. Pure. */
int folder_format(const char *name);

/* The number of bytes of a path without its last extension, for paths that folder_format accepts.
 * Pure. */
size_t folder_key_size(const char *path);

/* Waits until a further change would show as another modification time: file systems use a clock
 * that ticks every 4 to 10 ms, so a write within the same tick as `mtime_ns` leaves no trace. At
 * most 20 ms. */
void folder_settle(int64_t mtime_ns);
