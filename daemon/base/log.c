/* log: see log.h. One write(2) a line, so that lines of several threads never mix. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Relaxed: a level that arrives one line late harms nobody. */
static atomic_int log_limit = LOG_INFO;

static const char *const log_names[] = {"error", "warning", "info", "debug"};

void log_set_level(enum log_level level)
{
	atomic_store_explicit(&log_limit, (int)level, memory_order_relaxed);
}

int log_level_parse(const char *text)
{
	for (int i = LOG_ERROR; i <= LOG_DEBUG; i++)
		if (strcmp(text, log_names[i]) == 0)
			return i;
	return -1;
}

/* A file's name may hold anything: nobody forges a line of the log by a line break in one. */
static void log_tame(char *text, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			text[i] = '?';
}

void log_write(enum log_level level, const char *format, ...)
{
	if ((int)level > atomic_load_explicit(&log_limit, memory_order_relaxed))
		return;
	int saved = errno;
	char line[2048];
	struct timespec now;
	struct tm parts;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &parts);
	size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &parts);
	n += (size_t)snprintf(line + n, sizeof line - n,
		".%03ldZ penstockd %s: ", now.tv_nsec / 1000000, log_names[level]);
	va_list args;
	va_start(args, format);
	int m = vsnprintf(line + n, sizeof line - n - 1, format, args);
	va_end(args);
	size_t start = n;
	n = m < 0 ? n : (size_t)m >= sizeof line - n - 1 ? sizeof line - 2 : n + (size_t)m;
	log_tame(line + start, n - start);
	line[n++] = '\n';
	/* Nobody is left to tell when stderr fails. */
	ssize_t written = write(STDERR_FILENO, line, n);
	(void)written;
	errno = saved;
}
