/* find: finds the running daemon, for commands that talk to it more than once. Main thread. */
#pragma once

enum { FIND_SOCKET = 108 };

/* Writes its socket into `socket`. CLI_OK, or the exit code after saying that none is running, or
 * which of several could be meant. */
int find_daemon(char socket[FIND_SOCKET]);

/* The same for a SOURCE of stream:NAME, which only a daemon with a configuration knows. */
int find_stream_daemon(const char *source, char socket[FIND_SOCKET]);
