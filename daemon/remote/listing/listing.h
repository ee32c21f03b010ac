/* listing: what is in a bucket or a dataset of the Hub, below a prefix.
 *
 * A map of this folder:
 *   listing.[ch]          this file: pages of objects; globs
 *   listing_absent.c      replaces the folder in builds without libcurl, libcrypto and expat
 *   listing_client.c      pages that the client fetches
 *   listing_folder.c      a prefix of class folders, in ImageFolder's order
 *   listing_hub.[ch]      a page of the Hub, in JSON
 *   listing_page.[ch]     a page of ListObjectsV2, in XML
 *   listing_sort.[ch]     sorts more names than fit into memory
 *
 * s3:// and gs:// are asked by ListObjectsV2, hf:// by the Hub's tree of files. Web servers have no
 * listing. Servers may lie: names that do not begin with the prefix, a continuation that was there
 * before, pages without an end are refused. Memory is one page, whatever the number of objects.
 *
 * Circle: listing, listing_absent, listing_client, listing_folder: the second replaces the others.
 *
 * One thread per call; blocks. */
#pragma once

#include "base/fault.h"
#include "remote/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct auth;
struct client;

enum {
	LISTING_PAGE = 8 << 20, /* bytes of an answer; 1,000 of the longest keys have 4 MiB */
	LISTING_NEXT = 4096, /* bytes of a continuation */
	LISTING_PAGES_MAX = 1000000,
	LISTING_EMPTY_MAX = 1000, /* pages in a row without an object */
	LISTING_MATCHES_MAX = 1000000, /* of a glob */
	LISTING_MATCHES_BYTES = 64 << 20, /* of their keys */
};

/* Where pages come from: the network, or a test. Fetches the answer to a GET of `url`, which may
 * have REMOTE_QUERY_MARK, with a zero after its `*ret_size` bytes. `ret_link` (LISTING_NEXT bytes):
 * the header Link. 0; a negative errno with a sentence. */
typedef int listing_fetch_fn(void *context, const char *url, char *buffer, size_t room,
	size_t *ret_size, char *ret_link, struct fault *fault);

struct listing_source {
	listing_fetch_fn *fetch;
	void *context;
	const char *hub; /* the Hub's endpoint: https://huggingface.co */
};

struct listing_object {
	const char *key; /* whole, decoded; of a folder: with a slash at its end */
	bool folder; /* of a listing by folders: objects are below it */
	uint64_t size;
	const char *etag; /* as HEAD gives it, with its quotes; "" where the listing has none */
};

/* A nonzero answer ends the listing, which returns it. */
typedef int listing_take_fn(
	void *context, const struct listing_object *object, struct fault *fault);

/* Gives every object whose key begins with the URL's, in the store's order; with `folders` only as
 * far as the next slash, and the folders there. 0; -ENOTSUP: the scheme has no listing; -EPROTO:
 * the server lies; what `take` returned; another negative errno. With a sentence. */
int listing_objects(const struct listing_source *source, const struct remote_url *url, bool folders,
	listing_take_fn *take, void *context, struct fault *fault);

/* Whether a key has *, ? or [ (braces are expanded before). */
bool listing_is_glob(const char *key);

/* Gives the objects that match a glob, in bytewise order of their keys: * ? and [...] as in a shell
 * (not across slashes, and not for a dot at the beginning of a name). An object that is given twice
 * by the store is given once. */
int listing_glob(const struct listing_source *source, const struct remote_url *url,
	listing_take_fn *take, void *context, struct fault *fault);

/* What a prefix of class folders has. */
struct listing_folder_sink {
	/* Whether an object counts; `name` is its key without the prefix and the slash. Called in
	 * the store's order, before the others. */
	bool (*wanted)(void *context, const char *name);
	/* The folders below the prefix that hold wanted objects, in their order; once. */
	int (*classes)(void *context, const char *const *names, size_t count, struct fault *fault);
	/* The wanted objects in the order of folder_walk: those of the prefix itself, then class by
	 * class, the folders of a class by their paths, a folder's objects by name. */
	int (*object)(void *context, const char *name, uint64_t size, const char *etag,
		struct fault *fault);
	void *context;
	bool natural; /* the classes' order is name_order_natural */
	const char *scratch; /* the folder of a temporary file; NULL: TMPDIR */
};

/* The same results for the same objects, in whatever order the store lists them. Memory is some 32
 * MiB; the rest is in an unlinked file. As listing_objects; -EPROTO: an object is listed twice. */
int listing_folder(const struct listing_source *source, const struct remote_url *url,
	const struct listing_folder_sink *sink, struct fault *fault);

/* The source of the process's client. `ret` borrows both. */
struct listing_client {
	struct client *client;
	const char *hub;
};
void listing_source_client(struct listing_client *listing, struct client *client,
	const struct auth *auth, struct listing_source *ret);
