#!/usr/bin/env python3
"""The loader with Lightning: one process or several, stopped and resumed.

    train_lightning.py --train ~/imagenet/train --val ~/imagenet/val --devices 8 --ckpt-path last
    # the same command continues after the last checkpoint, also in the middle of an epoch

Use a penstock.Loader in place of a DataLoader. Lightning finds its state_dict() and
load_state_dict() by itself and saves the loader's position in each checkpoint. The loader has no
sampler that Lightning could replace: each rank passes its rank and gets its part of every global
batch. Lightning counts batches of an epoch: to resume in the middle of one with another number of
ranks, choose --batch-size so that the global batch stays the same. Between epochs, any works.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, Optional

import lightning
import torch
import torchvision
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn

import penstock


class Batches:
    """Iterates over the batches of an evaluation as objects with `samples`; iterating over a Loader
    yields only (images, labels)."""

    def __init__(self, loader: penstock.Loader) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader.batches())


class Data(lightning.LightningDataModule):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.args = args

    def loader(self, source: str, train: bool) -> penstock.Loader:
        trainer = self.trainer
        assert trainer is not None
        # Lightning starts the ranks itself and does not set RANK as torchrun does: pass them here.
        return penstock.Loader(source, train=train, batch_size=self.args.batch_size, image_size=self.args.image_size,
                               seed=self.args.seed, rank=trainer.global_rank, world_size=trainer.world_size,
                               device=trainer.strategy.root_device)

    def train_dataloader(self) -> Any:
        loader = self.loader(self.args.train, train=True)
        assert self.trainer is not None
        # A checkpoint without the loader's state still continues with its own epoch. Lightning loads
        # the state, if there is one, afterward.
        loader.set_epoch(self.trainer.current_epoch)
        return loader

    def val_dataloader(self) -> Any:
        return Batches(self.loader(self.args.val, train=False)) if self.args.val else []


class Classifier(lightning.LightningModule):
    def __init__(self, model: str, classes: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = torchvision.models.get_model(model, num_classes=classes).to(memory_format=torch.channels_last)
        self.lr = lr

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss, prog_bar=True)
        return loss

    def on_validation_epoch_start(self) -> None:
        self.right_and_count = torch.zeros(2, dtype=torch.float64, device=self.device)

    def validation_step(self, batch: Any, index: int) -> None:
        counts = torch.from_numpy(batch.valid).to(self.device)
        right = self.net(batch.images).argmax(1) == batch.labels
        self.right_and_count += torch.stack([(right & counts).sum(), counts.sum()])

    def on_validation_epoch_end(self) -> None:
        right, count = self.trainer.strategy.reduce(self.right_and_count, reduce_op="sum").tolist()
        self.log("accuracy", right / count, rank_zero_only=True)
        self.print(f"evaluation: {100 * right / count:.2f} % right of {count:.0f} images")

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.lr, momentum=0.9, weight_decay=1e-4)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--train", required=True, help="a folder of class folders, or tar files")
    parser.add_argument("--val")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256, help="per rank")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-steps", type=int, default=-1)
    parser.add_argument("--accelerator", default="auto")
    parser.add_argument("--devices", default="auto")
    parser.add_argument("--checkpoint-steps", type=int, default=1000)
    parser.add_argument("--folder", default=".", help="for checkpoints")
    parser.add_argument("--ckpt-path", help="a checkpoint to continue from, or `last`")
    args = parser.parse_args()

    lightning.seed_everything(args.seed)
    # One file, which is replaced as a whole: without a counter of versions, a run that resumes
    # does not begin another one beside it.
    keep = ModelCheckpoint(args.folder, save_last=True, every_n_train_steps=args.checkpoint_steps,
                           enable_version_counter=False)
    devices: Any = args.devices if args.devices == "auto" else int(args.devices)
    trainer = lightning.Trainer(accelerator=args.accelerator, devices=devices, max_epochs=args.epochs,
                                max_steps=args.max_steps, callbacks=[keep], logger=False, default_root_dir=args.folder)
    ckpt_path: Optional[str] = args.ckpt_path
    trainer.fit(Classifier(args.model, args.classes, args.lr), Data(args), ckpt_path=ckpt_path)


if __name__ == "__main__":
    main()
