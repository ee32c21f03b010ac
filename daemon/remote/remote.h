/* remote: data that is read over the network: the process's one instance, its options and counters.
 *
 * A map of this folder:
 *   remote.[ch]   this file: starting, stopping, counters
 *   auth/         credentials, signatures, which requests are allowed
 *   client/       requests to servers
 *   cache/        blocks of objects on local disk
 *   listing/      what is in a bucket: pages, globs, class folders
 *   instance.h    the process's one set of objects, for the files of this folder
 *   interrupt.[ch]  ends a thread's waits for servers from outside
 *   object.[ch]   an open remote object: reads through cache and client
 *   object_read.c  what a read consists of: what is stored, what is under way, what is requested
 *   object_stream.c  reading an object from front to back
 *   objects.[ch]  what all open objects share: threads, counters, a table
 *   upload.[ch]   writes objects
 *   upload_absent.c  refuses to, in builds without libcurl
 *   upload_impl.h  what the files of upload share
 *   upload_parts.c  large files, in parts
 *   url.[ch]      URLs: read, checked, printed
 *   url_address.c  the address that a request is sent to
 *   url_text.c    URLs as text, without their secrets; percent-encoding
 *   xml.[ch]      what S3 and STS answer, by expat
 *
 * Nothing of it runs before the first URL is opened: then a thread for the network starts and, with
 * a cache folder, five for its files. */
#pragma once

#include "base/fault.h"
#include "stats/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum remote_path_style { REMOTE_PATH_AUTO, REMOTE_PATH_ON, REMOTE_PATH_OFF };

enum {
	REMOTE_CONNECTIONS = 64,
	REMOTE_TIMEOUT_S = 300,
	/* Memory for bytes on their way into the cache's files, of the whole process: what is
	 * fetched while all of it is in use goes to the reader only. */
	REMOTE_STAGING = 32 << 20,
	REMOTE_RETRIES = 8, /* reasons of retries */
};
#define REMOTE_HEDGE 0.02

/* What the YAML mapping `remote:` says, and cache_dir and cache_size. Texts are copied. */
struct remote_options {
	const char *cache_dir; /* NULL: nothing of the data is kept on disk */
	uint64_t cache_size; /* bytes of disk, maps and indexes included; 0: nothing is kept */
	const char *endpoint_url, *region, *profile; /* NULL: environment, then default */
	bool anonymous, requester_pays;
	enum remote_path_style path_style;
	unsigned connections; /* 0: REMOTE_CONNECTIONS */
	uint64_t bandwidth; /* bytes/s; 0: no limit */
	unsigned timeout_s; /* how long a request is tried before it is an error; 0: the default */
	double hedge; /* share of extra requests; 0: none */
	/* Hosts, ended by NULL, for which http:// is allowed besides loopback. NULL: none. */
	const char *const *plain_http;
	/* URL prefixes, ended by NULL, that may be read. NULL: any. */
	const char *const *roots;
};

/* Since the start of the process, unless it says otherwise. */
struct remote_stats {
	bool started; /* whether a URL was opened; all else is 0 if not */
	/* `requests` are those that were sent, retries and hedges included; `bytes` are those of
	 * bodies that came over the network, and `wasted_bytes` of them were not stored. */
	uint64_t requests, bytes, wasted_bytes;
	uint64_t done, errors, canceled; /* ends of the requests that readers began */
	uint64_t retries, retried[REMOTE_RETRIES]; /* all; by reason */
	uint64_t hedges, hedges_won, slowdowns;
	uint64_t connects; /* new connections */
	uint64_t connections, connections_limit; /* that have a request now; allowed now */
	uint64_t queued; /* requests that wait for a connection or for a retry now */
	uint64_t first_byte_p50_ns, first_byte_p99_ns; /* of all requests */
	struct histogram first_byte; /* from sending a request to the first byte of its body */
	uint64_t waiting_ns; /* time with requests for servers that do not answer */
	uint64_t throttled_ns; /* time during which `bandwidth` held transfers back */
	char waiting[256]; /* "waiting for https://host: connection refused for 12 s"; or "" */
	uint64_t reads; /* under way now */
	uint64_t hit_bytes, miss_bytes; /* what readers asked for, from the cache and not */
	uint64_t shared_bytes; /* of miss_bytes: came with the request of another reader */
	bool cache; /* whether there is a cache folder in use; the rest is 0 if not */
	uint64_t cache_size; /* what it may use of the disk */
	uint64_t cache_used; /* what it uses, as last measured or reserved, of all processes */
	uint64_t cache_stored_bytes, cache_unstored_bytes; /* fetched and kept; fetched, no room */
	uint64_t cache_broken_blocks; /* had a wrong checksum and were fetched again */
	uint64_t cache_dropped_objects, cache_dropped_bytes; /* to make room, by this process */
};

/* The defaults: no cache, everything else from the environment. */
void remote_options_default(struct remote_options *ret);

/* Sets the options of this process; call it once, before URLs are opened. A process that opens a
 * URL without it has the defaults. Starts no thread. 0, or a negative errno with a fault. */
int remote_start(const struct remote_options *options, struct fault *fault);

/* Stops all threads. All objects must have been unreferenced. Without a start: nothing. */
void remote_stop(void);

/* Any thread; does not block. */
void remote_stats_read(struct remote_stats *ret);

/* "stall" and so on, for `retried`. Pure. */
const char *remote_retry_name(unsigned reason);
