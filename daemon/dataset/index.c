/* index: see index.h. Pure functions on pages, then the reader, then the writer. */
#include "dataset/index.h"

#include "base/util.h"
#include "base/whole.h"
#include "dataset/digest.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { INDEX_CRC = sizeof(uint32_t) };

static uint32_t page_crc(const uint8_t *page)
{
	return (uint32_t)crc32(0, page + INDEX_CRC, INDEX_PAGE - INDEX_CRC);
}

static int page_check(
	const uint8_t *page, bool checked, uint32_t kind, uint64_t number, struct fault *fault)
{
	struct index_page_head head;
	memcpy(&head, page, sizeof head);
	if (!checked && head.crc != page_crc(page))
		return fault_set(fault, -EIO,
			"page %c%llu has a wrong checksum: delete the index, it will be built "
			"again",
			(int)kind, (unsigned long long)number);
	if (head.kind != kind || head.number != number)
		return fault_set(fault, -EIO,
			"page %c%llu is not where it belongs: delete the index, it will be built "
			"again",
			(int)kind, (unsigned long long)number);
	return 0;
}

static bool page_is(const uint8_t *page, uint32_t kind)
{
	struct index_page_head head;
	memcpy(&head, page, sizeof head);
	return head.kind == kind;
}

bool index_page_is_packed(const uint8_t page[INDEX_PAGE])
{
	return page_is(page, 'P');
}

/* The kind of name pages, which tells how long a field's place is. */
static uint32_t names_kind(const uint8_t *page)
{
	return page_is(page, 'M') ? 'M' : 'N';
}

int index_page_record(const uint8_t page[INDEX_PAGE], bool checked, uint64_t number, uint32_t slot,
	struct index_record *ret, struct fault *fault)
{
	const bool packed = page_is(page, 'P');
	int rc = page_check(page, checked, packed ? 'P' : 'R', number, fault);
	if (rc < 0)
		return rc;
	const uint32_t records = packed ? INDEX_RECORDS_PACKED : INDEX_RECORDS;
	const size_t size = packed ? sizeof *ret : INDEX_RECORD_PLAIN;
	if (slot >= records)
		return fault_set(
			fault, -EIO, "record %u does not exist: a page has %u", slot, records);
	memset(ret, 0, sizeof *ret);
	memcpy(ret, page + INDEX_PAGE_HEAD + slot * size, size);
	if (!packed)
		ret->position = ret->offset;
	return 0;
}

int32_t index_page_class(const uint8_t page[INDEX_PAGE], uint32_t slot)
{
	const size_t size =
		page_is(page, 'P') ? sizeof(struct index_record) : (size_t)INDEX_RECORD_PLAIN;
	int32_t label;
	memcpy(&label, page + INDEX_PAGE_HEAD + slot * size + offsetof(struct index_record, label),
		sizeof label);
	return label;
}

int index_page_name(const uint8_t page[INDEX_PAGE], bool checked, const struct index_record *record,
	char *buffer, size_t room, struct fault *fault)
{
	int rc = page_check(page, checked, names_kind(page), record->name_page, fault);
	if (rc < 0)
		return rc;
	size_t from = record->name_offset, size = record->name_size;
	if (from < INDEX_PAGE_HEAD || size == 0 || from + size > INDEX_PAGE || size >= room)
		return fault_set(fault, -EIO,
			"page N%llu cannot hold a name of %zu bytes at byte %zu: delete the index, "
			"it will be built again",
			(unsigned long long)record->name_page, size, from);
	memcpy(buffer, page + from, size);
	buffer[size] = 0;
	return 0;
}

