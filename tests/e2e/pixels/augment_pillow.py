"""Compares ops on images with Pillow 13.0.0: byte for byte, torchvision's gaussian_blur (written down here once more with numpy)
within 1; on every set of kernels that this processor has.

usage: augment_pillow.py AUGMENT_DUMP [IMAGENET_FOLDER]

Prints how much was compared. Exit code 77 (skipped) where Pillow 13.0.0 or numpy is missing."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import NIGHTLY, promise
from pillow13 import PILLOW, import_pillow

np, PIL = import_pillow()
Image, Ops, Enhance = PIL.Image, PIL.ImageOps, PIL.ImageEnhance


def hue(image, factor):
    """torchvision's adjust_hue: H of HSV goes on by int32(factor * 255) in 8 bits, and wraps."""
    h, s, v = image.convert("HSV").split()
    turned = (np.asarray(h).astype(np.int32) + np.int32(factor * 255)).astype(np.uint8)
    return Image.merge("HSV", (Image.fromarray(turned), s, v)).convert("RGB")


def gray(image, *_):
    return image.convert("L").convert("RGB")


def mirrored(place, side):
    period = max(2 * (side - 1), 1)
    place = np.abs(np.asarray(place)) % period
    return np.where(place < side, place, period - place)


def gaussian(taps, sigma):
    x = np.arange(taps) - (taps - 1) / 2
    weight = np.exp(-x * x / (2 * sigma * sigma))
    return weight / weight.sum()


