/* yaml: see yaml.h.
 *
 * A text is parsed twice. The first pass checks libyaml's events, because libyaml's documents do
 * not distinguish an alias from a copy. It stops at the first thing that is not plain data, so a
 * text that is nested too deep or has too many nodes never becomes a tree. The second pass builds
 * the document. */
#include "base/text/yaml.h"

#include "base/nearest.h"
#include "base/renamed.h"
#include "base/size.h"
#include "base/util.h"
#include "proto/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { YAML_QUOTE = 48, YAML_EXPECT = 512 };

/* What the first pass has seen so far. */
struct yaml_audit {
	unsigned depth, nodes, documents;
};

int yaml_fault(const struct yaml_text *text, const yaml_node_t *node, struct fault *fault,
	const char *format, ...)
{
	char sentence[FAULT_TEXT];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(sentence, sizeof sentence, format, args);
	va_end(args);
	const char *within = text->within ? text->within : "", *colon = text->within ? ": " : "";
	if (!text->origin)
		return fault_set(fault, -EINVAL, "%s%s%s%s", text->place, within, colon, sentence);
	if (!node)
		return fault_set(fault, -EINVAL, "%s: %s%s%s%s", text->origin, text->place, within,
			colon, sentence);
	return fault_set(fault, -EINVAL, "%s:%zu:%zu: %s%s%s%s", text->origin,
		node->start_mark.line + 1, node->start_mark.column + 1, text->place, within, colon,
		sentence);
}

const char *yaml_scalar(const yaml_node_t *node, size_t *ret_size)
{
	if (node->type != YAML_SCALAR_NODE)
		return NULL;
	*ret_size = node->data.scalar.length;
	return (const char *)node->data.scalar.value;
}

/* Copies at most YAML_QUOTE bytes, whole UTF-8 characters, with control characters as '?', and
 * returns `buffer`. */
static const char *yaml_quote(const char *value, size_t size, char buffer[YAML_QUOTE + 8])
{
	size_t n = UTIL_MIN(size, (size_t)YAML_QUOTE);
	while (n < size && n > 0 && !utf8_begins(value[n]))
		n--;
	for (size_t i = 0; i < n; i++)
		buffer[i] = (unsigned char)value[i] < 0x20 || value[i] == 0x7f ? '?' : value[i];
	(void)snprintf(buffer + n, 4, "%s", n < size ? "..." : "");
	return buffer;
}

