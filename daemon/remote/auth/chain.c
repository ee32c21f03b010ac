/* chain: see chain.h. This file has the order of the places, the environment and the profiles. */
#include "remote/auth/chain.h"

#include "base/util.h"
#include "remote/auth/profile.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { CHAIN_DEPTH = 5 }; /* profiles that refer to each other by source_profile */

static int of_environment(struct credentials *ret, struct fault *fault)
{
	const char *id = chain_variable("AWS_ACCESS_KEY_ID");
	const char *secret = chain_variable("AWS_SECRET_ACCESS_KEY");
	if (!id && !secret)
		return CHAIN_E_NONE;
	int rc = credentials_set(ret, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY", id, secret,
		chain_variable("AWS_SESSION_TOKEN"), fault);
	ret->fixed = true; /* no one can change the environment of a process that runs */
	return rc;
}

static int of_profile(const struct chain *chain, const char *name, bool must, unsigned depth,
	struct credentials *ret, struct fault *fault);

static int of_source(const struct chain *chain, const char *source, const char *profile,
	struct credentials *ret, struct fault *fault)
{
	int rc;
	if (!strcmp(source, "Environment"))
		rc = of_environment(ret, fault);
	else if (!strcmp(source, "EcsContainer"))
		rc = chain_container(chain, ret, fault);
	else if (!strcmp(source, "Ec2InstanceMetadata"))
		rc = chain_instance(chain, ret, fault);
	else
		return fault_set(fault, -EINVAL,
			"profile %s: credential_source: expected Environment, EcsContainer or "
			"Ec2InstanceMetadata",
			profile);
	return rc == CHAIN_E_NONE
		       ? fault_set(fault, -ENOENT,
				 "profile %s: credential_source = %s, but there are no credentials",
				 profile, source)
		       : rc;
}

static int keys_of(const struct profile *profile, struct credentials *ret, struct fault *fault)
{
	char source[CREDENTIALS_SOURCE];
	(void)snprintf(source, sizeof source, "profile %s", profile->name);
	return credentials_set(ret, source, profile->id, profile->secret, profile->token, fault);
}

/* The keys with which a role is assumed. */
static int role_source(const struct chain *chain, const struct profile *profile, unsigned depth,
	struct credentials *ret, struct fault *fault)
{
	if (profile->credential_source[0])
		return of_source(chain, profile->credential_source, profile->name, ret, fault);
	if (!profile->source_profile[0])
		return fault_set(fault, -EINVAL,
			"profile %s: role_arn needs source_profile, credential_source or "
			"web_identity_token_file",
			profile->name);
	/* A profile may name itself: then its own keys assume the role. */
	if (!strcmp(profile->source_profile, profile->name))
		return keys_of(profile, ret, fault);
	if (depth + 1 == CHAIN_DEPTH)
		return fault_set(fault, -ELOOP,
			"profile %s: source_profile: more than %d profiles, or a circle",
			profile->name, CHAIN_DEPTH);
	return of_profile(chain, profile->source_profile, true, depth + 1, ret, fault);
}

static int of_role(const struct chain *chain, const struct profile *profile, unsigned depth,
	struct credentials *ret, struct fault *fault)
{
	struct credentials from = {.id = ""};
	if (profile->web_token_file[0])
		return chain_web_identity(chain, profile->role_arn, profile->web_token_file,
			profile->session_name, ret, fault);
	if (profile->mfa_serial[0])
		return fault_set(fault, -EINVAL,
			"profile %s: mfa_serial: a daemon cannot ask for a code; get a session by "
			"hand, or use a role without it",
			profile->name);
	const struct chain_role role = {
		profile->role_arn, profile->external_id, profile->session_name, profile->duration};
	int rc = role_source(chain, profile, depth, &from, fault);
	if (rc == 0)
		rc = chain_assume_role(chain, &role, &from, ret, fault);
	credentials_wipe(&from);
	return rc;
}

