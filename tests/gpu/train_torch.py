#!/usr/bin/env python3
"""ResNet-18 or -50 in PyTorch (AMP, channels_last), fed in three ways: how many images per second, and how long the device waits.

    train_torch.py SOURCE --model resnet50 --loader synthetic,penstock,dataloader [--steps 100] [--batch-size 256] [--seconds 30]

    synthetic   one batch on the device: what the model can do
    penstock    the Python package, device="cuda"; PENSTOCK_SOCKET names the daemon
    dataloader  torch.utils.data.DataLoader over SOURCE (a folder of class folders), torchvision's transforms, a worker per core
                as far as /dev/shm has room

One line of JSON per loader, in the order named:

    images_s         images of the measured steps / time from the end of the last step that is not measured to the end of the last
    waiting_share    of that time, how long the device stood between a step's last kernel and the next step's first, by CUDA events: it
                     waits for its batch there, and penstock's kernel runs there too
    iterator_share   of that time, how long the host was in the loader's iterator (it runs ahead of the device, so that this may be more)
    stalled_share    penstock's own counter: that its queue stood in front of a copy that was not done
    verdict          penstock's sentence about what the trainer waits for
    loss_first, loss_last   means of the first and last tenth of the steps
    peak_bytes       torch.cuda.max_memory_allocated"""
import argparse
import json
import os
import sys
import time

import torch
from torch import nn

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_UP = 10  # steps that are not measured: cuDNN chooses its algorithms in them, workers start
AHEAD = 3  # steps that the host may be ahead of the device


# ---- the loaders: iterators of (images, labels) on the device ----

class Synthetic:
    def __init__(self, args):
        size = (args.batch_size, 3, args.image_size, args.image_size)
        images = torch.randn(size, device=args.device, dtype=args.dtype)
        self.batch = images.contiguous(memory_format=torch.channels_last), torch.randint(args.classes, size[:1], device=args.device)

    def __next__(self):
        return self.batch

    def close(self):
        pass


class Penstock:
    def __init__(self, args):
        import penstock  # the other loaders do not need it
        self.loader = penstock.Loader(args.source, args.batch_size, args.image_size, dtype=str(args.dtype).split(".")[-1], device="cuda",
                                      prefetch=8, private_daemon=False)
        self.batches = self.endless()

    def endless(self):
        while True:
            yield from self.loader

    def __next__(self):
        return next(self.batches)

    def stats(self):
        """Empty where torch copies the batches."""
        return self.loader.stats().get("device", {})

    def close(self):
        self.batches.close()
        self.loader.close()


def workers_that_fit(workers, batch_bytes, room):
    """Workers, and batches that each has ahead: they lie in /dev/shm, where a worker that finds no room is killed. Two batches are the
    others' (the trainer's own and one that is being pinned)."""
    fit = room // batch_bytes - 2
    ahead = 2 if 2 * workers <= fit else 1
    return max(1, min(workers, fit)), ahead


def shared_room():
    found = os.statvfs("/dev/shm")
    return found.f_bavail * found.f_frsize


