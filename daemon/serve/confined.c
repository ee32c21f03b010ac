/* confined: see confined.h. */
#include "serve/confined.h"

#include "base/host/roots.h"
#include "base/log.h"
#include "base/store.h"
#include "base/util.h"
#include "http/address.h"
#include "proto/jsontext.h"
#include "remote/auth/auth.h"
#include "remote/url.h"
#include "serve/state.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the C library and the stages read, besides datasets. */
static const struct confine_place confined_system[] = {
	{"/proc", CONFINE_READ, false},
	{"/sys", CONFINE_READ, false},
	{"/dev/null", CONFINE_WRITE, false},
	{"/dev/urandom", CONFINE_READ_FILES, false},
	{"/etc/localtime", CONFINE_READ_FILES, false},
	{"/usr/share/zoneinfo", CONFINE_READ, false},
	/* a name in `http:` */
	{"/etc/hosts", CONFINE_READ_FILES, false},
	{"/etc/host.conf", CONFINE_READ_FILES, false},
	{"/etc/nsswitch.conf", CONFINE_READ_FILES, false},
	{"/etc/resolv.conf", CONFINE_READ_FILES, false},
	{"/etc/gai.conf", CONFINE_READ_FILES, false},
	{"/etc/services", CONFINE_READ_FILES, false},
	/* libraries that are loaded late */
	{"/etc/ld.so.cache", CONFINE_READ_FILES, false},
	{"/lib", CONFINE_READ, false},
	{"/lib64", CONFINE_READ, false},
	{"/usr/lib", CONFINE_READ, false},
};

/* What libcurl, OpenSSL and the C library read for a daemon that may read URLs. */
static const struct confine_place confined_network_system[] = {
	{"/etc/ssl", CONFINE_READ, false},
	{"/etc/pki", CONFINE_READ, false},
	{"/etc/ca-certificates", CONFINE_READ, false},
	{"/usr/share/ca-certificates", CONFINE_READ, false},
	{"/usr/local/share/ca-certificates", CONFINE_READ, false},
	{"/etc/crypto-policies", CONFINE_READ, false},
	{"/usr/share/crypto-policies", CONFINE_READ, false},
	{"/etc/resolv.conf", CONFINE_READ_FILES, false},
	/* where /etc/resolv.conf is a link to */
	{"/run/systemd/resolve", CONFINE_READ, false},
	{"/run/resolvconf", CONFINE_READ, false},
	{"/run/NetworkManager", CONFINE_READ, false},
};

enum {
	CONFINED_CREDENTIALS = 24, /* files of credentials */
	CONFINED_PLACES = UTIL_COUNT(confined_system) + UTIL_COUNT(confined_network_system) +
			  ROOTS_MAX + CONFINED_CREDENTIALS + 8,
	CONFINED_PORTS = ROOTS_MAX + 24,
};

struct confined_places {
	struct confine_place place[CONFINED_PLACES];
	size_t count;
	char credentials[CONFINED_CREDENTIALS][PATH_MAX];
	size_t credential_count;
	uint16_t port[CONFINED_PORTS];
	size_t port_count;
};

static void confined_add(
	struct confined_places *places, const char *path, enum confine_access access, bool must)
{
	places->place[places->count++] = (struct confine_place){path, access, must};
}

/* A path's folder; "." where it names none. */
static void confined_folder(const char *path, char *buffer, size_t room)
{
	const char *slash = strrchr(path, '/');
	int size = slash ? (int)(slash - path) : 0;
	(void)snprintf(buffer, room, "%.*s", size, path);
	if (!size)
		(void)snprintf(buffer, room, "%s", slash ? "/" : ".");
}

int confined_begin(struct server *server, struct fault *fault)
{
	const struct config_roots *roots = &server->config->roots;
	int result = 0;
	roots_clear();
	for (uint32_t i = 0; !result && i < roots->count; i++)
		result = remote_is_url(roots->path[i]) ? 0 : roots_add(roots->path[i], fault);
	if (roots->count)
		roots_bind();
	/* A folder that does not exist is a mistake in the settings. */
	if (result)
		return -EINVAL;
	return confine_begin(server->config->core_files, &server->confined, fault);
}

/* Whether it may read URLs: there are no roots, or one of them is a URL. */
static bool confined_network(const struct server *server)
{
	const struct config_roots *roots = &server->config->roots;
	for (uint32_t i = 0; i < roots->count; i++)
		if (remote_is_url(roots->path[i]))
			return true;
	return roots->count == 0;
}

