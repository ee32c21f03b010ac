"""Streams over a subset: `indices`. What comes is compared with order_model.py; states, groups, memory, broken samples, bad files."""
import array
import contextlib
import errno
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import refuse, run
from harness import CLOSE, INVALID, STREAM, CONFIG, PATH, Daemon, Link, Raw, folder, make_dataset, message, open_stream, rows, run_tests, tool, wait_until
from order_model import epoch_of, place, substitute
from stream_checks import SUBSTITUTED, check_rank, npy, plan, refused, reserved, shown

SAMPLES = 60
TINY = {"image_size": 12}


@contextlib.contextmanager
def served(*options, **keys):
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=64)
        with Daemon(home, "--threads", "2", *options, **keys) as daemon:
            yield home, daemon, source


def expected(indices, seed, epochs, shuffle):
    return {(e, p): sample for e in range(epochs) for p, sample in enumerate(epoch_of(indices, seed, e, shuffle))}


# ---- the order ----

def test_epochs_consist_of_the_subset():
    draw = random.Random(1)
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        lists = [list(range(SAMPLES)), [59], [3, 3, 3], draw.sample(range(SAMPLES), 17), [draw.randrange(SAMPLES) for _ in range(100)]]
        for number, indices in enumerate(lists):
            path = npy(home / f"{number}.npy", indices, ("<i8", "<u8", "<i4", "<u4")[number % 4])
            for shuffle in (True, False):
                stream = link.open(source=source, indices=path, seed=9, epochs=3, shuffle=shuffle, batch_size=7, drop_last=False, **TINY)
                info, got = stream.opened(), stream.read()
                assert (info.samples, info.epoch_samples, info.batches) == (len(indices), len(indices), -(-len(indices) // 7)), info
                assert shown(got) == expected(indices, 9, 3, shuffle), (indices, shuffle)
                for epoch in range(3):
                    mine = [index for (e, _), index in shown(got).items() if e == epoch]
                    assert sorted(mine) == sorted(indices)
                stats = json.loads(stream.query(STREAM))
                assert (stats["samples"], stats["order_samples"]) == (SAMPLES, len(indices))
                assert json.loads(stream.query(CONFIG))["indices"] == str(path)
                # Any sample of the dataset has a path; `index` is the dataset's.
                assert str(source) in stream.query(PATH, SAMPLES - 1)
                stream.close()


def test_all_of_the_dataset_listed_is_another_order_only_by_name():
    """The same samples in the same order, and yet a state says that there was a list."""
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        path = npy(home / "all.npy", range(SAMPLES))
        plain = link.open(source=source, seed=4, epochs=2, batch_size=8, **TINY)
        listed = link.open(source=source, indices=path, seed=4, epochs=2, batch_size=8, **TINY)
        assert plain.opened().order != listed.opened().order and plain.info.fingerprint == listed.info.fingerprint
        assert [rows for _, rows in plain.read()] == [rows for _, rows in listed.read()]


def test_ranks_split_the_subset_and_resume_as_others():
    draw = random.Random(2)
    indices = [draw.randrange(SAMPLES) for _ in range(50)]
    with served() as (home, daemon, source):
        keys = dict(source=source, seed=5, epochs=2, drop_last=False, **TINY)
        with Link(daemon.socket) as link:
            got = link.open(indices=npy(home / "one.npy", indices), batch_size=1, **keys).read()
            table = {(batch.epoch, batch.position): rows[0] for batch, rows in got}
        assert {at: row.index for at, row in table.items()} == expected(indices, 5, 2, True)
        with contextlib.ExitStack() as stack:
            # Each rank has its own file, of another type: what is in it counts.
            links = [stack.enter_context(Link(daemon.socket)) for _ in range(3)]
            files = [npy(home / f"rank{r}.npy", indices, kind) for r, kind in enumerate(("<i8", "<u4", "<i4"))]
            streams = [link.open(indices=files[r], group="g", share="split", rank=r, world_size=3, batch_size=4, **keys)
                       for r, link in enumerate(links)]
            for rank, stream in enumerate(streams):
                check_rank(stream.read(), 2 * [plan(3, 4, False, samples=50)], rank, table)
        # From the middle of an epoch, by another number of ranks with another batch size.
        with Link(daemon.socket) as link:
            first = link.open(indices=files[0], batch_size=6, **keys)
            before = first.read(3)
            state = first.state(before[-1][0])
            assert state["position"] == 18
        with contextlib.ExitStack() as stack:
            links = [stack.enter_context(Link(daemon.socket)) for _ in range(2)]
            streams = [link.open(indices=files[2], group="h", share="split", rank=r, world_size=2, batch_size=5, state=state, **keys)
                       for r, link in enumerate(links)]
            rest = [shown(stream.read()) for stream in streams]
        assert {**shown(before), **rest[0], **rest[1]} == expected(indices, 5, 2, True)


def test_the_library_makes_the_path_absolute():
    with served() as (home, daemon, source):
        npy(home / "few.npy", [5, 1, 9])
        keys = dict(source=source, indices="./few.npy", epochs=1, train=0, **TINY)
        here = os.getcwd()
        try:
            os.chdir(home)
            lines = daemon.batches(raw=home / "raw", **keys)
            assert "expected the path" in daemon.trainer(**{**keys, "indices": ""}).error()
        finally:
            os.chdir(here)
        assert [int(line.split()[2]) for line in rows(lines)] == [3]
        data = (home / "raw").read_bytes()
        assert [struct.unpack_from("<Q", data, i * (64 + 12 * 12 * 3))[0] for i in range(3)] == [5, 1, 9]
        assert "indices" in daemon.trainer(source="stream:x", indices="./few.npy").error()
        # Two ranks without a name for their group meet all the same, whatever their files are called.
        daemon.environment |= {"PENSTOCK_JOB": "j"}
        ranks = [daemon.trainer(**{**keys, "indices": npy(home / f"{r}.npy", range(8))}, share="split", rank=r, world_size=2, wait_for=2,
                                batch_size=2) for r in range(2)]
        assert [len(rows(rank.finish())) for rank in ranks] == [2, 2]


def test_named_streams_have_lists():
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=64)
        npy(home / "val.npy", [7, 8, 9, 7])
        config = f"streams:\n  val:\n    source: {source}\n    indices: {home / 'val.npy'}\n    train: false\n    image_size: 12\n"
        with Daemon(home, "--threads", "1", config=config) as daemon, Link(daemon.socket) as link:
            got = link.open(stream="val", epochs=2).read()
            assert shown(got) == expected([7, 8, 9, 7], 0, 2, False)
            # What is in the file now: it is read each time that somebody opens the stream.
            npy(home / "val.npy", [7, 8])
            with refused(errno.EBUSY, "another indices"):
                link.open(stream="val").opened()
    with folder() as home, Daemon(home, "--threads", "1", "--memory", "64M") as daemon:
        bad = home / "bad.yaml"
        bad.write_text("streams:\n  val:\n    source: /x\n    indices: []\n")
        done = subprocess.run([str(daemon.process.args[0]), "--config", str(bad), "--socket", str(home / "o/s")], capture_output=True, text=True)
        assert done.returncode == 2 and "bad.yaml:4:14: indices: expected" in done.stderr, done.stderr


# ---- who agrees ----

def test_states_and_groups_of_another_subset_are_refused():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        one, two = npy(home / "one.npy", range(10, 30)), npy(home / "two.npy", range(11, 31))
        same = npy(home / "same.npy", range(10, 30), "<u4")
        keys = dict(source=source, batch_size=4, **TINY)
        stream = link.open(indices=one, **keys)
        batch = stream.next()
        state = stream.state(batch)
        stream.close()
        assert link.open(indices=same, state=state, **keys).next().position == 4, "another file of the same"
        for other, words in (({"indices": two}, "another subset"), ({}, "subset"), ({"indices": one, "shuffle": False}, "order (shuffle)")):
            with refused(errno.ESTALE, "another order", words):
                link.open(**other, state=state, **keys).opened()
        plain = link.open(**keys)
        plain_state = plain.state(plain.next())
        with refused(errno.ESTALE, "it had no subset: indices"):
            link.open(indices=one, state=plain_state, **keys).opened()
        with refused(errno.ESTALE, "is past the 20 samples"):
            link.open(indices=one, state={**state, "position": 21}, **keys).opened()
        assert link.open(indices=one, group="g", **keys).opened() and link.open(indices=same, group="g", **keys).opened()
        for other in ({"indices": two}, {}):
            with refused(errno.EBUSY, "another indices"):
                link.open(**other, group="g", **keys).opened()


def test_a_daemon_that_comes_back_needs_the_file():
    indices = [5, 9, 5, 30, 31, 32, 33, 34, 35, 36]
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=64)
        path = npy(home / "few.npy", indices)
        keys = dict(source=source, indices=path, epochs=40, batch_size=2, reconnect_ms=60000, sleep_ms=5, **TINY)
        with Daemon(home, "--threads", "1") as daemon:
            whole = daemon.batches(**keys)
        for gone in (False, True):
            with Daemon(home, "--threads", "1") as first:
                trainer = first.trainer(**keys)
                for _ in range(20):
                    trainer.line()
                first.process.kill()
                first.process.wait()
                if gone:
                    path.unlink()
                with Daemon(home, "--threads", "1"):
                    if gone:
                        error = trainer.error()
                        assert str(path) in error and "must be able to read the file" in error and "reconnect" in error, error
                    else:
                        assert trainer.finish() == whole
                first.stop = lambda: 0


