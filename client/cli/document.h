/* document: reads the JSON that the daemon answers with. Any thread.
 *
 * The one place that knows the reading library: its names and those of proto/jsontext.h, which
 * writes, collide. Every reader takes a NULL node and gives the fallback, so that an answer of an
 * older or newer daemon shows what it has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node;

/* NULL when the text is no JSON. */
struct node *document_parse(const char *text);
void document_free(struct node *root);

/* What lies under `key` of an object; NULL when it is not there. */
const struct node *document_get(const struct node *object, const char *key);
double document_number(const struct node *object, const char *key, double fallback);
uint64_t document_u64(const struct node *object, const char *key, uint64_t fallback);
const char *document_text(const struct node *object, const char *key, const char *fallback);
bool document_bool(const struct node *object, const char *key, bool fallback);

/* Makes all its texts fit for a terminal: cli_tame. */
void document_tame(struct node *root);

/* Elements of an array, entries of an object; 0 for anything else. */
size_t document_count(const struct node *node);
/* `ret_key` may be NULL; it is left alone for an array. */
const struct node *document_at(const struct node *node, size_t i, const char **ret_key);

/* The number, the text that a node itself is; 0 and "" where it is none. */
double document_value(const struct node *node);
const char *document_string(const struct node *node);

/* A number as a count of something: what is less than 0 or no number is 0, what is too much the
 * most. */
uint64_t document_whole(double value);

/* Adds the numbers in the object `key` of `from` to those of `into`, which gets what it lacks. */
void document_sum(struct node *into, const struct node *from, const char *key);

/* As text, malloc'ed; "{}" for a NULL node. NULL when memory is out. */
char *document_dump(const struct node *node);
