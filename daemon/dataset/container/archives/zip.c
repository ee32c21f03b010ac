/* zip: see zip.h. */
#include "dataset/container/archives/zip.h"

#include "base/util.h"
#include "base/whole.h"
#include "dataset/container/archives/archives.h"
#include "dataset/container/archives/zip_name.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Signatures and sizes of the fixed parts. */
#define LOCAL_MAGIC UINT32_C(0x04034b50)
#define ENTRY_MAGIC UINT32_C(0x02014b50)
#define SIGNED_MAGIC UINT32_C(0x05054b50) /* a digital signature after the last entry */
#define END_MAGIC UINT32_C(0x06054b50)
#define END64_MAGIC UINT32_C(0x06064b50)
#define LOCATOR_MAGIC UINT32_C(0x07064b50)
#define FULL_16 UINT16_MAX /* "see the ZIP64 record" */
#define FULL_32 UINT32_MAX
enum {
	LOCAL_SIZE = 30,
	ENTRY_SIZE = 46,
	END_SIZE = 22,
	END64_SIZE = 56,
	LOCATOR_SIZE = 20,
	COMMENT_MAX = 65535,
	EXTRA_ZIP64 = 1,
	FLAG_ENCRYPTED = 1 << 0,
	FLAG_LATER = 1 << 3, /* sizes and CRC follow the data */
	FLAG_UTF8 = 1 << 11,
	NEAR_GAP = 8 << 10, /* headers that are closer share a read of ZIP_NEAR */
	NEAR_LEAST = 1 << 10,
};

/* What the end records say, before it is checked. */
struct ends {
	uint64_t at; /* of the first of them in the file */
	uint64_t members, size, offset; /* of the directory */
	uint64_t disk, disks; /* this file's number, and that of the directory's file */
	bool exact;
};

static int fault_at(
	const struct zip_reader *zip, uint64_t at, const char *text, struct fault *fault)
{
	return fault_set(fault, -EINVAL, "%s: byte %llu: %s", zip->window.path,
		(unsigned long long)at, text);
}

int zip_fault(const struct zip_reader *zip, const struct zip_member *member, uint64_t at,
	struct fault *fault, const char *format, ...)
{
	char what[400];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(what, sizeof what, format, args);
	va_end(args);
	return fault_set(fault, -EINVAL, "%s: byte %llu: member %.200s %s", zip->window.path,
		(unsigned long long)at, member->name, what);
}

/* The offset of the end record in the last `size` bytes of the file; -1: there is none. One whose
 * comment ends with the file is preferred, because comments may hold anything; else the last one
 * counts, after which further bytes may follow, as to Python's zipfile. */
static long end_find(const uint8_t *tail, size_t size)
{
	long last = -1;
	for (long at = (long)size - END_SIZE; at >= 0; at--) {
		if (little_32(tail + at) != END_MAGIC)
			continue;
		const size_t rest = size - (size_t)at - END_SIZE,
			     comment = little_16(tail + at + 20);
		if (comment == rest)
			return at;
		if (comment < rest && last < 0)
			last = at;
	}
	return last;
}

static int end_read(struct zip_reader *zip, struct ends *ret, struct fault *fault)
{
	const uint64_t whole = zip->window.size;
	const size_t size = (size_t)UTIL_MIN(whole, (uint64_t)COMMENT_MAX + END_SIZE);
	const uint8_t *tail;
	int rc = window_get(&zip->window, whole - size, size, "the end of a ZIP", &tail, fault);
	if (rc < 0)
		return rc;
	const long at = end_find(tail, size);
	if (at < 0)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: expected the end record of a ZIP in the last %zu bytes: it "
			"is not a ZIP file, or was cut off; copy it again from where it came from",
			zip->window.path, (unsigned long long)whole, size);
	const uint8_t *end = tail + at;
	*ret = (struct ends){.at = whole - size + (uint64_t)at,
		.disk = little_16(end + 4),
		.disks = little_16(end + 6),
		.members = little_16(end + 10),
		.size = little_32(end + 12),
		.offset = little_32(end + 16)};
	return 0;
}

