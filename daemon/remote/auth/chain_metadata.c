/* chain_metadata: credentials of the container or the machine that the daemon runs on. See chain.h.
 *
 * The container's service is at an address that the environment names; in the clear it is asked
 * only on this machine and at the addresses that ECS and EKS use. The instance's service is asked
 * by version 2: first for a token, by a PUT that a proxy or a tricked server would not send. */
#include "remote/auth/chain.h"

#include "base/util.h"
#include "remote/url.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

enum { METADATA_TIMEOUT_S = 2, METADATA_NAME = 256, METADATA_TOKEN = 1024, METADATA_URL = 1024 };

static bool container_host(const char *host)
{
	return !strcmp(host, "169.254.170.2") || !strcmp(host, "169.254.170.23") ||
	       !strcasecmp(host, "[fd00:ec2::23]");
}

static int container_url(char *ret, size_t room, struct fault *fault)
{
	const char *relative = chain_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = chain_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	struct remote_url url;
	struct fault why;
	if (!relative && !full)
		return CHAIN_E_NONE;
	int size = relative ? snprintf(ret, room, "http://169.254.170.2%s", relative)
			    : snprintf(ret, room, "%s", full);
	if (size < 0 || (size_t)size >= room)
		return fault_set(fault, -EINVAL, "AWS_CONTAINER_CREDENTIALS_%s: too long",
			relative ? "RELATIVE_URI" : "FULL_URI");
	int rc = remote_url_parse(ret, &url, &why);
	if (rc == 0 &&
		(remote_url_lists(&url) || (!container_host(url.host) &&
						   remote_url_check_plain(&url, NULL, &why) < 0)))
		rc = fault_set(&why, -EACCES,
			"expected https://, or http:// of this machine or of ECS and EKS");
	return rc < 0 ? fault_set(fault, rc, "AWS_CONTAINER_CREDENTIALS_%s: %s",
				relative ? "RELATIVE_URI" : "FULL_URI", why.text)
		      : 0;
}

/* The header that authorizes the request; "" where there is none. */
static int container_header(char *ret, size_t room, struct fault *fault)
{
	const char *file = chain_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	const char *token = chain_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
	char *read = NULL;
	ret[0] = 0;
	int rc = file ? credentials_token_file(file, &read, fault) : 0;
	if (rc < 0)
		return fault_prefix(fault, rc, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	if (read || token) {
		int size = snprintf(ret, room, "Authorization: %s", read ? read : token);
		rc = size < 0 || (size_t)size >= room || strpbrk(ret, "\r\n")
			     ? fault_set(fault, -EINVAL,
				       "AWS_CONTAINER_AUTHORIZATION_TOKEN: expected one line")
			     : 0;
	}
	credentials_free(read);
	return rc;
}

int chain_container(const struct chain *chain, struct credentials *ret, struct fault *fault)
{
	static const char source[] = "the container's credentials";
	char url[METADATA_URL], header[CREDENTIALS_TOKEN];
	const char *const headers[] = {header, NULL};
	int rc = container_url(url, sizeof url, fault);
	if (rc == 0)
		rc = container_header(header, sizeof header, fault);
	if (rc)
		return rc;
	struct chain_request *request = chain_request_new(fault);
	if (!request)
		return -ENOMEM;
	request->method = "GET";
	request->url = url;
	request->headers = header[0] ? headers : NULL;
	request->timeout_s = METADATA_TIMEOUT_S;
	request->direct = true;
	rc = chain->send(chain->context, request, fault);
	explicit_bzero(header, sizeof header);
	rc = rc < 0 ? fault_prefix(fault, rc, "%s", source)
		    : credentials_from_json(ret, source, request->answer, request->size, fault);
	chain_request_free(request);
	return rc;
}

struct instance {
	const struct chain *chain;
	struct chain_request *request;
	char base[METADATA_URL], url[METADATA_URL + METADATA_NAME + 64];
	char header[METADATA_TOKEN + 64];
};

static int instance_send(struct instance *instance, const char *method, const char *path,
	const char *name, struct fault *fault)
{
	const char *const headers[] = {instance->header, NULL};
	struct chain_request *request = instance->request;
	(void)snprintf(
		instance->url, sizeof instance->url, "%s/latest/%s%s", instance->base, path, name);
	request->method = method;
	request->url = instance->url;
	request->headers = headers;
	request->timeout_s = METADATA_TIMEOUT_S;
	request->direct = true;
	request->status = 0;
	request->size = 0;
	return instance->chain->send(instance->chain->context, request, fault);
}

/* The first line of an answer, if it is a name or a token. */
static int first_line(const struct chain_request *request, char *ret, size_t room)
{
	size_t size = strcspn(request->answer, "\r\n");
	if (!size || size >= room)
		return -EINVAL;
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)request->answer[i]) &&
			!strchr("+=,.@-_/:", request->answer[i]))
			return -EINVAL;
	memcpy(ret, request->answer, size);
	ret[size] = 0;
	return 0;
}

