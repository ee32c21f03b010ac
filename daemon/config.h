/* config: the daemon's settings: defaults, then penstock.yaml, then the command line.
 *
 * config/penstock.yaml lists every key with its default and its reason. Refusals name file, line,
 * column and what was expected. */
#pragma once

#include "base/fault.h"
#include "base/host/roots.h"
#include "base/log.h"
#include "confine/confine.h"
#include "definition/spec.h"
#include "fetch/fetch.h"

#include <stdint.h>

enum {
	CONFIG_STREAMS = 64,
	CONFIG_HTTP = 300,
	CONFIG_RECORDER = 3900,
	CONFIG_ROOTS = ROOTS_MAX,
	CONFIG_ROOT = ROOTS_PATH,
};

/* The range of `recorder_size`. Reading a recorder's file back takes memory for all of it. */
#define CONFIG_RECORDER_LEAST ((uint64_t)1 << 20)
#define CONFIG_RECORDER_MOST ((uint64_t)256 << 20)

enum config_open { CONFIG_OPEN_ANY, CONFIG_OPEN_NAMED };

/* Folders that datasets may be read from; none: anywhere. */
struct config_roots {
	uint32_t count;
	char path[CONFIG_ROOTS][CONFIG_ROOT];
};

struct config {
	char file[4096]; /* "" when no file was read */
	struct fault renamed; /* "", or a sentence about an old name of a key: to be logged */
	char socket[108]; /* "" : conn_default_path */
	uint64_t memory; /* bytes; 0: ledger_default_budget */
	unsigned threads; /* decode workers; 0: from the CPUs available */
	enum fetch_engine reader; /* auto, io_uring, pread */
	unsigned reader_threads; /* of the pread reader; 0: 16 */
	enum fetch_io io;
	enum fetch_cache cache; /* of samples: auto, on, off */
	char cache_dir[4096]; /* "": $XDG_CACHE_HOME/penstock, else ~/.cache/penstock, else the
				 temporary folder's */
	bool entry_points; /* kept beside the indexes; default true */
	char http[CONFIG_HTTP]; /* where metrics and the page are (http/address.h); default "auto"
				 */
	char recorder[CONFIG_RECORDER]; /* auto, off, or the flight recorder's folder; default
					   "auto" */
	uint64_t recorder_size; /* bytes of its file; default 4 MiB */
	unsigned idle_exit_s; /* end this long after the last client; 0: never */
	struct log_levels log_levels;
	enum log_format log_format;
	enum log_target log_target;
	/* Given on the command line: a reload of the file does not change them. */
	bool idle_exit_given, log_levels_given;
	uint32_t max_clients; /* default 256 */
	uint32_t max_streams; /* open at once; default 64 */
	uint64_t stream_memory; /* bytes; the most that one stream's batches take; 0: no limit */
	enum config_open open_streams; /* any, or those of `stream` alone; default any */
	enum confine_wish seccomp; /* auto, on, off */
	bool core_files; /* may be written; default false */
	struct config_roots roots;
	uint32_t stream_count;
	struct stream_spec stream[CONFIG_STREAMS];
};

void config_init(struct config *config);

/* Reads a YAML file into `config` (already initialised). 0, -ENOENT, -EINVAL, ... */
int config_load(const char *path, struct config *config, struct fault *fault);

/* Adds a root. 0, or -EINVAL with a fault: the path is not absolute, too long, or one too many. The
 * daemon checks at its start that it exists. */
int config_add_root(struct config_roots *roots, const char *path, struct fault *fault);

/* Sets the key `key`, one of the file's, from an option; `name` is what messages call it: "--io".
 * 0 or -EINVAL. */
int config_set(struct config *config, const char *key, const char *text, const char *name,
	struct fault *fault);

/* Whether a text is a value of `recorder:`: auto, off, or an absolute path. 0, or -EINVAL with a
 * fault. */
int config_check_recorder(const char *text, struct fault *fault);
