#!/usr/bin/env python3
"""A trainer for tests/slurm/run.py, as config/penstock.sbatch starts it: one rank of a job.

It has no torch: ranks meet at files in OUT, the job's shared folder, where a real trainer would call
all_reduce. Every CHECKPOINT steps, all ranks meet and rank 0 replaces the checkpoint. A job that is
started again goes on from there. Each step is a line in OUT/rank-N.RESTARTS, and takes PAUSE seconds
until OUT has a file `hurry`, so that a test can end the job in mid-epoch."""
import json
import os
import sys
import time
from pathlib import Path

import penstock

OUT, SOURCE, EPOCHS = Path(os.environ["OUT"]), os.environ["SOURCE"], int(os.environ["EPOCHS"])
PAUSE, HOG = float(os.environ.get("PAUSE", "0")), int(os.environ.get("HOG", "0"))
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
RUN = os.environ.get("SLURM_RESTART_COUNT", "0")
CHECKPOINT, LIMIT = 4, 180


def meet(step):
    """Waits until all ranks of this run have come to this step."""
    (OUT / f"met.{RUN}.{step}.{RANK}").touch()
    end = time.monotonic() + LIMIT
    while not all((OUT / f"met.{RUN}.{step}.{rank}").exists() for rank in range(WORLD)):
        if time.monotonic() > end:
            sys.exit(f"rank {RANK}: not all ranks came to step {step} in {LIMIT} s")
        time.sleep(0.005)


def main():
    step, path = 0, OUT / "checkpoint.json"
    loader = penstock.Loader(SOURCE, batch_size=4, image_size=32, seed=3, dtype="uint8", framework="numpy", device="cpu")
    if path.exists():
        checkpoint = json.loads(path.read_text(encoding="utf-8"))
        loader.load_state_dict(checkpoint["loader"])
        step = checkpoint["step"]
    hog = bytearray(HOG)  # memory that the trainer should not take
    for at in range(0, len(hog), 4096):
        hog[at] = 1
    with open(OUT / f"rank-{RANK}.{RUN}", "w", encoding="utf-8") as log:
        while loader.epoch < EPOCHS:
            for batch in loader.batches():
                step += 1
                rows = [[int(row["position"]), int(row["index"])] for row in batch.samples]
                line = {"step": step, "epoch": batch.epoch, "rows": rows, "node": os.environ.get("SLURMD_NODENAME"),
                        "sum": int(batch.images.astype("int64").sum())}
                log.write(json.dumps(line) + "\n")
                log.flush()
                if not (OUT / "hurry").exists():
                    time.sleep(PAUSE)
                if step % CHECKPOINT == 0:
                    meet(step)
                    if RANK == 0:
                        new = OUT / "checkpoint.new"
                        new.write_text(json.dumps({"step": step, "loader": loader.state_dict()}), encoding="utf-8")
                        os.replace(new, path)
    (OUT / f"done.{RANK}").touch()


if __name__ == "__main__":
    main()
