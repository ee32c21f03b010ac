/* exposition: the two text formats of metrics that Prometheus reads.
 *
 * The daemon writes metrics once, as OpenMetrics 1.0. Older scrapers and `promtool check metrics`
 * read the Prometheus text format 0.0.4. There the family of a counter has the name of its samples,
 * `_total` included, and there are no units and no types info and stateset. Pure, any thread. */
#pragma once

#include <stdbool.h>

#define EXPOSITION_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define EXPOSITION_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

/* Whether an Accept field (NULL: the request has none) asks for OpenMetrics. */
bool exposition_wants_openmetrics(const char *accept);

/* Converts OpenMetrics text to Prometheus text: malloc'ed, NULL without memory. */
char *exposition_prometheus(const char *openmetrics);