/* Takes the ZIP64 end record at `at` if one is there: 1; 0: no such record; or a fault. */
static int end64_take(struct zip_reader *zip, uint64_t at, struct ends *ends, struct fault *fault)
{
	const uint8_t *end;
	if (at > ends->at || ends->at - at < END64_SIZE)
		return 0;
	int rc = window_get(&zip->window, at, END64_SIZE, "the ZIP64 end record", &end, fault);
	if (rc < 0 || little_32(end) != END64_MAGIC)
		return rc;
	*ends = (struct ends){.at = at,
		.disk = little_32(end + 16),
		.disks = little_32(end + 20),
		.members = little_64(end + 32),
		.size = little_64(end + 40),
		.offset = little_64(end + 48),
		.exact = true};
	return 1;
}

/* The locator in front of the end record names the place of the ZIP64 end record, which differs by
 * the bytes in front of the archive; there, it directly precedes the locator. */
static int end64_read(struct zip_reader *zip, struct ends *ends, struct fault *fault)
{
	const uint8_t *locator;
	if (ends->at < LOCATOR_SIZE)
		return 0;
	const uint64_t at = ends->at - LOCATOR_SIZE;
	int rc = window_get(&zip->window, at, LOCATOR_SIZE, "the ZIP64 locator", &locator, fault);
	if (rc < 0 || little_32(locator) != LOCATOR_MAGIC)
		return rc;
	const uint64_t named = little_64(locator + 8);
	ends->at = at;
	rc = end64_take(zip, named, ends, fault);
	if (rc == 0 && at >= END64_SIZE)
		rc = end64_take(zip, at - END64_SIZE, ends, fault);
	if (rc == 0)
		return fault_at(zip, at,
			"the ZIP64 locator names no ZIP64 end record: the archive is damaged; copy "
			"it again from where it came from",
			fault);
	return UTIL_MIN(rc, 0);
}

/* Whether a member's entry begins at `at`. */
static bool entry_is_at(struct zip_reader *zip, uint64_t at)
{
	const uint8_t *bytes;
	return window_get(&zip->window, at, 4, "", &bytes, NULL) == 0 &&
	       little_32(bytes) == ENTRY_MAGIC;
}

/* Finds the directory, which ends where the end records begin, unless something was put between
 * them. */
static int directory_find(struct zip_reader *zip, const struct ends *ends, struct fault *fault)
{
	if (ends->disk || ends->disks)
		return fault_at(zip, ends->at,
			"the archive is one part of several: join them (zip -s 0 IN.zip --out "
			"OUT.zip)",
			fault);
	if (ends->size > ends->at || ends->offset > ends->at - ends->size)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the directory of the ZIP is said to have %llu bytes from "
			"byte %llu on, which is beyond this place: the archive is damaged or was "
			"cut off; copy it again from where it came from",
			zip->window.path, (unsigned long long)ends->at,
			(unsigned long long)ends->size, (unsigned long long)ends->offset);
	zip->directory = ends->at - ends->size;
	zip->base = zip->directory - ends->offset;
	if (zip->base && ends->size && !entry_is_at(zip, zip->directory) &&
		entry_is_at(zip, ends->offset)) {
		zip->directory = ends->offset;
		zip->base = 0;
	}
	zip->end = zip->directory + ends->size;
	zip->members = ends->members;
	zip->exact = ends->exact;
	return 0;
}

int zip_init(struct zip_reader *zip, const struct blob *blob, const char *path, uint64_t size,
	struct fault *fault)
{
	struct ends ends = {0};
	*zip = (struct zip_reader){.near_last = UINT64_MAX};
	window_init(&zip->window, blob, path, size);
	int rc = end_read(zip, &ends, fault);
	if (rc == 0)
		rc = end64_read(zip, &ends, fault);
	if (rc == 0)
		rc = directory_find(zip, &ends, fault);
	zip_rewind(zip);
	return rc;
}

void zip_deinit(struct zip_reader *zip)
{
	window_deinit(&zip->window);
	free(zip->near);
	zip->near = NULL;
}

