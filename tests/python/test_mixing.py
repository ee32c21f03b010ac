"""Mixing, soft labels, views, sizes that change, float labels, and how often samples come: what a
loop gets, and what a wrong argument does."""

from __future__ import annotations

import io
import tarfile
import unittest
from pathlib import Path
from typing import Any, Callable

import support  # first: it skips the tests if NumPy is not installed
from support import penstock

import numpy as np

SIDE, CLASSES = 32, 3


def loader(source: Any = None, **arguments: Any) -> Any:
    base = {"batch_size": 8, "image_size": SIDE, "framework": "numpy", "seed": 5}
    return penstock.Loader(support.dataset() if source is None else source, **{**base, **arguments})


def batches(count: int = 7, source: Any = None, **arguments: Any) -> "list[Any]":
    with loader(source, **arguments) as made:
        iterator = made.batches()
        return [next(iterator) for _ in range(count)]


def one_hot(labels: Any, classes: int = CLASSES) -> Any:
    return np.eye(classes, dtype=np.float32)[labels]


def lambda_of(plain: Any, mixed: Any) -> "float | None":
    """The share of the row's own label, for a row whose partner has another label."""
    for i, label in enumerate(plain.labels):
        if label != plain.labels[i - 1]:
            return np.float32(mixed.labels[i, label])
    return None


class Mixing(unittest.TestCase):
    def check_mixup(self, plain: Any, mixed: Any) -> bool:
        own = lambda_of(plain, mixed)
        if own is None:
            return False
        rest = np.float32(mixed.labels[[i for i, label in enumerate(plain.labels) if label != plain.labels[i - 1]][0]].sum()) - own
        for i in range(mixed.count):
            partner = plain.images[i - 1]
            near = np.abs(mixed.images[i] - (plain.images[i] * own + partner * rest)).max()
            self.assertLess(near, 1e-6)
        want = one_hot(plain.labels) * own + np.roll(one_hot(plain.labels), 1, 0) * rest
        np.testing.assert_allclose(mixed.labels, want, atol=1e-6)
        return 0.001 < own < 0.999

    def test_mixup(self) -> None:
        seen = sum(self.check_mixup(a, b) for a, b in zip(batches(), batches(mixup=1.0)))
        self.assertGreater(seen, 3)

    def test_cutmix(self) -> None:
        cut = 0
        for plain, mixed in zip(batches(), batches(cutmix=1.0)):
            theirs = np.zeros((SIDE, SIDE), bool)
            for i in range(mixed.count):
                own = (mixed.images[i] == plain.images[i]).all(0)
                partner = (mixed.images[i] == plain.images[i - 1]).all(0)
                self.assertTrue((own | partner).all())
                theirs |= ~own
            ys, xs = np.nonzero(theirs)
            area = (np.ptp(ys) + 1) * (np.ptp(xs) + 1) if len(ys) else 0
            own_share = lambda_of(plain, mixed)
            if own_share is not None and area:
                self.assertAlmostEqual(own_share, 1 - area / SIDE**2, 6)
                cut += 1
        self.assertGreater(cut, 2)

    def test_erased_before_normalized(self) -> None:
        """Erased pixels equal converted pixels of that value, to the last bit."""
        mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
        list_of = [{"RandomResizedCrop": {"size": SIDE}}, "ToTensor", ("RandomErasing", {"p": 1, "value": 0.2}),
                   ("Normalize", {"mean": mean, "std": std})]
        (erased,), (plain,) = batches(1, transforms=list_of), batches(1, transforms=list_of[:2] + list_of[3:])
        pixel = (np.float32(51) / np.float32(255) - np.float32(mean)) / np.float32(std)
        for one, other in zip(erased.images, plain.images):
            where = (one != other).any(0)
            self.assertTrue(where.any())
            np.testing.assert_array_equal(one[:, where], np.broadcast_to(pixel[:, None], (3, where.sum())))

    def test_orders_and_dtypes(self) -> None:
        """The same values in any memory order; shorter types are those of float32 except for two
        roundings."""
        whole = batches(3, mixup=1.0, cutmix=1.0)
        for keys, step in (({"channels_last": False}, 0.0), ({"dtype": "float16"}, 0.004)):
            for a, b in zip(whole, batches(3, mixup=1.0, cutmix=1.0, **keys)):
                np.testing.assert_allclose(b.images.astype(np.float32), a.images, atol=step, rtol=0)
                np.testing.assert_array_equal(a.labels, b.labels)

    def test_goes_on_alike(self) -> None:
        keys = {"mixup": 0.4, "cutmix": 1.0, "label_smoothing": 0.1}
        with loader(**keys) as made:
            whole = [*made.batches(), *made.batches()]
        with loader(**keys) as first:
            iterator = iter(first)
            for _ in range(4):
                next(iterator)
            state = first.state_dict()
        with loader(state=state, **keys) as second:
            for got, want in zip(second.batches(), whole[4:7]):
                np.testing.assert_array_equal(got.images, want.images)
                np.testing.assert_array_equal(got.labels, want.labels)
            after = next(second.batches())
            self.assertEqual((after.epoch, after.batch), (1, 0))
            np.testing.assert_array_equal(after.images, whole[7].images)

    def test_ranks(self) -> None:
        """Each rank mixes only its own rows."""
        for rank in (0, 1):
            keys = {"rank": rank, "world_size": 2, "batch_size": 4}
            for plain, mixed in zip(batches(3, **keys), batches(3, mixup=1.0, **keys)):
                self.assertEqual(plain.samples["position"].tolist(), mixed.samples["position"].tolist())
                self.check_mixup(plain, mixed)

    def test_never_mixed(self) -> None:
        for plain, mixed in zip(batches(3), batches(3, mixup=1.0, mix_prob=0)):
            np.testing.assert_array_equal(plain.images, mixed.images)
            np.testing.assert_array_equal(mixed.labels, one_hot(plain.labels))

    def test_smoothing_alone(self) -> None:
        for dtype in ("float32", "uint8"):
            for plain, smooth in zip(batches(3, dtype=dtype), batches(3, dtype=dtype, label_smoothing=0.3, num_classes=5)):
                np.testing.assert_array_equal(plain.images, smooth.images)
                np.testing.assert_allclose(smooth.labels, one_hot(plain.labels, 5) * 0.7 + 0.06, atol=1e-6)
                self.assertEqual(smooth.labels.dtype, np.float32)

    def test_short_last_batch(self) -> None:
        with loader(train=False, mixup=1.0) as made:
            counts = [(batch.count, batch.labels.shape, batch.images.shape[0]) for batch in made.batches()]
        self.assertEqual(counts[-1], (4, (4, CLASSES), 4))

    def test_kept_batches_stay(self) -> None:
        with loader(mixup=1.0) as made:
            kept = [(batch.images, batch.labels, batch.images.copy(), batch.labels.copy()) for batch in made.batches()]
        for images, labels, was, were in kept:
            np.testing.assert_array_equal(images, was)
            np.testing.assert_array_equal(labels, were)


