/* socket_path: see socket_path.h.
 *
 * A user has one folder on a machine, and may have several jobs there. Each job's private daemon
 * listens in a folder of the job's own, so that its budget and its end are that job's. A daemon
 * that was started by hand serves all jobs: it listens at the common socket.
 *
 * Thread: the caller's. */
#include "client/lib/socket_path.h"

#include "client/lib/error.h"
#include "client/lib/job.h"
#include "proto/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SOCKET_PATH_LOOK_MS = 100 }; /* for a listener with a full backlog */

int socket_path_find(const char *socket, struct socket_path *ret_place)
{
	struct socket_path place = {0};
	uint64_t hash;
	int result = connection_find(socket, place.common, &place.named);
	if (result < 0)
		return result;
	place.given = socket && *socket;
	if (!place.named && job_key(&hash))
		place.too_long =
			folder_job_socket(place.common, hash, place.job, sizeof place.job) < 0;
	if (place.too_long)
		place.job[0] = '\0';
	*ret_place = place;
	return 0;
}

const char *socket_path_own(const struct socket_path *place)
{
	return *place->job ? place->job : place->common;
}

int socket_path_open(struct connection *connection, const struct socket_path *place)
{
	int result = CONNECTION_E_ABSENT;
	if (*place->job)
		result = connection_open(connection, place->job, false);
	if (result == CONNECTION_E_ABSENT)
		result = connection_open(connection, place->common, place->named);
	return result;
}

int socket_path_begin(
	struct connection *connection, const struct socket_path *place, int32_t limit_ms)
{
	int result = CONNECTION_E_ABSENT;
	if (*place->job)
		result = connection_begin(connection, place->job, false, limit_ms);
	if (result == CONNECTION_E_ABSENT)
		result = connection_begin(connection, place->common, place->named, limit_ms);
	return result;
}

/* ---- any job's ---- */

struct socket_path_search {
	struct connection *connection;
	unsigned found;
	char last[CONNECTION_PATH];
	char list[ERROR_TEXT / 2];
};

static int socket_path_look(const char *socket, void *data)
{
	struct socket_path_search *search = data;
	/* A daemon that is stopped counts: a later request says that it is. Another user's does not
	 * count: the folder may be in /tmp, where any user can make it. */
	int result = connection_begin(search->connection, socket, false, SOCKET_PATH_LOOK_MS);
	connection_close(search->connection);
	if (result == CONNECTION_E_ABSENT || result == -EPERM || result == -EACCES)
		return 0;
	size_t used = strlen(search->list);
	(void)snprintf(search->list + used, sizeof search->list - used, "%s%s",
		search->found++ ? ", " : "", socket);
	(void)snprintf(search->last, sizeof search->last, "%s", socket);
	return 0;
}

int socket_path_open_any(struct connection *connection, const struct socket_path *place)
{
	struct socket_path_search search = {.connection = connection};
	int result = socket_path_open(connection, place);
	if (result != CONNECTION_E_ABSENT || place->named)
		return result;
	(void)folder_visit_jobs(place->common, socket_path_look, &search);
	if (search.found > 1)
		return error_set(-EBUSY,
			"no penstockd is running at %s, but several jobs have one: choose one with "
			"--socket or PENSTOCK_SOCKET: %s",
			place->common, search.list);
	/* Without any, the sentence is about the common socket. */
	return connection_open(
		connection, search.found ? search.last : place->common, place->named);
}

static int socket_path_tidy_one(const char *socket, void *data)
{
	const struct socket_path *place = data;
	if (strcmp(socket, place->job) != 0)
		(void)folder_remove_job(socket);
	return 0;
}

void socket_path_tidy(const struct socket_path *place)
{
	if (!place->named)
		(void)folder_visit_jobs(
			place->common, socket_path_tidy_one, (void *)(uintptr_t)place);
}
