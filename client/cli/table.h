/* table: numbers and columns as people read them. Any thread; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each writes into `buffer` and returns it. 24 bytes suffice, but for counts of 10^18 and more,
 * which are cut. */
const char *table_count(uint64_t value, char *buffer, size_t room); /* 1,234,567 */
const char *table_rate(double rate, char *buffer, size_t room); /* 12.3, 1,235 */
const char *table_bytes(uint64_t bytes, char *buffer, size_t room); /* 37.5 MiB */
const char *table_clock(double seconds, char *buffer, size_t room); /* 0:12, 1:02:03 */
const char *table_seconds(
	double seconds, char *buffer, size_t room); /* 43 ms, 1.25 s, 17.3 s, 240 s */

enum { TABLE_COLUMNS = 12, TABLE_CELL = 192 };

/* Rows of cells, printed with each column as wide as its widest cell. */
struct table;

struct table *table_new(void); /* NULL when memory is out */
void table_free(struct table *table);

/* Appends a cell to the last row. Cells whose text is too long are cut. `right`: numbers. What
 * there is no memory for is missing, and table_print says so. */
void table_row(struct table *table);
void table_cell(struct table *table, bool right, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Prints the rows to stdout, two columns apart, `indent` from the left; nothing is cut. */
void table_print(const struct table *table, int indent);

/* Prints "  label        sentence", the label `columns` wide, the sentence wrapped at `width` under
 * its own beginning. */
void table_sentence(int indent, int columns, const char *label, const char *sentence, int width);

/* Prints the sentence from the left edge on, wrapped at `width`, its other lines indented by
 * `hang`.
 */
void table_paragraph(int hang, const char *sentence, int width);
