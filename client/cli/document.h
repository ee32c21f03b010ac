/* document: reads the JSON of the daemon's answers. Any thread.
 *
 * Only document.c includes jansson, whose names collide with those of proto/jsontext.h. Every
 * function accepts a NULL node and returns the fallback, so that the answer of an older or newer
 * daemon shows what it has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node;

/* NULL if the text is not JSON. */
struct node *document_parse(const char *text);
void document_free(struct node *root);

/* The value of `key` in an object; NULL if it has none. */
const struct node *document_get(const struct node *object, const char *key);
double document_number(const struct node *object, const char *key, double fallback);
uint64_t document_u64(const struct node *object, const char *key, uint64_t fallback);
const char *document_text(const struct node *object, const char *key, const char *fallback);
bool document_bool(const struct node *object, const char *key, bool fallback);

/* Makes all its strings safe for a terminal: cli_tame. */
void document_tame(struct node *root);

/* Elements of an array, entries of an object; 0 for anything else. */
size_t document_count(const struct node *node);
/* `ret_key` may be NULL, and is not written for an array. */
const struct node *document_at(const struct node *node, size_t i, const char **ret_key);

/* The number or the string that the node itself is; 0 and "" if it is not one. */
double document_value(const struct node *node);
const char *document_string(const struct node *node);

/* A number as a count: 0 if it is negative or NaN, UINT64_MAX if it is too large. */
uint64_t document_whole(double value);

/* Adds the numbers in the object `key` of `from` to those in the object `key` of `into`, which gets
 * the names that it lacks. */
void document_sum(struct node *into, const struct node *from, const char *key);

/* As text, malloc'ed; "{}" for a NULL node. NULL if memory runs out. */
char *document_dump(const struct node *node);
