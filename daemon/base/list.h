/* list: doubly linked lists whose links are inside the elements.
 *
 *   struct client { struct list_node node; ... };
 *   struct list_head clients = {0};                      empty
 *   list_append(&clients, &client->node);
 *   list_each (client, &clients, struct client, node)
 *           client_tell(client);
 *
 * An element that may be on several lists at once has a node for each. Nothing is allocated, and
 * adding and removing take constant time. A zeroed head is an empty list; an element that is on no
 * list has no particular node. As a queue: list_append, and list_take for the oldest. No lock: the
 * owner of a list has one where several threads use it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list_node {
	struct list_node *next, *previous; /* NULL at the ends */
};

struct list_head {
	struct list_node *first, *last; /* NULL where the list is empty */
};

static inline bool list_is_empty(const struct list_head *list)
{
	return !list->first;
}

/* Puts a node after `previous`, which is on the list; NULL: at the beginning. */
static inline void list_insert(
	struct list_head *list, struct list_node *previous, struct list_node *node)
{
	node->previous = previous;
	node->next = previous ? previous->next : list->first;
	*(previous ? &previous->next : &list->first) = node;
	*(node->next ? &node->next->previous : &list->last) = node;
}

static inline void list_append(struct list_head *list, struct list_node *node)
{
	list_insert(list, list->last, node);
}

static inline void list_prepend(struct list_head *list, struct list_node *node)
{
	list_insert(list, NULL, node);
}

/* `node` is on this list. */
static inline void list_remove(struct list_head *list, struct list_node *node)
{
	*(node->previous ? &node->previous->next : &list->first) = node->next;
	*(node->next ? &node->next->previous : &list->last) = node->previous;
}

/* Removes the first node and returns it; NULL where there is none. */
static inline struct list_node *list_take_node(struct list_head *list)
{
	struct list_node *node = list->first;
	if (node)
		list_remove(list, node);
	return node;
}

/* Moves all of `from` to the end of `list`; `from` is empty afterwards. */
static inline void list_join(struct list_head *list, struct list_head *from)
{
	if (list_is_empty(from))
		return;
	from->first->previous = list->last;
	*(list->last ? &list->last->next : &list->first) = from->first;
	list->last = from->last;
	*from = (struct list_head){NULL, NULL};
}

static inline void *list_element(const struct list_node *node, size_t offset)
{
	return node ? (char *)node - offset : NULL;
}

/* The element whose member `member` is `node`; NULL for NULL. */
#define list_of(node, type, member) ((type *)list_element((node), offsetof(type, member)))

/* The first element of a list, and the first one taken off it; NULL: it is empty. */
#define list_first(list, type, member) list_of((list)->first, type, member)
#define list_take(list, type, member) list_of(list_take_node(list), type, member)

/* The element after this one; NULL after the last. */
#define list_next(element, member) list_of((element)->member.next, __typeof__(*(element)), member)

// NOLINTBEGIN(bugprone-macro-parentheses): `type` and `element` declare a variable.
/* Walks a list from its first element on. The body may not remove elements. */
#define list_each(element, list, type, member)                        \
	for (type *element = list_first(list, type, member); element; \
		element = list_next(element, member))

/* The same; the body may remove `element`, and free it. */
#define list_each_removable(element, list, type, member)                         \
	for (type *element = list_first(list, type, member),                     \
		  *element##_next = element ? list_next(element, member) : NULL; \
		element; element = element##_next,                               \
		  element##_next = element ? list_next(element, member) : NULL)
// NOLINTEND(bugprone-macro-parentheses)
