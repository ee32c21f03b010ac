/* The learning rate. See schedule.h. */
#include "schedule.h"

#include <math.h>

double schedule_rate(const struct schedule *schedule, uint64_t step)
{
	double done;

	if (step >= schedule->steps)
		return 0;
	if (step < schedule->warmup)
		return schedule->rate * (double)(step + 1) / (double)schedule->warmup;
	done = (double)(step - schedule->warmup) / (double)(schedule->steps - schedule->warmup);
	return schedule->rate * 0.5 * (1 + cos(M_PI * done));
}
