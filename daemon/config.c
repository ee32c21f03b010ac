/* config: see config.h. main reads the file before any thread runs; after SIGHUP, a thread of
 * its own reads it again. */
#include "config.h"

#include "base/text/yaml.h"
#include "base/util.h"
#include "http/http.h"
#include "remote/url.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const char *const config_reader_names[] = {
	[FETCH_AUTO] = "auto",
	[FETCH_URING] = "io_uring",
	[FETCH_PREAD] = "pread",
	NULL,
};

static const char *const config_io_names[] = {
	[FETCH_IO_AUTO] = "auto",
	[FETCH_IO_BUFFERED] = "buffered",
	[FETCH_IO_DIRECT] = "direct",
	NULL,
};

static const char *const config_cache_names[] = {
	[FETCH_CACHE_AUTO] = "auto",
	[FETCH_CACHE_ON] = "on",
	[FETCH_CACHE_OFF] = "off",
	NULL,
};

static const char *const config_log_format_names[] = {
	[LOG_HUMAN] = "human",
	[LOG_JSON] = "json",
	NULL,
};

static const char *const config_log_to_names[] = {
	[LOG_AUTO] = "auto",
	[LOG_STDERR] = "stderr",
	[LOG_JOURNAL] = "journal",
	NULL,
};

static const char *const config_seccomp_names[] = {
	[CONFINE_AUTO] = "auto",
	[CONFINE_ON] = "on",
	[CONFINE_OFF] = "off",
	NULL,
};

static const char *const config_numa_names[] = {
	[CONFIG_NUMA_AUTO] = "auto",
	[CONFIG_NUMA_OFF] = "off",
	NULL,
};

static const char *const config_open_names[] = {
	[CONFIG_OPEN_ANY] = "any",
	[CONFIG_OPEN_NAMED] = "named",
	NULL,
};

