/* label: see label.h. */
#include "dataset/container/parquet/label.h"

#include <errno.h>
#include <string.h>

void label_begin(struct label_reader *reader)
{
	reader->has_ahead = false;
}

static bool is_fraction(const struct label_reader *reader)
{
	return reader->cursor->leaf->type == PARQUET_FLOAT ||
	       reader->cursor->leaf->type == PARQUET_DOUBLE;
}

static double value_number(const struct label_reader *reader, uint64_t bits)
{
	const uint32_t low = (uint32_t)bits;
	float small;
	double large;
	memcpy(&small, &low, sizeof small);
	memcpy(&large, &bits, sizeof large);
	return reader->cursor->leaf->type == PARQUET_FLOAT ? (double)small : large;
}

/* An integer; those above 2^63 - 1 become it, which is no class either. */
static int64_t value_integer(const struct label_reader *reader, uint64_t bits)
{
	const struct schema_node *leaf = reader->cursor->leaf;
	const bool sign = leaf->meaning != PARQUET_UNSIGNED;
	if (leaf->type == PARQUET_BOOLEAN)
		return (int64_t)(bits & 1);
	if (leaf->type == PARQUET_INT32)
		return sign ? (int32_t)(uint32_t)bits : (int64_t)(uint32_t)bits;
	return !sign && bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
}

static int row_fault(const struct label_reader *reader, uint64_t row, int rc, struct fault *fault)
{
	return fault_prefix(fault, rc, "%s: row %llu: column %s", reader->cursor->parquet->path,
		(unsigned long long)row, reader->cursor->name);
}

static int class_add(const struct label_reader *reader, int64_t value, int32_t offset,
	struct label_found *found, struct fault *fault)
{
	static const struct label_classes any = {.count = 0};
	if (reader->classes && value >= 0 && (uint64_t)value >= reader->classes)
		return fault_set(fault, -EINVAL,
			"the file names %llu classes, found class %lld: write the file again with "
			"all names, or ask for labels: none",
			(unsigned long long)reader->classes, (long long)value);
	/* The range of classes is far from the ends of int64. */
	if (value > INT64_MIN / 2 && value < INT64_MAX / 2)
		value += offset;
	return label_found_class(found, value, &any, fault);
}

static int value_add(const struct label_reader *reader, const struct cursor_value *value,
	struct label_found *found, struct fault *fault)
{
	return is_fraction(reader)
		       ? label_found_number(found, value_number(reader, value->bits), fault)
		       : class_add(reader, value_integer(reader, value->bits), 0, found, fault);
}

static int fault_ended(const struct label_reader *reader, uint64_t row, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: row %llu: column %s ends before this row: the file is damaged; copy it again "
		"from where it came from",
		reader->cursor->parquet->path, (unsigned long long)row, reader->cursor->name);
}

/* Reads the elements of a list that begins with `value`, up to the first value of the next row. */
static int list_next(struct label_reader *reader, uint64_t row, struct cursor_value *value,
	struct label_found *found, bool *ret_found, struct fault *fault)
{
	const bool empty = value->definition < reader->list;
	label_found_begin(found, is_fraction(reader) ? LABEL_TYPE_FLOAT : LABEL_TYPE_MULTI_HOT);
	*ret_found = value->definition + 1 >= reader->list;
	int rc = 1;
	while (rc > 0) {
		if (!empty && !value->present)
			rc = fault_set(fault, -EINVAL, "an element of the list is null");
		else if (!empty)
			rc = value_add(reader, value, found, fault);
		if (rc < 0)
			return row_fault(reader, row, rc, fault);
		rc = cursor_next(reader->cursor, value, fault);
		if (rc > 0 && !value->repeated)
			break;
		if (rc > 0 && empty)
			return fault_ended(reader, row, fault);
	}
	if (rc < 0)
		return rc;
	reader->has_ahead = rc > 0;
	reader->ahead = *value;
	rc = *ret_found ? label_found_end(found, fault) : 0;
	return rc < 0 ? row_fault(reader, row, rc, fault) : 0;
}

int label_next(struct label_reader *reader, uint64_t row, struct label_found *found,
	bool *ret_found, struct fault *fault)
{
	struct cursor_value value = reader->ahead;
	int rc = reader->has_ahead ? 1 : cursor_next(reader->cursor, &value, fault);
	if (rc <= 0)
		return rc < 0 ? rc : fault_ended(reader, row, fault);
	if (reader->list && value.repeated)
		return fault_ended(reader, row, fault);
	if (reader->list)
		return list_next(reader, row, &value, found, ret_found, fault);
	const bool fraction = is_fraction(reader);
	*ret_found = value.present && (fraction || value_integer(reader, value.bits) != -1);
	if (!*ret_found)
		return 0;
	label_found_begin(found, fraction ? LABEL_TYPE_FLOAT : LABEL_TYPE_CLASS);
	rc = fraction ? value_add(reader, &value, found, fault)
		      : class_add(reader, value_integer(reader, value.bits), reader->offset, found,
				fault);
	if (rc == 0)
		rc = label_found_end(found, fault);
	return rc < 0 ? row_fault(reader, row, rc, fault) : 0;
}

int label_end(struct label_reader *reader, struct fault *fault)
{
	if (!reader->has_ahead)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: column %s has more values than its row group has rows: the file is damaged; "
		"copy it again from where it came from",
		reader->cursor->parquet->path, reader->cursor->name);
}
