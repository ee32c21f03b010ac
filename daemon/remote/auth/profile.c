/* profile: see profile.h. */
#include "remote/auth/profile.h"

#include "base/util.h"
#include "remote/auth/credentials.h"
#include "remote/auth/ini.h"

#include <errno.h>
#include <string.h>

static const char *environment(const char *name)
{
	const char *value = getenv(name);
	return value && value[0] ? value : NULL;
}

const char *profile_default(void)
{
	const char *name = environment("AWS_PROFILE");
	if (!name)
		name = environment("AWS_DEFAULT_PROFILE");
	return name ? name : "default";
}

void profile_paths(char ret[PROFILE_FILES][PROFILE_PATH])
{
	static const char *const variable[] = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"};
	static const char *const file[] = {"credentials", "config"};
	const char *home = environment("HOME");
	for (size_t i = 0; i < PROFILE_FILES; i++) {
		const char *given = environment(variable[i]);
		int size = 0;
		ret[i][0] = 0;
		if (given && (given[0] != '~' || !home))
			size = snprintf(ret[i], PROFILE_PATH, "%s", given);
		else if (given)
			size = snprintf(ret[i], PROFILE_PATH, "%s%s", home, given + 1);
		else if (home)
			size = snprintf(ret[i], PROFILE_PATH, "%s/.aws/%s", home, file[i]);
		if (size < 0 || size >= PROFILE_PATH)
			ret[i][0] = 0;
	}
}

struct reading {
	struct profile *profile;
	bool config; /* its sections are "profile NAME" */
	bool first[32]; /* by key: it was set by the other file, which comes first */
};

/* Whether a section is about the profile. */
static bool is_section(const struct reading *reading, const char *section)
{
	const char *name = reading->profile->name;
	size_t size = strlen(name);
	if (!reading->config || !strcmp(name, "default"))
		if (!strcmp(section, name))
			return true;
	if (!reading->config || strncmp(section, "profile", 7) != 0 ||
		(section[7] != ' ' && section[7] != '\t'))
		return false;
	section += 7 + strspn(section + 7, " \t");
	if (section[0] == '"' || section[0] == '\'')
		return !strncmp(section + 1, name, size) && section[1 + size] == section[0] &&
		       !section[2 + size];
	return !strcmp(section, name);
}

static int take(void *context, const char *section, const char *key, const char *value)
{
	struct reading *reading = context;
	struct profile *p = reading->profile;
	const struct {
		const char *key;
		char *to;
		size_t room;
	} keys[] = {{"aws_access_key_id", p->id, sizeof p->id},
		{"aws_secret_access_key", p->secret, sizeof p->secret},
		{"aws_session_token", p->token, sizeof p->token},
		{"role_arn", p->role_arn, sizeof p->role_arn},
		{"source_profile", p->source_profile, sizeof p->source_profile},
		{"credential_source", p->credential_source, sizeof p->credential_source},
		{"external_id", p->external_id, sizeof p->external_id},
		{"role_session_name", p->session_name, sizeof p->session_name},
		{"mfa_serial", p->mfa_serial, sizeof p->mfa_serial},
		{"web_identity_token_file", p->web_token_file, sizeof p->web_token_file},
		{"credential_process", p->process, sizeof p->process},
		{"sso_start_url", p->sso, sizeof p->sso}, {"sso_session", p->sso, sizeof p->sso},
		{"duration_seconds", p->duration, sizeof p->duration},
		{"region", p->region, sizeof p->region},
		{"endpoint_url", p->endpoint_url, sizeof p->endpoint_url}};
	if (!is_section(reading, section))
		return 0;
	p->found = true;
	for (size_t i = 0; i < UTIL_COUNT(keys); i++) {
		if (strcmp(key, keys[i].key) != 0 || (reading->config && reading->first[i]))
			continue;
		if (strlen(value) >= keys[i].room)
			return -EMSGSIZE;
		memcpy(keys[i].to, value, strlen(value) + 1);
		reading->first[i] = !reading->config;
	}
	return 0;
}

static int read_file(struct reading *reading, const char *path, struct fault *fault)
{
	char *text = NULL;
	size_t size = 0;
	int rc = path[0] ? credentials_file(path, &text, &size, fault) : -ENOENT;
	if (rc == -ENOENT || rc == -ENOTDIR)
		return 0;
	if (rc < 0)
		return rc;
	rc = ini_read(text, size, path, take, reading, fault);
	if (rc == -EMSGSIZE)
		rc = fault_set(fault, -EINVAL, "%s: a value of profile %s is too long", path,
			reading->profile->name);
	explicit_bzero(text, size);
	free(text);
	return rc;
}

int profile_read(const char *name, struct profile **ret, struct fault *fault)
{
	char paths[PROFILE_FILES][PROFILE_PATH];
	if (strlen(name) >= PROFILE_NAME)
		return fault_set(fault, -EINVAL, "the name of a profile has at most %d bytes",
			PROFILE_NAME - 1);
	struct reading reading = {.profile = calloc(1, sizeof *reading.profile)};
	if (!reading.profile)
		return fault_set(fault, -ENOMEM, "no memory for a profile");
	memcpy(reading.profile->name, name, strlen(name) + 1);
	profile_paths(paths);
	int rc = read_file(&reading, paths[0], fault);
	reading.config = true;
	if (rc == 0)
		rc = read_file(&reading, paths[1], fault);
	if (rc < 0) {
		profile_free(reading.profile);
		return rc;
	}
	*ret = reading.profile;
	return 0;
}

void profile_free(struct profile *profile)
{
	if (profile)
		explicit_bzero(profile, sizeof *profile);
	free(profile);
}
