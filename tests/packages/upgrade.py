#!/usr/bin/env python3
"""Batches before and after an upgrade. The scripts of this folder run it in their roots, with the Python that has the package.

    upgrade.py begin IMAGES NOTES      keeps in the file NOTES an epoch and a state in its middle, of the release that is installed
    upgrade.py run IMAGES NOTES        a trainer that compares its batches, until there is a file NOTES.enough
    upgrade.py end IMAGES NOTES        the release that is now installed makes the same epoch, and continues the state"""
import hashlib
import itertools
import json
import os
import sys
import time

import penstock

TAKEN = 3


def loader(images):
    return penstock.Loader(images, batch_size=4, image_size=64, train=True, seed=5, dtype="uint8")


def digest(batch):
    images, labels = batch
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def begin(images, notes):
    with loader(images) as whole:
        epoch = [digest(batch) for batch in whole]
    assert len(epoch) > 2 * TAKEN, f"{len(epoch)} batches are too few: more images are needed"
    with loader(images) as partial:
        for _batch in itertools.islice(partial, TAKEN):
            state = partial.state_dict()
    with open(notes, "w", encoding="utf-8") as out:
        json.dump({"version": penstock.__version__, "epoch": epoch, "state": state}, out)
    print(f"{penstock.__version__}: an epoch of {len(epoch)} batches, and a state after {TAKEN}")


def run(images, notes):
    with open(notes, encoding="utf-8") as source:
        expected = json.load(source)["epoch"]
    seen, enough = 0, False
    with loader(images) as trainer:
        while not enough:
            trainer.set_epoch(0)
            for number, batch in enumerate(trainer):
                assert digest(batch) == expected[number], f"batch {number} is another one"
                seen += 1
                time.sleep(0.25)
            enough = os.path.exists(f"{notes}.enough")
    print(f"a trainer of {penstock.__version__} took {seen} batches, each the expected one")


def end(images, notes):
    with open(notes, encoding="utf-8") as source:
        before = json.load(source)
    assert penstock.__version__ != before["version"], f"{penstock.__version__} is still installed"
    with loader(images) as whole:
        epoch = [digest(batch) for batch in whole]
    assert epoch == before["epoch"], "the epoch has other batches"
    with loader(images) as resumed:
        resumed.load_state_dict(before["state"])
        rest = [digest(batch) for batch in resumed]
    assert rest == before["epoch"][TAKEN:], "the state is continued with other batches"
    print(f"{penstock.__version__}: the epoch of {before['version']}, and its state continued")


if __name__ == "__main__":
    {"begin": begin, "run": run, "end": end}[sys.argv[1]](*sys.argv[2:])
