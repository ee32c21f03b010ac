/* array: see array.h. MDS: streaming/base/format/mds/encodings.py, NDArray. LitData:
 * litdata/streaming/serializers.py, TensorSerializer and the others. */
#include "dataset/container/records/array.h"

#include "base/util.h"
#include "dataset/container/records/records.h"
#include "proto/half.h"

#include <string.h>

static const struct {
	const char *name;
	uint32_t size;
	bool whole;
} numbers[] = {
	[NUMBER_BOOL] = {"bool", 1, true},
	[NUMBER_U8] = {"uint8", 1, true},
	[NUMBER_I8] = {"int8", 1, true},
	[NUMBER_U16] = {"uint16", 2, true},
	[NUMBER_I16] = {"int16", 2, true},
	[NUMBER_U32] = {"uint32", 4, true},
	[NUMBER_I32] = {"int32", 4, true},
	[NUMBER_U64] = {"uint64", 8, true},
	[NUMBER_I64] = {"int64", 8, true},
	[NUMBER_F16] = {"float16", 2, false},
	[NUMBER_F32] = {"float32", 4, false},
	[NUMBER_F64] = {"float64", 8, false},
};

uint32_t number_size(enum number number)
{
	return numbers[number].size;
}

const char *number_text(enum number number)
{
	return numbers[number].name;
}

bool number_whole(enum number number)
{
	return numbers[number].whole;
}

enum number number_named(const char *name, size_t size)
{
	for (size_t i = NUMBER_U8; i < UTIL_COUNT(numbers); i++)
		if (strlen(numbers[i].name) == size && !memcmp(numbers[i].name, name, size))
			return (enum number)i;
	return NUMBER_NONE;
}

