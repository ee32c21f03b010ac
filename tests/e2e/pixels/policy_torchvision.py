#!/usr/bin/env python3
"""RandAugment, TrivialAugmentWide, AutoAugment and AugMix against torchvision's own.

    policy_torchvision.py POLICY_DUMP [IMAGENET_FOLDER]    POLICY_DUMP: the program of policy_dump.c
    policy_torchvision.py --write                          writes unit/augment/policies.txt anew

The tables: every magnitude for many numbers of bins and sizes, to the last bit; policies.txt is what torchvision says.
The operations: each by its name, at each of its magnitudes and with both signs, on PIL images, byte for byte. AugMix's mixing
of what its operations make of PIL images, byte for byte.

Needs torch and torchvision; without them it says so and ends with 77. Last run with torch 2.15.0, torchvision 0.29.2."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import PIL.Image
    import torch
    import torchvision
    from torchvision.transforms import autoaugment
    from torchvision.transforms.functional import InterpolationMode
except ImportError as error:
    print(f"skipped: {error} (pip install torch torchvision)")
    sys.exit(77)

POLICIES = pathlib.Path(__file__).resolve().parents[2] / "unit" / "augment" / "policies.txt"
FILTERS = {
    "nearest": InterpolationMode.NEAREST,
    "bilinear": InterpolationMode.BILINEAR,
    "bicubic": InterpolationMode.BICUBIC,
}
FILL = [10, 200, 90]
WAYS = (("nearest", None), ("nearest", FILL), ("bilinear", FILL), ("bicubic", FILL))
# What policies.txt has: each space with its defaults, odd numbers of bins, sides that are not alike.
TABLES = [("rand", 31, 224, 224), ("rand", 10, 224, 224), ("trivial", 31, 224, 224), ("augmix", 10, 224, 224),
          ("rand", 2, 97, 2048), ("rand", 14, 320, 192), ("trivial", 7, 32, 32), ("augmix", 10, 160, 97)]


def space(name, bins, width, height):
    """{operation: (magnitudes or None, signed)}"""
    if name == "trivial":
        table = autoaugment.TrivialAugmentWide()._augmentation_space(bins)
    else:
        kind = autoaugment.RandAugment if name == "rand" else autoaugment.AugMix
        table = kind()._augmentation_space(bins, (height, width))
    if name == "rand":
        table["Invert"] = (torch.tensor(0.0), False)  # AutoAugment's
    return {op: (magnitudes.tolist() if magnitudes.ndim else None, signed) for op, (magnitudes, signed) in table.items()}


def expected_table(*table):
    """{operation: magnitudes}"""
    return {op: [float(m) for m in magnitudes] for op, (magnitudes, _) in space(*table).items() if magnitudes}


# --- policies.txt ---


def policies_text():
    lines = ["# torchvision's magnitudes and policies; written by e2e/pixels/policy_torchvision.py --write",
             "# SPACE BINS WIDTH HEIGHT OPERATION MAGNITUDE ...; POLICY NUMBER OPERATION P BIN OPERATION P BIN"]
    for table in TABLES:
        for op, magnitudes in sorted(expected_table(*table).items()):
            lines.append(" ".join(map(str, table)) + f" {op} " + " ".join(m.hex() for m in magnitudes))
    for policy in autoaugment.AutoAugmentPolicy:
        for number, ops in enumerate(autoaugment.AutoAugment(policy).policies):
            lines.append(f"{policy.value} {number} " + " ".join(f"{op} {p} {0 if bin is None else bin}" for op, p, bin in ops))
    return "\n".join(lines) + "\n"


def compare_policies():
    if POLICIES.read_text() != policies_text():
        sys.exit(f"{POLICIES.name} is not what torchvision {torchvision.__version__} says: look at the difference, "
                 "then write it anew with --write")


# --- the program ---


class Dump:
    def __init__(self, program, folder):
        self.program, self.raw = program, pathlib.Path(folder) / "rgb"
        self.images = 0

    def run(self, arguments, lines):
        done = subprocess.run([self.program, *arguments], input="".join(line + "\n" for line in lines).encode(),
                              capture_output=True)
        if done.returncode:
            sys.exit(f"policy_dump: exit code {done.returncode}: {done.stderr.decode()}")
        return done.stdout

    def table(self, *table):
        rows = (line.split() for line in self.run(["tables"], [" ".join(map(str, table))]).decode().splitlines())
        return {row[0]: [float.fromhex(m) for m in row[1:]] for row in rows}

    def compare(self, image, jobs):
        """jobs: (line for policy_dump, image that is expected)."""
        self.raw.write_bytes(image.tobytes())
        size = 3 * image.width * image.height
        out = self.run([self.raw, str(image.width), str(image.height)], [line for line, _ in jobs])
        if len(out) != size * len(jobs):
            sys.exit(f"policy_dump: {len(out)} bytes, expected {size * len(jobs)}")
        for i, (line, want) in enumerate(jobs):
            got = np.frombuffer(out, np.uint8, size, i * size).reshape(image.height, image.width, 3)
            bad = np.argwhere(got != np.asarray(want))
            if len(bad):
                y, x, c = bad[0]
                sys.exit(f"{image.size} {line}: {len(bad)} bytes differ; first at x {x}, y {y}, channel {c}: {got[y, x, c]}, "
                         f"torchvision {np.asarray(want)[y, x, c]}")
        self.images += len(jobs)


# --- tables ---


def compare_tables(dump):
    tables = [(name, bins, width, height) for name in ("rand", "trivial", "augmix") for bins in (*range(2, 65), 100, 255, 1000)
              for width, height in ((224, 224), (random.randint(1, 2048), random.randint(1, 2048)))]
    for table in tables:
        got = dump.table(*table)
        for op, magnitudes in expected_table(*table).items():
            if got[op] != magnitudes:
                sys.exit(f"{table} {op}: {got[op]}, torchvision {magnitudes}")
    return len(tables)


# --- operations ---

WARPS = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")


def applied(image, op, magnitude, filter, fill):
    if op == "Posterize" and magnitude == 0:  # AugMix's from severity 9 on: Pillow 13 refuses it, on tensors it is black
        return PIL.Image.new("RGB", image.size)
    return autoaugment._apply_op(image, op, magnitude, FILTERS[filter], fill)


def beginning(name, bins, filter, fill):
    return f"{name} {bins} {filter} " + " ".join(map(str, fill or [0, 0, 0]))


def operation_jobs(image, name, bins, filter, fill):
    jobs = []
    for op, (magnitudes, signed) in space(name, bins, *image.size).items():
        if op not in WARPS and (filter, fill) != WAYS[0]:
            continue
        for bin, magnitude in enumerate(magnitudes or [0.0]):
            for minus in range(1 + signed):
                want = applied(image, op, -magnitude if minus else magnitude, filter, fill)
                jobs.append((beginning(name, bins, filter, fill) + f" op {op} {bin} {minus}", want))
    return jobs


def compare_operations(dump, images):
    for image in images:
        for name, bins in (("rand", 31), ("rand", 10), ("trivial", 31), ("augmix", 10)):
            for way in WAYS:
                dump.compare(image, operation_jobs(image, name, bins, *way))


# --- AugMix ---


def tensor(image):
    return torch.from_numpy(np.asarray(image).copy())


def mix_job(image, filter, fill):
    """AugMix.forward's mixing, with its operations on PIL images, and weights that Dirichlet might give."""
    table = space("augmix", 10, *image.size)
    width = random.randint(1, 10)
    m = torch._sample_dirichlet(torch.ones(2))
    weights = torch._sample_dirichlet(torch.full([width], random.choice((0.1, 1.0, 10.0)))) * m[1]
    line = beginning("augmix", 10, filter, fill) + f" mix {m[0].item()!r} {width}"
    mix = m[0] * tensor(image)
    for i in range(width):
        aug = image
        line += f" chain {weights[i].item()!r}"
        for _ in range(random.randint(1, 3)):
            op = random.choice(list(table))
            magnitudes, signed = table[op]
            bin = random.randrange(len(magnitudes)) if magnitudes else 0
            minus = random.randrange(2) if signed else 0
            magnitude = magnitudes[bin] if magnitudes else 0.0
            aug = applied(aug, op, -magnitude if minus else magnitude, filter, fill)
            line += f" op {op} {bin} {minus}"
        mix.add_(weights[i] * tensor(aug))
    return line, mix.to(torch.uint8).numpy()


