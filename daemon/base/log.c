/* log: see log.h. Each line is one write(2), so that lines of several threads never mix.
 *
 * Messages reach the journal by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): a
 * datagram of FIELD=value lines. The code here sends them instead of libsystemd, because libsystemd
 * waits where the socket is full. */
#include "base/log.h"

#include "base/util.h"
#include "proto/utf8.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A line is at most PIPE_BUF bytes, so a pipe that is ready takes all of it at once. */
enum { LOG_TEXT = 2000, LOG_LINE = 4096, LOG_QUOTED = LOG_LINE - 160 };

#define LOG_JOURNAL_SOCKET "/run/systemd/journal/socket"

/* Relaxed: a new level may take effect one line late. */
static atomic_int log_limit[LOG_TOPICS] = {
	LOG_INFO, LOG_INFO, LOG_INFO, LOG_INFO, LOG_INFO, LOG_INFO, LOG_INFO};
static atomic_uint log_lost; /* relaxed */

/* Set before there are threads. */
static enum log_format log_format_now = LOG_HUMAN;
static int log_journal = -1;
static struct sockaddr_un log_journal_address;

static const char *const log_level_names[] = {"error", "warning", "info", "debug"};
static const char *const log_topic_names[LOG_TOPICS] = {
	"daemon", "memory", "reader", "stream", "trainer", "http", "recorder"};

/* ---- settings ---- */

/* The index of a word of `size` bytes among the names, or -1. */
static int log_find(const char *const *names, int count, const char *word, size_t size)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == size && memcmp(names[i], word, size) == 0)
			return i;
	return -1;
}

/* One item, `LEVEL` or `TOPIC=LEVEL`. */
static int log_parse_item(
	const char *item, size_t size, bool first, struct log_levels *ret, struct fault *fault)
{
	const char *equals = memchr(item, '=', size);
	size_t topic_size = equals ? (size_t)(equals - item) : 0;
	const char *word = equals ? equals + 1 : item;
	size_t word_size = size - (size_t)(word - item);
	int topic = equals ? log_find(log_topic_names, LOG_TOPICS, item, topic_size) : -1;
	int level = log_find(log_level_names, UTIL_COUNT(log_level_names), word, word_size);
	if (equals && topic < 0)
		return fault_set(fault, -EINVAL,
			"expected a topic (daemon, memory, reader, stream, trainer, http, "
			"recorder), got \"%.*s\"",
			(int)UTIL_MIN(topic_size, 64u), item);
	if (level < 0)
		return fault_set(fault, -EINVAL,
			"expected error, warning, info or debug, got \"%.*s\"",
			(int)UTIL_MIN(word_size, 64u), word);
	if (!equals && !first)
		return fault_set(fault, -EINVAL,
			"expected topic=level after the first level, got \"%.*s\"",
			(int)UTIL_MIN(size, 64u), item);
	for (int i = 0; i < LOG_TOPICS; i++)
		if (!equals || i == topic)
			ret->of[i] = (enum log_level)level;
	return 0;
}

int log_levels_parse(const char *text, struct log_levels *ret, struct fault *fault)
{
	struct log_levels levels;
	bool first = true;
	for (int i = 0; i < LOG_TOPICS; i++)
		levels.of[i] = LOG_INFO;
	do {
		text += strspn(text, " ");
		size_t size = strcspn(text, ","), word = size;
		while (word && text[word - 1] == ' ')
			word--;
		int result = log_parse_item(text, word, first, &levels, fault);
		if (result < 0)
			return result;
		first = false;
		text += size;
	} while (*text++ == ',');
	*ret = levels;
	return 0;
}

void log_set_levels(const struct log_levels *levels)
{
	for (int i = 0; i < LOG_TOPICS; i++)
		atomic_store_explicit(&log_limit[i], (int)levels->of[i], memory_order_relaxed);
}

/* Whether systemd connected stderr to the journal: it names the device and inode of that socket in
 * JOURNAL_STREAM. */
static bool log_stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char here[64];
	struct stat st;
	if (!stream || fstat(STDERR_FILENO, &st))
		return false;
	(void)snprintf(here, sizeof here, "%ju:%ju", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return strcmp(stream, here) == 0;
}

/* Connects to the journal, also again after journald was restarted. Any thread. */
static bool log_reach(int fd)
{
	return connect(fd, (const struct sockaddr *)&log_journal_address,
		       sizeof log_journal_address) == 0;
}

static int log_connect(const char *path)
{
	log_journal_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof log_journal_address.sun_path)
		return -ENAMETOOLONG;
	memcpy(log_journal_address.sun_path, path, strlen(path) + 1);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!log_reach(fd)) {
		int error = errno;
		(void)close(fd);
		return -error;
	}
	return fd;
}

