/* index: see index.h. Pure functions on pages, then the reader, then the writer. */
#include "source/index.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { INDEX_CRC = sizeof(uint32_t) };

static uint32_t page_crc(const uint8_t *page)
{
	return (uint32_t)crc32(0, page + INDEX_CRC, INDEX_PAGE - INDEX_CRC);
}

static int page_check(const uint8_t *page, uint32_t kind, uint64_t number, struct fault *fault)
{
	struct index_page_head head;
	memcpy(&head, page, sizeof head);
	if (head.crc != page_crc(page))
		return fault_set(fault, -EIO,
			"page %c%llu has a wrong checksum: delete the index, it is built again",
			(int)kind, (unsigned long long)number);
	if (head.kind != kind || head.number != number)
		return fault_set(fault, -EIO,
			"found another page where page %c%llu belongs: delete the index, it is "
			"built again",
			(int)kind, (unsigned long long)number);
	return 0;
}

int index_page_record(const uint8_t page[INDEX_PAGE], uint64_t number, uint32_t slot,
	struct index_record *ret, struct fault *fault)
{
	int rc = page_check(page, 'R', number, fault);
	if (rc < 0)
		return rc;
	if (slot >= INDEX_RECORDS)
		return fault_set(
			fault, -EIO, "record %u of a page: a page has %d", slot, INDEX_RECORDS);
	memcpy(ret, page + INDEX_PAGE_HEAD + slot * sizeof *ret, sizeof *ret);
	return 0;
}

int index_page_name(const uint8_t page[INDEX_PAGE], const struct index_record *record, char *buffer,
	size_t room, struct fault *fault)
{
	int rc = page_check(page, 'N', record->name_page, fault);
	if (rc < 0)
		return rc;
	size_t from = record->name_offset, size = record->name_size;
	if (from < INDEX_PAGE_HEAD || size == 0 || from + size > INDEX_PAGE || size >= room)
		return fault_set(fault, -EIO,
			"a name of %zu bytes at byte %zu of page N%llu: delete the index, it is "
			"built again",
			size, from, (unsigned long long)record->name_page);
	memcpy(buffer, page + from, size);
	buffer[size] = 0;
	return 0;
}

int index_read(int fd, uint64_t offset, void *buffer, size_t size, struct fault *fault)
{
	for (size_t done = 0; done < size;) {
		ssize_t n =
			pread(fd, (uint8_t *)buffer + done, size - done, (off_t)(offset + done));
		if (n > 0)
			done += (size_t)n;
		else if (n == 0)
			return fault_set(fault, -EIO,
				"ends before byte %llu: delete the index, it is built again",
				(unsigned long long)(offset + size));
		else if (errno != EINTR)
			return fault_set(fault, -errno, "cannot be read at byte %llu: %s",
				(unsigned long long)(offset + done), strerror(errno));
	}
	return 0;
}