# ---- memory ----


def test_a_list_is_kept_once():
    indices = [i % SAMPLES for i in range(300000)]
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=source, batch_size=2, prefetch=2, **TINY)
        start = reserved(daemon)
        link.open(**keys).opened()
        each = reserved(daemon) - start
        streams = []
        for number in range(4):
            streams.append(link.open(indices=npy(home / f"{number}.npy", indices), seed=number, **keys))
            streams[-1].opened()
            assert reserved(daemon) == start + (number + 2) * each + 4 * len(indices)
        lines = [line["name"] for line in daemon.status()["memory"]["lines"]]
        assert lines.count("indices of 300000 samples") == 1, lines
        # Read once: what becomes of the files is nobody's concern.
        for number in range(4):
            (home / f"{number}.npy").write_bytes(b"\x93NUMPY")
        for (_, position), sample in shown(streams[3].read(20)).items():
            assert sample == indices[place(len(indices), 3, 0, position)]
        for stream in streams:
            stream.close()
        wait_until(lambda: reserved(daemon) == start + each, "the list's memory to return")


def test_a_list_that_does_not_fit_is_refused():
    with served("--memory", "64M") as (home, daemon, source), Link(daemon.socket) as link:
        start = reserved(daemon)
        path = npy(home / "many.npy", array.array("q", bytes(8 * 20_000_000)))
        keys = dict(source=source, batch_size=2, prefetch=2, **TINY)
        with refused(errno.ENOMEM, path, "20000000 numbers need 76.3 MiB (4 bytes each)", "start penstockd with --memory"):
            link.open(indices=path, **keys).opened()
        assert reserved(daemon) == start
        assert link.open(**keys).next().count == 2, "others go on"