static void confined_add_credentials(void *context, const char *path)
{
	struct confined_places *places = context;
	if (places->credential_count == CONFINED_CREDENTIALS || strlen(path) >= PATH_MAX)
		return;
	char *to = places->credentials[places->credential_count++];
	(void)snprintf(to, PATH_MAX, "%s", path);
	confined_add(places, to, CONFINE_READ, false);
}

static void confined_add_port(struct confined_places *places, uint16_t port)
{
	for (size_t i = 0; i < places->port_count; i++)
		if (places->port[i] == port)
			return;
	if (places->port_count < CONFINED_PORTS)
		places->port[places->port_count++] = port;
}

/* The port of an endpoint, which may be written without a scheme; `none` where it has no port. */
static void confined_add_port_of(struct confined_places *places, const char *text, uint16_t none)
{
	char with[REMOTE_URL_MAX + 1];
	struct remote_url url;
	if (!text || !text[0])
		return;
	(void)snprintf(with, sizeof with, "%s%s", remote_is_url(text) ? "" : "http://", text);
	/* Proxies have schemes of their own: socks5h://. */
	char *scheme = strncmp(with, "socks", 5) == 0 ? strstr(with, "://") : NULL;
	if (scheme) {
		memmove(with + 4, scheme, strlen(scheme) + 1);
		memcpy(with, "http", 4);
	}
	if (remote_url_parse(with, &url, NULL) == 0)
		confined_add_port(places, url.port ? url.port : none);
}

/* Servers and names. Landlock knows ports and not hosts: the hosts are what roots: allow, checked
 * by remote/. */