int64_t number_int(enum number number, const uint8_t *bytes)
{
	uint64_t value = 0;
	for (uint32_t i = 0; i < number_size(number); i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	switch (number) {
	case NUMBER_BOOL:
		return value != 0;
	case NUMBER_I8:
		return (int8_t)value;
	case NUMBER_I16:
		return (int16_t)value;
	case NUMBER_I32:
		return (int32_t)value;
	case NUMBER_I64:
		return (int64_t)value;
	default:
		return value > INT64_MAX ? INT64_MAX : (int64_t)value;
	}
}

double number_double(enum number number, const uint8_t *bytes)
{
	float single;
	double wide;
	switch (number) {
	case NUMBER_F16:
		return (double)half_from_float16((uint16_t)(bytes[0] | bytes[1] << 8));
	case NUMBER_F32:
		memcpy(&single, bytes, sizeof single);
		return (double)single;
	case NUMBER_F64:
		memcpy(&wide, bytes, sizeof wide);
		return wide;
	default:
		return (double)number_int(number, bytes);
	}
}

enum number array_torch(uint64_t number)
{
	static const uint8_t types[] = {[0] = NUMBER_F32,
		[1] = NUMBER_F32,
		[2] = NUMBER_F64,
		[3] = NUMBER_F64,
		[8] = NUMBER_F16,
		[9] = NUMBER_F16,
		[11] = NUMBER_U8,
		[12] = NUMBER_I8,
		[13] = NUMBER_I16,
		[14] = NUMBER_I16,
		[15] = NUMBER_I32,
		[16] = NUMBER_I32,
		[17] = NUMBER_I64,
		[18] = NUMBER_I64,
		[19] = NUMBER_BOOL,
		[20] = NUMBER_U16};
	return number < UTIL_COUNT(types) ? (enum number)types[number] : NUMBER_NONE;
}

enum number array_numpy(uint64_t number)
{
	static const uint8_t types[] = {NUMBER_I8, NUMBER_I16, NUMBER_I32, NUMBER_I64, NUMBER_U8,
		NUMBER_U16, NUMBER_U32, NUMBER_U64, NUMBER_F16, NUMBER_F32,
		NUMBER_F64, [13] = NUMBER_BOOL};
	return number < UTIL_COUNT(types) ? (enum number)types[number] : NUMBER_NONE;
}

static enum number mds_number(uint8_t number)
{
	switch (number) {
	case 8:
		return NUMBER_U8;
	case 9:
		return NUMBER_I8;
	case 16:
		return NUMBER_U16;
	case 17:
		return NUMBER_I16;
	case 18:
		return NUMBER_F16;
	case 32:
		return NUMBER_U32;
	case 33:
		return NUMBER_I32;
	case 34:
		return NUMBER_F32;
	case 64:
		return NUMBER_U64;
	case 65:
		return NUMBER_I64;
	default:
		return number == 66 ? NUMBER_F64 : NUMBER_NONE;
	}
}

bool array_mds(const char *text, struct array_type *ret)
{
	*ret = (struct array_type){.form = ARRAY_MDS};
	if (!*text)
		return true;
	const char *name = text + 1, *end = name + strcspn(name, ":");
	ret->number = number_named(name, (size_t)(end - name));
	if (*text != ':' || ret->number == NUMBER_NONE)
		return false;
	for (const char *at = *end ? end + 1 : end; *at;) {
		char *rest;
		if (*at < '0' || *at > '9' || ret->dims == ARRAY_DIMS)
			return false;
		const unsigned long long dim = strtoull(at, &rest, 10);
		if (dim == 0 || dim > UINT32_MAX || (*rest && *rest != ',') || (*rest && !rest[1]))
			return false;
		ret->dim[ret->dims++] = dim;
		at = *rest ? rest + 1 : rest;
	}
	return !*end || ret->dims > 0;
}

/* Reads `dims` numbers of `width` bytes; returns their end, or 0 if there is no room for them. */
static size_t dims_read(struct array *array, const uint8_t *head, size_t head_size, size_t at,
	size_t width, bool big)
{
	if (array->dims > ARRAY_DIMS || head_size - at < array->dims * width)
		return 0;
	for (uint32_t i = 0; i < array->dims; i++, at += width) {
		array->dim[i] = 0;
		for (size_t b = 0; b < width; b++)
			array->dim[i] |= (uint64_t)head[at + b] << 8 * (big ? width - 1 - b : b);
	}
	return at;
}

static const char dims_wrong[] = "has too many dimensions, or its shape is cut off";

static const char *mds_head(
	const struct array_type *type, const uint8_t *head, size_t head_size, struct array *ret)
{
	size_t at = 0;
	if (type->number == NUMBER_NONE) {
		ret->number = head_size ? mds_number(head[at++]) : NUMBER_NONE;
		if (ret->number == NUMBER_NONE)
			return "is of an unknown type";
	}
	if (!type->dims) {
		if (head_size == at)
			return "has no shape";
		const uint8_t byte = head[at++];
		ret->dims = byte >> 2;
		at = dims_read(ret, head, head_size, at, (size_t)1 << (byte & 3), false);
		if (!at)
			return dims_wrong;
	}
	ret->at = at;
	return NULL;
}

static const char *litdata_head(
	bool torch, const uint8_t *head, size_t head_size, struct array *ret)
{
	uint32_t words[2] = {0, 0};
	if (head_size < sizeof words)
		return "has no head";
	for (int i = 0; i < 2; i++)
		words[i] = torch ? __builtin_bswap32(records_u32(head + 4 * i))
				 : records_u32(head + 4 * i);
	ret->number = torch ? array_torch(words[0]) : array_numpy(words[0]);
	ret->dims = words[1];
	if (ret->number == NUMBER_NONE)
		return "is of a type that is not read";
	ret->at = dims_read(ret, head, head_size, 8, 4, torch);
	return ret->at ? NULL : dims_wrong;
}

const char *array_read(const struct array_type *type, const uint8_t *head, size_t head_size,
	uint64_t size, struct array *ret)
{
	const char *wrong = NULL;
	*ret = (struct array){.number = type->number, .dims = type->dims};
	memcpy(ret->dim, type->dim, sizeof ret->dim);
	if (type->form == ARRAY_MDS)
		wrong = mds_head(type, head, head_size, ret);
	else if (type->form != ARRAY_FLAT)
		wrong = litdata_head(type->form == ARRAY_TENSOR, head, head_size, ret);
	if (wrong)
		return wrong;
	const uint64_t each = number_size(ret->number), bytes = size - ret->at;
	ret->count = bytes / each;
	if (type->form == ARRAY_FLAT) {
		ret->dims = 1;
		ret->dim[0] = ret->count;
	}
	uint64_t count = 1;
	for (uint32_t i = 0; i < ret->dims; i++)
		if (__builtin_mul_overflow(count, ret->dim[i], &count))
			return "has more numbers than there can be";
	return count == ret->count && bytes % each == 0
		       ? NULL
		       : "does not have as many bytes as its shape says";
}
