/* landlock: see confine.h. The definitions that linux/landlock.h of older systems lacks are
 * repeated here, from the kernel's Documentation/userspace-api/landlock.rst. A newer version of the
 * kernel only adds members to the end of a struct, and the size tells which ones are meant. */
#include "confine/confine.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum {
	FILES_ABI_REFER = 2, /* 5.19: files may be moved between folders at all */
	FILES_ABI_TRUNCATE = 3, /* 6.2 */
	FILES_ABI_PORTS = 4, /* 6.7 */
	FILES_ABI_IOCTL = 5, /* 6.10 */
	FILES_ABI_SCOPE = 6, /* 6.12 */
	FILES_RULE_PORT = 2, /* LANDLOCK_RULE_NET_PORT */
};

#define FILES_TRUNCATE (UINT64_C(1) << 14)
#define FILES_IOCTL_DEV (UINT64_C(1) << 15)
#define FILES_BIND_TCP (UINT64_C(1) << 0)
#define FILES_CONNECT_TCP (UINT64_C(1) << 1)
#define FILES_SCOPE_ABSTRACT (UINT64_C(1) << 0)
#define FILES_SCOPE_SIGNAL (UINT64_C(1) << 1)

/* struct landlock_ruleset_attr of ABI 6. */
struct files_ruleset {
	uint64_t files, ports, scoped;
};

/* struct landlock_net_port_attr. */
struct files_port {
	uint64_t access, port;
};

#define FILES_READ_FILE ((uint64_t)LANDLOCK_ACCESS_FS_READ_FILE)
#define FILES_READ (FILES_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* The rights that apply to a file itself, and not only to what is below a folder. */
#define FILES_OF_FILES                                                                  \
	(FILES_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_EXECUTE | \
		FILES_TRUNCATE | FILES_IOCTL_DEV)
#define FILES_WRITE                                                                   \
	(FILES_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |        \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |          \
		LANDLOCK_ACCESS_FS_REFER | FILES_TRUNCATE)

/* Everything that this ABI can forbid. */
static uint64_t files_handled(unsigned abi)
{
	uint64_t all = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
	if (abi >= FILES_ABI_REFER)
		all |= LANDLOCK_ACCESS_FS_REFER;
	if (abi >= FILES_ABI_TRUNCATE)
		all |= FILES_TRUNCATE;
	if (abi >= FILES_ABI_IOCTL)
		all |= FILES_IOCTL_DEV;
	return all;
}

static struct files_ruleset files_ruleset(unsigned abi, const struct confine_files_options *options)
{
	struct files_ruleset rules = {.files = files_handled(abi)};
	if (abi >= FILES_ABI_PORTS)
		rules.ports = FILES_CONNECT_TCP | (options->any_port ? 0 : FILES_BIND_TCP);
	if (abi >= FILES_ABI_SCOPE)
		rules.scoped = FILES_SCOPE_SIGNAL | (options->abstract ? 0 : FILES_SCOPE_ABSTRACT);
	return rules;
}

static size_t files_ruleset_size(unsigned abi)
{
	if (abi >= FILES_ABI_SCOPE)
		return sizeof(struct files_ruleset);
	return abi >= FILES_ABI_PORTS ? offsetof(struct files_ruleset, scoped)
				      : offsetof(struct files_ruleset, ports);
}

static int files_allow(int ruleset, const struct confine_place *place, uint64_t handled)
{
	static const uint64_t access[] = {[CONFINE_READ] = FILES_READ,
		[CONFINE_READ_FILES] = FILES_READ_FILE,
		[CONFINE_WRITE] = FILES_WRITE};
	cleanup(close_fd) int fd = open(place->path, O_PATH | O_CLOEXEC);
	struct stat status;
	if (fd < 0 || fstat(fd, &status))
		return -errno;
	struct landlock_path_beneath_attr rule = {
		.allowed_access = access[place->access] & handled &
				  (S_ISDIR(status.st_mode) ? UINT64_MAX : FILES_OF_FILES),
		.parent_fd = fd};
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0)
		       ? -errno
		       : 0;
}

static int files_allow_all(int ruleset, const struct confine_files_options *options,
	uint64_t handled, struct fault *fault)
{
	for (size_t i = 0; i < options->count; i++) {
		const struct confine_place *place = &options->places[i];
		int result = place->path ? files_allow(ruleset, place, handled) : 0;
		if (result && (place->must || (result != -ENOENT && result != -EACCES)))
			return fault_set(fault, result, "%s cannot be allowed by Landlock: %s",
				place->path, strerror(-result));
	}
	return 0;
}

static int files_allow_port(int ruleset, uint64_t access, uint16_t port, struct fault *fault)
{
	const struct files_port rule = {.access = access, .port = port};
	if (!syscall(SYS_landlock_add_rule, ruleset, FILES_RULE_PORT, &rule, 0))
		return 0;
	return fault_set(
		fault, -errno, "port %u cannot be allowed by Landlock: %s", port, strerror(errno));
}

static int files_allow_ports(int ruleset, const struct files_ruleset *rules,
	const struct confine_files_options *options, struct fault *fault)
{
	int result = 0;
	if ((rules->ports & FILES_BIND_TCP) && options->port)
		result = files_allow_port(ruleset, FILES_BIND_TCP, options->port, fault);
	for (size_t i = 0; !result && rules->ports && i < options->connect_count; i++)
		result = files_allow_port(ruleset, FILES_CONNECT_TCP, options->connect[i], fault);
	return result;
}

int confine_files(const struct confine_files_options *options, struct confine_state *state,
	struct fault *fault)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 1) {
		(void)snprintf(state->files_missing, sizeof state->files_missing,
			"this kernel has no Landlock (%s; it needs Linux 5.13 or newer with "
			"landlock "
			"among its security modules)",
			strerror(errno));
		return 0;
	}
	const struct files_ruleset rules = files_ruleset((unsigned)abi, options);
	cleanup(close_fd) int ruleset = (int)syscall(
		SYS_landlock_create_ruleset, &rules, files_ruleset_size((unsigned)abi), 0);
	if (ruleset < 0)
		return fault_set(fault, -errno, "Landlock cannot be set up: %s", strerror(errno));
	int result = files_allow_all(ruleset, options, rules.files, fault);
	if (!result)
		result = files_allow_ports(ruleset, &rules, options, fault);
	if (!result && syscall(SYS_landlock_restrict_self, ruleset, 0))
		result = fault_set(
			fault, -errno, "Landlock cannot be put in force: %s", strerror(errno));
	if (result)
		return result;
	state->landlock = (unsigned)abi;
	state->ports = rules.ports != 0;
	state->scoped = rules.scoped != 0;
	return 0;
}
