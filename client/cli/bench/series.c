/* series: see series.h. */
#include "client/cli/bench/series.h"

#include "base/util.h"

#include <stddef.h>

double series_span_s(const struct series *series, unsigned i)
{
	return series->sample[i].t_s - (i ? series->sample[i - 1].t_s : 0);
}

/* Adds `next` to `into`, which precedes it and began at `begin_s`. */
static void series_join(
	struct series_sample *into, const struct series_sample *next, double begin_s)
{
	double before = into->t_s - begin_s, after = next->t_s - into->t_s, both = before + after;
	into->waits = (into->waits * before + next->waits * after) / both;
	into->cpu = (into->cpu * before + next->cpu * after) / both;
	into->images += next->images;
	into->bytes_read += next->bytes_read;
	into->memory = UTIL_MAX(into->memory, next->memory);
	into->t_s = next->t_s;
}

static void series_halve(struct series *series)
{
	double begin_s = 0;
	for (unsigned i = 0; i < SERIES_MAX / 2; i++) {
		struct series_sample sample = series->sample[2 * i];
		series_join(&sample, &series->sample[2 * i + 1], begin_s);
		begin_s = sample.t_s;
		series->sample[i] = sample;
	}
	series->count = SERIES_MAX / 2;
	series->each *= 2;
	series->last = series->each;
}

void series_add(struct series *series, const struct series_sample *sample)
{
	series->each = UTIL_MAX(series->each, 1u);
	struct series_sample *last = series->count ? &series->sample[series->count - 1] : NULL;
	double begin_s = series->count > 1 ? last[-1].t_s : 0;
	if (last && sample->t_s <= last->t_s) {
		last->images += sample->images;
		last->bytes_read += sample->bytes_read;
		return;
	}
	if (last && sample->t_s < last->t_s + SERIES_LEAST_S) {
		series_join(last, sample, begin_s);
		return;
	}
	if (last && series->last < series->each) {
		series_join(last, sample, begin_s);
		series->last++;
		return;
	}
	if (series->count == SERIES_MAX)
		series_halve(series);
	series->sample[series->count++] = *sample;
	series->last = 1;
}

void series_rates(const struct series *series, unsigned columns, double *ret_rates)
{
	if (!series->count)
		return;
	double width_s = series->sample[series->count - 1].t_s / columns;
	for (unsigned c = 0; c < columns; c++)
		ret_rates[c] = 0;
	for (unsigned i = 0; i < series->count; i++) {
		double span_s = series_span_s(series, i), end_s = series->sample[i].t_s,
		       begin_s = end_s - span_s;
		for (unsigned c = (unsigned)(begin_s / width_s); c < columns && c * width_s < end_s;
			c++) {
			double cut_s =
				UTIL_MIN(end_s, (c + 1) * width_s) - UTIL_MAX(begin_s, c * width_s);
			ret_rates[c] +=
				series->sample[i].images * UTIL_MAX(cut_s, 0.0) / span_s / width_s;
		}
	}
}
