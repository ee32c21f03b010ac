"""torch's own DataLoader, and accelerate's skip_first_batches, on the parts of a loader."""

from __future__ import annotations

import importlib.util
import unittest
from typing import Any

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

support.require("torch")
import torch


def loader(**arguments: Any) -> Any:
    return penstock.Loader(support.dataset(), **{"batch_size": 8, "image_size": 32, "device": "cpu", **arguments})


class Parts(unittest.TestCase):
    def check(self, made: Any, other: Any, count: int, epoch: int = 1) -> None:
        made.set_epoch(epoch)
        whole = [(images.clone(), labels.clone()) for images, labels in made]
        made.set_epoch(epoch)
        got = list(other(count))
        self.assertEqual(len(got), len(whole) - count)
        for (images, labels), want in zip(got, whole[count:]):
            self.assertTrue(torch.equal(images, want[0]) and torch.equal(labels, want[1]))

    def test_data_loader(self) -> None:
        with loader() as made:
            self.check(made, lambda count: torch.utils.data.DataLoader(
                made.dataset, batch_sampler=made.batch_sampler, collate_fn=made.collate_fn, num_workers=made.num_workers,
                pin_memory=made.pin_memory), 0)
            with self.assertRaisesRegex(penstock.ArgumentTypeError, "the daemon decides"):
                next(iter(torch.utils.data.DataLoader(made.dataset, sampler=made.sampler)))

    def test_sampler_from_outside(self) -> None:
        """As ray.train.torch.prepare_data_loader does with several workers: a DataLoader like the loader, and a sampler that
        divides it again."""
        names = ("dataset", "batch_size", "num_workers", "collate_fn", "pin_memory", "drop_last", "timeout", "worker_init_fn", "generator")
        with loader() as made:
            sampler = torch.utils.data.DistributedSampler(made.dataset, num_replicas=2, rank=0)
            other = torch.utils.data.DataLoader(**{name: getattr(made, name) for name in names}, sampler=sampler)
            with self.assertRaisesRegex(penstock.ArgumentTypeError, "write `for images, labels in loader`, without a DataLoader"):
                next(iter(other))

    @unittest.skipUnless(importlib.util.find_spec("accelerate"), "accelerate is not installed")
    def test_accelerate(self) -> None:
        from accelerate import Accelerator, skip_first_batches

        accelerator = Accelerator(cpu=True)
        with loader() as made:
            self.assertIs(accelerator.prepare(made), made)
            for count in (0, 1, 5):
                self.check(made, lambda count: skip_first_batches(made, count), count)
            prepared = accelerator.prepare_data_loader(made)  # counts epochs itself, from 0, and calls sampler.set_epoch
            self.check(made, lambda count: accelerator.skip_first_batches(prepared, count), 3, 0)


if __name__ == "__main__":
    support.main()