int index_page_label(const uint8_t page[INDEX_PAGE], bool checked,
	const struct index_record *record, const uint8_t **ret, struct fault *fault)
{
	int rc = page_check(page, checked, names_kind(page), record->name_page, fault);
	if (rc < 0)
		return rc;
	size_t from = (size_t)record->name_offset + record->name_size;
	if (record->name_offset < INDEX_PAGE_HEAD || from + record->label_size > INDEX_PAGE)
		return fault_set(fault, -EIO,
			"page N%llu cannot hold a label of %u bytes at byte %zu: delete the index, "
			"it will be built again",
			(unsigned long long)record->name_page, record->label_size, from);
	*ret = page + from;
	return 0;
}

int index_page_field(const uint8_t page[INDEX_PAGE], bool checked,
	const struct index_record *record, uint32_t number, struct index_field *ret,
	struct fault *fault)
{
	int rc = page_check(page, checked, names_kind(page), record->name_page, fault);
	if (rc < 0)
		return rc;
	const size_t size = page_is(page, 'M') ? sizeof *ret : INDEX_FIELD_PLAIN;
	size_t from = (size_t)record->name_offset + record->name_size + record->label_size +
		      number * size;
	if (record->name_offset < INDEX_PAGE_HEAD || number >= record->fields ||
		from + size > INDEX_PAGE)
		return fault_set(fault, -EIO,
			"page N%llu cannot hold field %u at byte %zu: delete the index, it will be "
			"built again",
			(unsigned long long)record->name_page, number, from);
	memset(ret, 0, sizeof *ret);
	memcpy(ret, page + from, size);
	return 0;
}

int index_page_etag(const uint8_t page[INDEX_PAGE], bool checked, uint32_t version,
	const struct index_record *record, char *buffer, struct fault *fault)
{
	buffer[0] = 0;
	if (version != INDEX_VERSION_BUCKET)
		return 0;
	int rc = page_check(page, checked, names_kind(page), record->name_page, fault);
	if (rc < 0)
		return rc;
	const size_t from = (size_t)record->name_offset + record->name_size + record->label_size +
			    (size_t)record->fields * INDEX_FIELD_PLAIN;
	const bool inside = record->name_offset >= INDEX_PAGE_HEAD && from < INDEX_PAGE;
	const size_t size = inside ? page[from] : 0;
	if (!inside || size >= INDEX_ETAG || from + 1 + size > INDEX_PAGE)
		return fault_set(fault, -EIO,
			"page N%llu cannot hold an ETag at byte %zu: delete the index, it will be "
			"built again",
			(unsigned long long)record->name_page, from);
	memcpy(buffer, page + from + 1, size);
	buffer[size] = 0;
	return 0;
}

int index_read(int fd, uint64_t offset, void *buffer, size_t size, struct fault *fault)
{
	ssize_t n = whole_read(fd, buffer, size, offset);
	if (n < 0)
		return fault_set(fault, (int)n, "cannot be read at byte %llu: %s",
			(unsigned long long)offset, strerror((int)-n));
	return (size_t)n == size ? 0
				 : fault_set(fault, -EIO,
					   "ends before byte %llu: delete the index, it will be "
					   "built again",
					   (unsigned long long)offset + size);
}

/* Eight bytes that do not begin any text file; on a machine with the other byte order they are
 * reversed. */
#define INDEX_MAGIC UINT64_C(0x89504e5354494458)

static int head_check(const uint8_t *page, uint64_t file_size, struct index_head *ret)
{
	struct index_head head;
	memcpy(&head, page + INDEX_PAGE_HEAD, sizeof head);
	if (head.magic == __builtin_bswap64(INDEX_MAGIC))
		return INDEX_E_OTHER;
	if (head.magic != INDEX_MAGIC)
		return INDEX_E_FOREIGN;
	if (page_check(page, false, 'H', 0, NULL) < 0)
		return INDEX_E_DAMAGED;
	if (head.version < INDEX_VERSION_TAR_OLD || head.version > INDEX_VERSION_BUCKET)
		return INDEX_E_OTHER;
	/* Pages: far more than any file has, far too few to overflow. */
	const uint64_t most = UINT64_C(1) << 48;
	if (head.record_pages > most || head.name_pages > most || head.table_pages > most ||
		head.samples > most * INDEX_RECORDS)
		return INDEX_E_DAMAGED;
	if (head.earlier_count > INDEX_EARLIER || head.field_count > FIELDS_MAX)
		return INDEX_E_DAMAGED;
	const uint64_t records = index_records(head.version);
	uint64_t pages = 1 + head.record_pages + head.name_pages + head.table_pages;
	if ((file_size && file_size != pages * INDEX_PAGE) ||
		head.record_pages != (head.samples + records - 1) / records ||
		head.table_bytes > head.table_pages * (INDEX_PAGE - INDEX_PAGE_HEAD))
		return INDEX_E_DAMAGED;
	*ret = head;
	return 0;
}

