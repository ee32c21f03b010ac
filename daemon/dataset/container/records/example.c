/* example: see example.h. The encoding is that of protobuf.dev/programming-guides/encoding. */
#include "dataset/container/records/example.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };
enum { VARINT_MAX = 10 };

/* A field of a message: its number, its wire type, and its value: of WIRE_BYTES the range of bytes,
 * of the others the number and the range that it takes. */
struct piece {
	uint64_t field;
	unsigned wire;
	uint64_t number;
	uint64_t at, end;
};

static int wrong(struct example *example, uint64_t at, const char *what)
{
	example->wrong = what;
	example->wrong_at = at;
	return -EBADMSG;
}

void example_init(struct example *example, struct window *window, uint64_t at, uint64_t size)
{
	*example = (struct example){.window = window, .at = at, .end = at + size};
}

/* Reads the number at *at, which ends before `end`, and moves *at past it. */
static int varint(
	struct example *example, uint64_t *at, uint64_t end, uint64_t *ret, struct fault *fault)
{
	const uint8_t *bytes;
	const size_t room = (size_t)UTIL_MIN(end - *at, (uint64_t)VARINT_MAX);
	int rc = window_get(example->window, *at, room, "a record", &bytes, fault);
	if (rc < 0)
		return rc;
	uint64_t value = 0;
	for (size_t i = 0; i < room; i++) {
		if (i == VARINT_MAX - 1 && bytes[i] > 1)
			break;
		value |= (uint64_t)(bytes[i] & 0x7f) << 7 * i;
		if (bytes[i] & 0x80)
			continue;
		*at += i + 1;
		*ret = value;
		return 0;
	}
	return wrong(example, *at,
		room < VARINT_MAX ? "a number that its message cuts off"
				  : "a number of more than 64 bits");
}

/* Reads the number of 4 or 8 bytes. */
static int fixed(struct example *example, struct piece *piece, uint64_t *at, uint64_t end,
	struct fault *fault)
{
	const size_t size = piece->wire == WIRE_64 ? 8 : 4;
	const uint8_t *bytes;
	if (end - *at < size)
		return wrong(example, *at, "a number that its message cuts off");
	int rc = window_get(example->window, *at, size, "a record", &bytes, fault);
	if (rc < 0)
		return rc;
	piece->number = 0;
	for (size_t i = 0; i < size; i++)
		piece->number |= (uint64_t)bytes[i] << 8 * i;
	*at += size;
	return 0;
}

/* Takes the field at *at, which is before `end`, and moves *at past it. */
static int piece_next(
	struct example *example, uint64_t *at, uint64_t end, struct piece *ret, struct fault *fault)
{
	const uint64_t begin = *at;
	uint64_t tag, size;
	int rc = varint(example, at, end, &tag, fault);
	if (rc < 0)
		return rc;
	ret->field = tag >> 3;
	ret->wire = (unsigned)(tag & 7);
	ret->at = *at;
	if (ret->field == 0)
		return wrong(example, begin, "a field with the number 0");
	if (ret->wire == WIRE_VARINT) {
		rc = varint(example, at, end, &ret->number, fault);
	} else if (ret->wire == WIRE_64 || ret->wire == WIRE_32) {
		rc = fixed(example, ret, at, end, fault);
	} else if (ret->wire == WIRE_BYTES) {
		rc = varint(example, at, end, &size, fault);
		if (rc == 0 && size > end - *at)
			return wrong(example, begin, "a field that is longer than its message");
		ret->at = *at;
		*at += rc == 0 ? size : 0;
	} else {
		return wrong(example, begin, "a field of an unknown wire type");
	}
	ret->end = *at;
	return rc;
}

/* Reads the type of a feature, and where its list is. */
static int feature_read(struct example *example, uint64_t at, uint64_t end,
	struct example_feature *ret, struct fault *fault)
{
	struct piece piece;
	ret->type = EXAMPLE_EMPTY;
	ret->at = ret->end = at;
	while (at < end) {
		const uint64_t begin = at;
		int rc = piece_next(example, &at, end, &piece, fault);
		if (rc < 0)
			return rc;
		if (piece.field > EXAMPLE_INTS)
			continue;
		if (piece.wire != WIRE_BYTES)
			return wrong(example, begin, "a feature whose list is not a message");
		if (ret->type != EXAMPLE_EMPTY)
			return wrong(example, begin, "a feature with two lists");
		ret->type = (enum example_type)piece.field;
		ret->at = piece.at;
		ret->end = piece.end;
	}
	return 0;
}

static int name_read(struct example *example, const struct piece *piece,
	struct example_feature *ret, struct fault *fault)
{
	const uint8_t *bytes;
	const size_t size = (size_t)UTIL_MIN(piece->end - piece->at, sizeof ret->name - 1);
	int rc = window_get(example->window, piece->at, size, "a record", &bytes, fault);
	if (rc < 0)
		return rc;
	memcpy(ret->name, bytes, size);
	ret->name[size] = 0;
	ret->name_size = size;
	return 0;
}

