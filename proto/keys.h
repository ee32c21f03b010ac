/* keys: every key of a stream's definition, once.
 *
 * A definition is the same mapping in penstock.yaml (`streams:`), in the text of WIRE_OPEN and, as
 * fields, arguments and options, in struct penstock_options, in Python's Loader and on the command
 * line. This table is the one list of its keys. From it come
 *
 *   daemon/definition/spec.c        the reader, the writer and the comparison
 *   client/lib/open.c               the text of OPEN
 *   client/cli/recipe.h             the options of bench, plan, replay, show and state
 *   client/python/src/options.c     the fields that Python sets
 *
 * and tests/keys.py compares it with the documents. It is in proto/ because it is part of the
 * contract between daemon and client: the client may see nothing else of the daemon.
 *
 * PENSTOCK_KEYS(KEY, with) expands to KEY(with, ...) for each key, with these columns:
 *
 *   name     of the key, and of the field of struct penstock_options
 *   kind     what the daemon reads (SPEC_... in spec.c): NAME, TEXT, U32, I32, U64, REAL, FLAG,
 *            WORD, NODE
 *   field    of struct stream_spec
 *   place    of that field: OWN, it comes from this row (a number or a flag, with the key's name),
 *            or ELSEWHERE, the struct spells it out
 *   low      and high: the range, or the least length of a text
 *   plain    the default of a number or a flag; otherwise 0
 *   extra    the table of words of a WORD, the reader of a NODE; otherwise 0
 *   option   its form in struct penstock_options (OPEN_... in open.c): TEXT, PATH, U32, I32, U64,
 *            REAL, FLAG (int32_t), SWITCH (int32_t, -1: unset), SHUFFLE (the same, 2: blocks),
 *            JSON, CHANNELS, SIZE (uint32_t, and image_sizes), VIEWS (uint32_t, and view_groups);
 *            NONE: the struct does not have it, or open.c has code for it
 *   who      who may write it: DEFINITION (configuration and clients, and not beside `stream:`),
 *            READER (also beside it), CLIENT (clients only, also beside it)
 *   alike    SAME: all members of a group must agree; OWN: each member may have its own value
 *   cli      OPTION or NONE; the option's name, letter, value and help follow. The value of a WORD
 *            is always its words, separated by |; that of a FLAG is "": the option takes none and
 *            changes the default */
#pragma once

#define PENSTOCK_FILTERS "bilinear|bicubic|box|hamming|lanczos|nearest"
/* A stream may also draw one of the first two for each sample. */
#define PENSTOCK_FILTERS_DRAWN PENSTOCK_FILTERS "|random"

