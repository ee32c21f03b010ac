/* find: the daemon that runs, for commands that go on speaking to that one. */
#pragma once

enum { FIND_SOCKET = 108 };

/* Its socket into `socket`. An exit code, after saying on stderr why there is none, or which of
 * several could be meant. Main thread. */
int find_daemon(char socket[FIND_SOCKET]);

/* The same for SOURCE stream:NAME, which a daemon without a configuration does not know. */
int find_stream_daemon(const char *source, char socket[FIND_SOCKET]);
