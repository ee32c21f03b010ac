/* exposition: the two texts of metrics that Prometheus reads.
 *
 * Metrics are written once, as OpenMetrics 1.0. Older scrapers and `promtool check metrics` read
 * the Prometheus text format 0.0.4, which names a counter's family as its samples, `_total`
 * included, and knows neither units nor the types info and stateset. Pure, any thread. */
#pragma once

#include <stdbool.h>

#define EXPOSITION_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define EXPOSITION_PROMETHEUS "text/plain; version=0.0.4; charset=utf-8"

/* Whether an Accept field (NULL: there was none) asks for OpenMetrics. */
bool exposition_wants_openmetrics(const char *accept);

/* OpenMetrics text into Prometheus text: malloc'ed, NULL when memory is out. */
char *exposition_prometheus(const char *openmetrics);
