/* spec: a client's words become a definition, each wrong word a sentence, and what was read can be
 * printed and read again. Random mutations of good texts must end in one or the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "definition/spec_keys.h"
#include "proto/philox.h"
#include "spec_wants.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define STATE                                                                                 \
	"{\"version\":1,\"fingerprint\":\"0123456789abcdef\",\"order\":\"fedcba9876543210\"," \
	"\"transform\":\"00000000000000ff\",\"seed\":18446744073709551615,\"epoch\":3,"       \
	"\"position\":128}"

static void has_the_defaults_of_training(void **state)
{
	struct stream_spec spec = must_parse("source: ~/photos"), empty;
	(void)state;
	assert_string_equal(spec.name, "");
	assert_string_equal(spec.source, "~/photos");
	assert_int_equal(spec.batch_size, 64);
	assert_true(pixel_size_equal(spec.image_size, pixel_square(224)));
	assert_true(spec.train);
	assert_true(spec.shuffle);
	assert_true(spec.drop_last);
	assert_int_equal(spec.seed, 0);
	assert_int_equal(spec.epochs, 0);
	assert_int_equal(spec.prefetch, 4);
	assert_int_equal(spec.labels.from, DATASET_LABELS_AUTO);
	assert_int_equal(spec.on_broken, SPEC_BROKEN_SUBSTITUTE);
	assert_true(spec.max_broken == 0.01);
	assert_int_equal(spec.decode, SPEC_DECODE_EXACT);
	assert_int_equal(spec.interpolation, WEIGHTS_BILINEAR);
	assert_string_equal(spec.group, "");
	assert_int_equal(spec.wait_for, 1);
	assert_false(spec.state.given);
	const char *what = NULL;
	spec_init(&empty);
	assert_false(spec_same(&spec, &empty, &what));
	assert_string_equal(what, "source");
	strcpy(empty.source, "~/photos");
	assert_true(spec_same(&spec, &empty, &what));
}

static void evaluation_implies_its_own(void **state)
{
	struct stream_spec spec = must_parse("{source: x, train: false}");
	(void)state;
	assert_false(spec.shuffle);
	assert_false(spec.drop_last);
	assert_int_equal(spec.on_broken, SPEC_BROKEN_MARK);
	spec = must_parse(
		"{shuffle: true, drop_last: true, on_broken: fail, source: x, train: false}");
	assert_true(spec.shuffle);
	assert_true(spec.drop_last);
	assert_int_equal(spec.on_broken, SPEC_BROKEN_FAIL);
	spec = must_parse("{source: x, shuffle: false, drop_last: false, on_broken: mark}");
	assert_true(spec.train);
	assert_false(spec.shuffle);
	assert_false(spec.drop_last);
	assert_int_equal(spec.on_broken, SPEC_BROKEN_MARK);
}

static void reads_every_key(void **state)
{
	struct stream_spec spec = must_parse(
		"source: /d/train-{000..146}.tar\nbatch_size: 65536\nimage_size: 4096\n"
		"train: no\nshuffle: yes\ndrop_last: yes\nseed: 18446744073709551615\n"
		"epochs: 90\nprefetch: 64\nlabels: json\non_broken: fail\nmax_broken: 0.5\n"
		"max_image_pixels: 1000000000\nmax_file_bytes: 4294967295\ndecode: "
		"fast\ninterpolation: lanczos\ngroup: job 7\nwait_for: 1024\nshare: "
		"split\nrank: 7\n"
		"world_size: 65536\nlaggard: detach\nlaggard_timeout_s: 86400\npin_memory: "
		"true\nreconnect: true\nstate: " STATE "\n");
	(void)state;
	assert_string_equal(spec.source, "/d/train-{000..146}.tar");
	assert_int_equal(spec.batch_size, 65536);
	assert_true(pixel_size_equal(spec.image_size, pixel_square(4096)));
	assert_int_equal(spec.seed, UINT64_MAX);
	assert_int_equal(spec.epochs, 90);
	assert_int_equal(spec.prefetch, 64);
	assert_int_equal(spec.labels.from, DATASET_LABELS_JSON);
	assert_true(spec.max_broken == 0.5);
	assert_int_equal(spec.max_image_pixels, 1000000000);
	assert_int_equal(spec.max_file_bytes, UINT32_MAX);
	assert_int_equal(spec.decode, SPEC_DECODE_FAST);
	assert_int_equal(spec.interpolation, WEIGHTS_LANCZOS);
	assert_string_equal(spec.group, "job 7");
	assert_int_equal(spec.wait_for, 1024);
	assert_int_equal(spec.share, SPEC_SHARE_SPLIT);
	assert_int_equal(spec.rank, 7);
	assert_int_equal(spec.world_size, 65536);
	assert_int_equal(spec.laggard, SPEC_LAGGARD_DETACH);
	assert_int_equal(spec.laggard_timeout_s, 86400);
	assert_true(spec.pin_memory);
	assert_true(spec.reconnect);
	assert_true(spec.state.given);
	assert_int_equal(spec.state.version, 1);
	assert_int_equal(spec.state.fingerprint, 0x0123456789abcdef);
	assert_int_equal(spec.state.order, 0xfedcba9876543210);
	assert_int_equal(spec.state.transform, 0xff);
	assert_int_equal(spec.state.seed, UINT64_MAX);
	assert_int_equal(spec.state.epoch, 3);
	assert_int_equal(spec.state.position, 128);
}

/* A number of each key beyond its range, a flag that is none, a word that none has: also of keys to
 * come. */