class Epochs(unittest.TestCase):
    """Mixing that changes with the epoch is, in each epoch, mixing that does not."""

    def check(self, changing: "dict[str, Any]", constant: "dict[int, dict[str, Any]]") -> None:
        with loader(num_classes=5, **changing) as made:
            got = {epoch: [(images.copy(), labels.copy()) for images, labels in made] for epoch in range(max(constant) + 1)}
        for epoch, keys in constant.items():
            with self.subTest(epoch=epoch), loader(**keys) as made:
                made.set_epoch(epoch)
                for (images, labels), (want, their) in zip(got[epoch], made):
                    np.testing.assert_array_equal(images, want)
                    np.testing.assert_array_equal(labels, their if their.ndim == 2 else one_hot(their, 5))

    def test_each_argument(self) -> None:
        five = {"num_classes": 5}
        self.check({"mixup": {0: 0.8, 2: 0}}, {0: {"mixup": 0.8, **five}, 1: {"mixup": 0.8, **five}, 2: {}, 3: {}})
        self.check({"cutmix": {0: 0, 1: 1.0}, "mixup": 0.4}, {0: {"mixup": 0.4, **five}, 1: {"mixup": 0.4, "cutmix": 1.0, **five}})
        self.check({"mixup": 1.0, "mix_prob": {0: 1, 1: 0}, "label_smoothing": {0: 0, 2: 0.2}},
                   {0: {"mixup": 1.0, **five}, 1: {}, 2: {"label_smoothing": 0.2, **five}})
        self.check({"mixup": 1.0, "cutmix": 1.0, "mix_switch": {0: 0, 1: 1.0}},
                   {0: {"mixup": 1.0, **five}, 1: {"cutmix": 1.0, "mixup": 1.0, "mix_switch": 1.0, **five}})
        self.check({"mixup": {0: None, 1: 0.5, 2: 0.5, 3: 0}}, {0: {}, 1: {"mixup": 0.5, **five}, 2: {"mixup": 0.5, **five}, 3: {}})

    def test_goes_on_alike(self) -> None:
        keys: "dict[str, Any]" = {"mixup": {0: 1.0, 1: 0}, "label_smoothing": {0: 0.1, 1: 0}, "cutmix": {0: 0, 2: 1.0}}
        with loader(**keys) as made:
            whole = [(batch.epoch, batch.batch, batch.images.copy(), batch.labels.copy()) for _ in range(3) for batch in made.batches()]
            made.set_epoch(0)
            iterator, states = made.batches(), []
            for _ in range(5):
                next(iterator)
            states.append((made.state_dict(), 5))
        for epoch in (1, 2):
            states.append(({**states[0][0], "epoch": epoch, "position": 16}, 7 * epoch + 2))
        for state, number in states:
            with loader(state=state, **keys) as made:
                for batch, (epoch, place, images, labels) in zip(made.batches(), whole[number:]):
                    self.assertEqual((batch.epoch, batch.batch), (epoch, place))
                    np.testing.assert_array_equal(batch.images, images)
                    np.testing.assert_array_equal(batch.labels, labels)

    def test_with_transforms(self) -> None:
        """MixUp in the list holds in all epochs; smoothing may change beside it."""
        crop = {"RandomResizedCrop": {"size": SIDE}}
        listed = [crop, "ToTensor", ("MixUp", {"alpha": 0.5, "num_classes": 5})]
        with loader(transforms=listed, label_smoothing={0: 0, 1: 0.5}) as made:
            sums = [[float(labels.min()) for _, labels in made] for _ in range(2)]
        self.assertEqual(set(sums[0]), {0.0})
        self.assertEqual({round(low, 4) for low in sums[1]}, {0.1})

    def test_refusals(self) -> None:
        def refused(error: str, said: str, **keys: Any) -> None:
            with self.subTest(said), self.assertRaisesRegex(getattr(penstock, error), said):
                loader(**keys)

        refused("ArgumentError", r"mixup: expected a value from epoch 0 on, such as \{0: 0.8, 280: 0\}, got \{5: 1\}", mixup={5: 1})
        refused("ArgumentError", "cutmix: expected a value from epoch 0 on", cutmix={})
        refused("ArgumentError", r"mixup\[3\]: expected 0 or None for off, .*got -1", mixup={0: 1, 3: -1})
        refused("ArgumentTypeError", r"mixup\[3\]: expected 0 or None", mixup={0: 1, 3: "x"})
        refused("ArgumentError", "mixup: an epoch: expected a whole number from 0 to 4294967295, got -1", mixup={0: 1, -1: 1})
        refused("ArgumentTypeError", "label_smoothing: an epoch: expected a whole number", label_smoothing={0: 0.1, "1": 0})
        refused("ArgumentError", r"label_smoothing\[2\]: expected a number from 0 to 1, got 3", label_smoothing={0: 0, 2: 3})
        refused("ArgumentError", r"mix_prob\[1\]: expected a number from 0 to 1", mixup=1, mix_prob={0: 1, 1: 2})
        refused("ArgumentError", "mix_prob has a meaning only with mixup", mixup={0: 0, 3: None}, mix_prob={0: 1, 1: 0.5})
        refused("ArgumentError", "need floats, but dtype=\"uint8\"", mixup={0: 0, 9: 1.0}, dtype="uint8")
        refused("ArgumentError", "mixup cannot be combined with zero_copy", mixup={0: 0, 9: 1.0}, zero_copy=True)
        refused("ArgumentError", "the dataset has no labels, and mixup", mixup={0: 0, 9: 1.0}, labels="none", num_classes=3)
        refused("ArgumentError", "transforms already contains MixUp", mixup={0: 0, 9: 1.0},
                transforms=[{"RandomResizedCrop": {"size": SIDE}}, "ToTensor", "MixUp"])
        refused("ArgumentError", "change in 65538 epochs: expected at most 65536 changes",
                mixup={epoch: 0.1 + epoch % 2 for epoch in range(65538)})
        loader(mixup={epoch: 0.5 for epoch in range(65538)}).close()


