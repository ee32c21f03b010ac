/* Differential fuzzing of penstock's decoder with files of several scans (scans_make.h, differ.h),
 * sound and damaged: drive.h says how it is run. Several copies at times, or other images in flight
 * beside them. */
#include "fuzz/differ.h"
#include "fuzz/drive.h"
#include "fuzz/scans_make.h"

static struct differ *differ;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct generate other;
	uint64_t seed = 14695981039346656037u; /* FNV-1a */
	if (!differ)
		differ = differ_new();
	if (size > GENERATE_BYTES)
		return 0;
	for (size_t i = 0; i < size; i++)
		seed = (seed ^ data[i]) * 1099511628211u;
	for (unsigned i = 0; i < (seed % 16 ? 1 : 3); i++)
		differ_add(differ, data, size, seed);
	for (unsigned i = 0; i < (seed % 16 > 1 ? 0 : 4); i++) {
		generate(&other, seed + i);
		differ_add(differ, other.bytes, other.size, seed + i);
	}
	differ_course(differ, seed);
	return 0;
}

/* Half of the inputs are sound, and penstock's decoder takes nearly all of those. */
static void end(void)
{
	if (!differ)
		return;
	differ_report(differ, stdout);
	if (differ->executions > 10000 && differ->clean < differ->executions / 4) {
		(void)fprintf(stderr, "fuzz_scans: penstock's decoder takes too few files\n");
		exit(1);
	}
	differ_free(differ);
}

const struct drive fuzz_drive = {
	.name = "fuzz_scans", .room = GENERATE_BYTES, .compose = scans_make, .end = end};