static void every_key_refuses_a_wrong_value(void **state)
{
	(void)state;
	unsigned refused = 0;
	for (int i = 0; i < SPEC_KEYS; i++) {
		const struct yaml_key *key = &spec_keys[i];
		char text[128], sentence[64];
		struct stream_spec spec;
		struct fault fault;
		bool number = key->kind == YAML_KEY_U32 || key->kind == YAML_KEY_U64;
		if (!number && key->kind != YAML_KEY_BOOL && key->kind != YAML_KEY_ENUM &&
			key->kind != YAML_KEY_DOUBLE && key->kind != YAML_KEY_I32)
			continue;
		int n = snprintf(
			text, sizeof text, "{source: x, %s: %s}", key->name, number ? "-1" : "3.5");
		(void)snprintf(sentence, sizeof sentence, "%s: expected ", key->name);
		assert_int_equal(spec_parse(text, (size_t)n, "t", &spec, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, sentence));
		refused++;
		if (!number || key->max == UINT64_MAX)
			continue;
		n = snprintf(
			text, sizeof text, "{source: x, %s: %" PRIu64 "}", key->name, key->max + 1);
		assert_int_equal(spec_parse(text, (size_t)n, "t", &spec, &fault), -EINVAL);
		assert_non_null(strstr(fault.text, sentence));
	}
	assert_true(refused > 20);
}

static void takes_a_long_source(void **state)
{
	char text[SPEC_TEXT + 64];
	struct stream_spec spec;
	struct fault fault;
	(void)state;
	int n = snprintf(
		text, sizeof text, "{\"source\":\"/%0*d\",\"batch_size\":5}", SPEC_TEXT - 2, 7);
	assert_int_equal(spec_parse(text, (size_t)n, "open request", &spec, &fault), 0);
	assert_int_equal(strlen(spec.source), SPEC_TEXT - 1);
	assert_int_equal(spec.batch_size, 5);
	n = snprintf(text, sizeof text, "{\"source\":\"/%0*d\"}", SPEC_TEXT - 1, 7);
	assert_int_equal(spec_parse(text, (size_t)n, "open request", &spec, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "source: expected a text of 1 to 4095 bytes"));
}

static void takes_the_name_of_a_stream(void **state)
{
	static const char *const texts[] = {
		"{stream: train, epochs: 5, group: g, wait_for: 2, state: " STATE "}",
		"{source: \"stream:train\", epochs: 5, group: g, wait_for: 2, state: " STATE "}"};
	struct stream_spec named =
		must_parse("{source: x, batch_size: 7, seed: 9, group: config, epochs: 1}");
	(void)state;
	strcpy(named.name, "train");
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		struct stream_spec spec = must_parse(texts[i]);
		assert_string_equal(spec.name, "train");
		assert_string_equal(spec.source, "");
		spec_overlay(&named, &spec);
		assert_string_equal(spec.name, "train");
		assert_string_equal(spec.source, "x");
		assert_int_equal(spec.batch_size, 7);
		assert_int_equal(spec.epochs, 5);
		assert_string_equal(spec.group, "g");
		assert_int_equal(spec.wait_for, 2);
		assert_int_equal(spec.state.position, 128);
	}
	struct stream_spec spec = must_parse("stream: train");
	spec_overlay(&named, &spec);
	assert_int_equal(spec.epochs, 1);
	assert_string_equal(spec.group, "config");
	assert_false(spec.state.given);
	assert_int_equal(spec.share, SPEC_SHARE_ALL);
	spec = must_parse(
		"{stream: train, share: split, rank: 1, world_size: 2, laggard: detach, "
		"laggard_timeout_s: 9, pin_memory: yes, reconnect: yes, state: " STATE "}");
	spec_overlay(&named, &spec);
	assert_int_equal(spec.share, SPEC_SHARE_SPLIT);
	assert_int_equal(spec.rank, 1);
	assert_int_equal(spec.world_size, 2);
	assert_int_equal(spec.laggard, SPEC_LAGGARD_DETACH);
	assert_int_equal(spec.laggard_timeout_s, 9);
	assert_true(spec.reconnect && spec.pin_memory && spec.state.given);
	spec = must_parse("{stream: train, epochs: 0}"); /* written out, it counts */
	spec_overlay(&named, &spec);
	assert_int_equal(spec.epochs, 0);
}