class Views(unittest.TestCase):
    def test_shapes(self) -> None:
        for batch in batches(views=3):
            self.assertIsInstance(batch.images, tuple)
            self.assertEqual([view.shape for view in batch.images], [(8, 3, SIDE, SIDE)] * 3)
            self.assertEqual((batch.count, batch.labels.shape, batch.samples.shape), (8, (8,), (24,)))
            self.assertEqual(batch.samples["view"].tolist(), [0, 1, 2] * 8)
            self.assertEqual(batch.samples["label"][::3].tolist(), batch.labels.tolist())
            self.assertFalse(any(np.shares_memory(a, b) for a, b in zip(batch.images, batch.images[1:])))

    def test_first_view_is_that_of_one(self) -> None:
        for one, two in zip(batches(3), batches(3, views=2)):
            np.testing.assert_array_equal(one.images, two.images[0])
            np.testing.assert_array_equal(one.labels, two.labels)
            self.assertFalse((two.images[0] == two.images[1]).all())

    def test_mixed_alike(self) -> None:
        for plain, mixed in zip(batches(5, views=2), batches(5, views=2, mixup=1.0)):
            own = lambda_of(plain, mixed)
            if own is None:
                continue
            for a, b in zip(plain.images, mixed.images):
                np.testing.assert_allclose(b, a * own + np.roll(a, 1, 0) * (1 - own), atol=1e-5)

    def test_zero_copy(self) -> None:
        with loader(views=2, zero_copy=True) as made:
            for lent, own in zip(made.batches(), batches(7, views=2, dtype="uint8")):
                for a, b in zip(lent.images, own.images):
                    np.testing.assert_array_equal(a, b)
                    with self.assertRaises(penstock.ReadOnlyError):
                        a[0] = 0
                del lent, a

    def test_epochs(self) -> None:
        with loader(views=2) as made:
            self.assertEqual((len(made), made.views, made.remaining), (7, 2, 7))
            next(iter(made))
            self.assertEqual(made.remaining, 6)
            self.assertEqual(made.state_dict()["position"], 8)


