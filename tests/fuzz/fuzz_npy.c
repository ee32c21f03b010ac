/* The header of .npy files, over any bytes: for libFuzzer, and as a test over headers put together
 * at random from the words that headers consist of.
 *
 *     fuzz_npy [ROUNDS [FILE...]]
 *
 * Expected: no byte beyond the given ones is looked at (each input ends where its memory does),
 * what is refused is refused in words, and what is accepted lies within the bytes. */
#include "source/npy.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MOST = 24, SIZE_MOST = 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(int holds, const char *what)
{
	if (holds)
		return;
	(void)fprintf(stderr, "fuzz_npy: %s\n", what);
	abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct npy npy;
	struct fault fault = {{0}};
	want(exact != NULL, "no memory");
	memcpy(exact, data, size);
	/* Both kinds read the same header; a type is of one of them. */
	bool odd = size & 1;
	int result = npy_parse(exact, size, odd ? NPY_FLOATS : NPY_INTEGERS, &npy, &fault);
	free(exact);
	if (result) {
		want(result == -EINVAL, "another code");
		want(fault.text[0] != 0, "refused without a word");
		return 0;
	}
	want(npy.bytes == 4 || npy.bytes == 8, "values of another size");
	want(npy.data <= size, "values before the header's end");
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
static uint64_t next(uint64_t *random)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return *random >> 33;
}

static size_t put(uint8_t *bytes, size_t at, uint64_t *random)
{
	static const char *const words[] = {"{", "}", "(", ")", "[", "]", ",", ":", "'", "\"", " ",
		"\n", "'descr'", "'fortran_order'", "'shape'", "'<i8'", "'<u4'", "'<f8'", "False",
		"True", "'descr': '<i8', ", "'fortran_order': False, ", "'shape': (3,), ", "(12,)",
		"7", "18446744073709551616", "-1", "\\", "x"};
	const char *word = words[next(random) % UTIL_COUNT(words)];
	memcpy(bytes + at, word, strlen(word));
	return at + strlen(word);
}

/* Half of them are sound but for what one word does to them. */
static size_t compose(uint8_t *bytes, uint64_t *random)
{
	static const char sound[] = "{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }";
	size_t at = 12, text, words = 1 + next(random) % WORDS_MOST;
	memcpy(bytes, "\x93NUMPY\2\0", 8);
	if (next(random) % 2) {
		size_t cut = next(random) % sizeof sound;
		memcpy(bytes + at, sound, cut);
		at = put(bytes, at + cut, random);
		memcpy(bytes + at, sound + cut, sizeof sound - 1 - cut);
		at += sizeof sound - 1 - cut;
	} else {
		while (words--)
			at = put(bytes, at, random);
	}
	text = at - 12 + (next(random) % 16 == 0);
	for (int i = 0; i < 4; i++)
		bytes[8 + i] = (uint8_t)(text >> 8 * i);
	if (next(random) % 8 == 0)
		bytes[next(random) % at] ^= (uint8_t)(1 << next(random) % 8);
	return at;
}

static void read_file(const char *path)
{
	static uint8_t bytes[NPY_PREFIX + NPY_TEXT_MAX];
	cleanup(close_file) FILE *in = fopen(path, "rb");
	want(in != NULL, path);
	(void)LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, sizeof bytes, in));
}

int main(int argc, char **argv)
{
	uint8_t bytes[SIZE_MOST];
	uint64_t random = 1;
	unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 200000;
	for (unsigned long i = 0; i < rounds; i++)
		(void)LLVMFuzzerTestOneInput(bytes, compose(bytes, &random));
	for (int i = 2; i < argc; i++)
		read_file(argv[i]);
	(void)printf("%lu headers\n", rounds);
	return 0;
}
#endif
