/* confine: what the process may do, cut down to what it needs, step by step while it starts.
 *
 *   confine.[ch]   this door; no new privileges, no core files; what is in force, in words
 *   landlock.c     files and ports: by the kernel's Landlock, where `roots:` are configured
 *   calls.c        system calls: by seccomp (libseccomp), or calls_absent.c where that is left out
 *   table.[ch]     which calls, and with what arguments
 *
 * The order is the kernel's: Landlock binds the thread that asks and whoever it starts later, so
 * confine_files comes before any thread; seccomp binds all threads at once and forbids io_uring's
 * set-up, so confine_calls comes when rings and threads are there.
 *
 *   confine_begin       main, first
 *   witness_start       the flight recorder's process forks; it calls confine_witness when it has
 *                       set itself apart
 *   confine_files       before any thread
 *   confine_calls       after the last ring, socket and library that is needed
 *
 * None of it can be taken back or widened, by the process itself either. The witness is bound by a
 * filter of its own and by no Landlock: it reads the environment of trainers in /proc, which
 * Landlock forbids whoever it binds. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum confine_wish {
	CONFINE_AUTO, /* as far as build and kernel have it; what is missing is said */
	CONFINE_ON, /* or do not start */
	CONFINE_OFF,
};

/* What may be done beneath a place. */
enum confine_access {
	CONFINE_READ, /* files and folders */
	CONFINE_READ_FILES, /* files, but no listing of folders */
	CONFINE_WRITE, /* all of that, and made, renamed, linked and removed; no devices */
};

struct confine_place {
	const char *path; /* absolute; a folder or a file. NULL, or nothing there: left out */
	enum confine_access access;
	bool must; /* be there: else a fault */
};

/* What is in force. Written by the functions below, of the one thread that calls them. */
struct confine_state {
	bool no_new_privs;
	bool core_files;
	unsigned landlock; /* the kernel's ABI that is used; 0: it is not */
	bool ports; /* TCP: no connection, and no port but one */
	bool scoped; /* no signals and no abstract sockets to processes outside */
	bool calls;
	char files_missing[160]; /* why Landlock is not there although it was asked for; "" */
	char calls_missing[160]; /* of seccomp; "" */
};

/* No new privileges by execve; unless `core_files`, no core files, which would hold samples and
 * pixels, and no memory in what a core is piped into. Before any thread. 0, or a negative errno
 * with a fault. */
int confine_begin(bool core_files, struct confine_state *state, struct fault *fault);

struct confine_files_options {
	const struct confine_place *places;
	size_t count;
	uint16_t port; /* that may be listened on by TCP; 0: none */
	bool any_port; /* which one is not known yet */
	bool abstract; /* sockets without a path are needed (NOTIFY_SOCKET=@...) */
};

/* Forbids all files but those beneath the places, by the best Landlock that the kernel has. Where
 * it has none, `files_missing` says so and 0 is returned: whoever opens files must look for itself
 * (base/host/roots.h). Before any thread. 0, or a negative errno with a fault. */
int confine_files(const struct confine_files_options *options, struct confine_state *state,
	struct fault *fault);

/* Refuses all system calls but those that a daemon that is set up makes, for every thread of the
 * process. 0; or a negative errno with a fault where it is CONFINE_ON and cannot be had (-ENOSYS:
 * not built in). With CONFINE_AUTO `calls_missing` says why it is not there. */
int confine_calls(enum confine_wish wish, struct confine_state *state, struct fault *fault);

/* The same for the flight recorder's process: wider, since NVIDIA's library maps code and asks its
 * devices by ioctl. What cannot be had is left out: the daemon has said so. */
void confine_witness(enum confine_wish wish);

/* One sentence of what is in force: "no new privileges; no core files; ...". */
void confine_describe(const struct confine_state *state, char *buffer, size_t room);
