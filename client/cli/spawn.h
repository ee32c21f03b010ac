/* spawn: a daemon of the command's own, in a temporary folder, that does not outlive it.
 *
 * There is at most one at a time (several may follow each other), so this module is its own object.
 * From the first spawn_start on SIGINT, SIGTERM,
 * SIGHUP and SIGQUIT are blocked in all threads and taken by one that ends the trainers and the
 * daemon, removes the folder and then lets the signal do its work; an ordinary exit does the same
 * by spawn_stop. Should the command be killed outright, the kernel ends its trainers, and the
 * daemon goes after ten idle seconds by itself.
 *
 * The daemon's standard streams are its log in that folder, never the terminal's. */
#pragma once

#include "client/cli/recipe.h"

#include <sys/types.h>

/* Starts penstockd and waits until it listens. CLI_OK, or the exit code after saying why on stderr
 * (with the end of its log). */
int spawn_start(const struct recipe_daemon *options);

/* Ends what was started; does nothing where nothing was. */
void spawn_stop(void);

/* To be called before it is said that a child has ended by itself: where a signal is ending
 * everything, that was its doing, and this does not return. */
void spawn_yield(void);

/* Its socket; NULL while there is none. */
const char *spawn_socket(void);

/* A child that has to end before the daemon does. Call after fork, in the parent; look at its end
 * with WNOWAIT, spawn_stop reaps it. */
void spawn_adopt(pid_t child);

/* In a forked child: signals as they were before spawn_start, except that those of the terminal are
 * left to the parent; the child dies with it. */
void spawn_child_setup(pid_t parent);

/* Prints the last lines of the daemon's log to stderr, indented; nothing when there is none. */
void spawn_show_log(void);
