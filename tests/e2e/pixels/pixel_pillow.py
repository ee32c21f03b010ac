"""Compares the pixel stage with Pillow 13.0.0, byte for byte: crops, both orders of the passes, all
filters and fractional boxes, the evaluation recipe, what training draws, on noise and on photographs.

usage: pixel_pillow.py PIXEL_DUMP [IMAGENET_FOLDER]

Prints how much was compared. Exit code 77 (skipped) where Pillow 13.0.0 or numpy is missing."""

import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import NIGHTLY, promise
from pillow13 import PILLOW, import_pillow

np, PIL = import_pillow(venv="--torchvision" not in sys.argv)
Image = PIL.Image


def train_expected(image, height, width, x, y, w, h, flip):
    out = image.crop((x, y, x + w, y + h)).resize((width, height), Image.Resampling.BILINEAR)
    return out.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else out


def resize_expected(image, width, height, flip, name, *box):
    out = image.resize((width, height), Image.Resampling[name.upper()], box=box)
    return out.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if flip else out


def eval_expected(image, height, width):
    """torchvision's Resize(int(size * 256 / 224)), of both sides where the row is not a square, and CenterCrop(size), in
    its own arithmetic."""
    rh, rw = int(height * 256 / 224), int(width * 256 / 224)
    w, h = image.size
    if height == width:
        short, long = (w, h) if w <= h else (h, w)
        long_to = int(rh * long / short)
        rw, rh = (rh, long_to) if w <= h else (long_to, rh)
    out = image.resize((rw, rh), Image.Resampling.BILINEAR)
    top, left = int(round((rh - height) / 2.0)), int(round((rw - width) / 2.0))
    return out.crop((left, top, left + width, top + height))


def philox(counter, key):
    """Philox 4x32-10 after the paper, apart from the C code."""
    c, k, mask = list(counter), list(key), 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & mask, p0 >> 32 ^ c[3] ^ k[1], p0 & mask]
        k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
    return c


def philox_draw(seed, epoch, position, operation, step):
    mask = 0xFFFFFFFF
    counter = (position & mask, (position >> 32 & 0xFFFF) | step << 16, epoch, operation)
    return philox(counter, (seed & mask, seed >> 32))


def draw_expected(width, height, seed, epoch, position):
    """RandomResizedCrop.get_params and the flip, with Python's own exp, log, sqrt and round."""
    flip = philox_draw(seed, epoch, position, 4, 0)[0] < 1 << 31
    for attempt in range(10):
        word = philox_draw(seed, epoch, position, 3, attempt)
        unit = [v / 2**32 for v in word]
        area = width * height * (0.08 + unit[0] * 0.92)
        low, high = math.log(3 / 4), math.log(4 / 3)
        ratio = math.exp(low + unit[1] * (high - low))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return word[3] * (width - w + 1) >> 32, word[2] * (height - h + 1) >> 32, w, h, flip
    w, h = width, height
    if width / height < 3 / 4:
        h = round(w / (3 / 4))
    elif width / height > 4 / 3:
        w = round(h * (4 / 3))
    return (width - w) // 2, (height - h) // 2, w, h, flip


def pad_expected(image, left, top, right, bottom, mode, fill):
    """torchvision's F.pad of a PIL image: ImageOps.expand, or numpy.pad."""
    if mode == "constant":
        out = Image.new("RGB", (image.width + left + right, image.height + top + bottom), fill)
        out.paste(image, (left, top))
        return out
    return Image.fromarray(np.pad(np.asarray(image), ((top, bottom), (left, right), (0, 0)), mode))


PADDINGS = ("constant", "edge", "reflect", "symmetric")


def crop_resized(image, resize):
    """torchvision's Resize(resize); 0: none."""
    w, h = image.size
    if not resize:
        return image
    short, long = (w, h) if w <= h else (h, w)
    long_to = int(resize * long / short)
    return image.resize((resize, long_to) if w <= h else (long_to, resize), Image.Resampling.BILINEAR)