void zip_rewind(struct zip_reader *zip)
{
	zip->at = zip->directory;
	zip->seen = 0;
}

/* Finds an extra field by its number; NULL: there is none. Fields that lie about their size end
 * the list, as programs append padding there. */
static const uint8_t *extra_find(
	const uint8_t *extra, size_t size, uint16_t number, size_t *ret_size)
{
	for (size_t at = 0; size - at >= 4;) {
		const size_t field = little_16(extra + at + 2);
		if (field > size - at - 4)
			return NULL;
		if (little_16(extra + at) == number) {
			*ret_size = field;
			return extra + at + 4;
		}
		at += 4 + field;
	}
	return NULL;
}

/* Replaces *value by the next 64-bit number of a ZIP64 field if it is "full". False: it is missing
 * there. */
static bool extra_take(const uint8_t **field, size_t *size, uint64_t *value)
{
	if (*value != FULL_32)
		return true;
	if (!*field || *size < 8)
		return false;
	*value = little_64(*field);
	*field += 8;
	*size -= 8;
	return true;
}

/* The numbers of an entry that ZIP64 may have moved. */
static int entry_numbers(const struct zip_reader *zip, const uint8_t *entry, const uint8_t *extra,
	struct zip_member *member, struct fault *fault)
{
	size_t size = 0;
	const uint8_t *field = extra_find(extra, little_16(entry + 30), EXTRA_ZIP64, &size);
	uint64_t disk = little_16(entry + 34);
	member->stored = little_32(entry + 20);
	member->size = little_32(entry + 24);
	member->header = little_32(entry + 42);
	if (!extra_take(&field, &size, &member->size) ||
		!extra_take(&field, &size, &member->stored) ||
		!extra_take(&field, &size, &member->header))
		return zip_fault(zip, member, member->at, fault,
			"needs a ZIP64 field for its size or place, and has none: the archive is "
			"damaged");
	if (disk == FULL_16 && field && size >= 4)
		disk = little_32(field);
	if (disk)
		return zip_fault(zip, member, member->at, fault,
			"is in another part of a split archive: join the parts (zip -s 0 IN.zip "
			"--out OUT.zip)");
	if (member->header > zip->directory - zip->base)
		return zip_fault(zip, member, member->at, fault,
			"is said to begin at byte %llu, after the directory: the archive is "
			"damaged or was cut off",
			(unsigned long long)member->header);
	member->header += zip->base;
	return 0;
}

static int entry_name(const struct zip_reader *zip, const uint8_t *raw, struct zip_member *member,
	struct fault *fault)
{
	const size_t size = member->raw_size;
	member->raw = raw;
	member->folder = size && raw[size - 1] == '/';
	const long whole = zip_name(raw, size - member->folder, member->flags & FLAG_UTF8,
		member->name, sizeof member->name);
	if (whole < 0)
		return fault_at(zip, member->at,
			"the name of a member contains a zero byte, or is marked as UTF-8 and is "
			"not: the archive is damaged, or make it again with a program that writes "
			"UTF-8",
			fault);
	member->name_size = strlen(member->name);
	member->cut = member->name_size < (size_t)whole;
	return 0;
}

/* Checks that the walk has met as many members as the end record says. */
static int walk_end(const struct zip_reader *zip, struct fault *fault)
{
	const uint64_t seen = zip->exact ? zip->seen : zip->seen & FULL_16;
	if (seen == zip->members)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: the directory of the ZIP ends after %llu members, but the end "
		"record says %llu: the archive is damaged; copy it again from where it came from",
		zip->window.path, (unsigned long long)zip->end, (unsigned long long)zip->seen,
		(unsigned long long)zip->members);
}

static int fault_entry(const struct zip_reader *zip, struct fault *fault)
{
	return fault_at(zip, zip->at,
		"expected an entry of the ZIP's directory: the archive is damaged; copy it again "
		"from where it came from",
		fault);
}

