/* compare: see compare.h. The Python sends its results through a pipe, as a line of JSON. Its
 * stderr is kept, and shown if it fails. */
#include "client/cli/bench/compare.h"

#include "base/clock.h"
#include "base/util.h"
#include "client/cli/cli.h"
#include "client/cli/document.h"
#include "client/cli/spawn.h"
#include "dataset/dataset.h"
#include "proto/jsontext.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* compare_torch.py; CMake makes an array of it. */
extern const char compare_script[];

const char *const compare_version_name[COMPARE_VERSIONS] = {
	"python", "torch", "torchvision", "pillow"};

enum {
	COMPARE_ANSWER = 4096,
	COMPARE_MISSING = 3, /* its exit code if a module is missing */
	COMPARE_LISTED = 4000000,
	COMPARE_PROBE_S = 300, /* to import torch from a slow disk */
	COMPARE_LINES = 4
};

/* ---- a Python that runs ---- */

struct compare_child {
	pid_t pid;
	int answer_fd, errors_fd;
	char answer[COMPARE_ANSWER];
	int status; /* its exit code, or the signal that ended it */
	bool exited, late;
};

/* Between fork and exec: calls only what is safe there. */
static _Noreturn void compare_exec(const struct compare *compare, char *const *arguments,
	int out_fd, int errors_fd, pid_t parent)
{
	spawn_child_setup(parent);
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	(void)dup2(null_fd, STDIN_FILENO);
	(void)dup2(out_fd, STDOUT_FILENO);
	(void)dup2(errors_fd, STDERR_FILENO);
	if (compare->list_fd >= 0)
		(void)fcntl(compare->list_fd, F_SETFD, 0);
	(void)execvp(compare->python, arguments);
	(void)dprintf(STDERR_FILENO, "%s: %s\n", compare->python, strerror(errno));
	_exit(127);
}

/* Reads the pipe to its end; false when the time is up. */
static bool compare_read(struct compare_child *child, double limit_s)
{
	uint64_t end_ns = clock_ns() + (uint64_t)(limit_s * 1e9);
	size_t size = 0;
	for (;;) {
		uint64_t now_ns = clock_ns();
		struct pollfd poll_fd = {.fd = child->answer_fd, .events = POLLIN};
		int ready = now_ns < end_ns
				    ? poll(&poll_fd, 1, (int)((end_ns - now_ns) / 1000000) + 1)
				    : 0;
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return false;
		/* The script's answers fit. Anything longer is read and dropped. */
		char dropped[256], *to = child->answer + size;
		size_t room = sizeof child->answer - 1 - size;
		ssize_t n =
			read(child->answer_fd, room ? to : dropped, room ? room : sizeof dropped);
		if (n <= 0)
			return true;
		size += room ? (size_t)n : 0;
		child->answer[size] = 0;
	}
}

/* WNOWAIT: spawn_stop reaps it. */
static void compare_wait(struct compare_child *child)
{
	siginfo_t info = {.si_pid = 0};
	while (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
		;
	child->exited = info.si_code == CLD_EXITED;
	child->status = info.si_status;
}

/* 0, or a negative errno: it could not be started. */
static int compare_child(const struct compare *compare, char *const *arguments, double limit_s,
	struct compare_child *ret)
{
	*ret = (struct compare_child){.answer_fd = -1, .errors_fd = -1};
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	ret->answer_fd = fds[0];
	ret->errors_fd = memfd_create("compare", MFD_CLOEXEC);
	(void)fflush(NULL);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0)
		compare_exec(compare, arguments, fds[1], ret->errors_fd, parent);
	int r = pid < 0 ? -errno : 0;
	(void)close(fds[1]);
	if (r < 0)
		return r;
	ret->pid = pid;
	spawn_adopt(pid);
	ret->late = !compare_read(ret, limit_s);
	if (!ret->late)
		compare_wait(ret);
	spawn_stop();
	return 0;
}

static void compare_child_deinit(struct compare_child *child)
{
	if (child->answer_fd >= 0)
		(void)close(child->answer_fd);
	if (child->errors_fd >= 0)
		(void)close(child->errors_fd);
}

