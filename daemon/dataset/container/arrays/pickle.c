/* pickle: see pickle.h. */
#include "dataset/container/arrays/pickle.h"

#include "base/util.h"

#include <errno.h>
#include <string.h>

enum {
	PROTOCOL_LEAST = 2,
	PROTOCOL_MOST = 5,
	MEMO_TEXTS = 128, /* the last ones */
	MEMO_OTHERS = 128, /* the first ones */
	GLOBAL_MAX = 128, /* bytes of a module and a name */
	LOOKED_MAX = 1024, /* strings that are read: keys, names, types */
};

/* Operations, by CPython's names. */
enum {
	OP_PROTO = 0x80,
	OP_FRAME = 0x95,
	OP_STOP = '.',
	OP_MARK = '(',
	OP_NONE = 'N',
	OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89,
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_BININT2 = 'M',
	OP_LONG1 = 0x8a,
	OP_SHORT_BINSTRING = 'U',
	OP_BINSTRING = 'T',
	OP_BINUNICODE = 'X',
	OP_SHORT_BINUNICODE = 0x8c,
	OP_BINUNICODE8 = 0x8d,
	OP_SHORT_BINBYTES = 'C',
	OP_BINBYTES = 'B',
	OP_BINBYTES8 = 0x8e,
	OP_EMPTY_DICT = '}',
	OP_EMPTY_LIST = ']',
	OP_EMPTY_TUPLE = ')',
	OP_APPEND = 'a',
	OP_APPENDS = 'e',
	OP_SETITEM = 's',
	OP_SETITEMS = 'u',
	OP_TUPLE = 't',
	OP_TUPLE1 = 0x85,
	OP_TUPLE2 = 0x86,
	OP_TUPLE3 = 0x87,
	OP_BINPUT = 'q',
	OP_LONG_BINPUT = 'r',
	OP_MEMOIZE = 0x94,
	OP_BINGET = 'h',
	OP_LONG_BINGET = 'j',
	OP_GLOBAL = 'c',
	OP_STACK_GLOBAL = 0x93,
	OP_REDUCE = 'R',
	OP_BUILD = 'b',
};

/* What a pickle may name. */
enum name { NAME_RECONSTRUCT, NAME_NDARRAY, NAME_DTYPE, NAME_ENCODE };

/* Where reading is. */
struct place {
	struct window *window;
	uint64_t op; /* the byte of the current operation */
	uint64_t at; /* what is read next */
};

struct memo {
	uint64_t number;
	struct pickle_value value;
};

struct scan {
	struct place place;
	struct pickle_dict *dict;
	uint32_t memoized; /* for MEMOIZE, which numbers by itself */
	uint32_t texts, others;
	uint32_t looked;
	struct memo text[MEMO_TEXTS], other[MEMO_OTHERS];
	size_t used;
	struct pickle_value stack[PICKLE_STACK];
};

#define PLACE(place) (place)->window->path, (unsigned long long)(place)->op

static const char remedy[] =
	"it is not a batch as CIFAR's site ships them; penstock never unpickles: write the images "
	"into class folders or a tar";

/* ---- reading ---- */

/* The next `size` bytes. */
static int take(struct place *place, size_t size, const uint8_t **ret, struct fault *fault)
{
	int rc = window_get(place->window, place->at, size, "a pickle's operation", ret, fault);
	if (rc == 0)
		place->at += size;
	return rc;
}

static int take_number(struct place *place, size_t size, uint64_t *ret, struct fault *fault)
{
	const uint8_t *bytes = NULL;
	int rc = take(place, size, &bytes, fault);
	*ret = 0;
	for (size_t i = 0; rc == 0 && i < size; i++)
		*ret |= (uint64_t)bytes[i] << 8 * i;
	return rc;
}

/* A whole number of `bytes` bytes with a sign. */
static int64_t number_signed(uint64_t value, size_t bytes)
{
	const unsigned shift = (unsigned)(64 - 8 * bytes);
	return bytes ? (int64_t)(value << shift) >> shift : 0;
}

