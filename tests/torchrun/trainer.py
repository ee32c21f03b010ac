"""One rank of tests/torchrun/run.py: client/python/examples/torchrun_elastic.py as it stands, with a loader that notes what it gives.

Each rank of each run has a file OUT/runs/RUN-RANK-WORLD with a line for each batch, which is written before the trainer gets it,
and names the step that the trainer takes with it: counted from the checkpoint that the rank has loaded.
RUN is the time at which the run's rank 0 began. Each batch takes PACE seconds, and the epochs have no end, until the file OUT/last
has the number of the last epoch."""
import json
import os
import runpy
import time
import zlib
from pathlib import Path

import torch
import torch.distributed as dist

import penstock

OUT, PACE = Path(os.environ["OUT"]), float(os.environ["PACE"])
LAST, ENDLESS = OUT / "last", int(os.environ["EPOCHS"])
torch.set_num_threads(1)


def rows(batch):
    """[position, sample, hash of its pixels] of each."""
    hashes = [zlib.crc32(image.contiguous().numpy().tobytes()) for image in batch.images]
    return [[int(row["position"]), int(row["index"]), found] for row, found in zip(batch.samples, hashes)]


loaded = torch.load


def load(*arguments, **keys):
    """Notes the step of the checkpoint."""
    checkpoint = loaded(*arguments, **keys)
    Noting.step = checkpoint["step"]
    return checkpoint


class Noting(penstock.Loader):
    step = 0

    def __init__(self, *arguments, **keys):
        super().__init__(*arguments, **keys)
        run = [time.time_ns()]
        dist.broadcast_object_list(run, src=0)
        self._notes = open(OUT / "runs" / f"{run[0]}-{self.rank}-{self.world_size}", "w", encoding="ascii")

    def __iter__(self):
        for batch in self.batches():
            Noting.step += 1
            self._notes.write(json.dumps({"step": Noting.step, "epoch": batch.epoch, "rows": rows(batch)}) + "\n")
            self._notes.flush()
            if not LAST.exists():
                time.sleep(PACE)
            yield batch.images, batch.labels

    @property
    def epoch(self):
        at = super().epoch
        return ENDLESS if LAST.exists() and at > int(LAST.read_text(encoding="ascii")) else at


torch.load, penstock.Loader = load, Noting
runpy.run_path(os.environ["EXAMPLE"], run_name="__main__")
