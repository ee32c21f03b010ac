/* spec_wants: a definition that must be read, and one that must be refused, for tests of its keys.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "definition/spec.h"

#include <errno.h>
#include <string.h>

static inline struct stream_spec must_parse(const char *text)
{
	struct stream_spec spec;
	struct fault fault = {""};
	if (spec_parse(text, strlen(text), "open request", &spec, &fault) < 0)
		fail_msg("%s: %s", text, fault.text);
	return spec;
}

static inline void must_refuse(const char *text, const char *sentence)
{
	struct stream_spec spec = {.batch_size = 4711};
	struct fault fault = {""};
	assert_int_equal(spec_parse(text, strlen(text), "open request", &spec, &fault), -EINVAL);
	assert_string_equal(fault.text, sentence);
	assert_int_equal(spec.batch_size, 4711);
}
