"""Compares rotations, shears, translations, perspectives and flips with Pillow 13.0.0, byte for byte: plain
matrices of every kind and filter, extreme ones among them, and what torchvision's functions come to; the latter
with torchvision itself where this Python has it, otherwise with its formulas.

usage: warp_pillow.py WARP_DUMP [--torch]

With --torch it is torchvision's functions that are compared with. Prints how much was compared. Exit code 77
(skipped) where Pillow 13.0.0, numpy or, with --torch, torchvision is missing."""

import fractions
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pillow13 import PILLOW, import_pillow, skip

TORCH = "--torch" in sys.argv


def import_torchvision():
    try:
        import torchvision.transforms.functional as functional
    except ImportError as error:
        skip(error)
    return functional


np, PIL = import_pillow(venv=not TORCH)
Image, F = PIL.Image, import_torchvision() if TORCH else None
FILTERS = ("nearest", "bilinear", "bicubic")
AFFINE, PERSPECTIVE = 15, 16  # enum op_kind


def resampling(name):
    return Image.Resampling[name.upper()]


def mode(name):
    return getattr(__import__("torchvision.transforms", fromlist=["x"]).InterpolationMode, name.upper())


# --- what is expected; each of (image, filter, fill, numbers) ---

def affine(image, name, fill, numbers):
    return image.transform(image.size, Image.Transform.AFFINE, numbers, resampling(name), fillcolor=fill)


def perspective(image, name, fill, numbers):
    return image.transform(image.size, Image.Transform.PERSPECTIVE, numbers, resampling(name), fillcolor=fill)


def horizontal(image, *_):
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vertical(image, *_):
    return image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def turn(image, name, fill, numbers):
    center = numbers[1:] or None
    if F:
        return F.rotate(image, numbers[0], mode(name), center=center, fill=fill)
    return image.rotate(numbers[0], resampling(name), False, center, fillcolor=fill)


def move(image, name, fill, numbers):
    angle, tx, ty, scale, sx, sy, *center = numbers
    if F:
        return F.affine(image, angle, [tx, ty], scale, [sx, sy], mode(name), fill, center or None)
    return affine(image, name, fill, move_matrix(image, numbers))


def move_matrix(image, numbers):
    """The inverse of: to the centre, shear, rotate, scale, back, translate; as torchvision composes it."""
    angle, tx, ty, scale, sx, sy, *center = numbers
    cx, cy = center or (image.width * 0.5, image.height * 0.5)
    rot, sx, sy = (math.radians(v) for v in (angle, sx, sy))
    cosine, sine = math.cos(rot - sy), math.sin(rot - sy)
    a, c = cosine / math.cos(sy), sine / math.cos(sy)
    b = -cosine * math.tan(sx) / math.cos(sy) - math.sin(rot)
    d = -sine * math.tan(sx) / math.cos(sy) + math.cos(rot)
    m = [v / scale for v in (d, -b, 0.0, -c, a, 0.0)]
    m[2] = m[0] * (-cx - tx) + m[1] * (-cy - ty) + cx
    m[5] = m[3] * (-cx - tx) + m[4] * (-cy - ty) + cy
    return m


