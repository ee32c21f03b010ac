/* data: what scenarios read, made in their `prepare`, where nothing fails. Every helper asserts its
 * own success. */
#pragma once

#include "unit/decode/images.h"
#include "unit/source_fixture.h"

enum { DATA_IMAGES = 12 };

/* Image number n: of several sizes and kinds, one of them a PNG. */
static inline struct bytes data_image(unsigned n)
{
	struct jpeg_kind kind = {.width = 60 + n * 7,
		.height = 48 + n * 5,
		.components = n % 5 == 4 ? 1 : 3,
		.h = n % 2 ? 2 : 1,
		.v = n % 2 ? 2 : 1,
		.progressive = n % 4 == 3,
		.restart_rows = n % 6 == 5};
	return n % 8 == 6 ? make_png(50, 40, PNG_COLOR_TYPE_RGB, 8, false) : make_jpeg(&kind);
}

/* FOLDER/NAME/{ant,bee,cow}/NN.jpg */
static inline void data_folder(const char *folder, const char *name)
{
	static const char *const classes[] = {"ant", "bee", "cow"};
	char path[FIXTURE_PATH];
	for (unsigned n = 0; n < DATA_IMAGES; n++) {
		struct bytes image = data_image(n);
		(void)snprintf(path, sizeof path, "%s/%s/%02u.jpg", name, classes[n % 3], n);
		fixture_file(folder, path, "");
		fixture_write(fixture_path(folder, path), image.data, image.size);
		free(image.data);
	}
}

enum data_label { DATA_NONE, DATA_CLS, DATA_JSON, DATA_JSON_LIST };

/* FOLDER/NAME-0.tar and NAME-1.tar of NN.jpg with their labels. */
static inline void data_tars(const char *folder, const char *name, enum data_label label)
{
	char member[64], text[64];
	for (unsigned shard = 0; shard < 2; shard++) {
		struct fixture_tar tar = {0};
		for (unsigned n = shard * DATA_IMAGES / 2; n < (shard + 1) * DATA_IMAGES / 2; n++) {
			struct bytes image = data_image(n);
			if (label) {
				(void)snprintf(member, sizeof member, "%02u.%s", n,
					label == DATA_CLS ? "cls" : "json");
				(void)snprintf(text, sizeof text,
					label == DATA_CLS    ? "%u\n"
					: label == DATA_JSON ? "{\"label\": %u}"
							     : "{\"tags\": [\"t%u\", \"all\"]}",
					n % 3);
				fixture_tar_member(&tar, member, text);
			}
			(void)snprintf(member, sizeof member, "%02u.jpg", n);
			fixture_tar_header(&tar, member, '0', image.size);
			fixture_tar_data(&tar, image.data, image.size);
			free(image.data);
		}
		(void)snprintf(member, sizeof member, "%s-%u.tar", name, shard);
		fixture_tar_write(&tar, fixture_path(folder, member));
	}
}

/* FOLDER/NAME: a .npy file of `count` values of `type`, "<i8" or "<f4"; or of rows of them. */
static inline void data_npy(const char *folder, const char *name, const char *type, unsigned count,
	unsigned columns, const void *values, size_t bytes)
{
	uint8_t file[4096] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
	int size =
		columns ? snprintf((char *)file + 10, 200,
				  "{'descr': '%s', 'fortran_order': False, 'shape': (%u, %u), }\n",
				  type, count, columns)
			: snprintf((char *)file + 10, 200,
				  "{'descr': '%s', 'fortran_order': False, 'shape': (%u,), }\n",
				  type, count);
	file[8] = (uint8_t)size;
	assert_true(bytes + 10 + (size_t)size <= sizeof file);
	memcpy(file + 10 + size, values, bytes);
	fixture_write(fixture_path(folder, name), file, bytes + 10 + (size_t)size);
}
