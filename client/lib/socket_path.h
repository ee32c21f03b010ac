/* place: the sockets at which a daemon is looked for, in their order. */
#pragma once

#include "client/lib/connection.h"

#include <stdbool.h>
#include <stddef.h>

struct place {
	bool named; /* the user said where: by option or environment; then there is no other */
	bool too_long; /* the job's would not fit a socket's address */
	char common[CONNECTION_PATH]; /* the one named, or the user's, for whoever comes */
	char job[CONNECTION_PATH]; /* "", or that of a daemon which this job has to itself */
};

/* `socket` NULL: PENSTOCK_SOCKET, else the user's folder, and in a job the job's folder in that. 0,
 * or -errno as connection_find. */
int place_find(const char *socket, struct place *ret_place);

/* Where a private daemon is started. */
const char *place_own(const struct place *place);

/* connection_open at whichever has a daemon: the job's, whose processes have to meet, before the
 * common one. */
int place_open(struct connection *connection, const struct place *place);

/* connection_begin in the same way. */
int place_begin(struct connection *connection, const struct place *place, int32_t limit_ms);

/* Connects to the one daemon that runs for this user and this place: as place_open, or where nobody
 * is there and no socket was named, to another job's. CONNECTION_E_ABSENT; -EBUSY there are
 * several, with a sentence that lists them. */
int place_open_any(struct connection *connection, const struct place *place);

/* Removes the folders of jobs whose daemons have ended; not this one's. */
void place_tidy(const struct place *place);
