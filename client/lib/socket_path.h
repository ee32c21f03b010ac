/* socket_path: the sockets at which a daemon is looked for, in order. */
#pragma once

#include "client/lib/connection.h"

#include <stdbool.h>
#include <stddef.h>

struct socket_path {
	bool named; /* the user named it, by option or environment; then there is no other */
	bool given; /* named by the option, not by the environment */
	bool too_long; /* the job's path would not fit into a socket's address */
	char common[CONNECTION_PATH]; /* the one named, or the user's, for all processes */
	char job[CONNECTION_PATH]; /* "", or that of the job's own daemon */
};

/* `socket` NULL: PENSTOCK_SOCKET, else the user's folder, and in a job the job's folder in that. 0,
 * or -errno as connection_find. */
int socket_path_find(const char *socket, struct socket_path *ret_place);

/* Where a private daemon is started. */
const char *socket_path_own(const struct socket_path *place);

/* connection_open at the socket that has a daemon. The job's comes first, since its processes have
 * to meet. */
int socket_path_open(struct connection *connection, const struct socket_path *place);

/* connection_begin in the same way. */
int socket_path_begin(
	struct connection *connection, const struct socket_path *place, int32_t limit_ms);

/* Connects to the one daemon that runs for this user: as socket_path_open or, if that finds none
 * and no socket was named, to another job's. CONNECTION_E_ABSENT; -EBUSY if there are several,
 * with a sentence that lists them. */
int socket_path_open_any(struct connection *connection, const struct socket_path *place);

/* Removes the folders of jobs whose daemons have ended; not this one's. */
void socket_path_tidy(const struct socket_path *place);