class DataLoader:
    def __init__(self, args):
        from torch.utils.data import DataLoader as Loader, RandomSampler
        from torchvision import datasets, transforms
        steps = transforms.Compose([transforms.RandomResizedCrop(args.image_size), transforms.RandomHorizontalFlip(),
                                    transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
        dataset = datasets.ImageFolder(args.source, steps)
        # Few pictures are drawn again and again, as penstock's endless stream gives them.
        sampler = RandomSampler(dataset, replacement=True, num_samples=(args.steps + args.warm_up + AHEAD) * args.batch_size)
        self.device = args.device
        batch_bytes = args.batch_size * (4 * 3 * args.image_size ** 2 + 8)
        self.workers, ahead = workers_that_fit(args.workers, batch_bytes, shared_room())
        self.loader = Loader(dataset, args.batch_size, sampler=sampler, num_workers=self.workers, prefetch_factor=ahead,
                             drop_last=True, pin_memory=True)
        self.batches = iter(self.loader)

    def __next__(self):
        images, labels = next(self.batches)
        images = images.to(self.device, non_blocking=True, memory_format=torch.channels_last)
        return images, labels.to(self.device, non_blocking=True)

    def close(self):
        # Its processes end with their iterator.
        del self.batches
        del self.loader


LOADERS = {"synthetic": Synthetic, "penstock": Penstock, "dataloader": DataLoader}


# ---- a run ----

class Clock:
    """When the device began and ended each step."""

    def __init__(self):
        self.marks = []

    def mark(self):
        self.marks.append(torch.cuda.Event(enable_timing=True))
        self.marks[-1].record()

    def wait(self, ahead):
        if len(self.marks) > 2 * ahead:
            self.marks[-2 * ahead].synchronize()

    def seconds(self, first, last):
        """Between two marks."""
        return self.marks[first].elapsed_time(self.marks[last]) / 1e3


def step(model, optimizer, images, labels, args):
    with torch.autocast("cuda", dtype=args.dtype):
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    return loss.detach()


class Steps:
    """What was measured of a loader's steps."""

    def __init__(self):
        self.clock, self.losses = Clock(), []  # marks: begin and end of each step, in turn
        self.images, self.iterator_s, self.stalled_before = 0, 0.0, 0

    def seconds(self, args):
        """Of all that were measured, and of the time between them."""
        last_warm, last = 2 * args.warm_up - 1, len(self.clock.marks) - 1
        between = sum(self.clock.seconds(i, i + 1) for i in range(last_warm, last, 2))
        return self.clock.seconds(last_warm, last), between


def run(loader, model, optimizer, args):
    steps, end = Steps(), None
    for number in range(args.steps + args.warm_up):
        measured = number >= args.warm_up
        if number == args.warm_up:
            end = time.monotonic() + args.seconds
            steps.stalled_before = stalled_ns(loader)
        begin = time.perf_counter()
        images, labels = next(loader)
        if measured:
            steps.iterator_s += time.perf_counter() - begin
            steps.images += len(labels)
        steps.clock.mark()
        steps.losses.append(step(model, optimizer, images, labels, args))
        steps.clock.mark()
        steps.clock.wait(AHEAD)
        if end and time.monotonic() > end:
            break
    torch.cuda.synchronize()
    return steps


def stalled_ns(loader):
    return loader.stats().get("stalled_ns", 0) if isinstance(loader, Penstock) else 0


def describe(steps, loader, args):
    seconds, waited = steps.seconds(args)
    values = torch.stack(steps.losses).float().tolist()
    tenth = max(1, len(values) // 10)
    result = {"dtype": str(args.dtype), "steps": len(values) - args.warm_up, "seconds": seconds, "images_s": steps.images / seconds,
              "waiting_share": waited / seconds, "iterator_share": steps.iterator_s / seconds,
              "loss_first": sum(values[:tenth]) / tenth, "loss_last": sum(values[-tenth:]) / tenth}
    if isinstance(loader, Penstock):
        result["stalled_share"] = (stalled_ns(loader) - steps.stalled_before) / 1e9 / seconds
        result["verdict"] = loader.stats().get("verdict", "torch copies the batches")
    if isinstance(loader, DataLoader):
        result["workers"] = loader.workers
    return {**result, "peak_bytes": torch.cuda.max_memory_allocated()}


def train(name, args):
    torch.manual_seed(0)
    torch.cuda.reset_peak_memory_stats()
    import torchvision  # where it is missing, each loader's line says so
    model = getattr(torchvision.models, args.model)(num_classes=args.classes)
    model = model.to(args.device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate, momentum=0.9, weight_decay=1e-4)
    loader = LOADERS[name](args)
    try:
        found = describe(run(loader, model, optimizer, args), loader, args)
    finally:
        loader.close()
    return {"loader": name, "model": args.model, "torchvision": torchvision.__version__, "batch_size": args.batch_size, "image_size": args.image_size, **found}


def parse():
    parser = argparse.ArgumentParser(description="Images per second into a ResNet, by loader.")
    parser.add_argument("source", help="a folder of class folders (dataloader), or what penstock reads")
    parser.add_argument("--loader", default="synthetic,penstock,dataloader", help="of " + ", ".join(LOADERS) + "; several with commas")
    parser.add_argument("--model", default="resnet50", choices=("resnet18", "resnet50"))
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=WARM_UP)
    parser.add_argument("--seconds", type=float, default=1e9, help="to stop after, of each loader's measured steps")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    args.loaders = args.loader.split(",")
    for name in args.loaders:
        if name not in LOADERS:
            parser.error(f"--loader {name}: expected {', '.join(LOADERS)}")
    if args.steps < 1 or args.warm_up < 1:
        parser.error("--steps and --warm-up are at least 1")
    args.device, args.dtype = torch.device("cuda"), torch.bfloat16
    return args


def main():
    args = parse()
    if not torch.cuda.is_available():
        print("train_torch.py: this needs a GPU (PyTorch finds none); stand_in.py tries the program without", file=sys.stderr)
        return 77
    torch.backends.cudnn.benchmark = True
    failed = False
    for name in args.loaders:
        try:
            print(json.dumps(train(name, args)), flush=True)
        except ImportError as error:
            print(json.dumps({"loader": name, "model": args.model, "skipped": f"needs {error.name}"}), flush=True)
        except Exception as error:  # the other loaders go on
            failed = True
            print(json.dumps({"loader": name, "model": args.model, "failed": f"{type(error).__name__}: {error}"}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
