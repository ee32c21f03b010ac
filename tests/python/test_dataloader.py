"""What programs ask of torch's DataLoader: samplers, dataset.samples and targets, batch.valid, and how
accelerate.skip_first_batches makes a DataLoader out of parts of a loader."""

from __future__ import annotations

import os
import shutil
import unittest
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 32, "framework": "numpy"}
    return penstock.Loader(support.dataset() if source is None else source, **{**base, **arguments})


def skipped(made: Any, count: int) -> "Iterator[Any]":
    """What accelerate.skip_first_batches and then torch's DataLoader do with a loader's parts."""
    places = enumerate(made.batch_sampler)
    return (made.collate_fn(made.dataset.__getitems__(place)) for number, place in places if number >= count)


class Samplers(unittest.TestCase):
    def test_facts(self) -> None:
        with loader(rank=1, world_size=2) as made:
            sampler, batches = made.sampler, made.batch_sampler
            self.assertEqual((sampler.rank, sampler.num_replicas, sampler.shuffle, sampler.drop_last), (1, 2, True, True))
            self.assertEqual((len(batches), batches.batch_size, batches.drop_last), (len(made), 8, True))
            self.assertEqual((made.num_workers, made.pin_memory, made.drop_last), (0, False, True))
            sampler.set_epoch(3)
            self.assertEqual((made.epoch, sampler.epoch), (3, 3))
            batches.sampler.set_epoch(4)
            self.assertEqual(next(made.batches()).epoch, 4)
        for what in (sampler, batches):
            self.assertIn("sampler of <penstock.Loader", repr(what))
        self.assertIn("dataset of <penstock.Loader", repr(made.dataset))

    def test_rows(self) -> None:
        """len(sampler) is the number of rows that the rank reads."""
        for keys in ({}, {"train": False}, {"train": False, "batch_size": 7}, {"train": False, "indices": range(49)}):
            for rank in range(3):
                with self.subTest(keys=keys, rank=rank), loader(**keys, rank=rank, world_size=3) as made:
                    self.assertEqual(sum(batch.count for batch in made.batches()), len(made.sampler))

    def test_have_no_numbers(self) -> None:
        with loader() as made:
            place = next(iter(made.batch_sampler))
            self.assertEqual((len(place), repr(place)), (8, "<penstock: batch 0>"))
            for what in (made.sampler, place):
                with self.assertRaisesRegex(penstock.ArgumentTypeError, r"the daemon decides .* batch.samples\[\"index\"\] .* rank= and world_size="):
                    list(what)

    def test_assignments(self) -> None:
        with loader() as made:
            for which, name, advice in (("sampler", "epoch", "call loader.set_epoch"), ("sampler", "num_replicas", "pass world_size="),
                                        ("sampler", "rank", "pass rank="), ("batch_sampler", "batch_size", "pass batch_size="),
                                        ("batch_sampler", "sampler", "pass shuffle="), ("sampler", "weights", "only describes")):
                with self.subTest(name), self.assertRaisesRegex(penstock.AssignmentError, rf"loader.{which}.{name} cannot be assigned.*{advice}"):
                    setattr(getattr(made, which), name, 1)


class Skipping(unittest.TestCase):
    def test_skips(self) -> None:
        with loader() as made:
            whole = [batch[0].copy() for batch in made]
            for count in (0, 2, 6, 7):
                made.set_epoch(0)
                got = [images for images, _ in skipped(made, count)]
                self.assertEqual(len(got), 7 - count)
                for mine, want in zip(got, whole[count:]):
                    np.testing.assert_array_equal(mine, want)

    def test_decodes_nothing_that_it_skips(self) -> None:
        with loader(rank=0, world_size=2, batch_size=2) as made:
            moved = [made._open_again]
            with mock.patch.object(made, "_open_again", wraps=moved[0]) as opened:
                next(skipped(made, 9))
            self.assertEqual((opened.call_count, made.state_dict()["position"]), (1, 40))

    def test_after_a_state(self) -> None:
        with loader() as made:
            iterator = iter(made)
            first = [next(iterator)[0].copy() for _ in range(3)]
            state = made.state_dict()
            rest = [images.copy() for images, _ in iterator]
            made.load_state_dict(state)
            got = [images for images, _ in skipped(made, 1)]  # of those that are left
            self.assertEqual((len(first), len(got)), (3, 3))
            np.testing.assert_array_equal(got[0], rest[1])

    def test_refusals(self) -> None:
        with loader() as made, loader() as other:
            places = list(made.batch_sampler)
            with self.assertRaisesRegex(penstock.ArgumentTypeError, "another loader"):
                other.dataset.__getitems__(places[0])
            for numbers in ([3, 4], 0, "a"):
                with self.assertRaisesRegex(penstock.ArgumentTypeError, "cannot return a sample by number"):
                    made.dataset.__getitems__(numbers)
            made.dataset.__getitems__(places[1])
            for late in (1, 3):
                with self.assertRaisesRegex(penstock.IteratorError, f"batch {late} was asked for, and batch 2 comes next: .*rank= and world_size="):
                    made.dataset.__getitems__(places[late])
            made.dataset.__getitems__(places[2])
            iter(made)
            with self.assertRaisesRegex(penstock.IteratorError, "newer iterator"):
                made.dataset.__getitems__(places[3])