class Sizes(unittest.TestCase):
    SIZES = {0: 32, 2: 48}

    def test_shapes(self) -> None:
        for keys in ({}, {"dtype": "float16", "channels_last": False}, {"mixup": 1.0}, {"zero_copy": True}):
            with self.subTest(keys), loader(image_size=self.SIZES, **keys) as made:
                self.assertEqual(made.image_size, 48)
                for side in (32, 32, 48, 48):
                    shapes = {images.shape for images, _ in made}
                    self.assertEqual(shapes, {(8, 3, side, side)})

    def test_is_that_of_one_size(self) -> None:
        with loader(image_size=self.SIZES) as grows:
            grows.set_epoch(1)
            small = [images for images, _ in grows]
            large = [images for images, _ in grows]
            kept = [array.copy() for array in small]
        for epoch, side, got in ((1, 32, small), (2, 48, large)):
            with loader(image_size=side) as made:
                made.set_epoch(epoch)
                for want, have in zip((images for images, _ in made), got):
                    np.testing.assert_array_equal(want, have)
        for a, b in zip(small, kept):
            np.testing.assert_array_equal(a, b)

    def test_goes_on(self) -> None:
        with loader(image_size=self.SIZES) as made:
            made.set_epoch(2)
            iterator = iter(made)
            next(iterator)
            state, want = made.state_dict(), next(iterator)[0]
        with loader(image_size=self.SIZES, state=state) as made:
            np.testing.assert_array_equal(next(iter(made))[0], want)


def folder_of_names(source: str) -> "list[str]":
    return sorted(str(path.relative_to(source)) for path in Path(source).rglob("*.jpg"))


class Labels(unittest.TestCase):
    def manifest(self, name: str, rows: "list[str]") -> Path:
        path = support.folder / name
        path.write_text("".join(row + "\n" for row in rows))
        return path

    def test_floats(self) -> None:
        source = support.dataset()
        names = folder_of_names(source)
        values = {name: (i / 4, -i) for i, name in enumerate(names)}
        path = self.manifest("floats.csv", ["path,a,b", *(f"{name},{a},{b}" for name, (a, b) in values.items())])
        said = {"manifest": path, "type": "float"}
        with loader(source, labels=said) as made, loader(source, labels=said, mixup=1.0) as mixed:
            for batch, soft in zip(made.batches(), mixed.batches()):
                self.assertEqual((batch.labels.dtype, batch.labels.shape), (np.dtype(np.float32), (8, 2)))
                for label, index in zip(batch.labels, batch.samples["index"]):
                    name = str(Path(made.path(int(index))).relative_to(source))
                    self.assertEqual(tuple(label), values[name])
                self.assertEqual(soft.labels.shape, (8, 2))
                low = np.minimum(batch.labels, np.roll(batch.labels, 1, 0)) - 1e-4
                self.assertTrue((soft.labels >= low).all())
        with self.assertRaisesRegex(penstock.ArgumentError, "label_smoothing needs labels with one class each"):
            loader(source, labels=said, label_smoothing=0.1)
        with self.assertRaisesRegex(penstock.ArgumentError, "num_classes is 7, but the dataset's labels have 2 floats"):
            loader(source, labels=said, mixup=1.0, num_classes=7)
        with loader(source, labels=said, zero_copy=True) as lent:
            self.assertEqual(next(iter(lent))[1].shape, (8, 2))

    def test_rows_of_classes(self) -> None:
        """type: classes gives int64 of shape (B, K), in every form of batches; mixing needs one class."""
        source = support.dataset()
        rows = {name: (i % 3, 500 + i, 7) for i, name in enumerate(folder_of_names(source))}
        path = self.manifest("rows.csv", ["path,color,id,camera", *(f"{name},{a},{b},{c}" for name, (a, b, c) in rows.items())])
        said = {"manifest": path, "type": "classes"}
        with loader(source, labels=said) as made, loader(source, labels=said, zero_copy=True) as lent:
            for batch, view in zip(made.batches(), lent.batches()):
                self.assertEqual((batch.labels.dtype, batch.labels.shape), (np.dtype(np.int64), (8, 3)))
                self.assertEqual((view.labels.dtype, view.labels.tolist()), (np.dtype(np.int64), batch.labels.tolist()))
                for label, index in zip(batch.labels, batch.samples["index"]):
                    self.assertEqual(tuple(label), rows[str(Path(made.path(int(index))).relative_to(source))])
                self.assertEqual(batch.samples["label"].tolist(), batch.labels[:, 0].tolist())
            self.assertEqual(made.classes, [])
        for keys in ({"mixup": 1.0, "num_classes": 9}, {"label_smoothing": 0.1, "num_classes": 9}):
            with self.assertRaisesRegex(penstock.ArgumentError, "need labels with one class each, and this dataset has 3 classes"):
                loader(source, labels=said, **keys)
        # The first label is the class: of `sampling` and of balanced weights.
        with loader(source, labels=said, sampling={"classes": 2, "per_class": 4}) as made:
            for _, labels in made:
                self.assertEqual([len(set(labels[i:i + 4, 0].tolist())) for i in (0, 4)], [1, 1])
                self.assertEqual((len(set(labels[:, 0].tolist())), len(set(labels[:, 1].tolist()))), (2, 8))
        few = [*range(0, 60, 3), 1, 2]
        with loader(source, labels=said, weights="balanced", indices=few, epoch_length=600) as made:
            drawn = [int(label) for _, labels in made for label in labels[:, 0]]
            self.assertTrue(all(150 < drawn.count(color) < 250 for color in range(3)), drawn)
        hot = self.manifest("hot.csv", ["path,labels", *(f"{name},0;1" for name in rows)])
        with self.assertRaisesRegex(penstock.ArgumentError, "sampling needs labels that are one class each, or several"):
            loader(source, labels={"manifest": hot}, sampling={"classes": 2, "per_class": 4})
        names = self.manifest("words.csv", ["path,labels", *(f"{name},b;a" for name in rows)])
        with loader(source, labels={"manifest": names, "type": "classes"}) as made:
            self.assertEqual((made.classes, next(iter(made))[1].tolist()[0]), (["a", "b"], [1, 0]))

    def test_refusals(self) -> None:
        for value, error, sentence in (
                ({"manifest": "x.csv", "json": "a"}, "ArgumentError", "labels: expected one of .* the dict must have"),
                ({}, "ArgumentError", "labels: .* the dict must have"),
                ({"manifets": "x.csv"}, "ArgumentError", "labels: .* got the key 'manifets'"),
                ({"manifest": 3}, "ArgumentTypeError", r"labels\['manifest'\]: expected the path of a file, got 3"),
                ({"manifest": "x.csv", "type": "multi"}, "ArgumentError", r"labels\['type'\]: expected one of 'class', 'multi_hot'"),
                (["cls"], "ArgumentTypeError", "labels: expected one of 'auto'")):
            with self.subTest(value), self.assertRaisesRegex(getattr(penstock, error), sentence):
                loader(labels=value)