int zip_next(struct zip_reader *zip, struct zip_member *ret, struct fault *fault)
{
	const uint8_t *entry;
	const uint64_t left = zip->end - zip->at;
	if (left == 0)
		return walk_end(zip, fault);
	int rc = left < 4 ? fault_entry(zip, fault)
			  : window_get(&zip->window, zip->at, 4, "an entry", &entry, fault);
	if (rc < 0)
		return rc;
	if (little_32(entry) == SIGNED_MAGIC) {
		zip->at = zip->end;
		return walk_end(zip, fault);
	}
	if (little_32(entry) != ENTRY_MAGIC || left < ENTRY_SIZE)
		return fault_entry(zip, fault);
	rc = window_get(&zip->window, zip->at, ENTRY_SIZE, "an entry", &entry, fault);
	if (rc < 0)
		return rc;
	const size_t name = little_16(entry + 28), extra = little_16(entry + 30);
	const size_t size = ENTRY_SIZE + name + extra + little_16(entry + 32);
	if (size > left)
		return fault_entry(zip, fault);
	rc = window_get(&zip->window, zip->at, size, "an entry", &entry, fault);
	if (rc < 0)
		return rc;
	ret->at = zip->at;
	ret->flags = little_16(entry + 8);
	ret->method = little_16(entry + 10);
	ret->crc = little_32(entry + 16);
	ret->raw_size = (uint16_t)name;
	rc = entry_name(zip, entry + ENTRY_SIZE, ret, fault);
	if (rc == 0)
		rc = entry_numbers(zip, entry, entry + ENTRY_SIZE + name, ret, fault);
	zip->at += size;
	zip->seen++;
	return rc < 0 ? rc : 1;
}

/* Points *ret to `size` bytes of a local header. A window would read 64 KiB for each. */
static int near_get(struct zip_reader *zip, const struct zip_member *member, size_t size,
	const uint8_t **ret, struct fault *fault)
{
	const uint64_t at = member->header;
	if (size > zip->window.size - at)
		return zip_fault(zip, member, at, fault,
			"needs %zu bytes for its header here, but the file ends at byte %llu: it "
			"is "
			"damaged or was cut off; copy it again from where it came from",
			size, (unsigned long long)zip->window.size);
	const bool inside = at >= zip->near_at && at - zip->near_at <= zip->near_used &&
			    size <= zip->near_used - (size_t)(at - zip->near_at);
	if (!inside) {
		const bool close = at >= zip->near_last && at - zip->near_last < NEAR_GAP;
		const size_t want = UTIL_MAX(size, (size_t)(close ? ZIP_NEAR : NEAR_LEAST));
		const size_t most = (size_t)UTIL_MIN((uint64_t)want, zip->window.size - at);
		zip->near_used = 0;
		ssize_t n = blob_read(zip->window.blob, zip->near, most, at);
		if (n < (ssize_t)size)
			return fault_set(fault, n < 0 ? (int)n : -EINVAL,
				"%s cannot be read at byte %llu: %s", zip->window.path,
				(unsigned long long)at,
				n < 0 ? blob_error((int)n) : "it has become shorter");
		zip->near_at = at;
		zip->near_used = (size_t)n;
	}
	zip->near_last = at;
	*ret = zip->near + (at - zip->near_at);
	return 0;
}

static const char *method_name(uint16_t method)
{
	switch (method) {
	case 1:
		return "Shrink";
	case 6:
		return "Implode";
	case 9:
		return "Deflate64";
	case 12:
		return "bzip2";
	case 14:
		return "LZMA";
	case 20:
	case 93:
		return "Zstandard";
	case 95:
		return "XZ";
	case 98:
		return "PPMd";
	default:
		return "unknown";
	}
}

