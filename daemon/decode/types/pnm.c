/* pnm: Netpbm's PBM, PGM and PPM, binary and plain, read by Pillow's rules (Pillow 13.0.0,
 * PpmImagePlugin.py).
 *
 * Gray of more than 8 bits is a number that is clipped at 255, not scaled, as convert("RGB") does;
 * color of more than 8 bits is scaled. Numbers are written as Python reads them: a sign and single
 * underscores are allowed. One difference is left: plain images are not judged after their last
 * pixel, where Pillow refuses what is not a number within the same mebibyte. */
#include "decode/types/types.h"

#include "base/util.h"
#include "decode/jpeg/kernels/planes_kernels.h"
#include "decode/types/common.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_MOST = 10, DEPTH = 65535 };

struct pnm {
	struct scratch *scratch;
	struct sentence *sentence;
	const struct planes_kernels *kernels;
	struct types_bytes file;
	size_t at; /* of the pixels */
	uint32_t width, height;
	unsigned channels; /* 1 or 3 */
	bool bits; /* black and white */
	bool plain; /* numbers as text */
	uint32_t most; /* the number that is white; 1 for bits */
	struct types_row row;
	uint8_t byte[256]; /* what each number of 8 bits becomes */
};

static bool is_blank(int c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Only the kinds that this file reads: sniff.c names the others. */
static bool pnm_sniff(const uint8_t *data, size_t size)
{
	return size >= 3 && data[0] == 'P' && data[1] >= '1' && data[1] <= '6' && is_blank(data[2]);
}

static int pnm_make(const struct reader_tools *tools, void **ret)
{
	struct pnm *pnm = calloc(1, sizeof(*pnm));
	if (!pnm)
		return -ENOMEM;
	pnm->scratch = tools->scratch;
	pnm->sentence = tools->sentence;
	pnm->kernels = tools->kernels;
	*ret = pnm;
	return 0;
}

static uint64_t pnm_bytes(void)
{
	return sizeof(struct pnm);
}

/* A word of the file, without its comments. */
struct token {
	char text[TOKEN_MOST + 1];
	size_t size; /* TOKEN_MOST + 1: longer */
};

/* The next word. A comment ends with its line, and may be inside a word. */
static void next_token(struct pnm *pnm, struct token *ret)
{
	const uint8_t *data = pnm->file.data;
	ret->size = 0;
	while (pnm->at < pnm->file.size && ret->size <= TOKEN_MOST) {
		uint8_t c = data[pnm->at++];
		if (c == '#') {
			while (pnm->at < pnm->file.size && data[pnm->at] != '\n' &&
				data[pnm->at] != '\r')
				pnm->at++;
			pnm->at += pnm->at < pnm->file.size;
		} else if (!is_blank(c)) {
			ret->text[ret->size++] = (char)c;
		} else if (ret->size) {
			return;
		}
	}
}

/* Reads a number as Python's int() does. False: it is not one. */
static bool token_number(const struct token *token, int64_t *ret)
{
	size_t i = 0;
	bool negative = false, digit = false;
	int64_t value = 0;
	if (i < token->size && (token->text[0] == '+' || token->text[0] == '-'))
		negative = token->text[i++] == '-';
	for (; i < token->size; i++) {
		char c = token->text[i];
		if (c == '_' && digit && i + 1 < token->size) {
			digit = false;
			continue;
		}
		if (c < '0' || c > '9')
			return false;
		value = value * 10 + (c - '0');
		digit = true;
	}
	*ret = negative ? -value : value;
	return digit;
}

/* The word for a sentence: none where it is not plain text. */
static const char *token_text(struct token *token)
{
	size_t size = UTIL_MIN(token->size, (size_t)TOKEN_MOST);
	for (size_t i = 0; i < size; i++)
		if (token->text[i] < '!' || token->text[i] > '~')
			return "bytes that are not text";
	token->text[size] = 0;
	return token->text;
}

static int read_number(struct pnm *pnm, const char *what, int64_t low, int64_t high, uint32_t *ret)
{
	struct token token;
	int64_t value;
	next_token(pnm, &token);
	if (!token.size)
		return sentence_set(pnm->sentence, DECODE_E_TRUNCATED,
			"PNM: the file ends before its %s", what);
	if (token.size > TOKEN_MOST || !token_number(&token, &value) || value < low || value > high)
		return sentence_set(pnm->sentence, DECODE_E_CORRUPT,
			"PNM: expected a number from %lld to %lld as its %s; got %s",
			(long long)low, (long long)high, what, token_text(&token));
	*ret = (uint32_t)value;
	return DECODE_OK;
}

/* What a number becomes. Pillow's round() takes halves to the even neighbor, as rint does. */
static uint8_t scale(const struct pnm *pnm, uint32_t value)
{
	bool clipped = pnm->channels == 1 && pnm->most > UINT8_MAX;
	double white = clipped ? DEPTH : UINT8_MAX;
	double scaled =
		clipped && pnm->most == DEPTH ? value : rint(value / (double)pnm->most * white);
	return scaled < UINT8_MAX ? (uint8_t)scaled : UINT8_MAX;
}

static int pnm_begin(void *self, const struct decode_limits *limits, const uint8_t *data,
	size_t size, struct decode_info *ret)
{
	struct pnm *pnm = self;
	unsigned kind = data[1] - '0';
	pnm->file = (struct types_bytes){data, size};
	pnm->plain = kind <= 3;
	pnm->bits = kind == 1 || kind == 4;
	pnm->channels = kind == 3 || kind == 6 ? 3 : 1;
	pnm->most = 1;
	pnm->at = 3;
	int outcome = read_number(pnm, "width", 1, INT32_MAX, &pnm->width);
	if (!outcome)
		outcome = read_number(pnm, "height", 1, INT32_MAX, &pnm->height);
	if (!outcome && !pnm->bits)
		outcome = read_number(pnm, "largest value", 1, DEPTH, &pnm->most);
	if (!outcome)
		outcome = reader_check_size(pnm->sentence, limits, "PNM", pnm->width, pnm->height);
	if (outcome)
		return outcome;
	for (uint32_t value = 0; value <= UINT8_MAX; value++)
		pnm->byte[value] = scale(pnm, value);
	*ret = (struct decode_info){
		.width = pnm->width, .height = pnm->height, .format = DECODE_PNM};
	return DECODE_OK;
}

static uint64_t pnm_need(void *self, bool spilled)
{
	const struct pnm *pnm = self;
	(void)spilled;
	return types_row_bytes(pnm->width);
}

static int cut(const struct pnm *pnm)
{
	return sentence_set(pnm->sentence, DECODE_E_TRUNCATED, "PNM: the file ends in its pixels");
}

/* ---- binary ---- */

static uint64_t row_bytes(const struct pnm *pnm)
{
	if (pnm->bits)
		return ((uint64_t)pnm->width + 7) / 8;
	return (uint64_t)pnm->width * pnm->channels * (pnm->most > UINT8_MAX ? 2 : 1);
}

static uint8_t binary_value(const struct pnm *pnm, const uint8_t *from, uint64_t at)
{
	if (pnm->bits)
		return from[at / 8] >> (7 - at % 8) & 1 ? 0 : UINT8_MAX;
	if (pnm->most <= UINT8_MAX)
		return pnm->byte[from[at]];
	return scale(pnm, (uint32_t)from[2 * at] << 8 | from[2 * at + 1]);
}

static void binary_row(struct pnm *pnm, const uint8_t *from, struct decode_region region)
{
	if (pnm->channels == 3 && pnm->most == UINT8_MAX) {
		pnm->kernels->split(
			pnm->row.rgb, from + (size_t)region.x0 * 3, region.x1 - region.x0);
		return;
	}
	for (uint32_t x = region.x0; x < region.x1; x++)
		for (unsigned c = 0; c < DECODE_PLANES; c++)
			pnm->row.rgb[c][x - region.x0] = binary_value(pnm, from,
				(uint64_t)x * pnm->channels + (pnm->channels == 3 ? c : 0));
}

static int binary_rows(struct pnm *pnm, struct decode_region region, uint32_t until,
	decode_row_fn *row, void *context)
{
	if (!types_has(&pnm->file, pnm->at, row_bytes(pnm) * until))
		return cut(pnm);
	for (uint32_t y = region.y0; y < region.y1; y++) {
		binary_row(pnm, pnm->file.data + pnm->at + row_bytes(pnm) * y, region);
		types_row_give(&pnm->row, row, context);
	}
	return DECODE_OK;
}

/* ---- plain ---- */

/* The next of a plain PBM's digits, between which there may be no blanks. */
static int next_bit(struct pnm *pnm, uint8_t *ret)
{
	while (pnm->at < pnm->file.size) {
		uint8_t c = pnm->file.data[pnm->at++];
		if (c == '#') {
			while (pnm->at < pnm->file.size && pnm->file.data[pnm->at] != '\n' &&
				pnm->file.data[pnm->at] != '\r')
				pnm->at++;
			pnm->at += pnm->at < pnm->file.size;
		} else if (c == '0' || c == '1') {
			*ret = c == '0' ? UINT8_MAX : 0;
			return DECODE_OK;
		} else if (!is_blank(c)) {
			return sentence_set(pnm->sentence, DECODE_E_CORRUPT,
				"PNM: expected 0 or 1; got byte %u", c);
		}
	}
	return cut(pnm);
}

static int next_value(struct pnm *pnm, uint8_t *ret)
{
	uint32_t value = 0;
	if (pnm->bits)
		return next_bit(pnm, ret);
	int outcome = read_number(pnm, "next value", 0, pnm->most, &value);
	if (!outcome)
		*ret = scale(pnm, value);
	return outcome;
}

static int plain_row(struct pnm *pnm, struct decode_region region)
{
	uint8_t value = 0;
	for (uint32_t x = 0; x < pnm->width; x++)
		for (unsigned c = 0; c < DECODE_PLANES; c++) {
			int outcome = c < pnm->channels ? next_value(pnm, &value) : DECODE_OK;
			if (outcome)
				return outcome;
			if (x >= region.x0 && x < region.x1)
				pnm->row.rgb[c][x - region.x0] = value;
		}
	return DECODE_OK;
}

static int plain_rows(struct pnm *pnm, struct decode_region region, uint32_t until,
	decode_row_fn *row, void *context)
{
	for (uint32_t y = 0; y < until; y++) {
		int outcome = plain_row(pnm, region);
		if (outcome)
			return outcome;
		if (y >= region.y0 && y < region.y1)
			types_row_give(&pnm->row, row, context);
	}
	return DECODE_OK;
}

static int pnm_rows(
	void *self, struct decode_region region, bool to_end, decode_row_fn *row, void *context)
{
	struct pnm *pnm = self;
	uint32_t until = to_end ? pnm->height : region.y1;
	if (!types_row_take(&pnm->row, pnm->scratch, pnm->width))
		return types_no_room(pnm->sentence, "PNM");
	return pnm->plain ? plain_rows(pnm, region, until, row, context)
			  : binary_rows(pnm, region, until, row, context);
}

static void pnm_end(void *self)
{
	struct pnm *pnm = self;
	pnm->file = (struct types_bytes){0};
}

const struct reader types_pnm = {
	.format = DECODE_PNM,
	.name = "PNM",
	.library = "penstock",
	.sniff = pnm_sniff,
	.make = pnm_make,
	.unmake = free,
	.bytes = pnm_bytes,
	.begin = pnm_begin,
	.rows = pnm_rows,
	.end = pnm_end,
	.need = pnm_need,
};