int index_head_read(
	int fd, uint64_t base, uint64_t file_size, struct index_head *ret, uint32_t *ret_crc)
{
	uint8_t page[INDEX_PAGE] = {0};
	if (file_size && file_size < INDEX_PAGE) {
		/* Too short for a head: either an index of ours that was cut off, or another
		 * file. */
		int rc = index_read(fd, base, page, (size_t)file_size, NULL);
		struct index_head head;
		return rc < 0 ? rc : head_check(page, file_size, &head);
	}
	int rc = index_read(fd, base, page, sizeof page, NULL);
	if (rc == 0)
		rc = head_check(page, file_size, ret);
	if (rc == 0)
		memcpy(ret_crc, page, sizeof *ret_crc);
	return rc;
}

void index_table_init(
	struct index_table *table, int fd, uint64_t base, const struct index_head *head)
{
	table->fd = fd;
	table->at = base + (1 + head->record_pages + head->name_pages) * INDEX_PAGE;
	table->page = 0;
	table->pages = head->table_pages;
	table->left = head->table_bytes;
	table->used = INDEX_PAGE;
}

/* An entry may continue on the next page. */
static int table_take(struct index_table *table, void *buffer, size_t size)
{
	if (size > table->left)
		return -EIO;
	table->left -= size;
	for (size_t done = 0; done < size;) {
		if (table->used == INDEX_PAGE) {
			if (table->page == table->pages)
				return -EIO;
			int rc = index_read(table->fd, table->at, table->buffer, INDEX_PAGE, NULL);
			if (rc == 0)
				rc = page_check(table->buffer, false, 'T', table->page, NULL);
			if (rc < 0)
				return rc;
			table->page++;
			table->at += INDEX_PAGE;
			table->used = INDEX_PAGE_HEAD;
		}
		size_t n = UTIL_MIN(size - done, INDEX_PAGE - table->used);
		memcpy((uint8_t *)buffer + done, table->buffer + table->used, n);
		table->used += n;
		done += n;
	}
	return 0;
}

int index_table_next(struct index_table *table, struct index_entry *ret, char *text)
{
	if (table->left == 0)
		return 0;
	int rc = table_take(table, ret, sizeof *ret);
	if (rc < 0)
		return rc;
	if (ret->size > INDEX_NAME_MAX)
		return -EIO;
	rc = table_take(table, text, ret->size);
	if (rc < 0)
		return rc;
	text[ret->size] = 0;
	return 1;
}

enum { SECTION_PAGES = 16 }; /* written at once */

static uint8_t *section_page(struct index_section *section)
{
	return section->buffer + section->buffered * INDEX_PAGE;
}

static int section_flush(struct index_section *section)
{
	uint64_t at = section->base + (section->pages - section->buffered) * INDEX_PAGE;
	int rc = whole_write(section->fd, section->buffer, section->buffered * INDEX_PAGE, at);
	section->buffered = 0;
	return rc;
}

static void page_finish(uint8_t *page, uint32_t kind, uint64_t number)
{
	struct index_page_head head = {.kind = kind, .number = number};
	memcpy(page, &head, sizeof head);
	head.crc = page_crc(page);
	memcpy(page, &head, sizeof head);
}

