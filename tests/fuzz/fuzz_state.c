/* States, as trainers hand them back and `penstock state` reads them.
 *
 * Expected: no read beyond the given bytes; every refusal names the place; an accepted state,
 * printed and read again, is the same state, also as text in a client's open request. */
#include "definition/spec.h"
#include "definition/spec_state.h"
#include "proto/utf8.h"

#include "fuzz/drive.h"
#include "fuzz/phrase.h"
#include "fuzz/state_equal.h"
#include "fuzz/want.h"

#include <errno.h>

enum { TEXT_ROOM = 2048 };

static void want_refusal(int rc, const struct fault *fault)
{
	want(rc == -EINVAL, "refused with another code");
	want(strncmp(fault->text, "the state", 9) == 0, "refused without a place");
}

/* The same bytes as the text of a client's `state` must be accepted or refused in the same way. */
static void check_within(const char *text, const struct spec_state *alone)
{
	static struct stream_spec spec;
	struct fault fault = {{0}};
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	jsontext_string(&json, "source", "x");
	jsontext_string(&json, "state", text);
	jsontext_end(&json);
	want(!json.text.failed, "no memory");
	int rc = spec_parse(json.text.bytes, json.text.size, "fuzz", &spec, &fault);
	want((rc == 0) == (alone != NULL), "accepted alone and not in a request, or the reverse");
	want(rc == 0 || strncmp(fault.text, "fuzz:", 5) == 0, "refused without a place");
	want(!alone || state_equal(&spec.state, alone), "another state in a request");
	jsontext_free(&json);
}

static void check_again(const struct spec_state *state)
{
	struct spec_state again;
	struct fault fault = {{0}};
	struct jsontext json = {0};
	jsontext_object(&json, NULL);
	spec_state_json(&json, state);
	jsontext_end(&json);
	want(!json.text.failed, "no memory");
	/* {"state":{...}} */
	want(spec_state_parse(
		     json.text.bytes + 9, json.text.size - 10, "the state", &again, &fault) == 0,
		"its printed form is refused");
	want(state_equal(state, &again), "it reads back as another state");
	jsontext_free(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct spec_state state = {0};
	struct fault fault = {{0}};
	if (size > TEXT_ROOM)
		return 0;
	char *exact = malloc(size + 1), *text = malloc(size + 1);
	want(exact && text, "no memory");
	char *end = exact + 1; /* the last byte is the memory's last */
	memcpy(end, data, size);
	int rc = spec_state_parse(end, size, "the state", &state, &fault);
	if (rc)
		want_refusal(rc, &fault);
	else
		check_again(&state);
	memcpy(text, data, size);
	text[size] = 0;
	if (strlen(text) == size && utf8_is_valid(text))
		check_within(text, rc ? NULL : &state);
	free(exact);
	free(text);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	struct phrase phrase = {(char *)bytes, 0, room, random};
	phrase_state(&phrase);
	return phrase.size;
}

const struct drive fuzz_drive = {"fuzz_state", TEXT_ROOM, compose, NULL};
#endif
