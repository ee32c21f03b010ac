/* confine: restricts the process, step by step while it starts, to what it needs.
 *
 * A map of this folder:
 *   confine.[ch]    this file: no new privileges, no core files; a sentence of what is in force
 *   landlock.c      files and ports, by the kernel's Landlock, where `roots:` are configured
 *   calls.c         system calls, by seccomp (libseccomp)
 *   calls_absent.c  instead of calls.c in a build without libseccomp
 *   table.[ch]      which calls are allowed, and with which arguments
 *
 * The kernel dictates the order. Landlock restricts the calling thread and the threads that it
 * starts later, so confine_files comes before there are threads. seccomp restricts all threads at
 * once and forbids setting up io_uring, so confine_calls comes after rings and threads exist:
 *
 *   confine_begin   main, first
 *   witness_start   forks the flight recorder's process, which calls confine_witness once it has
 *                   set itself up
 *   confine_files   before any thread
 *   confine_calls   after the last ring, socket and library that the daemon needs
 *
 * Nothing can undo or widen a restriction, not even the process itself. The witness has a filter of
 * its own and no Landlock: it reads the environment of trainers in /proc, which Landlock
 * forbids. */
#pragma once

#include "base/fault.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum confine_wish {
	/* As far as build and kernel support it; confine_describe says what is missing. */
	CONFINE_AUTO,
	CONFINE_ON, /* in full, or the daemon does not start */
	CONFINE_OFF,
};

/* What the process may do below a place. */
enum confine_access {
	CONFINE_READ, /* read files and list folders */
	CONFINE_READ_FILES, /* read files, but not list folders */
	CONFINE_WRITE, /* also write, create, rename, link and remove; no devices */
};

struct confine_place {
	/* An absolute path of a folder or a file. Where it is NULL or does not exist, the place is
	 * ignored. */
	const char *path;
	enum confine_access access;
	bool must; /* exist: otherwise confine_files fails */
};

/* What is in force. The functions below write it; one thread calls them all. */
struct confine_state {
	bool no_new_privs;
	bool core_files;
	unsigned landlock; /* the ABI version in use; 0: Landlock is not used */
	/* TCP: listening on at most one port, and connections to none, or to the given ports */
	bool ports;
	bool scoped; /* no signals and no abstract sockets to processes outside */
	bool calls;
	bool network; /* with `calls`: connections to servers are possible */
	char files_missing[160]; /* why Landlock is not used although it was requested; or "" */
	char calls_missing[160]; /* the same for seccomp */
};

/* Takes away new privileges by execve. Unless `core_files`, also turns off core files, which would
 * contain samples and pixels, and leaves memory out of cores that are piped into a program. Call it
 * before there are threads. 0, or a negative errno with a fault. */
int confine_begin(bool core_files, struct confine_state *state, struct fault *fault);

struct confine_files_options {
	const struct confine_place *places;
	size_t count;
	uint16_t port; /* the TCP port that the process may listen on; 0: none */
	bool any_port; /* it may listen on any, because the port is not known yet */
	bool abstract; /* it needs sockets without a path (NOTIFY_SOCKET=@...) */
	/* TCP ports that it may connect to, on any host; none: no connections. */
	const uint16_t *connect;
	size_t connect_count;
};

/* Forbids all files except those below the places, by the newest Landlock ABI of the kernel. Where
 * the kernel has no Landlock, sets `files_missing` and returns 0: then only the daemon's own checks
 * remain (base/host/roots.h). Call it before there are threads. 0, or a negative errno with a
 * fault. */
int confine_files(const struct confine_files_options *options, struct confine_state *state,
	struct fault *fault);

/* Refuses, for every thread of the process, all system calls except those that a running daemon
 * makes. `network`: it reads URLs, and may connect to servers. 0, or a negative errno with a fault
 * where `wish` is CONFINE_ON and seccomp cannot be used (-ENOSYS: not built in). With CONFINE_AUTO,
 * `calls_missing` then says why. */
int confine_calls(
	enum confine_wish wish, bool network, struct confine_state *state, struct fault *fault);

/* The same for the flight recorder's process. It is allowed more, because NVIDIA's library maps
 * code and uses ioctl on its devices. Does nothing where seccomp cannot be used: the daemon reports
 * that. */
void confine_witness(enum confine_wish wish);

/* One sentence about what is in force: "no new privileges; no core files; ...". */
void confine_describe(const struct confine_state *state, char *buffer, size_t room);