def compare_mixes(dump, images):
    for image in images:
        dump.compare(image, [mix_job(image, *random.choice(WAYS)) for _ in range(100)])


# --- images ---


def pictures(folder):
    slope = (np.add.outer(np.arange(61) * 3, np.arange(97) * 5)[..., None] + [0, 40, 90]) // 4 % 256
    noise = np.random.randint(0, 256, (40, 40, 3), np.uint8)
    images = [PIL.Image.fromarray(slope.astype(np.uint8)), PIL.Image.fromarray(noise)]
    files = sorted(pathlib.Path(folder).glob("*.JPEG"))[:2] if folder else []
    return images + [PIL.Image.open(path).convert("RGB").resize((224, 224)) for path in files]


def main():
    if sys.argv[1:] == ["--write"]:
        POLICIES.write_text(policies_text())
        return
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    compare_policies()
    images = pictures(sys.argv[2] if len(sys.argv) == 3 and os.path.isdir(sys.argv[2]) else None)
    with tempfile.TemporaryDirectory() as folder:
        dump = Dump(sys.argv[1], folder)
        tables = compare_tables(dump)
        compare_operations(dump, images)
        compare_mixes(dump, images)
    print(f"equal to torchvision {torchvision.__version__}: {tables} tables, {dump.images} images made of {len(images)}")


if __name__ == "__main__":
    main()