def random_crop_expected(image, height, width, seed, epoch, position, mode, sides, fill):
    """RandomCrop(size, padding, True, fill, mode), and where it is cut."""
    out = pad_expected(image, *sides, mode, fill)
    if out.width < width:
        more = width - out.width
        out = pad_expected(out, more, 0, more, 0, mode, fill)
    if out.height < height:
        more = height - out.height
        out = pad_expected(out, 0, more, 0, more, mode, fill)
    word = philox_draw(seed, epoch, position, 10, 0)
    i = (word[0] << 32 | word[1]) * (out.height - height + 1) >> 64
    j = (word[2] << 32 | word[3]) * (out.width - width + 1) >> 64
    return out.crop((j, i, j + width, i + height)), (j, i)


def center_crop_expected(image, height, width):
    """torchvision's CenterCrop, which pads with zeros; and where it is cut."""
    sides = [max(width - image.width, 0), max(height - image.height, 0)]
    out = pad_expected(image, sides[0] // 2, sides[1] // 2, (sides[0] + 1) // 2, (sides[1] + 1) // 2, "constant",
                       (0, 0, 0))
    top, left = int(round((out.height - height) / 2.0)), int(round((out.width - width) / 2.0))
    return out.crop((left, top, left + width, top + height)), (left, top)


def crop_expected(image, height, width, seed, epoch, position, resize, flip, mode, *numbers):
    image = crop_resized(image, resize)
    if mode < 0:
        out, place = center_crop_expected(image, height, width)
    else:
        out, place = random_crop_expected(image, height, width, seed, epoch, position, PADDINGS[mode], numbers[:4],
                                          tuple(numbers[4:]))
    return out.transpose(Image.Transpose.ROTATE_180) if flip else out, place


class Comparer:
    def __init__(self, dump, folder):
        self.dump, self.raw = dump, pathlib.Path(folder) / "rgb"
        self.variants = [v for v in ("c", "avx2", "avx512", "avx512-vnni") if self.supported(v)]
        self.crops = self.evals = self.draws = self.vertical = self.resizes = self.windows = 0

    def supported(self, variant):
        self.raw.write_bytes(bytes(3))
        code, out, error = self.run(variant, 1, 1, "eval 1 1\n")
        if code not in (0, 3):
            sys.exit(f"pixel_dump: exit code {code}: {error}")
        return code == 0

    def run(self, variant, width, height, jobs):
        done = subprocess.run(
            [self.dump, self.raw, str(width), str(height)], input=jobs.encode(),
            capture_output=True, env={**os.environ, "PENSTOCK_KERNELS": variant})
        return done.returncode, done.stdout, done.stderr.decode()

    def compare(self, image, jobs, name):
        """jobs: lines for pixel_dump, ("train", ...), ("eval", height, width), ("draw", ...), ("crop", ...) or
        ("resize", ...)."""
        self.raw.write_bytes(image.tobytes())
        text = "".join(" ".join(str(int(v) if isinstance(v, bool) else v) for v in job) + "\n"
                       for job in jobs)
        variant = random.choice(self.variants)
        code, out, error = self.run(variant, *image.size, text)
        if code:
            sys.exit(f"{name}: pixel_dump ({variant}): exit code {code}: {error}")
        plans, at = iter(error.splitlines()), 0
        for job in jobs:
            size = 3 * job[1] * job[2]
            got = out[at:at + size]
            at += size
            want = self.expected(image, job, plans)
            if got != want.tobytes():
                self.differ(name, variant, image, job, got, np.asarray(want))
        if at != len(out):
            sys.exit(f"{name}: {len(out)} bytes, expected {at}")

    def expected(self, image, job, plans):
        if job[0] == "eval":
            self.evals += 1
            return eval_expected(image, *job[1:])
        if job[0] == "crop":
            self.windows += 1
            out, place = crop_expected(image, *job[1:])
            got = tuple(int(v) for v in next(plans).split())
            if got != place:
                sys.exit(f"{job} of {image.size}: window at {got}, expected {place}")
            return out
        if job[0] == "resize":
            self.resizes += 1
            return resize_expected(image, *job[1:])
        if job[0] == "draw":
            self.draws += 1
            crop = draw_expected(*image.size, *job[3:])
            got = tuple(int(v) for v in next(plans).split())
            if got != tuple(int(v) for v in crop):
                sys.exit(f"{job} of {image.size}: drew {got}, expected {crop}")
            return train_expected(image, *job[1:3], *crop)
        height, width, _, _, w, h, _ = job[1:]
        self.crops += 1
        self.vertical += h - height > max(0, 2 * (w - width))
        return train_expected(image, *job[1:])

    @staticmethod
    def differ(name, variant, image, job, got, want):
        got = np.frombuffer(got, np.uint8).reshape(want.shape)
        bad = np.argwhere(got != want)
        y, x, c = bad[0]
        sys.exit(f"{name} {image.size}, job {job}, kernels {variant}: {len(bad)} bytes differ; first "
                 f"at x {x}, y {y}, channel {c}: {got[y, x, c]}, Pillow {want[y, x, c]}")