/* Text of `size` bytes: steps over it. */
static int take_text(
	struct place *place, uint64_t size, struct pickle_value *ret, struct fault *fault)
{
	if (size > place->window->size - place->at)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a string of %llu bytes begins here, but the file ends at "
			"byte %llu: it is damaged or was cut off; copy it again from where it came "
			"from",
			PLACE(place), (unsigned long long)size,
			(unsigned long long)place->window->size);
	*ret = (struct pickle_value){.type = PICKLE_TEXT, .at = place->at, .size = size};
	place->at += size;
	return 0;
}

/* A value that is written in one operation: 1; 0: the operation is another one; or a fault. */
static int take_plain(
	struct place *place, uint8_t op, struct pickle_value *ret, struct fault *fault)
{
	static const uint8_t number_bytes[256] = {
		[OP_BININT1] = 1, [OP_BININT2] = 2, [OP_BININT] = 4};
	static const uint8_t text_bytes[256] = {[OP_SHORT_BINSTRING] = 1,
		[OP_SHORT_BINUNICODE] = 1,
		[OP_SHORT_BINBYTES] = 1,
		[OP_BINSTRING] = 4,
		[OP_BINUNICODE] = 4,
		[OP_BINBYTES] = 4,
		[OP_BINUNICODE8] = 8,
		[OP_BINBYTES8] = 8};
	uint64_t value = 0;
	int rc = 0;
	if (text_bytes[op]) {
		rc = take_number(place, text_bytes[op], &value, fault);
		return rc < 0 ? rc : take_text(place, value, ret, fault) < 0 ? -EINVAL : 1;
	}
	*ret = (struct pickle_value){.type = PICKLE_NUMBER};
	if (number_bytes[op]) {
		rc = take_number(place, number_bytes[op], &value, fault);
		ret->number = op == OP_BININT ? number_signed(value, 4) : (int64_t)value;
		return rc < 0 ? rc : 1;
	}
	if (op != OP_LONG1)
		return 0;
	uint64_t bytes = 0;
	rc = take_number(place, 1, &bytes, fault);
	if (rc == 0 && bytes > 8)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a whole number has %llu bytes, but at most 8 are allowed: "
			"%s",
			PLACE(place), (unsigned long long)bytes, remedy);
	if (rc == 0)
		rc = take_number(place, (size_t)bytes, &value, fault);
	ret->number = number_signed(value, (size_t)bytes);
	return rc < 0 ? rc : 1;
}

/* ---- the stack ---- */

static int push(struct scan *scan, const struct pickle_value *value, struct fault *fault)
{
	if (scan->used == PICKLE_STACK)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: more than %d values are on the pickle's stack, but Python "
			"writes lists in pieces of 1000: %s",
			PLACE(&scan->place), PICKLE_STACK, remedy);
	scan->stack[scan->used++] = *value;
	return 0;
}

static int push_type(struct scan *scan, enum pickle_type type, struct fault *fault)
{
	const struct pickle_value value = {.type = (uint8_t)type, .at = scan->place.at};
	return push(scan, &value, fault);
}

static int stack_fault(const struct scan *scan, struct fault *fault)
{
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: an operation of the pickle does not fit the values before it: the "
		"file is damaged, or %s",
		PLACE(&scan->place), remedy);
}

/* The values above the last mark: their number, and the mark is removed with them. */
static int unmark(
	struct scan *scan, const struct pickle_value **ret, size_t *ret_count, struct fault *fault)
{
	size_t at = scan->used;
	while (at > 0 && scan->stack[at - 1].type != PICKLE_MARK)
		at--;
	if (at == 0)
		return stack_fault(scan, fault);
	*ret = scan->stack + at;
	*ret_count = scan->used - at;
	scan->used = at - 1;
	return 0;
}

/* The last `count` values, which are removed. */
static int pop(
	struct scan *scan, size_t count, const struct pickle_value **ret, struct fault *fault)
{
	if (scan->used < count)
		return stack_fault(scan, fault);
	scan->used -= count;
	*ret = scan->stack + scan->used;
	for (size_t i = 0; i < count; i++)
		if ((*ret)[i].type == PICKLE_MARK)
			return stack_fault(scan, fault);
	return 0;
}

/* ---- lists, the dict, tuples ---- */

