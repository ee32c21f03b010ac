/* name_order: the order of file names, as Python's sorted() has it.
 *
 * Datasets in folders have the order of torchvision's ImageFolder, which sorts texts by code point.
 * Python reads a file name as UTF-8 and makes the code point U+DC00 + b of each byte b that is not
 * part of a well-formed character ("surrogateescape"). So the order differs from that of the bytes
 * where names are not UTF-8: such a byte comes after U+D7FF and before U+E000.
 *
 * The natural order is that of timm's natural_key: both names in lower case, and each run of
 * decimal digits, in any script, compared as one number. Any thread; pure. */
#pragma once

/* As strcmp: negative, 0 or positive. 0 only for equal names. */
int name_order(const char *a, const char *b);

/* The same by natural_key. Names whose keys are equal ("a1", "A01") come in the order of
 * name_order; for these, timm's order is random. The final sigma of a word counts as any other. */
int name_order_natural(const char *a, const char *b);
