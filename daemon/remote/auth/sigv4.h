/* sigv4: AWS Signature Version 4, for S3, servers that speak its protocol, Google's XML interface
 * and STS. (AWS: "Signature Calculations for the Authorization Header"; libcrypto has the HMAC.)
 *
 * Host, date, the hash of the body, the session token and the given headers are signed. Range is
 * not, so that a retry from the last byte that came needs no new signature.
 *
 * Pure; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	SIGV4_KEY = 32,
	SIGV4_DATE = 17, /* 20130524T000000Z and a zero */
	SIGV4_HASH = 65, /* hexadecimal and a zero */
	SIGV4_HEADERS = 16, /* at most, beside the four that every request has */
	SIGV4_AUTHORIZATION = 1024,
};

/* The SHA-256 of no bytes, and what is said instead where the body is not hashed. */
#define SIGV4_EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SIGV4_UNSIGNED "UNSIGNED-PAYLOAD"

struct sigv4_header {
	const char *name; /* in lower case */
	const char *value; /* without blanks at its ends */
};

/* A key for one day, one region and one service. It is as secret as what it is made of. */
struct sigv4_scope {
	uint8_t key[SIGV4_KEY];
	char day[9]; /* 20130524 */
	char region[64], service[16];
};

/* Makes the key. `time` is in seconds since 1970. 0; -ENAMETOOLONG: a region or a secret that is
 * too long to be one; -EIO where libcrypto cannot. */
int sigv4_scope_make(const char *secret, const char *region, const char *service, int64_t time,
	struct sigv4_scope *ret);

struct sigv4_request {
	const char *method;
	const char *host; /* as the Host header says it */
	const char *path; /* encoded once, begins with a slash */
	const char *query; /* encoded, without the question mark, in any order; NULL or "": none */
	const char *payload; /* SIGV4_EMPTY, SIGV4_UNSIGNED or sigv4_hash of the body */
	const char *token; /* of the session; NULL or "": none */
	const struct sigv4_header *headers; /* signed, too */
	size_t header_count;
	int64_t time; /* on the scope's day */
};

/* The headers x-amz-date and authorization; the caller also sends x-amz-content-sha256 with the
 * payload, x-amz-security-token with the token, and `headers`. */
struct sigv4_signed {
	char date[SIGV4_DATE];
	char authorization[SIGV4_AUTHORIZATION];
};

/* 0; -E2BIG: too many headers; -ENAMETOOLONG: texts too long to sign; -EINVAL: a time that is not
 * on the scope's day; -ENOMEM; -EIO. */
int sigv4_sign(const struct sigv4_scope *scope, const char *id, const struct sigv4_request *request,
	struct sigv4_signed *ret);

/* The SHA-256 of bytes in hexadecimal. 0 or -EIO. */
int sigv4_hash(const void *bytes, size_t size, char ret[SIGV4_HASH]);