/* Reads one entry of the map of features. */
static int entry_read(struct example *example, const struct piece *entry,
	struct example_feature *ret, struct fault *fault)
{
	struct piece piece, value = {.at = entry->end, .end = entry->end};
	bool key_seen = false, value_seen = false;
	uint64_t at = entry->at;
	ret->name[0] = 0;
	ret->name_size = 0;
	while (at < entry->end) {
		const uint64_t begin = at;
		int rc = piece_next(example, &at, entry->end, &piece, fault);
		if (rc < 0)
			return rc;
		if (piece.field > 2)
			continue;
		bool *seen = piece.field == 1 ? &key_seen : &value_seen;
		if (piece.wire != WIRE_BYTES || *seen)
			return wrong(
				example, begin, "an entry that is not one name and one feature");
		*seen = true;
		if (piece.field == 2)
			value = piece;
		rc = piece.field == 1 ? name_read(example, &piece, ret, fault) : 0;
		if (rc < 0)
			return rc;
	}
	return feature_read(example, value.at, value.end, ret, fault);
}

/* Goes on to the next Features of the Example. 1, or 0 at its end. */
static int features_next(struct example *example, struct fault *fault)
{
	struct piece piece;
	while (example->at < example->end) {
		const uint64_t begin = example->at;
		int rc = piece_next(example, &example->at, example->end, &piece, fault);
		if (rc < 0)
			return rc;
		if (piece.field == 2 && piece.wire == WIRE_BYTES)
			return wrong(
				example, begin, "lists of features, as in a tf.SequenceExample");
		if (piece.field != 1)
			continue;
		if (piece.wire != WIRE_BYTES)
			return wrong(example, begin, "features that are not a message");
		example->features_at = piece.at;
		example->features_end = piece.end;
		return 1;
	}
	return 0;
}

int example_next(struct example *example, struct example_feature *ret, struct fault *fault)
{
	struct piece piece;
	for (;;) {
		if (example->features_at == example->features_end) {
			int rc = features_next(example, fault);
			if (rc <= 0)
				return rc;
			continue;
		}
		const uint64_t begin = example->features_at;
		int rc = piece_next(
			example, &example->features_at, example->features_end, &piece, fault);
		if (rc < 0)
			return rc;
		if (piece.field != 1)
			continue;
		if (piece.wire != WIRE_BYTES)
			return wrong(
				example, begin, "an entry of the features that is not a message");
		rc = entry_read(example, &piece, ret, fault);
		return rc < 0 ? rc : 1;
	}
}

void example_values_init(struct example_values *values, const struct example_feature *feature)
{
	*values = (struct example_values){
		.type = feature->type, .at = feature->at, .end = feature->end};
}

/* The next field 1 of a list. 1, or 0 at its end. */
static int value_next(struct example *example, struct example_values *values, struct piece *ret,
	struct fault *fault)
{
	while (values->at < values->end) {
		int rc = piece_next(example, &values->at, values->end, ret, fault);
		if (rc < 0 || ret->field == 1)
			return rc < 0 ? rc : 1;
	}
	return 0;
}

int example_bytes(struct example *example, struct example_values *values, uint64_t *ret_at,
	uint64_t *ret_size, struct fault *fault)
{
	struct piece piece;
	int rc = value_next(example, values, &piece, fault);
	if (rc <= 0)
		return rc;
	if (piece.wire != WIRE_BYTES)
		return wrong(example, piece.at, "a list of bytes with a number in it");
	*ret_at = piece.at;
	*ret_size = piece.end - piece.at;
	return 1;
}

/* Goes to the next number, which is either a piece of its own (*ret_piece is filled; 1) or at
 * values->at in a packed range that ends at values->packed_end (2). */
static int number_next(struct example *example, struct example_values *values, unsigned wire,
	struct piece *ret_piece, struct fault *fault)
{
	while (!values->packed_end) {
		int rc = value_next(example, values, ret_piece, fault);
		if (rc <= 0)
			return rc;
		if (ret_piece->wire == wire)
			return 1;
		if (ret_piece->wire != WIRE_BYTES)
			return wrong(example, ret_piece->at,
				"a list of numbers with another type of value in it");
		if (ret_piece->at == ret_piece->end)
			continue;
		values->at = ret_piece->at;
		values->packed_end = ret_piece->end;
	}
	return 2;
}

int example_int(
	struct example *example, struct example_values *values, int64_t *ret, struct fault *fault)
{
	struct piece piece;
	int rc = number_next(example, values, WIRE_VARINT, &piece, fault);
	if (rc == 2) {
		int read = varint(example, &values->at, values->packed_end, &piece.number, fault);
		rc = read < 0 ? read : 2;
	}
	if (rc == 2 && values->at == values->packed_end)
		values->packed_end = 0;
	if (rc > 0)
		memcpy(ret, &piece.number, sizeof *ret);
	return rc > 0 ? 1 : rc;
}

int example_float(
	struct example *example, struct example_values *values, float *ret, struct fault *fault)
{
	struct piece piece = {.wire = WIRE_32};
	int rc = number_next(example, values, WIRE_32, &piece, fault);
	if (rc == 2) {
		piece.wire = WIRE_32;
		int read = fixed(example, &piece, &values->at, values->packed_end, fault);
		rc = read < 0 ? read : 2;
	}
	if (rc == 2 && values->at == values->packed_end)
		values->packed_end = 0;
	const uint32_t bits = rc > 0 ? (uint32_t)piece.number : 0;
	if (rc > 0)
		memcpy(ret, &bits, sizeof *ret);
	return rc > 0 ? 1 : rc;
}
