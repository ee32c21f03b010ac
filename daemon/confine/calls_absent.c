/* calls_absent: stands in for calls.c in a build without libseccomp (PENSTOCK_SECCOMP=OFF). */
#include "confine/confine.h"

#include <errno.h>
#include <stdio.h>

int confine_calls(
	enum confine_wish wish, bool network, struct confine_state *state, struct fault *fault)
{
	(void)network;
	(void)snprintf(state->calls_missing, sizeof state->calls_missing,
		wish == CONFINE_OFF
			? "seccomp: off"
			: "this penstockd was built without seccomp (PENSTOCK_SECCOMP=OFF)");
	if (wish != CONFINE_ON)
		return 0;
	return fault_set(fault, -ENOSYS,
		"seccomp: on, but this penstockd was built without libseccomp "
		"(PENSTOCK_SECCOMP=OFF): install one that has it, or write auto");
}

void confine_witness(enum confine_wish wish)
{
	(void)wish;
}
