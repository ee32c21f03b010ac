/* angle: sine, cosine, tangent and arctangent, rounded correctly.
 *
 * Angles decide which pixel goes where, and the functions of libm differ between libraries in the
 * last bit (see elementary.h). These functions compute in pairs of doubles, with an error below
 * 2^-95 of the result, and round once: the result is the double nearest to the true value, except
 * for about one argument in 2^40, and the same on every machine. CPython uses the platform's libm,
 * which is nearly always correctly rounded: tests/unit/proto/test_angle.c counts. A call takes
 * about a microsecond. Radians. Pure functions; any thread. */
#pragma once

/* |x| up to 1e5; NaN beyond. */
double angle_sine(double x);
double angle_cosine(double x);
double angle_tangent(double x);

/* -pi/2 .. pi/2; `x` is finite. */
double angle_arctangent(double x);
