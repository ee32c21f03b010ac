/* url: URLs of data in object stores and on web servers: read, checked, printed, and turned into
 * the address that a request is sent to.
 *
 *   s3://BUCKET/KEY                              S3 and servers that speak its protocol
 *   gs://BUCKET/KEY                              Google Cloud Storage, by its XML interface
 *   hf://datasets/ORG/NAME[@REVISION]/PATH       a dataset on the Hugging Face Hub
 *   https://HOST[:PORT]/PATH[?QUERY], http://    a web server
 *
 * Keys of s3://, gs:// and hf:// are the names themselves, as the tools of these stores take them:
 * a % in a key is a %. They are percent-encoded once, when the request is made. The path of
 * https:// is encoded already; only bytes that no URL may have are encoded. A revision may be
 * encoded (refs%2Fconvert%2Fparquet).
 *
 * A URL can contain secrets: a password before the host, a signature in the query. remote_url_safe
 * prints any text without them; every message, log line and JSON uses it.
 *
 * Pure, except remote_where_read, which reads the environment; any thread. */
#pragma once

#include "base/fault.h"
#include "remote/remote.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text after this byte is a query of the store's own interface and is sent as it is, encoded:
 * "s3://bucket/\x01list-type=2", "s3://bucket/key\x01uploads". Only requests that penstock makes
 * itself have it: remote_url_parse refuses it. */
#define REMOTE_QUERY_MARK '\x01'

enum remote_scheme { REMOTE_S3 = 1, REMOTE_GS, REMOTE_HF, REMOTE_HTTPS, REMOTE_HTTP };

enum {
	REMOTE_SCHEME_MAX = 32, /* bytes of a scheme, with a zero */
	REMOTE_URL_MAX = 4095, /* bytes of a URL */
	REMOTE_HOST_MAX = 255,
	REMOTE_USER_MAX = 255,
	REMOTE_KEY_MAX = 2047, /* S3 allows 1,024 */
	REMOTE_QUERY_MAX = 3071,
	REMOTE_REVISION_MAX = 255,
	REMOTE_ADDRESS_MAX = 10239, /* each byte of a key may become three */
};

struct remote_url {
	enum remote_scheme scheme;
	uint16_t port; /* http and https; 0: the scheme's own */
	char user[REMOTE_USER_MAX + 1]; /* USER:PASSWORD of http and https, as written; "" */
	char host[REMOTE_HOST_MAX + 1]; /* the bucket; ORG/NAME; the host in lower case */
	char revision[REMOTE_REVISION_MAX + 1]; /* of hf, decoded; "main" where none is given */
	char key[REMOTE_KEY_MAX + 1]; /* without a leading slash; decoded, but for http and https */
	char query[REMOTE_QUERY_MAX + 1]; /* of http and https, without the question mark */
};

/* Whether a path is a URL: SCHEME:// at its beginning, also with a scheme that remote_url_parse
 * refuses. */
bool remote_is_url(const char *path);

/* Bytes of the scheme of "SCHEME://"; 0: the text is not a URL. */
size_t remote_url_scheme(const char *text);

/* Whether the path's scheme can list what a bucket or a dataset holds: not http and https. */
bool remote_url_lists(const struct remote_url *url);

/* Reads a URL. The key may be empty (a bucket), have a slash at its end (a prefix) and contain
 * globs and braces. 0; -EINVAL with a sentence that does not show secrets. */
int remote_url_parse(const char *text, struct remote_url *ret, struct fault *fault);

/* Prints it as remote_url_parse reads it, secrets included. Returns the bytes, as snprintf. */
size_t remote_url_print(const struct remote_url *url, char *buffer, size_t room);

/* Copies any text into `buffer`: a password before the host becomes ***, the query of a URL becomes
 * "...", and control characters become "?". Text that is not a URL is only cleaned of control
 * characters. Returns `buffer`. */
char *remote_url_safe(const char *from, char *buffer, size_t room);

/* http:// sends data and credentials in the clear: it is allowed to this machine, and to the hosts
 * of `plain_http` (a list that ends with NULL; NULL: none). 0; -EACCES with a sentence. */
int remote_url_check_plain(
	const struct remote_url *url, const char *const *plain_http, struct fault *fault);

/* Whether a host is this machine: localhost and names below it, 127.0.0.0/8, [::1]. */
bool remote_host_is_loopback(const char *host);

/* Where requests go. The texts are borrowed. */
struct remote_where {
	const char *endpoint_url; /* of S3; NULL: AWS's */
	const char *region; /* NULL: us-east-1 */
	enum remote_path_style path_style;
	const char *gs_endpoint; /* NULL: https://storage.googleapis.com */
	const char *hf_endpoint; /* NULL: https://huggingface.co */
};

/* Fills what is NULL from the environment: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION,
 * AWS_DEFAULT_REGION, STORAGE_EMULATOR_HOST, HF_ENDPOINT. */
void remote_where_read(struct remote_where *where);

/* The address of an object, or of a bucket where the key is empty. */
struct remote_address {
	char url[REMOTE_ADDRESS_MAX + 1]; /* encoded, with user and query */
	char host[REMOTE_HOST_MAX + 8]; /* what the Host header says: with a port that is not the
					   scheme's own */
	char path[REMOTE_ADDRESS_MAX + 1]; /* encoded; begins with a slash */
	bool tls;
};

/* 0; -EINVAL with a sentence where an endpoint is not a URL; -ENAMETOOLONG. */
int remote_url_address(const struct remote_url *url, const struct remote_where *where,
	struct remote_address *ret, struct fault *fault);

/* The endpoint of a service of AWS in a region: "https://sts.eu-west-1.amazonaws.com". */
int remote_aws_endpoint(const char *service, const char *region, char *buffer, size_t room);

/* Whether a URL is `root` or is below it: same scheme, host and port, and the root's path is the
 * beginning of the other's in whole components ("s3://b/data" has s3://b/data/x below it, and not
 * s3://b/data-2/x). A root of hf:// without a revision allows every revision. */
bool remote_url_within(const struct remote_url *url, const struct remote_url *root);

/* Percent-encodes `from`, all but letters, digits and "-._~" and, where `slashes`, "/". Returns the
 * bytes, as snprintf. */
size_t remote_encode(const char *from, bool slashes, char *buffer, size_t room);
