/* page: see page.h. */
#include "dataset/container/parquet/page.h"

#include "base/util.h"
#include "dataset/container/parquet/thrift.h"

/* Fields of PageHeader, DataPageHeader, DictionaryPageHeader and DataPageHeaderV2 in
 * parquet.thrift. */
enum {
	HEADER_TYPE = 1,
	HEADER_WHOLE = 2,
	HEADER_STORED = 3,
	HEADER_DATA = 5,
	HEADER_DICTIONARY = 7,
	HEADER_DATA_2 = 8,
	DATA_VALUES = 1,
	DATA_ENCODING = 2,
	DATA_DEFINITION = 3,
	DATA_REPEATED = 4,
	DATA_2_ENCODING = 4,
	DATA_2_DEFINITION = 5,
	DATA_2_REPEATED = 6,
	DATA_2_COMPRESSED = 7,
};

/* An i32 that counts something. */
static uint32_t page_count(struct thrift *thrift, const struct thrift_field *field)
{
	const int64_t value = thrift_integer(thrift, field);
	if (!thrift->error && (value < 0 || value > INT32_MAX))
		(void)thrift_damaged(thrift, "a size or count is negative or above 2147483647");
	return thrift->error ? 0 : (uint32_t)value;
}

static uint8_t page_number(struct thrift *thrift, const struct thrift_field *field)
{
	const int64_t value = thrift_integer(thrift, field);
	return value < 0 || value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

static void data_read(struct thrift *thrift, struct page *page)
{
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field)) {
		if (field.id == DATA_VALUES)
			page->values = page_count(thrift, &field);
		else if (field.id == DATA_ENCODING)
			page->encoding = page_number(thrift, &field);
		else if (field.id == DATA_DEFINITION && page->type == PAGE_DATA)
			page->definition_encoding = page_number(thrift, &field);
		else if (field.id == DATA_REPEATED && page->type == PAGE_DATA)
			page->repeated_encoding = page_number(thrift, &field);
		else
			thrift_skip(thrift, &field);
	}
}

static void data_2_read(struct thrift *thrift, struct page *page)
{
	struct thrift_field field = {0};
	page->compressed = true;
	while (thrift_next(thrift, &field)) {
		if (field.id == DATA_VALUES)
			page->values = page_count(thrift, &field);
		else if (field.id == DATA_2_ENCODING)
			page->encoding = page_number(thrift, &field);
		else if (field.id == DATA_2_DEFINITION)
			page->definition_bytes = page_count(thrift, &field);
		else if (field.id == DATA_2_REPEATED)
			page->repeated_bytes = page_count(thrift, &field);
		else if (field.id == DATA_2_COMPRESSED)
			page->compressed = thrift_bool(thrift, &field);
		else
			thrift_skip(thrift, &field);
	}
}

int page_read(struct window *window, uint64_t at, uint64_t end, const char *what, struct page *ret,
	struct fault *fault)
{
	struct thrift thrift;
	struct thrift_field field = {0};
	struct page page = {.header = at, .type = UINT8_MAX};
	int part = 0;
	thrift_init(&thrift, window, at, end, what, fault);
	while (thrift_next(&thrift, &field)) {
		if (field.id == HEADER_TYPE) {
			page.type = page_number(&thrift, &field);
		} else if (field.id == HEADER_WHOLE) {
			page.whole = page_count(&thrift, &field);
		} else if (field.id == HEADER_STORED) {
			page.stored = page_count(&thrift, &field);
		} else if (field.id == HEADER_DATA_2 && thrift_struct(&thrift, &field)) {
			data_2_read(&thrift, &page);
			part = field.id;
		} else if ((field.id == HEADER_DATA || field.id == HEADER_DICTIONARY) &&
			   thrift_struct(&thrift, &field)) {
			data_read(&thrift, &page);
			part = field.id;
		} else {
			thrift_skip(&thrift, &field);
		}
	}
	static const int parts[] = {
		[PAGE_DATA] = HEADER_DATA,
		[PAGE_INDEX] = 0,
		[PAGE_DICTIONARY] = HEADER_DICTIONARY,
		[PAGE_DATA_2] = HEADER_DATA_2,
	};
	if (!thrift.error && (page.type >= UTIL_COUNT(parts) ||
				     (page.type != PAGE_INDEX && parts[page.type] != part)))
		(void)thrift_damaged(&thrift, "it is of no type that exists");
	page.data = thrift.at;
	if (!thrift.error && page.stored > end - page.data)
		(void)thrift_damaged(&thrift, "the page ends beyond the chunk of its column");
	const uint64_t levels = (uint64_t)page.definition_bytes + page.repeated_bytes;
	if (!thrift.error && (levels > page.stored || levels > page.whole))
		(void)thrift_damaged(&thrift, "its levels are longer than the page");
	if (!thrift.error)
		*ret = page;
	return thrift.error;
}

const char *page_encoding_name(uint8_t encoding)
{
	static const char *const names[] = {"PLAIN", "1", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED",
		"DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
		"RLE_DICTIONARY", "BYTE_STREAM_SPLIT"};
	return encoding < UTIL_COUNT(names) ? names[encoding] : "an unknown encoding";
}
