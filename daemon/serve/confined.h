/* confined: what the process may do, step by step while it starts (confine/confine.h), and what the
 * status says of it. Event loop.
 *
 * Each step returns 0, or a negative errno with a fault. */
#pragma once

#include "base/fault.h"

struct jsontext;
struct server;

int confined_begin(struct server *server, struct fault *fault); /* before the witness starts */
int confined_files(struct server *server, struct fault *fault); /* before any thread starts */
int confined_calls(struct server *server, struct fault *fault); /* when everything has started */

/* The witness's own confinement, in its process. The argument is the server. */
void confined_witness(void *server);

/* Writes the key `confinement`. */
void confined_status(struct jsontext *json, const struct server *server);
