/* extent: layout, sealing, and whether clients still have the memory (handout.h). */
#include "batch/extent.h"
#include "proto/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static const struct extent_geometry geometry = {.batch_size = 5,
	.height = 7,
	.width = 9,
	.channels = 3,
	.views = 1,
	.pixel_type = SLOTS_U8,
	.pixel_layout = SLOTS_NHWC,
	.label_type = SLOTS_LABEL_I64,
	.label_width = 1};

static void fields_do_not_overlap(void **state)
{
	(void)state;
	struct extent extent;
	assert_int_equal(extent_init(&extent, &geometry, 3, false, NULL), 0);
	const struct slots_head *l = &extent.layout;
	assert_int_equal(l->row_bytes, 7 * 9 * 3);
	assert_true(l->images_offset >= sizeof *l && l->images_offset % 64 == 0);
	assert_true(l->labels_offset >= l->images_offset + 5 * l->row_bytes &&
		    l->labels_offset % 64 == 0);
	assert_true(l->records_offset >= l->labels_offset + 5 * sizeof(int64_t) &&
		    l->records_offset % 64 == 0);
	assert_true(extent.stride >= l->records_offset + 5 * sizeof(struct slots_record) &&
		    extent.stride % SLOTS_ALIGN == 0);
	assert_true(extent.stride * 3 <= extent.bytes);
	assert_int_equal(extent_stride(&geometry), extent.stride);
	/* No row of any slot overlaps another. */
	for (uint32_t slot = 0; slot < 3; slot++)
		for (uint32_t row = 0; row < 5; row++)
			memset(extent_image(&extent, slot, row), (int)(slot * 5 + row + 1),
				l->row_bytes);
	for (uint32_t slot = 0; slot < 3; slot++)
		for (uint32_t row = 0; row < 5; row++)
			for (uint64_t i = 0; i < l->row_bytes; i++)
				assert_int_equal(
					extent_image(&extent, slot, row)[i], slot * 5 + row + 1);
	extent_deinit(&extent);
}

/* Views, wide values and labels each have their room, and the rows of smaller images are closer
 * together. */
static void each_shape_has_its_room(void **state)
{
	(void)state;
	static const struct {
		enum slots_pixel_type pixel;
		enum slots_label_type label;
		uint32_t views, width, pixel_bytes, label_bytes;
	} shapes[] = {
		{SLOTS_U8, SLOTS_LABEL_I64, 1, 1, 1, 8},
		{SLOTS_U8, SLOTS_LABEL_I64, 8, 1, 1, 8},
		{SLOTS_F32, SLOTS_LABEL_F32, 2, 1000, 4, 4},
		{SLOTS_F16, SLOTS_LABEL_F32, 3, 1, 2, 4},
		{SLOTS_BF16, SLOTS_LABEL_I64, 1, 1, 2, 8},
	};
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct extent_geometry g = geometry;
		struct extent extent;
		g.pixel_type = shapes[i].pixel;
		g.label_type = shapes[i].label;
		g.views = shapes[i].views;
		g.label_width = shapes[i].width;
		assert_int_equal(extent_init(&extent, &g, 2, false, NULL), 0);
		const struct slots_head *l = &extent.layout;
		uint64_t rows = 5ull * g.views;
		assert_int_equal(l->row_bytes, 7u * 9 * 3 * shapes[i].pixel_bytes);
		assert_int_equal(l->views, g.views);
		assert_true(l->labels_offset >= l->images_offset + rows * l->row_bytes);
		assert_true(l->records_offset >=
			    l->labels_offset + 5ull * g.label_width * shapes[i].label_bytes);
		assert_true(
			extent.stride >= l->records_offset + rows * sizeof(struct slots_record));
		assert_ptr_equal(extent_image(&extent, 1, (uint32_t)rows - 1),
			extent.memory + extent.stride + l->images_offset +
				(rows - 1) * l->row_bytes);
		struct slots_head small = extent_reshape(&extent, 1, 3, 2);
		assert_int_equal(small.height, 3);
		assert_int_equal(small.width, 2);
		assert_int_equal(small.row_bytes, 3u * 2 * 3 * shapes[i].pixel_bytes);
		assert_int_equal(small.labels_offset, l->labels_offset);
		assert_ptr_equal(extent_image(&extent, 1, 2),
			extent.memory + extent.stride + l->images_offset + 2 * small.row_bytes);
		assert_ptr_equal(extent_image(&extent, 0, 2),
			extent.memory + l->images_offset + 2 * l->row_bytes);
		extent_deinit(&extent);
	}
}

