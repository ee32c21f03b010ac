/* paper: see paper.h. */
#include "client/cli/watch/paper.h"

#include "base/util.h"
#include "proto/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

enum { PAPER_TEXT = 2048, PAPER_STEP = 32 };

void paper_init(struct paper *paper, int width, bool utf8)
{
	*paper = (struct paper){.width = UTIL_MAX(width, 1), .utf8 = utf8};
}

void paper_free(struct paper *paper)
{
	free(paper->cells);
	paper->cells = NULL;
	paper->rows = paper->room = 0;
}

static struct paper_cell *paper_row(const struct paper *paper, int row)
{
	return paper->cells + (size_t)row * (size_t)paper->width;
}

const struct paper_cell *paper_at(const struct paper *paper, int row, int column)
{
	bool inside = row >= 0 && row < paper->rows && column >= 0 && column < paper->width;
	return inside ? paper_row(paper, row) + column : NULL;
}

void paper_line(struct paper *paper)
{
	if (paper->rows == paper->room) {
		int room = paper->room + paper->room / 2 + PAPER_STEP;
		struct paper_cell *cells =
			realloc(paper->cells, (size_t)room * (size_t)paper->width * sizeof *cells);
		if (!cells) {
			paper->failed = true;
			return;
		}
		paper->cells = cells;
		paper->room = room;
	}
	struct paper_cell *row = paper_row(paper, paper->rows++);
	for (int i = 0; i < paper->width; i++)
		row[i] = (struct paper_cell){.text = " "};
	paper->at = 0;
}

