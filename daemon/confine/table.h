/* table: which system calls are made after the start, by whom. Read by calls.c alone. */
#pragma once

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

enum { TABLE_DAEMON = 1, TABLE_WITNESS = 2, TABLE_BOTH = 3 };

/* Answered so to `who`, with whatever arguments. A call that is in none of these is answered as if
 * the kernel did not have it (ENOSYS), so that a newer C library tries what it did before. */
struct table_list {
	unsigned who;
	uint32_t action; /* SCMP_ACT_ALLOW or SCMP_ACT_ERRNO(...) */
	const int *number;
	size_t count;
};

/* Answered so where one argument is like this. */
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