def solve(rows):
    """Gauss, in fractions; None where it cannot be."""
    count = len(rows)
    for i in range(count):
        pivot = next((k for k in range(i, count) if rows[k][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(count):
            if k != i and rows[k][i]:
                rows[k] = [v - rows[k][i] * w for v, w in zip(rows[k], rows[i])]
    return [row[-1] for row in rows]


def corners_of(image):
    w, h = image.width - 1, image.height - 1
    return [[0, 0], [w, 0], [w, h], [0, h]]


def tilt_matrix(image, numbers):
    rows = []
    for (u, v), x, y in zip(corners_of(image), numbers[::2], numbers[1::2]):
        rows.append([fractions.Fraction(n) for n in (x, y, 1, 0, 0, 0, -u * x, -u * y, u)])
        rows.append([fractions.Fraction(n) for n in (0, 0, 0, x, y, 1, -v * x, -v * y, v)])
    solution = solve(rows)
    return solution and [float(np.float32(float(v))) for v in solution]


def tilt(image, name, fill, numbers):
    if F:
        ends = [[int(x), int(y)] for x, y in zip(numbers[::2], numbers[1::2])]
        return F.perspective(image, corners_of(image), ends, mode(name), fill)
    matrix = tilt_matrix(image, numbers)
    return perspective(image, name, fill, matrix) if matrix else image


def policy(name):
    def run(image, filter_name, fill, numbers):
        if F:
            from torchvision.transforms.autoaugment import _apply_op
            return _apply_op(image, name, numbers[0], mode(filter_name), list(fill))
        shear = math.degrees(math.atan(numbers[0]))
        whole = int(numbers[0])
        return move(image, filter_name, fill, {
            "ShearX": (0.0, 0, 0, 1.0, shear, 0.0, 0, 0), "ShearY": (0.0, 0, 0, 1.0, 0.0, shear, 0, 0),
            "TranslateX": (0.0, whole, 0, 1.0, 0.0, 0.0), "TranslateY": (0.0, 0, whole, 1.0, 0.0, 0.0)}[name])
    return run


EXPECTED = {
    "affine": affine, "perspective": perspective, "horizontal": horizontal, "vertical": vertical, "turn": turn,
    "turn_about": turn, "move": move, "move_about": move, "tilt": tilt, "shear_x": policy("ShearX"),
    "shear_y": policy("ShearY"), "translate_x": policy("TranslateX"), "translate_y": policy("TranslateY"),
}
# Of these Pillow's bytes are a matter of the matrix alone.
PLAIN = {"affine", "perspective", "horizontal", "vertical"}
# What may differ of the others, since libm's sines (and LAPACK's solutions) are not the nearest double always.
TOLERATED = 0.01


def carried_out(image, name, fill, op):
    """What Pillow makes of the very op that the job came to; None where it is none of its own."""
    if op == "stays":
        return image
    kind, amount, *matrix = op.split()
    matrix = [float.fromhex(v) for v in matrix]
    if int(kind) == AFFINE:
        return affine(image, name, fill, matrix[:6])
    if int(kind) == PERSPECTIVE:
        return perspective(image, name, fill, matrix)
    turns = Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270
    return image.transpose(turns[int(float.fromhex(amount)) - 1])


class Comparer:
    def __init__(self, dump, folder):
        self.dump, self.raw = dump, pathlib.Path(folder) / "rgb"
        self.variants = [v for v in ("c", "avx2", "avx512", "avx512-vnni") if self.supported(v)]
        self.count = dict.fromkeys(EXPECTED, 0)
        self.other = dict.fromkeys(EXPECTED, 0)

    def supported(self, variant):
        self.raw.write_bytes(bytes(3))
        code, _, error = self.run(variant, 1, 1, "horizontal nearest 0 0 0\n")
        if code not in (0, 3):
            sys.exit(f"warp_dump: exit code {code}: {error}")
        return code == 0

    def run(self, variant, width, height, jobs):
        done = subprocess.run(
            [self.dump, self.raw, str(width), str(height)], input=jobs.encode(),
            capture_output=True, env={**os.environ, "PENSTOCK_KERNELS": variant})
        return done.returncode, done.stdout, done.stderr.decode()

    def compare(self, image, jobs):
        """jobs: (kind, filter, fill, numbers)."""
        self.raw.write_bytes(image.tobytes())
        text = "".join(" ".join([kind, name, *map(str, fill), *(number(v) for v in numbers)]) + "\n"
                       for kind, name, fill, numbers in jobs)
        variant = random.choice(self.variants)
        code, out, error = self.run(variant, *image.size, text)
        if code:
            sys.exit(f"warp_dump ({variant}): exit code {code}: {error}")
        size = 3 * image.width * image.height
        if len(out) != size * len(jobs):
            sys.exit(f"{len(out)} bytes, expected {size * len(jobs)}")
        for i, (job, op) in enumerate(zip(jobs, error.splitlines())):
            self.count[job[0]] += 1
            self.judge(image, job, op, out[i * size:(i + 1) * size], variant)

    def judge(self, image, job, op, got, variant):
        kind, name, fill, numbers = job
        want = EXPECTED[kind](image, name, fill, numbers)
        if got == want.tobytes():
            return
        if kind not in PLAIN:
            self.other[kind] += 1
            want = carried_out(image, name, fill, op)
        want = np.asarray(want)
        got = np.frombuffer(got, np.uint8).reshape(want.shape)
        bad = np.argwhere(got != want)
        if not len(bad):
            return
        y, x, c = bad[0]
        sys.exit(f"{image.size}, job {job}, op {op}, kernels {variant}: {len(bad)} bytes differ; first "
                 f"at x {x}, y {y}, channel {c}: {got[y, x, c]}, expected {want[y, x, c]}")

    def judge_all(self):
        for kind, other in self.other.items():
            if other > TOLERATED * self.count[kind]:
                sys.exit(f"of {self.count[kind]} images by {kind} {other} are others than expected")


def number(value):
    if isinstance(value, float) and math.isfinite(value):
        return value.hex()
    return str(value)


def noise(width, height):
    return Image.fromarray(np.random.randint(0, 256, (height, width, 3), np.uint8))


SIZES = ((1, 1), (1, 7), (7, 1), (2, 2), (3, 5), (17, 16), (32, 32), (33, 64), (97, 61), (223, 225), (224, 224),
         (1, 2048), (2048, 1), (500, 375))


def random_fill():
    return random.choice(((0, 0, 0), (128, 128, 128), (255, 0, 7),
                          tuple(random.randrange(256) for _ in range(3))))


def jobs_plain(width, height, count):
    """Matrices near the identity, anywhere, at the edges, and those that no sane recipe has."""
    jobs = []
    special = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-9, 1e9, -1e9, 1e300, 32768.0, -32768.0, 65536.0, 1 / 65536,
               float(width), float(height), -float(width), float("inf"), float("-inf"), float("nan"))
    for _ in range(count):
        near = [random.gauss(base, 0.3) for base in (1, 0, 0, 0, 1, 0)]
        near[2] = random.uniform(-width, width)
        near[5] = random.uniform(-height, height)
        far = [random.gauss(0, 10 ** random.uniform(-3, 5)) for _ in range(6)]
        odd = [random.choice(special) for _ in range(6)]
        some = [random.choice(special) if random.random() < 0.2 else v for v in near]
        halves = [random.randrange(-8, 9) / 4 for _ in range(6)]
        scale = [random.choice((1.0, 2.0, 0.5, -1.0, random.gauss(0, 2))), 0.0, random.uniform(-width, width),
                 0.0, random.choice((1.0, 2.0, 0.5, -1.0, random.gauss(0, 2))), random.uniform(-height, height)]
        for matrix in (near, far, odd, some, halves, scale):
            for name in FILTERS:
                jobs.append(("affine", name, random_fill(), matrix))
                deep = [random.choice((0.0, random.gauss(0, 1 / width))), random.gauss(0, 1 / height)]
                deep = random.choice((deep, [random.choice(special) for _ in range(2)]))
                jobs.append(("perspective", name, random_fill(), [*matrix, *deep]))
    return jobs


def jobs_functions(width, height, count):
    jobs = [(kind, "nearest", (0, 0, 0), ()) for kind in ("horizontal", "vertical")]

    def add(kind, *numbers):
        jobs.append((kind, random.choice(FILTERS), random_fill(), numbers))

    for angle in (0, 90, 180, 270, 360, -90, -180, 450, 45, 1e-6, -1e-6, 89.99999, 720):
        add("turn", angle)
        add("turn_about", angle, width / 2, height / 2)
        add("turn_about", angle, 0, 0)
    for _ in range(count):
        add("turn", random.uniform(-400, 400))
        add("turn", random.randrange(-30, 31))
        add("turn_about", random.uniform(-400, 400), random.randrange(-9, width + 9), random.uniform(0, height))
        place = random.randrange(-width, width + 1), random.randrange(-height, height + 1)
        lean = random.uniform(-60, 60), random.choice((0.0, random.uniform(-60, 60)))
        angle = random.choice((0.0, random.uniform(-180, 180)))
        scale = random.choice((1.0, random.uniform(0.1, 3)))
        add("move", angle, *place, scale, *lean)
        add("move_about", angle, *place, scale, *lean, random.randrange(width), random.randrange(height))
        add("shear_x", random.choice((0.0, random.uniform(-1, 1))))
        add("shear_y", random.uniform(-1, 1))
        add("translate_x", random.uniform(-width, width))
        add("translate_y", random.choice((0.0, random.uniform(-height, height))))
    # Of one pixel torchvision makes no equations that can be solved; of few, more of what is exactly zero.
    if min(width, height) > (30 if F else 1):
        jobs += [("tilt", random.choice(FILTERS), random_fill(), tilt_drawn(width, height))
                 for _ in range(count)]
    return jobs


def tilt_drawn(width, height):
    """As RandomPerspective draws corners."""
    scale = random.choice((0.1, 0.5, 0.9))
    in_x, in_y = (int(scale * (side // 2)) for side in (width, height))
    x = [random.randint(0, in_x), random.randrange(width - in_x - 1, width),
         random.randrange(width - in_x - 1, width), random.randint(0, in_x)]
    y = [random.randint(0, in_y), random.randint(0, in_y),
         random.randrange(height - in_y - 1, height), random.randrange(height - in_y - 1, height)]
    return tuple(v for corner in zip(x, y) for v in corner)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    random.seed(1)
    np.random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        comparer = Comparer(sys.argv[1], folder)
        for width, height in SIZES:
            rounds = 4 if width * height > 40000 else 12
            comparer.compare(noise(width, height), jobs_plain(width, height, rounds))
            comparer.compare(noise(width, height), jobs_functions(width, height, 3 * rounds))
    print(f"equal to {'torchvision on ' if F else ''}Pillow {PILLOW}: "
          + ", ".join(f"{count} {kind}" for kind, count in comparer.count.items())
          + f"; kernels {', '.join(comparer.variants)}")
    print(f"not equal, by a last bit of libm's or LAPACK's: {sum(comparer.other.values())}")
    comparer.judge_all()


if __name__ == "__main__":
    main()
