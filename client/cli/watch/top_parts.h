/* top_parts: what the files of top_view share. See top_view.h. */
#pragma once

#include "client/cli/watch/columns.h"
#include "client/cli/watch/top_view.h"

/* The number under a key; NAN when it is missing or none. */
double top_number(const struct node *object, const char *key);
/* How much a number under `path` ("stages", "decode") grew per second since the answer before; NAN
 * when it is not known. */
double top_rate(const struct top_view *view, const char *object, const char *key);
/* a / b within 0 .. 1; NAN where either is not known. */
double top_share(double a, double b);

/* Each writes into `buffer` and returns it; "" for NAN. */
const char *top_percent(double share, char *buffer, size_t room); /* 62 % */
const char *top_bytes(double bytes, char *buffer, size_t room); /* 61.2 MiB */
const char *top_bytes_of(double used, double total, char *buffer, size_t room); /* 3.1 of 8.0 GiB */
const char *top_count(double value, char *buffer, size_t room); /* 1,234,567 */

/* How alarming it is that somebody waits for this share of the time. */
unsigned top_wait_attr(double share);

/* The stream that the whole daemon's verdict is about: the one whose trainers wait most; NULL when
 * there is none. */
const struct node *top_worst(const struct node *root);

/* What waits of a stream's trainers is known: the share of the time. NAN: nothing. */
double top_waits(const struct node *stream);

/* top_head.c: one part of the head each; a paper gets as many lines as it takes. */
void top_title(const struct top_view *view, struct paper *paper);
void top_gone(const struct top_view *view, struct paper *paper);
void top_verdict(const struct top_view *view, struct paper *paper);
/* Bars: evidence, processors, memory, machine, devices, from what matters most on. */
void top_facts(const struct top_view *view, struct paper *paper);

/* "label      text", wrapped under its beginning; nothing for an empty text. */
void top_line(struct paper *paper, const char *label, unsigned attr, const char *text);
/* "label      ######---- text". */
void top_bar_line(const struct top_view *view, struct paper *paper, const char *label, double share,
	const char *text);

/* top_table.c. The rows of the answer in the order asked for. */
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

/* 0 or -ENOMEM. `only`: trainers of this stream and no other. */
int top_rows_streams(const struct top_view *view, int width, struct top_rows *ret_rows);
int top_rows_trainers(
	const struct top_view *view, const struct node *only, int width, struct top_rows *ret_rows);
void top_rows_free(struct top_rows *rows);
/* What a stream is found again by. */
void top_identity(const struct node *stream, char *buffer, size_t room);
/* "newest first", "waits" ... */
const char *top_order_name(enum top_page page, unsigned order);
unsigned top_orders(enum top_page page);

/* top_pages.c: whole pages, as long as they are. */
void top_page_stream(const struct top_view *view, const struct node *stream, struct paper *paper);
void top_page_memory(const struct top_view *view, struct paper *paper);
void top_page_notices(const struct top_view *view, struct paper *paper);
void top_page_help(struct paper *paper);
