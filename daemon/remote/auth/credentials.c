/* credentials: see credentials.h. */
#include "remote/auth/credentials.h"

#include "base/text/json.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/xml.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void credentials_wipe(struct credentials *credentials)
{
	explicit_bzero(credentials, sizeof *credentials);
}

void credentials_free(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

/* Whether a text can be a header's value: printable ASCII without blanks. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text <= ' ' || *text > '~')
			return false;
	return true;
}

static int take(char *to, size_t room, const char *from, const char *source, const char *what,
	struct fault *fault)
{
	size_t size = strlen(from);
	if (size >= room || !is_plain(from))
		return fault_set(fault, -EINVAL,
			"%s: expected %s of at most %zu printable characters", source, what,
			room - 1);
	memcpy(to, from, size + 1);
	return 0;
}

int credentials_set(struct credentials *ret, const char *source, const char *id, const char *secret,
	const char *token, struct fault *fault)
{
	if (!id || !secret || !id[0] || !secret[0])
		return fault_set(fault, -EINVAL,
			"%s: expected both an access key ID and a secret access key, got only %s",
			source,
			id && id[0]           ? "the ID"
			: secret && secret[0] ? "the secret"
					      : "empty ones");
	int rc = take(ret->id, sizeof ret->id, id, source, "an access key ID", fault);
	if (rc == 0)
		rc = take(ret->secret, sizeof ret->secret, secret, source, "a secret access key",
			fault);
	if (rc == 0)
		rc = take(ret->token, sizeof ret->token, token ? token : "", source,
			"a session token", fault);
	(void)snprintf(ret->source, sizeof ret->source, "%s", source);
	if (rc < 0)
		credentials_wipe(ret);
	return rc;
}

static int digits(const char **text, unsigned count)
{
	int value = 0;
	for (; count; count--, (*text)++) {
		if (!isdigit((unsigned char)**text))
			return -1;
		value = value * 10 + (**text - '0');
	}
	return value;
}

/* Reads digits and the character after them. */
static bool part(const char **text, unsigned count, char after, int *ret)
{
	*ret = digits(text, count);
	return *ret >= 0 && (!after || *(*text)++ == after);
}

int credentials_time(const char *text, int64_t *ret_s)
{
	struct tm tm = {0};
	int hours = 0, minutes = 0, sign = 0;
	if (!part(&text, 4, '-', &tm.tm_year) || !part(&text, 2, '-', &tm.tm_mon) ||
		!part(&text, 2, 'T', &tm.tm_mday) || !part(&text, 2, ':', &tm.tm_hour) ||
		!part(&text, 2, ':', &tm.tm_min) || !part(&text, 2, 0, &tm.tm_sec))
		return -EINVAL;
	if (tm.tm_year < 1970 || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 ||
		tm.tm_mday > 31 || tm.tm_hour > 23 || tm.tm_min > 59 || tm.tm_sec > 60)
		return -EINVAL;
	if (*text == '.')
		for (text++; isdigit((unsigned char)*text); text++)
			;
	if (*text == '+' || *text == '-') {
		sign = *text++ == '+' ? 1 : -1;
		if (!part(&text, 2, ':', &hours) || !part(&text, 2, 0, &minutes))
			return -EINVAL;
	} else if (*text++ != 'Z') {
		return -EINVAL;
	}
	if (*text)
		return -EINVAL;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	*ret_s = (int64_t)timegm(&tm) - sign * (hours * 3600 + minutes * 60);
	return 0;
}

static int take_expiry(
	struct credentials *credentials, const char *text, const char *source, struct fault *fault)
{
	if (!text || !text[0] || credentials_time(text, &credentials->expires_s) == 0)
		return 0;
	return fault_set(
		fault, -EINVAL, "%s: expected an expiration such as 2026-02-28T23:59:59Z", source);
}

static const char *json_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static int from_object(
	struct credentials *ret, const char *source, const json_t *object, struct fault *fault)
{
	const char *code = json_text(object, "Code"), *token = json_text(object, "SessionToken");
	const json_t *version = json_object_get(object, "Version");
	if (!json_is_object(object))
		return fault_set(fault, -EINVAL, "%s: expected a JSON object", source);
	if (code && strcmp(code, "Success") != 0 && is_plain(code))
		return fault_set(fault, -EINVAL, "%s: refused: %.64s", source, code);
	if (version && json_integer_value(version) != 1)
		return fault_set(fault, -EINVAL, "%s: expected \"Version\": 1", source);
	int rc = credentials_set(ret, source, json_text(object, "AccessKeyId"),
		json_text(object, "SecretAccessKey"), token ? token : json_text(object, "Token"),
		fault);
	return rc < 0 ? rc : take_expiry(ret, json_text(object, "Expiration"), source, fault);
}

int credentials_from_json(struct credentials *ret, const char *source, const void *bytes,
	size_t size, struct fault *fault)
{
	json_error_t error;
	struct credentials made = {.id = ""};
	/* Jansson's message shows a part of the text; only the place is told. */
	json_t *object = json_read(bytes, size, CREDENTIALS_PARTS, JSON_REJECT_DUPLICATES, &error);
	int rc = object ? from_object(&made, source, object, fault)
		 : json_lacked_memory(&error)
			 ? fault_set(fault, -ENOMEM, "%s: %s", source, error.text)
			 : fault_set(fault, -EINVAL, "%s: not JSON: line %d, column %d", source,
				   error.line, error.column);
	json_decref(object);
	if (rc == 0)
		*ret = made;
	credentials_wipe(&made);
	return rc;
}

struct sts {
	char id[CREDENTIALS_ID], secret[CREDENTIALS_SECRET], token[CREDENTIALS_TOKEN];
	char expires[64];
};

static int sts_take(void *context, const char *path, const char *text)
{
	struct sts *sts = context;
	const struct {
		const char *name;
		char *to;
		size_t room;
	} fields[] = {{"/Credentials/AccessKeyId", sts->id, sizeof sts->id},
		{"/Credentials/SecretAccessKey", sts->secret, sizeof sts->secret},
		{"/Credentials/SessionToken", sts->token, sizeof sts->token},
		{"/Credentials/Expiration", sts->expires, sizeof sts->expires}};
	size_t size = strlen(path);
	for (size_t i = 0; i < UTIL_COUNT(fields); i++) {
		size_t name = strlen(fields[i].name);
		if (size < name || strcmp(path + size - name, fields[i].name) != 0)
			continue;
		if (strlen(text) >= fields[i].room)
			return -EMSGSIZE;
		memcpy(fields[i].to, text, strlen(text) + 1);
	}
	return 0;
}

int credentials_from_sts(struct credentials *ret, const char *source, const void *bytes,
	size_t size, struct fault *fault)
{
	struct credentials made = {.id = ""};
	struct fault why = {{0}};
	struct sts *sts = calloc(1, sizeof *sts);
	if (!sts)
		return fault_set(fault, -ENOMEM, "%s: no memory", source);
	int rc = xml_read(bytes, size, sts_take, sts, &why);
	if (rc < 0)
		rc = fault_set(fault, rc, "%s: %s", source,
			why.text[0] ? why.text : "a text in the answer is too long");
	else
		rc = credentials_set(&made, source, sts->id, sts->secret, sts->token, fault);
	if (rc == 0)
		rc = take_expiry(&made, sts->expires, source, fault);
	if (rc == 0)
		*ret = made;
	explicit_bzero(sts, sizeof *sts);
	free(sts);
	credentials_wipe(&made);
	return rc;
}

int credentials_file(const char *path, char **ret, size_t *ret_size, struct fault *fault)
{
	cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return fault_set(fault, -errno, "%s cannot be read: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fault_set(fault, -EINVAL, "%s is not a file", path);
	char *text = malloc(CREDENTIALS_BODY + 1);
	if (!text)
		return fault_set(fault, -ENOMEM, "no memory to read %s", path);
	ssize_t size = whole_read(fd, text, CREDENTIALS_BODY + 1, 0);
	if (size >= 0 && size <= CREDENTIALS_BODY) {
		text[size] = 0;
		*ret = text;
		*ret_size = (size_t)size;
		return 0;
	}
	int rc = size < 0 ? fault_set(fault, (int)size, "%s cannot be read: %s", path,
				    strerror((int)-size))
			  : fault_set(fault, -EFBIG, "%s is larger than %d bytes", path,
				    CREDENTIALS_BODY);
	explicit_bzero(text, CREDENTIALS_BODY + 1);
	free(text);
	return rc;
}

int credentials_token_file(const char *path, char **ret, struct fault *fault)
{
	char *text = NULL;
	size_t size = 0;
	int rc = credentials_file(path, &text, &size, fault);
	if (rc < 0)
		return rc;
	size_t begin = strspn(text, " \t\r\n");
	size_t end = size;
	while (end > begin && strchr(" \t\r\n", text[end - 1]) && text[end - 1])
		end--;
	memmove(text, text + begin, end - begin);
	explicit_bzero(text + end - begin, size - (end - begin));
	if (text[0] && is_plain(text)) {
		*ret = text;
		return 0;
	}
	credentials_free(text);
	return fault_set(fault, -EINVAL, "%s: expected a token of printable characters", path);
}
