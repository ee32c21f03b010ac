"""Makes golden.txt: what Pillow 13.0.0 makes of images that test_golden.c can make too.

usage: golden.py > golden.txt      with a Python that has pillow==13.0.0 and numpy

A line is: PATTERN WIDTH HEIGHT, then ops as words.h has them, then `=`, CRC-32 of the resulting bytes, and the first eight of them.
"""

import pathlib
import sys
import zlib

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "e2e/pixels"))
import augment_pillow  # noqa: E402  what Pillow does for each word

Image = augment_pillow.Image
FACTORS = (0.0, 0.3, 1.0, 1.4, 2.0, -0.7, 30.0)
SINGLE = [
    *[(name, f) for name in ("brightness", "contrast", "saturation", "sharpness") for f in FACTORS],
    *[("hue", f) for f in (-0.5, -0.1, 0.0, 0.004, 0.1, 0.37, 0.5)],
    ("grayscale",), ("invert",), ("equalize",), ("autocontrast",),
    *[("posterize", bits) for bits in (1, 4, 7, 8)],
    *[("solarize", level) for level in (0, 0.5, 110, 128, 255, 256)],
    *[("pillow_blur", radius) for radius in (0, 0.1, 0.7, 2, 9.5)],
    ("flip_horizontal",), ("flip_vertical",),
]
CHAINS = ["contrast 1.3 hue -0.1 saturation 0.6 brightness 1.2", "equalize sharpness 1.9 posterize 4 autocontrast",
          "pillow_blur 1.5 grayscale solarize 128 contrast 0.5"]
SIZES = ((1, 1), (1, 9), (7, 1), (2, 2), (3, 3), (4, 5), (33, 17), (223, 225), (224, 224))


def mixed(x):
    """The mixer of SplitMix64, as in base/hash.h."""
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def pattern(name, width, height):
    i = np.arange(3 * width * height, dtype=np.uint64)
    noise = mixed(i + np.uint64(1))
    if name == "noise":
        data = noise
    elif name == "ends":
        data = (noise & np.uint64(1)) * np.uint64(255)
    elif name == "few":
        data = noise % np.uint64(4) + np.uint64(100)
    elif name == "flat":
        data = i % np.uint64(3) * np.uint64(50) + np.uint64(7)
    elif name == "slope":
        data = (i // np.uint64(3 * width) * np.uint64(3) + i % np.uint64(3 * width)) // np.uint64(4)
    else:  # colours0 .. colours3: a quarter of all there are
        colour = i // np.uint64(3) + np.uint64(int(name[-1]) << 22)
        data = colour >> np.uint64(16) - np.uint64(8) * (i % np.uint64(3))
    return Image.fromarray((data & np.uint64(255)).astype(np.uint8).reshape(height, width, 3))


def line(name, width, height, ops):
    image, words = pattern(name, width, height), ops.split()
    while words:
        op = words.pop(0)
        numbers = []
        while words and words[0] not in augment_pillow.OPS:
            numbers.append(float(words.pop(0)))
        if op == "posterize":
            numbers = [int(numbers[0])]
        image = augment_pillow.OPS[op](image, *numbers)
    data = image.tobytes()
    print(f"{name} {width} {height} {ops} = {zlib.crc32(data):08x} {data[:8].hex()}")


def main():
    singles = [" ".join(map(str, op)) for op in SINGLE]
    for width, height in SIZES:
        for name in ("noise", "ends", "slope", "few", "flat"):
            for ops in singles + CHAINS if width > 200 or name == "noise" else singles[::3]:
                line(name, width, height, ops)
    for part in range(4):
        for ops in ("hue 0.0", "hue 0.1", "hue -0.37", "saturation 1.4", "saturation 0.6", "grayscale"):
            line(f"colours{part}", 2048, 2048, ops)


if __name__ == "__main__":
    main()