static void confined_add_network(const struct server *server, struct confined_places *places)
{
	static const char *const variables[] = {"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3",
		"AWS_ENDPOINT_URL_STS", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT", "STORAGE_EMULATOR_HOST", "HF_ENDPOINT"};
	static const char *const proxies[] = {
		"HTTPS_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"};
	static const uint16_t usual[] = {443, 80, 53};
	const struct config *config = server->config;
	struct remote_options options = {
		.profile = config->remote.profile[0] ? config->remote.profile : NULL};
	for (size_t i = 0; i < UTIL_COUNT(confined_network_system); i++)
		places->place[places->count++] = confined_network_system[i];
	auth_files(&options, confined_add_credentials, places);
	for (size_t i = 0; i < UTIL_COUNT(usual); i++)
		confined_add_port(places, usual[i]);
	for (size_t i = 0; i < UTIL_COUNT(variables); i++)
		confined_add_port_of(places, getenv(variables[i]), 443);
	for (size_t i = 0; i < UTIL_COUNT(proxies); i++) /* 1080: curl(1), --proxy */
		confined_add_port_of(places, getenv(proxies[i]), 1080);
	confined_add_port_of(places, config->remote.endpoint_url, 443);
	for (uint32_t i = 0; i < config->roots.count; i++)
		if (remote_is_url(config->roots.path[i]))
			confined_add_port_of(places, config->roots.path[i], 443);
}

/* The C library of older systems loads the code that looks up names when the first name is looked
 * up, which a confined process may not. */
static void confined_load_names(void)
{
	struct addrinfo *found = NULL;
	if (getaddrinfo("localhost", NULL, NULL, &found) == 0)
		freeaddrinfo(found);
}

/* With roots, indexes are stored nowhere else. */
static int confined_cache(struct server *server, struct fault *fault)
{
	int result = store_folder_make(server->cache_dir);
	if (!result && access(server->cache_dir, R_OK | W_OK | X_OK))
		result = -errno;
	return result ? fault_set(fault, result,
				"roots: indexes are kept only in the cache folder, and %s cannot "
				"be used: %s; set cache_dir",
				server->cache_dir, strerror(-result))
		      : 0;
}

static void confined_http(const struct server *server, struct confine_files_options *options,
	struct confined_places *places, char *folder, size_t room)
{
	struct address address;
	struct fault fault;
	const char *text = server->config->http;
	if (strcmp(text, "off") == 0 || address_parse(text, "/", &address, &fault))
		return;
	if (address.local) {
		confined_folder(address.path, folder, room);
		if (strcmp(text, "auto") != 0)
			confined_add(places, folder, CONFINE_WRITE, false);
	} else {
		options->port = address.port;
		options->any_port = address.port == 0;
	}
}

/* A root inside a folder that the daemon may write to is not protected. */
static void confined_overlap(struct server *server, const struct confined_places *places)
{
	char text[FAULT_TEXT], real[PATH_MAX];
	for (size_t i = 0; i < places->count; i++) {
		const struct confine_place *place = &places->place[i];
		const char *root = place->access == CONFINE_WRITE && realpath(place->path, real)
					   ? roots_within(real)
					   : NULL;
		if (!root)
			continue;
		(void)snprintf(text, sizeof text,
			"roots: %s is inside %s, which this penstockd may write to: give its "
			"socket, cache_dir and http: folders of their own",
			root, place->path);
		recorder_notice(server, text);
	}
}

int confined_files(struct server *server, struct fault *fault)
{
	static struct confined_places all; /* large; this function runs once, on one thread */
	struct confined_places *places = &all;
	all.count = all.credential_count = all.port_count = 0;
	const char *notify = getenv("NOTIFY_SOCKET");
	char run[sizeof server->socket], config[sizeof server->config->file], http[ADDRESS_PATH];
	if (!roots_apply())
		return 0;
	int result = confined_cache(server, fault);
	if (result)
		return result;
	roots_set_cache(server->cache_dir);
	struct confine_files_options options = {
		.places = places->place, .abstract = notify && notify[0] == '@'};
	for (size_t i = 0; i < UTIL_COUNT(confined_system); i++)
		places->place[places->count++] = confined_system[i];
	for (unsigned i = 0; i < roots_count(); i++)
		confined_add(places, roots_path(i), CONFINE_READ, true);
	confined_folder(server->socket, run, sizeof run);
	confined_add(places, run, CONFINE_WRITE, true);
	confined_add(places, server->cache_dir, CONFINE_WRITE, true);
	/* Its folder, too: the next SIGHUP reads a file that has replaced it. */
	if (server->config->file[0]) {
		confined_folder(server->config->file, config, sizeof config);
		confined_add(places, config, CONFINE_READ_FILES, false);
		/* A link may lead elsewhere. */
		confined_add(places, server->config->file, CONFINE_READ_FILES, false);
	}
	confined_http(server, &options, places, http, sizeof http);
	confined_overlap(server, places);
	if (confined_network(server))
		confined_add_network(server, places);
	options.count = places->count;
	options.connect = places->port;
	options.connect_count = places->port_count;
	result = confine_files(&options, &server->confined, fault);
	if (!result && server->confined.files_missing[0]) {
		char text[FAULT_TEXT];
		(void)snprintf(text, sizeof text,
			"roots: %s: only penstockd itself refuses paths outside the roots",
			server->confined.files_missing);
		recorder_notice(server, text);
	}
	return result;
}

int confined_calls(struct server *server, struct fault *fault)
{
	struct confine_state *state = &server->confined;
	enum confine_wish wish = server->config->seccomp;
	char text[FAULT_TEXT];
	if (confined_network(server))
		confined_load_names();
	int result = confine_calls(wish, confined_network(server), state, fault);
	if (result)
		return result == -ENOSYS ? -EINVAL : result;
	if (!state->calls && wish == CONFINE_AUTO) {
		(void)snprintf(text, sizeof text,
			"system calls are not filtered: %s; set `seccomp: off` if that is intended",
			state->calls_missing);
		recorder_notice(server, text);
	}
	confine_describe(state, text, sizeof text);
	log_info("confined: %s", text);
	for (unsigned i = 0; i < roots_count(); i++)
		log_info("root: %s", roots_path(i));
	return 0;
}

void confined_witness(void *server)
{
	confine_witness(((const struct server *)server)->config->seccomp);
}

void confined_status(struct jsontext *json, const struct server *server)
{
	const struct confine_state *state = &server->confined;
	char text[FAULT_TEXT];
	confine_describe(state, text, sizeof text);
	jsontext_object(json, "confinement");
	jsontext_string(json, "describe", text);
	jsontext_bool(json, "no_new_privs", state->no_new_privs);
	jsontext_bool(json, "core_files", state->core_files);
	jsontext_bool(json, "seccomp", state->calls);
	jsontext_u64(json, "landlock", state->landlock);
	jsontext_bool(json, "ports", state->ports);
	jsontext_bool(json, "scoped", state->scoped);
	jsontext_bool(json, "network", confined_network(server));
	jsontext_array(json, "roots");
	for (unsigned i = 0; i < roots_count(); i++)
		jsontext_string(json, NULL, roots_path(i));
	jsontext_end(json);
	jsontext_end(json);
}