/* Ends the page that is being filled; the rest of it stays zero. */
static int section_turn(struct index_section *section)
{
	if (section->used == 0)
		return 0;
	uint8_t *page = section_page(section);
	memset(page + section->used, 0, INDEX_PAGE - section->used);
	page_finish(page, section->kind, section->first + section->pages);
	section->pages++;
	section->buffered++;
	section->used = 0;
	return section->buffered == SECTION_PAGES ? section_flush(section) : 0;
}

/* Appends up to `size` bytes to the page, or to a new one if it is full. Returns how many, or a
 * negative errno. */
static ssize_t section_put(struct index_section *section, const void *data, size_t size)
{
	if (section->used == INDEX_PAGE) {
		int rc = section_turn(section);
		if (rc < 0)
			return rc;
	}
	if (section->used == 0)
		section->used = INDEX_PAGE_HEAD;
	size_t n = UTIL_MIN(size, INDEX_PAGE - section->used);
	memcpy(section_page(section) + section->used, data, n);
	section->used += n;
	return (ssize_t)n;
}

/* Appends all of it within one page. */
static int section_put_whole(struct index_section *section, const void *data, size_t size)
{
	if (section->used + size > INDEX_PAGE) {
		int rc = section_turn(section);
		if (rc < 0)
			return rc;
	}
	ssize_t n = section_put(section, data, size);
	return n < 0 ? (int)n : 0;
}

static int section_init(
	struct index_section *section, int fd, uint32_t kind, uint64_t base, uint64_t first)
{
	*section = (struct index_section){.fd = fd, .kind = kind, .base = base, .first = first};
	section->buffer = malloc((size_t)SECTION_PAGES * INDEX_PAGE);
	return section->buffer ? 0 : -ENOMEM;
}

int index_writer_init(
	struct index_writer *writer, int fd, uint64_t base, int names_fd, int tables_fd)
{
	memset(writer, 0, sizeof *writer);
	writer->base = base;
	writer->head.magic = INDEX_MAGIC;
	writer->head.version = INDEX_VERSION;
	int rc = section_init(&writer->records, fd, 'R', base + INDEX_PAGE, 1);
	if (rc == 0)
		rc = section_init(&writer->names, names_fd, 'N', 0, 0);
	if (rc == 0)
		rc = section_init(&writer->tables, tables_fd, 'T', 0, 0);
	if (rc < 0)
		index_writer_deinit(writer);
	return rc;
}

void index_writer_deinit(struct index_writer *writer)
{
	free(writer->records.buffer);
	free(writer->names.buffer);
	free(writer->tables.buffer);
	writer->records.buffer = writer->names.buffer = writer->tables.buffer = NULL;
}

static int writer_result(struct index_writer *writer, int rc)
{
	if (rc < 0 && !writer->error)
		writer->error = rc;
	return rc;
}

void index_writer_packed(struct index_writer *writer)
{
	writer->head.version = INDEX_VERSION_PACKED;
	writer->records.kind = 'P';
	writer->names.kind = 'M';
}

/* Bytes of a field's place after a name. */
static size_t field_bytes(const struct index_writer *writer)
{
	return writer->head.version == INDEX_VERSION_PACKED ? sizeof(struct index_field)
							    : INDEX_FIELD_PLAIN;
}

size_t index_writer_room(const struct index_writer *writer)
{
	return INDEX_NAME_ROOM - writer->head.field_count * field_bytes(writer) -
	       (writer->head.version == INDEX_VERSION_BUCKET);
}

/* Puts the ETag, after a byte with its size, after the `size` bytes of a name and what follows it.
 * One that has no room is left out. Returns the size of all. */
