/* spawn: starts a daemon of the command's own in a temporary folder. The daemon does not outlive
 * the command.
 *
 * There is at most one at a time, so the module has no object; several may follow each other. From
 * the first spawn_start on, SIGINT, SIGTERM, SIGHUP and SIGQUIT are blocked in all threads. A
 * signal thread takes them: it ends the trainers and the daemon, removes the folder, and then ends
 * the command by the same signal. An ordinary exit calls spawn_stop. If the command is killed, the
 * kernel ends its trainers, and the daemon ends after ten idle seconds.
 *
 * The daemon's output goes to its log in that folder, never to the terminal. */
#pragma once

#include "client/cli/recipe.h"

#include <sys/types.h>

/* Starts penstockd and waits until it listens. CLI_OK, or the exit code after printing why, and the
 * end of its log. */
int spawn_start(const struct recipe_daemon *options);

/* Ends everything that was started, if anything was. */
void spawn_stop(void);

/* Call this before reporting that a child has ended by itself. If a signal is ending the
 * command, the signal thread ended the child, and this does not return. */
void spawn_yield(void);

/* The daemon's socket; NULL while none is running. */
const char *spawn_socket(void);

/* Registers a child that must end before the daemon. Call it in the parent after fork. Wait for the
 * child only with WNOWAIT: spawn_stop reaps it. */
void spawn_adopt(pid_t child);

/* In a forked child: restores the signals as they were before spawn_start, but ignores those of the
 * terminal, which are for the parent. The kernel kills the child when the parent ends. */
void spawn_child_setup(pid_t parent);

/* Prints why a stream failed, and returns the code, as cli_fail. Where the daemon is the command's
 * own, advice on how to start one with more memory becomes advice on the command's option. */
int spawn_fail(enum cli_exit code, const char *why);

/* Prints the last lines of the daemon's log on stderr. */
void spawn_show_log(void);