class Datasets(unittest.TestCase):
    def check(self, source: Any, **keys: Any) -> Any:
        """Compares dataset.samples with the records of an epoch, and returns it."""
        with loader(source, train=False, on_broken="mark", max_broken=1, **keys) as made:
            samples = made.dataset.samples
            self.assertEqual((len(samples), made.dataset.imgs), (made.samples, samples))
            self.assertEqual(made.dataset.targets, [label for _, label in samples])
            for batch in made.batches():
                for index, label in zip(batch.samples["index"], batch.labels.tolist()):
                    self.assertEqual(samples[index], (made.path(int(index)), label))
            return samples

    def test_of_every_source(self) -> None:
        folder, tars = support.dataset(), support.dataset(tars=True) + "/*.tar"
        self.assertIs(type(self.check(folder, indices=[40, 3, 59], class_order="natural")[0][1]), int)
        self.assertIn("!", self.check(tars)[0][0])
        self.assertEqual(len(self.check(folder, split="[:50%]")), 60)  # numbers are those of the whole folder
        self.assertEqual(len(self.check([(folder, 1), (support.dataset(seed=1), 1)], epoch_length=120)), 120)
        self.assertEqual({label for _, label in self.check(Path(folder) / "beach")}, {-1})

    def test_several_values(self) -> None:
        folder = support.dataset()
        names = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*.jpg"))
        for kind, values in (("float", lambda i: f"{i / 8},-1"), ("multi_hot", lambda i: f"{i % 3};4"), ("classes", lambda i: f"{i % 3};{i % 7}")):
            manifest = support.folder / f"{kind}.csv"
            header = "path,a,b" if kind == "float" else "path,labels"
            manifest.write_text("\n".join([header, *(f"{name},{values(i)}" for i, name in enumerate(names)), ""]))
            with self.subTest(kind):
                samples = self.check(folder, labels={"manifest": manifest, "type": kind})
                self.assertIs(type(samples[5][1][0]), int if kind == "classes" else float)

    def test_long_labels(self) -> None:
        """An answer is bounded in bytes, whatever the labels are."""
        folder = support.dataset()
        names = sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*.jpg"))
        manifest = support.folder / "long.csv"
        manifest.write_text("\n".join(["path,labels", *(f"{name},{i};60000" for i, name in enumerate(names)), ""]))
        with loader(folder, labels={"manifest": manifest, "type": "multi_hot"}, batch_size=2) as made:
            answer = made._stream.samples(0)
            self.assertTrue(1 << 20 <= len(answer) < (1 << 20) + 2 * 60001 + 5000, len(answer))
            targets = np.array(made.dataset.targets, bool)
        wanted = np.zeros((60, 60001), bool)
        wanted[:, 60000] = wanted[range(60), range(60)] = True
        self.assertTrue((targets == wanted).all())

    def test_odd_names(self) -> None:
        odd = support.folder / "odd"
        (odd / "a").mkdir(parents=True)
        image = next(Path(support.dataset()).rglob("*.jpg"))
        for name in (b"line\nfeed \\n.jpg", b"two\\\\.jpg", b"byte\xff.jpg", b"end\\.jpg"):
            shutil.copy(image, os.fsencode(odd / "a") + b"/" + name)
        self.assertEqual(len(self.check(odd, batch_size=2)), 4)

    def test_many(self) -> None:
        """More than one answer holds; the list is kept."""
        lines = support.folder / "many"
        image = next(Path(support.dataset()).rglob("*.jpg"))
        (lines / "a").mkdir(parents=True)
        (lines / "b").mkdir()
        for i in range(1500):
            os.link(image, lines / "ab"[i % 2] / f"{i:05}.jpg")
        with loader(lines) as made:
            with mock.patch.object(made._reader, "samples", wraps=made._reader.samples) as asked:
                samples = made.dataset.samples
                self.assertEqual([call.args for call in asked.call_args_list], [(0,), (1024,)])
                self.assertEqual(made.dataset.targets, [0] * 750 + [1] * 750)
                self.assertEqual(asked.call_count, 2)
            self.assertEqual([samples[i][0] for i in (0, 1023, 1024, 1499)], [made.path(i) for i in (0, 1023, 1024, 1499)])

    def test_refused(self) -> None:
        with loader() as made:
            with self.assertRaisesRegex(penstock.ArgumentError, "sample 60 does not exist: the dataset has 60"):
                made._stream.samples(60)
            for wrong in (-1, 2**64):
                with self.assertRaises(OverflowError):
                    made._stream.samples(wrong)
            made.close()
            with self.assertRaises(penstock.ClosedError):
                made.dataset.samples


class Valid(unittest.TestCase):
    def test_padded_and_broken(self) -> None:
        broken = support.folder / "broken"
        shutil.copytree(support.dataset(), broken)
        for path in sorted(broken.rglob("*.jpg"))[4:6]:
            path.write_bytes(b"\xff\xd8\xff" + path.read_bytes()[3:200])
        for views in (1, 2):
            seen = []
            for rank in range(2):
                with loader(broken, train=False, batch_size=59, rank=rank, world_size=2, views=views, on_broken="mark", max_broken=1,
                            indices=range(59)) as made:
                    for batch in made.batches():
                        self.assertEqual((batch.valid.shape, batch.valid.dtype), ((batch.count,), np.dtype(bool)))
                        seen += batch.samples["index"][::views][batch.valid].tolist()
            self.assertEqual(sorted(seen), [i for i in range(59) if i not in (4, 5)])
        with loader(train=False, rank=1, world_size=2, indices=[7], batch_size=4) as made:
            self.assertEqual([batch.valid.tolist() for batch in made.batches()], [[False]])  # PADDED


if __name__ == "__main__":
    support.main()
