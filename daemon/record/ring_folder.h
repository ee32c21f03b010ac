/* attic: the folder that flight recorders' files are kept in, and which of them stay there. The
 * witness's process makes and tidies it; anybody may ask where it is. */
#pragma once

#include "base/fault.h"

#include <stddef.h>
#include <sys/types.h>

#define RING_FOLDER_PREFIX "recorder-"
#define RING_FOLDER_SUFFIX ".ring"

/* The folder: the one given, else penstock below XDG_STATE_HOME, else ~/.local/state/penstock. 0,
 * or -EINVAL (no absolute path), -ENAMETOOLONG, -ENOENT (nobody says where) with a fault. */
int ring_folder_resolve(const char *given, char *buffer, size_t room, struct fault *fault);

/* Makes it (0700) with all above it. It must be ours, no link, and not to be written by others:
 * -EPERM with a fault. May block as long as storage does; so does ring_folder_tidy. */
int ring_folder_make(const char *folder, struct fault *fault);

/* The name of the file of a daemon that starts now: recorder-YYYYMMDDTHHMMSSZ-PID.ring. */
void ring_folder_name(pid_t pid, char *buffer, size_t room);

/* Removes the oldest files until at most `keep` are left. Those whose recorder lives (it holds a
 * lock) stay, and what is named otherwise or is no plain file is not touched. */
void ring_folder_tidy(const char *folder, unsigned keep);
