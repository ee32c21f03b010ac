/* listing: pages of stores that are honest, and of stores that are not; globs; class folders in
 * ImageFolder's order; a million keys in constant memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "remote/listing/listing.h"
#include "remote/listing/listing_hub.h"
#include "remote/listing/listing_sort.h"

#include <errno.h>
#include <string.h>

enum { KEYS_MOST = 64, PAGE = 3 };

/* A store: keys, and how it lies. */
struct store {
	const char *const *keys; /* ends with NULL */
	const char *page; /* instead of a listing; NULL: none */
	uint64_t many; /* keys made up, instead of `keys` */
	int lie; /* a LIE_... */
	unsigned asked;
	char first[512]; /* the first URL */
};

enum { LIE_NONE, LIE_CIRCLE, LIE_SAME, LIE_EMPTY, LIE_PREFIX, LIE_TWICE, LIE_NO_NEXT, LIE_LONG };

static struct remote_url parsed(const char *text)
{
	struct remote_url url;
	struct fault fault = {{0}};
	if (remote_url_parse(text, &url, &fault) != 0)
		fail_msg("%s: %s", text, fault.text);
	return url;
}

/* The value of a parameter, decoded. */
static void parameter(const char *url, const char *name, char *ret, size_t room)
{
	char find[64];
	size_t used = 0;
	(void)snprintf(find, sizeof find, "&%s=", name);
	const char *at = strstr(url, find);
	for (at = at ? at + strlen(find) : ""; *at && *at != '&' && used + 1 < room; at++) {
		unsigned byte = (unsigned char)*at;
		if (*at == '%') {
			assert_int_equal(sscanf(at + 1, "%2x", &byte), 1);
			at += 2;
		}
		ret[used++] = (char)byte;
	}
	ret[used] = 0;
}