static void refuses_in_sentences(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"", "open request: source is missing; expected a folder, a tar, a glob or a brace "
		     "range of tars"},
		{"{batch_size: 4}", "open request:1:1: source is missing; expected a folder, a "
				    "tar, a glob or a brace range of tars"},
		{"{source: \"\"}",
			"open request:1:10: source: expected a text of 1 to 4095 bytes, got \"\""},
		{"{source: x, batch_size: 0}", "open request:1:25: batch_size: expected a whole "
					       "number from 1 to 65536, got \"0\""},
		{"{source: x, image_size: 4097}", "open request:1:25: image_size: expected a whole "
						  "number from 1 to 4096, got \"4097\""},
		{"{source: x, prefetch: 1}", "open request:1:23: prefetch: expected a whole number "
					     "from 2 to 64, got \"1\""},
		{"{source: x, wait_for: 0}", "open request:1:23: wait_for: expected a whole number "
					     "from 1 to 1024, got \"0\""},
		{"{source: x, image_column: \"\"}",
			"open request:1:27: image_column: expected a name of 1 to 255 bytes "
			"without control characters, got \"\""},
		{"{source: x, label_offset: -65537}",
			"open request:1:27: label_offset: expected a whole number from -65536 to "
			"65536, got \"-65537\""},
		{"{source: x, label_offset: -1, labels: none}",
			"open request:1:27: label_offset: expected nothing: it is about the labels "
			"of a column, and labels says that there are none or that they come from "
			"elsewhere"},
		{"{source: x, label_column: y, labels: {manifest: /m.csv}}",
			"open request:1:27: label_column: expected nothing: it is about the labels "
			"of a column, and labels says that there are none or that they come from "
			"elsewhere"},
		{"{source: x, share: some}",
			"open request:1:20: share: expected all or split, got \"some\""},
		{"{source: x, share: split, rank: 0, world_size: 0}",
			"open request:1:48: world_size: expected a whole number from 1 to 65536, "
			"got \"0\""},
		{"{source: x, share: split, rank: 2, world_size: 2}",
			"open request:1:33: rank: expected a number below world_size, which is 2, "
			"got 2"},
		{"{source: x, share: split, rank: 2}",
			"open request:1:33: rank: expected both rank and world_size beside share: "
			"split"},
		{"{source: x, share: split, world_size: 2}",
			"open request:1:39: world_size: expected both rank and world_size beside "
			"share: split"},
		{"{source: x, laggard: kill}",
			"open request:1:22: laggard: expected block or detach, got \"kill\""},
		{"{source: x, laggard_timeout_s: 0}",
			"open request:1:32: laggard_timeout_s: expected a whole number from 1 to "
			"86400, got \"0\""},
		{"{source: x, reconnect: yes}", "open request:1:13: reconnect needs the state that "
						"the trainer resumes from"},
		{"{source: x, epochs: 4294967296}",
			"open request:1:21: epochs: expected a whole number from 0 to 4294967295, "
			"got \"4294967296\""},
		{"{source: x, seed: -1}", "open request:1:19: seed: expected a whole number from 0 "
					  "to 18446744073709551615, got \"-1\""},
		{"{source: x, train: 1}",
			"open request:1:20: train: expected true or false, got \"1\""},
		{"{source: x, labels: txt}", "open request:1:21: labels: expected auto, none, "
					     "folder, cls or json, or a mapping such as {manifest: "
					     "/data/labels.csv}; got \"txt\""},
		{"{source: x, on_broken: skip}", "open request:1:24: on_broken: expected "
						 "substitute, mark or fail, got \"skip\""},
		{"{source: x, decode: faster}",
			"open request:1:21: decode: expected exact or fast, got \"faster\""},
		{"{source: x, interpolation: cubic}",
			"open request:1:28: interpolation: expected bilinear, bicubic, box, "
			"hamming, lanczos, nearest or random, got \"cubic\""},
		{"{source: x, max_broken: 1%}",
			"open request:1:25: max_broken: expected a number from 0 to 1, got \"1%\""},
		{"source: x\nbatchsize: 4\n", "open request:2:1: unknown key \"batchsize\"; did "
					      "you mean \"batch_size\"?"},
		{"stream: a\nbatch_size: 4\n",
			"open request:2:1: batch_size cannot be written beside stream: the "
			"configuration defines \"a\"; beside "
			"it only these keys are allowed: epochs, group, share, "
			"rank, world_size, wait_for, laggard, laggard_timeout_s, state, pin_memory "
			"and reconnect"},
		{"stream: a\nsource: x\n",
			"open request:2:1: source cannot be written beside "
			"stream: the configuration defines \"a\"; beside it "
			"only these keys are allowed: epochs, group, share, rank, "
			"world_size, wait_for, laggard, laggard_timeout_s, state, pin_memory and "
			"reconnect"},
		{"stream: a\nsource: stream:a\n",
			"open request:2:9: source: expected stream:NAME with a name from the "
			"daemon's configuration, and no "
			"key stream: beside it"},
		{"source: \"stream:\"", "open request:1:9: source: expected stream:NAME with a "
					"name from the daemon's "
					"configuration, and no key stream: beside it"},
		{"source: stream:a\nseed: 4\n",
			"open request:2:1: seed cannot be written beside stream: the configuration "
			"defines \"a\"; beside it "
			"only these keys are allowed: epochs, group, share, rank, "
			"world_size, wait_for, laggard, laggard_timeout_s, state, pin_memory and "
			"reconnect"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++)
		must_refuse(cases[i].text, cases[i].sentence);
}

