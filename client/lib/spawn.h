/* spawn: starts a process that is not a child of this one, and inherits only its environment, user
 * and limits. */
#pragma once

enum { SPAWN_READY_FD = 3 }; /* where the process finds `ready_fd` */

/* Starts `program` (a path) with `argv` in a session of its own: working folder /, standard input
 * /dev/null, standard output and error `log_fd`, descriptor 3 `ready_fd`, no other descriptor;
 * signals as a shell would leave them; all CPUs and memory nodes that the cgroup allows. It is a
 * child of init (or of the nearest subreaper), sends no SIGCHLD here, and outlives this process. 0
 * when it runs; -errno of what failed, exec included. Blocks until then: some milliseconds. */
int spawn_detached(const char *program, char *const argv[], int log_fd, int ready_fd);
