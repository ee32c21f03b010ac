#!/usr/bin/env python3
"""Trains a classifier of torchvision on ImageNet: on one GPU, on many with torchrun, or on the CPU.

    train_imagenet.py --train ~/imagenet/train --val ~/imagenet/val
    torchrun --nproc-per-node 8 train_imagenet.py \
        --train "/data/train-{000000..000146}.tar" --val "/data/val-*.tar" --resume \
        --model vit_b_16 --batch-size 128 --lr 1e-3 --optimizer adamw --weight-decay 0.1 \
        --augment RandAugment --mixup 0.2 --cutmix 1 --random-erase 0.25 --balanced

It uses penstock in three places: two loaders, `batch.samples` in evaluate(), and the loader's state
in the checkpoint. A run that was stopped, by SIGTERM, by SIGUSR1 (Slurm's --signal=USR1@120) or by
a crash, continues with the next batch after its checkpoint, also on another number of GPUs.
--batch-size is per rank, as in PyTorch's own scripts.

It has run only on CPUs, also with torchrun and gloo; its lines for GPUs are the usual ones of
PyTorch.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torchvision
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import penstock

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", required=True, help="a folder of class folders, or tar files")
    parser.add_argument("--val", help="the same, for evaluation after each epoch")
    parser.add_argument("--model", default="resnet50", help="a classifier of torchvision.models")
    parser.add_argument("--classes", type=int, help="default: the number of class folders, or 1000 if there are none")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256, help="per rank")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--lr", type=float, default=0.1, help="sgd: per 256 images of the global batch")
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--warmup-epochs", type=float, default=5)
    parser.add_argument("--label-smoothing", type=float, default=0.1)
    parser.add_argument("--augment", choices=("RandAugment", "TrivialAugmentWide", "AutoAugment", "AugMix"))
    parser.add_argument("--random-erase", type=float, default=0, help="probability")
    parser.add_argument("--mixup", type=float, default=0, help="alpha; with --cutmix, each batch gets one of the two")
    parser.add_argument("--cutmix", type=float, default=0, help="alpha")
    parser.add_argument("--balanced", action="store_true", help="draw all classes equally often")
    parser.add_argument("--no-amp", action="store_true", help="float32 throughout, not float16 (CPU: bfloat16)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, help="save a checkpoint and stop after this many steps of this run")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoint.pt"))
    parser.add_argument("--checkpoint-steps", type=int, default=1000)
    parser.add_argument("--resume", action="store_true", help="continue from --checkpoint if it exists")
    parser.add_argument("--print-steps", type=int, default=50)
    return parser.parse_args()


def recipe(args: argparse.Namespace) -> "dict[str, Any]":
    """The loader's arguments for training. The daemon transforms images; batches are mixed, and get
    soft labels, on the device."""
    crop: "list[Any]" = [{"RandomResizedCrop": {"size": args.image_size}}, "RandomHorizontalFlip"]
    crop += [args.augment] if args.augment else []
    erase = ["ToTensor", {"Normalize": {"mean": MEAN, "std": STD}}, {"RandomErasing": {"p": args.random_erase}}]
    mixed = args.mixup > 0 or args.cutmix > 0
    return {
        "transforms": crop + erase if args.random_erase else crop,
        "mixup": args.mixup,
        "cutmix": args.cutmix,
        "num_classes": args.classes if mixed else None,
        "weights": "balanced" if args.balanced else None,
    }


class Job:
    """This process's place among the ranks, and its device. torchrun sets RANK, WORLD_SIZE and
    LOCAL_RANK."""

    def __init__(self) -> None:
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        self.device = torch.device("cpu")
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        if self.world > 1:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")
        self.stop = False
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        self.stop = True

    def sum(self, values: list[float]) -> list[float]:
        """Sums each value over all ranks."""
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor.tolist()

    def stopping(self, step: int) -> bool:
        """Whether any rank got a signal to stop, so that all ranks stop after the same step. They
        communicate only every tenth step, because that waits."""
        if self.world == 1:
            return self.stop
        return step % 10 == 0 and self.sum([self.stop])[0] > 0

    def print(self, text: str) -> None:
        if self.rank == 0:
            print(text, flush=True)


class Trainer:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.job = Job()
        self.amp = not args.no_amp
        device = self.job.device

        # With torchrun, each rank gets its part of every global batch. The images are normalized
        # float32 tensors (batch, 3, size, size) in channels_last, on the device.
        common = {"batch_size": args.batch_size, "image_size": args.image_size, "device": device}
        self.train = penstock.Loader(args.train, train=True, seed=args.seed, **recipe(args), **common)
        self.val = penstock.Loader(args.val, train=False, **common) if args.val else None

        torch.manual_seed(args.seed)
        classes = args.classes or len(self.train.classes) or 1000  # tar files have no class names
        self.net = torchvision.models.get_model(args.model, num_classes=classes)
        self.net.to(device, memory_format=torch.channels_last)
        self.model: nn.Module = self.net
        if self.job.world > 1:
            self.model = DistributedDataParallel(self.net, device_ids=[device.index] if device.type == "cuda" else None)
        self.loss = nn.CrossEntropyLoss(label_smoothing=args.label_smoothing)
        self.optimizer = self.make_optimizer()
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.amp and device.type == "cuda")
        self.epoch = self.step = self.first_step = 0
        if args.resume and args.checkpoint.exists():
            self.load()

    def make_optimizer(self) -> torch.optim.Optimizer:
        matrices, others = ([p for p in self.net.parameters() if (p.ndim > 1) == wanted] for wanted in (True, False))
        groups = [{"params": matrices, "weight_decay": self.args.weight_decay}, {"params": others, "weight_decay": 0.0}]
        if self.args.optimizer == "adamw":
            return torch.optim.AdamW(groups, lr=self.args.lr)
        self.args.lr *= self.args.batch_size * self.job.world / 256
        return torch.optim.SGD(groups, lr=self.args.lr, momentum=0.9, nesterov=True)

    def set_rate(self, progress: float) -> None:
        """Warm-up, then half a cosine. `progress` is in epochs, because the number of steps depends
        on the number of GPUs."""
        warmup = self.args.warmup_epochs
        if progress < warmup:
            rate = self.args.lr * (progress + 1 / len(self.train)) / (warmup + 1 / len(self.train))
        else:
            share = min(1, (progress - warmup) / max(self.args.epochs - warmup, 1e-9))
            rate = self.args.lr * 0.5 * (1 + math.cos(math.pi * share))
        for group in self.optimizer.param_groups:
            group["lr"] = rate

    # ---- checkpoints ----

    def save(self) -> None:
        """Saves a checkpoint after a step. All ranks have then delivered the same batches, so the
        state of rank 0's loader is valid for all of them. The file is either the old one or the new
        one, never half of one."""
        if self.job.rank == 0:
            checkpoint = {
                "step": self.step,
                "model": self.net.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "loader": self.train.state_dict(),
            }
            with open(temporary := self.args.checkpoint.with_suffix(".new"), "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.args.checkpoint)
        if self.job.world > 1:
            dist.barrier()

    def load(self) -> None:
        checkpoint = torch.load(self.args.checkpoint, map_location=self.job.device, weights_only=True)
        self.net.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.scaler.load_state_dict(checkpoint["scaler"])
        self.train.load_state_dict(checkpoint["loader"])
        self.epoch = checkpoint["loader"]["epoch"]  # of the next batch
        self.step = self.first_step = checkpoint["step"]
        self.job.print(f"going on after step {self.step}, in epoch {self.epoch}")

    # ---- training ----

    def forward(self, model: nn.Module, images: torch.Tensor) -> torch.Tensor:
        kind = self.job.device.type
        with torch.autocast(kind, torch.float16 if kind == "cuda" else torch.bfloat16, enabled=self.amp):
            return model(images).float()

    def learn(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = self.loss(self.forward(self.model, images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.step += 1
        return loss.detach()

    def train_epoch(self, epoch: int) -> bool:
        """Trains one epoch, or the rest of one. False if the run must stop."""
        self.model.train()
        waited, rows, began = 0.0, 0, time.perf_counter()
        asked = began
        self.train.set_epoch(epoch)  # changes nothing after a state of this epoch was loaded
        done = len(self.train) - self.train.remaining  # above 0 in a resumed epoch
        for done, (images, labels) in enumerate(self.train, done + 1):
            waited += time.perf_counter() - asked
            self.set_rate(epoch + (done - 1) / len(self.train))
            loss = self.learn(images, labels)
            rows += len(labels)
            if self.step % self.args.print_steps == 0:
                mean = self.job.sum([loss.item()])[0] / self.job.world
                seconds = time.perf_counter() - began
                self.job.print(f"epoch {epoch} step {self.step} ({done} of {len(self.train)}): loss {mean:.3f}, "
                               f"{rows * self.job.world / seconds:.0f} images/s, waited {100 * waited / seconds:.0f} %")
                waited, rows, began = 0.0, 0, time.perf_counter()
            if self.job.stopping(self.step) or self.step - self.first_step == self.args.steps:
                self.save()
                self.job.print(f"leaving after step {self.step}; --resume goes on")
                return False
            if self.step % self.args.checkpoint_steps == 0 and done < len(self.train):
                self.save()
            asked = time.perf_counter()
        # The verdict says in a sentence what limits the speed; `penstock top` shows it live.
        self.job.print(f"epoch {epoch}: {self.train.stats()['verdict']}")
        return True

    @torch.inference_mode()
    def evaluate(self, loader: penstock.Loader, epoch: int) -> None:
        """Counts every image once, for any number of ranks and any size of the last batch."""
        self.model.eval()
        if self.job.world > 1:
            for buffer in self.net.buffers():  # batch norm's statistics differ between ranks
                dist.broadcast(buffer, 0)
        right = right5 = count = 0.0
        for batch in loader.batches():
            counts = torch.from_numpy(batch.valid).to(self.job.device)
            scores = self.forward(self.net, batch.images)
            best = scores.topk(min(5, scores.shape[1])).indices == batch.labels[:, None]
            right += (best[:, 0] & counts).sum().item()
            right5 += (best.any(1) & counts).sum().item()
            count += counts.sum().item()
        right, right5, count = self.job.sum([right, right5, count])
        shares = f"{100 * right / count:.2f} % right, {100 * right5 / count:.2f} % among the first five"
        self.job.print(f"epoch {epoch}: {shares}, of {count:.0f} images")

    def run(self) -> None:
        for epoch in range(self.epoch, self.args.epochs):
            if not self.train_epoch(epoch):
                break
            self.save()
            if self.val:
                self.evaluate(self.val, epoch)
        if self.job.world > 1:
            dist.destroy_process_group()


if __name__ == "__main__":
    Trainer(parse()).run()