class Sampling(unittest.TestCase):
    def indices(self, **keys: Any) -> "list[int]":
        with loader(**keys) as made:
            return [int(i) for batch in made.batches() for i in batch.samples["index"]]

    def test_weights(self) -> None:
        weights = np.zeros(60)
        weights[[3, 40]] = 1, 3
        seen = self.indices(weights=weights, epoch_length=400)
        self.assertEqual((len(seen), set(seen)), (400, {3, 40}))
        self.assertGreater(seen.count(40), 2 * seen.count(3))
        self.assertEqual(seen, self.indices(weights=weights.tolist(), epoch_length=400))
        path = support.folder / "weights.npy"
        np.save(path, weights)
        self.assertEqual(seen, self.indices(weights=path, epoch_length=400))
        self.assertEqual(set(self.indices(weights="balanced", epoch_length=4000)), set(range(60)))

    def test_per_class(self) -> None:
        """Each batch has P classes with K samples of each, and a state continues with another multiple."""
        sampling = {"classes": 2, "per_class": 5}
        with loader(sampling=sampling, batch_size=10) as made:
            rows = [batch.samples["index"] for batch in made.batches()]
            state = made.state_dict()
            later = [batch.samples["index"] for batch in made.batches()]
        self.assertEqual(len(rows), 6)
        for batch in rows:
            labels = np.asarray(batch) // (60 // CLASSES)
            self.assertEqual([len(set(labels[:5])), len(set(labels[5:])), len(set(labels)), len(set(batch))], [1, 1, 2, 10])
        with loader(sampling=sampling, batch_size=20, state=state) as made:
            self.assertEqual([list(batch.samples["index"]) for batch in made.batches()],
                             [[*a, *b] for a, b in zip(later[::2], later[1::2])])

    def test_buckets(self) -> None:
        """Batches have one of several shapes, len() and remaining are exact, and states continue at other batch sizes."""
        sizes = [(24, 16), (20, 20), (16, 24)]

        def made_with(batch_size: int, **arguments: Any) -> Any:
            return loader(buckets=sizes, batch_size=batch_size, image_size=224, drop_last=False, **arguments)

        with made_with(4) as made:
            seen: "list[int]" = []
            for left, batch in zip(range(len(made) - 1, -1, -1), made.batches()):
                self.assertIn(batch.images.shape[2:], sizes)
                self.assertEqual(made.remaining, left)
                seen += list(batch.samples["index"])
                if left == len(made) - 4:
                    state = made.state_dict()
                    early = list(seen)
            self.assertEqual(sorted(seen), list(range(60)))
            self.assertEqual(len(made.sampler), 60)
            self.assertEqual((state["cuts"], state["position"]), ([[0, 4]], 16))
            self.assertEqual(made.image_size, 24)
        for batch_size in (4, 3, 7):
            with made_with(batch_size, state=state) as made:
                left = made.remaining
                later = [list(batch.samples["index"]) for batch in made.batches()]
                self.assertEqual(len(later), left)
                self.assertEqual(sorted(early + sum(later, [])), list(range(60)))
                self.assertEqual(made.remaining, len(made))
        with made_with(3, state=state) as made:
            iterator = made.batches()
            rows = [next(iterator) for _ in range(2)]
            again = made.state_dict()
            self.assertEqual(again["cuts"], [[0, 4], [16, 3]])
            want = [list(batch.samples["index"]) for batch in iterator]
        with made_with(3) as made:
            made.load_state_dict(again)
            self.assertEqual([list(batch.samples["index"]) for batch in made.batches()], want)
            self.assertEqual(len(rows[0].labels), rows[0].count)

    def test_split(self) -> None:
        first, rest = (self.indices(split=text, drop_last=False) for text in ("[:75%]", "[75%:]"))
        self.assertEqual((len(first), sorted(first + rest)), (45, list(range(60))))

    def test_repeats(self) -> None:
        seen = self.indices(repeats=4, batch_size=12)
        self.assertEqual(seen[::4], seen[3::4])
        self.assertEqual(len(set(seen)), 15)

    def test_several_sources(self) -> None:
        pairs = [(support.dataset(), 3), (support.dataset(seed=1), 1)]
        for source in (pairs, dict(pairs)):
            with loader(source, epoch_length=4000, batch_size=200) as made:
                paths = [made.path(int(i)) for batch in made.batches() for i in batch.samples["index"]]
            self.assertEqual(sum(path.startswith(support.dataset(seed=1) + "/") for path in paths), 1000)
        with loader(pairs) as made:
            iterator = made.batches()
            next(iterator)
            state, want = made.state_dict(), next(iterator)
        with loader(pairs, state=state) as made:
            np.testing.assert_array_equal(next(made.batches()).images, want.images)
        self.assertIn("(3)", repr(made))