static void takes_a_state_as_text(void **state)
{
	struct stream_spec spec = must_parse("source: x\nstate: '" STATE "'\n");
	(void)state;
	assert_int_equal(spec.state.fingerprint, 0x0123456789abcdef);
	assert_int_equal(spec.state.position, 128);
}

static void refuses_states_in_sentences(void **state)
{
	static const struct {
		const char *state, *sentence;
	} cases[] = {
		{"{}", "open request:2:8: the state has no version; expected what "
		       "penstock_stream_state wrote or state_dict() returned"},
		{"[1]", "open request:2:8: expected a state such as {\"version\": 1, ...}, as "
			"penstock_stream_state wrote it"},
		{"''", "open request:2:8: state: the state is empty; expected what "
		       "penstock_stream_state wrote"},
		{"hello", "open request:2:8: state:1:1: expected a state such as {\"version\": 1, "
			  "...}, as "
			  "penstock_stream_state wrote it"},
		{"'{\"version\":1'", "open request:2:8: state:2:1: not valid YAML: did not find "
				     "expected ',' or '}' while "
				     "parsing a flow mapping"},
		{"{version: 2, more: 4}", "open request:2:18: the state has version 2, of another "
					  "release of penstock; this one reads version 1"},
		{"{version: one}", "open request:2:18: version: expected a whole number from 0 to "
				   "4294967295, got \"one\""},
		{"{version: 1}",
			"open request:2:8: the state has no fingerprint; it was cut or edited"},
		{"{version: 1, fingerprint: \"0123456789abcdef\", order: \"0123456789abcdef\", "
		 "transform: "
		 "\"0123456789abcdef\", seed: 1, epoch: 1}",
			"open request:2:8: the state has no position; it was cut or edited"},
		{"{version: 1, fingerprint: 12}", "open request:2:34: fingerprint: expected 16 "
						  "hexadecimal digits in quotes, got \"12\""},
		{"{version: 1, position: 281474976710657}",
			"open request:2:31: position: expected a whole number from 0 to "
			"281474976710656, got \"281474976710657\""},
		{"{version: 1, epoch: 4294967296}",
			"open request:2:28: epoch: expected a whole number from 0 to 4294967295, "
			"got \"4294967296\""},
		{"{version: 1, sed: 1}",
			"open request:2:21: unknown key \"sed\"; did you mean \"seed\"?"},
		{"{version: 1, version: 1}", "open request:2:21: version appears twice, first in "
					     "line 2, column 9; keep one of them"},
	};
	char text[1024];
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		(void)snprintf(text, sizeof text, "source: x\nstate: %s\n", cases[i].state);
		must_refuse(text, cases[i].sentence);
	}
}