static enum pickle_items item_kind(const struct pickle_value *value)
{
	if (value->again)
		return PICKLE_ITEMS_OTHER;
	return value->type == PICKLE_NUMBER ? PICKLE_ITEMS_NUMBERS
	       : value->type == PICKLE_TEXT ? PICKLE_ITEMS_TEXTS
					    : PICKLE_ITEMS_OTHER;
}

static int append(
	struct scan *scan, const struct pickle_value *values, size_t count, struct fault *fault)
{
	struct pickle_value *list = scan->used ? &scan->stack[scan->used - 1] : NULL;
	if (!list || list->type != PICKLE_LIST)
		return stack_fault(scan, fault);
	for (size_t i = 0; i < count; i++) {
		const uint8_t kind = (uint8_t)item_kind(&values[i]);
		list->items =
			list->size == 0 || list->items == kind ? kind : (uint8_t)PICKLE_ITEMS_OTHER;
		list->size++;
	}
	return 0;
}

/* Called before a string is read whose place may be anywhere in the file. Reading one takes as long
 * as scanning thousands of operations, and a batch has a few of them. */
static int look(struct scan *scan, struct fault *fault)
{
	if (scan->looked++ < LOOKED_MAX)
		return 0;
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: the pickle has more than %d keys, types and names of functions: %s",
		PLACE(&scan->place), LOOKED_MAX, remedy);
}

/* The place in the dict of a key: that of the same key, or a new one. */
static int entry_of(struct scan *scan, const struct pickle_value *key, struct pickle_entry **ret,
	struct fault *fault)
{
	const uint8_t *bytes = NULL;
	if (key->type != PICKLE_TEXT || key->size > PICKLE_KEY_MAX)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: a key of the dict is not a string of at most %d bytes: %s",
			PLACE(&scan->place), PICKLE_KEY_MAX, remedy);
	int rc = look(scan, fault);
	if (rc < 0)
		return rc;
	rc = window_get(scan->place.window, key->at, (size_t)key->size, "a key", &bytes, fault);
	if (rc < 0)
		return rc;
	struct pickle_dict *dict = scan->dict;
	uint32_t i = 0;
	while (i < dict->count && (strlen(dict->entry[i].key) != key->size ||
					  memcmp(dict->entry[i].key, bytes, key->size) != 0))
		i++;
	if (i == PICKLE_ENTRIES)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the dict has more than %d keys: %s", PLACE(&scan->place),
			PICKLE_ENTRIES, remedy);
	memcpy(dict->entry[i].key, bytes, key->size);
	dict->entry[i].key[key->size] = 0;
	dict->count = UTIL_MAX(dict->count, i + 1);
	*ret = &dict->entry[i];
	return 0;
}

static int set_items(
	struct scan *scan, const struct pickle_value *values, size_t count, struct fault *fault)
{
	if (!scan->used || scan->stack[scan->used - 1].type != PICKLE_DICT || count % 2)
		return stack_fault(scan, fault);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i += 2) {
		struct pickle_entry *entry = NULL;
		rc = entry_of(scan, &values[i], &entry, fault);
		if (rc == 0)
			entry->value = values[i + 1];
	}
	return rc;
}

static bool text_is(struct scan *scan, const struct pickle_value *value, const char *text)
{
	const uint8_t *bytes = NULL;
	return value->type == PICKLE_TEXT && value->size == strlen(text) &&
	       window_get(scan->place.window, value->at, (size_t)value->size, "a string", &bytes,
		       NULL) == 0 &&
	       memcmp(bytes, text, (size_t)value->size) == 0;
}

static bool is_small(const struct pickle_value *value)
{
	return value->type == PICKLE_NUMBER && value->number >= 0 && value->number <= UINT32_MAX;
}

static bool are(const struct pickle_value *values, size_t count, const uint8_t *types, size_t most)
{
	if (count != most)
		return false;
	for (size_t i = 0; i < count; i++)
		if (values[i].type != types[i])
			return false;
	return true;
}

/* Whether the values are ("u1", False, True), as dtype is called. */
static bool are_kind_arguments(struct scan *scan, const struct pickle_value *values, size_t count)
{
	if (count != 3 || !text_is(scan, &values[0], "u1"))
		return false;
	for (size_t i = 1; i < 3; i++)
		if (values[i].type != PICKLE_NUMBER && values[i].type != PICKLE_FLAG)
			return false;
	return true;
}

