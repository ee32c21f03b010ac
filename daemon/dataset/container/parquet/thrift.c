/* thrift: see thrift.h. */
#include "dataset/container/parquet/thrift.h"

#include "base/util.h"
#include "dataset/container/parquet/piece.h"

#include <errno.h>

enum { VARINT_BYTES = 10 };

void thrift_init(struct thrift *thrift, struct window *window, uint64_t at, uint64_t end,
	const char *what, struct fault *fault)
{
	*thrift = (struct thrift){
		.window = window, .what = what, .fault = fault, .at = at, .end = end};
}

int thrift_damaged(struct thrift *thrift, const char *how)
{
	if (!thrift->error)
		thrift->error = fault_set(thrift->fault, -EINVAL,
			"%s: byte %llu: %s is damaged: %s; copy the file again from where it came "
			"from",
			thrift->window->path, (unsigned long long)thrift->at, thrift->what, how);
	return thrift->error;
}

/* Makes the bytes at `at` readable. False after an error. */
static bool thrift_more(struct thrift *thrift)
{
	size_t size = 0;
	if (thrift->error)
		return false;
	if (thrift->at >= thrift->end)
		return (void)thrift_damaged(thrift, "it ends in the middle of a value"), false;
	thrift->error = piece_get(thrift->window, thrift->at, thrift->end - thrift->at,
		thrift->what, &thrift->piece, &size, thrift->fault);
	thrift->piece_end = thrift->piece + size;
	return !thrift->error;
}

static uint8_t thrift_byte(struct thrift *thrift)
{
	if (thrift->piece == thrift->piece_end && !thrift_more(thrift))
		return 0;
	thrift->at++;
	return *thrift->piece++;
}

static uint64_t thrift_varint(struct thrift *thrift)
{
	uint64_t value = 0;
	for (int i = 0; i < VARINT_BYTES && !thrift->error; i++) {
		const uint8_t byte = thrift_byte(thrift);
		value |= (uint64_t)(byte & 0x7f) << 7 * i;
		if (!(byte & 0x80))
			return thrift->error ? 0 : value;
	}
	(void)thrift_damaged(thrift, "a number has more than 64 bits");
	return 0;
}

int64_t thrift_element(struct thrift *thrift)
{
	const uint64_t value = thrift_varint(thrift);
	return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}

bool thrift_next(struct thrift *thrift, struct thrift_field *field)
{
	const uint8_t head = thrift_byte(thrift);
	if (thrift->error || head == THRIFT_STOP)
		return false;
	const int64_t id = head >> 4 ? field->id + (head >> 4) : thrift_element(thrift);
	if (thrift->error)
		return false;
	if (id < 0 || id > INT16_MAX)
		return (void)thrift_damaged(thrift, "a field has an impossible number"), false;
	field->id = (int32_t)id;
	field->type = head & 15;
	return true;
}

int64_t thrift_integer(struct thrift *thrift, const struct thrift_field *field)
{
	switch (field->type) {
	case THRIFT_BYTE:
		return (int8_t)thrift_byte(thrift);
	case THRIFT_I16:
	case THRIFT_I32:
	case THRIFT_I64:
		return thrift_element(thrift);
	default:
		(void)thrift_damaged(thrift, "a field is not the integer that it should be");
		return 0;
	}
}

bool thrift_bool(struct thrift *thrift, const struct thrift_field *field)
{
	if (field->type != THRIFT_TRUE && field->type != THRIFT_FALSE)
		(void)thrift_damaged(thrift, "a field is not the boolean that it should be");
	return field->type == THRIFT_TRUE && !thrift->error;
}

bool thrift_struct(struct thrift *thrift, const struct thrift_field *field)
{
	if (field->type != THRIFT_STRUCT)
		(void)thrift_damaged(thrift, "a field is not the structure that it should be");
	return !thrift->error;
}

uint64_t thrift_size(struct thrift *thrift)
{
	const uint64_t size = thrift_varint(thrift);
	if (!thrift->error && size > thrift->end - thrift->at)
		(void)thrift_damaged(thrift, "a text is longer than the bytes that are left");
	return thrift->error ? 0 : size;
}

uint64_t thrift_binary(struct thrift *thrift, const struct thrift_field *field)
{
	if (field->type != THRIFT_BINARY)
		(void)thrift_damaged(thrift, "a field is not the text that it should be");
	return thrift->error ? 0 : thrift_size(thrift);
}