static void must_read_state(const char *text)
{
	struct spec_state state;
	struct fault fault = {""};
	if (spec_state_parse(text, strlen(text), "the state", &state, &fault) < 0)
		fail_msg("%s: %s", text, fault.text);
	assert_true(state.given);
	assert_int_equal(state.version, 1);
	assert_int_equal(state.fingerprint, 0x0123456789abcdef);
	assert_int_equal(state.order, 0xfedcba9876543210);
	assert_int_equal(state.transform, 0xff);
	assert_int_equal(state.seed, UINT64_MAX);
	assert_int_equal(state.epoch, 3);
	assert_int_equal(state.position, 128);
}

/* A checkpoint's text comes with lines and spaces; cut anywhere, it is none. */
static void reads_a_state_by_itself(void **state)
{
	char whole[] = STATE;
	(void)state;
	must_read_state(STATE);
	must_read_state("\n\n  " STATE "  \r\n\n");
	for (size_t size = 0; size < sizeof whole - 1; size++) {
		struct spec_state cut = {.version = 4711};
		struct fault fault = {""};
		assert_int_equal(spec_state_parse(whole, size, "the state", &cut, &fault), -EINVAL);
		assert_int_equal(strncmp(fault.text, "the state:", 10), 0);
		assert_int_equal(cut.version, 4711);
	}
}

/* A checkpoint keeps other things too, and perhaps several states: then none is meant. */
static void reads_a_state_that_is_kept(void **state)
{
	static const struct {
		const char *text, *sentence; /* "": it is read */
	} cases[] = {
		{STATE, ""},
		{"{\"epoch\": 1, \"loader\": " STATE "}", ""},
		{"{\"loader\": " STATE ", \"model\": {\"version\": 2}, \"loss\": [" STATE "]}", ""},
		{"{\"train\": " STATE ", \"val\": " STATE "}",
			"the state:1:1: the state has no version"},
		{"{\"a\": {\"loader\": " STATE "}}", "the state:1:1: the state has no version"},
		{"{\"loader\": {\"version\": 2, \"fingerprint\": 1}}",
			"the state:1:24: the state has version 2"},
		{"{\"version\": 3, \"loader\": " STATE "}", ""},
		{"[" STATE "]", "the state:1:1: expected a state such as"},
		{"", "the state: the state is empty"},
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct spec_state got = {0};
		struct fault fault = {""};
		int rc = spec_state_parse_kept(
			cases[i].text, strlen(cases[i].text), "the state", &got, &fault);
		if (strncmp(fault.text, cases[i].sentence, strlen(cases[i].sentence)) != 0)
			fail_msg("%s: %s", cases[i].text, fault.text);
		assert_int_equal(rc, *cases[i].sentence ? -EINVAL : 0);
		assert_int_equal(got.position, *cases[i].sentence ? 0 : 128);
	}
}

/* What states hold must not change from release to release. */
static void knows_order_and_transform(void **state)
{
	struct stream_spec train = must_parse("{source: x, seed: 7}"),
			   plain = must_parse("{source: x, seed: 7, shuffle: no}"),
			   eval = must_parse("{source: x, train: no}"),
			   fast = must_parse("{source: x, decode: fast}"),
			   box = must_parse("{source: x, interpolation: box}"),
			   other = must_parse("{source: y, batch_size: 1, prefetch: 9, seed: 7}"),
			   pixels = must_parse("{source: x, seed: 7, max_image_pixels: 63999999}"),
			   bytes = must_parse("{source: x, max_file_bytes: 63999999}"),
			   same = must_parse("{source: x, max_image_pixels: 64000000, "
					     "max_file_bytes: 536870912}");
	(void)state;
	assert_int_equal(spec_order_hash(&train), 0x7420abb00c7230fa);
	assert_int_equal(spec_order_hash(&plain), 0xd624399df52fc525);
	assert_int_equal(spec_order_hash(&other), spec_order_hash(&train));
	assert_int_equal(spec_transform_hash(&train), 0xc437b258000bcb63);
	assert_int_equal(spec_transform_hash(&eval), 0xb55e391d08944381);
	assert_int_equal(spec_transform_hash(&fast), 0x648ed78c4393c7fa);
	assert_int_equal(spec_transform_hash(&box), 0xa9b4e46a30bef06d);
	/* The limits' defaults are in no hash, so that earlier states fit. */
	assert_int_not_equal(spec_transform_hash(&pixels), spec_transform_hash(&train));
	assert_int_not_equal(spec_transform_hash(&bytes), spec_transform_hash(&train));
	assert_int_not_equal(spec_transform_hash(&bytes), spec_transform_hash(&pixels));
	assert_int_equal(spec_transform_hash(&same), spec_transform_hash(&train));
	assert_int_equal(spec_order_hash(&pixels), 0x7420abb00c7230fa);
	assert_int_equal(spec_transform_hash(&other), spec_transform_hash(&train));
}

