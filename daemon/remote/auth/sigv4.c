/* sigv4: see sigv4.h. */
#include "remote/auth/sigv4.h"

#include "base/util.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <time.h>

enum { SIGV4_PIECES = 128, SIGV4_SECRET = 1024, SIGV4_CANONICAL = 32768 };

static void to_hex(const uint8_t *bytes, size_t size, char *to)
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < size; i++) {
		*to++ = digits[bytes[i] >> 4];
		*to++ = digits[bytes[i] & 15];
	}
	*to = 0;
}

static int mac(const void *key, size_t key_size, const char *text, uint8_t ret[SIGV4_KEY])
{
	unsigned size = SIGV4_KEY;
	return HMAC(EVP_sha256(), key, (int)key_size, (const uint8_t *)text, strlen(text), ret,
		       &size)
		       ? 0
		       : -EIO;
}

int sigv4_hash(const void *bytes, size_t size, char ret[SIGV4_HASH])
{
	uint8_t hash[SIGV4_KEY];
	unsigned used = 0;
	if (EVP_Digest(bytes, size, hash, &used, EVP_sha256(), NULL) != 1 || used != sizeof hash)
		return -EIO;
	to_hex(hash, sizeof hash, ret);
	return 0;
}

static void date_of(int64_t time, char ret[SIGV4_DATE])
{
	time_t seconds = (time_t)time;
	struct tm tm = {0};
	(void)gmtime_r(&seconds, &tm);
	if (!strftime(ret, SIGV4_DATE, "%Y%m%dT%H%M%SZ", &tm))
		ret[0] = 0;
}

int sigv4_scope_make(const char *secret, const char *region, const char *service, int64_t time,
	struct sigv4_scope *ret)
{
	char text[SIGV4_SECRET], date[SIGV4_DATE];
	struct sigv4_scope scope = {.day = ""};
	date_of(time, date);
	memcpy(scope.day, date, 8);
	if (strlen(secret) > sizeof text - 5 || strlen(region) >= sizeof scope.region ||
		strlen(service) >= sizeof scope.service)
		return -ENAMETOOLONG;
	int size = snprintf(text, sizeof text, "AWS4%s", secret);
	memcpy(scope.region, region, strlen(region) + 1);
	memcpy(scope.service, service, strlen(service) + 1);
	int rc = mac(text, (size_t)size, scope.day, scope.key);
	const char *const parts[] = {scope.region, scope.service, "aws4_request"};
	for (size_t i = 0; rc == 0 && i < UTIL_COUNT(parts); i++) {
		uint8_t next[SIGV4_KEY];
		rc = mac(scope.key, sizeof scope.key, parts[i], next);
		memcpy(scope.key, next, sizeof next);
		OPENSSL_cleanse(next, sizeof next);
	}
	OPENSSL_cleanse(text, sizeof text);
	if (rc == 0)
		*ret = scope;
	OPENSSL_cleanse(&scope, sizeof scope);
	return rc;
}

/* Text that grows in fixed room; `full` once it did not fit. */
struct canonical {
	char *text;
	size_t used;
	int full;
};

static void add_size(struct canonical *to, const char *from, size_t size)
{
	if (to->full || size >= SIGV4_CANONICAL - to->used) {
		to->full = 1;
		return;
	}
	memcpy(to->text + to->used, from, size);
	to->used += size;
	to->text[to->used] = 0;
}

static void add(struct canonical *to, const char *from)
{
	add_size(to, from, strlen(from));
}

/* One "name=value" of a query. */
struct piece {
	const char *text;
	size_t size, name; /* bytes; bytes of the name */
};

static int piece_compare(const void *left, const void *right)
{
	const struct piece *a = left, *b = right;
	int order = memcmp(a->text, b->text, UTIL_MIN(a->name, b->name));
	if (!order && a->name != b->name)
		return a->name < b->name ? -1 : 1;
	if (!order)
		order = memcmp(a->text, b->text, UTIL_MIN(a->size, b->size));
	return order ? order : (a->size > b->size) - (a->size < b->size);
}

/* The query, its parameters in order, each with an equals sign. */
static int add_query(struct canonical *to, const char *query)
{
	struct piece pieces[SIGV4_PIECES];
	size_t count = 0;
	while (query && *query) {
		size_t size = strcspn(query, "&");
		if (count == SIGV4_PIECES)
			return -E2BIG;
		if (size)
			pieces[count++] =
				(struct piece){query, size, UTIL_MIN(strcspn(query, "="), size)};
		query += size + (query[size] == '&');
	}
	if (count)
		qsort(pieces, count, sizeof pieces[0], piece_compare);
	for (size_t i = 0; i < count; i++) {
		add(to, i ? "&" : "");
		add_size(to, pieces[i].text, pieces[i].size);
		add(to, pieces[i].name == pieces[i].size ? "=" : "");
	}
	return 0;
}