def noise(width, height):
    kind = random.randrange(3)
    if kind == 0:
        data = np.random.randint(0, 256, (height, width, 3), np.uint8)
    elif kind == 1:  # only the ends of the range: every rounding and clip is visible
        data = np.random.randint(0, 2, (height, width, 3), np.uint8) * 255
    else:  # a slope, as photographs have them
        slope = np.add.outer(np.arange(height) * 3, np.arange(width) * 5)[..., None]
        data = ((slope + [0, 40, 90]) // 4 % 256).astype(np.uint8)
    return Image.fromarray(data)


def rectangle(size, *others):
    """The square, or (height, width) of which one is `size`."""
    other = random.choice((size, size, size, *others))
    return random.choice(((size, other), (other, size)))


def random_crop(width, height, size):
    to = rectangle(size, 1, 3, 2 * size, 128)
    w, h = random.randint(1, width), random.randint(1, height)
    if random.random() < 0.1 and width >= to[1]:
        w = to[1]  # a pass that Pillow leaves out
    if random.random() < 0.1 and height >= to[0]:
        h = to[0]
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    return ("train", *to, x, y, w, h, random.random() < 0.5)


FILTERS = ("bilinear", "bicubic", "box", "hamming", "lanczos", "nearest")


def random_part(side):
    """All of a side, whole pixels of it, or a part that begins and ends anywhere: as floats of 32 bits,
    which Pillow makes of them."""
    kind = random.randrange(3)
    if kind == 0:
        return 0.0, float(side)
    low = random.uniform(0, side)
    high = random.uniform(low, side)
    if kind == 1 or high - low < 0.01:
        low = math.floor(low)
        high = random.randint(low + 1, side) if low < side else side
        low = min(low, side - 1)
    return float(np.float32(low)), float(np.float32(high))


def random_resize(width, height, name):
    to = [random.choice((1, 2, 3, 7, 31, 32, 33, 64, 65, 160, 224, 300)) for _ in range(2)]
    if random.random() < 0.2:
        to = [random.choice((to[0], width)), random.choice((to[1], height))]
    (x0, x1), (y0, y1) = random_part(width), random_part(height)
    return ("resize", min(to[0], 2048), min(to[1], 2048), random.random() < 0.5, name, x0, y0, x1, y1)


def compare_filters(comparer):
    for width, height in ((1, 1), (1, 300), (300, 1), (2, 2), (3, 5), (97, 61), (500, 375), (375, 500),
                          (224, 224), (1500, 40), (40, 1500), (640, 480), (5000, 7), (7, 5000),
                          (2300, 1700), (900, 6000), (20000, 3), (3, 20000)):
        count = 2 if width * height > 10**6 else 14
        for _ in range(2):
            jobs = [random_resize(width, height, name) for name in FILTERS for _ in range(count)]
            comparer.compare(noise(width, height), jobs, "filters")


def random_window(width, height):
    size = random.choice((1, 2, 7, 31, 32, 33, 64, 224))
    to = rectangle(size, 1, 5, 48, 2 * size)
    mode = random.randrange(-1, 4)
    most = random.choice((0, 4, 40))
    sides = [random.randint(0, most) for _ in range(4)] if mode >= 0 else [0] * 4
    resize = random.choice((0, 0, size, size + 5, max(size - 3, 1)))
    if max(width, height) > 50 * min(width, height):
        resize = 0
    fill = [random.randrange(256) for _ in range(3)] if mode >= 0 else [0] * 3
    return ("crop", *to, random.getrandbits(64), random.getrandbits(32), random.getrandbits(48), resize,
            random.random() < 0.5, mode, *sides, *fill)


def compare_windows(comparer):
    for width, height in ((1, 1), (1, 300), (300, 1), (2, 2), (3, 5), (32, 32), (31, 33), (97, 61), (224, 224),
                          (225, 223), (500, 375)):
        image = noise(width, height)
        jobs = [random_window(width, height) for _ in range(120)]
        if (width, height) == (32, 32):  # CIFAR's
            jobs += [("crop", 32, 32, 5, 0, i, 0, False, mode, 4, 4, 4, 4, 0, 0, 0)
                     for mode in range(4) for i in range(40)]
        comparer.compare(image, jobs, "windows")


def boundary_crops(image):
    """Crops on both sides of the rule that decides which pass is first."""
    jobs = []
    for size in (1, 8, 31, 64):
        for w in (1, size - 3, size - 1, size, size + 1, size + 20):
            for lower in (2 * (w - size) + d for d in (-1, 0, 1, 2)):
                h = size + lower
                if 1 <= w <= image.width and 1 <= h <= image.height:
                    jobs.append(("train", size, size, 0, 0, w, h, False))
        jobs += [("train", size, size, 0, 0, w, size + 1, True) for w in (1, size // 2 + 1, size)]
    return jobs


def compare_noise(comparer):
    for width, height in ((1, 1), (1, 300), (300, 1), (2, 2), (3, 5), (97, 61), (500, 375),
                          (375, 500), (224, 224), (256, 256), (1500, 40), (40, 1500), (640, 480),
                          (3000, 9), (9, 3000), (5000, 7), (4097, 600), (150, 4100), (4200, 8700)):
        image = noise(width, height)
        large = width * height > 10**7
        sizes = [random.choice((1, 2, 7, 32, 63, 64, 65, 160, 224, 299)) for _ in range(110 if NIGHTLY else 40)]
        jobs = [random_crop(width, height, size) for size in sizes[:8 if large else None]]
        if large:  # wider than a block, vertically first
            jobs += [("train", 64, 64, 37, 0, 4150, 8650, True), ("train", 7, 7, 0, 3, 4200, 8600, False)]
        jobs += [("draw", *rectangle(32, 20), random.getrandbits(64), random.getrandbits(32), random.getrandbits(48))
                 for _ in range(20)]
        if max(width, height) < 1000 * min(width, height):
            jobs += [("eval", *size) for size in ((1, 1), (3, 3), (32, 32), (33, 33), (224, 224), (256, 128), (7, 64))]
        comparer.compare(image, jobs, "noise")
    comparer.compare(noise(90, 200), boundary_crops(noise(90, 200)), "boundary")


def compare_photographs(comparer, folder):
    files = sorted(pathlib.Path(folder).glob("*.JPEG"))
    for path in files:
        image = Image.open(path).convert("RGB")
        jobs = [random_crop(*image.size, 224), ("eval", 224, 224), ("eval", 256, 128)]
        jobs += [("draw", *rectangle(224, 128), 7, 1, random.getrandbits(48)) for _ in range(4 if NIGHTLY else 1)]
        comparer.compare(image, jobs, path.name)
    return len(files)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    random.seed(1)
    np.random.seed(1)
    Image.MAX_IMAGE_PIXELS = None
    with tempfile.TemporaryDirectory() as folder:
        comparer = Comparer(sys.argv[1], folder)
        compare_noise(comparer)
        compare_filters(comparer)
        compare_windows(comparer)
        photographs = 0
        if len(sys.argv) == 3 and os.path.isdir(sys.argv[2]):
            photographs = compare_photographs(comparer, sys.argv[2])
    figures = (f"equal to Pillow {PILLOW}: {comparer.crops} crops ({comparer.vertical} vertically first), "
               f"{comparer.resizes} resizes by all filters and boxes, {comparer.windows} padded windows, "
               f"{comparer.draws} drawn crops, {comparer.evals} evaluations, {photographs} photographs, "
               f"kernels {', '.join(comparer.variants)}")
    print(figures)
    promise(figures)


if __name__ == "__main__":
    main()