/* Every key that defines the batches tells two streams apart, every other does not. */
static void compares_what_defines_the_batches(void **state)
{
	static const struct {
		const char *text, *differs;
	} cases[] = {
		{"source: y", "source"},
		{"{source: x, batch_size: 65}", "batch_size"},
		{"{source: x, image_size: 225}", "image_size"},
		{"{source: x, train: no, shuffle: yes, drop_last: yes, on_broken: substitute}",
			"train"},
		{"{source: x, shuffle: no}", "shuffle"},
		{"{source: x, drop_last: no}", "drop_last"},
		{"{source: x, seed: 4294967296}", "seed"},
		{"{source: x, labels: cls}", "labels"},
		{"{source: x, on_broken: mark}", "on_broken"},
		{"{source: x, max_broken: 0.02}", "max_broken"},
		{"{source: x, max_image_pixels: 64000001}", "max_image_pixels"},
		{"{source: x, max_file_bytes: 4294967295}", "max_file_bytes"},
		{"{source: x, decode: fast}", "decode"},
		{"{source: x, interpolation: box}", "interpolation"},
		{"{source: x, share: split}", "share"},
		{"{source: x, epochs: 3, prefetch: 5, group: g, wait_for: 4, laggard: detach, "
		 "laggard_timeout_s: 3, pin_memory: yes, reconnect: yes, state: " STATE "}",
			NULL},
	};
	struct stream_spec base = must_parse("source: x");
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct stream_spec other = must_parse(cases[i].text);
		const char *what = NULL;
		assert_int_equal(spec_same(&base, &other, &what), !cases[i].differs);
		if (cases[i].differs)
			assert_string_equal(what, cases[i].differs);
		else
			assert_null(what);
	}
}

/* Where its list lies is nobody's concern, and what is in it everybody's. */
static void knows_a_subset_by_its_content(void **state)
{
	struct stream_spec all = must_parse("{source: x, seed: 7}"),
			   here = must_parse("{source: x, seed: 7, indices: /a.npy}"),
			   there = must_parse("{source: x, seed: 7, indices: /b.npy}");
	const char *what = NULL;
	(void)state;
	assert_string_equal(here.indices, "/a.npy");
	here.subset = there.subset = (struct spec_subset){3, 0x1234};
	assert_true(spec_same(&here, &there, &what));
	assert_int_equal(spec_order_hash(&here), spec_order_hash(&there));
	assert_int_equal(spec_order_hash(&here), 0xc643d46afa84755);
	assert_true(spec_order_hash(&here) != spec_order_hash(&all));
	assert_false(spec_same(&here, &all, &what));
	assert_string_equal(what, "indices");
	there.subset.count = 4;
	assert_false(spec_same(&here, &there, &what));
	assert_true(spec_order_hash(&here) != spec_order_hash(&there));
	there.subset = (struct spec_subset){3, 0x1235};
	assert_false(spec_same(&here, &there, &what));
	assert_true(spec_order_hash(&here) != spec_order_hash(&there));
	/* A subset of a named stream is the configuration's, not the client's. */
	struct stream_spec client = must_parse("{stream: train}");
	spec_overlay(&here, &client);
	assert_string_equal(client.indices, "/a.npy");
	cleanup(free_ptr) char *json = spec_json(&client);
	assert_non_null(strstr(json, "\"indices\":\"/a.npy\""));
}

static void alone_is_who_cannot_be_joined(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool alone;
	} cases[] = {
		{"source: x", true},
		{"{source: x, group: g}", false},
		{"stream: x", false},
		{"{source: x, share: split, rank: 1, world_size: 2}", true},
		{"{source: x, group: g, share: split, rank: 1, world_size: 2}", true},
		{"{stream: x, share: split, rank: 1, world_size: 2}", true},
		{"{source: x, share: all, group: g}", false},
	};
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct stream_spec spec = must_parse(cases[i].text);
		assert_int_equal(spec_is_alone(&spec), cases[i].alone);
	}
}