static int of_found(const struct chain *chain, const struct profile *profile, unsigned depth,
	struct credentials *ret, struct fault *fault)
{
	if (profile->role_arn[0])
		return of_role(chain, profile, depth, ret, fault);
	if (profile->id[0] || profile->secret[0])
		return keys_of(profile, ret, fault);
	if (profile->process[0]) {
		int rc = chain_process(profile->process, CHAIN_PROCESS_MS, ret, fault);
		return rc < 0 ? fault_prefix(fault, rc, "profile %s", profile->name) : rc;
	}
	if (profile->sso[0])
		return fault_set(fault, -ENOTSUP,
			"profile %s: AWS IAM Identity Center (sso_...) is not supported: use "
			"credential_process = aws configure export-credentials --profile %s "
			"--format process in another profile",
			profile->name, profile->name);
	return CHAIN_E_NONE;
}

static int of_profile(const struct chain *chain, const char *name, bool must, unsigned depth,
	struct credentials *ret, struct fault *fault)
{
	struct profile *profile = NULL;
	char paths[PROFILE_FILES][PROFILE_PATH];
	int rc = profile_read(name, &profile, fault);
	if (rc < 0)
		return rc;
	rc = of_found(chain, profile, depth, ret, fault);
	if (rc == CHAIN_E_NONE && must) {
		profile_paths(paths);
		rc = fault_set(fault, -ENOENT, "profile %s %s: looked in %s and %s", name,
			profile->found ? "has no credentials" : "does not exist", paths[0],
			paths[1]);
	}
	profile_free(profile);
	return rc;
}

static int of_web_identity(const struct chain *chain, struct credentials *ret, struct fault *fault)
{
	const char *role = chain_variable("AWS_ROLE_ARN");
	const char *file = chain_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
	const char *session = chain_variable("AWS_ROLE_SESSION_NAME");
	if (!file)
		return CHAIN_E_NONE;
	if (!role)
		return fault_set(fault, -EINVAL,
			"AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
	return chain_web_identity(chain, role, file, session ? session : "", ret, fault);
}

/* The last place, after all others had nothing. */
static int of_instance(const struct chain *chain, struct credentials *ret, struct fault *fault)
{
	char paths[PROFILE_FILES][PROFILE_PATH];
	struct fault why = {""};
	int rc = chain_instance(chain, ret, &why);
	if (rc != CHAIN_E_NONE)
		return rc < 0 ? fault_set(fault, rc, "%s", why.text) : rc;
	profile_paths(paths);
	return fault_set(fault, CHAIN_E_NONE,
		"no credentials for s3:// were found: set AWS_ACCESS_KEY_ID and "
		"AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a profile that has keys; for public data "
		"set anonymous: on below remote: in penstock.yaml (looked at: the environment; %s; "
		"%s; the container; %s)",
		paths[0], paths[1], why.text);
}

int chain_find(const struct chain *chain, struct credentials *ret, struct fault *fault)
{
	if (chain->profile && chain->profile[0])
		return of_profile(chain, chain->profile, true, 0, ret, fault);
	bool named = chain_variable("AWS_PROFILE") || chain_variable("AWS_DEFAULT_PROFILE");
	int rc = of_environment(ret, fault);
	if (rc == CHAIN_E_NONE)
		rc = of_web_identity(chain, ret, fault);
	if (rc == CHAIN_E_NONE)
		rc = of_profile(chain, profile_default(), named, 0, ret, fault);
	if (rc == CHAIN_E_NONE)
		rc = chain_container(chain, ret, fault);
	return rc == CHAIN_E_NONE ? of_instance(chain, ret, fault) : rc;
}

bool chain_runs_program(const struct chain *chain)
{
	char name[PROFILE_NAME];
	bool given = chain->profile && chain->profile[0], runs = false;
	if (!given && (chain_variable("AWS_ACCESS_KEY_ID") ||
			      chain_variable("AWS_WEB_IDENTITY_TOKEN_FILE")))
		return false;
	(void)snprintf(name, sizeof name, "%s", given ? chain->profile : profile_default());
	for (unsigned depth = 0; depth < CHAIN_DEPTH && name[0] && !runs; depth++) {
		struct profile *profile = NULL;
		if (profile_read(name, &profile, NULL) < 0)
			return false;
		runs = !profile->role_arn[0] && !profile->id[0] && profile->process[0];
		(void)snprintf(name, sizeof name, "%s",
			profile->role_arn[0] ? profile->source_profile : "");
		profile_free(profile);
	}
	return runs;
}
