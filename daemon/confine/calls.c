/* calls: see confine.h. Makes one filter from the tables and loads it for every thread at once.
 *
 * An allowed call costs a walk through a binary tree (libseccomp 2.5) or, from Linux 5.11 on, a
 * look-up in a bitmap where arguments do not matter. The filter leaves speculative store bypass as
 * it is: kernels before 5.16 would turn it off for every process with a filter. That is meant for
 * processes that run foreign code, and would make decoding much slower. */
#include "confine/confine.h"

#include "base/util.h"
#include "confine/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CALLS_TREE = 2 }; /* a value of SCMP_FLTATR_CTL_OPTIMIZE */

/* The process may send signals to its own threads: abort() does. */
static int calls_add_signals(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp own = {0, SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0};
	return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, &own);
}

static int calls_add_list(scmp_filter_ctx filter, const struct table_list *list)
{
	int result = 0;
	for (size_t i = 0; !result && i < list->count; i++)
		result = seccomp_rule_add(filter, list->action, list->number[i], 0);
	return result;
}

static int calls_add_case(scmp_filter_ctx filter, const struct table_case *here)
{
	return seccomp_rule_add_array(filter, here->action, here->number, 1, &here->argument);
}

static int calls_add(scmp_filter_ctx filter, unsigned who)
{
	int result = calls_add_signals(filter);
	for (size_t i = 0; !result && i < table_list_count; i++)
		if (table_lists[i].who & who)
			result = calls_add_list(filter, &table_lists[i]);
	for (size_t i = 0; !result && i < table_case_count; i++)
		if (table_cases[i].who & who)
			result = calls_add_case(filter, &table_cases[i]);
	return result;
}

/* An older libseccomp or kernel may lack these attributes. Only the last one is required: it
 * applies the filter to every thread. */
static int calls_set_up(scmp_filter_ctx filter)
{
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, CALLS_TREE);
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	(void)seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM));
	return seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
}

/* libseccomp reports an error of the kernel as ECANCELED, which does not say what is wrong, and
 * leaves the kernel's errno. Its own option to return that errno turns some values into EFAULT. */
static int calls_put_in_force(scmp_filter_ctx filter)
{
	errno = 0;
	int result = seccomp_load(filter);
	return result == -ECANCELED && errno ? -errno : result;
}

static int calls_load(unsigned who)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	if (!filter)
		return -ENOMEM;
	int result = calls_set_up(filter);
	if (!result)
		result = calls_add(filter, who);
	if (!result)
		result = calls_put_in_force(filter);
	seccomp_release(filter);
	return result;
}

int confine_calls(
	enum confine_wish wish, bool network, struct confine_state *state, struct fault *fault)
{
	if (wish == CONFINE_OFF) {
		(void)snprintf(state->calls_missing, sizeof state->calls_missing, "seccomp: off");
		return 0;
	}
	int result = calls_load(TABLE_DAEMON | (network ? TABLE_ONLINE : TABLE_OFFLINE));
	state->network = network;
	state->calls = result == 0;
	if (!result)
		return 0;
	(void)snprintf(state->calls_missing, sizeof state->calls_missing,
		"seccomp cannot be used here (%s)", strerror(-result));
	if (wish == CONFINE_AUTO)
		return 0;
	return fault_set(fault, result,
		"seccomp: on, but system calls cannot be filtered here: %s; use a kernel with "
		"CONFIG_SECCOMP_FILTER and a container that allows it, or write auto",
		strerror(-result));
}

void confine_witness(enum confine_wish wish)
{
	if (wish != CONFINE_OFF)
		(void)calls_load(TABLE_WITNESS);
}