static void share_and_rank_go_together(void **state)
{
	static const struct {
		const char *text, *sentence;
	} cases[] = {
		{"source: x", NULL},
		{"{source: x, share: split, rank: 1, world_size: 2}", NULL},
		{"{source: x, share: split, rank: 0, world_size: 1}", NULL},
		{"{source: x, share: split}", "share: split needs rank and world_size"},
		{"{source: x, rank: 1, world_size: 2}", "only with share: split"},
		{"{source: x, share: all, rank: 1, world_size: 2}", "only with share: split"},
		{"{source: x, group: g, wait_for: 2}", NULL},
		{"{stream: x, wait_for: 2}", NULL},
		{"{source: x, wait_for: 1}", NULL},
		{"{source: x, wait_for: 2}", "without a group"},
		{"{source: x, group: g, share: split, rank: 0, world_size: 2, wait_for: 2}", NULL},
		{"{source: x, group: g, share: split, rank: 0, world_size: 2, wait_for: 3}",
			"at most world_size, which is 2, got 3"},
		{"{source: x, share: split, rank: 0, world_size: 2, wait_for: 2}",
			"without a group"},
	};
	struct fault fault;
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(cases); i++) {
		struct stream_spec spec = must_parse(cases[i].text);
		assert_int_equal(spec_check_share(&spec, &fault), cases[i].sentence ? -EINVAL : 0);
		if (cases[i].sentence)
			assert_non_null(strstr(fault.text, cases[i].sentence));
	}
}

/* What is printed reads back as the same, and prints the same again. */
static void prints_what_it_reads(void **state)
{
	static const char *const texts[] = {
		"source: \"/a \\\"b\\\"\\\\\\n\\t\\xE9\"",
		"{source: x, train: false, max_broken: 0.1234567890123, seed: "
		"18446744073709551615, state: " STATE "}",
		"{stream: train}",
		"{source: x, indices: \"/a b.npy\"}",
		"{source: x, class_order: natural, nested: true}",
		"{source: x, image_column: img, label_column: \"fine label\", label_offset: -1}",
		"{source: x, share: split, rank: 1, world_size: 3}",
		"{stream: train, epochs: 0, group: a b, wait_for: 3, state: " STATE "}",
		"{source: x, group: g, decode: fast, interpolation: nearest, labels: none, "
		"on_broken: fail, prefetch: 2, "
		"epochs: 1}",
	};
	(void)state;
	for (size_t i = 0; i < UTIL_COUNT(texts); i++) {
		struct stream_spec spec = must_parse(texts[i]), again;
		cleanup(free_ptr) char *json = spec_json(&spec);
		assert_non_null(json);
		again = must_parse(json);
		cleanup(free_ptr) char *twice = spec_json(&again);
		assert_string_equal(json, twice);
		const char *what = NULL;
		assert_true(spec_same(&spec, &again, &what));
		assert_string_equal(spec.name, again.name);
		assert_string_equal(spec.group, again.group);
		assert_int_equal(spec.wait_for, again.wait_for);
		assert_int_equal(spec.epochs, again.epochs);
		assert_int_equal(spec.prefetch, again.prefetch);
		assert_memory_equal(&spec.state, &again.state, sizeof spec.state);
	}
	struct stream_spec spec = must_parse("source: x");
	cleanup(free_ptr) char *json = spec_json(&spec);
	assert_string_equal(json,
		"{\"source\":\"x\",\"batch_size\":64,\"image_size\":224,\"views\":1,\"dtype\":"
		"\"uint8\",\"layout\":\"NHWC\",\"train\":true,\"shuffle\":true,"
		"\"drop_last\":true,\"seed\":0,\"epochs\":0,\"prefetch\":4,\"labels\":\"auto\","
		"\"class_order\":\"bytewise\","
		"\"on_broken\":\"substitute\",\"max_broken\":0.01,"
		"\"max_image_pixels\":64000000,\"max_file_bytes\":536870912,"
		"\"decode\":\"exact\","
		"\"interpolation\":\"bilinear\",\"share\":\"all\",\"wait_for\":1,\"laggard\":"
		"\"block\",\"laggard_timeout_s\":60}");
}