static int push_tuple(
	struct scan *scan, const struct pickle_value *values, size_t count, struct fault *fault)
{
	static const uint8_t arguments[] = {PICKLE_NAME, PICKLE_SHAPE, PICKLE_TEXT};
	static const uint8_t state[] = {
		PICKLE_NUMBER, PICKLE_SHAPE, PICKLE_KIND, PICKLE_FLAG, PICKLE_TEXT};
	struct pickle_value tuple = {.type = PICKLE_TUPLE};
	int rc = count == 3 && values[0].type == PICKLE_TEXT ? look(scan, fault) : 0;
	if (rc < 0)
		return rc;
	if ((count == 1 || count == 2) && is_small(&values[0]) && is_small(&values[count - 1])) {
		tuple.type = PICKLE_SHAPE;
		tuple.rows = (uint32_t)values[0].number;
		tuple.columns = count == 2 ? (uint32_t)values[1].number : 1;
	} else if (are(values, count, arguments, UTIL_COUNT(arguments)) &&
		   values[0].number == NAME_NDARRAY) {
		tuple.type = PICKLE_NEW_ARGUMENTS;
	} else if (are(values, count, state, UTIL_COUNT(state)) && !values[3].number) {
		tuple = values[4];
		tuple.type = PICKLE_STATE;
		tuple.again = false;
		tuple.rows = values[1].rows;
		tuple.columns = values[1].columns;
	} else if (are_kind_arguments(scan, values, count)) {
		tuple.type = PICKLE_KIND_ARGUMENTS;
	}
	return push(scan, &tuple, fault);
}

static int tuple_end(struct scan *scan, uint8_t op, struct fault *fault)
{
	struct pickle_value copy[8];
	const struct pickle_value *values = NULL;
	size_t count = op == OP_EMPTY_TUPLE ? 0 : (size_t)(op - OP_TUPLE1 + 1);
	int rc = op == OP_TUPLE ? unmark(scan, &values, &count, fault)
				: pop(scan, count, &values, fault);
	if (rc < 0)
		return rc;
	/* Longer tuples have no meaning here; the values are below what is pushed next. */
	memcpy(copy, values, UTIL_MIN(count, UTIL_COUNT(copy)) * sizeof copy[0]);
	return push_tuple(scan, copy, count, fault);
}

/* ---- names and calls ---- */

static const struct {
	const char *module, *name;
	enum name number;
} names[] = {
	{"numpy.core.multiarray", "_reconstruct", NAME_RECONSTRUCT},
	{"numpy._core.multiarray", "_reconstruct", NAME_RECONSTRUCT},
	{"numpy", "ndarray", NAME_NDARRAY},
	{"numpy", "dtype", NAME_DTYPE},
	{"_codecs", "encode", NAME_ENCODE},
};

static int push_name(struct scan *scan, size_t i, struct fault *fault)
{
	if (i == UTIL_COUNT(names))
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the pickle names something other than NumPy's arrays of "
			"bytes, which could run any program: %s",
			PLACE(&scan->place), remedy);
	if (names[i].number == NAME_ENCODE)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: Python 3 wrote its bytes as text (protocol 2), so that the "
			"pixels cannot be read in place: pickle it again with protocol=4, or use "
			"the files of CIFAR's site",
			PLACE(&scan->place));
	const struct pickle_value value = {.type = PICKLE_NAME, .number = names[i].number};
	return push(scan, &value, fault);
}

/* "module\nname\n" */
static int name_lines(struct scan *scan, struct fault *fault)
{
	const uint64_t left = scan->place.window->size - scan->place.at;
	const size_t room = (size_t)UTIL_MIN(left, (uint64_t)GLOBAL_MAX);
	const uint8_t *text = NULL;
	int rc = window_get(scan->place.window, scan->place.at, room, "a name", &text, fault);
	if (rc < 0)
		return rc;
	const uint8_t *first = memchr(text, '\n', room);
	const uint8_t *second =
		first ? memchr(first + 1, '\n', room - (size_t)(first + 1 - text)) : NULL;
	size_t i = second ? 0 : UTIL_COUNT(names);
	for (; i < UTIL_COUNT(names); i++)
		if (strlen(names[i].module) == (size_t)(first - text) &&
			strlen(names[i].name) == (size_t)(second - first - 1) &&
			memcmp(names[i].module, text, (size_t)(first - text)) == 0 &&
			memcmp(names[i].name, first + 1, (size_t)(second - first - 1)) == 0)
			break;
	if (second)
		scan->place.at += (size_t)(second - text) + 1;
	return push_name(scan, i, fault);
}