/* "key: expected WHAT, got VALUE". */
static int yaml_expected(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, const char *what, struct fault *fault)
{
	char quoted[YAML_QUOTE + 8];
	size_t size;
	const char *value = yaml_scalar(node, &size);
	if (!value)
		return yaml_fault(text, node, fault, "%s: expected %s, got a %s", key->name, what,
			node->type == YAML_MAPPING_NODE ? "mapping" : "list");
	if (!size && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		return yaml_fault(text, node, fault,
			"%s: expected %s, got nothing; leave the key out for its default",
			key->name, what);
	return yaml_fault(text, node, fault, "%s: expected %s, got \"%s\"", key->name, what,
		yaml_quote(value, size, quoted));
}

/* ---- first pass ---- */

static int yaml_refuse(const struct yaml_text *text, const yaml_mark_t *mark, struct fault *fault,
	const char *sentence)
{
	return fault_set(fault, -EINVAL, "%s:%zu:%zu: %s", text->origin, mark->line + 1,
		mark->column + 1, sentence);
}

static int yaml_broken(
	const struct yaml_text *text, const yaml_parser_t *parser, struct fault *fault)
{
	if (parser->error == YAML_MEMORY_ERROR)
		return fault_set(
			fault, -ENOMEM, "%s: out of memory while reading it", text->origin);
	const char *problem = parser->problem ? parser->problem : "the text cannot be read";
	if (parser->error == YAML_READER_ERROR)
		return fault_set(fault, -EINVAL, "%s: not UTF-8 text: %s at byte %zu", text->origin,
			problem, parser->problem_offset);
	/* The scanner stops in front of what it cannot read, and few editors show a tab. */
	bool tab = parser->error == YAML_SCANNER_ERROR && *parser->buffer.pointer == '\t';
	return fault_set(fault, -EINVAL, "%s:%zu:%zu: not valid YAML: %s%s%s%s", text->origin,
		parser->problem_mark.line + 1, parser->problem_mark.column + 1, problem,
		parser->context ? " " : "", parser->context ? parser->context : "",
		tab ? " (indent with spaces, not with tabs)" : "");
}

/* The anchor and the tag of an event, NULL where it has none. */
static void yaml_event_marks(
	const yaml_event_t *event, const yaml_char_t **ret_anchor, const yaml_char_t **ret_tag)
{
	*ret_anchor = *ret_tag = NULL;
	switch (event->type) {
	case YAML_SCALAR_EVENT:
		*ret_anchor = event->data.scalar.anchor;
		*ret_tag = event->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		*ret_anchor = event->data.sequence_start.anchor;
		*ret_tag = event->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		*ret_anchor = event->data.mapping_start.anchor;
		*ret_tag = event->data.mapping_start.tag;
		break;
	default:
		break;
	}
}

static int yaml_audit_event(const struct yaml_text *text, struct yaml_audit *audit,
	const yaml_event_t *event, struct fault *fault)
{
	const yaml_char_t *anchor, *tag;
	const char *wrong = NULL;
	bool opens =
		event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
	bool closes =
		event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT;
	yaml_event_marks(event, &anchor, &tag);
	audit->nodes += opens || event->type == YAML_SCALAR_EVENT;
	audit->depth = audit->depth + opens - closes;
	audit->documents += event->type == YAML_DOCUMENT_START_EVENT;
	if (event->type == YAML_ALIAS_EVENT)
		wrong = "aliases (*name) are not supported; write the value out";
	else if (anchor)
		wrong = "anchors (&name) are not supported; write the value out where it is used";
	else if (tag)
		wrong = "tags (!name) are not supported; leave it out, each key has its own type";
	else if (audit->documents > 1)
		wrong = "a second document begins here (---); one is expected";
	else if (audit->depth > YAML_DEPTH_MAX)
		wrong = "nested too deep; at most 24 levels are allowed";
	else if (audit->nodes > YAML_NODES_MAX)
		wrong = "too many values; at most 16,384 are allowed";
	return wrong ? yaml_refuse(text, &event->start_mark, fault, wrong) : 0;
}

static int yaml_audit(
	const struct yaml_text *text, const char *bytes, size_t size, struct fault *fault)
{
	struct yaml_audit audit = {0};
	yaml_parser_t parser;
	yaml_event_t event;
	int result = 0;
	bool end = false;
	if (!yaml_parser_initialize(&parser))
		return fault_set(
			fault, -ENOMEM, "%s: out of memory while reading it", text->origin);
	yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
	while (!result && !end) {
		if (!yaml_parser_parse(&parser, &event)) {
			result = yaml_broken(text, &parser, fault);
			break;
		}
		end = event.type == YAML_STREAM_END_EVENT;
		result = yaml_audit_event(text, &audit, &event, fault);
		yaml_event_delete(&event);
	}
	yaml_parser_delete(&parser);
	return result;
}

/* ---- second pass ---- */

static const yaml_node_t *yaml_root(struct yaml_text *text)
{
	const yaml_node_t *root = yaml_document_get_root_node(&text->document);
	/* A text of only "---" is an empty plain scalar and counts as an empty text. */
	if (root && root->type == YAML_SCALAR_NODE && !root->data.scalar.length &&
		root->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
		return NULL;
	return root;
}

int yaml_load(struct yaml_text *ret, const char *bytes, size_t size, const char *origin,
	struct fault *fault)
{
	struct yaml_text text = {.origin = origin};
	yaml_parser_t parser;
	if (size > YAML_SIZE_MAX)
		return yaml_fault(&text, NULL, fault, "has %zu bytes; at most %d are allowed", size,
			YAML_SIZE_MAX);
	int result = yaml_audit(&text, bytes, size, fault);
	if (result < 0)
		return result;
	if (!yaml_parser_initialize(&parser))
		return fault_set(fault, -ENOMEM, "%s: out of memory while reading it", origin);
	yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
	if (!yaml_parser_load(&parser, &text.document))
		result = yaml_broken(&text, &parser, fault);
	yaml_parser_delete(&parser);
	if (result < 0)
		return result;
	text.root = yaml_root(&text);
	*ret = text;
	return 0;
}

static int yaml_slurp(
	int fd, const char *path, char *buffer, size_t room, size_t *ret_size, struct fault *fault)
{
	size_t size = 0;
	while (size < room) {
		ssize_t n = read(fd, buffer + size, room - size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fault_set(
				fault, -errno, "%s: cannot be read: %s", path, strerror(errno));
		if (n == 0)
			break;
		size += (size_t)n;
	}
	*ret_size = size;
	return 0;
}

int yaml_load_file(struct yaml_text *ret, const char *path, struct fault *fault)
{
	/* Not blocking: a pipe without a writer must not hang the start. */
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	cleanup(free_ptr) char *buffer = NULL;
	struct stat s;
	size_t size = 0;
	if (fd < 0)
		return fault_set(fault, -errno, "%s: cannot be opened: %s", path, strerror(errno));
	if (fstat(fd, &s) < 0 || !S_ISREG(s.st_mode))
		return fault_set(
			fault, -EINVAL, "%s: is not a regular file; expected a YAML file", path);
	/* Room for one byte more than the file has or may have: if that byte is read, the file is
	 * too large or has grown. */
	size_t room = (size_t)UTIL_MIN(s.st_size, (off_t)YAML_SIZE_MAX) + 1;
	buffer = malloc(room);
	if (!buffer)
		return fault_set(fault, -ENOMEM, "%s: out of memory while reading it", path);
	int result = yaml_slurp(fd, path, buffer, room, &size, fault);
	if (!result && size == room && size <= YAML_SIZE_MAX)
		result = fault_set(fault, -EINVAL, "%s: grew while it was read; try again", path);
	return result < 0 ? result : yaml_load(ret, buffer, size, path, fault);
}

void yaml_unload(struct yaml_text *text)
{
	yaml_document_delete(&text->document);
	text->root = NULL;
}

const yaml_node_t *yaml_node(const struct yaml_text *text, int index)
{
	return text->document.nodes.start + index - 1;
}

/* ---- values ---- */

static bool yaml_parse_bool(const char *value, bool *ret)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
	for (size_t i = 0; i < UTIL_COUNT(words); i++)
		if (strcasecmp(value, words[i]) == 0) {
			*ret = i & 1;
			return true;
		}
	return false;
}

/* Only decimal digits. A leading zero is refused: YAML 1.1 reads 010 as eight, JSON refuses it, and
 * people read it as ten. */
static bool yaml_parse_u64(const char *value, uint64_t *ret)
{
	uint64_t sum = 0;
	if (!*value || (value[0] == '0' && value[1]))
		return false;
	for (; *value; value++) {
		if (*value < '0' || *value > '9' ||
			__builtin_mul_overflow(sum, (uint64_t)10, &sum) ||
			__builtin_add_overflow(sum, (uint64_t)(*value - '0'), &sum))
			return false;
	}
	*ret = sum;
	return true;
}

/* The same with a minus sign before it, if it is not 0. */
static bool yaml_parse_i32(const struct yaml_key *key, const char *value, int32_t *ret)
{
	const bool minus = value[0] == '-';
	uint64_t size;
	if (!yaml_parse_u64(value + minus, &size) || size > INT32_MAX || (minus && !size))
		return false;
	const int32_t number = minus ? -(int32_t)size : (int32_t)size;
	if (number < key->low || number > key->high)
		return false;
	*ret = number;
	return true;
}

static bool yaml_parse_hex64(const char *value, uint64_t *ret)
{
	if (strlen(value) != 16 || strspn(value, "0123456789abcdefABCDEF") != 16)
		return false;
	*ret = strtoull(value, NULL, 16);
	return true;
}

static bool yaml_parse_double(const char *value, double *ret)
{
	char *end;
	/* strtod also accepts "nan", "inf" and hexadecimal. */
	if (!*value || value[strspn(value, "0123456789.eE+-")])
		return false;
	*ret = strtod(value, &end);
	return !*end && end != value;
}

/* What a key takes, for the words after "expected". */
static const char *yaml_describe(const struct yaml_key *key, char buffer[YAML_EXPECT])
{
	char low[16], high[16];
	const char *zero = key->zero ? key->zero : "", *joint = key->zero ? " or " : "";
	switch (key->kind) {
	case YAML_KEY_BOOL:
		return "true or false";
	case YAML_KEY_HEX64:
		return "16 hexadecimal digits in quotes";
	case YAML_KEY_SIZE:
		(void)snprintf(buffer, YAML_EXPECT, "%s%sa size such as 128M or 4G, from %s to %s",
			zero, joint, size_format(key->min, low, sizeof low),
			size_format(key->max, high, sizeof high));
		break;
	case YAML_KEY_DOUBLE:
		(void)snprintf(buffer, YAML_EXPECT, "a number from %g to %g", key->low, key->high);
		break;
	case YAML_KEY_I32:
		(void)snprintf(buffer, YAML_EXPECT, "a whole number from %.0f to %.0f", key->low,
			key->high);
		break;
	case YAML_KEY_STRING:
		(void)snprintf(buffer, YAML_EXPECT, "a text of %" PRIu64 " to %zu bytes", key->min,
			key->room - 1);
		break;
	case YAML_KEY_NAME:
		(void)snprintf(buffer, YAML_EXPECT,
			"a name of 1 to %zu bytes without control characters", key->room - 1);
		break;
	case YAML_KEY_PATH:
		(void)snprintf(buffer, YAML_EXPECT, "an absolute path of at most %zu bytes",
			key->room - 1);
		break;
	case YAML_KEY_ENUM:
		(void)snprintf(buffer, YAML_EXPECT, "%s", key->names[0]);
		for (size_t i = 1, n = strlen(buffer); key->names[i] && n < YAML_EXPECT; i++)
			n += (size_t)snprintf(buffer + n, YAML_EXPECT - n, "%s%s",
				key->names[i + 1] ? ", " : " or ", key->names[i]);
		break;
	default:
		(void)snprintf(buffer, YAML_EXPECT,
			"%s%sa whole number from %" PRIu64 " to %" PRIu64, zero, joint, key->min,
			key->max);
	}
	return buffer;
}

/* Whether `value` is valid for a text key. */
static bool yaml_fits(const struct yaml_key *key, const char *value, size_t size)
{
	if (size < key->min || size >= key->room || memchr(value, 0, size))
		return false;
	if (key->kind == YAML_KEY_PATH)
		return !size || value[0] == '/';
	if (key->kind != YAML_KEY_NAME)
		return true;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)value[i] < 0x20 || value[i] == 0x7f)
			return false;
	return size > 0;
}