// clang-format off
#define PENSTOCK_KEYS(KEY, with) \
	KEY(with, stream, NAME, name, ELSEWHERE, 0, 0, 0, 0, NONE, READER, OWN, NONE, , , , ) \
	KEY(with, source, TEXT, source, ELSEWHERE, 1, 0, 0, 0, NONE, DEFINITION, SAME, NONE, , , , ) \
	KEY(with, sources, NODE, sampling.sources, ELSEWHERE, 0, 0, 0, sampling_read_sources, NONE, DEFINITION, SAME, NONE, , , , ) \
	KEY(with, split, TEXT, sampling.split, ELSEWHERE, 1, 0, 0, 0, TEXT, DEFINITION, SAME, \
		OPTION, "split", 0, "SPLIT", "only a part of the samples, always the same: 'train[:90%]', '[-1000:]'") \
	KEY(with, indices, TEXT, indices, ELSEWHERE, 1, 0, 0, 0, PATH, DEFINITION, OWN, \
		OPTION, "indices", 0, "FILE", "only these samples: a .npy file of their numbers (with --no-shuffle, in its order)") \
	KEY(with, weights, TEXT, sampling.weights, ELSEWHERE, 1, 0, 0, 0, PATH, DEFINITION, OWN, \
		OPTION, "weights", 0, "FILE", "draw samples with replacement by a .npy file of weights, or balanced: all classes equally often") \
	KEY(with, epoch_length, U64, sampling.epoch_length, ELSEWHERE, 1, 281474976710656, 0, 0, U64, DEFINITION, SAME, \
		OPTION, "epoch-length", 0, "N", "samples in an epoch (all)") \
	KEY(with, repeats, U32, sampling.repeats, ELSEWHERE, 1, 16, 1, 0, U32, DEFINITION, SAME, \
		OPTION, "repeats", 0, "R", "each sample R times in a row, with other draws (1)") \
	KEY(with, sampling, NODE, sampling.per_class, ELSEWHERE, 0, 0, 0, sampling_read_per_class, JSON, DEFINITION, SAME, \
		OPTION, "sampling", 0, "MAP", "batches of P classes with K samples of each: '{classes: 16, per_class: 4}'") \
	KEY(with, batch_size, U32, batch_size, OWN, 1, 65536, 64, 0, U32, DEFINITION, SAME, \
		OPTION, "batch-size", 'b', "N", "samples per batch (64)") \
	KEY(with, image_size, NODE, shape.sizes, ELSEWHERE, 1, 4096, 0, shape_read_sizes, SIZE, DEFINITION, SAME, \
		OPTION, "image-size", 0, "PX", "height and width of a row (224), or '[height, width]'") \
	KEY(with, buckets, NODE, buckets, ELSEWHERE, 0, 0, 0, bucket_keys_read, JSON, DEFINITION, SAME, \
		OPTION, "buckets", 0, "LIST", "each batch has one of these shapes, by the images' aspect ratios: '[[256, 192], [192, 256]]'") \
	KEY(with, views, NODE, views, ELSEWHERE, 1, 16, 0, views_read, VIEWS, DEFINITION, SAME, \
		OPTION, "views", 0, "V", "rows of each sample, each with other draws (1), or groups of them: '[{image_size: 224, count: 2}, {image_size: 96, count: 8}]'") \
	KEY(with, dtype, WORD, shape.dtype, ELSEWHERE, 0, 0, 0, shape_dtype_names, TEXT, DEFINITION, SAME, \
		OPTION, "dtype", 0, "uint8|float32|float16|bfloat16", "type of a pixel value; all but uint8 are normalized (uint8)") \
	KEY(with, layout, WORD, shape.layout, ELSEWHERE, 0, 0, 0, shape_layout_names, TEXT, DEFINITION, SAME, \
		OPTION, "layout", 0, "NHWC|NCHW", "order of a row's values (NHWC)") \
	KEY(with, mean, NODE, shape.mean, ELSEWHERE, 0, 0, 0, shape_read_mean, CHANNELS, DEFINITION, SAME, \
		OPTION, "mean", 0, "LIST", "mean that a dtype of floats is normalized with: '[0.5, 0.5, 0.5]' (ImageNet's)") \
	KEY(with, std, NODE, shape.std, ELSEWHERE, 0, 0, 0, shape_read_std, CHANNELS, DEFINITION, SAME, \
		OPTION, "std", 0, "LIST", "standard deviation, likewise (ImageNet's)") \
	KEY(with, train, FLAG, train, OWN, 0, 0, true, 0, FLAG, DEFINITION, SAME, NONE, , , , ) \
	KEY(with, shuffle, NODE, shuffle, ELSEWHERE, 0, 0, true, shuffle_read, SHUFFLE, DEFINITION, SAME, \
		OPTION, "shuffle", 0, "full|blocks", "blocks: shuffle within a window of blocks, which reads in large pieces (full)") \
	KEY(with, window, U32, window, OWN, 1, 65536, 16, 0, U32, DEFINITION, SAME, \
		OPTION, "window", 0, "N", "blocks of 8 to 16 MiB that are open at once with --shuffle blocks (16)") \
	KEY(with, drop_last, FLAG, drop_last, OWN, 0, 0, true, 0, SWITCH, DEFINITION, SAME, NONE, , , , ) \
	KEY(with, seed, U64, seed, OWN, 0, UINT64_MAX, 0, 0, U64, DEFINITION, SAME, \
		OPTION, "seed", 's', "N", "seed of order and augmentation (0)") \
	KEY(with, salt, NAME, salt, ELSEWHERE, 1, 0, 0, 0, TEXT, DEFINITION, SAME, \
		OPTION, "salt", 0, "TEXT", "other draws (crops, flips and so on) over the same order of samples") \
	/* 0: endless. An epoch's number is 32 bits of every random draw's counter. */ \
	KEY(with, epochs, U64, epochs, OWN, 0, UINT32_MAX, 0, 0, U64, READER, OWN, NONE, , , , ) \
	KEY(with, prefetch, U32, prefetch, OWN, 2, 64, 4, 0, U32, DEFINITION, OWN, NONE, , , , ) \
	KEY(with, labels, NODE, labels, ELSEWHERE, 0, 0, 0, label_keys_read, JSON, DEFINITION, SAME, \
		OPTION, "labels", 0, "LABELS", "where labels come from: auto, none, folder, cls, json or a mapping, '{manifest: labels.csv}' (auto)") \
	KEY(with, fields, NODE, fields, ELSEWHERE, 0, 0, 0, field_keys_read, JSON, DEFINITION, SAME, \
		OPTION, "fields", 0, "LIST", "bytes beside each image, by extension: '[txt, {name: npy, max: 4096, long: cut}]' (none)") \
	/* Of containers with columns: dataset/column_choice.h. */ \
	KEY(with, image_column, NAME, columns.image, ELSEWHERE, 1, 0, 0, 0, TEXT, DEFINITION, SAME, \
		OPTION, "image-column", 0, "NAME", "the column or feature that holds the images (found by its type or name)") \
	KEY(with, label_column, NAME, columns.label, ELSEWHERE, 1, 0, 0, 0, TEXT, DEFINITION, SAME, \
		OPTION, "label-column", 0, "NAME", "the column or feature that holds the labels (found by its type or name)") \
	KEY(with, label_offset, I32, columns.label_offset, ELSEWHERE, -65536, 65536, 0, 0, I32, DEFINITION, SAME, \
		OPTION, "label-offset", 0, "N", "added to each label of a column: -1 where classes begin with 1 (0)") \
	KEY(with, class_order, WORD, class_order, ELSEWHERE, 0, 0, 0, spec_class_order_names, TEXT, DEFINITION, SAME, \
		OPTION, "class-order", 0, "bytewise|natural", "numbers of class folders: bytewise, as torchvision's ImageFolder, or natural, as timm (bytewise)") \
	KEY(with, nested, FLAG, nested, OWN, 0, 0, false, 0, FLAG, DEFINITION, SAME, \
		OPTION, "nested", 0, "", "class folders that are named like splits, or hold folders only, are meant") \
	KEY(with, on_broken, WORD, on_broken, ELSEWHERE, 0, 0, 0, spec_broken_names, TEXT, DEFINITION, SAME, NONE, , , "substitute|mark|fail", ) \
	KEY(with, max_broken, REAL, max_broken, OWN, 0, 1, 0.01, 0, REAL, DEFINITION, SAME, NONE, , , , ) \
	/* What a sample may be: the same under every budget. */ \
	KEY(with, max_image_pixels, U64, max_image_pixels, OWN, 1, 1000000000, 64000000, 0, U64, DEFINITION, SAME, \
		OPTION, "max-image-pixels", 0, "N", "an image of more pixels is broken (64000000)") \
	KEY(with, max_file_bytes, U64, max_file_bytes, OWN, 1, 4294967295, 536870912, 0, U64, DEFINITION, SAME, \
		OPTION, "max-file-bytes", 0, "N", "a sample of more bytes is broken (536870912)") \
	KEY(with, decode, WORD, decode, ELSEWHERE, 0, 0, 0, spec_decode_names, TEXT, DEFINITION, SAME, \
		OPTION, "decode", 0, "exact|fast", "exact: Pillow's bytes; fast: smaller transforms where the crop is at least twice the row (exact)") \
	KEY(with, interpolation, WORD, interpolation, ELSEWHERE, 0, 0, 0, weights_filter_names, TEXT, DEFINITION, SAME, \
		OPTION, "interpolation", 0, PENSTOCK_FILTERS_DRAWN, "the filter of the resize, as Pillow's (bilinear)") \
	KEY(with, transforms, NODE, transforms, ELSEWHERE, 0, 0, 0, transforms_read, JSON, DEFINITION, SAME, \
		OPTION, "transforms", 0, "LIST", "operations on each image, as in penstock.yaml: '[RandomResizedCrop: {size: 176}, RandAugment]'") \
	KEY(with, group, NAME, group, ELSEWHERE, 0, 0, 0, 0, TEXT, READER, OWN, NONE, , , , ) \
	KEY(with, share, WORD, share, ELSEWHERE, 0, 0, 0, spec_share_names, TEXT, READER, SAME, NONE, , , "all|split", ) \
	/* Of a job: share must be split. */ \
	KEY(with, rank, U32, rank, OWN, 0, 65535, 0, 0, NONE, CLIENT, OWN, NONE, , , , ) \
	KEY(with, world_size, U32, world_size, OWN, 1, 65536, 1, 0, NONE, CLIENT, SAME, NONE, , , , ) \
	KEY(with, wait_for, U32, wait_for, OWN, 1, 1024, 1, 0, U32, READER, OWN, NONE, , , , ) \
	KEY(with, laggard, WORD, laggard, ELSEWHERE, 0, 0, 0, spec_laggard_names, TEXT, READER, OWN, NONE, , , "block|detach", ) \
	KEY(with, laggard_timeout_s, U32, laggard_timeout_s, OWN, 1, 86400, 60, 0, U32, READER, OWN, NONE, , , , ) \
	KEY(with, state, NODE, state, ELSEWHERE, 0, 0, 0, spec_state_read, NONE, CLIENT, OWN, NONE, , , , ) \
	/* The client registers the batches' memory with a device: spec_is_alone. */ \
	KEY(with, pin_memory, FLAG, pin_memory, OWN, 0, 0, false, 0, FLAG, CLIENT, OWN, NONE, , , , ) \
	/* `state` is the place of a trainer that lost its daemon or connection. */ \
	KEY(with, reconnect, FLAG, reconnect, OWN, 0, 0, false, 0, NONE, CLIENT, OWN, NONE, , , , )
// clang-format on
