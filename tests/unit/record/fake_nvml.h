/* fake_nvml: what a test sets for the made-up libnvidia-ml.so.1 (fake_nvml.c) to report. */
#pragma once

enum { FAKE_DEVICES = 10, FAKE_PROCESSES = 400 };

struct fake_process {
	unsigned pid;
	unsigned long long used;
};

struct fake_nvml {
	int init, count_error; /* codes to return */
	unsigned devices;
	int shut; /* how often it was shut down */
	struct {
		int handle, memory, busy, processes; /* codes to return */
		unsigned long long total, used;
		unsigned gpu; /* percent */
		unsigned process_count;
		struct fake_process process[FAKE_PROCESSES];
	} device[FAKE_DEVICES];
};

/* The one in the library. */
typedef struct fake_nvml *fake_nvml_get(void);
