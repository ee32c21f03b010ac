/* log: lines for the daemon's operator, to stderr or the journal, as text or JSON.
 *
 * Only main, serve and the top functions of threads log above debug, and nothing logs per image.
 * Each line has a level and a topic; each topic has its own limit, and lines above it are dropped.
 * Logging never blocks: where stderr is a pipe that nobody reads, or the journal's socket is full,
 * the line is lost and counted, and the next line that gets through reports how many were lost. Any
 * thread. */
#pragma once

#include "base/fault.h"

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

enum log_topic {
	LOG_DAEMON, /* start, end, settings, signals, advice to the operator */
	LOG_MEMORY, /* the budget and how it is divided */
	LOG_READER, /* how samples are read from storage */
	LOG_STREAM, /* streams: opened, indexed, ended, broken samples */
	LOG_TRAINER, /* trainers: joined, left, broke the protocol, delayed others */
	LOG_HTTP, /* metrics and the page */
	LOG_RECORDER, /* the flight recorder */
	LOG_TOPICS
};

/* The topic of a file's lines. A file of another topic defines it before it includes this. */
#ifndef LOG_TOPIC
#define LOG_TOPIC LOG_DAEMON
#endif

enum log_format { LOG_HUMAN, LOG_JSON };

/* LOG_AUTO: the journal where stderr is connected to it (JOURNAL_STREAM), else stderr. */
enum log_target { LOG_AUTO, LOG_STDERR, LOG_JOURNAL };

struct log_levels {
	enum log_level of[LOG_TOPICS];
};

/* Reads "info", or "warning, trainer=debug, http=info": a level for all topics, then levels of
 * single topics. 0, or -EINVAL with a fault. Pure. */
int log_levels_parse(const char *text, struct log_levels *ret, struct fault *fault);

void log_set_levels(const struct log_levels *levels);

/* Sets where lines go and in which format. Call it before there are threads. `journal` is the path
 * of the journal's socket, NULL for the system's. 0, or a negative errno with a fault where
 * LOG_JOURNAL was requested and no journal listens; then lines go to stderr. */
int log_set_target(
	enum log_target target, enum log_format format, const char *journal, struct fault *fault);

void log_write(enum log_level level, enum log_topic topic, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_ERROR, LOG_TOPIC, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, LOG_TOPIC, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, LOG_TOPIC, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, LOG_TOPIC, __VA_ARGS__)
