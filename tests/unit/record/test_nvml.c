/* nvml: against each version of a made-up libnvidia-ml.so.1 (fake_nvml.c), with calls that fail and
 * more processes than fit. It has not been tried with a GPU here.
 *
 * dlopen finds a library that is loaded already by its name, so each test first loads its version
 * by its path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "record/nvml.h"
#include "unit/record/fake_nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *library;
static struct fake_nvml *fake;
static char note[RECORD_TEXT];

static void load(const char *version)
{
	char path[4096];
	(void)snprintf(path, sizeof path, "%s/%s/libnvidia-ml.so.1", FAKE_NVML, version);
	library = dlopen(path, RTLD_NOW);
	if (!library)
		fail_msg("%s", dlerror());
	fake_nvml_get *get;
	void *symbol = dlsym(library, "fake_nvml");
	memcpy(&get, &symbol, sizeof get);
	fake = get();
	memset(fake, 0, sizeof *fake);
	strcpy(note, "untouched");
}

static int unload(void **state)
{
	(void)state;
	return library ? dlclose(library) : 0;
}

static struct nvml *open_good(void)
{
	struct nvml *nvml = nvml_open(note, sizeof note);
	if (!nvml)
		fail_msg("%s", note);
	assert_string_equal(note, "");
	return nvml;
}

static void two_devices(void)
{
	fake->devices = 2;
	for (unsigned i = 0; i < 2; i++) {
		fake->device[i].total = 80ull << 30;
		fake->device[i].used = (i + 1ull) << 30;
		fake->device[i].gpu = 25 * (i + 1);
		fake->device[i].process_count = 3;
		for (unsigned k = 0; k < 3; k++)
			fake->device[i].process[k] =
				(struct fake_process){100 * i + k, (10ull * i + k) << 20};
	}
	fake->device[1].process[0].pid = 1; /* on both */
}

static void each_version_tells_the_same(void **state)
{
	static const char *const versions[] = {"v3", "v2", "v1"};
	(void)state;
	for (size_t v = 0; v < UTIL_COUNT(versions); v++) {
		struct record_gpu gpu[RECORD_GPUS];
		load(versions[v]);
		two_devices();
		struct nvml *nvml = open_good();
		assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
		assert_string_equal(note, "");
		assert_int_equal(gpu[1].device, 1);
		assert_string_equal(gpu[1].name, "Made-up 1");
		assert_int_equal(gpu[1].used, 2ull << 30);
		assert_int_equal(gpu[1].total, 80ull << 30);
		assert_true(gpu[0].busy == 0.25f && gpu[1].busy == 0.5f);
		assert_int_equal(nvml_process_bytes(nvml, 1), (1 + 10) << 20);
		assert_int_equal(nvml_process_bytes(nvml, 2), 2 << 20);
		assert_int_equal(nvml_process_bytes(nvml, 102), 12 << 20);
		assert_true(nvml_process_bytes(nvml, 4121) == UINT64_MAX);
		/* Only the last sample counts. */
		fake->device[0].process_count = fake->device[1].process_count = 0;
		assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
		assert_true(nvml_process_bytes(nvml, 2) == UINT64_MAX);
		nvml_close(nvml);
		assert_int_equal(fake->shut, 1);
		assert_int_equal(unload(NULL), 0);
		library = NULL;
	}
	nvml_close(NULL);
	assert_true(nvml_process_bytes(NULL, 1) == UINT64_MAX);
}

static void a_library_too_old_or_without_a_driver_says_so(void **state)
{
	(void)state;
	load("v0");
	assert_null(nvml_open(note, sizeof note));
	assert_non_null(strstr(note, "libnvidia-ml.so.1 has no nvmlDeviceGetMemoryInfo"));
	assert_non_null(strstr(note, "install a newer NVIDIA driver"));
	assert_int_equal(unload(NULL), 0);
	load("v3");
	fake->init = 9;
	assert_null(nvml_open(note, sizeof note));
	assert_non_null(strstr(note, "NVML does not start: Driver Not Loaded (9)"));
}

/* A value whose call fails is not known; the failure is reported once and affects nothing else. */
static void calls_that_fail_are_reported_once(void **state)
{
	struct record_gpu gpu[RECORD_GPUS];
	(void)state;
	load("v3");
	two_devices();
	struct nvml *nvml = open_good();
	fake->device[0].memory = 15;
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_non_null(strstr(note, "NVML does not report how much memory a GPU has left: made-up "
				     "error (15)"));
	assert_true(gpu[0].used == UINT64_MAX && gpu[0].total == UINT64_MAX);
	assert_int_equal(gpu[1].used, 2ull << 30);
	fake->device[1].busy = 3;
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_non_null(strstr(note, "how busy a GPU is: made-up error (3)"));
	assert_true(gpu[0].busy == 0.25f && gpu[1].busy < 0);
	fake->device[0].processes = 4;
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_non_null(strstr(note, "which processes use a GPU: made-up error (4)"));
	assert_true(nvml_process_bytes(nvml, 2) == UINT64_MAX);
	assert_int_equal(nvml_process_bytes(nvml, 102), 12 << 20);
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_string_equal(note, "");
	fake->device[0].handle = 15; /* fallen off the bus */
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 1);
	assert_int_equal(gpu[0].device, 1);
	fake->count_error = 999;
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 0);
	assert_non_null(strstr(note, "how many GPUs there are"));
	nvml_close(nvml);
}

static void more_than_there_is_room_for(void **state)
{
	struct record_gpu gpu[RECORD_GPUS];
	(void)state;
	load("v3");
	two_devices();
	fake->device[0].process_count = FAKE_PROCESSES;
	struct nvml *nvml = open_good();
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_non_null(strstr(note, "a GPU has 400 processes"));
	assert_true(nvml_process_bytes(nvml, 2) == UINT64_MAX);
	assert_int_equal(nvml_process_bytes(nvml, 102), 12 << 20);
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_string_equal(note, "");
	/* As many processes as fit, and more devices than are kept. */
	fake->devices = FAKE_DEVICES;
	for (unsigned i = 0; i < FAKE_DEVICES; i++) {
		fake->device[i].process_count = 256;
		for (unsigned k = 0; k < 256; k++)
			fake->device[i].process[k] = (struct fake_process){1000 * i + k, 1};
	}
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), RECORD_GPUS);
	assert_int_equal(nvml_process_bytes(nvml, 1000 * (RECORD_GPUS - 1) + 255), 1);
	nvml_close(nvml);
}

static void bytes_that_the_driver_does_not_report(void **state)
{
	struct record_gpu gpu[RECORD_GPUS];
	(void)state;
	load("v2");
	two_devices();
	fake->device[1].process[0].used = UINT64_MAX; /* NVML_VALUE_NOT_AVAILABLE */
	struct nvml *nvml = open_good();
	assert_int_equal(nvml_sample(nvml, gpu, note, sizeof note), 2);
	assert_true(nvml_process_bytes(nvml, 1) == UINT64_MAX);
	nvml_close(nvml);
}

int main(void)
{
#define NVML_TEST(name) cmocka_unit_test_teardown(name, unload)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_version_tells_the_same),
		NVML_TEST(a_library_too_old_or_without_a_driver_says_so),
		NVML_TEST(calls_that_fail_are_reported_once),
		NVML_TEST(more_than_there_is_room_for),
		NVML_TEST(bytes_that_the_driver_does_not_report),
	};
	return cmocka_run_group_tests_name("nvml", tests, NULL, NULL);
}
