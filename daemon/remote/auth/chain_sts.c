/* chain_sts: roles that are assumed at AWS's Security Token Service, with keys (AssumeRole) or with
 * the token of another identity provider (AssumeRoleWithWebIdentity). See chain.h. */
#include "remote/auth/chain.h"

#include "base/clock.h"
#include "base/util.h"
#include "remote/auth/sigv4.h"
#include "remote/url.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { STS_BODY = 32768, STS_TIMEOUT_S = 10 };

/* A form that is sent; `full` once it did not fit. */
struct form {
	char text[STS_BODY];
	size_t used;
	bool full;
};

static void form_add(struct form *form, const char *name, const char *value)
{
	size_t room = sizeof form->text - form->used;
	int size = snprintf(form->text + form->used, room, "%s%s=", form->used ? "&" : "", name);
	if (size < 0 || (size_t)size >= room) {
		form->full = true;
		return;
	}
	form->used += (size_t)size;
	room -= (size_t)size;
	size_t encoded = remote_encode(value, false, form->text + form->used, room);
	form->full = form->full || encoded >= room;
	form->used += encoded < room ? encoded : 0;
}

static int sts_address(const struct chain *chain, struct remote_address *ret, struct fault *fault)
{
	const char *region = chain->region ? chain->region : "us-east-1";
	const char *given = chain_variable("AWS_ENDPOINT_URL_STS");
	char endpoint[REMOTE_HOST_MAX];
	struct remote_url url;
	struct fault why;
	if (!given)
		given = chain_variable("AWS_ENDPOINT_URL");
	if (!given && remote_aws_endpoint("sts", region, endpoint, sizeof endpoint) < 0)
		return fault_set(fault, -EINVAL, "region: expected a name such as eu-west-1");
	int rc = remote_url_parse(given ? given : endpoint, &url, &why);
	const struct remote_where where = {.region = region};
	if (rc == 0)
		rc = remote_url_check_plain(&url, chain->plain_http, &why);
	if (rc == 0)
		rc = remote_url_address(&url, &where, ret, &why);
	return rc < 0 ? fault_set(fault, rc, "the address of AWS's STS: %s", why.text) : 0;
}

/* Roles are named by their ARN: its characters, so that it can be shown. */
static int check_arn(const char *arn, struct fault *fault)
{
	bool fine = !strncmp(arn, "arn:", 4) && strlen(arn) <= 2048;
	for (const char *c = arn; *c; c++)
		fine = fine && (isalnum((unsigned char)*c) || strchr("+=,.@-_/:", *c));
	return fine ? 0
		    : fault_set(fault, -EINVAL,
			      "expected a role such as arn:aws:iam::123456789012:role/NAME "
			      "(AWS_ROLE_ARN, role_arn)");
}

static void form_begin(struct form *form, const char *action, const char *arn, const char *session)
{
	char own[64];
	(void)snprintf(
		own, sizeof own, "penstock-%lld", (long long)(clock_unix_ns() / 1000000000u));
	*form = (struct form){.used = 0};
	form_add(form, "Action", action);
	form_add(form, "Version", "2011-06-15");
	form_add(form, "RoleArn", arn);
	form_add(form, "RoleSessionName", session[0] ? session : own);
}

struct signature {
	char lines[4][CREDENTIALS_TOKEN + SIGV4_AUTHORIZATION + 64];
	const char *headers[6];
};

static void line_add(struct signature *to, const char *name, const char *value)
{
	size_t i = 0;
	while (to->headers[i])
		i++;
	(void)snprintf(to->lines[i - 1], sizeof to->lines[0], "%s: %s", name, value);
	to->headers[i] = to->lines[i - 1];
}