static int config_read_streams(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);
static int config_read_log_levels(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);
static int config_read_http(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);
static int config_read_recorder(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);
static int config_read_roots(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

#define CONFIG_FIELD(member) .offset = offsetof(struct config, member)
#define CONFIG_TEXT_FIELD(member) CONFIG_FIELD(member), .room = sizeof((struct config *)0)->member

static const struct yaml_key config_keys[] = {
	{"socket", YAML_KEY_PATH, CONFIG_TEXT_FIELD(socket)},
	/* Below 1 MiB: somebody probably forgot the unit. */
	{"memory", YAML_KEY_SIZE, CONFIG_FIELD(memory), .min = 1 << 20, .max = (uint64_t)1 << 50,
		.zero = "auto"},
	{"threads", YAML_KEY_U32, CONFIG_FIELD(threads), .min = 1, .max = 1024, .zero = "auto"},
	{"numa", YAML_KEY_ENUM, CONFIG_FIELD(numa), .names = config_numa_names},
	{"reader", YAML_KEY_ENUM, CONFIG_FIELD(reader), .names = config_reader_names},
	{"reader_threads", YAML_KEY_U32, CONFIG_FIELD(reader_threads), .min = 1, .max = 64,
		.zero = "auto"},
	{"io", YAML_KEY_ENUM, CONFIG_FIELD(io), .names = config_io_names},
	{"cache", YAML_KEY_ENUM, CONFIG_FIELD(cache), .names = config_cache_names},
	{"cache_dir", YAML_KEY_PATH, CONFIG_TEXT_FIELD(cache_dir)},
	{"cache_size", YAML_KEY_NODE, CONFIG_FIELD(cache_size), .read_as = config_read_cache_size},
	{"remote", YAML_KEY_NODE, CONFIG_FIELD(remote), .read = config_read_remote},
	{"entry_points", YAML_KEY_BOOL, CONFIG_FIELD(entry_points)},
	{"idle_exit_s", YAML_KEY_U32, CONFIG_FIELD(idle_exit_s), .max = 31536000},
	{"log_level", YAML_KEY_NODE, CONFIG_FIELD(log_levels), .read_as = config_read_log_levels},
	{"http", YAML_KEY_NODE, CONFIG_FIELD(http), .read_as = config_read_http},
	{"recorder", YAML_KEY_NODE, CONFIG_FIELD(recorder), .read_as = config_read_recorder},
	{"recorder_size", YAML_KEY_SIZE, CONFIG_FIELD(recorder_size), .min = CONFIG_RECORDER_LEAST,
		.max = CONFIG_RECORDER_MOST},
	{"log_format", YAML_KEY_ENUM, CONFIG_FIELD(log_format), .names = config_log_format_names},
	{"log_to", YAML_KEY_ENUM, CONFIG_FIELD(log_target), .names = config_log_to_names},
	{"max_clients", YAML_KEY_U32, CONFIG_FIELD(max_clients), .min = 1, .max = 4096},
	{"max_streams", YAML_KEY_U32, CONFIG_FIELD(max_streams), .min = 1, .max = 100},
	{"stream_memory", YAML_KEY_SIZE, CONFIG_FIELD(stream_memory), .min = 1 << 20,
		.max = (uint64_t)1 << 50, .zero = "auto"},
	{"open_streams", YAML_KEY_ENUM, CONFIG_FIELD(open_streams), .names = config_open_names},
	{"roots", YAML_KEY_NODE, CONFIG_FIELD(roots), .read = config_read_roots},
	{"seccomp", YAML_KEY_ENUM, CONFIG_FIELD(seccomp), .names = config_seccomp_names},
	{"core_files", YAML_KEY_BOOL, CONFIG_FIELD(core_files)},
	{"streams", YAML_KEY_NODE, .read = config_read_streams}, /* the field is the whole struct */
};

void config_init(struct config *config)
{
	/* Does not touch the array of streams, so that it takes no memory while it is empty. */
	memset(config, 0, offsetof(struct config, stream));
	for (int i = 0; i < LOG_TOPICS; i++)
		config->log_levels.of[i] = LOG_INFO;
	config_remote_init(&config->remote);
	config->max_clients = 256;
	config->max_streams = 64;
	config->entry_points = true;
	memcpy(config->http, "auto", sizeof "auto");
	memcpy(config->recorder, "auto", sizeof "auto");
	config->recorder_size = 4 << 20;
}

static int config_read_log_levels(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key name = {key->name, YAML_KEY_NAME, .room = 256};
	struct fault why;
	char levels[256];
	int result = yaml_read_value(text, node, &name, levels, fault);
	if (result < 0)
		return result;
	result = log_levels_parse(levels, field, &why);
	return result < 0 ? yaml_fault(text, node, fault, "%s: %s", key->name, why.text) : 0;
}

static int config_read_http(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key name = {key->name, YAML_KEY_NAME, .room = CONFIG_HTTP};
	struct fault why;
	char http[CONFIG_HTTP] = "";
	bool empty = node->type == YAML_SCALAR_NODE && node->data.scalar.length == 0;
	int result = empty ? 0 : yaml_read_value(text, node, &name, http, fault);
	if (result < 0)
		return result;
	result = http_check_address(http, &why);
	if (result < 0)
		return yaml_fault(text, node, fault, "%s: %s", key->name, why.text);
	memcpy(field, http, strlen(http) + 1);
	return 0;
}

int config_check_recorder(const char *text, struct fault *fault)
{
	if (strcmp(text, "auto") == 0 || strcmp(text, "off") == 0)
		return 0;
	if (text[0] == '/' && strlen(text) < CONFIG_RECORDER)
		return 0;
	return fault_set(fault, -EINVAL,
		"expected auto, off or the absolute path of a folder (below %d bytes), got "
		"\"%.100s\"",
		CONFIG_RECORDER, text);
}

static int config_read_recorder(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key name = {key->name, YAML_KEY_NAME, .room = CONFIG_RECORDER};
	struct fault why;
	char recorder[CONFIG_RECORDER];
	int result = yaml_read_value(text, node, &name, recorder, fault);
	if (result < 0)
		return result;
	result = config_check_recorder(recorder, &why);
	if (result < 0)
		return yaml_fault(text, node, fault, "%s: %s", key->name, why.text);
	memcpy(field, recorder, strlen(recorder) + 1);
	return 0;
}

int config_add_root(struct config_roots *roots, const char *path, struct fault *fault)
{
	static struct remote_url url; /* large; main's thread and the reload's take turns */
	struct fault why;
	if (remote_is_url(path) && remote_url_parse(path, &url, &why) < 0)
		return fault_set(fault, -EINVAL, "%s", why.text);
	if (path[0] != '/' && !remote_is_url(path))
		return fault_set(fault, -EINVAL,
			"expected the absolute path of a folder, got \"%.100s\"%s", path,
			path[0] == '~' ? "; write the home folder out" : "");
	if (strlen(path) >= CONFIG_ROOT)
		return fault_set(fault, -EINVAL, "a path has at most %d bytes", CONFIG_ROOT - 1);
	if (roots->count == CONFIG_ROOTS)
		return fault_set(fault, -EINVAL, "at most %d folders", CONFIG_ROOTS);
	memcpy(roots->path[roots->count++], path, strlen(path) + 1);
	return 0;
}

static int config_read_root(const struct yaml_text *text, const yaml_node_t *node,
	struct config_roots *roots, struct fault *fault)
{
	static const struct yaml_key key = {"roots", YAML_KEY_NAME, .room = 4096};
	struct fault why;
	char path[4096];
	int result = yaml_read_value(text, node, &key, path, fault);
	if (result < 0)
		return result;
	result = config_add_root(roots, path, &why);
	return result < 0 ? yaml_fault(text, node, fault, "roots: %s", why.text) : 0;
}

static int config_read_roots(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct config_roots *roots = field;
	roots->count = 0;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(text, node, fault,
			"roots: expected a list of the folders that datasets may be in; [] for "
			"any folder");
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top; item++) {
		int result = config_read_root(text, yaml_node(text, *item), roots, fault);
		if (result < 0)
			return result;
	}
	return 0;
}

