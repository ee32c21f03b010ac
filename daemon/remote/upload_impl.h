/* upload_impl: what upload.c and upload_parts.c share. */
#pragma once

#include "remote/client/client.h"
#include "remote/upload.h"

/* Sends a request and waits. 0 or a negative errno with a sentence. */
int upload_perform(struct client_request *request, struct fault *fault);

/* The same for a request that creates the object (`instead` NULL) or replaces it: -EEXIST where
 * another one is there. */
int upload_guarded(
	struct client_request *request, const struct upload_found *instead, struct fault *fault);

/* Writes a file by a multipart upload. As upload_file, but -EEXIST also where the object is the
 * same. `map` is the whole file. */
int upload_parts(const char *url, const uint8_t *map, uint64_t size, struct fault *fault);

/* Ends an unfinished upload. 0, also where it does not exist; a negative errno. */
int upload_abort(const char *url, const char *id, struct fault *fault);