/* Signs the form with `from`; makes the headers. */
static int sign(const struct chain *chain, const struct credentials *from,
	const struct remote_address *address, const struct form *form, struct signature *ret)
{
	static const struct sigv4_header type[] = {
		{"content-type", "application/x-www-form-urlencoded"}};
	const int64_t now = (int64_t)(clock_unix_ns() / 1000000000u);
	struct sigv4_scope scope;
	struct sigv4_signed made;
	char hash[SIGV4_HASH];
	int rc = sigv4_scope_make(
		from->secret, chain->region ? chain->region : "us-east-1", "sts", now, &scope);
	if (rc == 0)
		rc = sigv4_hash(form->text, form->used, hash);
	const struct sigv4_request request = {.method = "POST",
		.host = address->host,
		.path = address->path,
		.payload = hash,
		.token = from->token,
		.headers = type,
		.header_count = 1,
		.time = now};
	if (rc == 0)
		rc = sigv4_sign(&scope, from->id, &request, &made);
	explicit_bzero(&scope, sizeof scope);
	if (rc < 0)
		return rc;
	line_add(ret, "x-amz-date", made.date);
	line_add(ret, "x-amz-content-sha256", hash);
	line_add(ret, "authorization", made.authorization);
	if (from->token[0])
		line_add(ret, "x-amz-security-token", from->token);
	return 0;
}

/* Sends the form, signed unless `from` is NULL, and reads the answer. */
static int exchange(const struct chain *chain, const struct form *form,
	const struct credentials *from, const char *source, struct credentials *ret,
	struct fault *fault)
{
	struct remote_address *address = malloc(sizeof *address);
	struct signature *signature = calloc(1, sizeof *signature);
	struct chain_request *request = chain_request_new(fault);
	int rc = address && signature && request
			 ? sts_address(chain, address, fault)
			 : fault_set(fault, -ENOMEM, "%s: no memory", source);
	if (rc == 0 && form->full)
		rc = fault_set(fault, -EINVAL, "%s: a name or a token is too long", source);
	if (rc == 0) {
		signature->headers[0] = "Content-Type: application/x-www-form-urlencoded";
		rc = from ? sign(chain, from, address, form, signature) : 0;
		if (rc < 0)
			(void)fault_set(
				fault, rc, "%s: cannot be signed: %s", source, strerror(-rc));
	}
	if (rc == 0) {
		request->method = "POST";
		request->url = address->url;
		request->headers = signature->headers;
		request->body = form->text;
		request->timeout_s = STS_TIMEOUT_S;
		rc = chain->send(chain->context, request, fault);
		if (rc < 0)
			rc = fault_prefix(fault, rc, "%s: STS refused or did not answer%s%s",
				source, request->code[0] ? ": " : "", request->code);
	}
	if (rc == 0)
		rc = credentials_from_sts(ret, source, request->answer, request->size, fault);
	if (signature)
		explicit_bzero(signature, sizeof *signature);
	free(signature);
	free(address);
	chain_request_free(request);
	return rc;
}

int chain_assume_role(const struct chain *chain, const struct chain_role *role,
	const struct credentials *from, struct credentials *ret, struct fault *fault)
{
	char source[CREDENTIALS_SOURCE];
	struct form *form = malloc(sizeof *form);
	if (!form)
		return fault_set(fault, -ENOMEM, "no memory for a request to STS");
	int rc = check_arn(role->arn, fault);
	if (rc == 0) {
		(void)snprintf(source, sizeof source, "role %s", role->arn);
		form_begin(form, "AssumeRole", role->arn, role->session);
		if (role->external_id[0])
			form_add(form, "ExternalId", role->external_id);
		if (role->duration[0])
			form_add(form, "DurationSeconds", role->duration);
		rc = exchange(chain, form, from, source, ret, fault);
	}
	free(form);
	return rc;
}

int chain_web_identity(const struct chain *chain, const char *role, const char *token_file,
	const char *session, struct credentials *ret, struct fault *fault)
{
	char source[CREDENTIALS_SOURCE], *token = NULL;
	struct form *form = malloc(sizeof *form);
	if (!form)
		return fault_set(fault, -ENOMEM, "no memory for a request to STS");
	int rc = check_arn(role, fault);
	if (rc == 0)
		rc = credentials_token_file(token_file, &token, fault);
	if (rc == 0) {
		(void)snprintf(source, sizeof source, "web identity of %s", role);
		form_begin(form, "AssumeRoleWithWebIdentity", role, session);
		form_add(form, "WebIdentityToken", token);
		rc = exchange(chain, form, NULL, source, ret, fault);
	}
	credentials_free(token);
	explicit_bzero(form, sizeof *form);
	free(form);
	return rc;
}