class Refused(unittest.TestCase):
    def refused(self, error: str, sentence: str, make: Callable[[], Any]) -> None:
        with self.subTest(sentence), self.assertRaisesRegex(penstock.Error, sentence) as caught:
            make().close()
        self.assertIs(type(caught.exception), getattr(penstock, error), caught.exception)

    def argument(self, sentence: str, **keys: Any) -> None:
        self.refused("ArgumentError", sentence, lambda: loader(**keys))

    def kind(self, sentence: str, **keys: Any) -> None:
        self.refused("ArgumentTypeError", sentence, lambda: loader(**keys))

    def test_mixing(self) -> None:
        self.argument("mixup: expected 0 or None for off, or the alpha .*got -1", mixup=-1)
        self.argument("cutmix: expected 0 or None for off, .*got 1000", cutmix=1000)
        self.kind("mixup: .*got 'on'", mixup="on")
        self.argument("mixup: .*got nan", mixup=float("nan"))
        self.argument("mix_prob: expected a number from 0 to 1, got 2", mixup=1, mix_prob=2)
        self.argument("mix_prob has a meaning only with mixup or cutmix", mix_prob=0.5)
        self.argument("mix_switch has a meaning only with mixup or cutmix", mix_switch=0.1)
        self.argument("num_classes: expected a whole number from 1 to 16777216, got 0", mixup=1, num_classes=0)
        self.argument("num_classes has a meaning only with .*soft labels", num_classes=10)
        self.argument("label_smoothing: expected a number from 0 to 1, got 1.5", label_smoothing=1.5)
        self.argument('mixup, cutmix .* need floats, but dtype="uint8"', mixup=1, dtype="uint8")
        self.argument("mixup cannot be combined with zero_copy=True", mixup=1, zero_copy=True)
        self.argument("label_smoothing cannot be combined with zero_copy=True", label_smoothing=0.1, zero_copy=True)
        self.argument("num_classes has a meaning only with .*soft labels", num_classes=3, zero_copy=True)
        self.argument("mix_prob has a meaning only with", mix_prob=0.5, zero_copy=True)
        self.kind("mixup: expected 0 or None", mixup=np.ones(2), zero_copy=True)

    def test_paths_that_are_no_text(self) -> None:
        self.argument(r"labels\['manifest'\]: the path .* is not UTF-8", labels={"manifest": "/none\udcff.csv"})
        self.refused("ArgumentError", "source: the path .* is not UTF-8", lambda: loader([("/none\udcff", 1), (support.dataset(), 1)]))

    def test_labels_beyond(self) -> None:
        with loader(mixup=1, num_classes=2) as made:
            with self.assertRaisesRegex(penstock.ArgumentError, r"labels\[\d\] is 2, and num_classes is 2: expected a label below that"):
                list(made)

    def test_no_classes(self) -> None:
        folder = support.folder / "flat"
        folder.mkdir(exist_ok=True)
        for path in Path(support.dataset()).rglob("*.jpg"):
            (folder / f"{path.parent.name}-{path.name}").write_bytes(path.read_bytes())
        sentence = "the dataset has no labels, and mixup, cutmix and label_smoothing need labels: use class folders, .*manifest"
        for keys in ({"mixup": 1}, {"cutmix": 1.0}, {"label_smoothing": 0.1}, {"mixup": 1, "num_classes": 4}):
            self.argument(sentence, source=str(folder), **keys)
            self.argument('not labels="none"', labels="none", **keys)
        with loader(str(folder)) as made:
            self.assertEqual(set(next(iter(made))[1].tolist()), {-1})
        paths = sorted(path.name for path in folder.iterdir())
        numbers = support.folder / "numbers.csv"
        numbers.write_text("path,label\n" + "".join(f"{path},{i % 3}\n" for i, path in enumerate(paths)))
        said = {"manifest": str(numbers)}
        self.argument("num_classes: the dataset's labels are numbers without class names: pass", source=str(folder), labels=said, mixup=1)
        with loader(str(folder), labels=said, mixup=1, num_classes=4) as made:
            np.testing.assert_allclose(next(iter(made))[1].sum(1), 1, atol=1e-6)

    def test_names_of_numbers(self) -> None:
        """The file that penstock pack writes beside its tar files names their labels."""
        shard, packed = support.folder / "named.tar", support.folder / "named.pack.json"
        with tarfile.open(shard, "w") as tar:
            for i, path in enumerate(sorted(Path(support.dataset()).rglob("*.jpg"))[:8]):
                tar.add(path, f"k{i}.jpg")
                member = tarfile.TarInfo(f"k{i}.cls")
                member.size = 1
                tar.addfile(member, io.BytesIO(b"01"[i % 2 : i % 2 + 1]))
        packed.write_text('{"penstock_pack": 1, "classes": ["cat", "dog"], "shards": []}')
        with loader(str(shard), labels={"classes": str(packed)}, mixup=1) as made:
            self.assertEqual((made.classes, next(iter(made))[1].shape), (["cat", "dog"], (8, 2)))
        with loader(str(shard)) as made:
            self.assertEqual(made.classes, [])
        packed.write_text('{"penstock_pack": 1, "classes": []}')
        self.refused("ArgumentError", 'named.pack.json: has no "classes"', lambda: loader(str(shard), labels={"classes": str(packed)}))

    def test_sizes(self) -> None:
        self.argument("image_size: expected a size from epoch 0 on, such as", image_size={})
        self.argument("image_size: expected a size from epoch 0 on, got {3: 32}", image_size={3: 32})
        self.argument(r"image_size\[0\]: expected a whole number from 1 to 4096, got 8192", image_size={0: 8192})
        self.kind("image_size: an epoch: expected a whole number .*got 'a'", image_size={"a": 32})
        self.argument("image_size: transforms produces images of size 24, but the largest size of all epochs is 32", image_size={0: 32},
                      transforms=[{"RandomResizedCrop": {"size": 24}}])
        self.argument("but not of a crop", image_size={0: 16, 1: 24},
                      transforms=[{"Resize": {"size": 32}}, {"RandomCrop": {"size": 24}}])

    def test_sizes_of_a_list(self) -> None:
        """The list has the largest size, and each epoch has its own size."""
        operations = [{"RandomResizedCrop": {"size": 48}}, "TrivialAugmentWide"]
        with loader(image_size={0: 32, 1: 48}, transforms=operations) as made:
            self.assertEqual([{images.shape[2:] for images, _ in made} for _ in range(2)], [{(32, 32)}, {(48, 48)}])

    def test_buckets(self) -> None:
        sizes = [(24, 16), (16, 24)]
        plain = {"image_size": 224}
        self.kind(r"buckets: expected a list of sizes \(height, width\), such as .*got 24", buckets=24, **plain)
        self.kind("buckets: expected a list .*got '24'", buckets="24", **plain)
        self.argument("buckets: expected a list .*1 to 64 of them, got 0", buckets=[], **plain)
        self.argument("1 to 64 of them, got 65", buckets=[(1, n) for n in range(1, 66)], **plain)
        self.argument(r"buckets\[1\]: expected one whole number, such as 224, or \(height, width\)", buckets=[24, (1, 2, 3)], **plain)
        self.argument(r"buckets\[0\]: expected a whole number from 1 to \d+, got 0", buckets=[(0, 3)], **plain)
        self.kind(r"buckets\[0\]: expected a whole number from 1 to \d+, got 1.5", buckets=[(1.5, 3)], **plain)
        self.argument(r"buckets: \(48, 32\) has the ratio of width to height that \(24, 16\) has", buckets=[(24, 16), (48, 32)], **plain)
        self.argument("buckets: the buckets say the sizes: leave image_size out", buckets=sizes, image_size=32)
        self.argument("buckets cannot be written beside weights", buckets=sizes, weights="balanced", **plain)
        self.refused("DatasetError", "each bucket has .*fewer than one batch",
                     lambda: loader(buckets=sizes, batch_size=64, **plain))
        with loader(buckets=sizes, batch_size=2, drop_last=False, **plain) as made:
            iterator = made.batches()
            next(iterator)
            state = made.state_dict()
        self.refused("StateError", "cuts", lambda: loader(buckets=sizes, batch_size=2, drop_last=False, state={**state, "cuts": 3}, **plain))
        self.refused("StateError", "another order", lambda: loader(buckets=sizes, batch_size=2, state=state, **plain))

    def test_sampling(self) -> None:
        self.argument("views: expected a whole number from 1 to 16, got 17", views=17)
        self.argument("repeats: expected a whole number from 1 to 16, got 0", repeats=0)
        self.argument("epoch_length: expected a whole number from 1 to", epoch_length=0)
        self.kind("split: expected a string, got 3", split=3)
        self.argument("split: ", split="[:200%]")
        self.kind("weights: expected \"balanced\", .*got 3", weights=3)
        self.argument("weights: .*got 'balance', which is not a file", weights="balance")
        self.kind("weights: .*got list", weights=["a"])
        self.argument(r"weights\[1\] is -1.0: expected a finite number, 0 or more", weights=[1, -1])
        self.argument(r"weights\[0\] is nan", weights=[float("nan"), 1])
        self.argument("weights: none of the 3 weights is above 0", weights=[0, 0, 0])
        self.argument(r"weights: expected .*got the shape \(1, 2\)", weights=[[1, 2]])
        self.argument("weights.* has 3 weights, but there are 60", weights=[1, 2, 3])
        self.kind('sampling: expected a dict such as {"classes": 16, "per_class": 4}, got 16', sampling=16)
        self.argument("sampling: expected a dict .*got {'classes': 2, 'k': 2}", sampling={"classes": 2, "k": 2})
        self.argument(r"sampling\['classes'\]: expected a whole number from 1 to 65536, got 0", sampling={"classes": 0, "per_class": 2})
        self.argument("batch_size is 64, and sampling=.* needs a multiple of 3 x 5 = 15", batch_size=64, sampling={"classes": 3, "per_class": 5})
        self.argument("sampling: classes is 50, but the samples have only", batch_size=50, sampling={"classes": 50, "per_class": 1})
        self.argument("sampling cannot be written beside weights", batch_size=4, sampling={"classes": 2, "per_class": 2}, weights="balanced")
        self.argument("drop_last: expected True or None: a short last batch", batch_size=4, sampling={"classes": 2, "per_class": 2}, drop_last=False)

    def test_sources(self) -> None:
        one = support.dataset()
        for sentence, source in ((r"got a list of pairs that contains ", [(one, 1), one]), ("a weight above 0", [(one, 0)]),
                                 ("cannot be mixed with other sources", [("stream:a", 1)]), ("got an empty dict", {}),
                                 ("expected 2 to 16 datasets to mix, got 2000: pass files with the same weight", [(one, 1)] * 2000)):
            self.refused("ArgumentError", sentence, lambda source=source: loader(source))  # type: ignore[misc]


