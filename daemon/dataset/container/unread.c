/* unread: see unread.h. */
#include "dataset/container/unread.h"

#include "base/util.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

struct magic {
	const char *text;
	size_t size;
	const char *format;
	/* The command that unpacks it, if it is a compressed file; otherwise `advice` says what
	 * else to do. */
	const char *command, *advice;
};

static const char pack_it[] =
	"read it with its own library once, and write its images into a folder, tars or Parquet";

/* The first bytes of such files. Riegeli is the format of ArrayRecord: its files begin with a block
 * header and a signature of fixed bytes (riegeli_records_file_format.md). */
static const struct magic magics[] = {
	{"\x1f\x8b", 2, "gzip", "gunzip", NULL},
	{"BZh", 3, "bzip2", "bunzip2", NULL},
	{"\xfd"
	 "7zXZ\0",
		6, "xz", "unxz", NULL},
	{"\x5d\0\0", 3, "lzma", "unlzma", NULL},
	{"\x28\xb5\x2f\xfd", 4, "zstd", "unzstd", NULL},
	{"\x04\x22\x4d\x18", 4, "LZ4", "unlz4", NULL},
	{"LZIP", 4, "lzip", "lzip -d", NULL},
	{"\x1f\x9d", 2, "compress", "uncompress", NULL},
	{"PK\3\4", 4, "a zip archive", NULL,
		"unpack it, and name the folder, or pack that with penstock pack"},
	{"7z\xbc\xaf\x27\x1c", 6, "a 7z archive", NULL,
		"unpack it, and name the folder, or pack that with penstock pack"},
	{"Rar!\x1a\x07", 6, "a RAR archive", NULL,
		"unpack it, and name the folder, or pack that with penstock pack"},
	{"\x89HDF\r\n\x1a\n", 8, "an HDF5 file", NULL, pack_it},
	{"hsqs", 4, "a squashfs image", NULL, "mount it, and name the folder in it"},
	{"\x83\xaf\x70\xd1\x0d\x88\x4a\x3f", 8, "a Riegeli file (ArrayRecord)", NULL, pack_it},
	{"ARROW1", 6, "an Arrow IPC (Feather) file", NULL, "save the dataset as Parquet"},
	{"FEA1", 4, "a Feather file", NULL, "save the dataset as Parquet"},
	{"\x93NUMPY", 6, "a NumPy array", NULL,
		"write its images into a folder or tars, with Pillow's Image.fromarray"},
	{"SQLite format 3", 16, "an SQLite database", NULL, pack_it},
	{"\x80\2", 2, "a pickle, which is never unpickled because that runs its code", NULL,
		pack_it},
	{"\x80\3", 2, "a pickle, which is never unpickled because that runs its code", NULL,
		pack_it},
	{"\x80\4", 2, "a pickle, which is never unpickled because that runs its code", NULL,
		pack_it},
	{"\x80\5", 2, "a pickle, which is never unpickled because that runs its code", NULL,
		pack_it},
};

/* Files that are known by the end of their names only: they have no magic number, or that of a more
 * general format. */
static const struct {
	const char *end, *format, *advice;
} ends[] = {
	{".beton", "a dataset of FFCV (.beton), which is not read",
		"name the folder or the tars that it was written from, or write its images into "
		"tars"},
	{".arrow", "an Arrow file, which is not read",
		"save the dataset as Parquet: "
		"datasets.load_from_disk(FOLDER).to_parquet(\"train.parquet\")"},
	{".npz", "an archive of NumPy arrays, which is not read",
		"write its images into a folder or tars, with Pillow's Image.fromarray"},
	{".pt", "a file of torch.save, which is not read",
		"write its images into a folder or tars"},
	{".pth", "a file of torch.save, which is not read",
		"write its images into a folder or tars"},
	{"/index.json", "an index, which is read along with its shards", "name its folder"},
	{".idx", "an index, which is read along with its file", "name that: FILE.rec or FILE.tar"},
	{".csv", "a table, which is not a source of images",
		"name the folder, tar or other file of the images, and the table as their labels: "
		"{manifest: FILE.csv}"},
};

static bool ends_with(const char *path, const char *end)
{
	const size_t size = strlen(path), tail = strlen(end);
	return size > tail && !strcasecmp(path + size - tail, end);
}

int unread_fault(const char *path, const uint8_t *bytes, size_t size, struct fault *fault)
{
	const struct magic *magic = NULL;
	for (size_t i = 0; !magic && i < UTIL_COUNT(magics); i++)
		if (size >= magics[i].size && !memcmp(bytes, magics[i].text, magics[i].size))
			magic = &magics[i];
	for (size_t i = 0; i < UTIL_COUNT(ends) && !(magic && magic->command); i++)
		if (ends_with(path, ends[i].end))
			return fault_set(fault, -EINVAL, "%s is %s: %s", path, ends[i].format,
				ends[i].advice);
	if (magic && magic->command)
		return fault_set(fault, -EINVAL,
			"%s is compressed with %s, but samples are read in place: unpack it first "
			"(%s)",
			path, magic->format, magic->command);
	if (magic)
		return fault_set(fault, -EINVAL, "%s is %s, which is not read: %s", path,
			magic->format, magic->advice);
	return 0;
}
