/* fields: what is delivered beside an image, as a stream's definition names it (key `fields:`).
 *
 * A field is named by an extension. In a tar it is the member of the sample's key with that
 * extension: of "a/7.jpg", the field "txt" is "a/7.txt", and "seg.json" is "a/7.seg.json". In a
 * folder it is the file whose path differs from the image's in the last extension only. Names are
 * compared exactly, upper and lower case too.
 *
 * The index of a tar says where the fields of each sample are. Such an index belongs to one list of
 * names: it is stored in the cache folder under their hash, and the indexes of datasets without
 * fields stay as they are. A folder needs no such index, because the path says where a field is;
 * so files beside images may be rewritten while streams read them. Fields are part of neither a
 * dataset's fingerprint nor its order. Plain data and pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FIELDS_MAX = 8,
	FIELD_NAME_MAX = 63, /* bytes of a name */
	FIELD_BYTES_MAX = 16 << 20, /* the largest `max` */
	FIELD_BYTES_DEFAULT = 4096,
};

struct field {
	char name[FIELD_NAME_MAX + 1]; /* the extension without its first dot: "txt", "seg.json" */
	uint32_t max; /* bytes that a row of it holds, 1 .. FIELD_BYTES_MAX */
	bool cut; /* deliver the first `max` bytes of a longer one; otherwise it is an error */
	bool empty; /* deliver no bytes where a sample has none; otherwise it is an error */
};

struct field_list {
	uint32_t count; /* 0: none */
	struct field at[FIELDS_MAX];
};

/* NULL if a field may have this name, or what such a name must be, to follow "expected ". */
const char *field_name_refused(const char *name);

/* A hash of the names in their order, which an index of a tar is known by; 0 for no names. */
uint64_t field_list_hash(const struct field_list *list);
bool field_list_equal(const struct field_list *a, const struct field_list *b);

/* Writes the path of a field in a folder: `image` with the extension `name` in place of its last
 * one. false: there is no room. `buffer` may be `image`. */
bool field_path(const char *image, const char *name, char *buffer, size_t room);