class NamedStreams(unittest.TestCase):
    """A stream whose images are already floats."""

    def test_converted(self) -> None:
        home = support.folder / "converted"
        keys = [f"source: {support.dataset()}", "batch_size: 8", f"image_size: {SIDE}", "seed: 5", "dtype: float16",
                "layout: NCHW", "views: 2"]
        home.mkdir()
        with support.harness.Daemon(home, config="\n    ".join(["streams:\n  half:", *keys]) + "\n") as daemon:
            self.check(str(daemon.socket))

    def test_refused(self) -> None:
        """What is refused for a stream of uint8 in planes, and for one of floats."""
        home = support.folder / "planes"
        home.mkdir()
        keys = [f"source: {support.dataset()}", "batch_size: 8", f"image_size: {SIDE}"]
        parts = ["\n    ".join([f"  {name}:", *keys, more]) for name, more in (("planes", "layout: NCHW"), ("floats", "dtype: float32"))]
        with support.harness.Daemon(home, config="\n".join(["streams:", *parts]) + "\n") as daemon:
            common = {"framework": "numpy", "socket": str(daemon.socket)}
            with self.assertRaisesRegex(penstock.ArgumentError, "mixup, cutmix and RandomErasing need floats, .* uint8 in planes"):
                penstock.Stream("planes", mixup=1.0, **common)
            with penstock.Stream("planes", label_smoothing=0.1, **common) as made:
                self.assertEqual(next(iter(made))[1].shape, (8, CLASSES))
            with self.assertRaisesRegex(penstock.ArgumentError, "dtype: the daemon's configuration .* float32"):
                penstock.Stream("floats", zero_copy=True, dtype="uint8", **common)

    def check(self, socket: str) -> None:
        keys = {"framework": "numpy", "socket": socket}
        with penstock.Stream("half", channels_last=False, mixup=1.0, **keys) as mixed, \
                penstock.Stream("half", zero_copy=True, **keys) as lent, penstock.Stream("half", **keys) as made:
            for batch, soft, view, want in zip(made.batches(), mixed.batches(), lent.batches(),
                                               batches(7, views=2, dtype="float16")):
                for mine, theirs, his in zip(batch.images, want.images, view.images):
                    self.assertEqual(mine.dtype, np.float16)
                    np.testing.assert_array_equal(mine, theirs)
                    np.testing.assert_array_equal(mine, his)
                self.assertEqual(soft.labels.shape, (8, CLASSES))
                del view, his
        for wrong, said in (("dtype", "float32"), ("mean", (0, 0, 0))):
            with self.assertRaisesRegex(penstock.ArgumentError, f"{wrong}: the daemon's configuration .* float16 in planes"):
                penstock.Stream("half", **keys, **{wrong: said})


if __name__ == "__main__":
    support.main()
