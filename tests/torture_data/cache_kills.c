/* cache_kills: processes that fetch into one cache folder, which is too small for what they read,
 * and are killed at random moments (kill -9): the folder never takes more of the disk than its
 * size, no reader gets a wrong byte, no stored block is wrong, and files that are not the cache's
 * stay.
 *
 *   cache_kills FOLDER KILLS [SEED]
 *
 * Two processes work at any time. What they fetch comes from a function of URL and offset: no
 * server is needed, and every byte can be checked. */
#include "base/hash.h"
#include "base/util.h"
#include "base/whole.h"
#include "remote/objects.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum {
	OBJECTS = 8,
	OBJECT = (1 << 20) + 1000,
	CACHE = 3 << 20,
	WORKERS = 2,
	READ_MOST = 200000,
	LONGEST_US = 30000, /* that a process lives */
};

static const char *folder;
static uint64_t seed = 5;
static const char *const foreign[] = {
	"notes.txt", "00112233445566778899aabbccddeeff.map", "hold-on", "model.data"};

static uint64_t draw(uint64_t below)
{
	return (seed = hash_mix(seed + 1)) % below;
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)fprintf(stderr, "cache_kills: ");
	(void)vfprintf(stderr, format, args);
	(void)fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static uint8_t byte_at(unsigned object, uint64_t offset)
{
	return (uint8_t)(hash_mix(offset / 8 + object * UINT64_C(1000003)) >> (offset % 8 * 8));
}

static void url_of(unsigned object, char *ret, size_t room)
{
	(void)snprintf(ret, room, "s3://bucket/%u", object);
}

static void transport_begin(void *context, struct client_request *request)
{
	unsigned object = 0;
	(void)context;
	(void)sscanf(request->url, "s3://bucket/%u", &object);
	for (uint64_t i = 0; i < request->size; i++)
		request->buffer[i] = byte_at(object, request->offset + i);
	request->answer.size = OBJECT;
	request->done(request);
}

static void transport_cancel(void *context, struct client_request *request)
{
	(void)context;
	(void)request;
}

static int transport_perform(void *context, struct client_request *request, struct fault *fault)
{
	(void)context;
	(void)request;
	return fault_set(fault, -ENOSYS, "not used");
}

static void read_some(struct objects *objects, uint8_t *buffer)
{
	const unsigned number = (unsigned)draw(OBJECTS);
	char url[64];
	struct remote_object *object;
	struct fault fault;
	url_of(number, url, sizeof url);
	if (objects_open_listed(objects, url, OBJECT, "\"a\"", 0, &object, &fault) < 0)
		fail("%s", fault.text);
	for (int i = 0; i < 12; i++) {
		const size_t size = 1 + draw(READ_MOST);
		const uint64_t offset = draw(OBJECT - size);
		int fd, code = 0;
		if (remote_object_local(object, offset, size, &fd))
			code = whole_read(fd, buffer, size, offset) == (ssize_t)size ? 0 : -EIO;
		else
			code = remote_object_read(object, buffer, size, offset, &fault);
		for (size_t k = 0; k < size; k++)
			if (code < 0 || buffer[k] != byte_at(number, offset + k))
				fail("object %u, byte %" PRIu64 ": %d", number, offset + k, code);
	}
	remote_object_unref(object);
}

__attribute__((noreturn)) static void work(void)
{
	static const struct objects_transport transport = {
		.begin = transport_begin, .cancel = transport_cancel, .perform = transport_perform};
	struct disk *disk = NULL;
	struct objects *objects;
	struct fault fault;
	uint8_t *buffer = malloc(READ_MOST);
	/* The other one may have the lock, also while it is stopped by the scheduler. */
	while (disk_open(folder, CACHE, &disk, &fault) == -EBUSY)
		continue;
	if (!disk || !buffer || objects_new(disk, &transport, &objects) < 0)
		fail("%s", fault.text);
	for (;;)
		read_some(objects, buffer);
}

static uint64_t folder_bytes(void)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote", folder);
	DIR *stream = opendir(path);
	uint64_t sum = 0;
	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		struct stat status;
		if (strcmp(entry->d_name, "..") != 0 &&
			fstatat(dirfd(stream), entry->d_name, &status, 0) == 0)
			sum += (uint64_t)status.st_blocks * 512;
	}
	if (stream)
		(void)closedir(stream);
	return sum;
}

static void check_size(void)
{
	const uint64_t bytes = folder_bytes();
	if (bytes > CACHE)
		fail("the folder takes %llu bytes of the disk, and %d are allowed",
			(unsigned long long)bytes, CACHE);
}

