/* top_parts: what top_view.c, top_head.c, top_table.c and top_pages.c share. */
#pragma once

#include "client/cli/watch/columns.h"
#include "client/cli/watch/top_view.h"

/* The number under a key; NAN if it is missing or not a number. */
double top_number(const struct node *object, const char *key);
/* How much the number under `key` of `object` ("stages", "decode") grew per second since the
 * previous answer; NAN if unknown. */
double top_rate(const struct top_view *view, const char *object, const char *key);
/* a / b, clamped to 0 .. 1; NAN if either is unknown. */
double top_share(double a, double b);

/* Each function writes into `buffer` and returns it; "" for NAN. */
const char *top_percent(double share, char *buffer, size_t room); /* 62 % */
const char *top_bytes(double bytes, char *buffer, size_t room); /* 61.2 MiB */
const char *top_bytes_of(double used, double total, char *buffer, size_t room); /* 3.1 of 8.0 GiB */
const char *top_count(double value, char *buffer, size_t room); /* 1,234,567 */

/* The attribute for a share of time spent waiting: the more, the more alarming. */
unsigned top_wait_attr(double share);

/* The stream that the verdict on the whole daemon is about: the one whose trainers wait most. NULL:
 * there is no stream. */
const struct node *top_worst(const struct node *root);

/* The share of time that the trainers of a stream wait. NAN: unknown. */
double top_waits(const struct node *stream);

/* top_head.c: each function writes one part of the head, in as many lines as it takes. */
void top_title(const struct top_view *view, struct paper *paper);
void top_gone(const struct top_view *view, struct paper *paper);
void top_verdict(const struct top_view *view, struct paper *paper);
/* Bars: evidence, CPUs, memory, machine, GPUs; the most important first. */
void top_facts(const struct top_view *view, struct paper *paper);

/* "label      text", wrapped under the beginning of the text; nothing for an empty text. */
void top_line(struct paper *paper, const char *label, unsigned attr, const char *text);
/* "label      ######---- text". */
void top_bar_line(const struct top_view *view, struct paper *paper, const char *label, double share,
	const char *text);

/* top_table.c: the rows of the answer in the order that the user chose. */
struct top_row {
	const struct node *stream, *trainer; /* trainer NULL: a row of streams */
	double key;
	size_t place; /* in the answer */
};

struct top_rows {
	struct top_row *row;
	size_t count;
	const struct top_view *view;
	bool several; /* trainers of more than one stream */
	struct columns columns;
};

/* 0 or -ENOMEM. `only`: only trainers of this stream. */
int top_rows_streams(const struct top_view *view, int width, struct top_rows *ret_rows);
int top_rows_trainers(
	const struct top_view *view, const struct node *only, int width, struct top_rows *ret_rows);
void top_rows_free(struct top_rows *rows);
/* The text by which top_view finds a stream again in the next answer. */
void top_identity(const struct node *stream, char *buffer, size_t room);
/* "newest first", "waits" ... */
const char *top_order_name(enum top_page page, unsigned order);
unsigned top_orders(enum top_page page);

/* top_pages.c: whole pages, of any length. */
void top_page_stream(const struct top_view *view, const struct node *stream, struct paper *paper);
void top_page_memory(const struct top_view *view, struct paper *paper);
void top_page_notices(const struct top_view *view, struct paper *paper);
void top_page_help(struct paper *paper);