static bool yaml_parse_number(const struct yaml_key *key, const char *value, uint64_t *ret)
{
	if (key->zero && strcmp(value, key->zero) == 0) {
		*ret = 0;
		return true;
	}
	bool parsed = key->kind == YAML_KEY_SIZE ? size_parse(value, ret) == 0
						 : yaml_parse_u64(value, ret);
	return parsed && *ret >= key->min && *ret <= key->max;
}

static bool yaml_parse_enum(const struct yaml_key *key, const char *value, int *ret)
{
	for (int i = 0; key->names[i]; i++)
		if (strcmp(value, key->names[i]) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* Stores a scalar into its field; false where it is not what the key takes. */
static bool yaml_store(const struct yaml_key *key, const char *value, size_t size, void *field)
{
	_Static_assert(sizeof(enum yaml_kind) == sizeof(int), "enums are stored as int");
	uint64_t number;
	switch (key->kind) {
	case YAML_KEY_BOOL:
		return yaml_parse_bool(value, field);
	case YAML_KEY_U32:
		if (!yaml_parse_number(key, value, &number))
			return false;
		*(uint32_t *)field = (uint32_t)number;
		return true;
	case YAML_KEY_I32:
		return yaml_parse_i32(key, value, field);
	case YAML_KEY_U64:
	case YAML_KEY_SIZE:
		return yaml_parse_number(key, value, field);
	case YAML_KEY_HEX64:
		return yaml_parse_hex64(value, field);
	case YAML_KEY_DOUBLE:
		return yaml_parse_double(value, field) && *(double *)field >= key->low &&
		       *(double *)field <= key->high;
	case YAML_KEY_ENUM:
		return yaml_parse_enum(key, value, field);
	default:
		if (!yaml_fits(key, value, size))
			return false;
		memcpy(field, value, size);
		((char *)field)[size] = 0;
		return true;
	}
}

int yaml_read_value(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	char expect[YAML_EXPECT];
	size_t size = 0;
	if (key->kind == YAML_KEY_NODE && key->read_as)
		return key->read_as(text, node, key, field, fault);
	if (key->kind == YAML_KEY_NODE)
		return key->read(text, node, field, fault);
	const char *value = yaml_scalar(node, &size);
	bool nothing = !size && node->type == YAML_SCALAR_NODE &&
		       node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
	bool is_text = key->kind >= YAML_KEY_STRING && key->kind <= YAML_KEY_PATH;
	if (!value || nothing || (!is_text && memchr(value, 0, size)) ||
		!yaml_store(key, value, size, field))
		return yaml_expected(text, node, key, yaml_describe(key, expect), fault);
	return 0;
}

/* A command line may write numbers with leading zeros or a plus sign, as `printf %03d` does;
 * YAML may not, because there 010 would be eight to some readers. */
static const char *yaml_plain_number(const struct yaml_key *key, const char *text)
{
	if (key->kind != YAML_KEY_U32 && key->kind != YAML_KEY_U64)
		return text;
	while ((*text == '0' || *text == '+') && isdigit((unsigned char)text[1]))
		text++;
	return text;
}

int yaml_read_option(const struct yaml_key *key, const char *text, const char *name, void *field,
	struct fault *fault)
{
	const struct yaml_text placeless = {.origin = NULL};
	text = yaml_plain_number(key, text);
	const yaml_node_t node = {.type = YAML_SCALAR_NODE,
		.data.scalar = {.value = (yaml_char_t *)text,
			.length = strlen(text),
			.style = YAML_DOUBLE_QUOTED_SCALAR_STYLE}};
	struct yaml_key named = *key;
	named.name = name;
	return yaml_read_value(&placeless, &node, &named, field, fault);
}

/* ---- keys ---- */

/* Refuses a key that is not in the table: suggests a likely one, or lists all. */
static int yaml_unknown(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *keys, size_t count, struct fault *fault)
{
	char quoted[YAML_QUOTE + 8], list[YAML_EXPECT] = "";
	size_t size = 0, n = 0;
	const char *name = yaml_scalar(node, &size), *meant;
	struct nearest nearest = nearest_to(name);
	yaml_quote(name, size, quoted);
	for (size_t i = 0; i < count; i++) {
		nearest_try(&nearest, keys[i].name);
		if (n < sizeof list)
			n += (size_t)snprintf(
				list + n, sizeof list - n, "%s%s", i ? ", " : "", keys[i].name);
	}
	if (!count)
		return yaml_fault(text, node, fault, "unknown key \"%s\"; expected none", quoted);
	if ((meant = nearest_found(&nearest)))
		return yaml_fault(text, node, fault, "unknown key \"%s\"; did you mean \"%s\"?",
			quoted, meant);
	return yaml_fault(
		text, node, fault, "unknown key \"%s\"; expected one of %s", quoted, list);
}

/* Whether a key is `name`, or an old name of it: `ret_old` then gets that, otherwise NULL. */
static bool yaml_is_key(const yaml_node_t *node, const char *name, const char **ret_old)
{
	size_t size;
	const char *written = yaml_scalar(node, &size), *now;
	*ret_old = NULL;
	if (!written)
		return false;
	if (strlen(name) == size && memcmp(name, written, size) == 0)
		return true;
	now = renamed_name(renamed_keys, written);
	*ret_old = written;
	return now && strlen(written) == size && strcmp(now, name) == 0;
}

static void yaml_say_renamed(
	const struct yaml_text *text, const yaml_node_t *node, const char *old, const char *name)
{
	struct fault said;
	if (old && text->renamed && !text->renamed->text[0])
		(void)yaml_fault(
			text, node, text->renamed, "%s", renamed_say("", old, name, &said));
}

static int yaml_match(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *keys, size_t count, size_t *ret_index, struct fault *fault)
{
	size_t size;
	const char *old;
	if (!yaml_scalar(node, &size))
		return yaml_fault(
			text, node, fault, "a key must be a word, not a list or a mapping");
	for (size_t i = 0; i < count; i++)
		if (yaml_is_key(node, keys[i].name, &old)) {
			yaml_say_renamed(text, node, old, keys[i].name);
			*ret_index = i;
			return 0;
		}
	return yaml_unknown(text, node, keys, count, fault);
}

const yaml_node_pair_t *yaml_find(
	const struct yaml_text *text, const yaml_node_t *mapping, const char *key)
{
	if (!mapping || mapping->type != YAML_MAPPING_NODE)
		return NULL;
	const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
	for (; pair < mapping->data.mapping.pairs.top; pair++) {
		const char *old;
		if (yaml_is_key(yaml_node(text, pair->key), key, &old))
			return pair;
	}
	return NULL;
}

/* Refuses a key that appears twice, and says where it appears first: the place of the second one is
 * in front of the sentence. */
static int yaml_twice(const struct yaml_text *text, const yaml_node_t *mapping,
	const yaml_node_t *again, const char *key, struct fault *fault)
{
	const yaml_node_t *first = yaml_node(text, yaml_find(text, mapping, key)->key);
	return yaml_fault(text, again, fault,
		"%s appears twice, first in line %zu, column %zu; keep one of them", key,
		first->start_mark.line + 1, first->start_mark.column + 1);
}

int yaml_read(const struct yaml_text *text, const yaml_node_t *node, const struct yaml_key *keys,
	size_t count, void *target, uint64_t *ret_given, struct fault *fault)
{
	uint64_t given = 0;
	if (node && node->type != YAML_MAPPING_NODE)
		return yaml_fault(text, node, fault,
			"expected a mapping of \"key: value\" lines, got a %s",
			node->type == YAML_SEQUENCE_NODE ? "list" : "single value");
	const yaml_node_pair_t *pair = node ? node->data.mapping.pairs.start : NULL;
	for (; node && pair < node->data.mapping.pairs.top; pair++) {
		const yaml_node_t *key_node = yaml_node(text, pair->key);
		size_t i = 0;
		int result = yaml_match(text, key_node, keys, count, &i, fault);
		if (result < 0)
			return result;
		if (given >> i & 1)
			return yaml_twice(text, node, key_node, keys[i].name, fault);
		given |= (uint64_t)1 << i;
		result = yaml_read_value(text, yaml_node(text, pair->value), &keys[i],
			(char *)target + keys[i].offset, fault);
		if (result < 0)
			return result;
	}
	*ret_given = given;
	return 0;
}

int yaml_equal(const struct yaml_key *key, const void *a, const void *b)
{
	const char *x = (const char *)a + key->offset, *y = (const char *)b + key->offset;
	switch (key->kind) {
	case YAML_KEY_BOOL:
		return *(const bool *)x == *(const bool *)y;
	case YAML_KEY_U32:
	case YAML_KEY_I32:
	case YAML_KEY_ENUM:
		return memcmp(x, y, sizeof(uint32_t)) == 0;
	case YAML_KEY_DOUBLE:
		return *(const double *)x == *(const double *)y;
	case YAML_KEY_STRING:
	case YAML_KEY_NAME:
	case YAML_KEY_PATH:
		return strcmp(x, y) == 0;
	default:
		return memcmp(x, y, sizeof(uint64_t)) == 0;
	}
}
