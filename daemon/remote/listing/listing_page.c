/* listing_page: see listing_page.h. An answer is read twice: whether its keys are encoded and
 * whether it is the last one may be said after the keys. */
#include "remote/listing/listing_page.h"

#include "base/util.h"
#include "remote/xml.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

struct page {
	listing_take_fn *take; /* NULL: the first time */
	void *context;
	struct fault *fault;
	char *next;
	bool encoded, truncated, known;
	uint64_t count;
	char key[XML_TEXT_MAX], etag[256];
	uint64_t size;
	bool has_key, has_size;
};

static int hex(char c)
{
	if (isdigit((unsigned char)c))
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %41 and, as S3 encodes a blank, "+". */
static int decode(const char *from, char *to)
{
	for (; *from; from++) {
		char c = *from == '+' ? ' ' : *from;
		if (c == '%') {
			int high = hex(from[1]), low = high < 0 ? -1 : hex(from[2]);
			if (low < 0 || (!high && !low))
				return -EPROTO;
			c = (char)(high * 16 + low);
			from += 2;
		}
		*to++ = c;
	}
	*to = 0;
	return 0;
}

static int number(const char *text, uint64_t *ret)
{
	uint64_t value = 0;
	if (!*text)
		return -EPROTO;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text) || value > (INT64_MAX - 9) / 10)
			return -EPROTO;
		value = value * 10 + (uint64_t)(*text - '0');
	}
	*ret = value;
	return 0;
}

static int lies(const struct page *page, const char *what)
{
	return fault_set(page->fault, -EPROTO, "the server's listing has %s", what);
}

static int take_key(struct page *page, const char *text)
{
	/* An XML text of XML_TEXT_MAX bytes fits, decoded too. */
	if (page->encoded) {
		if (decode(text, page->key) < 0)
			return lies(page, "a key that is not encoded rightly");
	} else {
		(void)snprintf(page->key, sizeof page->key, "%s", text);
	}
	page->has_key = true;
	return page->key[0] ? 0 : lies(page, "an object without a key");
}

static int take_object(struct page *page, bool folder)
{
	const struct listing_object object = {
		.key = page->key, .folder = folder, .size = page->size, .etag = page->etag};
	if (!page->has_key || (!folder && !page->has_size))
		return lies(page, "an object without a key or a size");
	int rc = page->take(page->context, &object, page->fault);
	page->count++;
	page->has_key = page->has_size = false;
	page->etag[0] = 0;
	page->size = 0;
	return rc;
}

/* The first time: what the whole answer says. */
static int on_head(struct page *page, const char *name, const char *text)
{
	if (!strcmp(name, "EncodingType"))
		page->encoded = !strcmp(text, "url");
	else if (!strcmp(name, "IsTruncated"))
		page->truncated = !strcmp(text, "true");
	else if (!strcmp(name, "NextContinuationToken")) {
		if (strlen(text) >= LISTING_NEXT)
			return lies(page, "a continuation that is too long");
		(void)snprintf(page->next, LISTING_NEXT, "%s", text);
	}
	return 0;
}

static int on_body(struct page *page, const char *name, const char *text)
{
	if (!strcmp(name, "Contents/Key") || !strcmp(name, "CommonPrefixes/Prefix"))
		return take_key(page, text);
	if (!strcmp(name, "Contents/Size")) {
		page->has_size = true;
		return number(text, &page->size) < 0 ? lies(page, "a size that is not a number")
						     : 0;
	}
	if (!strcmp(name, "Contents/ETag"))
		(void)snprintf(page->etag, sizeof page->etag, "%s",
			strlen(text) < sizeof page->etag ? text : "");
	if (!strcmp(name, "Contents"))
		return take_object(page, false);
	return !strcmp(name, "CommonPrefixes") ? take_object(page, true) : 0;
}

static int on_element(void *context, const char *path, const char *text)
{
	static const char root[] = "ListBucketResult";
	struct page *page = context;
	size_t size = sizeof root - 1;
	if (strncmp(path, root, size) != 0 || (path[size] && path[size] != '/'))
		return -EPROTO;
	page->known = true;
	const char *name = path + size + (path[size] == '/');
	return page->take ? on_body(page, name, text) : on_head(page, name, text);
}

int listing_page_read(const char *bytes, size_t size, listing_take_fn *take, void *context,
	char ret_next[LISTING_NEXT], uint64_t *ret_count, struct fault *fault)
{
	struct page *page = calloc(1, sizeof *page);
	struct fault why = {{0}};
	if (!page)
		return fault_set(fault, -ENOMEM, "no memory for a listing");
	page->context = context;
	page->fault = &why;
	page->next = ret_next;
	ret_next[0] = 0;
	int rc = xml_read(bytes, size, on_element, page, &why);
	if (rc == 0) {
		page->take = take;
		rc = xml_read(bytes, size, on_element, page, &why);
	}
	if (rc == 0 && page->truncated && !ret_next[0])
		rc = lies(page, "more pages, but no continuation");
	if (!page->truncated)
		ret_next[0] = 0;
	*ret_count = page->count;
	free(page);
	if (rc < 0 && !why.text[0])
		return fault_set(
			fault, rc, "the server's answer is not a listing (ListBucketResult)");
	return rc < 0 ? fault_set(fault, rc, "%s", why.text) : rc;
}