/* Characters that move other characters or change their direction: a name must not do that. */
static bool paper_steers(int32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0xad ||
	       (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
	       (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
}

/* Takes one character off the text and writes how to show it. Returns its columns: 0 for a mark
 * that combines with the character before. */
static int paper_take(const char **text, bool utf8, char ret_glyph[PAPER_GLYPH])
{
	size_t length;
	int32_t point = utf8_decode(*text, &length);
	const char *from = *text;
	int columns = 1;
	*text += length;
	if (point < 0 || paper_steers(point) || (point >= 0x80 && !utf8))
		columns = -1;
	else if (point >= 0x80)
		columns = wcwidth((wchar_t)point);
	if (columns < 0) {
		(void)memcpy(ret_glyph, "?", 2);
		return 1;
	}
	(void)memcpy(ret_glyph, from, length);
	ret_glyph[length] = 0;
	return columns;
}

int paper_columns(const char *text, bool utf8)
{
	char glyph[PAPER_GLYPH];
	int columns = 0;
	while (*text)
		columns += paper_take(&text, utf8, glyph);
	return columns;
}

static void paper_combine(struct paper *paper, const char *glyph)
{
	struct paper_cell *row = paper_row(paper, paper->rows - 1);
	int column = paper->at - 1;
	if (column > 0 && !row[column].text[0])
		column--;
	if (column < 0)
		return;
	char *to = row[column].text;
	size_t have = strlen(to), more = strlen(glyph);
	if (have + more < PAPER_GLYPH)
		(void)memcpy(to + have, glyph, more + 1);
}

/* Writes the text up to column `end`, exclusive. Returns the rest of the text. */
static const char *paper_write(struct paper *paper, unsigned attr, const char *text, int end)
{
	char glyph[PAPER_GLYPH];
	if (!paper->rows)
		return "";
	struct paper_cell *row = paper_row(paper, paper->rows - 1);
	while (*text) {
		const char *before = text;
		int columns = paper_take(&text, paper->utf8, glyph);
		if (columns == 0) {
			paper_combine(paper, glyph);
			continue;
		}
		if (paper->at + columns > end)
			return before;
		for (int i = 0; i < columns; i++) {
			struct paper_cell *cell = &row[paper->at++];
			cell->attr = (uint8_t)attr;
			(void)strcpy(cell->text, i ? "" : glyph);
		}
	}
	return text;
}

void paper_put(struct paper *paper, unsigned attr, const char *format, ...)
{
	char text[PAPER_TEXT];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	(void)paper_write(paper, attr, text, paper->width);
}

void paper_tab(struct paper *paper, int column)
{
	paper->at = UTIL_MAX(paper->at, UTIL_MIN(column, paper->width));
}

void paper_field(struct paper *paper, unsigned attr, const char *text, int columns, bool right)
{
	int begin = paper->at, end = UTIL_MIN(begin + columns, paper->width);
	int wanted = paper_columns(text, paper->utf8);
	if (right && wanted < columns)
		paper_tab(paper, begin + columns - wanted);
	if (wanted <= columns) {
		(void)paper_write(paper, attr, text, end);
	} else if (end > begin) {
		(void)paper_write(paper, attr, text, end - 1);
		(void)paper_write(paper, attr, paper->utf8 ? "…" : "~", end);
	}
	paper_tab(paper, begin + columns);
}

/* The next word of a sentence, cut if it is longer than a page. */
static const char *paper_word(const char *text, char *word, size_t room)
{
	size_t length = strcspn(text, " \n"), n = UTIL_MIN(length, room - 1);
	(void)memcpy(word, text, n);
	word[n] = 0;
	return text + length + strspn(text + length, " \n");
}

/* How many columns of a word fit into `room`: all, or those up to the last slash that fits, so
 * that the name at the end of a path stays whole. */
static int paper_part(const struct paper *paper, const char *word, int room)
{
	char part[PAPER_TEXT] = "";
	int best = room;
	if (paper_columns(word, paper->utf8) <= room)
		return room;
	for (size_t i = 0; word[i] && i + 1 < sizeof part; i++) {
		part[i] = word[i];
		if (i && word[i] == '/' && paper_columns(part, paper->utf8) <= room)
			best = paper_columns(part, paper->utf8);
	}
	return best;
}

/* Writes a word; a word longer than a line continues on the next line. */
static void paper_break(struct paper *paper, unsigned attr, const char *word, int begin)
{
	enum { WIDEST = 2 };
	while (*word && begin + WIDEST <= paper->width && !paper->failed) {
		int part = paper_part(paper, word, paper->width - paper->at);
		word = paper_write(paper, attr, word, paper->at + part);
		if (!*word)
			return;
		paper_line(paper);
		paper_tab(paper, begin);
	}
}

void paper_wrap(struct paper *paper, unsigned attr, const char *text)
{
	char word[PAPER_TEXT];
	int begin = paper->at;
	bool first = true;
	while (*text) {
		text = paper_word(text, word, sizeof word);
		int columns = paper_columns(word, paper->utf8);
		if (!first && paper->at + 1 + columns > paper->width) {
			paper_line(paper);
			paper_tab(paper, begin);
			first = true;
		}
		if (!first)
			(void)paper_write(paper, attr, " ", paper->width);
		paper_break(paper, attr, word, begin);
		first = false;
	}
}

void paper_mark(struct paper *paper, unsigned attr)
{
	if (!paper->rows)
		return;
	struct paper_cell *row = paper_row(paper, paper->rows - 1);
	for (int i = 0; i < paper->width; i++)
		row[i].attr |= (uint8_t)attr;
}

void paper_append(struct paper *paper, const struct paper *from, int first, int count)
{
	for (int i = UTIL_MAX(first, 0); i < UTIL_MIN(first + count, from->rows); i++) {
		int before = paper->rows;
		paper_line(paper);
		if (paper->rows > before && paper->width == from->width)
			(void)memcpy(paper_row(paper, before), paper_row(from, i),
				(size_t)paper->width * sizeof *paper->cells);
	}
}

void paper_print(const struct paper *paper, FILE *out)
{
	for (int r = 0; r < paper->rows; r++) {
		const struct paper_cell *row = paper_row(paper, r);
		int end = paper->width;
		while (end && strcmp(row[end - 1].text, " ") == 0)
			end--;
		for (int i = 0; i < end; i++)
			(void)fputs(row[i].text, out);
		(void)fputc('\n', out);
	}
}
