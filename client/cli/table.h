/* table: numbers and columns as people read them. Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number in words, by value: table_count(n).text is an argument of printf. It lives until the end
 * of the full expression, so never return it or keep a pointer to it. */
struct table_words {
	char text[28];
};

struct table_words table_count(uint64_t value); /* 1,234,567 */
struct table_words table_rate(double rate); /* 12.3, 1,235 */
struct table_words table_bytes(uint64_t bytes); /* 37.5 MiB */
struct table_words table_clock(double seconds); /* 0:12, 1:02:03 */
struct table_words table_seconds(double seconds); /* 43 ms, 1.25 s, 17.3 s, 240 s */

enum { TABLE_COLUMNS = 12, TABLE_CELL = 192 };

/* Rows of cells. Each column is as wide as its widest cell. */
struct table;

struct table *table_new(void); /* NULL if memory runs out */
void table_free(struct table *table);

/* Begins a row; appends a cell to the last row, aligned to the right for numbers. A cell's text is
 * cut at TABLE_CELL bytes. If memory runs out, the rest is missing, and table_print says so. */
void table_row(struct table *table);
void table_cell(struct table *table, bool right, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Prints the rows on stdout, the columns two cells apart, indented by `indent`. */
void table_print(const struct table *table, int indent);

/* Prints "  label        sentence": the label `columns` wide, the sentence wrapped at `width` and
 * aligned with its beginning. */
void table_sentence(int indent, int columns, const char *label, const char *sentence, int width);

/* Prints the sentence wrapped at `width`; all lines but the first are indented by `hang`. */
void table_paragraph(int hang, const char *sentence, int width);
