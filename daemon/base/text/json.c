/* json: see json.h.
 *
 * jansson cannot be told to stop, so a failed allocation jumps out of it. Meanwhile each of its
 * pieces of memory is in a list, so that none is lost. */
#include "base/text/json.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Lies before each piece. */
union piece {
	struct {
		union piece *next, *previous; /* while its thread reads */
	};
	max_align_t align;
};

/* What this thread reads. */
static _Thread_local struct {
	bool now;
	union piece *pieces;
	jmp_buf no_memory;
} reading;

static void piece_link(union piece *piece)
{
	piece->previous = NULL;
	piece->next = reading.pieces;
	if (piece->next)
		piece->next->previous = piece;
	reading.pieces = piece;
}

static void piece_unlink(union piece *piece)
{
	if (piece->next)
		piece->next->previous = piece->previous;
	if (piece->previous)
		piece->previous->next = piece->next;
	else
		reading.pieces = piece->next;
}

static void *piece_new(size_t size)
{
	union piece *piece = size <= SIZE_MAX - sizeof *piece ? malloc(sizeof *piece + size) : NULL;
	if (!piece && reading.now)
		longjmp(reading.no_memory, 1);
	if (piece && reading.now)
		piece_link(piece);
	return piece ? piece + 1 : NULL;
}

static void piece_free(void *memory)
{
	if (!memory)
		return;
	union piece *piece = (union piece *)memory - 1;
	/* While a thread reads, it releases only what it has allocated meanwhile. */
	if (reading.now)
		piece_unlink(piece);
	free(piece);
}

/* Before main: what jansson allocates is released by the functions of that time. */
__attribute__((constructor)) static void json_begin(void)
{
	json_set_alloc_funcs(piece_new, piece_free);
}

void json_text_free(char *text)
{
	piece_free(text);
}

/* Releases what was allocated until memory ran out. */
static void give_up(json_error_t *error)
{
	while (reading.pieces) {
		union piece *piece = reading.pieces;
		reading.pieces = piece->next;
		free(piece);
	}
	if (error) {
		*error = (json_error_t){.line = -1, .column = -1};
		(void)snprintf(error->text, sizeof error->text, "not enough memory");
	}
}

/* Whether the text has more than `most` parts; says where. */
static bool has_more_parts(const char *text, size_t size, size_t most, json_error_t *error)
{
	size_t parts = 0;
	int line = 1;
	for (size_t i = 0; most && i < size; i++) {
		line += text[i] == '\n';
		parts += text[i] == '{'   ? JSON_OBJECT_PARTS
			 : text[i] == '[' ? JSON_ARRAY_PARTS
					  : text[i] == ',';
		if (parts <= most)
			continue;
		if (error) {
			*error = (json_error_t){.line = line};
			(void)snprintf(error->text, sizeof error->text,
				"more than %zu values, where a list counts as %d and an object as "
				"%d",
				most, JSON_ARRAY_PARTS, JSON_OBJECT_PARTS);
		}
		return true;
	}
	return false;
}

json_t *json_read(const char *text, size_t size, size_t parts, size_t flags, json_error_t *error)
{
	if (has_more_parts(text, size, parts, error))
		return NULL;
	reading.pieces = NULL;
	reading.now = true;
	if (setjmp(reading.no_memory)) {
		reading.now = false;
		give_up(error);
		return NULL;
	}
	json_t *root = json_loadb(text, size, flags, error);
	reading.now = false;
	return root;
}