# ---- broken samples ----

def test_substitutes_come_from_the_subset():
    indices = list(range(20, 50))
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        files = sorted(source.rglob("*.jpg"))
        broken = {21, 33, 48}
        for sample in broken | {0, 1, 2, 59}:
            files[sample].write_bytes(files[sample].read_bytes()[:300])
        path = npy(home / "few.npy", indices)
        keys = dict(source=source, indices=path, seed=6, batch_size=5, **TINY)
        got = link.open(epochs=4, max_broken=0.1, **keys).read()
        seen = 0
        for batch, rows in got:
            for row in rows:
                want, attempt = epoch_of(indices, 6, batch.epoch, True)[row.position], 0
                while want in broken:
                    attempt += 1
                    want = indices[substitute(len(indices), 6, batch.epoch, row.position, attempt)]
                assert row.index == want and bool(row.flags & SUBSTITUTED) == bool(attempt), (batch, row)
                seen += bool(attempt)
        assert seen == 4 * len(broken)
        # Three of the 30 are more than a twentieth, though not of the dataset's 60.
        with refused(errno.EIO, "of the 30 samples", "max_broken"):
            link.open(epochs=1, max_broken=0.06, **keys).read()
        got = link.open(epochs=1, train=False, max_broken=0.1, **keys).read()
        assert {row.index for _, rows in got for row in rows if row.flags & INVALID} == broken


