/* folder: what lies beside a socket, and the folders in which jobs have daemons of their own.
 *
 *   FOLDER/penstock.sock                 the user's daemon, for whoever comes
 *   FOLDER/job-HHHHHHHHHHHHHHHH/...      the same names once more, for one job: made by the client
 *                                        that starts its daemon, removed when that has ended
 *
 * spawn.lock, an flock, is held by whoever starts a daemon at the socket beside it, and by whoever
 * removes its folder; SOCKET.lock by the daemon. Both are taken back by the kernel from the dead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The socket of the job that hashes to `hash`, whose folder lies beside the socket `common`. 0,
 * -ENAMETOOLONG where it does not fit `room`. */
int folder_job_socket(const char *common, uint64_t hash, char *buffer, size_t room);

/* Takes spawn.lock beside the socket, without waiting. 0 and a descriptor, which folder_unlock
 * closes; -EWOULDBLOCK another process has it; -ENOENT there is no such folder, or it was removed
 * meanwhile; -errno. */
int folder_lock(const char *socket, int *ret_fd);
void folder_unlock(int fd);

/* Whether a daemon holds the socket's lock: it listens, is ending or gets ready. Takes the lock for
 * a moment to find out, so that a daemon that starts just then would be refused. */
bool folder_is_taken(const char *socket);

/* Calls `visit` for the socket of each job's folder beside the socket `common`, whether or not
 * somebody listens there, until it returns other than 0; returns that, or 0. */
int folder_visit_jobs(const char *common, int (*visit)(const char *socket, void *data), void *data);

/* Removes the folder of a job's socket, with what daemons leave in it and nothing else. 0; -EINVAL
 * it is no job's; -EBUSY a daemon runs there, or somebody is starting one; -ENOTEMPTY there is
 * something else in it; -errno. */
int folder_remove_job(const char *socket);