/* Changes, inserts, drops or repeats a few bytes; returns the new size. */
static size_t mutate(uint64_t number, char *text, size_t size, size_t room)
{
	static const char spice[] = "{}[]:,\"'\n \t&*!|>-#%@\\0\xff\xc3~?n1";
	unsigned edits = 1 + (unsigned)(number % 4);
	for (unsigned i = 0; i < edits && size; i++) {
		struct philox r = philox_draw(1, 0, number, PHILOX_SUBSTITUTE, i);
		size_t at = r.word[0] % size,
		       span = 1 + r.word[2] % UTIL_MIN(size - at, (size_t)16);
		char byte = spice[r.word[1] % (sizeof spice - 1)];
		switch (r.word[3] % 5) {
		case 0:
			text[at] ^= (char)(1 << r.word[1] % 8);
			break;
		case 1:
			text[at] = byte;
			break;
		case 2:
			memmove(text + at, text + at + span, size - at - span);
			size -= span;
			break;
		default:
			if (size + span > room)
				break;
			memmove(text + at + span, text + at, size - at);
			if (r.word[3] % 5 == 3)
				memset(text + at, byte, span);
			size += span;
		}
	}
	return size;
}

static void survives_mutations(void **state)
{
	static const char *const seeds[] = {
		"{\"source\":\"/data/"
		"train\",\"batch_size\":64,\"train\":false,\"max_broken\":0.01,\"state\":" STATE
		"}",
		"source: x\nimage_size: 224\nshuffle: no\nlabels: cls\ngroup: g\nstate: '" STATE
		"'\n",
		"stream: train\nepochs: 4\nwait_for: 2\nstate: " STATE "\n",
		"source: x\ntransforms:\n- RandomResizedCrop: {size: [64, 64], scale: [0.1, "
		"1], ratio: [0.5, 2]}\n- RandomHorizontalFlip: {p: 0.25}\n- RandomVerticalFlip\n",
		"{source: x, transforms: [Resize: {size: 232, antialias: true}, CenterCrop: "
		"{size: 224}]}",
		"{source: x, transforms: [RandomCrop: {size: 8, padding: [1, 2]}, RandomApply: "
		"{transforms: [ColorJitter: {brightness: 0.4, hue: [-0.1, 0.1]}, GaussianBlur: "
		"{kernel_size: 3}], p: 0.8}, RandomChoice: {transforms: [AutoAugment, RandAugment: "
		"{magnitude: 5}], p: [1, 2]}, RandomAffine: {degrees: 3, shear: [1, 2, 3, 4], "
		"center: [1, 2], fill: 7}, RandomErasing: {value: [1, 2, 3]}]}",
		"{source: x, image_size: {0: 128, 16: 192, 18: 224}, views: 2, dtype: float16, "
		"layout: NCHW, mean: [0.5, 0.25, 0], std: [1, 0.5, 2]}",
	};
	unsigned good = 0;
	(void)state;
	for (uint64_t i = 0; i < 100000; i++) {
		struct stream_spec spec;
		struct fault fault = {""};
		char text[1024];
		const char *seed = seeds[i % UTIL_COUNT(seeds)];
		size_t size = strlen(seed);
		memcpy(text, seed, size);
		size = mutate(i, text, size, sizeof text);
		cleanup(free_ptr) char *exact =
			malloc(UTIL_MAX(size, (size_t)1)); /* so that one byte more is seen */
		memcpy(exact, text, size);
		int result = spec_parse(exact, size, "open request", &spec, &fault);
		assert_true(result == 0 || result == -EINVAL);
		if (result < 0)
			assert_memory_equal(fault.text, "open request", 12);
		good += !result;
	}
	assert_in_range(good, 1000, 90000); /* the mutations are neither harmless nor hopeless */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(has_the_defaults_of_training),
		cmocka_unit_test(evaluation_implies_its_own),
		cmocka_unit_test(reads_every_key),
		cmocka_unit_test(every_key_refuses_a_wrong_value),
		cmocka_unit_test(takes_a_long_source),
		cmocka_unit_test(takes_the_name_of_a_stream),
		cmocka_unit_test(refuses_in_sentences),
		cmocka_unit_test(takes_a_state_as_text),
		cmocka_unit_test(refuses_states_in_sentences),
		cmocka_unit_test(reads_a_state_by_itself),
		cmocka_unit_test(reads_a_state_that_is_kept),
		cmocka_unit_test(knows_order_and_transform),
		cmocka_unit_test(compares_what_defines_the_batches),
		cmocka_unit_test(knows_a_subset_by_its_content),
		cmocka_unit_test(alone_is_who_cannot_be_joined),
		cmocka_unit_test(share_and_rank_go_together),
		cmocka_unit_test(prints_what_it_reads),
		cmocka_unit_test(survives_mutations),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
