/* fuzz_npy: the header of .npy files, for any bytes: with libFuzzer, and as a test with headers
 * built at random from the words of headers (drive.h).
 *
 * Expected: no read beyond the input (each input ends at the end of its allocation), a sentence
 * with every refusal, accepted values within the input, and no refusal of a header that NumPy
 * writes. */
#include "labels/npy.h"

#include "fuzz/drive.h"
#include "fuzz/number.h"
#include "fuzz/want.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_MOST = 24, SIZE_MOST = 1024 };

/* A header that NumPy writes is read correctly. */
static void check_sound(uint8_t which, uint64_t count)
{
	static const struct {
		const char *name;
		uint8_t bytes;
		bool is_signed;
		enum npy_kind kind;
	} types[] = {{"<i8", 8, true, NPY_INTEGERS}, {"<u8", 8, false, NPY_INTEGERS},
		{"<i4", 4, true, NPY_INTEGERS}, {"<u4", 4, false, NPY_INTEGERS},
		{"<f8", 8, true, NPY_FLOATS}, {"<f4", 4, true, NPY_FLOATS}};
	const size_t type = which % UTIL_COUNT(types);
	char bytes[128] = "\x93NUMPY\1";
	struct npy npy;
	struct fault fault;
	memset(bytes + 10, ' ', sizeof bytes - 11);
	int n = snprintf(bytes + 10, sizeof bytes - 10,
		"{'descr': '%s', 'fortran_order': False, 'shape': (%" PRIu64 ",), }",
		types[type].name, count);
	bytes[10 + n] = ' ';
	bytes[8] = sizeof bytes - 10;
	bytes[9] = 0;
	bytes[sizeof bytes - 1] = '\n';
	want(npy_parse((uint8_t *)bytes, sizeof bytes, types[type].kind, &npy, &fault) == 0,
		"a valid header is refused");
	want(npy.count == count && npy.bytes == types[type].bytes && npy.data == sizeof bytes,
		"a valid header is misread");
	want(types[type].kind == NPY_FLOATS || npy.is_signed == types[type].is_signed,
		"a sign that the header does not have");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct npy npy;
	struct fault fault = {{0}};
	want(exact != NULL, "no memory");
	memcpy(exact, data, size);
	/* Both kinds read the same header; a type belongs to one of them. */
	bool odd = size & 1;
	int result = npy_parse(exact, size, odd ? NPY_FLOATS : NPY_INTEGERS, &npy, &fault);
	free(exact);
	if (size > 12)
		check_sound(data[size - 1], data[size / 2] * UINT64_C(0x1000193) % 0xffffffff);
	if (result) {
		want(result == -EINVAL, "another code");
		want(fault.text[0] != 0, "refused without a sentence");
		return 0;
	}
	want(npy.bytes == 4 || npy.bytes == 8, "values of another size");
	want(npy.data <= size, "values before the header's end");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static size_t put(uint8_t *bytes, size_t at, struct random *random)
{
	static const char *const words[] = {"{", "}", "(", ")", "[", "]", ",", ":", "'", "\"", " ",
		"\n", "'descr'", "'fortran_order'", "'shape'", "'<i8'", "'<u4'", "'<f8'", "False",
		"True", "'descr': '<i8', ", "'fortran_order': False, ", "'shape': (3,), ", "(12,)",
		"7", "18446744073709551616", "-1", "\\", "x"};
	const char *word = words[draw(random, UTIL_COUNT(words))];
	memcpy(bytes + at, word, strlen(word));
	return at + strlen(word);
}

/* Half of them are valid except for one word. */
static size_t compose(uint8_t *bytes, size_t room, struct random *random)
{
	static const char sound[] = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
	size_t at = 12, text, words = 1 + draw(random, WORDS_MOST);
	(void)room;
	memcpy(bytes, "\x93NUMPY\2\0", 8);
	if (one_in(random, 2)) {
		size_t cut = draw(random, sizeof sound);
		memcpy(bytes + at, sound, cut);
		at = put(bytes, at + cut, random);
		memcpy(bytes + at, sound + cut, sizeof sound - 1 - cut);
		at += sizeof sound - 1 - cut;
	} else {
		while (words--)
			at = put(bytes, at, random);
	}
	text = at - 12 + one_in(random, 16);
	(void)number_little(bytes + 8, text, 4);
	return at;
}

const struct drive fuzz_drive = {"fuzz_npy", SIZE_MOST, compose, NULL};
#endif
