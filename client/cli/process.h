/* process: what /proc says about a process, ours or another of the same user. Any thread; nothing
 * is kept. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Proportional set size: what the process holds, shared pages divided by their sharers. 0 or a
 * negative errno. */
int process_pss(pid_t pid, uint64_t *ret_bytes);

/* User plus system time of all its threads, the finished ones too. 0 or a negative errno. */
int process_cpu_ns(pid_t pid, uint64_t *ret_ns);

/* Bytes that storage had to deliver for it (page cache hits are none). 0 or a negative errno. */
int process_bytes_read(pid_t pid, uint64_t *ret_bytes);

/* Pids of the children that its first thread forked, at most `room`; returns how many. 0 also where
 * the kernel does not tell. */
unsigned process_children(pid_t pid, pid_t *ret_pids, unsigned room);

/* How long ago this process was created, at most 0.1 s: an older one was something else before it
 * became this program, and its age says nothing about the start. */
uint64_t process_age_ns(void);