# ---- bad lists ----

def test_bad_lists_are_refused_in_words():
    with served() as (home, daemon, source), Link(daemon.socket) as link:
        keys = dict(source=source, batch_size=2, **TINY)
        path = home / "list.npy"
        (home / "folder.npy").mkdir()
        os.mkfifo(home / "pipe.npy")
        (home / "text.npy").write_text("1\n2\n3\n")
        cases = [
            (lambda: home / "none.npy", errno.ENOENT, ["No such file", "must be able to read the file"]),
            (lambda: home / "folder.npy", errno.EINVAL, ["not a regular file"]),
            (lambda: home / "pipe.npy", errno.EINVAL, ["not a regular file"]),
            (lambda: home / "text.npy", errno.EINVAL, ["not a .npy file", "numpy.save"]),
            (lambda: npy(path, [1.0, 2.0], "<f8"), errno.EINVAL, ["<f8", "expected little-endian integers"]),
            (lambda: npy(path, [1, 2, 3, 4], shape=(2, 2)), errno.EINVAL, ["2 dimensions"]),
            (lambda: npy(path, []), errno.EINVAL, ["an epoch needs at least one sample"]),
            (lambda: npy(path, [1, 2, 3], cut=5), errno.EINVAL, ["cut off or damaged", "3 numbers of 8 bytes"]),
            (lambda: npy(path, [1, 2, 3], cut=60), errno.EINVAL, ["cut off or damaged"]),
            (lambda: npy(path, [1, -2, 3]), errno.EINVAL, ["[1] is -2", "from 0"]),
            (lambda: npy(path, [1, 59, 60, 61]), errno.EINVAL, ["[2] is 60", "has 60 samples", "from 0 to 59"]),
            (lambda: npy(path, [1, 2**64 - 1], "<u8"), errno.EINVAL, ["[1] is 18446744073709551615"]),
            (lambda: npy(path, [1]), errno.EINVAL, ["has 1 samples, fewer than one batch of 2"]),
        ]
        for make, code, words in cases:
            bad = make()
            with refused(code, bad, *words):
                link.open(indices=bad, **keys).opened()
        with refused(errno.EINVAL, "indices"):
            link.open(indices="", **keys).opened()
        assert link.open(indices=npy(path, [1, 2]), **keys).next().count == 2, "and the connection lives on"
    assert not any("list" in line for line in os.listdir("/proc/self/task"))


def test_a_stream_on_its_way_is_one():
    """Numbers in use, closing before the answer, hanging up, and how many there may be."""
    with served() as (home, daemon, source):
        path = npy(home / "few.npy", list(range(20)) * 50000)
        text = json.dumps({"source": str(source), "indices": str(path), "batch_size": 2, **TINY})
        fds = daemon.fds()
        twice = Raw(daemon.socket)
        twice.send(open_stream(text, 1, 2))
        twice.send(open_stream(text, 1, 3))
        assert "not in use" in twice.error() and twice.closed()
        twice.close()
        many = Raw(daemon.socket)
        for number in range(1, 18):
            many.send(open_stream(text, number, number + 1))
        assert "16 streams" in many.error()
        for number in range(1, 17):
            many.send(message(CLOSE, stream=number))
        many.send(open_stream(text, 1, 40))
        body = many.until(102)
        assert struct.unpack_from("<Q", body)[0] == 1000000
        many.close()
        for _ in range(5):
            gone = Raw(daemon.socket)
            gone.send(open_stream(text))
            gone.close()
        wait_until(lambda: daemon.fds() <= fds and not daemon.status()["streams"], "what they left to be cleared away")
        assert not [line for line in daemon.status()["memory"]["lines"] if "indices" in line["name"]]
        ending = Raw(daemon.socket)
        ending.send(open_stream(text))
        assert daemon.stop() == 0
        ending.close()


