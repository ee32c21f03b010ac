/* table: see table.h. */
#include "client/cli/table.h"

#include "base/array.h"
#include "base/size.h"
#include "base/util.h"
#include "proto/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table_one {
	char *text;
	bool right;
};

struct table_line {
	struct table_one cell[TABLE_COLUMNS];
	int cells;
};

struct table {
	struct table_line *line;
	size_t rows, room;
	bool failed; /* memory ran out: no more rows or cells are taken */
};

__attribute__((format(printf, 1, 2))) static struct table_words table_print_words(
	const char *format, ...)
{
	struct table_words words;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(words.text, sizeof words.text, format, args);
	va_end(args);
	return words;
}

struct table_words table_count(uint64_t value)
{
	struct table_words words;
	char digits[24];
	int n = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
	char *at = words.text;
	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*at++ = ',';
		*at++ = digits[i];
	}
	*at = 0;
	return words;
}

struct table_words table_rate(double rate)
{
	return rate >= 100 ? table_count((uint64_t)(UTIL_MIN(rate, 1e15) + 0.5))
			   : table_print_words("%.1f", rate);
}

struct table_words table_bytes(uint64_t bytes)
{
	struct table_words words;
	(void)size_format(bytes, words.text, sizeof words.text);
	return words;
}

struct table_words table_clock(double seconds)
{
	uint64_t s = seconds < 3.6e8 ? (uint64_t)(UTIL_MAX(seconds, 0.0) + 0.5) : 360000000;
	unsigned hours = (unsigned)(s / 3600), minutes = (unsigned)(s / 60 % 60);
	return hours ? table_print_words("%u:%02u:%02u", hours, minutes, (unsigned)(s % 60))
		     : table_print_words("%u:%02u", minutes, (unsigned)(s % 60));
}

struct table_words table_seconds(double seconds)
{
	if (seconds < 0.9995)
		return table_print_words(seconds < 0.01 ? "%.2f ms" : "%.0f ms", seconds * 1e3);
	return table_print_words(seconds < 10    ? "%.2f s"
				 : seconds < 100 ? "%.1f s"
						 : "%.0f s",
		seconds);
}

struct table *table_new(void)
{
	return calloc(1, sizeof(struct table));
}

void table_free(struct table *table)
{
	for (size_t r = 0; table && r < table->rows; r++)
		for (int c = 0; c < table->line[r].cells; c++)
			free(table->line[r].cell[c].text);
	if (table)
		free(table->line);
	free(table);
}

void table_row(struct table *table)
{
	struct table_line *line = array_grown(table->line, table->rows, &table->room, sizeof *line);
	table->failed |= !line;
	table->line = line ? line : table->line;
	if (!table->failed)
		table->line[table->rows++] = (struct table_line){.cells = 0};
}

void table_cell(struct table *table, bool right, const char *format, ...)
{
	char text[TABLE_CELL];
	struct table_line *line = table->rows ? &table->line[table->rows - 1] : NULL;
	if (table->failed || !line || line->cells == TABLE_COLUMNS)
		return;
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	char *kept = strdup(text);
	table->failed = !kept;
	if (kept)
		line->cell[line->cells++] = (struct table_one){.text = kept, .right = right};
}

static void table_put(const struct table_one *cell, int width, bool last)
{
	int pad = UTIL_MAX(width - (int)utf8_count(cell->text), 0);
	if (cell->right)
		(void)printf("%*s%s", pad, "", cell->text);
	else
		(void)printf("%s%*s", cell->text, last ? 0 : pad, "");
	(void)printf("%s", last ? "" : "  ");
}

void table_print(const struct table *table, int indent)
{
	int wide[TABLE_COLUMNS] = {0};
	for (size_t r = 0; r < table->rows; r++)
		for (int c = 0; c < table->line[r].cells; c++)
			wide[c] = UTIL_MAX(wide[c], (int)utf8_count(table->line[r].cell[c].text));
	for (size_t r = 0; r < table->rows; r++) {
		const struct table_line *line = &table->line[r];
		(void)printf("%*s", indent, "");
		for (int c = 0; c < line->cells; c++)
			table_put(&line->cell[c], wide[c], c + 1 == line->cells);
		(void)printf("\n");
	}
	if (table->failed)
		(void)printf("%*s(no memory for more of this table)\n", indent, "");
}

/* A number and its unit stay together. */
static bool table_glued(const char *word, int length)
{
	static const char *const units[] = {
		"B", "KiB", "MiB", "GiB", "TiB", "s", "ms", "min", "h", "d", "%", "images/s"};
	const char *next = word + length + strspn(word + length, " ");
	size_t size = strcspn(next, " ,;:()");
	if (!length || word[length - 1] < '0' || word[length - 1] > '9')
		return false;
	for (size_t i = 0; i < UTIL_COUNT(units); i++)
		if (strlen(units[i]) == size && strncmp(next, units[i], size) == 0)
			return true;
	return false;
}

/* Bytes up to the next place where a line may break. */
static int table_word(const char *sentence)
{
	int length = (int)strcspn(sentence, " ");
	if (table_glued(sentence, length))
		length += 1 + (int)strcspn(sentence + length + 1, " ");
	return length;
}

/* A word that is longer than a line is broken: a path after a slash, so that the name of the file
 * stays whole. */
static int table_cut(const char *word, int length, int room)
{
	int at = room;
	if (length <= room || room <= 0)
		return length;
	while (at > 1 && word[at - 1] != '/')
		at--;
	return at > 1 ? at : room;
}

/* Prints words from the column `at` on; what does not fit goes below the column `begin`. */
static void table_wrap(int at, int begin, const char *sentence, int width)
{
	bool first = true, is_cut = false;
	while (*sentence) {
		int whole = table_word(sentence);
		int length = table_cut(sentence, whole, width - begin);
		if (!first && (is_cut || at + 1 + length > width)) {
			(void)printf("\n%*s", begin, "");
			at = begin;
			first = true;
		}
		at += printf("%s%.*s", first ? "" : " ", length, sentence);
		first = false;
		is_cut = length < whole;
		sentence += length;
		sentence += strspn(sentence, " ");
	}
	(void)printf("\n");
}

void table_sentence(int indent, int columns, const char *label, const char *sentence, int width)
{
	int begin = indent + columns + 1;
	(void)printf("%*s%-*s ", indent, "", columns, label);
	table_wrap(begin, begin, sentence, width);
}

void table_paragraph(int hang, const char *sentence, int width)
{
	table_wrap(0, hang, sentence, width);
}