static int config_read_name(const struct yaml_text *text, const yaml_node_t *node,
	struct config *config, struct stream_spec *ret, struct fault *fault)
{
	static const struct yaml_key name_key = {
		"a stream's name", YAML_KEY_NAME, .room = SPEC_NAME};
	int result = yaml_read_value(text, node, &name_key, ret->name, fault);
	if (result < 0)
		return result;
	for (uint32_t i = 0; i < config->stream_count; i++)
		if (strcmp(config->stream[i].name, ret->name) == 0)
			return yaml_fault(text, node, fault,
				"the stream \"%s\" is defined twice; keep one", ret->name);
	return 0;
}

static int config_read_stream(const struct yaml_text *text, const yaml_node_pair_t *pair,
	struct config *config, struct fault *fault)
{
	const yaml_node_t *key = yaml_node(text, pair->key), *value = yaml_node(text, pair->value);
	struct stream_spec *spec = &config->stream[config->stream_count];
	char name[SPEC_NAME];
	if (config->stream_count == CONFIG_STREAMS)
		return yaml_fault(text, key, fault, "too many streams; at most %d can be named",
			CONFIG_STREAMS);
	int result = config_read_name(text, key, config, spec, fault);
	if (result < 0)
		return result;
	memcpy(name, spec->name, sizeof name);
	/* libyaml's functions take pointers without const even to things that they do not
	 * change. */
	result = spec_parse_node((void *)&text->document, (void *)value, text->origin, spec, fault);
	if (result < 0)
		return result;
	if (spec->name[0])
		return yaml_fault(text, value, fault,
			"stream: is for clients; \"%s\" needs a source of its own", name);
	const char *client_key = spec_client_key(spec);
	if (client_key)
		return yaml_fault(text, value, fault,
			"%s: is for clients; the configuration defines what is read, and each "
			"client where it resumes",
			client_key);
	memcpy(spec->name, name, sizeof name);
	config->stream_count++;
	return 0;
}

static int config_read_streams(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	struct config *config = field;
	if (node->type != YAML_MAPPING_NODE)
		return yaml_fault(text, node, fault,
			"streams: expected a mapping of names to definitions; {} for none");
	config->stream_count = 0;
	const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	for (; pair < node->data.mapping.pairs.top; pair++) {
		int result = config_read_stream(text, pair, config, fault);
		if (result < 0)
			return result;
	}
	return 0;
}

/* Copies the settings and only the streams in use: the struct has room for many, but few files
 * define any. */
static void config_copy(struct config *to, const struct config *from)
{
	memcpy(to, from, offsetof(struct config, stream));
	memcpy(to->stream, from->stream, from->stream_count * sizeof from->stream[0]);
}

static int config_read(struct yaml_text *text, struct config *config, struct fault *fault)
{
	uint64_t given;
	cleanup(free_ptr) struct config *next = malloc(sizeof *next);
	if (!next)
		return fault_set(
			fault, -ENOMEM, "%s: out of memory while reading it", text->origin);
	config_copy(next, config);
	next->renamed.text[0] = 0;
	text->renamed = &next->renamed;
	int result = yaml_read(
		text, text->root, config_keys, UTIL_COUNT(config_keys), next, &given, fault);
	if (result < 0)
		return result;
	memcpy(next->file, text->origin, strlen(text->origin) + 1);
	config_copy(config, next);
	return 0;
}

int config_load(const char *path, struct config *config, struct fault *fault)
{
	cleanup(yaml_text) struct yaml_text text = {0};
	if (strlen(path) >= sizeof config->file)
		return fault_set(fault, -ENAMETOOLONG,
			"the configuration's path has more than %zu bytes",
			sizeof config->file - 1);
	int result = yaml_load_file(&text, path, fault);
	return result < 0 ? result : config_read(&text, config, fault);
}

int config_set(struct config *config, const char *key, const char *text, const char *name,
	struct fault *fault)
{
	size_t i = 0;
	while (strcmp(config_keys[i].name, key) != 0)
		i++;
	/* "" in a file means the default; of an option it is an unset variable of a shell. */
	struct yaml_key option = config_keys[i];
	if (option.kind == YAML_KEY_PATH)
		option.min = 1;
	int result = yaml_read_option(&option, text, name, (char *)config + option.offset, fault);
	config->idle_exit_given |= !result && strcmp(key, "idle_exit_s") == 0;
	config->log_levels_given |= !result && strcmp(key, "log_level") == 0;
	return result;
}

const char *config_no_streams(const struct config *config, bool *ret_closed)
{
	*ret_closed = config->open_streams == CONFIG_OPEN_NAMED;
	if (!config->file[0] || config->stream_count)
		return "";
	return *ret_closed
		       ? "defines no streams, and open_streams: named allows no others, so that "
			 "no trainer can open one: add a stream below streams:, or remove "
			 "open_streams"
		       : "defines no streams: trainers open streams of their own, and "
			 "stream:NAME names none";
}