/* Whether the data can be read at all, by what the directory says. */
static int member_check(
	const struct zip_reader *zip, const struct zip_member *member, struct fault *fault)
{
	if (member->flags & FLAG_ENCRYPTED)
		return zip_fault(zip, member, member->at, fault,
			"is encrypted: unpack the archive with its password (unzip -P PASSWORD) "
			"and make it again without one (zip -0 -r)");
	if (member->method != ZIP_STORED && member->method != ZIP_DEFLATED)
		return zip_fault(zip, member, member->at, fault,
			"is compressed with method %u (%s), but only stored and deflated members "
			"are read: unpack the archive and make it again (zip -0 -r)",
			member->method, method_name(member->method));
	if (member->method == ZIP_STORED && member->stored != member->size)
		return zip_fault(zip, member, member->at, fault,
			"is stored as it is, but has %llu bytes in the file and %llu outside: the "
			"archive is damaged",
			(unsigned long long)member->stored, (unsigned long long)member->size);
	return 0;
}

/* Whether the local header has the numbers of the directory, or leaves them to what follows the
 * data. */
static bool numbers_agree(
	const uint8_t *local, const uint8_t *extra, const struct zip_member *member)
{
	size_t size = 0;
	const uint8_t *field = extra_find(extra, little_16(local + 28), EXTRA_ZIP64, &size);
	uint64_t stored = little_32(local + 18), whole = little_32(local + 22);
	if (little_16(local + 6) & FLAG_LATER)
		return true;
	if (stored == FULL_32 || whole == FULL_32) {
		/* Local fields have both numbers, the unpacked size first. */
		if (!extra_take(&field, &size, &whole) || !extra_take(&field, &size, &stored))
			return false;
	}
	return stored == member->stored && whole == member->size &&
	       little_32(local + 14) == member->crc;
}

static int fault_disagree(const struct zip_reader *zip, const struct zip_member *member,
	const char *what, struct fault *fault)
{
	return zip_fault(zip, member, member->header, fault,
		"has another %s in its own header than in the directory: the archive is damaged; "
		"copy it again from where it came from, or repair it (zip -FF)",
		what);
}

/* Compares the fixed part and the name. */
static int local_check(const struct zip_reader *zip, const struct zip_member *member,
	const uint8_t *local, struct fault *fault)
{
	if (little_32(local) != LOCAL_MAGIC)
		return zip_fault(zip, member, member->header, fault,
			"has no header here: the archive is damaged; copy it again from where it "
			"came from, or repair it (zip -FF)");
	if (little_16(local + 6) & FLAG_ENCRYPTED)
		return fault_disagree(zip, member, "encryption", fault);
	if (little_16(local + 8) != member->method)
		return fault_disagree(zip, member, "method of compression", fault);
	return little_16(local + 26) == member->raw_size
		       ? 0
		       : fault_disagree(zip, member, "name", fault);
}

int zip_data(struct zip_reader *zip, const struct zip_member *member, uint64_t *ret_offset,
	struct fault *fault)
{
	const uint8_t *local;
	int rc = member_check(zip, member, fault);
	if (rc < 0)
		return rc;
	/* A header has at most this and two lengths of 16 bits. */
	const size_t most = LOCAL_SIZE + 2 * (size_t)UINT16_MAX;
	if (!zip->near && !(zip->near = malloc(most)))
		return fault_set(fault, -ENOMEM, "no memory to index %s", zip->window.path);
	rc = near_get(zip, member, LOCAL_SIZE, &local, fault);
	if (rc == 0)
		rc = local_check(zip, member, local, fault);
	if (rc < 0)
		return rc;
	const size_t size = LOCAL_SIZE + member->raw_size + (size_t)little_16(local + 28);
	rc = near_get(zip, member, size, &local, fault);
	if (rc < 0)
		return rc;
	if (memcmp(local + LOCAL_SIZE, member->raw, member->raw_size) != 0)
		return fault_disagree(zip, member, "name", fault);
	if (!numbers_agree(local, local + LOCAL_SIZE + member->raw_size, member))
		return fault_disagree(zip, member, "size or CRC", fault);
	const uint64_t offset = member->header + size;
	if (offset > zip->directory || member->stored > zip->directory - offset)
		return zip_fault(zip, member, offset, fault,
			"is said to have %llu bytes from here on, but the directory begins at byte "
			"%llu: the archive is damaged or was cut off",
			(unsigned long long)member->stored, (unsigned long long)zip->directory);
	*ret_offset = offset;
	return 0;
}