static int compare_died(const struct compare *compare, const struct compare_child *child)
{
	if (child->late)
		cli_note("%s measured the DataLoader for too long and was killed; its last output:",
			compare->python);
	else if (child->exited)
		cli_note("%s ended with %d while it measured the DataLoader; its last output:",
			compare->python, child->status);
	else
		cli_note("%s was ended by signal %d (%s) while it measured the DataLoader; its "
			 "last output:",
			compare->python, child->status, strsignal(child->status));
	cli_show_tail(child->errors_fd, COMPARE_LINES);
	return CLI_FAILED;
}

/* ---- finding it ---- */

static void compare_find(struct compare *compare, const char *python)
{
	const char *home = getenv("VIRTUAL_ENV");
	if (python)
		(void)snprintf(compare->python, sizeof compare->python, "%s", python);
	else if (home && *home)
		(void)snprintf(compare->python, sizeof compare->python, "%s/bin/python", home);
	else
		(void)snprintf(compare->python, sizeof compare->python, "python3");
}

static int compare_probed(struct compare *compare, const struct compare_child *child)
{
	struct node *answer = document_parse(child->answer);
	int code = CLI_OK;
	document_tame(answer);
	if (child->exited && child->status == COMPARE_MISSING && answer) {
		code = cli_fail(CLI_USAGE,
			"--compare needs PyTorch: %s has no %s (%s); install torch and "
			"torchvision there, or name another Python with --python",
			compare->python, document_text(answer, "missing", "torch"),
			document_text(answer, "why", "?"));
	} else if (!child->exited || child->status != 0 || !answer) {
		code = cli_fail(CLI_USAGE,
			"--compare needs a Python with PyTorch, and %s cannot be used; name one "
			"with --python; its last output:",
			compare->python);
		cli_show_tail(child->errors_fd, COMPARE_LINES);
	} else {
		for (size_t i = 0; i < COMPARE_VERSIONS; i++)
			(void)snprintf(compare->version[i], sizeof compare->version[i], "%s",
				document_text(answer, compare_version_name[i], "?"));
	}
	document_free(answer);
	return code;
}

int compare_init(struct compare *compare, const char *python)
{
	*compare = (struct compare){.list_fd = -1};
	compare_find(compare, python);
	char *arguments[] = {
		compare->python, (char *)"-c", (char *)compare_script, (char *)"probe", NULL};
	struct compare_child child;
	int r = compare_child(compare, arguments, COMPARE_PROBE_S, &child);
	int code =
		r < 0 ? cli_fail(CLI_FAILED, "cannot start %s: %s", compare->python, strerror(-r))
		      : compare_probed(compare, &child);
	compare_child_deinit(&child);
	return code;
}

void compare_deinit(struct compare *compare)
{
	if (compare->list_fd >= 0)
		(void)close(compare->list_fd);
	compare->list_fd = -1;
}

/* ---- the files ---- */

static void compare_put_path(FILE *file, const char *path)
{
	(void)fputc('P', file);
	(void)fwrite(path, 1, strlen(path) + 1, file);
}

static void compare_put_sample(FILE *file, uint64_t path, const struct sample *sample)
{
	const uint64_t numbers[] = {htole64(path), htole64(sample->offset), htole64(sample->size)};
	(void)fputc('S', file);
	(void)fwrite(numbers, sizeof numbers[0], UTIL_COUNT(numbers), file);
}

/* 0, or a negative errno with a fault. Each sample of a folder has a path; the samples of a tar
 * file are next to each other and share its path. */
static int compare_put_all(struct compare *compare, const struct dataset *dataset, FILE *file,
	struct sample *sample, struct fault *fault)
{
	uint64_t step = (compare->samples + COMPARE_LISTED - 1) / COMPARE_LISTED, paths = 0;
	uint32_t shard = UINT32_MAX;
	char path[PATH_MAX + sizeof sample->name];
	int r = 0;
	for (uint64_t n = 0; n < compare->samples && r == 0; n += step, compare->listed++) {
		r = dataset_sample(dataset, n, sample, fault);
		if (r == 0 && compare->whole_files)
			r = dataset_path(dataset, n, path, sizeof path, fault);
		if (r < 0)
			break;
		if (compare->whole_files || sample->shard != shard) {
			shard = sample->shard;
			compare_put_path(file,
				compare->whole_files ? path : dataset_shard_path(dataset, shard));
			paths++;
		}
		compare_put_sample(file, paths - 1, sample);
	}
	return r;
}

