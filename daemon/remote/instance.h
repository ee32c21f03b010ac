/* instance: the process's one set of objects, its client and its credentials, for the files of this
 * folder; remote.c has them. */
#pragma once

#include "base/fault.h"

struct objects;
struct client;
struct auth;

/* Starts it at the first call. NULL with a fault: then instance_error is its errno. Any thread; may
 * block at the first call. */
struct objects *instance_objects(struct fault *fault);
int instance_error(void);

/* The client and the credentials of the instance; they end with remote_stop. NULL as above. */
struct client *instance_client(struct fault *fault);
struct auth *instance_auth(struct fault *fault);