static int name_stack(struct scan *scan, struct fault *fault)
{
	const struct pickle_value *values = NULL;
	int rc = pop(scan, 2, &values, fault);
	if (rc == 0)
		rc = look(scan, fault);
	if (rc < 0)
		return rc;
	const struct pickle_value module = values[0], name = values[1];
	size_t i = 0;
	while (i < UTIL_COUNT(names) &&
		!(text_is(scan, &module, names[i].module) && text_is(scan, &name, names[i].name)))
		i++;
	return push_name(scan, i, fault);
}

/* Instead of calling a function. */
static int reduce(struct scan *scan, struct fault *fault)
{
	const struct pickle_value *values = NULL;
	int rc = pop(scan, 2, &values, fault);
	if (rc < 0)
		return rc;
	const uint8_t type = values[1].type;
	if (values[0].type != PICKLE_NAME)
		return stack_fault(scan, fault);
	if (values[0].number == NAME_RECONSTRUCT && type == PICKLE_NEW_ARGUMENTS)
		return push_type(scan, PICKLE_NEW, fault);
	if (values[0].number == NAME_DTYPE && type == PICKLE_KIND_ARGUMENTS)
		return push_type(scan, PICKLE_KIND, fault);
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: the pickle makes an object that is not an array of bytes (uint8): "
		"%s",
		PLACE(&scan->place), remedy);
}

/* Instead of setting an object's state. */
static int build(struct scan *scan, struct fault *fault)
{
	const struct pickle_value *values = NULL;
	int rc = pop(scan, 2, &values, fault);
	if (rc < 0)
		return rc;
	if (values[0].type == PICKLE_KIND && values[1].type == PICKLE_TUPLE)
		return push_type(scan, PICKLE_KIND, fault);
	if (values[0].type != PICKLE_NEW || values[1].type != PICKLE_STATE)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the pickle has an array that is not one of bytes (uint8) "
			"in rows, in C's order: %s",
			PLACE(&scan->place), remedy);
	struct pickle_value array = values[1];
	if ((uint64_t)array.rows * array.columns != array.size)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: an array has %u times %u bytes, but its contents have "
			"%llu: the file is damaged, copy it again from where it came from",
			PLACE(&scan->place), array.rows, array.columns,
			(unsigned long long)array.size);
	array.type = PICKLE_ARRAY;
	return push(scan, &array, fault);
}

/* ---- the memo ---- */

/* A pickle of 50,000 file names numbers all of them, and asks for none again: of texts, only the
 * last ones are remembered. */
static int memo_put(struct scan *scan, uint64_t number, struct fault *fault)
{
	if (!scan->used)
		return stack_fault(scan, fault);
	const struct memo memo = {number, scan->stack[scan->used - 1]};
	scan->memoized++;
	if (memo.value.type == PICKLE_TEXT)
		scan->text[scan->texts++ % MEMO_TEXTS] = memo;
	else if (scan->others < MEMO_OTHERS)
		scan->other[scan->others++] = memo;
	return 0;
}

/* The value that was put under a number last. */
static const struct pickle_value *memo_find(const struct scan *scan, uint64_t number)
{
	for (uint32_t i = scan->others; i > 0; i--)
		if (scan->other[i - 1].number == number)
			return &scan->other[i - 1].value;
	for (uint32_t i = 1; i <= UTIL_MIN(scan->texts, (uint32_t)MEMO_TEXTS); i++)
		if (scan->text[(scan->texts - i) % MEMO_TEXTS].number == number)
			return &scan->text[(scan->texts - i) % MEMO_TEXTS].value;
	return NULL;
}

static int memo_get(struct scan *scan, uint64_t number, struct fault *fault)
{
	const struct pickle_value *found = memo_find(scan, number);
	if (!found || found->type == PICKLE_LIST || found->type == PICKLE_DICT ||
		found->type == PICKLE_MARK)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the pickle repeats a value of before that is not known "
			"any more: %s",
			PLACE(&scan->place), remedy);
	struct pickle_value value = *found;
	value.again = true;
	return push(scan, &value, fault);
}

