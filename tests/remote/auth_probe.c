/* auth_probe: reads URLs with the credentials that its environment has, for tests of remote/auth
 * against stand-ins and real servers. Prints one line per URL:
 *
 *     ok SIZE CRC-32               or    error ERRNO: SENTENCE
 *
 *     auth_probe [--anonymous] [--profile NAME] [--region NAME] [--root URL]... [--pause SECONDS]
 *                [--early] [--confine] [--text TEXT] [--list | --glob | --folder | --put] URL...
 *
 * --early runs what a daemon runs before it is confined; --confine confines the process as a daemon
 * that may read URLs. --pause waits between the URLs. */
#include "base/util.h"
#include "confine/confine.h"
#include "remote/auth/auth.h"
#include "remote/client/client.h"
#include "remote/listing/listing.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { PROBE_ROOM = 16 << 20, PROBE_ROOTS = 8 };

static struct client *client;
static struct auth *auth;
static struct listing_client listing;
static struct listing_source source;

static void outcome(int rc, const struct fault *fault)
{
	if (rc)
		(void)printf("error %d: %s\n", -rc, fault->text);
	else
		(void)printf("end\n");
	(void)fflush(stdout);
}

static void get(const char *url)
{
	static uint8_t body[PROBE_ROOM];
	struct client_request request = {
		.method = CLIENT_GET, .url = url, .buffer = body, .room = sizeof body};
	struct fault fault = {{0}};
	int rc = client_perform(client, &request, &fault);
	if (rc == 0)
		(void)printf("ok %llu %08lx\n", (unsigned long long)request.received,
			crc32(0, body, (uInt)request.received));
	else
		(void)printf("error %d: %s\n", -rc, fault.text);
	(void)fflush(stdout);
}

/* Puts a text under a key; nothing under a bucket, which makes it. */
static void put(const char *url, const char *text)
{
	static char answer[4096];
	bool bucket = url[0] && url[strlen(url) - 1] == '/';
	struct client_request request = {.method = CLIENT_PUT,
		.url = url,
		.body = bucket ? "" : text,
		.body_size = bucket ? 0 : strlen(text),
		.buffer = (uint8_t *)answer,
		.room = sizeof answer};
	struct fault fault = {{0}};
	outcome(client_perform(client, &request, &fault), &fault);
}

static int on_object(void *context, const struct listing_object *object, struct fault *fault)
{
	(void)context;
	(void)fault;
	(void)printf("%s %llu %s\n", object->key, (unsigned long long)object->size, object->etag);
	return 0;
}

static bool wanted(void *context, const char *name)
{
	(void)context;
	return name[0] != '.';
}

static int on_classes(void *context, const char *const *names, size_t count, struct fault *fault)
{
	(void)context;
	(void)fault;
	for (size_t i = 0; i < count; i++)
		(void)printf("class %s\n", names[i]);
	return 0;
}

static int on_file(
	void *context, const char *name, uint64_t size, const char *etag, struct fault *fault)
{
	const struct listing_object object = {.key = name, .size = size, .etag = etag};
	return on_object(context, &object, fault);
}

static void list(const char *text, char how)
{
	static struct remote_url url;
	static const struct listing_folder_sink sink = {
		.wanted = wanted, .classes = on_classes, .object = on_file};
	struct fault fault = {{0}};
	int rc = remote_url_parse(text, &url, &fault);
	if (rc == 0 && how == 'g')
		rc = listing_glob(&source, &url, on_object, NULL, &fault);
	else if (rc == 0 && how == 'f')
		rc = listing_folder(&source, &url, &sink, &fault);
	else if (rc == 0)
		rc = listing_objects(&source, &url, false, on_object, NULL, &fault);
	outcome(rc, &fault);
}

static int confine(struct fault *fault)
{
	struct confine_state state;
	int rc = confine_begin(false, &state, fault);
	return rc < 0 ? rc : confine_calls(CONFINE_ON, true, &state, fault);
}

struct options {
	struct remote_options remote;
	const char *roots[PROBE_ROOTS + 1];
	unsigned root_count, pause_s;
	bool early, confine;
	const char *text; /* that is PUT */
	char how; /* of listing; 'p': PUT; 0: GET */
};

/* Reads the options; returns where the URLs begin. */
static int options_read(struct options *options, int argc, char **argv)
{
	int i = 1;
	remote_options_default(&options->remote);
	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		const char *name = argv[i] + 2;
		if (!strcmp(name, "anonymous"))
			options->remote.anonymous = true;
		else if (!strcmp(name, "early"))
			options->early = true;
		else if (!strcmp(name, "confine"))
			options->confine = true;
		else if (!strcmp(name, "list") || !strcmp(name, "glob") ||
			 !strcmp(name, "folder") || !strcmp(name, "put"))
			options->how = name[0];
		else if (!strcmp(name, "text"))
			options->text = argv[++i];
		else if (!strcmp(name, "profile"))
			options->remote.profile = argv[++i];
		else if (!strcmp(name, "region"))
			options->remote.region = argv[++i];
		else if (!strcmp(name, "pause"))
			options->pause_s = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(name, "root") && options->root_count < PROBE_ROOTS)
			options->roots[options->root_count++] = argv[++i];
		else
			return argc;
	}
	if (options->root_count)
		options->remote.roots = options->roots;
	return i;
}

static int begin(const struct options *options, struct fault *fault)
{
	int rc = options->early ? auth_before_confinement(&options->remote, fault) : 0;
	if (rc == 0)
		rc = auth_new(&options->remote, &auth, fault);
	if (rc == 0 && options->confine)
		rc = confine(fault);
	const struct client_options client_options = {.timeout_s = 5,
		.sign = auth_sign,
		.refused = auth_refused,
		.allowed = auth_allowed,
		.context = auth};
	if (rc == 0)
		rc = client_start(&client_options, &client, fault);
	if (rc == 0) {
		auth_begin(auth, client);
		listing_source_client(&listing, client, auth, &source);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct options options = {.text = "hello"};
	struct fault fault = {{0}};
	int first = options_read(&options, argc, argv);
	if (first == argc) {
		(void)fprintf(stderr, "usage: auth_probe [OPTION...] URL...\n");
		return 2;
	}
	int rc = begin(&options, &fault);
	if (rc < 0) {
		outcome(rc, &fault);
		auth_free(auth);
		return 1;
	}
	for (int i = first; i < argc; i++) {
		if (options.how == 'p')
			put(argv[i], options.text);
		else if (options.how)
			list(argv[i], options.how);
		else
			get(argv[i]);
		if (i + 1 < argc)
			(void)sleep(options.pause_s);
	}
	auth_end(auth);
	client_stop(client);
	auth_free(auth);
	return 0;
}
