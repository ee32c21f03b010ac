/* archives: containers that hold files or values under names: ZIP and LMDB.
 *
 * A map of this folder:
 *   archives.h           numbers as ZIP and LMDB store them
 *   container_zip.c      a ZIP: images in class folders, as in a folder, or in none
 *   zip.[ch]             reads the directory and the headers of a ZIP
 *   zip_name.[ch]        names in a ZIP as UTF-8
 *   zip_root.[ch]        which folder in a ZIP holds the class folders, and their names
 *   sorted.[ch]          puts any number of items into the order of their keys
 *   container_lmdb.c     an LMDB database: images, or Caffe's Datums, under keys
 *   lmdb.[ch]            walks the keys and values of an LMDB database
 *   datum.[ch]           reads Caffe's Datum
 *
 * Both formats have little-endian numbers, at any address. */
#pragma once

#include <stdint.h>

static inline uint16_t little_16(const uint8_t *at)
{
	return (uint16_t)(at[0] | at[1] << 8);
}

static inline uint32_t little_32(const uint8_t *at)
{
	return little_16(at) | (uint32_t)little_16(at + 2) << 16;
}

static inline uint64_t little_64(const uint8_t *at)
{
	return little_32(at) | (uint64_t)little_32(at + 4) << 32;
}
