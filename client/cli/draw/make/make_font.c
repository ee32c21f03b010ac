/* make_font: renders the letters of font.c with FreeType, as a C header. It runs while penstock is
 * built, on the machine that builds, so the command itself needs neither FreeType nor a font.
 *
 *   make_font REGULAR.ttf BOLD.ttf font_table.h
 *
 * A glyph is a rectangle of pixels without the empty space around it. A pixel is a level of
 * coverage from 0 to 15, a nibble; after a 0 or 15 another nibble counts how many pixels with the
 * same level follow. A glyph begins at a whole byte, the high nibble first. Hinting is light: it
 * only moves edges up and down, so that stems keep their shape. */
#include <ft2build.h>
#include FT_FREETYPE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAKE_REGULAR, MAKE_BOLD, MAKE_FILES };

/* The faces, in the order of enum font_face (font.h). */
static const struct {
	int file;
	unsigned pixels;
} make_faces[] = {{MAKE_REGULAR, 14}, {MAKE_REGULAR, 18}, {MAKE_REGULAR, 28}, {MAKE_BOLD, 40}};

/* The characters, rising: ASCII, Latin-1, and some punctuation. font.c needs the ellipsis and the
 * last one, which replaces what is missing. */
static const struct {
	unsigned first, last;
} make_ranges[] = {{0x20, 0x7e}, {0xa0, 0xac}, {0xae, 0xff}, {0x2013, 0x2014}, {0x2018, 0x2019},
	{0x201c, 0x201d}, {0x2022, 0x2022}, {0x2026, 0x2026}, {0x20ac, 0x20ac}, {0x2190, 0x2193},
	{0x2212, 0x2212}, {0x2248, 0x2248}, {0x2260, 0x2260}, {0x2264, 0x2265}, {0xfffd, 0xfffd}};

static unsigned make_offset; /* bytes of coverage so far */

static void make_fail(const char *what, const char *name)
{
	(void)fprintf(stderr, "make_font: %s: %s\n", name, what);
	exit(1);
}

/* Where the next nibble goes: into the table if `print`, else it is only counted. */
struct make_nibbles {
	bool print;
	unsigned count, high;
};

static void make_nibble(struct make_nibbles *nibbles, unsigned value)
{
	if (nibbles->count++ % 2 == 0) {
		nibbles->high = value;
		return;
	}
	if (nibbles->print)
		printf("%s0x%x,", make_offset % 20 ? "" : "\n\t", nibbles->high << 4 | value);
	make_offset++;
}

static unsigned make_level(const FT_Bitmap *bitmap, unsigned at)
{
	const unsigned char *row = bitmap->buffer + (long)(at / bitmap->width) * bitmap->pitch;
	return (row[at % bitmap->width] * 15u + 127) / 255;
}

static void make_coverage(const FT_Bitmap *bitmap, bool print)
{
	struct make_nibbles nibbles = {.print = print};
	unsigned pixels = bitmap->width * bitmap->rows;
	for (unsigned at = 0; at < pixels;) {
		unsigned level = make_level(bitmap, at), run = 1;
		while (at + run < pixels && run < 16 && make_level(bitmap, at + run) == level)
			run++;
		bool solid = level == 0 || level == 15;
		make_nibble(&nibbles, level);
		if (solid)
			make_nibble(&nibbles, run - 1);
		at += solid ? run : 1;
	}
	if (nibbles.count % 2)
		make_nibble(&nibbles, 0);
}

/* Loads and renders a glyph; `name` is the font's file. */
static FT_GlyphSlot make_glyph(FT_Face face, unsigned point, const char *name)
{
	unsigned index = FT_Get_Char_Index(face, point);
	if (!index) {
		(void)fprintf(stderr, "make_font: %s: no glyph for U+%04X\n", name, point);
		exit(1);
	}
	if (FT_Load_Glyph(face, index, FT_LOAD_TARGET_LIGHT | FT_LOAD_RENDER))
		make_fail("a glyph cannot be rendered", name);
	FT_GlyphSlot slot = face->glyph;
	if (slot->bitmap.width && slot->bitmap.pixel_mode != FT_PIXEL_MODE_GRAY)
		make_fail("expected an outline font", name);
	if (slot->bitmap.width > 255 || slot->bitmap.rows > 255 || slot->bitmap_left < -128 ||
		slot->bitmap_left > 127 || slot->bitmap_top < -128 || slot->bitmap_top > 127)
		make_fail("a glyph is too large for the table", name);
	return slot;
}

