/* log: lines for the daemon's operator, to stderr or the journal, for people or for machines.
 *
 * Only main, serve and the tops of threads call it above debug; nothing logs per image. Each line
 * has a level and a topic, and each topic a level of its own below which it is silent. A line is
 * never waited for: where stderr is a pipe that nobody empties, or the journal's socket is full, it
 * is lost and counted, and the next one that gets through says how many were. Any thread. */
#pragma once

#include "base/fault.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

enum log_topic {
	LOG_DAEMON, /* start, end, settings, signals, what the operator should know */
	LOG_MEMORY, /* the budget and how it is divided */
	LOG_READER, /* how storage is read */
	LOG_STREAM, /* streams: opened, indexed, ended, broken samples */
	LOG_TRAINER, /* trainers: came, left, broke the protocol, held up others */
	LOG_HTTP, /* metrics and the page */
	LOG_RECORDER, /* the flight recorder */
	LOG_TOPICS
};

/* The topic of a file's lines: defined before this is included, where it is another. */
#ifndef LOG_TOPIC
#define LOG_TOPIC LOG_DAEMON
#endif

enum log_format { LOG_HUMAN, LOG_JSON };

/* auto: the journal where stderr is connected to it (JOURNAL_STREAM), else stderr. */
enum log_target { LOG_AUTO, LOG_STDERR, LOG_JOURNAL };

struct log_levels {
	enum log_level of[LOG_TOPICS];
};

/* "info", or "warning, trainer=debug, http=info": a level for all, then others by topic. 0, or
 * -EINVAL with a fault. Pure. */
int log_levels_parse(const char *text, struct log_levels *ret, struct fault *fault);

void log_set_levels(const struct log_levels *levels);

/* Where lines go from now on, and as what; before there are threads. `journal` is the path of the
 * journal's socket, NULL for the system's. 0, or a negative errno with a fault where the journal
 * was asked for and is not there; then lines go to stderr. */
int log_set_target(
	enum log_target target, enum log_format format, const char *journal, struct fault *fault);

void log_write(enum log_level level, enum log_topic topic, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_ERROR, LOG_TOPIC, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, LOG_TOPIC, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, LOG_TOPIC, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, LOG_TOPIC, __VA_ARGS__)
