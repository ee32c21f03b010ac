/* angle: sine, cosine, tangent and arctangent, rounded correctly.
 *
 * Angles decide which pixel lies where: libm's functions differ between libraries in the last bit
 * (see elementary.h). These are evaluated in pairs of doubles, with an error below 2^-95 of the
 * result, and then rounded once: what they give is the double that is nearest to the true value,
 * but for about one argument in 2^40, everywhere the same. CPython's are the platform's libm's,
 * which are nearest nearly always: tests/unit/proto/test_angle.c counts. About a microsecond each.
 * Radians. Pure functions; any thread. */
#pragma once

/* |x| up to 1e5; NaN beyond. */
double angle_sine(double x);
double angle_cosine(double x);
double angle_tangent(double x);

/* -pi/2 .. pi/2; of a finite number. */
double angle_arctangent(double x);
