/* npy: see npy.h.
 *
 * The dict is read by a cursor with a known end. Beyond the end it reads zero bytes, which are not
 * valid anywhere. */
#include "labels/npy.h"

#include "base/util.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { NPY_MAGIC = 6, NPY_WORD = 64 };

static const char *const npy_advice[] = {
	[NPY_INTEGERS] = "write it with numpy.save(FILE, numpy.asarray(indices, dtype=\"int64\"))",
	[NPY_FLOATS] = "write it with numpy.save(FILE, numpy.asarray(weights, dtype=\"float64\"))",
};
static const char *const npy_expects[] = {
	[NPY_INTEGERS] = "integers (<i8, <u8, <i4 or <u4)",
	[NPY_FLOATS] = "floats (<f8 or <f4)",
};

static const struct {
	char name[4];
	uint8_t bytes;
	bool is_signed;
	enum npy_kind kind;
} npy_types[] = {
	{"<i8", 8, true, NPY_INTEGERS},
	{"<u8", 8, false, NPY_INTEGERS},
	{"<i4", 4, true, NPY_INTEGERS},
	{"<u4", 4, false, NPY_INTEGERS},
	{"<f8", 8, true, NPY_FLOATS},
	{"<f4", 4, true, NPY_FLOATS},
};

enum npy_key { NPY_DESCR, NPY_FORTRAN, NPY_SHAPE, NPY_KEYS };

static const char *const npy_keys[NPY_KEYS] = {"descr", "fortran_order", "shape"};

struct npy_cursor {
	const uint8_t *bytes;
	size_t at, end;
	enum npy_kind kind;
	struct fault *fault;
};

/* --- the dict --- */

static uint8_t npy_peek(const struct npy_cursor *c)
{
	return c->at < c->end ? c->bytes[c->at] : 0;
}

static int npy_expected(const struct npy_cursor *c, const char *what)
{
	return fault_set(c->fault, -EINVAL,
		"not a valid .npy file: at byte %zu of the header: expected %s%s", c->at, what,
		c->at < c->end ? "" : ", but the header ends there");
}

static void npy_skip(struct npy_cursor *c)
{
	while (npy_peek(c) == ' ' || npy_peek(c) == '\n')
		c->at++;
}

/* Takes a byte and the spaces around it; false if another byte is there. */
static bool npy_take(struct npy_cursor *c, char byte)
{
	npy_skip(c);
	if (npy_peek(c) != (uint8_t)byte)
		return false;
	c->at++;
	npy_skip(c);
	return true;
}

/* Takes a quoted text without escapes. */
static int npy_string(struct npy_cursor *c, char ret[NPY_WORD])
{
	npy_skip(c);
	uint8_t quote = npy_peek(c);
	if (quote != '\'' && quote != '"')
		return npy_expected(c, "a quoted text");
	size_t from = ++c->at;
	while (isprint(npy_peek(c)) && npy_peek(c) != quote)
		c->at++;
	if (npy_peek(c) != quote || c->at - from >= NPY_WORD)
		return npy_expected(c, "the end of a short quoted text");
	memcpy(ret, c->bytes + from, c->at - from);
	ret[c->at - from] = 0;
	c->at++;
	return 0;
}

static int npy_descr(struct npy_cursor *c, struct npy *npy)
{
	char type[NPY_WORD] = "of several fields";
	npy_skip(c);
	/* A list is a structured type. */
	int result = npy_peek(c) == '[' ? 0 : npy_string(c, type);
	if (result < 0)
		return result;
	for (size_t i = 0; i < UTIL_COUNT(npy_types); i++) {
		if (npy_types[i].kind != c->kind || strcmp(type, npy_types[i].name) != 0)
			continue;
		npy->bytes = npy_types[i].bytes;
		npy->is_signed = npy_types[i].is_signed;
		return 0;
	}
	return fault_set(c->fault, -EINVAL, "its dtype is %s: expected little-endian %s", type,
		npy_expects[c->kind]);
}

static int npy_fortran(struct npy_cursor *c)
{
	static const char no[] = "False", yes[] = "True";
	npy_skip(c);
	size_t left = c->end - c->at;
	if (left >= sizeof no - 1 && memcmp(c->bytes + c->at, no, sizeof no - 1) == 0) {
		c->at += sizeof no - 1;
		return 0;
	}
	if (left >= sizeof yes - 1 && memcmp(c->bytes + c->at, yes, sizeof yes - 1) == 0)
		return fault_set(c->fault, -EINVAL, "it is in Fortran order: expected C order");
	return npy_expected(c, "True or False");
}

static int npy_number(struct npy_cursor *c, uint64_t *ret)
{
	uint64_t value = 0;
	npy_skip(c);
	if (!isdigit(npy_peek(c)))
		return npy_expected(c, "a number");
	for (; isdigit(npy_peek(c)); c->at++)
		if (__builtin_mul_overflow(value, 10u, &value) ||
			__builtin_add_overflow(value, (uint64_t)(npy_peek(c) - '0'), &value))
			return npy_expected(c, "a number that fits 64 bits");
	*ret = value;
	return 0;
}