static int header_compare(const void *left, const void *right)
{
	const struct sigv4_header *a = left, *b = right;
	return strcmp(a->name, b->name);
}

/* The signed headers in the order of their names. */
static int headers_of(const struct sigv4_request *request, const char *date,
	struct sigv4_header ret[SIGV4_HEADERS + 4], size_t *ret_count)
{
	size_t count = 0;
	if (request->header_count > SIGV4_HEADERS)
		return -E2BIG;
	ret[count++] = (struct sigv4_header){"host", request->host};
	ret[count++] = (struct sigv4_header){"x-amz-content-sha256", request->payload};
	ret[count++] = (struct sigv4_header){"x-amz-date", date};
	if (request->token && request->token[0])
		ret[count++] = (struct sigv4_header){"x-amz-security-token", request->token};
	for (size_t i = 0; i < request->header_count; i++)
		ret[count++] = request->headers[i];
	qsort(ret, count, sizeof ret[0], header_compare);
	*ret_count = count;
	return 0;
}

static void add_names(struct canonical *to, const struct sigv4_header *headers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		add(to, i ? ";" : "");
		add(to, headers[i].name);
	}
}

/* "Canonical request": method, path, query, headers, names of headers, hash of the body. */
static int canonical_make(struct canonical *to, const struct sigv4_request *request,
	const struct sigv4_header *headers, size_t count)
{
	add(to, request->method);
	add(to, "\n");
	add(to, request->path);
	add(to, "\n");
	int rc = add_query(to, request->query);
	add(to, "\n");
	for (size_t i = 0; i < count; i++) {
		add(to, headers[i].name);
		add(to, ":");
		add(to, headers[i].value);
		add(to, "\n");
	}
	add(to, "\n");
	add_names(to, headers, count);
	add(to, "\n");
	add(to, request->payload);
	return rc < 0 ? rc : to->full ? -ENAMETOOLONG : 0;
}

/* The signature of the string to sign, in hexadecimal. */
static int signature_of(const struct sigv4_scope *scope, const struct canonical *canonical,
	const char *date, char ret[SIGV4_HASH])
{
	char text[256], hash[SIGV4_HASH];
	uint8_t signature[SIGV4_KEY];
	int rc = sigv4_hash(canonical->text, canonical->used, hash);
	if (rc < 0)
		return rc;
	(void)snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s/%s/%s/aws4_request\n%s", date,
		scope->day, scope->region, scope->service, hash);
	rc = mac(scope->key, sizeof scope->key, text, signature);
	if (rc == 0)
		to_hex(signature, sizeof signature, ret);
	return rc;
}

static int authorization_make(const struct sigv4_scope *scope, const char *id,
	const struct sigv4_header *headers, size_t count, const char *signature,
	struct canonical *scratch, char ret[SIGV4_AUTHORIZATION])
{
	*scratch = (struct canonical){.text = scratch->text};
	add_names(scratch, headers, count);
	int size = snprintf(ret, SIGV4_AUTHORIZATION,
		"AWS4-HMAC-SHA256 Credential=%s/%s/%s/%s/aws4_request, SignedHeaders=%s, "
		"Signature=%s",
		id, scope->day, scope->region, scope->service, scratch->text, signature);
	return size < 0 || size >= SIGV4_AUTHORIZATION ? -ENAMETOOLONG : 0;
}

int sigv4_sign(const struct sigv4_scope *scope, const char *id, const struct sigv4_request *request,
	struct sigv4_signed *ret)
{
	struct sigv4_header headers[SIGV4_HEADERS + 4];
	struct sigv4_signed made = {.date = ""};
	char signature[SIGV4_HASH];
	size_t count = 0;
	date_of(request->time, made.date);
	if (strncmp(made.date, scope->day, 8) != 0)
		return -EINVAL;
	int rc = headers_of(request, made.date, headers, &count);
	if (rc < 0)
		return rc;
	struct canonical canonical = {.text = malloc(SIGV4_CANONICAL)};
	if (!canonical.text)
		return -ENOMEM;
	rc = canonical_make(&canonical, request, headers, count);
	if (rc == 0)
		rc = signature_of(scope, &canonical, made.date, signature);
	if (rc == 0)
		rc = authorization_make(
			scope, id, headers, count, signature, &canonical, made.authorization);
	/* It may contain the session's token. */
	OPENSSL_cleanse(canonical.text, SIGV4_CANONICAL);
	free(canonical.text);
	if (rc == 0)
		*ret = made;
	return rc;
}
