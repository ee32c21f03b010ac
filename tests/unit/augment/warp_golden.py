"""Makes warp_golden.h: hashes of what Pillow 13.0.0 makes of an image by each filter, kind and way of a transform.

usage: warp_golden.py > warp_golden.h    (with Pillow 13.0.0)"""

import sys

import PIL.Image as Image

MATRICES = (
    (0.9, -0.3, 20.25, 0.3, 0.9, -30.5, 0, 0),  # turned
    (1, 0.25, -7, 0, 1, 0, 0, 0),  # sheared
    (1, 0, 10, 0, 1, -3, 0, 0),  # moved by whole pixels
    (1.7, 0, -12.3, 0, 0.4, 5.5, 0, 0),  # scaled
    (-1, 0, 50, 0, -1, 50, 0, 0),
    (700, 3, -40000, 1, 500, -30000, 0, 0),  # beyond the fixed point
    (1, 2, 3, 2, 4, 6, 0, 0),  # singular
    (1.1, 0.2, -5, 0.1, 0.9, 4, 0.002, -0.001),
    (1, 0, 0, 0, 1, 0, 0.02, 0.01),
)
SIZES = ((1, 1), (1, 40), (40, 1), (97, 61), (224, 224), (223, 225))
FILTERS = ("NEAREST", "BILINEAR", "BICUBIC")


def image(width, height):
    number, data = 1, bytearray()
    for _ in range(3 * width * height):
        number = (number * 1664525 + 1013904223) & 0xFFFFFFFF
        data.append(number >> 24)
    return Image.frombytes("RGB", (width, height), bytes(data))


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    if Image.__version__ != "13.0.0":
        sys.exit(f"Pillow {Image.__version__}: expected 13.0.0")
    print("/* Made by warp_golden.py with Pillow 13.0.0; fill is 200, 100, 50. */\n#pragma once\n")
    print('#include "augment/op.h"\n')
    print("static const struct warp_golden {\n\tenum op_kind kind;\n\tenum weights_filter filter;")
    print("\tuint32_t width, height;\n\tdouble matrix[OP_MATRIX];\n\tuint64_t hash;\n} warp_golden[] = {")
    for width, height in SIZES:
        source = image(width, height)
        for name in FILTERS:
            for kind, count in (("AFFINE", 6), ("PERSPECTIVE", 8)):
                for matrix in MATRICES:
                    if kind == "AFFINE" and any(matrix[6:]):
                        continue
                    out = source.transform(source.size, Image.Transform[kind], matrix[:count],
                                           Image.Resampling[name], fillcolor=(200, 100, 50))
                    numbers = ", ".join(repr(v) for v in matrix)
                    print(f"\t{{OP_{kind}, WEIGHTS_{name}, {width}, {height},\n\t\t{{{numbers}}},\n"
                          f"\t\t0x{fnv(out.tobytes()):016x}}},")
    print("};")


if __name__ == "__main__":
    main()
