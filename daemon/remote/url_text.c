/* url_text: URLs as text, with and without their secrets; percent-encoding. See url.h. */
#include "remote/url.h"

#include "base/util.h"

#include <ctype.h>
#include <string.h>

/* Text of which only the first `room` - 1 bytes are kept; `used` counts all. */
struct text {
	char *to;
	size_t room, used;
};

static void put(struct text *text, char c)
{
	if (text->used + 1 < text->room)
		text->to[text->used] = c;
	text->used++;
}

static void puts_of(struct text *text, const char *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		put(text, from[i]);
}

static size_t end(struct text *text)
{
	if (text->room)
		text->to[UTIL_MIN(text->used, text->room - 1)] = 0;
	return text->used;
}

static void put_encoded(struct text *text, char c)
{
	static const char digits[] = "0123456789ABCDEF";
	put(text, '%');
	put(text, digits[(unsigned char)c >> 4]);
	put(text, digits[(unsigned char)c & 15]);
}

size_t remote_url_scheme(const char *text)
{
	size_t size = 0;
	while (isalnum((unsigned char)text[size]) ||
		(size && text[size] && strchr("+-.", text[size])))
		size++;
	/* One letter is a drive of another system, not a scheme. */
	return size >= 2 && size < REMOTE_SCHEME_MAX && isalpha((unsigned char)text[0]) &&
			       !strncmp(text + size, "://", 3)
		       ? size
		       : 0;
}

bool remote_is_url(const char *path)
{
	return remote_url_scheme(path) != 0;
}

size_t remote_encode(const char *from, bool slashes, char *buffer, size_t room)
{
	struct text text = {buffer, room, 0};
	for (; *from; from++) {
		unsigned char c = (unsigned char)*from;
		/* isalnum depends on the locale beyond ASCII. */
		if ((c < 0x80 && isalnum(c)) || strchr("-._~", c) || (slashes && c == '/'))
			put(&text, *from);
		else
			put_encoded(&text, *from);
	}
	return end(&text);
}

size_t remote_url_print(const struct remote_url *url, char *buffer, size_t room)
{
	static const char *const scheme[] = {[0] = "",
		[REMOTE_S3] = "s3://",
		[REMOTE_GS] = "gs://",
		[REMOTE_HF] = "hf://datasets/",
		[REMOTE_HTTPS] = "https://",
		[REMOTE_HTTP] = "http://"};
	struct text text = {buffer, room, 0};
	char revision[REMOTE_REVISION_MAX * 3 + 1], port[8];
	puts_of(&text, scheme[url->scheme], strlen(scheme[url->scheme]));
	if (url->user[0]) {
		puts_of(&text, url->user, strlen(url->user));
		put(&text, '@');
	}
	puts_of(&text, url->host, strlen(url->host));
	if (url->port)
		puts_of(&text, port, (size_t)snprintf(port, sizeof port, ":%u", url->port));
	if (url->scheme == REMOTE_HF && strcmp(url->revision, "main") != 0) {
		put(&text, '@');
		puts_of(&text, revision,
			remote_encode(url->revision, false, revision, sizeof revision));
	}
	put(&text, '/');
	puts_of(&text, url->key, strlen(url->key));
	if (url->query[0]) {
		put(&text, '?');
		puts_of(&text, url->query, strlen(url->query));
	}
	return end(&text);
}

/* Where the host begins: after a user and a password. A password with a slash in it makes the URL
 * wrong, and must not be shown for that. */
static const char *host_of(const char *rest)
{
	size_t size = strcspn(rest, "/?#");
	const char *at = NULL;
	for (size_t i = 0; i < size; i++)
		at = rest[i] == '@' ? rest + i : at;
	const char *colon = memchr(rest, ':', size), *last = strrchr(rest, '@');
	if (!at && colon && last && rest[0] != '[' && !isdigit((unsigned char)colon[1]))
		at = last;
	/* Digits up to the slash can be the beginning of a password as well as a port. */
	if (!at && colon && last && rest[0] != '[' && strspn(colon + 1, "0123456789") > 5)
		at = last;
	return at ? at + 1 : rest;
}

char *remote_url_safe(const char *from, char *buffer, size_t room)
{
	struct text text = {buffer, room, 0};
	const char *colon = remote_is_url(from) ? strstr(from, "://") : NULL;
	if (colon) {
		const char *host = host_of(colon + 3);
		puts_of(&text, from, (size_t)(colon + 3 - from));
		if (host != colon + 3)
			puts_of(&text, "***@", 4);
		/* In keys of buckets a "?" is a glob. */
		bool store = colon - from == 2;
		size_t shown = store ? strlen(host) : strcspn(host, "?#");
		puts_of(&text, host, shown);
		if (host[shown])
			puts_of(&text, "?...", 4);
	} else {
		puts_of(&text, from, strlen(from));
	}
	(void)end(&text);
	for (char *c = buffer; room && *c; c++) {
		/* U+0080 to U+009F: terminals obey some of them, too. */
		if ((unsigned char)c[0] == 0xc2 && (unsigned char)c[1] >= 0x80 &&
			(unsigned char)c[1] < 0xa0)
			c[0] = c[1] = '?';
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	}
	return buffer;
}