/* ---- operations ---- */

static int op_memo(struct scan *scan, uint8_t op, struct fault *fault)
{
	uint64_t number = scan->memoized;
	int rc = op == OP_MEMOIZE
			 ? 0
			 : take_number(&scan->place, op == OP_BINPUT || op == OP_BINGET ? 1 : 4,
				   &number, fault);
	if (rc < 0)
		return rc;
	return op == OP_BINGET || op == OP_LONG_BINGET ? memo_get(scan, number, fault)
						       : memo_put(scan, number, fault);
}

static int op_add(struct scan *scan, uint8_t op, struct fault *fault)
{
	struct pickle_value pair[2];
	const struct pickle_value *values = NULL;
	size_t count = op == OP_APPEND ? 1 : 2;
	const bool many = op == OP_APPENDS || op == OP_SETITEMS;
	int rc = many ? unmark(scan, &values, &count, fault) : pop(scan, count, &values, fault);
	if (rc < 0)
		return rc;
	if (!many)
		values = memcpy(pair, values, count * sizeof pair[0]);
	return op == OP_APPEND || op == OP_APPENDS ? append(scan, values, count, fault)
						   : set_items(scan, values, count, fault);
}

static int op_begin(struct scan *scan, uint8_t op, struct fault *fault)
{
	if (op == OP_EMPTY_DICT && scan->used)
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the pickle has a dict within another value: %s",
			PLACE(&scan->place), remedy);
	return push_type(scan,
		op == OP_EMPTY_DICT   ? PICKLE_DICT
		: op == OP_EMPTY_LIST ? PICKLE_LIST
				      : PICKLE_MARK,
		fault);
}

static int op_flag(struct scan *scan, uint8_t op, struct fault *fault)
{
	const struct pickle_value value = {
		.type = op == OP_NONE ? PICKLE_NOTHING : PICKLE_FLAG, .number = op == OP_NEWTRUE};
	return push(scan, &value, fault);
}

static int op_frame(struct scan *scan, uint8_t op, struct fault *fault)
{
	uint64_t size;
	(void)op;
	/* Frames only say how much to read at once. */
	return take_number(&scan->place, 8, &size, fault);
}

static int op_call(struct scan *scan, uint8_t op, struct fault *fault)
{
	return op == OP_REDUCE   ? reduce(scan, fault)
	       : op == OP_BUILD  ? build(scan, fault)
	       : op == OP_GLOBAL ? name_lines(scan, fault)
				 : name_stack(scan, fault);
}

typedef int op_fn(struct scan *, uint8_t, struct fault *);

static op_fn *const ops[256] = {
	[OP_FRAME] = op_frame,
	[OP_MARK] = op_begin,
	[OP_EMPTY_DICT] = op_begin,
	[OP_EMPTY_LIST] = op_begin,
	[OP_NONE] = op_flag,
	[OP_NEWTRUE] = op_flag,
	[OP_NEWFALSE] = op_flag,
	[OP_APPEND] = op_add,
	[OP_APPENDS] = op_add,
	[OP_SETITEM] = op_add,
	[OP_SETITEMS] = op_add,
	[OP_EMPTY_TUPLE] = tuple_end,
	[OP_TUPLE] = tuple_end,
	[OP_TUPLE1] = tuple_end,
	[OP_TUPLE2] = tuple_end,
	[OP_TUPLE3] = tuple_end,
	[OP_BINPUT] = op_memo,
	[OP_LONG_BINPUT] = op_memo,
	[OP_MEMOIZE] = op_memo,
	[OP_BINGET] = op_memo,
	[OP_LONG_BINGET] = op_memo,
	[OP_GLOBAL] = op_call,
	[OP_STACK_GLOBAL] = op_call,
	[OP_REDUCE] = op_call,
	[OP_BUILD] = op_call,
};

