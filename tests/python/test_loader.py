"""What a loader yields: images, labels and records, in every dtype; kept batches; broken images and
images without labels."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import threading
import unittest
from pathlib import Path
from typing import Any

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np

MEAN = np.array([0.485, 0.456, 0.406], np.float32)
STD = np.array([0.229, 0.224, 0.225], np.float32)


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": 48, "framework": "numpy", "seed": 5}
    return penstock.Loader(support.dataset() if source is None else source, **{**base, **arguments})


def rows(**arguments: Any) -> "list[Any]":
    """The batches of an epoch, with all their attributes."""
    with loader(**arguments) as source:
        return list(source.batches())


class Given(unittest.TestCase):
    def test_shapes(self) -> None:
        with loader() as source:
            images, labels = next(iter(source))
        self.assertEqual((images.dtype, images.shape), (np.float32, (8, 3, 48, 48)))
        self.assertEqual(images.strides, (4 * 3 * 48 * 48, 4, 4 * 3 * 48, 4 * 3), "not channels_last")
        self.assertEqual((labels.dtype, labels.shape), (np.int64, (8,)))
        self.assertTrue(images.flags.writeable and labels.flags.writeable)
        images += 1
        labels[:] = 0

    def test_normalized(self) -> None:
        pixels, floats = rows(dtype="uint8"), rows()
        self.assertEqual((len(pixels), len(floats)), (7, 7))
        for raw, made in zip(pixels, floats):
            wanted = ((raw.images.transpose(0, 2, 3, 1).astype(np.float32) / np.float32(255)) - MEAN) / STD
            np.testing.assert_array_equal(made.images.transpose(0, 2, 3, 1), wanted)
            np.testing.assert_array_equal(made.labels, raw.labels)
        self.assertGreater(len(np.unique(pixels[0].images)), 50, "these are not photographs")

    def test_own_mean_and_std(self) -> None:
        raw, made = rows(dtype="uint8")[0], rows(mean=[0.5, 0.25, 0], std=np.array([2, 1, 0.5]))[0]
        wanted = (
            raw.images.astype(np.float32) / np.float32(255) - np.float32([0.5, 0.25, 0])[:, None, None]
        ) / np.float32([2, 1, 0.5])[:, None, None]
        np.testing.assert_array_equal(made.images, wanted)

    def test_half(self) -> None:
        whole, half = rows()[0], rows(dtype=np.float16)[0]
        self.assertEqual(half.images.dtype, np.float16)
        np.testing.assert_array_equal(half.images, whole.images.astype(np.float16))

    def test_channels_first(self) -> None:
        last, first = rows(), rows(channels_last=False)
        self.assertTrue(first[0].images.flags.c_contiguous)
        np.testing.assert_array_equal(first[0].images, last[0].images)

    def test_bfloat16(self) -> None:
        try:
            import ml_dtypes
        except ImportError:
            with self.assertRaisesRegex(penstock.ArgumentError, "ml_dtypes"):
                loader(dtype="bfloat16")
            return
        half = rows(dtype="bfloat16")[0]
        np.testing.assert_array_equal(half.images, rows()[0].images.astype(ml_dtypes.bfloat16))

    def test_transforms(self) -> None:
        """Instead of what train implies: here, nothing is random, and the list says size and
        dtype."""
        said = rows(image_size=224, transforms=[{"Resize": {"size": [40, 40]}}, "ToTensor"])
        self.assertEqual((said[0].images.shape, said[0].images.dtype), ((8, 3, 40, 40), np.float32))
        self.assertEqual({int(flags) for batch in said for flags in batch.samples["flags"]}, {0})
        raw = rows(image_size=40, transforms=[{"Resize": {"size": [40, 40]}}, "PILToTensor"])
        for a, b in zip(said, raw):
            self.assertEqual(b.images.dtype, np.uint8)
            np.testing.assert_array_equal(a.images, b.images.astype(np.float32) / np.float32(255))

    def test_indices(self) -> None:
        chosen = [7, 3, 3, 40]
        got = rows(indices=chosen, train=False, batch_size=3)
        self.assertEqual([list(batch.samples["index"]) for batch in got], [[7, 3, 3], [40]])
        with loader(indices=chosen, train=False) as source:
            self.assertEqual(len(source.dataset), 4)
            self.assertEqual(source.samples, 60)

    def test_list_of_tars(self) -> None:
        tars = sorted(Path(support.dataset(tars=True)).glob("*.tar"))
        self.assertGreater(len(tars), 1)
        whole = rows(source=f"{tars[0].parent}/*.tar", dtype="uint8", train=False)
        listed = rows(source=tars, dtype="uint8", train=False)
        self.assertEqual([b.images.tobytes() for b in whole], [b.images.tobytes() for b in listed])
        backwards = rows(source=[str(tars[-1]), str(tars[0])], train=False)
        self.assertEqual(backwards[0].count, 8)


class Kept(unittest.TestCase):
    def test_fifty_batches(self) -> None:
        """Kept batches belong to the user: later batches do not change them."""
        with loader(support.dataset(per_class=140), dtype="uint8") as source:
            kept, copies = [], []
            for images, labels in source:
                kept.append((images, labels))
                copies.append((images.tobytes(), labels.tobytes()))
            self.assertGreaterEqual(len(kept), 50)
            for _ in source:
                pass
        support.stop_daemons()
        for (images, labels), (pixels, numbers) in zip(kept, copies):
            self.assertEqual(images.tobytes(), pixels)
            self.assertEqual(labels.tobytes(), numbers)
        self.assertEqual(len({pixels for pixels, _ in copies}), len(copies), "the same batch twice")

    def test_memory_is_used_again(self) -> None:
        """A loop that keeps no batch alternates between two blocks."""
        with loader() as source:
            places = [images.ctypes.data for _ in range(4) for images, _ in source]
        self.assertGreater(len(places), 20)
        self.assertLessEqual(len(set(places)), 3)


class Records(unittest.TestCase):
    def test_evaluation(self) -> None:
        with loader(train=False) as source:
            batches = list(source.batches())
            self.assertEqual([b.count for b in batches], [8] * 7 + [4])
            self.assertEqual([len(b.images) for b in batches], [8] * 7 + [4])
            self.assertEqual([len(b.labels) for b in batches], [8] * 7 + [4])
            self.assertEqual([b.last for b in batches], [False] * 7 + [True])
            self.assertEqual([(b.epoch, b.batch) for b in batches], [(0, i) for i in range(8)])
            samples = np.concatenate([b.samples for b in batches])
            np.testing.assert_array_equal(samples["index"], np.arange(60))
            np.testing.assert_array_equal(samples["position"], np.arange(60))
            np.testing.assert_array_equal(samples["label"], np.concatenate([b.labels for b in batches]))
            self.assertTrue((samples["crop_w"] == samples["src_w"]).all() and (samples["src_w"] >= 64).all())
            images, labels = batches[0]
            self.assertIs(images, batches[0].images)
            self.assertEqual(len(source.dataset), 60)

    def test_training(self) -> None:
        samples = np.concatenate([b.samples for b in rows()])
        self.assertEqual(len(set(samples["index"])), 56)
        self.assertEqual(set(samples["flags"]), {0, penstock.FLIPPED})
        self.assertTrue((samples["crop_x"] + samples["crop_w"] <= samples["src_w"]).all())
        samples["flags"] = 0  # it belongs to the caller

    def test_labels_and_paths(self) -> None:
        with loader(train=False) as source:
            self.assertEqual(source.classes, ["beach", "bricks", "forest"])
            self.assertEqual(source.class_to_idx, {"beach": 0, "bricks": 1, "forest": 2})
            self.assertEqual((source.samples, source.dataset.classes), (60, source.classes))
            for batch in source.batches():
                for row in batch.samples:
                    path = Path(source.path(row["index"]))
                    self.assertTrue(path.is_absolute() and path.is_file(), path)
                    self.assertEqual(path.parent.name, source.classes[row["label"]])
            for index, sentence in ((60, "sample 60 does not exist: the dataset has 60"), (-1, "path: index: expected a whole")):
                with self.assertRaisesRegex(penstock.ArgumentError, sentence):
                    source.path(index)
            with self.assertRaisesRegex(TypeError, "path: index"):
                source.path("beach")

    def test_member_of_a_tar(self) -> None:
        with loader(support.dataset(tars=True) + "/*.tar", train=False) as source:
            shard, member = source.path(0).split("!")
            self.assertTrue(Path(shard).is_file() and member.endswith(".jpg"))

    def test_unlabelled(self) -> None:
        flat = support.folder / "flat"
        flat.mkdir()
        for number, path in enumerate(sorted(Path(support.dataset()).rglob("*.jpg"))[:20]):
            shutil.copy(path, flat / f"{number:03}.jpg")
        with loader(flat, train=False) as source:
            self.assertEqual((source.classes, source.class_to_idx), ([], {}))
            self.assertEqual({int(label) for _, labels in source for label in labels}, {-1})
        with self.assertRaisesRegex(penstock.DatasetError, "its labels come from class folders"):
            loader(flat, labels="cls")

    def test_broken(self) -> None:
        source = support.folder / "broken"
        shutil.copytree(support.dataset(), source)
        (source / "beach/beach_00003.jpg").write_bytes(b"no JPEG at all")
        train = np.concatenate([b.samples for b in rows(source=source, max_broken=0.5, batch_size=4)])
        substituted = train[train["flags"] & penstock.SUBSTITUTED != 0]
        self.assertEqual(len(substituted), 1)
        self.assertNotEqual(substituted["index"][0], 3)
        with loader(source, train=False, max_broken=0.5) as evaluation:
            batches = list(evaluation.batches())
            invalid = [(b, i) for b in batches for i in range(b.count) if b.samples["flags"][i] & penstock.INVALID]
            self.assertEqual(len(invalid), 1)
            batch, row = invalid[0]
            self.assertEqual(batch.samples["index"][row], 3)
            self.assertGreaterEqual(sum(evaluation.stats()["broken"].values()), 1)
        raw = rows(source=source, train=False, max_broken=0.5, dtype="uint8")[0]
        self.assertFalse(raw.images[3].any())
        self.assertTrue(raw.images[2].any())
        with loader(source, train=False, on_broken="fail") as strict:
            with self.assertRaisesRegex(penstock.Error, "sample 3 is broken"):
                list(strict)
        with loader(source, max_broken=0, batch_size=4) as none:
            with self.assertRaises(penstock.Error):
                list(none)


class Known(unittest.TestCase):
    def test_stats(self) -> None:
        with loader() as source:
            list(source)
            stats = source.stats()
            self.assertIsInstance(stats["verdict"], str)
            self.assertIn("kind", stats["bottleneck"])
            self.assertGreaterEqual(stats["images"], 56)
            self.assertEqual((stats["samples"], stats["order_samples"]), (60, 60))

    def test_attributes(self) -> None:
        with loader() as source:
            self.assertEqual((source.batch_size, source.image_size, source.rank, source.world_size), (8, 48, 0, 1))
            self.assertRegex(repr(source), r"<penstock.Loader .*: 60 samples of 3 classes, 7 batches of 8, at epoch 0, sample 0>")
            self.assertFalse(source.closed)
        self.assertTrue(source.closed)
        self.assertRegex(repr(source), "closed")
        self.assertRegex(penstock.__version__, r"\d+\.\d+\.\d+")

    def test_no_samples_by_number(self) -> None:
        """What a DataLoader around a loader, or around its dataset, would ask for."""
        with loader() as source:
            for asked in (source, source.dataset):
                with self.assertRaisesRegex(penstock.ArgumentTypeError, "without a DataLoader"):
                    asked[0]
            self.assertEqual(len(list(source)), 7)

    def test_import_is_light(self) -> None:
        answer = support.python(
            "import penstock, sys; print([m for m in ('torch', 'jax', 'torchvision') if m in sys.modules])"
        )
        self.assertEqual(answer.stdout.strip(), "[]")

    def test_threads_take_turns(self) -> None:
        with loader(support.dataset(per_class=140), batch_size=4) as source:
            iterator = source.batches()
            seen: "list[int]" = []
            readers = [threading.Thread(target=lambda: seen.extend(b.batch for b in iterator)) for _ in range(3)]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(support.LIMIT)
            self.assertEqual(sorted(seen), list(range(len(source))))

    def test_named_stream(self) -> None:
        home = support.folder / "named"
        keys = [f"source: {support.dataset()}", "batch_size: 6", "image_size: 32", "train: false"]
        config = "\n    ".join(["streams:\n  small:", *keys]) + "\n"
        home.mkdir()
        with support.harness.Daemon(home, config=config) as daemon:
            with penstock.Stream("small", socket=daemon.socket, framework="numpy", dtype="uint8") as stream:
                self.assertEqual([len(labels) for _, labels in stream], [6] * 10)
                self.assertEqual(stream.image_size, 32)
            with penstock.Loader("stream:small", socket=daemon.socket, framework="numpy") as same:
                it = iter(same)
                next(it)
                self.assertEqual([b.epoch for b in same.batches()], [1] * 10, "break gives up the rest of the epoch")
                with self.assertRaisesRegex(penstock.GroupError, "next epoch of this loader is 2"):
                    same.set_epoch(9)
                same.set_epoch(2)
            with penstock.Stream("small", socket=daemon.socket, framework="numpy") as stream:
                with self.assertRaisesRegex(penstock.Error, "set_indices: "):
                    stream.set_indices([1])
            with self.assertRaisesRegex(penstock.ArgumentError, "batch_size, train belong to the named stream: leave them out, change the daemon's configuration"):
                penstock.Loader("stream:small", socket=daemon.socket, batch_size=7, train=False)
            with self.assertRaisesRegex(penstock.SourceNotFoundError, "large"):
                penstock.Stream("large", socket=daemon.socket)
            with self.assertRaisesRegex(TypeError, "Stream has no argument 'batch_size': the daemon's configuration sets it"):
                penstock.Stream("small", batch_size=6)


class Life(unittest.TestCase):
    def test_nothing_is_left(self) -> None:
        loader().close()
        with support.nothing_left("three loaders"):
            for _ in range(3):
                with loader() as source:
                    for _batch in source:
                        break
                source.close()
            del source

    def test_dropped(self) -> None:
        """A loader that is not closed ends with its last reference."""
        with support.nothing_left("a loader that was dropped"):
            next(iter(loader()))

    def test_closed(self) -> None:
        source = loader()
        iterator = iter(source)
        images, _ = next(iterator)
        place = source.state_dict()
        source.close()
        source.close()
        images += 1
        for use in (
            lambda: next(iterator),
            lambda: iter(source),
            lambda: source.batches(),
            lambda: source.path(0),
            lambda: source.stats(),
            lambda: source.classes,
            lambda: source.set_epoch(1),
            lambda: source.load_state_dict(place),
            lambda: source.__enter__(),
        ):
            with self.assertRaisesRegex(penstock.ClosedError, "was closed: create a new one"):
                use()
        self.assertEqual((len(source), source.state_dict()), (7, place))

    def test_copied(self) -> None:
        with loader() as source:
            for use in (pickle.dumps, copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "create one in each process"):
                    use(source)

    def test_forked(self) -> None:
        source = loader()
        iterator = iter(source)
        next(iterator)

        def child() -> "list[str]":
            said = []
            for use in (lambda: next(iterator), lambda: iter(source), lambda: source.stats(), lambda: source.path(0)):
                try:
                    use()
                except penstock.ForkError as error:
                    said.append(str(error))
            source.close()
            with loader() as own:
                said.append(str(sum(1 for _ in own)))
            return said

        said = support.forked(child)
        self.assertEqual(len(said), 5)
        self.assertIn(f"belongs to process {os.getpid()}", said[0])
        self.assertEqual(said[4], "7")
        self.assertEqual(sum(1 for _ in iterator), 6, "the parent goes on")
        source.close()


if __name__ == "__main__":
    support.main()
