"""report: what tests/gpu/run found, as Markdown. One page that can be committed: no paths of the machine, no log."""
import time

STATES = {"passed": "passed", "failed": "**FAILED**", "overran": "**overran its time**", "not run": "**not run**", "skipped": "skipped"}
BAD = ("failed", "overran", "not run")


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows] + [""]


def heading(stage, facts):
    lines = ["# On a GPU", ""]
    if stage.gpu:
        lines += [f"Written by `tests/gpu/run` on {time.strftime('%Y-%m-%d', time.gmtime())}, on one {stage.gpu_name}.", ""]
    else:
        lines = ["# Without a GPU", "", "Written by `tests/gpu/run --without-gpu`: **no GPU was used.** What follows shows that the command "
                 "works, and nothing about a GPU. In place of the driver, torch's CUDA device and train_cuda's GPU were stand-ins that run on the "
                 "CPU.", ""]
    return lines


METHOD = """## How it was measured

- *Copies*: a round begins when the daemon has filled every slot and all device buffers are held; they are released at once, and the
  attachment copies what lies ready, 63 batches one after the other. Its time is from before the first release until the host has seen the last
  copy's event. So the daemon's own rate is not in it, and waking the attachment's thread is. The card's rate is that of as many copies of the
  same size out of pinned memory, back to back in one stream, between two events, before each round. Ratio of the medians.
- *Kernels*: `gpu_kernels` says how at its beginning.
- *ResNets*: one process per model, loaders one after the other, synthetic data first and once more at the end; 10 steps of warm-up that
  are not counted. `waiting`: how long the device stood between a step's last kernel and the next step's first, by CUDA events. penstock
  writes bfloat16 in channels_last; the DataLoader gives float32, from one worker process per core (fewer where /dev/shm has no room), pinned and copied
  asynchronously, in the stream that trains: that copy counts as waiting.
  Few pictures are read again and again, from the page cache, by both.
- *Waiting for penstock* counts against its ceiling only where the daemon alone (`penstock bench`, same pictures, same batch) is faster than
  the model with synthetic data.
- *Growth*: as many batches as ResNet-50 takes in an hour, of 8 rows of 32 x 32 pixels so that they pass in seconds: what
  could grow is kept per batch. The device may have 2 MiB less afterwards (what the driver takes at a time), the host 8 MiB.
"""


def applied_floors(stage):
    asked = [figure for figure in stage.figures if figure[2]]
    applied = sum(1 for figure in asked if figure[3] is not None)
    return f"and every floor holds ({applied} of {len(asked)} applied)" if applied else "and no floor applied"


def write(path, stage, facts, outcomes, seconds, allowed):
    bad = sum(1 for outcome in outcomes if outcome.state in BAD)
    below = [figure for figure in stage.figures if figure[3] is False]
    verdict = f"parts that failed or did not run to their end: {bad}; floors that do not hold: {len(below)}"
    if not bad and not below:
        verdict = f"everything that ran passed, {applied_floors(stage)}"
    skipped = sum(1 for outcome in outcomes if outcome.state == "skipped")
    lines = heading(stage, facts)
    lines += [f"In {seconds:.0f} s of the {allowed:.0f} that it may take: **{verdict}**; {skipped} skipped.", "", "## The machine", ""]
    lines += table(("", ""), facts.items())
    lines += ["## What was measured", ""]
    holds = {True: "yes", False: "**no**", None: ""}
    lines += table(("", "", "must be", "holds"), [(label, value, floor or "", holds[ok]) for label, value, floor, ok in stage.figures])
    lines += ["## Each part", ""]
    lines += table(("part", "what", "outcome", "took", "of at most", "in its words"),
                   [(o.name, o.what, STATES[o.state], f"{o.seconds:.1f} s", f"{o.budget:.0f} s", o.words) for o in outcomes])
    lines += [METHOD if stage.gpu else METHOD.replace("How it was measured", "How it is measured where there is a GPU")]
    path.write_text("\n".join(lines), encoding="utf-8")
    return not bad and not below