static size_t etag_put(const struct index_writer *writer, uint8_t all[INDEX_NAME_ROOM], size_t size)
{
	if (writer->head.version != INDEX_VERSION_BUCKET)
		return size;
	size_t etag = writer->etag ? strlen(writer->etag) : 0;
	if (etag >= INDEX_ETAG || size + 1 + etag > INDEX_NAME_ROOM)
		etag = 0;
	all[size] = (uint8_t)etag;
	if (etag)
		memcpy(all + size + 1, writer->etag, etag);
	return size + 1 + etag;
}

int index_writer_name_label(struct index_writer *writer, const char *name, size_t size,
	const void *label, size_t label_size, struct index_record *record)
{
	assert(size > 0 && size <= INDEX_NAME_MAX &&
		size + label_size <= index_writer_room(writer));
	struct index_section *names = &writer->names;
	uint8_t all[INDEX_NAME_ROOM];
	const size_t field = field_bytes(writer);
	size_t bytes = size + label_size + writer->head.field_count * field;
	memcpy(all, name, size);
	memcpy(all + size, label, label_size);
	for (uint32_t i = 0; i < writer->head.field_count; i++) {
		memcpy(all + size + label_size + i * field, &writer->field[i], field);
		if (writer->field[i].packed.method != PACKED_NONE)
			writer->head.packed = INDEX_PACKED;
	}
	bytes = etag_put(writer, all, bytes);
	int rc = section_put_whole(names, all, bytes);
	if (rc < 0)
		return writer_result(writer, rc);
	record->name_page = names->pages;
	record->name_offset = (uint16_t)(names->used - bytes);
	record->fields = (uint8_t)writer->head.field_count;
	record->name_size = (uint16_t)size;
	record->label_size = (uint16_t)label_size;
	writer->name_hash = hash_bytes(HASH_SEED, name, size);
	writer->label_hash = hash_bytes(HASH_SEED, label, label_size);
	return 0;
}

int index_writer_name(
	struct index_writer *writer, const char *name, size_t size, struct index_record *record)
{
	return index_writer_name_label(writer, name, size, "", 0, record);
}

int index_writer_add_hashed(struct index_writer *writer, const struct index_record *record,
	uint64_t hash, uint64_t hash_unlabelled)
{
	struct index_head *head = &writer->head;
	struct index_record whole = *record;
	whole.position = head->bytes;
	if (record->packed.method != PACKED_NONE)
		head->packed = INDEX_PACKED;
	int rc = section_put_whole(&writer->records, &whole,
		head->version == INDEX_VERSION_PACKED ? sizeof whole : INDEX_RECORD_PLAIN);
	if (rc < 0)
		return writer_result(writer, rc);
	head->digest = digest_append(head->digest, hash);
	head->digest_unlabelled = digest_append(head->digest_unlabelled, hash_unlabelled);
	uint64_t labelled = hash_u64(writer->name_hash, writer->label_hash);
	labelled = hash_mix(hash_u64(labelled, (uint64_t)record->label)) % DIGEST_PRIME;
	head->digest_names = digest_append(head->digest_names, labelled);
	head->digest_names_unlabelled = digest_append(
		head->digest_names_unlabelled, hash_mix(writer->name_hash) % DIGEST_PRIME);
	head->samples++;
	head->bytes += record->size;
	head->largest = UTIL_MAX(head->largest, record->size);
	return 0;
}

int index_writer_add(struct index_writer *writer, const struct index_record *record,
	const char *key, size_t key_size)
{
	if (record->label >= 0)
		writer->head.label_width =
			UTIL_MAX(writer->head.label_width, (uint32_t)record->label + 1);
	return index_writer_add_hashed(writer, record,
		digest_sample(key, key_size, record->size, record->label),
		digest_sample(key, key_size, record->size, -1));
}

/* Appends a pair that is neither the index's own nor there already. */
static void earlier_add(struct index_head *head, struct index_digests digests)
{
	if (digests.digest == head->digest && digests.unlabelled == head->digest_unlabelled)
		return;
	for (uint64_t i = 0; i < head->earlier_count; i++)
		if (head->earlier[i].digest == digests.digest)
			return;
	if (head->earlier_count < INDEX_EARLIER)
		head->earlier[head->earlier_count++] = digests;
}

