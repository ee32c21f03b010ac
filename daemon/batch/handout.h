/* handout: shared memory that clients have been given, and whether they still have it.
 *
 * Memory that a client has mapped stays allocated until the client lets go, whatever the daemon
 * does: a sealed memfd can neither be shrunk nor punched. So the daemon has to know. Once the
 * daemon has closed and unmapped a memfd itself, the kernel reports when it is destroyed (inotify,
 * IN_DELETE_SELF). That is when no process has a descriptor of it any more (including O_PATH, and
 * descriptors still queued in a socket), nor a mapping, nor a file opened anew from one of those.
 *
 * Clients get an open file of their own, which is read-only unless they may write. So the seals are
 * only the second thing that stops a writer.
 *
 * This needs /proc and an inotify watch. Without /proc clients get the memfd itself; without one of
 * them the daemon cannot know whether clients still have the memory.
 *
 * Any thread; a handout belongs to one thread at a time. */
#pragma once

#include <stdbool.h>

struct handout_watch;

struct handout {
	int give; /* the descriptor for clients; -1: closed */
	struct handout_watch *watch; /* NULL: the daemon cannot know */
};

#define HANDOUT_NONE ((struct handout){.give = -1, .watch = NULL})

/* Opens inotify, once. The first handout would do so too; calling this at the start means that no
 * stream adds a descriptor that stays. */
void handout_begin(void);

/* Takes over `memfd` and closes it; cannot fail. */
struct handout handout_make(int memfd, bool writable);

/* Closes the descriptor for clients. Once the daemon has unmapped the memory too, handout_is_held
 * may be asked. */
void handout_end(struct handout *handout);

/* Reads from inotify which handouts clients have let go of: handout_is_held answers as of the last
 * of these calls. */
void handout_look(void);

/* Whether a client still has it, after handout_end. False where the daemon cannot know. */
bool handout_is_held(const struct handout *handout);

void handout_deinit(struct handout *handout);
