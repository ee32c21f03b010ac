/* table: which system calls the daemon and its witness may make after the start. Only calls.c reads
 * it. */
#pragma once

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

/* A daemon is either TABLE_ONLINE (it may read URLs) or TABLE_OFFLINE. */
enum {
	TABLE_DAEMON = 1,
	TABLE_WITNESS = 2,
	TABLE_BOTH = 3,
	TABLE_ONLINE = 4,
	TABLE_OFFLINE = 8,
	TABLE_ALONE = TABLE_WITNESS | TABLE_OFFLINE, /* no network */
};

/* Calls that get the same answer with any arguments. A call that is in no table gets ENOSYS, as in
 * a kernel without it, so that a newer C library falls back to older calls. */
struct table_list {
	unsigned who;
	uint32_t action; /* SCMP_ACT_ALLOW or SCMP_ACT_ERRNO(...) */
	const int *number;
	size_t count;
};

/* A call that gets this answer where one of its arguments matches. */
struct table_case {
	unsigned who;
	uint32_t action;
	int number;
	struct scmp_arg_cmp argument;
};

extern const struct table_list table_lists[];
extern const size_t table_list_count;
extern const struct table_case table_cases[];
extern const size_t table_case_count;