void index_writer_replaces(
	struct index_writer *writer, const struct index_head *old, bool unlabelled)
{
	struct index_head *head = &writer->head;
	bool same = old->digest_names == head->digest_names && old->samples == head->samples;
	bool names = old->digest_names_unlabelled == head->digest_names_unlabelled &&
		     old->samples == head->samples;
	if (!same && !(unlabelled && names))
		return;
	earlier_add(head, (struct index_digests){same ? old->digest : old->digest_unlabelled,
				  old->digest_unlabelled});
	for (uint64_t i = 0; i < old->earlier_count; i++) {
		struct index_digests digests = old->earlier[i];
		if (!same)
			digests.digest = digests.unlabelled;
		earlier_add(head, digests);
	}
}

static int tables_put(struct index_writer *writer, const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = section_put(&writer->tables, (const uint8_t *)data + done, size - done);
		if (n < 0)
			return writer_result(writer, (int)n);
		done += (size_t)n;
	}
	writer->head.table_bytes += size;
	return 0;
}

int index_writer_entry(
	struct index_writer *writer, uint32_t kind, int64_t mtime_ns, const char *text, size_t size)
{
	struct index_entry entry = {.mtime_ns = mtime_ns, .size = (uint32_t)size, .kind = kind};
	int rc = tables_put(writer, &entry, sizeof entry);
	if (rc == 0)
		rc = tables_put(writer, text, size);
	if (rc == 0 && kind == 'D')
		writer->head.directories++;
	if (rc == 0 && kind == 'C')
		writer->head.classes++;
	return rc;
}

/* Copies a finished section to byte `at` of the file. */
static int section_append(struct index_section *from, int fd, uint64_t at, uint8_t *buffer)
{
	uint64_t size = from->pages * INDEX_PAGE;
	for (uint64_t done = 0; done < size;) {
		size_t n = (size_t)UTIL_MIN(size - done, (uint64_t)SECTION_PAGES * INDEX_PAGE);
		int rc = index_read(from->fd, from->base + done, buffer, n, NULL);
		if (rc == 0)
			rc = whole_write(fd, buffer, n, at + done);
		if (rc < 0)
			return rc;
		done += n;
	}
	return 0;
}

static int section_end(struct index_section *section)
{
	int rc = section_turn(section);
	return rc < 0 ? rc : section_flush(section);
}

static int head_write(struct index_writer *writer)
{
	uint8_t page[INDEX_PAGE] = {0};
	memcpy(page + INDEX_PAGE_HEAD, &writer->head, sizeof writer->head);
	page_finish(page, 'H', 0);
	return whole_write(writer->records.fd, page, sizeof page, writer->base);
}

int index_writer_finish(struct index_writer *writer, uint64_t *ret_bytes)
{
	struct index_head *head = &writer->head;
	int rc = section_end(&writer->records);
	if (rc == 0)
		rc = section_end(&writer->names);
	if (rc == 0)
		rc = section_end(&writer->tables);
	head->record_pages = writer->records.pages;
	head->name_pages = writer->names.pages;
	head->table_pages = writer->tables.pages;
	uint64_t names_at = writer->base + (1 + head->record_pages) * INDEX_PAGE;
	uint64_t tables_at = names_at + head->name_pages * INDEX_PAGE;
	/* Everything is flushed, so the records' buffer can be used for copying. */
	if (rc == 0)
		rc = section_append(
			&writer->names, writer->records.fd, names_at, writer->records.buffer);
	if (rc == 0)
		rc = section_append(
			&writer->tables, writer->records.fd, tables_at, writer->records.buffer);
	if (rc == 0)
		rc = head_write(writer);
	if (rc == 0)
		*ret_bytes = tables_at + head->table_pages * INDEX_PAGE - writer->base;
	return writer_result(writer, rc);
}
