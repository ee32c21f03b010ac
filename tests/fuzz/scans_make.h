/* scans_make: JPEGs of several scans from a seed: libjpeg-turbo writes random coefficients by
 * random scripts. Progressive ones with any bands, bits and order that T.81 allows, sequential ones
 * with their components in two or three scans; any sampling and restart interval. Needs stdio.h
 * before it, as jpeglib.h does. One thread. */
#pragma once

#include "fuzz/random.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

enum { SCANS_MAKE_MOST = 80 };

/* What is still to be sent of a band of a component. */
struct scans_make_band {
	int component, first, last;
	int next; /* the bit to be sent next */
	bool begun;
};

struct scans_make {
	struct random random;
	unsigned components;
	struct scans_make_band band[24];
	unsigned bands;
	jpeg_scan_info scan[SCANS_MAKE_MOST];
	int scans;
	int dc; /* the DC's bit to be sent next; -1: all are */
};

static inline jpeg_scan_info *scans_make_add(struct scans_make *m, int first, int last)
{
	assert(m->scans < SCANS_MAKE_MOST);
	jpeg_scan_info *scan = &m->scan[m->scans++];
	*scan = (jpeg_scan_info){.comps_in_scan = 1, .Ss = first, .Se = last};
	return scan;
}

/* DC of all components in one scan, or each by itself. */
static inline void scans_make_dc(struct scans_make *m, int high, int low)
{
	bool together = !one_in(&m->random, 3);
	for (unsigned c = 0; c < m->components; c++) {
		jpeg_scan_info *scan =
			together && c ? &m->scan[m->scans - 1] : scans_make_add(m, 0, 0);
		scan->component_index[together ? c : 0] = (int)c;
		scan->comps_in_scan = together ? (int)c + 1 : 1;
		scan->Ah = high;
		scan->Al = low;
	}
}

static inline void scans_make_bands(struct scans_make *m)
{
	m->bands = 0;
	for (unsigned c = 0; c < m->components; c++)
		for (int from = 1; from < 64;) {
			bool rest = m->bands % 6 == 5 || one_in(&m->random, 2);
			int to = rest ? 63 : from + (int)draw(&m->random, 64 - (uint32_t)from);
			m->band[m->bands++] = (struct scans_make_band){.component = (int)c,
				.first = from,
				.last = to,
				.next = (int)draw(&m->random, one_in(&m->random, 8) ? 10 : 4)};
			from = to + 1;
		}
}

/* Sends one more bit of a band. */
static inline void scans_make_band(struct scans_make *m, unsigned i)
{
	struct scans_make_band *band = &m->band[i];
	jpeg_scan_info *scan = scans_make_add(m, band->first, band->last);
	scan->component_index[0] = band->component;
	scan->Ah = band->begun ? band->next + 1 : 0;
	scan->Al = band->next;
	band->begun = true;
	if (band->next-- == 0)
		*band = m->band[--m->bands];
}

static inline void scans_make_progression(struct scans_make *m)
{
	m->dc = (int)draw(&m->random, 4);
	scans_make_dc(m, 0, m->dc);
	scans_make_bands(m);
	while (m->bands || m->dc) {
		if (m->dc && (!m->bands || one_in(&m->random, 5))) {
			scans_make_dc(m, m->dc, m->dc - 1);
			m->dc--;
		} else {
			scans_make_band(m, draw(&m->random, m->bands));
		}
	}
}

static inline void scans_make_sequence(struct scans_make *m)
{
	unsigned split = draw(&m->random, 3);
	for (unsigned c = 0; c < m->components; c++) {
		bool joins = c == 1 ? split == 1 : c == 2 && split == 2;
		jpeg_scan_info *scan = joins ? &m->scan[m->scans - 1] : scans_make_add(m, 0, 63);
		scan->component_index[joins ? 1 : 0] = (int)c;
		scan->comps_in_scan = joins ? 2 : 1;
	}
}

/* How the blocks of a file are: how many coefficients are not zero, and how large. */
static inline void scans_make_block(
	struct random *random, JCOEF *block, unsigned dense, unsigned size)
{
	memset(block, 0, sizeof(JBLOCK));
	block[0] = (JCOEF)((int)draw(random, 200) - 100);
	if (one_in(random, 4))
		return;
	uint32_t count = dense ? draw(random, dense) : 0;
	for (uint32_t i = 0; i < count; i++) {
		int most = 1 << draw(random, size + 1), k = 1 + (int)draw(random, 63);
		block[k] = (JCOEF)((int)draw(random, 2 * (uint32_t)most - 1) - (most - 1));
	}
}

