/* process: what /proc says about a process of the same user. Any thread; no state. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Proportional set size: the memory of the process, with each shared page divided by the number of
 * processes that share it. 0 or a negative errno. */
int process_pss(pid_t pid, uint64_t *ret_bytes);

/* User plus system time of all its threads, including those that ended. 0 or a negative errno. */
int process_cpu_ns(pid_t pid, uint64_t *ret_ns);

/* Bytes that storage delivered for it; hits in the page cache do not count. 0 or a negative
 * errno. */
int process_bytes_read(pid_t pid, uint64_t *ret_bytes);

/* Writes the pids of the children that its first thread forked, at most `room`, and returns how
 * many. Also 0 if the kernel does not tell. */
unsigned process_children(pid_t pid, pid_t *ret_pids, unsigned room);

/* How long ago this process was created; 0 if that is more than 0.1 s: the process then ran another
 * program before this one, and its age says nothing about the start. */
uint64_t process_age_ns(void);
