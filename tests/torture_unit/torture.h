/* torture: runs every operation with each of its system calls failing in turn.
 *
 *   torture.[ch]   the walk: a scenario is run once to see which calls it makes, then again and
 *                  again in a process of its own, each time with one of them failing
 *   calls*.[ch]    the calls: this program's own malloc, open, mmap, ..., which libraries call too
 *   source.c ...   the scenarios, one file per area
 *
 * A scenario runs a whole operation between torture_on() and torture_off() and reports the result:
 * correct, or refused with a sentence. Anything else is a finding: a signal, a hang, a wrong
 * result, a refusal without a sentence, a descriptor, mapping, thread or (with LeakSanitizer) block
 * of memory that stays.
 *
 * A scenario's process has one thread when it starts. Folders: `torture_room` is its own and fresh,
 * `torture_shared` was filled by its `prepare`, once, and may not be changed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct torture_scenario {
	const char *name;
	void (*prepare)(
		void); /* NULL, or run once, in a process of its own: fills torture_shared */
	void (*run)(void);
};

extern char torture_room[96], torture_shared[96];

/* torture_shared/NAME, torture_room/NAME; in one of eight buffers, taken in turn. */
char *torture_given(const char *name);
char *torture_own(const char *name);

/* Calls fail between these. Threads that were started there go on failing until torture_off. */
void torture_on(void);
void torture_off(void);

/* Nothing fails any more, even after torture_on. */
void torture_over(void);

/* Whether a call was made to fail so far; and whether it was this one. */
bool torture_struck(void);
bool torture_struck_by(const char *call);

/* The result; the first reported refusal or fault counts. `sentence`: the text for a person. */
void torture_refused(int code, const char *sentence);
/* A refusal where the interface has no sentence: NULL, false, only a code. */
void torture_mute(int code);
void torture_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A condition that must hold whatever fails. */
#define TORTURE_WANT(condition)                                                     \
	do {                                                                        \
		if (!(condition))                                                   \
			torture_wrong("%s:%d: %s", __FILE__, __LINE__, #condition); \
	} while (0)

/* Lists of scenarios, each ended by a zeroed one; and a program's lists, ended by NULL. */
extern const struct torture_scenario torture_base[], torture_source[], torture_stream[],
	torture_pixels[], torture_record[], torture_pack[];
extern const struct torture_scenario *const torture_lists[];
