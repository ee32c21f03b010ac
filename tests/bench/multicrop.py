#!/usr/bin/env python3
"""Multi-crop as DINO trains with it, 2 x 224 and 8 x 96: penstock's views beside torchvision with PIL in a DataLoader.

    tests/bench/multicrop.py BUILD IMAGES --torch PYTHON [--rounds 7] [--seconds 6] [--threads 2] [--batch-size 16] [--json FILE]

PYTHON has torch and torchvision. Each round runs both loaders, each in a process of its own, in
alternating order; both deliver normalized float32 tensors, which the trainer drops. The DataLoader
has as many workers as penstock's daemon has threads. The bar is the median of the rounds' ratios.

The second bar is CPU time: what the daemon spends on a sample of the multi-crop stream may be at
most 1.15 times what decoding that sample once and the pixels of ten separate views cost together
(stages `decode` and `pixel` of `Loader.stats()`), measured in each round from three streams of one
view each. The decoding of a stream of RandomResizedCrop with scale (1, 1) stands for "once": it is
a whole image's. Prints a table in Markdown; the exit status is 1 if a bar is missed."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATE_BAR, CPU_BAR = 6.0, 1.15
GLOBAL, LOCAL, CROPS = (0.4, 1.0), (0.05, 0.4), 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


# ---- penstock, in a trainer's process


def recipe(size, scale, blur, solarize=0.0):
    """One view of DINO as a list of transforms."""
    jitter = {"ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1}}
    steps = [
        {"RandomResizedCrop": {"size": size, "scale": list(scale), "interpolation": "bicubic"}},
        "RandomHorizontalFlip",
        {"RandomApply": {"transforms": [jitter], "p": 0.8}},
        {"RandomGrayscale": {"p": 0.2}},
        {"RandomApply": {"transforms": [{"GaussianBlur": {"radius": [0.1, 2.0]}}], "p": blur}},
    ]
    return steps + ([{"RandomSolarize": {"threshold": 128, "p": solarize}}] if solarize else [])


VIEWS = {
    "first": recipe(224, GLOBAL, 1.0),
    "second": recipe(224, GLOBAL, 0.1, 0.2),
    "local": recipe(96, LOCAL, 0.5),
}


def loader_of(options, **keys):
    import penstock  # pylint: disable=import-outside-toplevel

    return penstock.Loader(options.images, batch_size=options.batch_size, threads=options.threads, device="cpu", labels="none", **keys)


def multicrop(options):
    return loader_of(options, views=[{"transforms": VIEWS["first"]}, {"transforms": VIEWS["second"]},
                                     {"transforms": VIEWS["local"], "count": CROPS}])


def epochs_of(loader):
    while True:
        yield from loader


def window(batches, options):
    """Samples per second, after a second in which entry points and caches settle."""
    begin = time.perf_counter()
    next(batches)
    while time.perf_counter() - begin < 1:
        next(batches)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < options.seconds:
        next(batches)
        count += options.batch_size
    return count / (time.perf_counter() - start)


def stages_of(loader, options):
    """CPU seconds of the daemon per sample, by stage, in a second epoch: entry points exist by then."""
    list(loader)
    before = loader.stats()
    batches, begin = iter(loader), time.perf_counter()
    while time.perf_counter() - begin < options.seconds / 3:
        if next(batches, None) is None:
            batches = iter(loader)
    after = loader.stats()
    made = (after["batches"] - before["batches"]) * options.batch_size
    return {stage: (after["stages"][stage] - before["stages"][stage]) / made for stage in ("decode", "pixel")}


def costs(options):
    with multicrop(options) as loader:
        together = stages_of(loader, options)
    pixels = {}
    for name, transforms in VIEWS.items():
        with loader_of(options, transforms=transforms) as loader:
            pixels[name] = stages_of(loader, options)["pixel"]
    with loader_of(options, transforms=[{"RandomResizedCrop": {"size": 224, "scale": [1, 1]}}]) as loader:
        whole = stages_of(loader, options)["decode"]
    return {"together": together, "pixels": pixels["first"] + pixels["second"] + CROPS * pixels["local"], "decode": whole}


# ---- DINO's own pipeline, restated with torchvision's objects


def peer_of(options):
    import random  # pylint: disable=import-outside-toplevel

    import torch  # pylint: disable=import-outside-toplevel
    from PIL import Image, ImageFilter, ImageOps  # pylint: disable=import-outside-toplevel
    from torchvision import transforms  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    names = sorted(str(path) for path in Path(options.images).rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    color = [
        transforms.RandomHorizontalFlip(),
        transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
        transforms.RandomGrayscale(p=0.2),
    ]
    floats = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]

    def blurred(image):
        return image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))

    def view(size, scale, blur, solarize=0.0):
        crop = transforms.RandomResizedCrop(size, scale=scale, interpolation=transforms.InterpolationMode.BICUBIC)
        extra = [transforms.RandomApply([transforms.Lambda(blurred)], p=blur)]
        extra += [transforms.RandomApply([transforms.Lambda(ImageOps.solarize)], p=solarize)] if solarize else []
        return transforms.Compose([crop, *color, *extra, *floats])

    first, second, local = view(224, GLOBAL, 1.0), view(224, GLOBAL, 0.1, 0.2), view(96, LOCAL, 0.5)

    class Crops(torch.utils.data.Dataset):
        """The files, many times over, so that epochs do not end."""

        def __len__(self):
            return len(names) * 128

        def __getitem__(self, index):
            with Image.open(names[index % len(names)]) as opened:
                image = opened.convert("RGB")
            return [first(image), second(image), *(local(image) for _ in range(CROPS))], 0

    return torch.utils.data.DataLoader(Crops(), options.batch_size, shuffle=True, num_workers=options.threads, drop_last=True)


def child(options):
    if options.kind == "costs":
        print(json.dumps(costs(options)))
    elif options.kind == "peer":
        print(json.dumps({"rate": window(iter(peer_of(options)), options)}))
    else:
        print(json.dumps({"rate": window(epochs_of(multicrop(options)), options)}))


# ---- the comparison


def run(options, kind, home):
    """One measurement in a process of its own, with a private daemon of its own. The cache of indexes
    and entry points is shared by all runs."""
    with tempfile.TemporaryDirectory(prefix="penstock-multicrop-") as own:
        environment = {**os.environ, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": own, "XDG_RUNTIME_DIR": own,
                       "PYTHONPATH": str(Path(options.build).resolve() / "python"),
                       "PENSTOCKD": str(Path(options.build).resolve() / "bin/penstockd")}
        command = [options.torch, __file__, options.build, options.images, "--kind", kind, "--torch", options.torch]
        for name in ("seconds", "threads", "batch_size"):
            command += [f"--{name.replace('_', '-')}", str(getattr(options, name))]
        done = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
        subprocess.run([Path(options.build) / "bin/penstock", "stop"], env=environment, check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return json.loads(done.stdout.splitlines()[-1])


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("build")
    parser.add_argument("images", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--torch", required=True, help="a Python that has torch and torchvision")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--json", help="where to write all figures")
    parser.add_argument("--kind", choices=("penstock", "peer", "costs"), help=argparse.SUPPRESS)
    return parser.parse_args()


def main(options):
    rates = {"penstock": [], "peer": []}
    ratios, shares = [], []
    with tempfile.TemporaryDirectory(prefix="penstock-multicrop-") as home:
        run(options, "penstock", home)  # makes the index and the entry points, warms the page cache
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for kind in list(rates) if number % 2 else reversed(list(rates)):
                rates[kind].append(run(options, kind, home)["rate"])
            ratios.append(rates["penstock"][-1] / rates["peer"][-1])
            cost = run(options, "costs", home)
            shares.append(sum(cost["together"].values()) / (cost["pixels"] + cost["decode"]))
    print("| | median | least to most | bar | |\n|---|---|---|---|---|")
    for kind, name in (("penstock", "penstock, samples/s"), ("peer", f"torchvision with PIL, {options.threads} workers, samples/s")):
        print(f"| {name} | {statistics.median(rates[kind]):.1f} | {min(rates[kind]):.1f} to {max(rates[kind]):.1f} | | |")
    faster, share = statistics.median(ratios), statistics.median(shares)
    rows = (("penstock, of the DataLoader", ratios, faster, f">= {RATE_BAR:g}", faster >= RATE_BAR),
            ("daemon CPU of a sample, of ten separate views decoded once", shares, share, f"<= {CPU_BAR:g}", share <= CPU_BAR))
    for name, values, middle, bar, good in rows:
        print(f"| {name} | {middle:.2f} | {min(values):.2f} to {max(values):.2f} | {bar} | {'holds' if good else 'MISSED'} |")
    if options.json:
        Path(options.json).write_text(json.dumps({"rates": rates, "ratios": ratios, "cpu": shares}, indent=1) + "\n", encoding="utf-8")
    return 0 if faster >= RATE_BAR and share <= CPU_BAR else 1


if __name__ == "__main__":
    OPTIONS = parse()
    if OPTIONS.kind:
        child(OPTIONS)
    else:
        sys.exit(main(OPTIONS))