# ---- penstock_stream_set_indices ----

def raw_rows(path, side=12):
    """(index, position) of each row that dump_batches wrote."""
    data, size = path.read_bytes(), 64 + side * side * 3
    return [struct.unpack_from("<Q32x4x4xQ", data, at) for at in range(0, len(data), size)] if data else []


def test_samples_are_chosen_between_epochs():
    few, other = [5, 6, 7, 40, 41, 42, 43, 5], list(range(30, 42))
    with served() as (home, daemon, source):
        lists = {"few": npy(home / "few.npy", few), "other": npy(home / "other.npy", other), "bad": npy(home / "bad.npy", [60])}
        keys = dict(source=source, batch_size=4, image_size=12, seed=3, raw=home / "rows", epochs=4)
        # 15 batches of all samples; then 2 of `few`; refusals; then 3 of `other`, in epoch 2; then all again.
        lines = daemon.batches(**keys, choose=f"15:{lists['few']}")
        chose = [line for line in lines if line.startswith("chose ")]
        assert chose == ["chose 0 8 2 "], lines
        got = [index for index, _ in raw_rows(home / "rows")]
        want = [place(SAMPLES, 3, 0, p) for p in range(60)] + [i for e in (1, 2, 3) for i in epoch_of(few, 3, e, True)]
        assert got == want, (got, want)
        state = json.loads([line for line in lines if line.startswith("state ")][-1][6:])
        assert (state["epoch"], state["position"]) == (4, 0)


def test_choices_follow_each_other():
    few, other = [5, 6, 7, 40, 41, 42, 43, 5], list(range(30, 42))
    with served() as (home, daemon, source):
        lists = {"few": npy(home / "few.npy", few), "other": npy(home / "other.npy", other), "bad": npy(home / "bad.npy", [60])}
        tool_keys = [f"source={source}", "batch_size=4", "image_size=12", "seed=3", f"raw={home / 'rows'}", "batches=9", f"indices={lists['few']}"]
        choices = [f"choose=0:{lists['other']}", f"choose=1:{lists['few']}", f"choose=3:{lists['bad']}", "choose=6:all"]
        lines = subprocess.run([tool("dump_batches"), f"socket={daemon.socket}", "private=0", *tool_keys, *choices], capture_output=True,
                               text=True, timeout=60, check=True).stdout.splitlines()
        chose = [line.split(" ", 4)[1:] for line in lines if line.startswith("chose ")]
        assert [line[:3] for line in chose] == [["0", "12", "3"], [str(-errno.EBUSY), "12", "3"], [str(-errno.EINVAL), "12", "3"], ["0", "60", "15"]], chose
        assert "within epoch 0" in chose[1][3] and "[0] is 60, but the dataset has 60 samples" in chose[2][3], chose
        got = [index for index, _ in raw_rows(home / "rows")]
        want = [i for e in (0, 1) for i in epoch_of(other, 3, e, True)] + [place(SAMPLES, 3, 2, p) for p in range(12)]
        assert got == want, (got, want)


def test_ranks_choose_samples():
    other = list(range(30, 46))
    with served() as (home, daemon, source):
        path = npy(home / "other.npy", other)
        ranks = []
        for rank in range(2):
            ranks.append(subprocess.Popen([tool("dump_batches"), f"socket={daemon.socket}", "private=0", f"source={source}", "batch_size=4",
                                           "image_size=12", "seed=3", "epochs=3", "share=split", f"rank={rank}", "world_size=2", "group=odd#name",
                                           f"raw={home / f'rows{rank}'}", f"choose=7:{path}", f"choose=9:{path}"], stdout=subprocess.PIPE, text=True))
        for rank in ranks:
            out, _ = rank.communicate(timeout=60)
            assert rank.returncode == 0 and out.count("chose 0 16 2 ") == 2, out
        for rank in range(2):
            got = [index for index, _ in raw_rows(home / f"rows{rank}")][28:]
            want = [i for e in (1, 2) for b in range(2) for i in epoch_of(other, 3, e, True)[8 * b + 4 * rank:8 * b + 4 * rank + 4]]
            assert got == want, (rank, got, want)