static int op_run(struct scan *scan, uint8_t op, struct fault *fault)
{
	struct pickle_value value;
	int rc = take_plain(&scan->place, op, &value, fault);
	if (rc != 0)
		return rc < 0 ? rc : push(scan, &value, fault);
	if (ops[op])
		return ops[op](scan, op, fault);
	return fault_set(fault, -EINVAL,
		"%s: byte %llu: 0x%02x is not one of the operations that make lists and arrays of "
		"bytes: %s",
		PLACE(&scan->place), op, remedy);
}

bool pickle_begins(const uint8_t *bytes, size_t size)
{
	const size_t frame = size > 2 && bytes[2] == OP_FRAME ? 9 : 0;
	return size > 2 + frame && bytes[0] == OP_PROTO && bytes[1] >= PROTOCOL_LEAST &&
	       bytes[1] <= PROTOCOL_MOST && bytes[2 + frame] == OP_EMPTY_DICT;
}

static int ops_run(struct scan *scan, struct fault *fault)
{
	for (int rc = 0; rc == 0;) {
		const uint8_t *op = NULL;
		scan->place.op = scan->place.at;
		rc = take(&scan->place, 1, &op, fault);
		if (rc < 0)
			return rc;
		const uint8_t code = *op;
		if (code == OP_STOP)
			return scan->used == 1 && scan->stack[0].type == PICKLE_DICT
				       ? 0
				       : stack_fault(scan, fault);
		rc = op_run(scan, code, fault);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int pickle_scan(struct window *window, struct pickle_dict *ret, struct fault *fault)
{
	const uint8_t *head = NULL;
	const size_t size = (size_t)UTIL_MIN(window->size, UINT64_C(12));
	int rc = window_get(window, 0, size, "a pickle's head", &head, fault);
	if (rc < 0)
		return rc;
	if (!pickle_begins(head, size))
		return fault_set(fault, -EINVAL,
			"%s: byte 0: it does not begin as a pickled dict of protocol %d to %d: %s",
			window->path, PROTOCOL_LEAST, PROTOCOL_MOST, remedy);
	cleanup(free_ptr) struct scan *scan = malloc(sizeof *scan);
	if (!scan)
		return fault_set(fault, -ENOMEM, "no memory to index %s", window->path);
	scan->place.window = window;
	scan->dict = ret;
	scan->place.at = 2;
	scan->memoized = scan->texts = scan->others = scan->looked = 0;
	scan->used = 0;
	ret->count = 0;
	return ops_run(scan, fault);
}

const struct pickle_value *pickle_find(const struct pickle_dict *dict, const char *key)
{
	for (uint32_t i = 0; i < dict->count; i++)
		if (strcmp(dict->entry[i].key, key) == 0)
			return &dict->entry[i].value;
	return NULL;
}

/* ---- the items of a list ---- */

void pickle_cursor_init(
	struct pickle_cursor *cursor, struct window *window, const struct pickle_value *list)
{
	*cursor = (struct pickle_cursor){window, list->at, list->size};
}

/* The bytes that follow an operation between the items; -1: it is not one of these. */
static int between_bytes(uint8_t op)
{
	switch (op) {
	case OP_MARK:
	case OP_APPEND:
	case OP_APPENDS:
	case OP_MEMOIZE:
		return 0;
	case OP_BINPUT:
		return 1;
	case OP_LONG_BINPUT:
		return 4;
	case OP_FRAME:
		return 8;
	default:
		return -1;
	}
}

int pickle_next(struct pickle_cursor *cursor, struct pickle_value *ret, struct fault *fault)
{
	/* take_plain only uses the window and the place. */
	while (cursor->left > 0) {
		const uint8_t *op = NULL;
		int rc = window_get(cursor->window, cursor->at, 1, "an item", &op, fault);
		if (rc < 0)
			return rc;
		const uint8_t code = *op;
		const int skip = between_bytes(code);
		if (skip >= 0) {
			cursor->at += 1 + (unsigned)skip;
			continue;
		}
		struct place place = {cursor->window, cursor->at, cursor->at + 1};
		rc = take_plain(&place, code, ret, fault);
		cursor->at = place.at;
		cursor->left--;
		if (rc != 0)
			return rc;
		return fault_set(fault, -EINVAL,
			"%s: byte %llu: the file changed while it was indexed: open it again when "
			"no other program writes there",
			PLACE(&place));
	}
	return 0;
}