static void only_the_daemon_can_write_and_none_can_resize(void **state)
{
	(void)state;
	struct extent extent;
	assert_int_equal(extent_init(&extent, &geometry, 2, false, NULL), 0);
	int seals = fcntl(extent.handout.give, F_GET_SEALS);
	assert_int_equal(seals, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
	assert_true(mmap(NULL, extent.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			    extent.handout.give, 0) == MAP_FAILED);
	assert_int_equal(ftruncate(extent.handout.give, 0), -1);
	assert_int_equal(ftruncate(extent.handout.give, (off_t)extent.bytes * 2), -1);
	assert_int_equal(write(extent.handout.give, "x", 1), -1);
	assert_int_equal(
		fallocate(extent.handout.give, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096),
		-1);
	void *reader = mmap(NULL, extent.bytes, PROT_READ, MAP_SHARED, extent.handout.give, 0);
	assert_true(reader != MAP_FAILED);
	assert_int_equal(mprotect(reader, extent.bytes, PROT_READ | PROT_WRITE), -1);
	/* The daemon's mapping still writes, and the reader sees it. */
	extent_image(&extent, 1, 4)[0] = 77;
	assert_int_equal(((uint8_t *)reader)[extent.stride + extent.layout.images_offset +
					     4 * extent.layout.row_bytes],
		77);
	munmap(reader, extent.bytes);
	/* The owner may open it anew for writing; the seals still refuse. */
	char path[40];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", extent.handout.give);
	int again = open(path, O_RDWR | O_CLOEXEC);
	assert_true(again >= 0);
	assert_int_equal(write(again, "x", 1), -1);
	assert_int_equal(errno, EPERM);
	assert_true(mmap(NULL, extent.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) ==
		    MAP_FAILED);
	assert_int_equal(fallocate(again, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
	assert_int_equal(ftruncate(again, 0), -1);
	(void)close(again);
	extent_deinit(&extent);
}

static bool is_held(const struct handout *handout)
{
	handout_look();
	return handout_is_held(handout);
}

static int open_anew(int fd, int flags)
{
	char path[40];
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	int anew = open(path, flags | O_CLOEXEC);
	(void)close(fd);
	return anew;
}

/* A descriptor that was sent and not yet received keeps the memory too. */
static int pass_on(const struct handout *handout, int fd)
{
	static struct conn_message message;
	struct wire_close head = {.head = {.type = WIRE_CLOSE}};
	int pair[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	assert_int_equal(conn_send(pair[0], true, &head.head, sizeof head, NULL, 0, fd), 0);
	(void)close(fd);
	assert_true(is_held(handout));
	assert_int_equal(conn_receive(pair[1], true, &message), CONN_OK);
	(void)close(pair[0]);
	(void)close(pair[1]);
	return message.fd;
}

/* Each way to keep the memory is noticed by itself, and so is letting go. */
static void every_way_to_keep_it_is_noticed(void **state)
{
	(void)state;
	for (int writable = 0; writable < 2; writable++) {
		struct extent extent;
		struct handout handout;
		assert_int_equal(extent_init(&extent, &geometry, 2, writable, NULL), 0);
		int fd = fcntl(extent.handout.give, F_DUPFD_CLOEXEC, 0);
		uint64_t bytes = extent.bytes;
		assert_true(extent_is_kept(&extent, &handout));
		extent_deinit(&extent);
		fd = open_anew(fd, O_PATH); /* counts as no open file */
		assert_true(is_held(&handout));
		fd = open_anew(fd, O_RDONLY);
		assert_true(is_held(&handout));
		fd = pass_on(&handout, fd);
		void *reader = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
		assert_true(reader != MAP_FAILED);
		(void)close(fd);
		assert_true(is_held(&handout));
		munmap(reader, bytes);
		assert_false(is_held(&handout));
		handout_deinit(&handout);
	}
}

/* Letting go of one handout does not affect others, nor does freeing one that is still held. */
static void each_is_known_by_itself(void **state)
{
	(void)state;
	struct handout handouts[3];
	int fds[3];
	for (int i = 0; i < 3; i++) {
		handouts[i] = handout_make(memfd_create("test", MFD_CLOEXEC), false);
		fds[i] = fcntl(handouts[i].give, F_DUPFD_CLOEXEC, 0);
		handout_end(&handouts[i]);
	}
	(void)close(fds[1]);
	assert_true(is_held(&handouts[0]));
	assert_false(is_held(&handouts[1]));
	assert_true(is_held(&handouts[2]));
	handout_deinit(&handouts[0]);
	handout_deinit(&handouts[1]);
	(void)close(fds[0]);
	assert_true(is_held(&handouts[2]));
	(void)close(fds[2]);
	assert_false(is_held(&handouts[2]));
	handout_deinit(&handouts[2]);
}

static void memory_that_no_client_had_is_not_kept(void **state)
{
	(void)state;
	struct extent extent;
	struct handout handout;
	assert_int_equal(extent_init(&extent, &geometry, 2, false, NULL), 0);
	assert_false(extent_is_kept(&extent, &handout));
	extent_deinit(&extent);
}

static void its_one_reader_may_write_where_asked_for(void **state)
{
	(void)state;
	struct extent extent;
	assert_int_equal(extent_init(&extent, &geometry, 2, true, NULL), 0);
	assert_int_equal(
		fcntl(extent.handout.give, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_false(extent.huge_pages);
	assert_int_equal(ftruncate(extent.handout.give, 0), -1);
	void *reader = mmap(NULL, extent.bytes, PROT_READ, MAP_SHARED, extent.handout.give, 0);
	assert_true(reader != MAP_FAILED);
	assert_int_equal(mprotect(reader, extent.bytes, PROT_READ | PROT_WRITE), 0);
	/* The daemon's next write fills holes that the reader punches. */
	assert_int_equal(fallocate(extent.handout.give, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 0, (off_t)extent.bytes),
		0);
	memset(extent_image(&extent, 1, 4), 77, extent.layout.row_bytes);
	munmap(reader, extent.bytes);
	extent_deinit(&extent);
}

static void more_than_the_machine_has_is_refused_with_a_sentence(void **state)
{
	(void)state;
	struct extent_geometry huge = extent_plain(65536, 2048);
	struct extent extent;
	struct fault fault = {{0}};
	assert_int_equal(extent_init(&extent, &huge, 64, false, &fault), -ENOMEM);
	assert_non_null(strstr(fault.text, "batch_size"));
	assert_non_null(strstr(fault.text, "limit: "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_do_not_overlap),
		cmocka_unit_test(each_shape_has_its_room),
		cmocka_unit_test(only_the_daemon_can_write_and_none_can_resize),
		cmocka_unit_test(every_way_to_keep_it_is_noticed),
		cmocka_unit_test(each_is_known_by_itself),
		cmocka_unit_test(memory_that_no_client_had_is_not_kept),
		cmocka_unit_test(its_one_reader_may_write_where_asked_for),
		cmocka_unit_test(more_than_the_machine_has_is_refused_with_a_sentence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