static inline jvirt_barray_ptr *scans_make_coefficients(
	struct random *random, struct jpeg_compress_struct *cinfo)
{
	static const unsigned densities[] = {0, 3, 12, 30, 200};
	static jvirt_barray_ptr arrays[3];
	unsigned dense = densities[draw(random, 5)],
		 size = 1 + draw(random, one_in(random, 4) ? 9 : 4);
	JDIMENSION rows[3], columns[3], across = 1, down = 1;
	for (int c = 0; c < cinfo->num_components; c++) {
		across = cinfo->comp_info[c].h_samp_factor > (int)across
				 ? (JDIMENSION)cinfo->comp_info[c].h_samp_factor
				 : across;
		down = cinfo->comp_info[c].v_samp_factor > (int)down
			       ? (JDIMENSION)cinfo->comp_info[c].v_samp_factor
			       : down;
	}
	for (int c = 0; c < cinfo->num_components; c++) {
		columns[c] = (cinfo->image_width + 8 * across - 1) / (8 * across) *
			     (JDIMENSION)cinfo->comp_info[c].h_samp_factor;
		rows[c] = (cinfo->image_height + 8 * down - 1) / (8 * down) *
			  (JDIMENSION)cinfo->comp_info[c].v_samp_factor;
		arrays[c] = cinfo->mem->request_virt_barray((j_common_ptr)cinfo, JPOOL_IMAGE, TRUE,
			columns[c], rows[c], (JDIMENSION)cinfo->comp_info[c].v_samp_factor);
	}
	cinfo->mem->realize_virt_arrays((j_common_ptr)cinfo);
	for (int c = 0; c < cinfo->num_components; c++)
		for (JDIMENSION y = 0; y < rows[c]; y++) {
			JBLOCKARRAY row = cinfo->mem->access_virt_barray(
				(j_common_ptr)cinfo, arrays[c], y, 1, TRUE);
			for (JDIMENSION x = 0; x < columns[c]; x++)
				scans_make_block(random, row[0][x], dense, size);
		}
	return arrays;
}

static inline void scans_make_frame(struct random *random, struct jpeg_compress_struct *cinfo)
{
	static const int factors[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}, {3, 1}};
	const int *most = factors[draw(random, 7)];
	cinfo->image_width = 1 + draw(random, one_in(random, 3) ? 150 : 50);
	cinfo->image_height = 1 + draw(random, one_in(random, 3) ? 150 : 50);
	cinfo->input_components = one_in(random, 4) ? 1 : 3;
	cinfo->in_color_space = cinfo->input_components == 1 ? JCS_GRAYSCALE : JCS_YCbCr;
	jpeg_set_defaults(cinfo);
	jpeg_set_quality(cinfo, 60 + (int)draw(random, 41), TRUE);
	for (int c = 0; c < cinfo->num_components; c++) {
		bool same = most[0] == 3 && c; /* factors that no ratio needs */
		cinfo->comp_info[c].h_samp_factor = c && !same ? 1 : most[0];
		cinfo->comp_info[c].v_samp_factor = c && !same ? 1 : most[1];
	}
	if (one_in(random, 3))
		cinfo->restart_interval = 1 + draw(random, one_in(random, 2) ? 4 : 40);
	cinfo->optimize_coding = one_in(random, 2);
}

/* A file of at most `room` bytes, or 0 where it would have more. */
static inline size_t scans_make(uint8_t *bytes, size_t room, struct random *random)
{
	struct scans_make make = {.random = {random_64(random)}};
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	unsigned char *out = NULL;
	unsigned long size = 0;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &out, &size);
	scans_make_frame(&make.random, &cinfo);
	make.components = (unsigned)cinfo.num_components;
	if (make.components == 1 || !one_in(&make.random, 5))
		scans_make_progression(&make);
	else
		scans_make_sequence(&make);
	cinfo.scan_info = make.scan;
	cinfo.num_scans = make.scans;
	jpeg_write_coefficients(&cinfo, scans_make_coefficients(&make.random, &cinfo));
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	size_t made = size <= room ? size : 0;
	memcpy(bytes, out, made);
	free(out);
	return made;
}
