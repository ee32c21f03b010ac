"""The bytes and the states of streams: one definition for each option, read to its end by raw messages, with a hash of what its batches
hold. Also what `penstock replay` makes of the same options, and states as libpenstock writes them."""
import hashlib
import json
import struct

import datasets
from golden import UPDATE, compare, harness, read
from harness import BUCKETS, CONFIG, Daemon, Link, folder, run_tests, tool

SIZE = 24
BASE = {"batch_size": 5, "image_size": SIZE, "epochs": 2}
CROP = {"RandomResizedCrop": {"size": SIZE}}


def listed(*operations, size=SIZE, **keys):
    """A definition with a list of transforms: those given, after a RandomResizedCrop unless the first one sizes images."""
    sizes = operations and any(name in operations[0] for name in ("Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop"))
    return {"source": "HOME/photos", "image_size": None, "transforms": list(operations) if sizes else [CROP, *operations], **keys}


def photos(**keys):
    return {"source": "HOME/photos", **keys}


# HOME is the folder of the datasets. BASE's keys are added where a definition does not have them, and left out where it has None.
DEFINITIONS = {
    "train": photos(),
    "train_tars": {"source": "HOME/tars/shard-{000000..000002}.tar"},
    "train_glob": {"source": "HOME/tars/*.tar"},
    "one_tar": {"source": "HOME/tars/shard-000001.tar"},
    "eval": photos(train=False),
    "eval_tars": {"source": "HOME/tars/*.tar", "train": False},
    "eval_shuffled": photos(train=False, shuffle=True),
    "shuffle_off": photos(shuffle=False),
    "drop_last_off": photos(drop_last=False),
    "eval_drop_last": photos(train=False, drop_last=True),
    "seed": photos(seed=12345678901234567),
    "batch_size": photos(batch_size=7),
    "image_size": photos(image_size=33),
    "image_sizes": photos(image_size={"0": 16, "1": 24}),
    "views": photos(views=3),
    "repeats": photos(repeats=2),
    "epoch_length": photos(epoch_length=17),
    "sampling": photos(sampling={"classes": 2, "per_class": 2}, batch_size=4),
    "buckets": photos(image_size=None, buckets=[[24, 16], [20, 20], [16, 24]], batch_size=4),
    "buckets_evaluation": photos(image_size=None, buckets=[[24, 16], [20, 20], [16, 24]], batch_size=4, train=False),
    "epoch_length_long": photos(epoch_length=40),
    "indices": photos(indices="HOME/indices.npy"),
    "indices_in_order": photos(indices="HOME/indices.npy", train=False),
    "split": photos(split="[:70%]"),
    "split_rest": photos(split="[70%:]", train=False),
    "split_samples": photos(split="[3:19]"),
    "weights": photos(weights="HOME/weights.npy"),
    "weights_balanced": photos(weights="balanced", epoch_length=30),
    "sources": {"sources": [{"source": "HOME/photos", "weight": 3}, {"source": "HOME/more", "weight": 1}]},
    "sources_epoch_length": {"sources": [{"source": "HOME/tars/*.tar", "weight": 0.5}, {"source": "HOME/more", "weight": 0.5}],
                             "epoch_length": 20, "seed": 3, "labels": "none"},
    "rank_0_of_2": photos(share="split", rank=0, world_size=2, batch_size=3),
    "rank_1_of_2": photos(share="split", rank=1, world_size=2, batch_size=3),
    "rank_1_of_2_eval": photos(share="split", rank=1, world_size=2, batch_size=7, train=False),
    "uint8_nchw": photos(layout="NCHW"),
    "float32": photos(dtype="float32"),
    "float32_nchw": photos(dtype="float32", layout="NCHW"),
    "float16": photos(dtype="float16"),
    "float16_nchw": photos(dtype="float16", layout="NCHW"),
    "bfloat16": photos(dtype="bfloat16"),
    "mean_std": photos(dtype="float32", mean=[0.5, 0.4, 0.3], std=[0.2, 0.25, 0.3]),
    "decode_fast": photos(decode="fast", image_size=12),
    **{f"interpolation_{name}": photos(interpolation=name) for name in ("bicubic", "box", "hamming", "lanczos", "nearest")},
    "eval_bicubic": photos(train=False, interpolation="bicubic"),
    "labels_none": photos(labels="none"),
    "labels_folder": photos(labels="folder"),
    "labels_cls": {"source": "HOME/tars/*.tar", "labels": "cls"},
    "labels_manifest": photos(labels={"manifest": "HOME/labels.csv"}),
    "labels_float": photos(labels={"manifest": "HOME/labels.csv", "type": "float"}),
    "labels_multi_hot": photos(labels={"manifest": "HOME/tags.csv", "type": "multi_hot"}),
    "on_broken_fail": photos(on_broken="fail"),
    "max_broken": photos(max_broken=0.5),
    "prefetch": photos(prefetch=9),
    "pin_memory": photos(pin_memory=True),
    # What follows is transforms. Each operation once with its defaults, and once with every parameter.
    "transforms_plain": listed({"RandomHorizontalFlip": {"p": 0.5}}),
    "transforms_rrc": listed({"RandomResizedCrop": {"size": SIZE, "scale": [0.3, 0.9], "ratio": [0.9, 1.2], "interpolation": "bicubic"}}),
    "transforms_resize_center": listed({"Resize": {"size": 32, "interpolation": "box"}}, {"CenterCrop": {"size": SIZE}}, train=False),
    "transforms_resize_both": listed({"Resize": {"size": [SIZE, SIZE]}}),
    "transforms_center_crop": listed({"CenterCrop": {"size": SIZE}}),
    "transforms_random_crop": listed({"Resize": {"size": 28}}, {"RandomCrop": {"size": SIZE}}),
    "transforms_random_crop_padding": listed({"RandomCrop": {"size": 96, "padding": [1, 2, 3, 4], "pad_if_needed": True, "fill": [9, 8, 7],
                                                             "padding_mode": "constant"}}),
    "transforms_random_crop_reflect": listed({"RandomCrop": {"size": 30, "padding": 3, "pad_if_needed": True, "padding_mode": "reflect"}}),
    "transforms_flips": listed({"RandomHorizontalFlip": {"p": 0.7}}, {"RandomVerticalFlip": {"p": 0.3}}),
    "transforms_jitter": listed({"ColorJitter": {"brightness": 0.4, "contrast": [0.5, 1.5], "saturation": 0.3, "hue": 0.1}}),
    "transforms_grayscale": listed({"Grayscale": {"num_output_channels": 3}}),
    "transforms_random_grayscale": listed({"RandomGrayscale": {"p": 0.5}}),
    "transforms_blur": listed({"GaussianBlur": {"kernel_size": 5, "sigma": [0.5, 1.5]}}),
    "transforms_solarize": listed({"RandomSolarize": {"threshold": 128, "p": 0.6}}),
    "transforms_posterize": listed({"RandomPosterize": {"bits": 3, "p": 0.6}}),
    "transforms_equalize": listed({"RandomEqualize": {"p": 0.6}}),
    "transforms_autocontrast": listed({"RandomAutocontrast": {"p": 0.6}}),
    "transforms_invert": listed({"RandomInvert": {"p": 0.6}}),
    "transforms_sharpness": listed({"RandomAdjustSharpness": {"sharpness_factor": 2, "p": 0.6}}),
    "transforms_affine": listed({"RandomAffine": {"degrees": 15, "translate": [0.1, 0.2], "scale": [0.8, 1.2], "shear": [-5, 5, -3, 3],
                                                  "interpolation": "bilinear", "fill": [1, 2, 3], "center": [10, 11]}}),
    "transforms_affine_plain": listed({"RandomAffine": {"degrees": [5, 20]}}),
    "transforms_rotation": listed({"RandomRotation": {"degrees": 30, "interpolation": "bicubic", "expand": False, "center": [12, 12], "fill": 50}}),
    "transforms_perspective": listed({"RandomPerspective": {"distortion_scale": 0.4, "p": 0.8, "interpolation": "nearest", "fill": 7}}),
    "transforms_rand_augment": listed("RandAugment"),
    "transforms_rand_augment_all": listed({"RandAugment": {"num_ops": 3, "magnitude": 12, "num_magnitude_bins": 20, "interpolation": "bilinear",
                                                           "fill": 128}}),
    "transforms_trivial": listed("TrivialAugmentWide"),
    "transforms_trivial_all": listed({"TrivialAugmentWide": {"num_magnitude_bins": 20, "interpolation": "bilinear", "fill": [1, 2, 3]}}),
    **{f"transforms_auto_{name}": listed({"AutoAugment": {"policy": name, "interpolation": "nearest", "fill": 3}})
       for name in ("imagenet", "cifar10", "svhn")},
    "transforms_aug_mix": listed("AugMix"),
    "transforms_aug_mix_all": listed({"AugMix": {"severity": 5, "mixture_width": 2, "chain_depth": 2, "alpha": 0.5, "all_ops": False,
                                                 "interpolation": "bilinear", "fill": 10}}),
    "transforms_three_augment": listed("ThreeAugment"),
    "transforms_blur_pillow": listed({"GaussianBlur": {"radius": [0.5, 3]}}),
    "transforms_timm_rand": listed({"TimmAutoAugment": {"config": "rand-m9-mstd0.5-inc1"}}),
    "transforms_timm_weights": listed({"TimmAutoAugment": {"config": "rand-n3-p0.9-tweights", "interpolation": "bicubic", "fill": 9,
                                                           "translate_pct": 0.3}}),
    "transforms_timm_augmix": listed({"TimmAutoAugment": {"config": "augmix-m5-w4-d2"}}),
    "transforms_timm_blended": listed({"TimmAutoAugment": {"config": "augmix-b1"}}),
    "transforms_timm_original": listed({"TimmAutoAugment": {"config": "original-mstd0.5"}}),
    "interpolation_random": photos(interpolation="random"),
    "transforms_erasing": listed({"RandomErasing": {"p": 0.9, "scale": [0.05, 0.3], "ratio": [0.5, 2], "value": [1, 2, 3]}}),
    "transforms_erasing_random": listed({"RandomErasing": {"p": 0.9, "value": "random"}}, dtype="float32"),
    "transforms_erasing_float": listed({"RandomErasing": {"p": 0.9, "value": 0}}, dtype="float32"),
    "transforms_apply": listed({"RandomApply": {"transforms": [{"ColorJitter": {"brightness": 0.4}}, "RandomInvert"], "p": 0.7}}),
    "transforms_choice": listed({"RandomChoice": {"transforms": ["RandomInvert", {"RandomGrayscale": {"p": 1}}], "p": [0.3, 0.7]}}),
    "transforms_order": listed({"RandomOrder": {"transforms": ["RandomEqualize", {"RandomSolarize": {"threshold": 100}}]}}),
    "transforms_whole": listed({"RandomHorizontalFlip": {}}, {"ColorJitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}},
                               "RandAugment", {"RandomErasing": {"p": 0.5}}, views=2, dtype="float16", layout="NCHW", seed=5),
}

# struct slots_head and what of it says where things are; layout.c pins it.
PLACES = struct.Struct("<QQQQ")


def placed(value, home):
    """HOME becomes the folder's name, wherever it appears."""
    return json.loads(json.dumps(value).replace("HOME", str(home)))


def keys_of(name, home, **more):
    keys = {**BASE, **DEFINITIONS[name], **more}
    return placed({key: value for key, value in keys.items() if value is not None}, home)


def hash_batch(stream, batch, hashes):
    """Adds what one batch holds, without the times, to the three hashes."""
    memory, stride = stream.extents[batch.extent]
    at = batch.slot * stride
    shape = struct.unpack_from("<10I", memory, at + 48)  # count to record_bytes
    row_bytes, *offsets = PLACES.unpack_from(memory, at + 88)
    views, = struct.unpack_from("<I", memory, at + 128)
    label_bytes = shape[8] * (8 if shape[7] == 1 else 4)
    name = repr((batch.epoch, batch.batch, batch.position, batch.count, batch.flags, shape[2:], row_bytes, views)).encode()
    sizes = (batch.count * views * row_bytes, batch.count * label_bytes, batch.count * views * 64)
    for kind, offset, size in zip(hashes, offsets, sizes):
        hashes[kind].update(name + memory[at + offset:at + offset + size])


def hash_stream(stream, batches=None):
    """How many batches there are, and the hashes of images, labels and records, to the end or of so many batches."""
    hashes = {kind: hashlib.sha256() for kind in ("images", "labels", "records")}
    count, last = 0, None
    while count != batches and (batch := stream.next()) is not None:
        hash_batch(stream, batch, hashes)
        stream.release(batch)
        count, last = count + 1, batch
    return {"batches": count, **{kind: found.hexdigest()[:32] for kind, found in hashes.items()}}, last


def opened(stream):
    """What OPENED says; the hashes as states write them."""
    told = dict(vars(stream.opened()))
    for key in ("fingerprint", "order", "transform"):
        told[key] = f"{told[key]:016x}"
    del told["salt"]
    return told


def pinned(link, home, name):
    stream = link.open(**keys_of(name, home))
    told = opened(stream)
    config = json.loads(stream.query(CONFIG).replace(str(home), "HOME"))
    read, _ = hash_stream(stream)
    stream.close()
    return {"opened": told, "config": config, "read": read}


def test_bytes_and_definitions():
    with folder() as home:
        datasets.make(home)
        datasets.check(home)
        with Daemon(home, "--threads", "2") as daemon, Link(daemon.socket, features=BUCKETS) as link:
            found = {name: pinned(link, home, name) for name in DEFINITIONS}
        # Where the files are the same, the libraries' versions do not matter.
        versions = datasets.libraries(home) if UPDATE else read("streams")["libraries"]
        compare("streams", {"dataset": datasets.digest(home), "libraries": versions, "streams": found})


def test_resume_within_an_epoch():
    found = {}
    with folder() as home:
        datasets.make(home)
        datasets.check(home)
        with Daemon(home, "--threads", "2") as daemon, Link(daemon.socket) as link:
            for name in ("train", "eval_tars", "views", "weights", "sources", "epoch_length_long", "rank_1_of_2", "transforms_whole"):
                stream = link.open(**keys_of(name, home))
                _, last = hash_stream(stream, 2)
                state = stream.state(last)
                stream.close()
                again = link.open(**keys_of(name, home, state=state))
                rest, _ = hash_stream(again)
                again.close()
                found[name] = {"state": state, "rest": rest}
    compare("resume", found)


def test_states_of_the_library():
    """The text of penstock_stream_state: before the first batch, after each one, and after the last."""
    found = {}
    with folder() as home:
        datasets.make(home)
        datasets.check(home)
        with Daemon(home, "--threads", "2") as daemon:
            for name in ("train", "eval", "one_tar", "interpolation_lanczos", "decode_fast", "indices"):
                lines = daemon.batches(**keys_of(name, home, opened=1, states=1) | {"train": int(DEFINITIONS[name].get("train", 1))})
                found[name] = [line for line in lines if line.startswith(("opened ", "state ", "end"))]
    compare("states", found)


# The command's own options for the same things: `penstock replay` makes a whole batch without a daemon.
REPLAYED = {
    "plain": [],
    "second_epoch": ["--epoch", 1, "--batch", 2],
    "eval": ["--eval", "--batch", 1],
    "no_shuffle": ["--no-shuffle"],
    "seed": ["--seed", 99],
    "drop_last_off": ["--no-drop-last", "--batch", 4],
    "eval_drop_last": ["--eval", "--drop-last", "--batch", 2],
    "decode_fast": ["--decode", "fast", "--image-size", 12],
    "interpolation": ["--interpolation", "lanczos"],
    "interpolation_random": ["--interpolation", "random"],
    "transforms": ["--image-size", None, "--transforms", "[RandomResizedCrop: {size: 24}, RandAugment, RandomErasing]"],
    "indices": ["--indices", "HOME/indices.npy"],
    "split": ["--split", "[:50%]"],
    "weights": ["--weights", "balanced"],
    "epoch_length": ["--epoch-length", 9, "--epoch", 2],
    "repeats": ["--repeats", 2],
    "views": ["--views", 2],
    "dtype": ["--dtype", "float16"],
    "layout": ["--layout", "NCHW"],
    "mean_std": ["--dtype", "float32", "--mean", "[0.5, 0.5, 0.5]", "--std", "[0.25, 0.25, 0.25]"],
    "labels": ["--labels", "{manifest: HOME/labels.csv}"],
    "rank": ["--rank", 1, "--world-size", 2],
    "one_row": ["--row", 3],
    "index_crop": ["--index", 4, "--crop", "2,3,20,21", "--flip", "--batch-size", None],
}


def words_of(options, home):
    """The options of a replay: the plain ones first, those with None left out."""
    words = ["--batch-size", 5, "--image-size", SIZE]
    for i, word in enumerate(options):
        if word is None:
            at = words.index(options[i - 1])
            del words[at:at + 2]
    left_out = {i for i, word in enumerate(options) if word is None}
    own = [word for i, word in enumerate(options) if i not in left_out and i + 1 not in left_out]
    return [str(word).replace("HOME", str(home)) for word in words + own]


def test_replayed_rows():
    found = {}
    with folder() as home:
        datasets.make(home)
        datasets.check(home)
        for name, options in REPLAYED.items():
            done = datasets.run(home, tool("penstock"), "replay", home / "photos", *words_of(options, home), "--json")
            assert done.returncode == 0, f"{name}: {done.stderr}"
            rows = json.loads(done.stdout)["rows"]
            found[name] = [json.dumps({**row, "path": row["path"].replace(str(home), "HOME")}, sort_keys=True) for row in rows]
    compare("replay", found)


if __name__ == "__main__":
    run_tests(globals())