int compare_list(struct compare *compare, const struct dataset *dataset)
{
	compare->samples = dataset_count(dataset);
	compare->whole_files = dataset_kind(dataset) == DATASET_FOLDER;
	compare->list_fd = memfd_create("compare-files", MFD_CLOEXEC);
	cleanup(free_ptr) struct sample *sample = malloc(sizeof *sample);
	int fd = compare->list_fd < 0 ? -1 : fcntl(compare->list_fd, F_DUPFD_CLOEXEC, 0);
	FILE *file = fd < 0 || !sample ? NULL : fdopen(fd, "wb");
	if (!file)
		return cli_fail(CLI_FAILED, "no memory for the list of files for --compare");
	struct fault fault = {{0}};
	int r = compare_put_all(compare, dataset, file, sample, &fault);
	bool failed = ferror(file);
	failed |= fclose(file) != 0;
	if (r < 0)
		return cli_fail(CLI_FAILED, "%s", fault.text);
	return failed ? cli_fail(CLI_FAILED, "no memory for the list of files for --compare")
		      : CLI_OK;
}

/* ---- measuring ---- */

static void compare_options(const struct compare *compare, const struct recipe *recipe,
	unsigned workers, const double seconds[2], struct jsontext *json)
{
	jsontext_object(json, NULL);
	jsontext_bool(json, "whole_files", compare->whole_files);
	jsontext_u64(json, "workers", workers);
	jsontext_u64(json, "batch_size", recipe->spec.batch_size);
	shape_json_size(json, "image_size", recipe->spec.image_size);
	jsontext_u64(json, "seed", recipe->spec.seed & INT64_MAX);
	jsontext_bool(json, "train", recipe->spec.train);
	jsontext_bool(json, "shuffle", recipe->spec.shuffle != SHUFFLE_NONE);
	jsontext_string(json, "interpolation", spec_word(&recipe->spec, SPEC_KEY_interpolation));
	jsontext_number(json, "seconds", seconds[0], 3);
	jsontext_number(json, "warmup", seconds[1], 3);
	jsontext_end(json);
}

static int compare_measured(
	const struct compare *compare, const struct compare_child *child, struct compare_run *ret)
{
	struct node *answer = document_parse(child->answer);
	bool good = !child->late && child->exited && child->status == 0 &&
		    document_number(answer, "seconds", 0) > 0;
	if (good)
		*ret = (struct compare_run){document_number(answer, "images_per_s", 0),
			document_u64(answer, "broken", 0)};
	document_free(answer);
	return good ? CLI_OK : compare_died(compare, child);
}

int compare_run(const struct compare *compare, const struct recipe *recipe, unsigned workers,
	double seconds, double warmup_s, struct compare_run *ret)
{
	struct jsontext json = {0};
	compare_options(compare, recipe, workers, (const double[2]){seconds, warmup_s}, &json);
	if (json.text.failed)
		return cli_fail(CLI_FAILED, "no memory for --compare");
	char fd[16], python[PATH_MAX];
	(void)snprintf(fd, sizeof fd, "%d", compare->list_fd);
	(void)snprintf(python, sizeof python, "%s", compare->python);
	char *arguments[] = {python, (char *)"-c", (char *)compare_script, (char *)"run", fd,
		json.text.bytes, NULL};
	struct compare_child child;
	int r = compare_child(
		compare, arguments, COMPARE_PROBE_S + 10 * (seconds + warmup_s), &child);
	int code = r < 0 ? cli_fail(CLI_FAILED, "cannot start %s: %s", python, strerror(-r))
			 : compare_measured(compare, &child, ret);
	compare_child_deinit(&child);
	jsontext_free(&json);
	return code;
}
