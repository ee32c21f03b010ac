/* error: one sentence per thread, so that a call needs no extra argument and threads do not mix
 * theirs up.
 *
 * A success leaves the sentence alone: penstock_error() is about the last failure. Thread: any.
 *
 * A thread's room is kept under a key, not in a thread-local variable. The C library allocates the
 * thread-local variables of a library that was loaded late (a Python extension) at a thread's first
 * use, and ends the process if it has no memory for them. */
#include "client/lib/error.h"

#include "penstock/penstock.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
	pthread_once_t once;
	pthread_key_t key;
	atomic_bool keyed;
	/* There was no memory for some thread's sentence: a thread without one may be that
	 * thread. */
	atomic_bool lost;
} error = {.once = PTHREAD_ONCE_INIT};

static const char error_lost[] =
	"a call failed, and there is no memory for a sentence that says why";

static void error_begin(void)
{
	error.keyed = pthread_key_create(&error.key, free) == 0;
}

/* Keys are few, and the library may be unloaded and loaded again. */
__attribute__((destructor)) static void error_end(void)
{
	if (atomic_exchange(&error.keyed, false))
		(void)pthread_key_delete(error.key);
}

static char *error_room(void)
{
	(void)pthread_once(&error.once, error_begin);
	return error.keyed ? pthread_getspecific(error.key) : NULL;
}

/* NULL: no memory. */
static char *error_room_made(void)
{
	char *room = error_room();
	if (room || !error.keyed)
		return room;
	room = malloc(ERROR_TEXT);
	if (room && pthread_setspecific(error.key, room) != 0) {
		free(room);
		room = NULL;
	}
	return room;
}

int error_set(int code, const char *format, ...)
{
	/* Built aside: the arguments may contain the sentence that is there now. */
	char text[ERROR_TEXT];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return error_take(code, text, strlen(text));
}

int error_take(int code, const char *text, size_t text_bytes)
{
	char *room = error_room_made();
	if (!room) {
		error.lost = true;
		return code;
	}
	if (text_bytes >= ERROR_TEXT)
		text_bytes = ERROR_TEXT - 1;
	for (size_t i = 0; i < text_bytes; i++) {
		unsigned char c = (unsigned char)text[i];
		room[i] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
	}
	room[text_bytes] = '\0';
	return code;
}

const char *error_text(void)
{
	const char *room = error_room();
	if (room)
		return room;
	return error.lost ? error_lost : "";
}

const char *penstock_error(void)
{
	return error_text();
}

void penstock_error_set(const char *sentence)
{
	(void)error_take(0, sentence, strlen(sentence));
}

const char *penstock_version(void)
{
	return PENSTOCK_VERSION;
}