/* Answers as S3 does: keys in order, PAGE at once, folders folded. */
static size_t answer(struct store *store, const char *url, char *to, size_t room)
{
	char prefix[512], delimiter[8], token[64];
	size_t used = 0, given = 0, i = 0;
	parameter(url, "prefix", prefix, sizeof prefix);
	parameter(url, "delimiter", delimiter, sizeof delimiter);
	parameter(url, "continuation-token", token, sizeof token);
	if (token[0])
		i = strtoul(token + 1, NULL, 10);
	used += (size_t)snprintf(to + used, room - used,
		"<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"http://s3\">");
	for (; store->keys[i] && given < PAGE; i++) {
		const char *key = store->keys[i];
		char encoded[1024], folder[512];
		if (strncmp(key, prefix, strlen(prefix)) != 0 && store->lie != LIE_PREFIX)
			continue;
		const char *slash = delimiter[0] ? strchr(key + strlen(prefix), '/') : NULL;
		(void)snprintf(
			folder, sizeof folder, "%.*s", slash ? (int)(slash + 1 - key) : 0, key);
		while (slash && store->keys[i + 1] &&
			!strncmp(store->keys[i + 1], folder, strlen(folder)))
			i++;
		(void)remote_encode(slash ? folder : key, true, encoded, sizeof encoded);
		used += (size_t)snprintf(to + used, room - used,
			slash ? "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>"
			      : "<Contents><Key>%s</Key><Size>%zu</Size>"
				"<ETag>&quot;e%zu&quot;</ETag></Contents>",
			encoded, i + 100, i);
		given++;
	}
	bool more = store->keys[i] != NULL;
	used += (size_t)snprintf(to + used, room - used,
		"<EncodingType>url</EncodingType><IsTruncated>%s</IsTruncated>",
		more ? "true" : "false");
	if (more && store->lie != LIE_NO_NEXT)
		used += (size_t)snprintf(to + used, room - used,
			"<NextContinuationToken>t%zu</NextContinuationToken>", i);
	return used + (size_t)snprintf(to + used, room - used, "</ListBucketResult>");
}

/* Pages of long keys, for globs and for class folders. */
static size_t answer_long(const char *url, char *to, size_t room)
{
	static char filler[1985];
	static uint64_t made;
	const char *rest = strstr(url, "delimiter") ? "" : "/x";
	size_t used = (size_t)snprintf(to, room, "<ListBucketResult>");
	memset(filler, 'a', sizeof filler - 1);
	for (unsigned i = 0; i < 3000; i++, made++)
		used += (size_t)snprintf(to + used, room - used,
			"<Contents><Key>p/%llu%s%s</Key><Size>1</Size></Contents>",
			(unsigned long long)made, filler, rest);
	return used + (size_t)snprintf(to + used, room - used,
			      "<IsTruncated>true</IsTruncated><NextContinuationToken>%llu"
			      "</NextContinuationToken></ListBucketResult>",
			      (unsigned long long)made);
}

/* Answers of a store without an end, or with so many keys that a page must not be kept. */
static size_t answer_made(struct store *store, const char *url, char *to, size_t room)
{
	char token[64];
	size_t used = (size_t)snprintf(to, room, "<ListBucketResult>");
	parameter(url, "continuation-token", token, sizeof token);
	uint64_t from = token[0] ? strtoull(token, NULL, 10) : 0, i = from;
	for (; store->lie != LIE_EMPTY && i < from + 1000 && (!store->many || i < store->many); i++)
		used += (size_t)snprintf(to + used, room - used,
			"<Contents><Key>p/c%llu/%llu.jpg</Key><Size>%llu</Size></Contents>",
			(unsigned long long)(i * 7919 % 100), (unsigned long long)i,
			(unsigned long long)i);
	uint64_t next = store->lie == LIE_CIRCLE  ? 1000 + i % 17000
			: store->lie == LIE_SAME  ? 1000
			: store->lie == LIE_EMPTY ? from + 1
						  : i;
	bool more = !store->many || i < store->many;
	return used + (size_t)snprintf(to + used, room - used,
			      "<IsTruncated>%s</IsTruncated><NextContinuationToken>%llu"
			      "</NextContinuationToken></ListBucketResult>",
			      more ? "true" : "false", (unsigned long long)next);
}

static int fetch(void *context, const char *url, char *buffer, size_t room, size_t *ret_size,
	char *ret_link, struct fault *fault)
{
	struct store *store = context;
	(void)ret_link;
	if (!store->asked++)
		(void)snprintf(store->first, sizeof store->first, "%s", url);
	if (store->page)
		*ret_size = (size_t)snprintf(buffer, room, "%s", store->page);
	else if (store->keys)
		*ret_size = answer(store, url, buffer, room);
	else if (store->lie == LIE_LONG)
		*ret_size = answer_long(url, buffer, room);
	else
		*ret_size = answer_made(store, url, buffer, room);
	assert_true(*ret_size < room);
	return 0;
}

struct got {
	char keys[KEYS_MOST][128];
	unsigned count;
};

static int take(void *context, const struct listing_object *object, struct fault *fault)
{
	struct got *got = context;
	assert_true(got->count < KEYS_MOST);
	(void)snprintf(got->keys[got->count++], sizeof got->keys[0], "%s", object->key);
	if (!object->folder) {
		assert_true(object->size >= 100);
		assert_int_equal(object->etag[0], '"');
	}
	return 0;
}

static int take_none(void *context, const struct listing_object *object, struct fault *fault)
{
	++*(uint64_t *)context;
	return 0;
}

static const char *const keys[] = {"a b+c%/1.jpg", "data/.hidden/x.tar", "data/a-1/x.tar",
	"data/a/1.tar", "data/a/2.tar", "data/a/sub/3.tar", "data/b/1.tar", "data/b/[1].tar",
	"data/x.idx", "data/x.tar", "data2/x.tar", NULL};

static const char *const four[] = {"p/1", "p/2", "p/3", "p/4", NULL};

static void lists_pages(void **state)
{
	struct store store = {.keys = keys};
	const struct listing_source source = {fetch, &store, NULL};
	struct got got = {.count = 0};
	struct fault fault = {{0}};
	struct remote_url url = parsed("s3://bucket/data/");
	assert_int_equal(listing_objects(&source, &url, false, take, &got, &fault), 0);
	assert_int_equal(got.count, 9);
	assert_string_equal(got.keys[0], "data/.hidden/x.tar");
	assert_string_equal(got.keys[8], "data/x.tar");
	assert_int_equal(store.asked, 4);
	assert_string_equal(store.first, "s3://bucket/\x01list-type=2&encoding-type=url&max-keys="
					 "1000&prefix=data%2F");
	got.count = 0;
	assert_int_equal(listing_objects(&source, &url, true, take, &got, &fault), 0);
	assert_int_equal(got.count, 6);
	assert_string_equal(got.keys[1], "data/a-1/");
	got.count = 0;
	url = parsed("gs://bucket");
	assert_int_equal(listing_objects(&source, &url, false, take, &got, &fault), 0);
	assert_int_equal(got.count, 11);
	assert_string_equal(got.keys[0], "a b+c%/1.jpg");
}

static void matches_globs(void **state)
{
	static const struct {
		const char *url;
		const char *expected;
	} cases[] = {
		{"s3://bucket/data/*.tar", "data/x.tar "},
		{"s3://bucket/data/*/1.tar", "data/a/1.tar data/b/1.tar "},
		{"s3://bucket/data/?/*.tar",
			"data/a/1.tar data/a/2.tar data/b/1.tar data/b/[1].tar "},
		{"s3://bucket/data/[!a]/[0-9].tar", "data/b/1.tar "},
		{"s3://bucket/data/b/\\[1].tar", "data/b/[1].tar "},
		{"s3://bucket/data/b/[[]1].tar", "data/b/[1].tar "},
		{"s3://bucket/*/x.tar", "data/x.tar data2/x.tar "},
		{"s3://bucket/*/*/*/*.tar", "data/a/sub/3.tar "},
		{"s3://bucket/data/.h*/x.tar", "data/.hidden/x.tar "},
		{"s3://bucket/no*", ""},
		{"s3://bucket/a b+c%/?.jpg", "a b+c%/1.jpg "},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct store store = {.keys = keys};
		const struct listing_source source = {fetch, &store, NULL};
		static struct got got;
		char all[1024] = "";
		struct fault fault = {{0}};
		const struct remote_url url = parsed(cases[i].url);
		got.count = 0;
		assert_int_equal(listing_glob(&source, &url, take, &got, &fault), 0);
		for (unsigned k = 0; k < got.count; k++) {
			(void)strcat(all, got.keys[k]);
			(void)strcat(all, " ");
		}
		assert_string_equal(all, cases[i].expected);
	}
	assert_true(listing_is_glob("a/*") && listing_is_glob("a?") && listing_is_glob("[a]"));
	assert_false(listing_is_glob("a/{0..3}.tar"));
}

static void refuses(void **state)
{
	static const struct {
		struct store store;
		const char *part;
		int rc;
	} cases[] = {
		{{.lie = LIE_CIRCLE}, "goes in a circle", -EPROTO},
		{{.lie = LIE_SAME}, "goes in a circle", -EPROTO},
		{{.lie = LIE_EMPTY}, "does not end", -EPROTO},
		{{.keys = keys, .lie = LIE_PREFIX}, "does not begin with what was asked", -EPROTO},
		{{.keys = four, .lie = LIE_NO_NEXT}, "no continuation", -EPROTO},
		{{.page = "<html><body>Sign in</body></html>"}, "not a listing", -EPROTO},
		{{.page = "<html><br></html>"}, "not the XML that was expected: line 1", -EINVAL},
		{{.page = ""}, "not the XML that was expected", -EINVAL},
		{{.page = "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><ListBucketResult/>"},
			"document type", -EINVAL},
		{{.page = "<ListBucketResult><Contents><Key>p/a</Key></Contents>"
			  "</ListBucketResult>"},
			"without a key or a size", -EPROTO},
		{{.page = "<ListBucketResult><Contents><Key>p/a</Key><Size>-1</Size></Contents>"
			  "</ListBucketResult>"},
			"a size that is not a number", -EPROTO},
		{{.page = "<ListBucketResult><Contents><Key></Key><Size>1</Size></Contents>"
			  "</ListBucketResult>"},
			"an object without a key", -EPROTO},
		{{.page = "<ListBucketResult><EncodingType>url</EncodingType><Contents>"
			  "<Key>p/%4</Key><Size>1</Size></Contents></ListBucketResult>"},
			"not encoded rightly", -EPROTO},
		{{.page = "<ListBucketResult><Contents><Key>p/a</Key><Size>99999999999999999999"
			  "</Size></Contents></ListBucketResult>"},
			"a size that is not a number", -EPROTO},
		{{.page = "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>"}, "nested too deep",
			-EINVAL},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct store store = cases[i].store;
		const struct listing_source source = {fetch, &store, NULL};
		struct fault fault = {{0}};
		uint64_t count = 0;
		const struct remote_url url = parsed("s3://bucket/p/");
		int rc = listing_objects(&source, &url, false, take_none, &count, &fault);
		if (rc != cases[i].rc)
			fail_msg("%s: %d", cases[i].part, rc);
		if (!strstr(fault.text, cases[i].part) || !strstr(fault.text, "s3://bucket/p/"))
			fail_msg("\"%s\" does not say \"%s\"", fault.text, cases[i].part);
		assert_true(store.asked < 2 * LISTING_EMPTY_MAX);
	}
	const struct listing_source none = {NULL, NULL, NULL};
	const struct remote_url web = parsed("https://u:s3cr3t@host/data/");
	struct fault fault = {{0}};
	assert_int_equal(listing_objects(&none, &web, false, take_none, NULL, &fault), -ENOTSUP);
	assert_non_null(strstr(fault.text, "a web server does not list its files"));
	assert_null(strstr(fault.text, "s3cr3t"));
}

static bool wanted(void *context, const char *name)
{
	size_t size = strlen(name);
	return size > 4 && !strcmp(name + size - 4, ".jpg");
}

struct seen {
	uint64_t count, classes;
	size_t used;
	char text[2048], last[128];
	bool natural, kept;
};

static int on_classes(void *context, const char *const *names, size_t count, struct fault *fault)
{
	struct seen *seen = context;
	assert_int_equal(seen->count, 0);
	seen->classes = count;
	for (size_t i = 0; i < count && seen->kept; i++)
		seen->used += (size_t)snprintf(
			seen->text + seen->used, sizeof seen->text - seen->used, "%s,", names[i]);
	return 0;
}

static int on_object(
	void *context, const char *name, uint64_t size, const char *etag, struct fault *fault)
{
	struct seen *seen = context;
	if (seen->count++)
		assert_true(listing_sort_order(seen->last, name, seen->natural) < 0);
	(void)snprintf(seen->last, sizeof seen->last, "%s", name);
	if (seen->kept)
		seen->used += (size_t)snprintf(
			seen->text + seen->used, sizeof seen->text - seen->used, " %s", name);
	return 0;
}

static int list_folder(struct store *store, bool natural, struct seen *seen, struct fault *fault)
{
	const struct listing_source source = {fetch, store, NULL};
	const struct remote_url url = parsed("s3://bucket/p");
	const struct listing_folder_sink sink = {
		wanted, on_classes, on_object, seen, natural, NULL};
	seen->natural = natural;
	return listing_folder(&source, &url, &sink, fault);
}

/* The order is that of folder_walk: files of the root, then class by class; in a class the folders
 * by their paths. The store's order is another: "p/c/" is before "p/c-d/" and after "p/c.jpg". */
static void sorts_class_folders(void **state)
{
	static const char *const mixed[] = {"p/", "p/10/x.jpg", "p/9/y.jpg", "p/9/x.jpg",
		"p/9/sub/z.jpg", "p/9/sub-a/z.jpg", "p/9/sub/", "p/empty/", "p/text/x.txt",
		"p/top.jpg", "p/9/s.jpg", NULL};
	struct store store = {.keys = mixed};
	struct seen seen = {.kept = true};
	struct fault fault = {{0}};
	assert_int_equal(list_folder(&store, false, &seen, &fault), 0);
	assert_string_equal(seen.text, "10,9, top.jpg 10/x.jpg 9/s.jpg 9/x.jpg 9/y.jpg 9/sub/z.jpg "
				       "9/sub-a/z.jpg");
	seen = (struct seen){.kept = true};
	assert_int_equal(list_folder(&store, true, &seen, &fault), 0);
	assert_non_null(strstr(seen.text, "9,10, top.jpg 9/s.jpg"));
}

static void refuses_objects_that_are_listed_twice(void **state)
{
	static const char *const twice[] = {"p/a/x.jpg", "p/b/x.jpg", "p/a/x.jpg", NULL};
	struct store store = {.keys = twice};
	struct seen seen = {.kept = false};
	struct fault fault = {{0}};
	assert_int_equal(list_folder(&store, false, &seen, &fault), -EPROTO);
	assert_non_null(strstr(fault.text, "an object twice"));
}

/* A listing, and its sorting through a file, take the memory of a page and a run: 34 MiB for a
 * million keys (scripts/nightly's environment), as for 100,000. */
static void lists_a_million_keys(void **state)
{
	const uint64_t many = getenv("PENSTOCK_TEST_NIGHTLY") ? 1000000 : 100000;
	struct store store = {.many = many};
	struct seen seen = {.kept = false};
	struct fault fault = {{0}};
	int rc = list_folder(&store, true, &seen, &fault);
	if (rc)
		fail_msg("%s", fault.text);
	assert_int_equal(seen.count, many);
	assert_int_equal(seen.classes, 100);
	assert_int_equal(store.asked, many / 1000);
}

static int in_order(
	void *context, const char *name, uint64_t size, const char *etag, struct fault *fault)
{
	char expected[32];
	uint64_t *count = context;
	(void)snprintf(expected, sizeof expected, "c/%05llu", (unsigned long long)(*count)++);
	assert_string_equal(name, expected);
	assert_int_equal(size, *count - 1);
	assert_string_equal(etag, "\"e\"");
	return 0;
}

/* Runs of a few names each: many are merged. */
static void merges_runs(void **state)
{
	struct listing_sort *sort = listing_sort_new(false, 4096, NULL);
	struct fault fault = {{0}};
	uint64_t count = 0;
	assert_non_null(sort);
	for (uint64_t i = 0; i < 20011; i++) {
		char name[32];
		uint64_t value = i * 7919 % 20011;
		(void)snprintf(name, sizeof name, "c/%05llu", (unsigned long long)value);
		assert_int_equal(listing_sort_add(sort, name, value, "\"e\"", &fault), 0);
	}
	assert_int_equal(listing_sort_give(sort, in_order, &count, &fault), 0);
	assert_int_equal(count, 20011);
	listing_sort_free(sort);
}

static void reads_the_hub(void **state)
{
	static const char page[] =
		"[{\"type\":\"directory\",\"oid\":\"1\",\"size\":0,\"path\":\"data\"},"
		"{\"type\":\"file\",\"oid\":\"2\",\"size\":102,\"path\":\"data/a b.tar\","
		"\"lfs\":{\"oid\":\"sha\",\"size\":102}}]";
	struct store store = {.page = page};
	const struct listing_source source = {fetch, &store, "https://hub"};
	struct got got = {.count = 0};
	struct fault fault = {{0}};
	const struct remote_url url = parsed("hf://datasets/org/name@refs%2Fpr%2F1/data/a");
	assert_int_equal(listing_objects(&source, &url, false, take, &got, &fault), 0);
	assert_int_equal(got.count, 1);
	assert_string_equal(got.keys[0], "data/a b.tar");
	assert_string_equal(store.first, "https://hub/api/datasets/org/name/tree/refs%2Fpr%2F1/data"
					 "?recursive=true&limit=1000");
	static const char *const wrong[] = {"{}", "[{}]", "<html>", "[1",
		"[{\"type\":\"file\",\"path\":\"data/a\",\"size\":-1}]",
		"[{\"type\":\"file\",\"path\":\"data/a\"}]", "[{\"type\":\"file\",\"size\":1}]"};
	for (size_t i = 0; i < UTIL_COUNT(wrong); i++) {
		store.page = wrong[i];
		assert_int_equal(
			listing_objects(&source, &url, false, take, &got, &fault), -EPROTO);
		assert_non_null(strstr(fault.text, "the Hub's"));
	}
}

static void follows_the_hub(void **state)
{
	static const struct {
		const char *link, *next;
		int rc;
	} cases[] = {
		{"", "", 0},
		{"<https://hub/api?cursor=x>; rel=\"next\"", "https://hub/api?cursor=x", 0},
		{"<https://hub/a>; rel=\"prev\", <https://hub/b>; rel=\"next\"", "https://hub/b",
			0},
		{"<https://hub/a>; rel=\"first\"", "", 0},
		{"<https://evil/a>; rel=\"next\"", "", -EPROTO},
		{"<https://hub.evil/a>; rel=\"next\"", "", -EPROTO},
		{"<https://hub", "", 0},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		char next[LISTING_NEXT];
		struct fault fault = {{0}};
		assert_int_equal(
			listing_hub_next(cases[i].link, "https://hub", next, &fault), cases[i].rc);
		if (!cases[i].rc)
			assert_string_equal(next, cases[i].next);
		/* HF_ENDPOINT may end in a slash. */
		assert_int_equal(listing_hub_next(cases[i].link, "https://hub//", next, &fault),
			cases[i].rc);
	}
	struct store store = {.page = "[]"};
	const struct listing_source source = {fetch, &store, "https://hub/"};
	struct got got = {.count = 0};
	struct fault fault = {{0}};
	const struct remote_url url = parsed("hf://datasets/org/name/a");
	assert_int_equal(listing_objects(&source, &url, false, take, &got, &fault), 0);
	assert_string_equal(store.first,
		"https://hub/api/datasets/org/name/tree/main?recursive=true&limit=1000");
}

static bool wants_all(void *context, const char *name)
{
	return true;
}

/* Few bytes that would become much memory. */
static void bounds_memory(void **state)
{
	struct store store = {.many = UINT64_MAX, .lie = LIE_LONG};
	const struct listing_source source = {fetch, &store, "https://hub"};
	struct got got = {.count = 0};
	struct fault fault = {{0}};
	struct remote_url url = parsed("s3://bucket/p/*");
	uint64_t count = 0;
	assert_int_equal(listing_glob(&source, &url, take_none, &count, &fault), -E2BIG);
	assert_non_null(strstr(fault.text, "the names that match have more than 67108864 bytes"));
	url = parsed("s3://bucket/p");
	const struct listing_folder_sink sink = {.wanted = wants_all};
	store.asked = 0;
	assert_int_equal(listing_folder(&source, &url, &sink, &fault), -E2BIG);
	assert_non_null(strstr(fault.text, "class folders have more than 33554432 bytes"));
	enum { PARTS = 200001 };
	char *page = malloc(PARTS * 3 + 2);
	assert_non_null(page);
	page[0] = '[';
	for (size_t i = 0; i < PARTS; i++)
		memcpy(page + 1 + 3 * i, "{},", 3);
	memcpy(page + 3 * PARTS, "]", 2);
	store = (struct store){.page = page};
	url = parsed("hf://datasets/org/name");
	assert_int_equal(listing_objects(&source, &url, false, take, &got, &fault), -EPROTO);
	assert_non_null(strstr(fault.text, "not a listing"));
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_pages),
		cmocka_unit_test(matches_globs),
		cmocka_unit_test(refuses),
		cmocka_unit_test(sorts_class_folders),
		cmocka_unit_test(refuses_objects_that_are_listed_twice),
		cmocka_unit_test(lists_a_million_keys),
		cmocka_unit_test(merges_runs),
		cmocka_unit_test(reads_the_hub),
		cmocka_unit_test(follows_the_hub),
		cmocka_unit_test(bounds_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
