#!/usr/bin/env python3
"""TimmAutoAugment against timm's own policies.

    timm_policies.py TIMM_DUMP [IMAGENET_FOLDER]    TIMM_DUMP: the program of timm_dump.c
    timm_policies.py --write                        writes unit/augment/timm.txt anew

The arguments: what timm computes from every magnitude, to the last bit; the sets and policies by name: timm.txt is what timm says.
The strings: what timm reads in each is what penstock reads. The operations: each by its name, at many magnitudes, with both signs and
all filters, on PIL images, byte for byte. AugMix: both ways of mixing, byte for byte.

Needs timm; without it, it says so and ends with 77. Last run with timm 1.0.31, Pillow 13.0.0 and NumPy 2.4.6."""

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import tempfile
from unittest import mock

try:
    import numpy as np
    import PIL.Image
    import timm
    from timm.data import auto_augment
except ImportError as error:
    print(f"skipped: {error} (pip install timm)")
    sys.exit(77)

FACTS = pathlib.Path(__file__).resolve().parents[2] / "unit" / "augment" / "timm.txt"
FILTERS = {"nearest": PIL.Image.NEAREST, "bilinear": PIL.Image.BILINEAR, "bicubic": PIL.Image.BICUBIC}
FILL = (124, 116, 104)
OPS = [name for name in auto_augment.NAME_TO_OP if name not in ("TranslateX", "TranslateY")]  # these are in no policy
MOVES = ("Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
# Whole and broken magnitudes, and those that mmax allows.
MAGNITUDES = [*(i / 4 for i in range(41)), 0.1, 3.3, 9.99, 12.0, 17.5, 30.0]
POLICIES = ("v0", "v0r", "original", "originalr", "3a")


@contextlib.contextmanager
def drawn(negative, share=0.0):
    """timm's own random numbers, fixed."""
    with mock.patch.object(auto_augment, "_randomly_negate", lambda v: -v if negative else v), \
            mock.patch.object(auto_augment.random, "uniform", lambda low, high: low + (high - low) * share):
        yield


def argument(name, magnitude, negative, translate=0.45):
    level = auto_augment.LEVEL_TO_ARG[name]
    with drawn(negative):
        return float((level(magnitude, {"translate_pct": translate}) or (0,))[0]) if level else 0.0


def named(ops, weights=None):
    weights = [0] * len(ops) if weights is None else weights
    return " ".join(f"{op.name if hasattr(op, 'name') else op} {weight!r}" for op, weight in zip(ops, weights))


def facts_text():
    lines = ["# timm's arguments, sets and policies; written by e2e/pixels/timm_policies.py --write",
             "# argument OPERATION MAGNITUDE NEGATIVE ARGUMENT; set NAME (OPERATION WEIGHT) ...; policy NAME (OPERATION P MAGNITUDE) ..."]
    for name in OPS:
        for magnitude in (*map(float, range(11)), 0.5, 3.3, 9.99, 12.0, 17.5, 30.0):
            for negative in (0, 1) if argument(name, 5, 0) != argument(name, 5, 1) else (0,):
                lines.append(f"argument {name} {magnitude!r} {negative} {argument(name, magnitude, negative).hex()}")
    for name, chosen in (("rand", auto_augment._RAND_TRANSFORMS), ("rand-inc1", auto_augment._RAND_INCREASING_TRANSFORMS),
                         ("rand-tweights", auto_augment._RAND_WEIGHTED_0), ("rand-t3a", auto_augment._RAND_3A),
                         ("rand-t3aw", auto_augment._RAND_WEIGHTED_3A), ("augmix", auto_augment._AUGMIX_TRANSFORMS)):
        weights = chosen.values() if isinstance(chosen, dict) else [0] * len(chosen)
        lines.append(f"set {name} " + " ".join(f"{op} {weight}" for op, weight in zip(chosen, weights)))
    for name in POLICIES:
        for ops in auto_augment.auto_augment_policy(name):
            lines.append(f"policy {name} " + " ".join(f"{op.name} {op.prob} {op.magnitude}" for op in ops))
    return "\n".join(lines) + "\n"


class Dump:
    def __init__(self, program, folder):
        self.program, self.raw = program, pathlib.Path(folder) / "rgb"
        self.images = 0

    def run(self, arguments, lines):
        done = subprocess.run([self.program, *arguments], input="".join(line + "\n" for line in lines).encode(), capture_output=True)
        if done.returncode:
            sys.exit(f"timm_dump: exit code {done.returncode}: {done.stderr.decode()}")
        return done.stdout

    def compare(self, image, jobs):
        """jobs: (line for timm_dump, image that is expected)."""
        self.raw.write_bytes(image.tobytes())
        size = 3 * image.width * image.height
        out = self.run([self.raw, str(image.width), str(image.height)], [line for line, _ in jobs])
        if len(out) != size * len(jobs):
            sys.exit(f"timm_dump: {len(out)} bytes, expected {size * len(jobs)}")
        for i, (line, want) in enumerate(jobs):
            got = np.frombuffer(out, np.uint8, size, i * size).reshape(image.height, image.width, 3)
            bad = np.argwhere(got != np.asarray(want))
            if len(bad):
                y, x, c = bad[0]
                sys.exit(f"{image.size} {line}: {len(bad)} bytes differ; first at x {x}, y {y}, channel {c}: {got[y, x, c]}, "
                         f"timm {np.asarray(want)[y, x, c]}")
        self.images += len(jobs)


# --- arguments and strings ---


def compare_arguments(dump):
    jobs = [(name, magnitude, negative, translate) for name in OPS for negative in (0, 1) for translate in (0.45, 0.3)
            for magnitude in [*MAGNITUDES, *(random.uniform(0, 10) for _ in range(200))]]
    got = dump.run(["arguments"], [" ".join(map(repr, job)).replace("'", "") for job in jobs]).decode().split()
    for job, made in zip(jobs, got):
        if float.fromhex(made) != argument(*job):
            sys.exit(f"{job}: {float.fromhex(made)!r}, timm {argument(*job)!r}")
    return len(jobs)


def read_by_timm(config):
    """The numbers of transforms_timm_numbers, from timm's object."""
    if config.startswith("rand"):
        made = auto_augment.rand_augment_transform(config)
        op, names = made.ops[0], [op.name for op in made.ops]
        sets = [[*auto_augment._RAND_WEIGHTED_0], auto_augment._RAND_3A, [*auto_augment._RAND_WEIGHTED_3A]]
        chosen = sets.index(names) + 1 if names in sets else 0
        std = 101 if op.magnitude_std == float("inf") else op.magnitude_std
        inc = "PosterizeIncreasing" in names if not chosen else "inc1" in config
        return [0, op.magnitude, made.num_layers, op.prob, std, op.magnitude_max or 10, inc, chosen]
    if config.startswith("augmix"):
        made = auto_augment.augment_and_mix_transform(config)
        op = made.ops[0]
        std = -1 if op.magnitude_std == float("inf") else op.magnitude_std
        return [1, op.magnitude, std, made.width, max(made.depth, 0), made.alpha, made.blended]
    made = auto_augment.auto_augment_transform(config)
    return [2 + POLICIES.index(config.split("-")[0]), made.policy[0][0].magnitude_std]


def drawn_config():
    policy = random.choice(("rand", "augmix", *POLICIES))
    settings = [f"mstd{random.choice((0, 0.5, 1, 1.25, 100))}"]
    if policy == "rand":
        settings = [f"mstd{random.choice((0, 0.5, 1, 101, 999))}", f"m{random.randint(0, 30)}", f"n{random.randint(1, 14)}",
                    f"p{random.choice((0, 0.25, 0.5, 1))}", f"mmax{random.randint(1, 30)}", f"inc{random.randint(0, 1)}",
                    random.choice(("tweights", "t3a", "t3aw"))]
    if policy == "augmix":
        settings += [f"m{random.randint(0, 30)}", f"w{random.randint(1, 10)}", f"d{random.randint(0, 16)}",
                     f"a{random.choice((0.5, 1, 2.0, 0.125))}", f"b{random.randint(0, 1)}"]
    return "-".join([policy, *random.sample(settings, random.randint(0, len(settings)))])


def compare_configs(dump):
    configs = [drawn_config() for _ in range(2000)]
    configs += ["rand-m9-mstd0.5-inc1", "rand-m9-mstd0.5", "rand-m7-mstd0.5-inc1", "rand-m15-n2", "rand-mstd1-tweights", "augmix-m5-w4-d2",
                "original-mstd0.5", "3a", "rand-m9-n3-mstd0.5", "rand-m6-n4-inc1-mstd1.0", "rand-m8-inc1-mstd1.0"]
    for config, made in zip(configs, dump.run(["configs"], configs).decode().splitlines()):
        *numbers, text = made.split()
        if [float(n) for n in numbers] != read_by_timm(config):
            sys.exit(f"{config}: {made}, timm {read_by_timm(config)}")
        if read_by_timm(text) != read_by_timm(config):
            sys.exit(f"{config} is written as {text}")
    return len(configs)


# --- operations ---


def operation(name, magnitude, filter, translate=0.45):
    hparams = {"interpolation": FILTERS[filter], "img_mean": FILL, "translate_pct": translate, "magnitude_max": 1000}
    return auto_augment.AugmentOp(name, prob=1.0, magnitude=magnitude, hparams=hparams)


def beginning(filter, translate=0.45):
    return f"{filter} {FILL[0]} {FILL[1]} {FILL[2]} {translate!r}"


def operation_jobs(image, name, filter):
    jobs = []
    for magnitude in MAGNITUDES:
        for negative in (0, 1):
            for translate in (0.45, 0.3) if name.startswith("Translate") else (0.45,):
                share = random.random() if name == "GaussianBlurRand" else 0.0
                if name.startswith("Posterize") and argument(name, magnitude, 0) <= 0:
                    want = PIL.Image.new("RGB", image.size)  # Pillow 13 refuses to keep no bits; it was black before
                else:
                    with drawn(negative, share):
                        want = operation(name, magnitude, filter, translate)(image)
                jobs.append((f"{beginning(filter, translate)} op {name} {magnitude!r} {negative} {share!r}", want))
    return jobs


def compare_operations(dump, images):
    for image in images:
        for name in OPS:
            for filter in FILTERS if name in MOVES else ("bicubic",):
                dump.compare(image, operation_jobs(image, name, filter))


# --- AugMix ---


class Part:
    """An operation of a chain: it fixes timm's random numbers before it runs."""

    def __init__(self, filter):
        self.name, self.magnitude, self.negative = random.choice(auto_augment._AUGMIX_TRANSFORMS), random.uniform(0, 9.99), random.randrange(2)
        self.op = operation(self.name, self.magnitude, filter, 0.3)

    def __call__(self, image):
        with drawn(self.negative):
            return self.op(image)

    def __str__(self):
        return f"op {self.name} {self.magnitude!r} {self.negative} 0"


def mix_job(image, blended):
    filter, width = random.choice(list(FILTERS)), random.randint(1, 10)
    chains = [[Part(filter) for _ in range(random.randint(1, 3))] for _ in range(width)]
    weights = np.float32(np.random.dirichlet([random.choice((0.1, 1.0, 10.0))] * width))
    share = np.float32(random.choice((0.0, 1.0, np.random.beta(1.0, 1.0), np.random.beta(1.0, 1.0))))
    mixer = auto_augment.AugMixAugment([], width=width, blended=blended)
    with mock.patch.object(np.random, "choice", mock.Mock(side_effect=list(chains))):
        mixer.depth = 1
        want = (mixer._apply_blended if blended else mixer._apply_basic)(image, weights, share)
    line = f"{beginning(filter, 0.3)} {'blend' if blended else 'mix'} {float(share)!r} {width}"
    for weight, chain in zip(weights, chains):
        line += f" chain {float(weight)!r} " + " ".join(map(str, chain))
    return line, want


def compare_mixes(dump, images):
    for image in images:
        for blended in (False, True):
            dump.compare(image, [mix_job(image, blended) for _ in range(60)])


# --- images ---


def pictures(folder):
    slope = (np.add.outer(np.arange(61) * 3, np.arange(97) * 5)[..., None] + [0, 40, 90]) // 4 % 256
    noise = np.random.randint(0, 256, (40, 40, 3), np.uint8)
    images = [PIL.Image.fromarray(slope.astype(np.uint8)), PIL.Image.fromarray(noise)]
    files = sorted(pathlib.Path(folder).glob("*.JPEG"))[:2] if folder else []
    return images + [PIL.Image.open(path).convert("RGB").resize((224, 224)) for path in files]


def main():
    if sys.argv[1:] == ["--write"]:
        FACTS.write_text(facts_text())
        return
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    random.seed(1)
    np.random.seed(1)
    if FACTS.read_text() != facts_text():
        sys.exit(f"{FACTS.name} is not what timm {timm.__version__} says: look at the difference, then write it anew with --write")
    images = pictures(sys.argv[2] if len(sys.argv) == 3 and os.path.isdir(sys.argv[2]) else None)
    with tempfile.TemporaryDirectory() as folder:
        dump = Dump(sys.argv[1], folder)
        arguments, configs = compare_arguments(dump), compare_configs(dump)
        compare_operations(dump, images)
        compare_mixes(dump, images)
    print(f"equal to timm {timm.__version__}: {arguments} arguments, {configs} strings, {dump.images} images made of {len(images)}")


if __name__ == "__main__":
    main()
