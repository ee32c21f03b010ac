/* config_remote: see config_remote.h. */
#include "config_remote.h"

#include "base/util.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static const char *const path_style_names[] = {
	[REMOTE_PATH_AUTO] = "auto",
	[REMOTE_PATH_ON] = "on",
	[REMOTE_PATH_OFF] = "off",
	NULL,
};

static int read_endpoint(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault);
static int read_plain_http(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault);

#define REMOTE_FIELD(member) .offset = offsetof(struct config_remote, member)
#define REMOTE_TEXT(member) REMOTE_FIELD(member), .room = sizeof((struct config_remote *)0)->member

static const struct yaml_key remote_keys[] = {
	{"endpoint_url", YAML_KEY_NODE, REMOTE_FIELD(endpoint_url), .read_as = read_endpoint},
	{"region", YAML_KEY_STRING, REMOTE_TEXT(region)},
	{"profile", YAML_KEY_STRING, REMOTE_TEXT(profile)},
	{"anonymous", YAML_KEY_BOOL, REMOTE_FIELD(anonymous)},
	{"requester_pays", YAML_KEY_BOOL, REMOTE_FIELD(requester_pays)},
	{"path_style", YAML_KEY_ENUM, REMOTE_FIELD(path_style), .names = path_style_names},
	{"connections", YAML_KEY_U32, REMOTE_FIELD(connections), .min = 1, .max = 1024},
	/* Below 64 KiB/s no image of usual size comes before its timeout. */
	{"bandwidth", YAML_KEY_SIZE, REMOTE_FIELD(bandwidth), .min = 64 << 10,
		.max = (uint64_t)1 << 40, .zero = "unlimited"},
	{"timeout_s", YAML_KEY_U32, REMOTE_FIELD(timeout_s), .min = 1, .max = 86400},
	{"hedge", YAML_KEY_DOUBLE, REMOTE_FIELD(hedge), .low = 0, .high = 0.2},
	{"plain_http", YAML_KEY_NODE, .read = read_plain_http}, /* the field is the whole struct */
};

void config_remote_init(struct config_remote *remote)
{
	memset(remote, 0, sizeof *remote);
	remote->connections = REMOTE_CONNECTIONS;
	remote->timeout_s = REMOTE_TIMEOUT_S;
	remote->hedge = REMOTE_HEDGE;
}

static int read_endpoint(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key word = {key->name, YAML_KEY_STRING, .room = CONFIG_URL};
	char url[CONFIG_URL];
	int result = yaml_read_value(text, node, &word, url, fault);
	if (result < 0)
		return result;
	const char *host = !strncmp(url, "https://", 8)  ? url + 8
			   : !strncmp(url, "http://", 7) ? url + 7
							 : NULL;
	if (url[0] && (!host || !*host || strpbrk(url, " \t@?#")))
		return yaml_fault(text, node, fault,
			"%s: expected https://HOST[:PORT], without user and query, got \"%.100s\"",
			key->name, strchr(url, '@') ? "(a URL with a user)" : url);
	memcpy(field, url, strlen(url) + 1);
	return 0;
}

static int read_plain_http(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	static const struct yaml_key key = {"plain_http", YAML_KEY_NAME, .room = CONFIG_HOST};
	struct config_remote *remote = field;
	remote->plain_count = 0;
	if (node->type != YAML_SEQUENCE_NODE)
		return yaml_fault(text, node, fault,
			"plain_http: expected a list of hosts; [] for this machine only");
	const yaml_node_item_t *item = node->data.sequence.items.start;
	for (; item < node->data.sequence.items.top; item++) {
		const yaml_node_t *at = yaml_node(text, *item);
		if (remote->plain_count == CONFIG_PLAIN_HTTP)
			return yaml_fault(
				text, at, fault, "plain_http: at most %d hosts", CONFIG_PLAIN_HTTP);
		char *host = remote->plain_http[remote->plain_count];
		int result = yaml_read_value(text, at, &key, host, fault);
		if (result < 0)
			return result;
		if (strpbrk(host, "/ @"))
			return yaml_fault(text, at, fault,
				"plain_http: expected the name of a host, as in "
				"minio.example.org, got \"%.100s\"",
				host);
		remote->plain_count++;
	}
	return 0;
}

int config_read_remote(
	const struct yaml_text *text, const yaml_node_t *node, void *field, struct fault *fault)
{
	uint64_t given;
	struct yaml_text within = *text;
	within.within = "remote";
	struct config_remote next = *(struct config_remote *)field;
	int result = yaml_read(
		&within, node, remote_keys, UTIL_COUNT(remote_keys), &next, &given, fault);
	if (result < 0)
		return result;
	memcpy(field, &next, sizeof next);
	return 0;
}

int config_read_cache_size(const struct yaml_text *text, const yaml_node_t *node,
	const struct yaml_key *key, void *field, struct fault *fault)
{
	const struct yaml_key size = {key->name, YAML_KEY_SIZE, .min = CONFIG_CACHE_LEAST,
		.max = (uint64_t)1 << 50, .zero = "auto"};
	const bool scalar = node->type == YAML_SCALAR_NODE;
	size_t length = 0;
	const char *word = scalar ? yaml_scalar(node, &length) : NULL;
	if (word && !strcmp(word, "off")) {
		*(uint64_t *)field = CONFIG_CACHE_OFF;
		return 0;
	}
	return yaml_read_value(text, node, &size, field, fault);
}
