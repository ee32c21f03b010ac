/* config: the daemon's settings. The command line overrides penstock.yaml, which overrides the
 * defaults.
 *
 * A map of this folder:
 *   main.c              penstockd
 *   config.[ch]         this file
 *   config_remote.[ch]  the keys of remote data
 *
 * config/penstock.yaml lists every key with its default and its reason. Refusals name the file,
 * line and column, and the expected value. */
#pragma once

#include "base/fault.h"
#include "base/host/roots.h"
#include "base/log.h"
#include "config_remote.h"
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

/* The range of `recorder_size`. A reader of the recorder's file holds the whole file in memory. */
#define CONFIG_RECORDER_LEAST ((uint64_t)1 << 20)
#define CONFIG_RECORDER_MOST ((uint64_t)256 << 20)

enum config_open { CONFIG_OPEN_ANY, CONFIG_OPEN_NAMED };
enum config_numa { CONFIG_NUMA_AUTO, CONFIG_NUMA_OFF };

/* The folders and URLs that datasets may be read from; none: no restriction. */
struct config_roots {
	uint32_t count;
	char path[CONFIG_ROOTS][CONFIG_ROOT];
};

struct config {
	char file[4096]; /* "" when no file was read */
	struct fault renamed; /* "", or a sentence about an old name of a key, for the log */
	char socket[108]; /* "": conn_default_path */
	uint64_t memory; /* bytes; 0: budget_default */
	unsigned threads; /* decode workers; 0: derived from the available CPUs */
	enum config_numa numa; /* auto: threads and memory are placed by NUMA node */
	enum fetch_engine reader; /* auto, io_uring, pread */
	unsigned reader_threads; /* of the pread reader; 0: 16 */
	enum fetch_io io;
	enum fetch_cache cache; /* of samples: auto, on, off */
	char cache_dir[4096]; /* "": $XDG_CACHE_HOME/penstock, else ~/.cache/penstock, else the
				 temporary folder's */
	/* Bytes of remote data that may be kept in cache_dir; 0: auto; CONFIG_CACHE_OFF. */
	uint64_t cache_size;
	struct config_remote remote;
	bool entry_points; /* stored next to the indexes; default true */
	/* Address of metrics and the page (http/address.h); default "auto". */
	char http[CONFIG_HTTP];
	/* auto, off, or the folder of the flight recorder; default "auto" */
	char recorder[CONFIG_RECORDER];
	uint64_t recorder_size; /* bytes of the recorder's file; default 4 MiB */
	unsigned idle_exit_s; /* exit this long after the last client left; 0: never */
	struct log_levels log_levels;
	enum log_format log_format;
	enum log_target log_target;
	/* Set on the command line: a reload of the file does not change these. */
	bool idle_exit_given, log_levels_given;
	uint32_t max_clients; /* default 256 */
	uint32_t max_streams; /* open at the same time; default 64 */
	uint64_t stream_memory; /* bytes; limit for the batches of one stream; 0: none */
	enum config_open open_streams; /* any, or only those of `stream`; default any */
	enum confine_wish seccomp; /* auto, on, off */
	bool core_files; /* may be written; default false */
	struct config_roots roots;
	uint32_t stream_count;
	struct stream_spec stream[CONFIG_STREAMS];
};

void config_init(struct config *config);

/* "", or what the operator should know about a file that defines no streams. *ret_closed: no client
 * can open one either. */
const char *config_no_streams(const struct config *config, bool *ret_closed);

/* Reads a YAML file into `config`, which is already initialized. 0, -ENOENT, -EINVAL, ... */
int config_load(const char *path, struct config *config, struct fault *fault);

/* Adds a root, a folder or a URL. 0, or -EINVAL with a fault if the path is not absolute or too
 * long, or if there are too many roots. The daemon checks at its start that the folder exists. */
int config_add_root(struct config_roots *roots, const char *path, struct fault *fault);

/* Sets the key `key` of the file from a command-line option. Messages call it `name`: "--io". 0 or
 * -EINVAL. */
int config_set(struct config *config, const char *key, const char *text, const char *name,
	struct fault *fault);

/* Checks a value of `recorder:`: auto, off, or an absolute path. 0, or -EINVAL with a fault. */
int config_check_recorder(const char *text, struct fault *fault);