/* "(3,)". */
static int npy_shape(struct npy_cursor *c, struct npy *npy)
{
	unsigned dimensions = 0;
	if (!npy_take(c, '('))
		return npy_expected(c, "a shape in brackets");
	while (!npy_take(c, ')')) {
		int result = npy_number(c, &npy->count);
		if (result < 0)
			return result;
		dimensions++;
		if (!npy_take(c, ',') && npy_peek(c) != ')')
			return npy_expected(c, "a comma or the end of the shape");
	}
	if (dimensions == 1)
		return 0;
	return fault_set(c->fault, -EINVAL, "it has %u dimensions: expected one", dimensions);
}

static int npy_value(struct npy_cursor *c, enum npy_key key, struct npy *npy)
{
	if (key == NPY_DESCR)
		return npy_descr(c, npy);
	return key == NPY_SHAPE ? npy_shape(c, npy) : npy_fortran(c);
}

/* Takes one key and its value. `given` has a bit for each key that was taken. */
static int npy_item(struct npy_cursor *c, unsigned *given, struct npy *npy)
{
	char name[NPY_WORD];
	int result = npy_string(c, name);
	unsigned key = 0;
	while (!result && key < NPY_KEYS && strcmp(name, npy_keys[key]) != 0)
		key++;
	if (!result && (key == NPY_KEYS || *given >> key & 1))
		result = npy_expected(c, "each of descr, fortran_order and shape once");
	if (!result && !npy_take(c, ':'))
		result = npy_expected(c, "a colon");
	if (!result)
		result = npy_value(c, (enum npy_key)key, npy);
	if (!result && !npy_take(c, ',') && npy_peek(c) != '}')
		result = npy_expected(c, "a comma or a closing brace");
	if (!result)
		*given |= 1u << key;
	return result;
}

static int npy_dict(struct npy_cursor *c, struct npy *npy)
{
	unsigned given = 0;
	int result = npy_take(c, '{') ? 0 : npy_expected(c, "an opening brace");
	while (!result && !npy_take(c, '}'))
		result = npy_item(c, &given, npy);
	if (!result && given != (1u << NPY_KEYS) - 1)
		result = npy_expected(c, "descr, fortran_order and shape before it");
	if (!result && c->at != c->end)
		result = npy_expected(c, "nothing but spaces to the header's end");
	return result;
}

/* --- the bytes around it --- */

static uint64_t npy_little(const uint8_t *bytes, unsigned size)
{
	uint64_t value = 0;
	while (size--)
		value = value << 8 | bytes[size];
	return value;
}

static int npy_read(
	const uint8_t *bytes, size_t size, enum npy_kind kind, struct npy *ret, struct fault *fault)
{
	static const uint8_t magic[NPY_MAGIC] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
	struct npy npy = {0};
	if (size < NPY_PREFIX || memcmp(bytes, magic, NPY_MAGIC) != 0)
		return fault_set(
			fault, -EINVAL, "not a .npy file: it does not begin with \\x93NUMPY");
	unsigned major = bytes[6], minor = bytes[7], prefix = major == 1 ? 10 : 12;
	if (major < 1 || major > 3 || minor)
		return fault_set(fault, -EINVAL,
			"its format is version %u.%u: expected 1.0, 2.0 or 3.0", major, minor);
	uint64_t text = npy_little(bytes + 8, prefix - 8);
	if (text > NPY_TEXT_MAX || text > size - prefix)
		return fault_set(fault, -EINVAL,
			"it says that its header has %llu bytes: expected at most %d, and no more "
			"than the file has (%zu); the file is cut off or damaged",
			(unsigned long long)text, NPY_TEXT_MAX, size - prefix);
	struct npy_cursor c = {.bytes = bytes,
		.at = prefix,
		.end = prefix + (size_t)text,
		.kind = kind,
		.fault = fault};
	int result = npy_dict(&c, &npy);
	if (result < 0)
		return result;
	npy.data = (uint32_t)c.end;
	*ret = npy;
	return 0;
}

int npy_parse(
	const uint8_t *bytes, size_t size, enum npy_kind kind, struct npy *ret, struct fault *fault)
{
	struct fault why = {{0}};
	int result = npy_read(bytes, size, kind, ret, &why);
	return result < 0 ? fault_set(fault, result, "%s; %s", why.text, npy_advice[kind]) : 0;
}

void npy_widen(const struct npy *npy, const uint8_t *bytes, size_t count, uint64_t *ret)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value = npy_little(bytes + i * npy->bytes, npy->bytes);
		/* Four bytes are extended by their sign. */
		if (npy->is_signed && npy->bytes == 4)
			value = (uint64_t)(int64_t)(int32_t)(uint32_t)value;
		ret[i] = value;
	}
}

void npy_reals(const struct npy *npy, const uint8_t *bytes, size_t count, double *ret)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t bits = npy_little(bytes + i * npy->bytes, npy->bytes);
		uint32_t narrow = (uint32_t)bits;
		float single;
		memcpy(&single, &narrow, sizeof single);
		memcpy(&ret[i], &bits, sizeof ret[i]);
		if (npy->bytes == sizeof single)
			ret[i] = (double)single;
	}
}