static void make_each(FT_Face face, const char *name, void (*use)(const FT_GlyphSlot slot))
{
	for (size_t i = 0; i < sizeof make_ranges / sizeof *make_ranges; i++)
		for (unsigned point = make_ranges[i].first; point <= make_ranges[i].last; point++)
			use(make_glyph(face, point, name));
}

static void make_print_coverage(const FT_GlyphSlot slot)
{
	make_coverage(&slot->bitmap, true);
}

static void make_print_glyph(const FT_GlyphSlot slot)
{
	const FT_Bitmap *bitmap = &slot->bitmap;
	printf("\t{%u, %u, %u, %ld, %d, %d},\n", make_offset, bitmap->width, bitmap->rows,
		(slot->advance.x + 32) / 64, slot->bitmap_left, slot->bitmap_top);
	make_coverage(bitmap, false);
}

static void make_points(void)
{
	printf("static const uint16_t font_points[] = {");
	for (size_t i = 0, n = 0; i < sizeof make_ranges / sizeof *make_ranges; i++)
		for (unsigned point = make_ranges[i].first; point <= make_ranges[i].last; point++)
			printf("%s0x%x,", n++ % 16 ? "" : "\n\t", point);
	printf("\n};\n\n");
}

int main(int argc, char **argv)
{
	enum { FACES = sizeof make_faces / sizeof *make_faces };
	FT_Library library;
	FT_Face file[MAKE_FILES];
	if (argc != 2 + MAKE_FILES)
		make_fail("expected REGULAR.ttf BOLD.ttf OUTPUT", "arguments");
	if (!freopen(argv[1 + MAKE_FILES], "w", stdout))
		make_fail("cannot be written", argv[1 + MAKE_FILES]);
	if (FT_Init_FreeType(&library))
		make_fail("cannot be initialized", "FreeType");
	for (int i = 0; i < MAKE_FILES; i++)
		if (FT_New_Face(library, argv[1 + i], 0, &file[i]))
			make_fail("not a font that FreeType reads", argv[1 + i]);
	printf("/* font_table.h: made by make_font.c from %s %s and %s %s. */\n\n",
		file[MAKE_REGULAR]->family_name, file[MAKE_REGULAR]->style_name,
		file[MAKE_BOLD]->family_name, file[MAKE_BOLD]->style_name);
	make_points();
	printf("static const uint8_t font_coverage[] = {");
	for (int i = 0; i < FACES; i++) {
		FT_Set_Pixel_Sizes(file[make_faces[i].file], 0, make_faces[i].pixels);
		make_each(file[make_faces[i].file], argv[1 + make_faces[i].file],
			make_print_coverage);
	}
	printf("\n};\n\n/* offset, width, height, advance, left, top */\n");
	printf("static const struct font_glyph font_glyphs[] = {\n");
	make_offset = 0;
	for (int i = 0; i < FACES; i++) {
		FT_Set_Pixel_Sizes(file[make_faces[i].file], 0, make_faces[i].pixels);
		make_each(file[make_faces[i].file], argv[1 + make_faces[i].file], make_print_glyph);
	}
	printf("};\n\nstatic const struct font font_faces[] = {\n");
	for (int i = 0; i < FACES; i++) {
		FT_Face face = file[make_faces[i].file];
		FT_Set_Pixel_Sizes(face, 0, make_faces[i].pixels);
		printf("\t{%u, %s, %ld, %ld},\n", make_faces[i].pixels,
			make_faces[i].file == MAKE_BOLD ? "true" : "false",
			(face->size->metrics.ascender + 63) / 64,
			(63 - face->size->metrics.descender) / 64);
	}
	printf("};\n");
	for (int i = 0; i < MAKE_FILES; i++)
		FT_Done_Face(file[i]);
	FT_Done_FreeType(library);
	if (fflush(stdout) || ferror(stdout))
		make_fail("cannot be written", argv[1 + MAKE_FILES]);
	return 0;
}
