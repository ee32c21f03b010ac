/* Differential fuzzing of penstock's decoder with any bytes (differ.h): a libFuzzer target, or with
 * a main that takes files on the command line.
 *
 *     cmake -B build/fuzz -DPENSTOCK_FUZZ=ON -DPENSTOCK_SANITIZE=address -DCMAKE_C_COMPILER=clang
 *     fuzz_images --write CORPUS --files 2000
 *     fuzz_jpeg -dict=tests/fuzz/jpeg.dict -max_len=2000 CORPUS
 *
 * The bytes determine the regions, the order of visits and the changes to entry points, so that
 * a finding can be reproduced. */
#include "fuzz/differ.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct differ *differ;
	uint64_t seed = 14695981039346656037u; /* FNV-1a */
	if (!differ)
		differ = differ_new();
	if (size > GENERATE_BYTES)
		return 0;
	for (size_t i = 0; i < size; i++)
		seed = (seed ^ data[i]) * 1099511628211u;
	/* Sometimes several copies, so that several images are in flight. */
	for (unsigned i = 0; i < (seed % 8 ? 1 : 4); i++)
		differ_add(differ, data, size, seed);
	differ_course(differ, seed);
	return 0;
}

#ifndef PENSTOCK_LIBFUZZER
int main(int argc, char **argv)
{
	static uint8_t bytes[GENERATE_BYTES];
	for (int i = 1; i < argc; i++) {
		cleanup(close_file) FILE *in = fopen(argv[i], "rb");
		if (!in) {
			perror(argv[i]);
			return 1;
		}
		(void)LLVMFuzzerTestOneInput(bytes, fread(bytes, 1, sizeof(bytes), in));
	}
	(void)printf("%d files; no findings\n", argc - 1);
	return 0;
}
#endif
