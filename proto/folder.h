/* folder: the files beside a daemon's socket, and the folders of daemons that belong to one job.
 *
 *   FOLDER/penstock.sock              the daemon of all processes of the user
 *   FOLDER/job-HHHHHHHHHHHHHHHH/...   the same names once more, for one job. The client that starts
 *                                     the job's daemon makes the folder; it is removed after the
 *                                     daemon has ended
 *
 * A process that starts a daemon, or removes the folder, holds an flock on spawn.lock beside the
 * socket; a daemon holds one on SOCKET.lock. The kernel releases both when the process dies. Any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The socket of the job with this hash, whose folder is beside the socket `common`. 0, or
 * -ENAMETOOLONG where it does not fit `room`. */
int folder_job_socket(const char *common, uint64_t hash, char *buffer, size_t room);

/* Takes spawn.lock beside the socket, without waiting. 0 and a descriptor for folder_unlock;
 * -EWOULDBLOCK: another process holds it; -ENOENT: the folder does not exist, or was removed in the
 * meantime; -errno. */
int folder_lock(const char *socket, int *ret_fd);
void folder_unlock(int fd);

/* Whether a daemon holds the socket's lock: it listens, starts or ends. Takes the lock for a moment
 * to find out; a daemon that starts at that moment would be refused. */
bool folder_is_taken(const char *socket);

/* Calls `visit` for the socket in each job's folder beside the socket `common`, whether or not a
 * daemon listens there, until it does not return 0. Returns the last result of `visit`, or 0. */
int folder_visit_jobs(const char *common, int (*visit)(const char *socket, void *data), void *data);

/* Removes the folder of a job's socket, with the files that daemons leave in it and no others. 0;
 * -EINVAL: not a job's folder; -EBUSY: a daemon runs there, or a process is starting one;
 * -ENOTEMPTY: it has other files; -errno. */
int folder_remove_job(const char *socket);
