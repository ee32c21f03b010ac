/* confine: see confine.h. */
#include "confine/confine.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* The limit does not apply where core(5) pipes cores into a program, so such a core gets no memory.
 * (PR_SET_DUMPABLE would stop cores too, but would also hide the process in /proc from the flight
 * recorder and from `penstock bench`.) */
static int confine_no_core(struct fault *fault)
{
	const struct rlimit none = {0, 0};
	if (setrlimit(RLIMIT_CORE, &none))
		return fault_set(fault, -errno,
			"core files cannot be turned off: %s; core_files: on allows them",
			strerror(errno));
	cleanup(close_fd) int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
	/* Without /proc, or in a kernel without this file, the limit has to suffice. */
	ssize_t written = fd < 0 ? 0 : write(fd, "0", 1);
	(void)written;
	return 0;
}

int confine_begin(bool core_files, struct confine_state *state, struct fault *fault)
{
	*state = (struct confine_state){.core_files = core_files};
	/* Every kernel since 3.5 has this, for every process. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return fault_set(fault, -errno,
			"no_new_privs cannot be set: %s; every kernel since Linux 3.5 can, so a "
			"filter of system calls around penstockd (of a container or a sandbox) "
			"forbids prctl: allow it there",
			strerror(errno));
	state->no_new_privs = true;
	return core_files ? 0 : confine_no_core(fault);
}

static void __attribute__((format(printf, 3, 4)))
confine_add(char *buffer, size_t room, const char *format, ...)
{
	size_t used = strlen(buffer);
	va_list args;
	va_start(args, format);
	(void)vsnprintf(buffer + used, room - used, format, args);
	va_end(args);
}

void confine_describe(const struct confine_state *state, char *buffer, size_t room)
{
	buffer[0] = 0;
	confine_add(buffer, room, "%s; %s",
		state->no_new_privs ? "no new privileges" : "new privileges are possible",
		state->core_files ? "core files are allowed" : "no core files");
	if (state->calls)
		confine_add(buffer, room, "; system calls filtered (seccomp)%s",
			state->network ? ", connections to servers possible" : "");
	else
		confine_add(buffer, room, "; system calls not filtered%s%s",
			state->calls_missing[0] ? ": " : "", state->calls_missing);
	if (state->landlock)
		confine_add(buffer, room, "; files by Landlock (ABI %u)%s%s", state->landlock,
			state->ports ? ", ports" : "",
			state->scoped ? ", signals and abstract sockets" : "");
	else if (state->files_missing[0])
		confine_add(buffer, room, "; files checked only by penstockd: %s",
			state->files_missing);
}