def test_choices_that_cannot_be():
    with served() as (home, daemon, source):
        path = npy(home / "few.npy", [1, 2, 3, 4])
        for keys, code, words in ((["share=all", "group=g"], errno.EBUSY, "other trainers of the group"),
                                  ([f"choose=0:{home / 'none.npy'}"], errno.ENOENT, "No such file")):
            lines = subprocess.run([tool("dump_batches"), f"socket={daemon.socket}", "private=0", f"source={source}", "batch_size=4", "image_size=12",
                                    "batches=2", *keys, f"choose=0:{path}"], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
            chose = [line for line in lines if line.startswith("chose ")]
            assert chose[0].startswith(f"chose -{code} 60 15 ") and words in chose[0], chose
            assert sum(line[0].isdigit() for line in lines) == 2, "the stream went on"


# ---- the command ----

def test_commands_take_the_list():
    indices = [5, 6, 7, 40, 41, 42, 43, 5]
    with folder() as home:
        source = make_dataset(home / "images", classes=3, per_class=20, min_side=32, max_side=64)
        path = npy(home / "few.npy", indices)
        few = ["--indices", path, "--image-size", 12, "-b", 4, "--seed", 3]
        got = json.loads(run(home, "replay", source, *few, "--batch", 1, "--json")[0])["rows"]
        assert [row["index"] for row in got] == epoch_of(indices, 3, 0, True)[4:]
        got = json.loads(run(home, "plan", source, *few, "-W", 2, "--json")[0])
        assert (got["samples"], got["batches"]) == (8, 1)
        assert got["ranks"][1]["first_samples"] == epoch_of(indices, 3, 0, True)[4:7]
        text = " ".join(run(home, "plan", source, *few)[0].split())
        assert "60 samples" in text and "an epoch has 8 of them" in text and "shuffled, of a subset, seed 3" in text, text
        with Daemon(home, "--threads", "1") as daemon:
            lines = daemon.batches(source=source, indices=path, batch_size=4, image_size=12, seed=3, batches=1)
            state = [line for line in lines if line.startswith("state ")][-1][6:]
        got = json.loads(run(home, "state", state, source, *few, "--json")[0])
        assert got["differs"] == [] and got["next"]["ranks"][0]["first_sample"] == epoch_of(indices, 3, 0, True)[4], got
        other = npy(home / "other.npy", indices[1:])
        out, _ = run(home, "state", state, source, "--indices", other, "--image-size", 12, "-b", 4, "--seed", 3, code=1)
        assert "another subset" in " ".join(out.split()), out
        out, _ = run(home, "state", state, source, "--image-size", 12, "-b", 4, "--seed", 3, code=1)
        assert "with a subset" in " ".join(out.split()), out
        refuse(home, "plan", source, "--indices", npy(home / "bad.npy", [60]), says=["bad.npy", "[0] is 60"])
        refuse(home, "plan", source, "--indices", home / "none.npy", says=["none.npy", "No such file"])
        refuse(home, "state", state, "--indices", path, says="--indices belongs to the stream")
        refuse(home, "bench", "stream:x", "--indices", path, says="--indices cannot be given")
        refuse(home, "bench", source, "--indices", path, "--yardstick", says="leave one out")
        refuse(home, "bench", source, "--indices", path, says=["8 samples", "--batch-size"])
        done = json.loads(run(home, "bench", source, *few, "--seconds", 0.2, "--threads", 1, "--memory", "64M", "--json")[0])
        assert done["images"] > 0
        run(home, "show", source, *few, "-o", home / "sheet.png", "--memory", "64M")


if __name__ == "__main__":
    run_tests(globals())