def blur(image, kx, ky, sx, sy):
    pixels = np.asarray(image).astype(np.float64)
    for axis, taps, sigma in ((0, ky, sy), (1, kx, sx)):
        side = pixels.shape[axis]
        pixels = sum(w * pixels.take(mirrored(np.arange(side) + t - taps // 2, side), axis)
                     for t, w in enumerate(gaussian(taps, sigma)))
    return Image.fromarray(np.rint(pixels).astype(np.uint8))


def transposed(method):
    return lambda image: image.transpose(method)


# Name -> what Pillow does, and what is drawn for it.
FACTORS = (0.0, 1.0, 0.5, 2.0, 1e-6, 1 - 1e-7, 1 + 1e-6, -0.5, 3.7, -40.0, 1000.0, 0.1, 1.9)
OPS = {
    "brightness": lambda image, f: Enhance.Brightness(image).enhance(f),
    "contrast": lambda image, f: Enhance.Contrast(image).enhance(f),
    "saturation": lambda image, f: Enhance.Color(image).enhance(f),
    "sharpness": lambda image, f: Enhance.Sharpness(image).enhance(f),
    "hue": hue,
    "grayscale": gray,
    "invert": Ops.invert,
    "posterize": lambda image, bits: Ops.posterize(image, bits),
    "solarize": lambda image, level: Ops.solarize(image, level),
    "equalize": Ops.equalize,
    "autocontrast": Ops.autocontrast,
    "blur": blur,
    "pillow_blur": lambda image, radius: image.filter(PIL.ImageFilter.GaussianBlur(radius)),
    "flip_horizontal": transposed(Image.Transpose.FLIP_LEFT_RIGHT),
    "flip_vertical": transposed(Image.Transpose.FLIP_TOP_BOTTOM),
}


def parameters(name, width, height):
    """Parameters of one op, drawn."""
    if name in ("brightness", "contrast", "saturation", "sharpness"):
        return [random.choice(FACTORS) if random.random() < 0.4 else random.uniform(0, 2)]
    if name == "hue":
        return [random.choice((0.0, 0.5, -0.5, 0.004, -0.004, random.uniform(-0.5, 0.5)))]
    if name == "posterize":
        return [random.randint(1, 8)]
    if name == "solarize":
        return [random.choice((0, 1, 128, 255, 256, 0.5, 127.4, random.uniform(0, 256)))]
    if name == "blur":
        kx, ky = (2 * random.randint(0, min(11, side - 1)) + 1 for side in (width, height))
        return [kx, ky, random.uniform(0.1, 5), random.uniform(0.1, 5)]
    if name == "pillow_blur":
        return [random.choice((0, 0.1, 0.3, 1, 2, 5.5, 40, 100, random.uniform(0.05, 3)))]
    return []


class Comparer:
    def __init__(self, dump, folder):
        self.dump, self.raw = dump, pathlib.Path(folder) / "rgb"
        self.raw.write_bytes(bytes(3))
        self.kernels = [k for k in ("c", "avx2", "avx512", "avx512-vnni", "neon") if self.supported(k)]
        self.compared = dict.fromkeys(OPS, 0)
        self.chains = 0

    def supported(self, kernels):
        code, _, error = self.run(kernels, 1, 1, "invert\n")
        if code not in (0, 3):
            sys.exit(f"augment_dump: exit code {code}: {error}")
        return code == 0

    def run(self, kernels, width, height, jobs):
        done = subprocess.run([self.dump, self.raw, str(width), str(height)], input=jobs.encode(), capture_output=True,
                              env={**os.environ, "PENSTOCK_KERNELS": kernels})
        return done.returncode, done.stdout, done.stderr.decode()

    def compare(self, image, jobs, title, kernels=None):
        """jobs: lists of (name, parameters), each list done in that order."""
        self.raw.write_bytes(image.tobytes())
        text = "".join(" ".join([word for name, numbers in job for word in (name, *map(repr, numbers))]) + "\n" for job in jobs)
        wanted = [self.expected(image, job) for job in jobs]
        for kernels in kernels or self.kernels:
            code, out, error = self.run(kernels, *image.size, text)
            size = 3 * image.width * image.height
            if code or len(out) != size * len(jobs):
                sys.exit(f"{title}: augment_dump ({kernels}): exit code {code}, {len(out)} bytes: {error}")
            for i, job in enumerate(jobs):
                got = np.frombuffer(out, np.uint8, size, i * size).reshape(image.height, image.width, 3)
                self.check(f"{title} {image.size}, {job}, kernels {kernels}", got, wanted[i], job)

    def expected(self, image, job):
        self.chains += len(job) > 1
        for name, numbers in job:
            self.compared[name] += 1
            image = OPS[name](image, *numbers)
        return np.asarray(image)

    @staticmethod
    def check(title, got, want, job):
        away = np.abs(got.astype(int) - want)
        bad = np.argwhere(away > (1 if job[-1][0] == "blur" else 0))
        if len(bad):
            y, x, c = bad[0]
            sys.exit(f"{title}: {len(bad)} bytes differ; first at x {x}, y {y}, channel {c}: {got[y, x, c]}, Pillow {want[y, x, c]}")


def noise(width, height):
    kind = random.randrange(5)
    if kind == 0:
        data = np.random.randint(0, 256, (height, width, 3), np.uint8)
    elif kind == 1:
        data = np.random.randint(0, 2, (height, width, 3), np.uint8) * 255
    elif kind == 2:  # a slope, as photographs have them
        slope = np.add.outer(np.arange(height) * 3, np.arange(width) * 5)[..., None]
        data = ((slope + [0, 40, 90]) // 4 % 256).astype(np.uint8)
    elif kind == 3:  # few levels
        data = np.random.randint(100, 104, (height, width, 3), np.uint8)
    else:  # all the same
        data = np.empty((height, width, 3), np.uint8)
        data[:] = np.random.randint(0, 256, 3, np.uint8)
    return Image.fromarray(data)


def compare_noise(comparer):
    for width, height in ((1, 1), (1, 7), (9, 1), (2, 2), (3, 3), (2, 40), (40, 2), (3, 17), (5, 4), (21, 33), (64, 64), (97, 61),
                          (223, 225), (224, 224)):
        for _ in range(5):
            jobs = [[(name, parameters(name, width, height))] for name in OPS for _ in range(3)]
            jobs += [[(n, parameters(n, width, height)) for n in random.sample([n for n in OPS if n != "blur"], 4)] for _ in range(8)]
            comparer.compare(noise(width, height), jobs, "noise")


def compare_colors(comparer):
    """All 2^24 colors, a quarter of them where it is not nightly: what goes through HSV and what is mixed with L. Only of plain C: unit.augment.kernels holds the others against it,
    over all colors too."""
    side = 2048
    for part in range(4) if NIGHTLY else [2]:
        color = np.arange(part << 22, part + 1 << 22, dtype=np.uint32)
        rgb = np.stack([color >> 16, color >> 8 & 255, color & 255], -1).astype(np.uint8).reshape(side, side, 3)
        jobs = [[("hue", [f])] for f in (0.0, 0.1, -0.37)] + [[("saturation", [1.4])], [("saturation", [0.6])], [("grayscale", [])]]
        comparer.compare(Image.fromarray(rgb), jobs, "colors", ["c"])


def compare_photographs(comparer, folder):
    files = sorted(pathlib.Path(folder).glob("*.JPEG"))
    files = files[::max(1, len(files) // 20)]
    for path in files:
        image = Image.open(path).convert("RGB").resize((224, 224))
        comparer.compare(image, [[(name, parameters(name, 224, 224))] for name in OPS], path.name)
    return len(files)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    random.seed(1)
    np.random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        comparer = Comparer(sys.argv[1], folder)
        compare_noise(comparer)
        compare_colors(comparer)
        photographs = compare_photographs(comparer, sys.argv[2]) if len(sys.argv) == 3 and os.path.isdir(sys.argv[2]) else 0
    counts = ", ".join(f"{name} {count}" for name, count in comparer.compared.items())
    figures = (f"equal to Pillow {PILLOW}: {counts}; {comparer.chains} chains of four; {photographs} photographs; "
               f"kernels {', '.join(comparer.kernels)}")
    print(figures)
    promise(figures)


if __name__ == "__main__":
    main()
