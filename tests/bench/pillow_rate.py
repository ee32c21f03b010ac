#!/usr/bin/env python3
"""How many images a second Pillow makes ready for training, as torchvision's PIL path does: prints one JSON line.

    tests/bench/pillow_rate.py FOLDER [--workers 2] [--seconds 4]

Every image of FOLDER is opened, decoded to RGB, cropped at random, resized to 224 x 224 and flipped, in so many processes. Where this
Python has torch and torchvision it is a DataLoader with torchvision's RandomResizedCrop, RandomHorizontalFlip and PILToTensor; otherwise
the same crop and flip with Pillow alone, which saves the collating and the way to another process."""
import argparse
import importlib.util
import json
import math
import multiprocessing
import random
import time
from pathlib import Path

SIDE, BATCH, WARM_S = 224, 64, 1.0


def has_torch():
    return all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))


def files_of(folder):
    return sorted(str(path) for path in Path(folder).iterdir() if path.is_file())


def with_torch(options):
    import torch  # pylint: disable=import-outside-toplevel
    from PIL import Image  # pylint: disable=import-outside-toplevel
    from torchvision import transforms  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    files = files_of(options.folder)
    recipe = transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.PILToTensor()])

    class Files(torch.utils.data.Dataset):
        """The files, many times over, so that epochs do not end."""

        def __len__(self):
            return len(files) * 1024

        def __getitem__(self, index):
            with Image.open(files[index % len(files)]) as image:
                return recipe(image.convert("RGB")), 0

    batches = iter(torch.utils.data.DataLoader(Files(), BATCH, shuffle=True, num_workers=options.workers, drop_last=True))
    next(batches)
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_S:
        next(batches)
    start, images = time.perf_counter(), 0
    while time.perf_counter() - start < options.seconds:
        next(batches)
        images += BATCH
    return images / (time.perf_counter() - start)


def box(width, height):
    """As torchvision's RandomResizedCrop draws it: 8 to 100 % of the area, 3:4 to 4:3."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    return 0, 0, width, height


def worker(files, seed, seconds, begin, rates):
    from PIL import Image  # pylint: disable=import-outside-toplevel

    random.seed(seed)
    begin.wait()
    start, images = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        with Image.open(random.choice(files)) as opened:
            image = opened.convert("RGB")
        image = image.crop(box(*image.size)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        image.tobytes()
        images += 1
    rates.put(images / (time.perf_counter() - start))


def with_pillow(options):
    files = files_of(options.folder)
    begin, rates = multiprocessing.Barrier(options.workers), multiprocessing.Queue()
    processes = [multiprocessing.Process(target=worker, args=(files, number, options.seconds, begin, rates)) for number in range(options.workers)]
    for process in processes:
        process.start()
    total = sum(rates.get(timeout=options.seconds + 60) for _ in processes)
    for process in processes:
        process.join()
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    torch = has_torch()
    name = f"torchvision PIL, DataLoader with {options.workers} workers" if torch else f"Pillow in {options.workers} processes"
    print(json.dumps({"name": name, "images_per_s": with_torch(options) if torch else with_pillow(options)}))


if __name__ == "__main__":
    main()
