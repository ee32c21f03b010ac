/* ring_folder: the folder of the flight recorders' files, and which of them stay there. The witness
 * process makes and tidies it; any process may ask where it is. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <sys/types.h>

#define RING_FOLDER_PREFIX "recorder-"
#define RING_FOLDER_SUFFIX ".ring"

/* The path of the folder: the one given, else penstock below XDG_STATE_HOME, else
 * ~/.local/state/penstock. 0; or with a fault -EINVAL (not an absolute path), -ENAMETOOLONG, or
 * -ENOENT (neither variable is set). */
int ring_folder_resolve(const char *given, char *buffer, size_t room, struct fault *fault);

/* Makes the folder (0700) with all folders above it. -EPERM with a fault where it is not a folder,
 * is a link, belongs to another user, or is writable by others. This and ring_folder_tidy may block
 * as long as storage does. */
int ring_folder_make(const char *folder, struct fault *fault);

/* The file name for a daemon that starts now: recorder-YYYYMMDDTHHMMSSZ-PID.ring. */
void ring_folder_name(pid_t pid, char *buffer, size_t room);

/* Removes the oldest files until at most `keep` are left. Files that a living recorder has locked
 * stay. Other names, and anything that is not a regular file, are not touched. */
void ring_folder_tidy(const char *folder, unsigned keep);