void thrift_copy(struct thrift *thrift, void *buffer, size_t size)
{
	uint8_t *out = buffer;
	while (size) {
		if (thrift->piece == thrift->piece_end && !thrift_more(thrift)) {
			memset(out, 0, size);
			return;
		}
		const size_t part = UTIL_MIN(size, (size_t)(thrift->piece_end - thrift->piece));
		memcpy(out, thrift->piece, part);
		out += part;
		size -= part;
		thrift->piece += part;
		thrift->at += part;
	}
}

void thrift_pass(struct thrift *thrift, uint64_t size)
{
	if (thrift->error)
		return;
	if (size > thrift->end - thrift->at) {
		(void)thrift_damaged(thrift, "it ends in the middle of a value");
		return;
	}
	if (size < (uint64_t)(thrift->piece_end - thrift->piece))
		thrift->piece += size;
	else
		thrift->piece = thrift->piece_end = NULL;
	thrift->at += size;
}

/* The number of elements of a list or set, and their type. */
static uint64_t list_head(struct thrift *thrift, uint8_t *ret_type)
{
	const uint8_t head = thrift_byte(thrift);
	const uint64_t count = head >> 4 == 15 ? thrift_varint(thrift) : head >> 4;
	*ret_type = head & 15;
	/* Every element has at least one byte. */
	if (!thrift->error && count > thrift->end - thrift->at)
		(void)thrift_damaged(thrift, "a list has more elements than bytes are left");
	return thrift->error ? 0 : count;
}

uint64_t thrift_list(struct thrift *thrift, const struct thrift_field *field, enum thrift_type type)
{
	uint8_t found = 0;
	if (field->type != THRIFT_LIST)
		(void)thrift_damaged(thrift, "a field is not the list that it should be");
	const uint64_t count = thrift->error ? 0 : list_head(thrift, &found);
	if (count && found != type)
		(void)thrift_damaged(thrift, "a list has elements of another type than it should");
	return thrift->error ? 0 : count;
}

/* ---- what is passed over ---- */

static void skip_value(struct thrift *thrift, uint8_t type, bool element, int depth);

static void skip_list(struct thrift *thrift, int depth)
{
	uint8_t type = 0;
	for (uint64_t left = list_head(thrift, &type); left && !thrift->error; left--)
		skip_value(thrift, type, true, depth);
}

static void skip_map(struct thrift *thrift, int depth)
{
	uint64_t left = thrift_varint(thrift);
	if (!left || thrift->error)
		return;
	const uint8_t types = thrift_byte(thrift);
	for (; left && !thrift->error; left--) {
		skip_value(thrift, types >> 4, true, depth);
		skip_value(thrift, types & 15, true, depth);
	}
}

static void skip_fields(struct thrift *thrift, int depth)
{
	struct thrift_field field = {0};
	while (thrift_next(thrift, &field))
		skip_value(thrift, field.type, false, depth);
}

/* A boolean has a byte of its own only as an element. */
static void skip_value(struct thrift *thrift, uint8_t type, bool element, int depth)
{
	if (depth >= THRIFT_DEPTH) {
		(void)thrift_damaged(thrift, "it is nested too deeply");
		return;
	}
	switch (type) {
	case THRIFT_TRUE:
	case THRIFT_FALSE:
		thrift_pass(thrift, element ? 1 : 0);
		break;
	case THRIFT_BYTE:
		thrift_pass(thrift, 1);
		break;
	case THRIFT_I16:
	case THRIFT_I32:
	case THRIFT_I64:
		(void)thrift_varint(thrift);
		break;
	case THRIFT_DOUBLE:
		thrift_pass(thrift, 8);
		break;
	case THRIFT_BINARY:
		thrift_pass(thrift, thrift_size(thrift));
		break;
	case THRIFT_LIST:
	case THRIFT_SET:
		skip_list(thrift, depth + 1);
		break;
	case THRIFT_MAP:
		skip_map(thrift, depth + 1);
		break;
	case THRIFT_STRUCT:
		skip_fields(thrift, depth + 1);
		break;
	default:
		(void)thrift_damaged(thrift, "a field has a type that does not exist");
	}
}

void thrift_skip(struct thrift *thrift, const struct thrift_field *field)
{
	skip_value(thrift, field->type, false, 0);
}

void thrift_skip_struct(struct thrift *thrift)
{
	skip_fields(thrift, 0);
}