/* Every block that counts as stored has the right bytes. Returns how many there are. */
static unsigned check_blocks(void)
{
	struct disk *disk;
	struct fault fault;
	static uint8_t bytes[DISK_BLOCK];
	unsigned stored = 0;
	int code;
	while ((code = disk_open(folder, CACHE, &disk, &fault)) == -EBUSY)
		continue;
	if (code < 0)
		fail("%s", fault.text);
	for (unsigned object = 0; object < OBJECTS; object++) {
		struct disk_file *file;
		char url[64];
		url_of(object, url, sizeof url);
		if (disk_file_open(disk, url, "\"a\"", OBJECT, false, &file) != 0)
			continue;
		for (uint64_t block = 0; block * DISK_BLOCK < OBJECT; block++) {
			if (disk_file_state(file, block) == DISK_MISSING)
				continue;
			stored++;
			if (disk_file_verify(file, block, bytes) != 0)
				fail("object %u, block %llu has a wrong checksum", object,
					(unsigned long long)block);
			for (uint64_t k = 0; k < DISK_BLOCK && block * DISK_BLOCK + k < OBJECT; k++)
				if (bytes[k] != byte_at(object, block * DISK_BLOCK + k))
					fail("object %u, block %llu has wrong bytes", object,
						(unsigned long long)block);
		}
		disk_file_close(file);
	}
	disk_close(disk);
	return stored;
}

static void foreign_each(bool make)
{
	char path[512];
	(void)snprintf(path, sizeof path, "%s/remote", folder);
	if (make && (mkdir(folder, 0700) != 0 || mkdir(path, 0700) != 0))
		fail("%s: %s", path, strerror(errno));
	for (size_t i = 0; i < UTIL_COUNT(foreign); i++) {
		char text[16] = "";
		(void)snprintf(path, sizeof path, "%s/remote/%s", folder, foreign[i]);
		const int fd = open(path, make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR, 0600);
		if (fd < 0 || (make && write(fd, "not the cache's", 15) != 15) ||
			pread(fd, text, 15, 0) != 15 || strcmp(text, "not the cache's") != 0)
			fail("%s is not as it was", path);
		(void)close(fd);
	}
}

static pid_t worker_start(void)
{
	const uint64_t child_seed = draw(UINT64_MAX);
	const pid_t child = fork();
	if (child != 0)
		return child;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	seed = child_seed;
	work();
}

static void worker_kill(pid_t child)
{
	int status;
	(void)kill(child, SIGKILL);
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) ||
		WTERMSIG(status) != SIGKILL)
		fail("a process ended by itself");
}

int main(int argc, char **argv)
{
	pid_t workers[WORKERS];
	if (argc < 3)
		fail("usage: cache_kills FOLDER KILLS [SEED]");
	folder = argv[1];
	const unsigned kills = (unsigned)strtoul(argv[2], NULL, 10);
	seed = argc > 3 ? strtoull(argv[3], NULL, 10) : seed;
	unsigned most = 0;
	foreign_each(true);
	for (int i = 0; i < WORKERS; i++)
		workers[i] = worker_start();
	for (unsigned i = 0; i < kills; i++) {
		pid_t *worker = &workers[i % WORKERS];
		(void)nanosleep(&(struct timespec){.tv_nsec = (long)draw(LONGEST_US) * 1000}, NULL);
		check_size();
		worker_kill(*worker);
		check_size();
		if (i % 16 == 0) {
			const unsigned stored = check_blocks();
			most = stored > most ? stored : most;
		}
		*worker = worker_start();
	}
	for (int i = 0; i < WORKERS; i++)
		worker_kill(workers[i]);
	/* Nothing that the dead had taken is lost. */
	const unsigned last = check_blocks();
	struct disk *disk;
	struct fault fault;
	if (disk_open(folder, CACHE, &disk, &fault) < 0)
		fail("%s", fault.text);
	struct disk_stats stats;
	disk_stats_read(disk, &stats);
	disk_close(disk);
	if (stats.used > folder_bytes())
		fail("%llu bytes count as used, and files take %llu",
			(unsigned long long)stats.used, (unsigned long long)folder_bytes());
	if (most * 2 * DISK_BLOCK < CACHE)
		fail("at most %u blocks were stored: the test does not fill the cache", most);
	foreign_each(false);
	(void)printf("%u processes killed, %u blocks stored at the end, at most %u, 0 wrong\n",
		kills + WORKERS, last, most);
	return 0;
}