static int instance_base(char *ret, size_t room, struct fault *fault)
{
	const char *given = chain_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	const char *mode = chain_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
	struct remote_url url;
	if (!given)
		given = mode && !strcasecmp(mode, "IPv6") ? "http://[fd00:ec2::254]"
							  : "http://169.254.169.254";
	int size = snprintf(ret, room, "%s", given);
	if (size < 0 || (size_t)size >= room || remote_url_parse(given, &url, NULL) < 0 ||
		remote_url_lists(&url))
		return fault_set(fault, -EINVAL,
			"AWS_EC2_METADATA_SERVICE_ENDPOINT: expected http://HOST[:PORT]");
	while (size && ret[size - 1] == '/')
		ret[--size] = 0;
	return 0;
}

/* Steps of version 2: a token, the name of the role, its credentials. */
static int instance_ask(struct instance *instance, struct credentials *ret, struct fault *fault)
{
	static const char source[] = "the instance's role (EC2 metadata)";
	static const char path[] = "meta-data/iam/security-credentials/";
	char token[METADATA_TOKEN], role[METADATA_NAME];
	(void)snprintf(instance->header, sizeof instance->header,
		"X-aws-ec2-metadata-token-ttl-seconds: 21600");
	int rc = instance_send(instance, "PUT", "api/token", "", fault);
	const unsigned status = instance->request->status;
	/* Where nothing answers, or what answers refuses, this is not such a machine, or its
	 * metadata service is turned off. */
	if (rc < 0 && !status)
		return fault_set(fault, CHAIN_E_NONE, "EC2 metadata: no answer");
	if (rc < 0 && status >= 400 && status < 500)
		return fault_set(fault, CHAIN_E_NONE,
			"EC2 metadata: status %u to the request for a token", status);
	/* The client's sentence is about objects. */
	if (rc < 0)
		return fault_set(
			fault, rc, "%s: a token was asked for, and status %u came", source, status);
	if (first_line(instance->request, token, sizeof token) < 0)
		return fault_set(fault, -EINVAL, "%s: expected a token in one line", source);
	(void)snprintf(
		instance->header, sizeof instance->header, "X-aws-ec2-metadata-token: %s", token);
	explicit_bzero(token, sizeof token);
	rc = instance_send(instance, "GET", path, "", fault);
	if (rc < 0 && instance->request->status == 404)
		return fault_set(fault, CHAIN_E_NONE, "EC2 metadata: the machine has no role");
	if (rc < 0)
		return fault_prefix(fault, rc, "%s", source);
	if (first_line(instance->request, role, sizeof role) < 0)
		return fault_set(fault, -EINVAL, "%s: expected the name of a role", source);
	rc = instance_send(instance, "GET", path, role, fault);
	return rc < 0 ? fault_prefix(fault, rc, "%s", source)
		      : credentials_from_json(ret, source, instance->request->answer,
				instance->request->size, fault);
}

int chain_instance(const struct chain *chain, struct credentials *ret, struct fault *fault)
{
	const char *disabled = chain_variable("AWS_EC2_METADATA_DISABLED");
	struct instance instance = {.chain = chain};
	if (disabled && !strcasecmp(disabled, "true"))
		return fault_set(
			fault, CHAIN_E_NONE, "EC2 metadata: AWS_EC2_METADATA_DISABLED is true");
	int rc = instance_base(instance.base, sizeof instance.base, fault);
	if (rc < 0)
		return rc;
	instance.request = chain_request_new(fault);
	rc = instance.request ? instance_ask(&instance, ret, fault) : -ENOMEM;
	explicit_bzero(instance.header, sizeof instance.header);
	chain_request_free(instance.request);
	return rc;
}