int log_set_target(
	enum log_target target, enum log_format format, const char *journal, struct fault *fault)
{
	const char *path = journal ? journal : LOG_JOURNAL_SOCKET;
	if (log_journal >= 0)
		(void)close(log_journal);
	log_journal = -1;
	log_format_now = format;
	if (target == LOG_STDERR || (target == LOG_AUTO && !log_stderr_is_journal()))
		return 0;
	int fd = log_connect(path);
	if (fd >= 0)
		log_journal = fd;
	else if (target == LOG_JOURNAL)
		return fault_set(fault, fd,
			"log_to: journal: no journal listens at %s: %s; without systemd, use "
			"log_to: stderr",
			path, strerror(-fd));
	return 0;
}

/* ---- lines ---- */

/* Replaces control characters: a file name may hold a line break, which would forge a line. */
static void log_tame(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

/* Writes a tamed text as the inside of a JSON string, cut at LOG_QUOTED bytes. */
static void log_quote(const char *text, char *ret)
{
	/* Room for the longest character, a backslash and the zero byte. */
	const char *end = ret + LOG_QUOTED - 6;
	while (*text && ret < end) {
		size_t n;
		if (utf8_decode(text, &n) < 0) { /* JSON text must be UTF-8 */
			*ret++ = '?';
			text++;
			continue;
		}
		if (*text == '"' || *text == '\\')
			*ret++ = '\\';
		memcpy(ret, text, n);
		ret += n;
		text += n;
	}
	*ret = 0;
}

static size_t log_line(char *line, enum log_level level, enum log_topic topic, const char *text)
{
	char quoted[LOG_QUOTED];
	struct timespec now;
	struct tm parts;
	int n;
	char stamp[32];
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &parts);
	(void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
	if (log_format_now == LOG_JSON) {
		log_quote(text, quoted);
		n = snprintf(line, LOG_LINE,
			"{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"topic\":\"%s\",\"pid\":%d,"
			"\"message\":\"%s\"}\n",
			stamp, now.tv_nsec / 1000000, log_level_names[level],
			log_topic_names[topic], getpid(), quoted);
	} else {
		n = snprintf(line, LOG_LINE, "%s.%03ldZ penstockd %s: %s\n", stamp,
			now.tv_nsec / 1000000, log_level_names[level], text);
	}
	return (size_t)n;
}

static bool log_send(const char *datagram, size_t size)
{
	enum { FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL };
	if (send(log_journal, datagram, size, FLAGS) == (ssize_t)size)
		return true;
	bool replaced = errno == ECONNREFUSED || errno == ENOTCONN;
	return replaced && log_reach(log_journal) &&
	       send(log_journal, datagram, size, FLAGS) == (ssize_t)size;
}

/* False: the socket is full, or nothing listens. */
static bool log_to_journal(enum log_level level, enum log_topic topic, const char *text)
{
	static const int priorities[] = {3, 4, 6, 7}; /* syslog's numbers of the levels */
	char datagram[LOG_TEXT + 256];
	int n = snprintf(datagram, sizeof datagram,
		"PRIORITY=%d\nSYSLOG_IDENTIFIER=penstockd\nPENSTOCK_TOPIC=%s\nMESSAGE=%s\n",
		priorities[level], log_topic_names[topic], text);
	return log_send(datagram, (size_t)n);
}

/* False: stderr is a pipe without room for the line. */
static bool log_to_stderr(enum log_level level, enum log_topic topic, const char *text)
{
	char line[LOG_LINE];
	size_t size = log_line(line, level, topic, text);
	struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
	return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) &&
	       write(STDERR_FILENO, line, size) == (ssize_t)size;
}

static bool log_put(enum log_level level, enum log_topic topic, const char *text)
{
	if (log_journal >= 0 && log_to_journal(level, topic, text))
		return true;
	return log_to_stderr(level, topic, text);
}

static void log_say_lost(void)
{
	char text[80];
	unsigned lost = atomic_exchange_explicit(&log_lost, 0, memory_order_relaxed);
	if (!lost)
		return;
	(void)snprintf(text, sizeof text, "%u line%s of this log could not be written", lost,
		lost == 1 ? "" : "s");
	if (!log_put(LOG_WARNING, LOG_DAEMON, text))
		(void)atomic_fetch_add_explicit(&log_lost, lost, memory_order_relaxed);
}

void log_write(enum log_level level, enum log_topic topic, const char *format, ...)
{
	if ((int)level > atomic_load_explicit(&log_limit[topic], memory_order_relaxed))
		return;
	int saved = errno;
	char text[LOG_TEXT];
	va_list args;
	va_start(args, format);
	if (vsnprintf(text, sizeof text, format, args) < 0)
		text[0] = 0;
	va_end(args);
	log_tame(text);
	log_say_lost();
	if (!log_put(level, topic, text))
		(void)atomic_fetch_add_explicit(&log_lost, 1, memory_order_relaxed);
	errno = saved;
}
