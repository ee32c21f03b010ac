/* remoted: starts remote/ with the settings of the daemon. */
#pragma once

#include "base/fault.h"

struct server;

/* Call it while the process has one thread and is not confined yet. A program that the profile gets
 * credentials from runs now. 0, or a negative errno with a fault. */
int remoted_begin(struct server *server, struct fault *fault);

/* After the last stream has ended. */
void remoted_end(void);
