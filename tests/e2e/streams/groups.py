"""Groups of trainers: ranks that split an epoch, trainers that share it, coming back, several streams beside each other, limits.

Most trainers here are streams of raw messages (harness.Link), checked against what PROTOCOL.md says and nothing else: plan() works out
from its text which positions every rank must get. A few go through libpenstock, by dump_batches."""
import contextlib
import ctypes
import errno
import fcntl
import itertools
import json
import mmap
import os
import select
import signal
import struct
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import INVALID, PADDED, STATUS, WAIT, Daemon, HungUp, Link, Refused, folder, make_dataset, rows, run_tests, wait_until
from stream_checks import SAMPLES, check_rank, plan, refused
import harness

TINY = {"image_size": 12}


def dataset(path):
    make_dataset(path, classes=2, per_class=31, min_side=32, max_side=64)
    next(path.rglob("*.jpg")).unlink()
    return path


@contextlib.contextmanager
def served(*options, **keys):
    """A daemon and a dataset of SAMPLES images."""
    with folder() as home:
        source = dataset(home / "images")
        with Daemon(home, "--threads", "2", *options, **keys) as daemon:
            yield daemon, source


@contextlib.contextmanager
def links(daemon, count):
    """So many connections."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Link(daemon.socket)) for _ in range(count)]


def wait_reserved(daemon, reserved):
    wait_until(lambda: daemon.status()["memory"]["reserved"] <= reserved, f"{reserved} bytes of memory to be reserved again")


def sequence(got):
    """Names and rows, of what Stream.read returned: what trainers of a group have in common."""
    return [(batch.epoch, batch.batch, batch.position, batch.flags, rows) for batch, rows in got]


# ---- split: who gets what ----


def reference(daemon, source, epochs, **keys):
    """{(epoch, position): Row} of all samples, one at a time, by a trainer that is alone."""
    with Link(daemon.socket) as link:
        got = link.open(source=source, epochs=epochs, **{**TINY, **keys, "batch_size": 1, "drop_last": False}).read()
    table = {(batch.epoch, batch.position): rows[0] for batch, rows in got}
    assert sorted(table) == [(e, p) for e in range(epochs) for p in range(SAMPLES)]
    for epoch in range(epochs):
        assert sorted(table[epoch, p].index for p in range(SAMPLES)) == list(range(SAMPLES))
    return table


def check_split(daemon, source, table, world_size, batch_size, **keys):
    """Two epochs, a rank after the other: the first has long ended when the last one comes."""
    drop_last = keys.get("drop_last", keys.get("train", True))
    want = 2 * [plan(world_size, batch_size, drop_last)]
    options = dict(source=source, group="g", share="split", world_size=world_size, batch_size=batch_size, epochs=2, **TINY, **keys)
    with links(daemon, world_size) as ranks:
        for rank, link in enumerate(ranks):
            stream = link.open(rank=rank, **options)
            info = stream.opened()
            assert (info.rank, info.world_size, info.batches) == (rank, world_size, len(want[0])), info
            assert info.epoch_samples == len({p for batch in want[0] for part in batch for p, padded in part if not padded})
            check_rank(stream.read(), want, rank, table)
            assert stream.ended == (2, 2 * len(want[0])), stream.ended


def test_split_every_sample_once_in_the_order_of_one_rank():
    with served() as (daemon, source):
        for keys in ({"seed": 3}, {"seed": 3, "drop_last": False}, {"train": False}, {"train": False, "shuffle": True, "drop_last": True}):
            table = reference(daemon, source, 2, **keys)
            for world_size, batch_size in itertools.product((1, 2, 3, 4), (1, 7, 15)):
                check_split(daemon, source, table, world_size, batch_size, **keys)


def test_split_plan_itself():
    """The yardstick of the others: no sample lost or repeated, ranks in step, shares that differ by one at most."""
    for world_size, batch_size, samples in itertools.product(range(1, 7), (1, 2, 5, 9), range(1, 40)):
        batches = plan(world_size, batch_size, False, samples=samples)
        flat = [row for ranks in batches for part in ranks for row in part]
        assert [p for p, padded in flat if not padded] == list(range(samples))
        assert all(len(ranks) == world_size and all(ranks) for ranks in batches)
        sizes = [len([1 for _, padded in part if not padded]) for part in batches[-1]]
        assert max(sizes) - min(sizes) <= 1 and max(len(part) for part in batches[-1]) <= batch_size
        whole = plan(world_size, batch_size, True, samples=samples)
        assert whole == [b for b in batches if sum(map(len, b)) == world_size * batch_size and not b[-1][0][1]]


def test_split_more_ranks_than_samples_are_left():
    """61 samples in global batches of 4 x 15: one is left, rank 0's; the others get it too, padded, and metrics stay exact."""
    with served() as (daemon, source):
        with links(daemon, 4) as ranks:
            seen = []
            for rank, link in enumerate(ranks):
                got = link.open(source=source, group="g", share="split", rank=rank, world_size=4, batch_size=15, train=False, epochs=1,
                                **TINY).read()
                assert [batch.count for batch, _ in got] == [15, 1]
                assert bool(got[1][1][0].flags & PADDED) == (rank > 0) and got[1][1][0].index == SAMPLES - 1
                seen += [row.index for _, rows in got for row in rows if not row.flags & PADDED]
            assert sorted(seen) == list(range(SAMPLES))


def test_split_fewer_samples_than_ranks_ask_for():
    with served() as (daemon, source), Link(daemon.socket) as link:
        options = dict(source=source, group="g", share="split", rank=1, world_size=8, batch_size=8, **TINY)
        with refused(errno.EINVAL, "fewer than one batch"):
            link.open(**options).opened()
        got = link.open(**options, drop_last=False, epochs=1).read()
        assert [batch.count for batch, _ in got] == [8], "8 of 61 each, the first five; the others 7"


def test_split_ranks_side_by_side():
    """All ranks at once, each on its own connection, in turns."""
    with served() as (daemon, source):
        table = reference(daemon, source, 3, seed=9)
        want = 3 * [plan(3, 4, True)]
        options = dict(source=source, group="g", share="split", world_size=3, batch_size=4, epochs=3, wait_for=3, seed=9, **TINY)
        with links(daemon, 3) as ranks:
            streams = [link.open(rank=rank, **options) for rank, link in enumerate(ranks)]
            got = [[] for _ in streams]
            for _ in range(3 * len(want[0])):
                for stream, mine in zip(streams, got):
                    mine += stream.read(1)
            for rank, (stream, mine) in enumerate(zip(streams, got)):
                check_rank(mine, want, rank, table)
                assert stream.next() is None


def test_split_fast_rank_is_not_held_up():
    with served() as (daemon, source):
        options = dict(source=source, group="g", share="split", world_size=3, batch_size=4, **TINY)
        stopped = daemon.trainer(rank=2, **options)
        stopped.line()
        stopped.process.send_signal(signal.SIGSTOP)
        with links(daemon, 2) as (slow, fast):
            holder = slow.open(rank=0, **options)
            held = [holder.next() for _ in range(holder.opened().slots)]
            got = fast.open(rank=1, **options).read(20 * 5)
            assert got[-1][0].epoch == 19
            assert [holder.head(batch)[0] for batch in held] == [batch.serial for batch in held], "what it holds is as it was"
            for batch in held:
                holder.release(batch)
            assert holder.read(1)[0][0].batch == len(held), "and it goes on where it was"
        stopped.kill()


def test_split_several_nodes_share_one_job():
    """Ranks 2 and 3 of 4 are on this node; the daemon of another one feeds the rest."""
    with served() as (daemon, source):
        table = reference(daemon, source, 2)
        want = 2 * [plan(4, 5, True)]
        options = dict(source=source, group="g", share="split", world_size=4, batch_size=5, epochs=2, wait_for=2, **TINY)
        with links(daemon, 2) as ranks:
            streams = [link.open(rank=rank, **options) for rank, link in enumerate(ranks, 2)]
            for rank, stream in enumerate(streams, 2):
                check_rank(stream.read(), want, rank, table)


def test_split_waits_for_all_its_ranks():
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        options = dict(source=source, group="g", share="split", world_size=2, wait_for=2, batch_size=4, **TINY)
        first = one.open(rank=0, **options)
        first.opened()
        wait_until(lambda: daemon.status()["streams"][0].get("ready") == first.info.slots, "its slots to be full")
        assert first.pending() == 0, "a batch before all had come"
        assert "2" in first.query(WAIT), first.query(WAIT)
        second = two.open(rank=1, **options)
        assert first.next().batch == second.next().batch == 0


def break_images(source, count):
    for victim in sorted(source.rglob("*.jpg"))[:count]:
        victim.write_bytes(victim.read_bytes()[:300])


def test_split_few_broken_samples_end_no_rank():
    """Two of 61 are less than a tenth, whoever gets them; most are too many for every rank."""
    with served() as (daemon, source), links(daemon, 8) as ranks:
        break_images(source, 2)
        options = dict(source=source, share="split", world_size=8, batch_size=3, train=False, epochs=1, max_broken=0.1, **TINY)
        invalid = 0
        for rank, link in enumerate(ranks):
            got = link.open(rank=rank, group="few", **options).read()
            invalid += sum(1 for _, rows in got for row in rows if row.flags & INVALID and not row.flags & PADDED)
        assert invalid == 2
        break_images(source, SAMPLES)
        for rank, link in enumerate(ranks):
            with refused(errno.EIO, "this rank", "max_broken"):
                link.open(rank=rank, group="all", **options).read()


def test_split_streams_of_one_process():
    """Ranks may be streams of one connection, as threads of one process are."""
    with served() as (daemon, source), Link(daemon.socket) as link:
        table = reference(daemon, source, 1, train=False)
        streams = [link.open(source=source, group="g", share="split", rank=r, world_size=2, batch_size=7, train=False, epochs=1, **TINY)
                   for r in range(2)]
        for rank, stream in enumerate(streams):
            check_rank(stream.read(), [plan(2, 7, False)], rank, table)


def test_split_through_the_library():
    with served() as (daemon, source):
        options = dict(source=source, group="g", share="split", world_size=3, batch_size=7, train=0, epochs=2, states=1, **TINY)
        trainers = [daemon.trainer(rank=r, **options) for r in range(3)]
        lines = [t.finish() for t in trainers]
        states = [[line for line in mine if line.startswith("state ")] for mine in lines]
        assert states[0] == states[1] == states[2] and len(states[0]) == 2 * 3 + 1, "any rank's state is the job's"
        assert [[int(line.split()[2]) for line in rows(mine)] for mine in lines] == [2 * [7, 7, 7], 2 * [7, 7, 6], 2 * [7, 7, 6]]
        # as torchrun tells it
        environment = dict(daemon.environment)
        try:
            daemon.environment |= {"RANK": "1", "WORLD_SIZE": "3"}
            assert daemon.batches(**{k: v for k, v in options.items() if k != "world_size"}) == lines[1]
        finally:
            daemon.environment = environment


# ---- memory for a device ----

def test_memory_to_be_pinned_is_writable_where_one_trainer_reads_alone():
    with served() as (daemon, source), Link(daemon.socket) as link:
        base = dict(source=source, batch_size=4, **TINY)
        for keys, writable in (
                ({}, False),
                ({"pin_memory": False}, False),
                ({"pin_memory": True}, True),
                ({"pin_memory": True, "share": "split", "rank": 1, "world_size": 2}, True),
                ({"pin_memory": True, "group": "together"}, False),
                ({"pin_memory": True, "group": "apart", "share": "split", "rank": 0, "world_size": 2}, True)):
            stream = link.open(**base, **keys)
            assert stream.opened() and stream.writable == writable, keys
            stream.close()
        # Whether memory is pinned is each trainer's own business, and nothing that makes batches.
        one = link.open(**base, group="mixed", share="split", rank=0, world_size=2, pin_memory=True)
        two = link.open(**base, group="mixed", share="split", rank=1, world_size=2)
        assert one.opened() and two.opened() and one.writable and not two.writable
        with refused(errno.EINVAL, "pin_memory", "maybe"):
            link.open(**base, pin_memory="maybe").opened()


class Spoiler:
    """Writes noise over all memory of this kind that this process was sent, and punches holes into it, until the block ends."""

    def __init__(self):
        self.fds = [fd for fd in map(int, os.listdir("/proc/self/fd")) if self.is_writable(fd)]
        self.ended, self.rounds = threading.Event(), 0
        self.thread = threading.Thread(target=self.run)

    @staticmethod
    def is_writable(fd):
        with contextlib.suppress(OSError):
            return "memfd:penstock-batches" in os.readlink(f"/proc/self/fd/{fd}") and not fcntl.fcntl(fd, harness.F_GET_SEALS) & 16
        return False

    def run(self):
        punch = ctypes.CDLL(None, use_errno=True).fallocate
        punch.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        with contextlib.ExitStack() as stack:
            memories = [(fd, stack.enter_context(mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))) for fd in self.fds]
            while not self.ended.is_set():
                for fd, memory in memories:
                    memory[:] = os.urandom(len(memory)) if self.rounds % 3 else b"\xff" * len(memory)
                    assert self.rounds % 4 or punch(fd, 3, 0, len(memory)) == 0  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
                self.rounds += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def test_memory_that_a_trainer_spoils_is_its_own_loss():
    """The daemon believes nothing that it reads back: the trainer is told the same batches, and others get theirs whole."""
    with served() as (daemon, source), Link(daemon.socket) as link, Link(daemon.socket) as other:
        keys = dict(source=source, batch_size=4, epochs=3, **TINY)
        good = link.open(**keys).read()
        spoilt = link.open(**keys, pin_memory=True)
        assert spoilt.opened() and spoilt.writable
        with Spoiler() as spoiler:
            wait_until(lambda: spoiler.rounds > 1 or not spoiler.thread.is_alive(), "some noise")
            told = []
            while spoilt.end is None or spoilt.inbox:
                if not spoilt.inbox:
                    link.take()
                    continue
                kind, body = spoilt.inbox.popleft()
                if kind == harness.BATCH:
                    told.append(harness.Batch(*struct.unpack_from("<IIQQQQII", body)))
                    spoilt.release(told[-1])
            beside = other.open(**keys).read()
            assert spoiler.fds and spoiler.thread.is_alive()
        assert spoilt.end == harness.END
        assert [b[2:] for b in told] == [b[2:] for b, _ in good], "what is announced does not come out of that memory"
        assert sequence(beside) == sequence(good)
        assert sequence(link.open(**keys).read()) == sequence(good)


# ---- refusals of groups ----

def test_refused_definitions():
    with served() as (daemon, source), Link(daemon.socket) as link:
        base = dict(source=source, batch_size=4, **TINY)
        for keys, words in (
                ({"share": "split", "rank": 0, "world_size": 0}, ("world_size", "1")),
                ({"share": "split", "rank": 2, "world_size": 2}, ("rank", "2")),
                ({"share": "split", "rank": 7, "world_size": 2}, ("rank", "7")),
                ({"share": "split", "rank": -1, "world_size": 2}, ("rank", "-1")),
                ({"share": "split", "rank": 0, "world_size": 65537}, ("world_size", "65537")),
                ({"share": "split"}, ("rank", "world_size")),
                ({"share": "split", "rank": 0}, ("rank", "world_size")),
                ({"share": "split", "world_size": 2}, ("rank", "world_size")),
                ({"share": "all", "rank": 0, "world_size": 2}, ("rank", "world_size")),
                ({"rank": 0, "world_size": 2}, ("rank", "world_size")),
                ({"share": "some"}, ("share", "some")),
                ({"wait_for": 0}, ("wait_for", "0")),
                ({"share": "split", "rank": 0, "world_size": 2, "wait_for": 3}, ("wait_for", "3", "2")),
                ({"laggard": "kill"}, ("laggard", "kill")),
                ({"laggard_timeout_s": 0}, ("laggard_timeout_s", "0")),
                ({"laggard_timeout_s": 86401}, ("laggard_timeout_s", "86401")),
                ({"reconnect": True}, ("reconnect", "state")),
                ({"reconnect": "perhaps"}, ("reconnect", "perhaps"))):
            with refused(errno.EINVAL, *words):
                link.open(group="g", **base, **keys).opened()
        with refused(errno.EINVAL, "wait_for", "group"):
            link.open(wait_for=2, **base).opened()
        assert len(link.open(**base).read(2)) == 2, "the connection lives"


def test_refused_rank_that_is_taken():
    with served() as (daemon, source), links(daemon, 3) as (one, two, three):
        options = dict(source=source, group="g", share="split", world_size=2, batch_size=4, **TINY)
        first = one.open(rank=0, **options)
        first.opened()
        with refused(errno.EBUSY, "rank 0", os.getpid()):
            two.open(rank=0, **options).opened()
        with refused(errno.EBUSY, "rank 0", os.getpid()):
            one.open(rank=0, **options).opened()
        with refused(errno.EBUSY, "rank 0"):
            two.open(rank=0, reconnect=True, state=first.state(), **options).opened()
        with refused(errno.EBUSY, "world_size"):
            two.open(rank=1, **{**options, "world_size": 3}).opened()
        with refused(errno.EBUSY, "batch_size"):
            two.open(rank=1, **{**options, "batch_size": 8}).opened()
        with refused(errno.EBUSY, "share"):
            three.open(source=source, group="g", batch_size=4, **TINY).opened()
        assert len(two.open(rank=1, **options).read(5)) == len(first.read(5)) == 5, "nobody is harmed"


def test_refused_rank_whose_predecessor_lives_beside_others():
    """A rank that died and was started anew while the others went on would repeat what the job has had."""
    with served() as (daemon, source), Link(daemon.socket) as one:
        options = dict(source=source, group="g", share="split", world_size=2, batch_size=4, **TINY)
        first = one.open(rank=0, **options)
        with Link(daemon.socket) as link:
            second = link.open(rank=1, **options)
            state = second.state(second.read(3)[-1][0])
        first.read(5)
        with Link(daemon.socket) as link:
            with refused(errno.EBUSY, "rank 1", "left"):
                link.open(rank=1, **options).opened()
            with refused(errno.EBUSY):
                link.open(rank=1, state=state, **options).opened()
            with refused(errno.EBUSY, state["position"] - 3):
                link.open(rank=1, state={**state, "position": state["position"] - 3}, reconnect=True, **options).opened()
            again = link.open(rank=1, state=state, reconnect=True, **options)
            assert again.read(1)[0][0].batch == 3
            assert first.read(1)[0][0].batch == 5


# ---- state ----

def job_state(stream, batches):
    """Of a rank after so many batches."""
    return stream.state(stream.read(batches)[-1][0])


def test_state_is_the_same_of_every_rank():
    with served() as (daemon, source):
        for keys in ({}, {"train": False}):
            options = dict(source=source, group="g", share="split", world_size=4, batch_size=5, epochs=2, **TINY, **keys)
            with links(daemon, 4) as ranks:
                streams = [link.open(rank=rank, **options) for rank, link in enumerate(ranks)]
                assert len({json.dumps(s.opened() and s.state()) for s in streams}) == 1
                for _ in range(2 * streams[0].info.batches):
                    states = [job_state(stream, 1) for stream in streams]
                    assert all(state == states[0] for state in states), states
                assert states[0]["epoch"] == 2 and states[0]["position"] == 0


def test_state_resumes_at_any_world_size_and_batch_size():
    """From each batch of a job, and from positions that are on nobody's grid: another job goes on with exactly what is left."""
    with served() as (daemon, source):
        for keys in ({"seed": 1}, {"train": False}):
            table = reference(daemon, source, 2, **keys)
            with Link(daemon.socket) as link:
                base = link.open(source=source, batch_size=1, **TINY, **keys)
                base.opened()
                state = base.state()
            for (world_size, batch_size), position in itertools.product(((1, 6), (2, 5), (3, 4), (4, 7)), (1, 12, 24, 36, 59)):
                resume_at(daemon, source, table, world_size, batch_size, {**state, "epoch": 0, "position": position}, **keys)


def resume_at(daemon, source, table, world_size, batch_size, state, **keys):
    drop_last = keys.get("train", True)
    want = [plan(world_size, batch_size, drop_last, state["position"]), plan(world_size, batch_size, drop_last)]
    options = dict(source=source, group="g", share="split", world_size=world_size, batch_size=batch_size, epochs=2, state=state, **TINY, **keys)
    with links(daemon, world_size) as ranks:
        streams = [link.open(rank=rank, **options) for rank, link in enumerate(ranks)]
        for rank, stream in enumerate(streams):
            stream.opened()
            if want[0]:
                assert stream.state() == state, "a state taken before the first batch is the one given"
            check_rank(stream.read(), want, rank, table)


def test_state_through_the_library_at_other_world_sizes():
    """The library's text of rank 2 of 3, handed to jobs of 1, 2 and 4 ranks: together they read what was left."""
    with served() as (daemon, source):
        base = dict(source=source, train=0, epochs=1, **TINY)
        options = dict(group="g", share="split", world_size=3, batch_size=5, **base)
        trainers = [daemon.trainer(rank=r, batches=2, wait_for=3, **options) for r in range(3)]
        states = {t.finish()[-1] for t in trainers}
        assert len(states) == 1
        state = states.pop().removeprefix("state ")
        assert json.loads(state)["position"] == 30
        for world_size in (1, 2, 4):
            raws = [daemon.home / f"raw-{world_size}-{r}" for r in range(world_size)]
            trainers = [daemon.trainer(**{**options, "group": f"h{world_size}", "world_size": world_size}, rank=r, state=state, raw=raw)
                        for r, raw in enumerate(raws)]
            for trainer in trainers:
                trainer.finish()
            left = [index for raw in raws for index, padded in records(raw) if not padded]
            assert sorted(left) == list(range(30, SAMPLES)), world_size


def records(path, image_size=TINY["image_size"]):
    """(index, padded) of each row that dump_batches wrote."""
    data, step = path.read_bytes(), 64 + image_size * image_size * 3
    assert len(data) % step == 0
    return [(int.from_bytes(data[at:at + 8], "little"), bool(data[at + 40] & PADDED)) for at in range(0, len(data), step)]


def test_state_that_is_another_jobs_is_refused():
    with served() as (daemon, source), Link(daemon.socket) as link:
        options = dict(source=source, group="g", share="split", rank=0, world_size=2, batch_size=4, **TINY)
        stream = link.open(**options)
        state = job_state(stream, 2)
        stream.close()
        other = make_dataset(daemon.home / "other", per_class=12)
        for keys, code, words in (
                ({"source": other}, errno.ESTALE, ("another dataset", "by a release that read this folder in another order")),
                ({"seed": 1}, errno.ESTALE, ("another seed",)),
                ({"shuffle": False}, errno.ESTALE, ("another order",)),
                ({"state": {**state, "order": "0123456789abcdef"}}, errno.ESTALE, ("another order",)),
                ({"state": {**state, "version": 2}}, errno.EINVAL, ("version 2",)),
                ({"state": json.dumps(state)[:60]}, errno.EINVAL, ("state",)),
                ({"state": {k: v for k, v in state.items() if k != "position"}}, errno.EINVAL, ("position",)),
                ({"state": {**state, "position": SAMPLES + 1}}, errno.ESTALE, (SAMPLES,)),
                ({"state": {**state, "position": -1}}, errno.EINVAL, ("position",)),
                ({"state": {**state, "epoch": 1 << 33}}, errno.EINVAL, ("epoch",)),
                ({"state": []}, errno.EINVAL, ("state",))):
            with refused(code, *words):
                link.open(**{**options, "state": state, **keys}).opened()
        again = link.open(**{**options, "image_size": 20}, state=state)
        assert again.read(1)[0][0].position == 16, "another transform is allowed, and the connection lives"


def test_state_must_be_that_of_the_other_ranks():
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        options = dict(source=source, group="g", share="split", world_size=2, batch_size=4, **TINY)
        first = one.open(rank=0, **options)
        states = [job_state(first, 1), job_state(first, 1)]
        first.close()
        with refused(errno.EBUSY, 8, 16):
            begun = one.open(rank=0, state=states[0], **options)
            begun.opened()
            two.open(rank=1, state=states[1], **options).opened()
        with refused(errno.EBUSY, 8):
            two.open(rank=1, **options).opened()
        assert two.open(rank=1, state=states[0], **options).read(1)[0][0].position == 12
        begun.close()


def send_at_once(daemon, *opens):
    """The streams, all asked for before the daemon looks at the first."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    os.waitpid(daemon.process.pid, os.WUNTRACED)
    streams = [link.open(**keys) for link, keys in opens]
    os.kill(daemon.process.pid, signal.SIGCONT)
    return streams


def test_state_that_is_refused_binds_no_other_rank():
    """A rank that comes first with a state that does not fit; the others are there before the daemon has opened the source and knows."""
    with served() as (daemon, source), links(daemon, 1) as (link,):
        options = dict(source=source, group="g", share="split", world_size=3, batch_size=4, **TINY)
        first = link.open(rank=0, **options)
        state = job_state(first, 1)
        first.close()
        for wrong in ({**state, "fingerprint": "0123456789abcdef"}, {**state, "position": SAMPLES + 1}):
            bad, *good = send_at_once(daemon, *((link, {**options, "rank": rank, "state": state if rank else wrong}) for rank in range(3)))
            with refused(errno.ESTALE):
                bad.opened()
            good.append(link.open(rank=0, state=state, **options))
            assert [stream.read(1)[0][0].position for stream in good] == [12 + 4, 12 + 8, 12]
            for stream in good:
                stream.close()


def test_state_of_the_rank_that_is_answered_first_binds_the_others():
    with served() as (daemon, source), links(daemon, 1) as (link,):
        options = dict(source=source, group="g", share="split", world_size=2, batch_size=4, **TINY)
        first = link.open(rank=0, **options)
        states = [job_state(first, 1), job_state(first, 1)]
        first.close()
        streams = send_at_once(daemon, *((link, {**options, "rank": rank, "state": state}) for rank, state in enumerate(states)))
        answers = []
        for stream in streams:
            try:
                answers.append(stream.opened().position)
            except Refused as refusal:
                assert refusal.code == -errno.EBUSY and all(str(state["position"]) in refusal.sentence for state in states), refusal
                answers.append(None)
        assert answers in ([states[0]["position"], None], [None, states[1]["position"]]), answers


def test_state_none_and_some_do_not_mix():
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        options = dict(source=source, group="g", share="split", world_size=2, batch_size=4, **TINY)
        first = one.open(rank=0, **options)
        first.opened()
        with refused(errno.EBUSY, 16):
            two.open(rank=1, state={**first.state(), "position": 16}, **options).opened()
        with refused(errno.EBUSY, "without a state"):
            two.open(rank=1, state=first.state(), **options).opened()
        assert two.open(rank=1, **options).read(1)


# ---- whole jobs that end and begin again ----

def test_restart_of_a_whole_job_at_once():
    """All ranks hang up and are there again before the daemon can have looked: never is a rank taken, or a state another one."""
    with served() as (daemon, source):
        options = dict(source=source, group="g", share="split", world_size=3, batch_size=4, wait_for=3, **TINY)
        state, at = None, 0
        for _ in range(40):
            with links(daemon, 3) as ranks:
                keys = {**options, "state": state} if state else options
                streams = [link.open(rank=rank, **keys) for rank, link in enumerate(ranks)]
                assert [s.opened().position for s in streams] == 3 * [at]
                states = [job_state(stream, 2) for stream in streams]
                assert states[0] == states[1] == states[2]
                state = states[0]
                at = state["position"]


def test_restart_after_sigkill():
    with served() as (daemon, source):
        options = dict(source=source, group="g", share="split", world_size=3, batch_size=4, states=1, wait_for=3, **TINY)
        state = None
        for turn in range(8):
            keys = {**options, "state": state} if state else options
            trainers = [daemon.trainer(rank=rank, hold=2, **keys) for rank in range(3)]
            for trainer in trainers:
                line = trainer.line()
                assert line[:1].isdigit(), (turn, line)
                state = trainer.line().removeprefix("state ")
            for trainer in trainers:
                trainer.process.kill()
            for trainer in trainers:
                trainer.kill()


# ---- all: joining, leaving, lagging ----

ALL = {"batch_size": 4, "group": "g", **TINY}


def test_all_late_joiner_is_told_where():
    with served() as (daemon, source), links(daemon, 3) as (one, two, three):
        first = one.open(source=source, prefetch=6, **ALL)
        before = first.read(7)
        kept = [first.next() for _ in range(3)]  # batches 7, 8, 9 are still there
        for link in (two, three):
            late = link.open(source=source, prefetch=6, **ALL)
            info = late.opened()
            assert (info.epoch, info.batch, info.position) == (0, 7, 28), "the oldest that is still there"
            got = [late.next() for _ in range(3)]
            assert [late.rows(batch) for batch in got] == [first.rows(batch) for batch in kept], "the same memory"
            for batch in got:
                late.release(batch)
            late.close()
        for batch in kept:
            first.release(batch)
        assert [batch.batch for batch, _ in before + first.read(4)] == [*range(7), *range(10, 14)]


def test_all_late_joiner_misses_nothing_from_there():
    with served() as (daemon, source), links(daemon, 3) as (one, *others):
        first = one.open(source=source, epochs=4, **ALL)
        whole = sequence(first.read(10))
        late = [link.open(source=source, epochs=4, **ALL) for link in others]
        starts = [(s.opened().epoch, s.info.batch) for s in late]
        got = [[] for _ in late]
        for _ in range(20):
            whole += sequence(first.read(1))
            for stream, mine in zip(late, got):
                mine += sequence(stream.read(1))
        names = [(epoch, batch) for epoch, batch, *_ in whole]
        for start, mine in zip(starts, got):
            begin = names.index(start)
            assert mine[:len(whole) - begin] == whole[begin:][:len(mine)], "contiguous, and the same"


def test_all_waits_for_its_trainers():
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        first = one.open(source=source, wait_for=2, **ALL)
        first.opened()
        wait_until(lambda: daemon.status()["streams"][0].get("ready") == first.info.slots, "its slots to be full")
        assert first.pending() == 0, "a batch before all had come"
        assert "2" in first.query(WAIT), first.query(WAIT)
        second = two.open(source=source, wait_for=2, **ALL)
        for _ in range(20):
            assert sequence(first.read(1)) == sequence(second.read(1))
        second.close()  # what has begun goes on when one leaves
        assert len(first.read(20)) == 20


def hold_all(stream):
    return [stream.next() for _ in range(stream.opened().slots)]


def test_all_laggard_blocks_and_is_named():
    with served() as (daemon, source), Link(daemon.socket) as link:
        options = dict(source=source, wait_for=2, prefetch=3, **ALL)
        laggard = daemon.trainer(**options, sleep_ms=600000)
        busy = link.open(**options)
        got = busy.read(3)
        wait_until(lambda: daemon.status()["streams"][0]["leased"] == 3, "the slots to be the laggard's")
        pid = laggard.process.pid
        wait_until(lambda: str(pid) in busy.query(WAIT), "the wait to name the laggard")
        assert busy.pending() == 0
        trainers = wait_until(lambda: {t["pid"]: t for t in daemon.status()["streams"][0]["trainers"] if t["blocks"]}, "the status to say so")
        assert list(trainers) == [pid] and trainers[pid]["held"] == 3, trainers
        laggard.kill()
        assert [batch.batch for batch, _ in got + busy.read(3)] == list(range(6)), "nothing was skipped"


def test_all_laggard_is_detached():
    with served() as (daemon, source), links(daemon, 2) as (lazy, eager):
        reserved = daemon.status()["memory"]["reserved"]
        options = dict(source=source, wait_for=2, laggard="detach", laggard_timeout_s=1, **ALL)
        slow, busy = lazy.open(**options), eager.open(**options)
        other = lazy.open(source=source, **TINY, batch_size=3)
        held = hold_all(slow)
        got = busy.read(30)
        assert [batch.serial - got[0][0].serial for batch, _ in got] == list(range(30)), "the others go on"
        with refused(errno.ECANCELED, f"batch {held[0].batch}"):
            slow.next()
        assert all(slow.head(batch)[0] != batch.serial for batch in held), "the serial in a slot tells that it was filled again"
        for batch in held:
            slow.release(batch)
        assert len(other.read(10)) == 10, "other streams of its connection live"
        slow.release(held[0])
        slow.close()
        assert json.loads(lazy.query(STATUS))["streams"], "the connection lives"
        assert len(busy.read(10)) == 10
        # it may come again, as anybody who comes late
        again = lazy.open(**options)
        assert again.opened().epoch * 15 + again.info.batch > 30
        assert again.read(1)
        for stream in (again, other, busy):
            stream.close()
        wait_reserved(daemon, reserved)


def test_all_detached_trainer_that_hangs_up():
    with served() as (daemon, source):
        options = dict(source=source, wait_for=2, laggard="detach", laggard_timeout_s=1, **ALL)
        reserved = daemon.status()["memory"]["reserved"]
        fds = None
        for _ in range(2):
            with Link(daemon.socket) as eager:
                with Link(daemon.socket) as lazy:
                    slow, busy = lazy.open(**options), eager.open(**options)
                    hold_all(slow)
                    busy.read(20)
                assert len(busy.read(20)) == 20
                busy.close()
            wait_until(lambda: not daemon.status()["streams"], "the streams to go")
            wait_reserved(daemon, reserved)
            fds = fds or (time.sleep(0.2), daemon.fds())[1]
            wait_until(lambda: daemon.fds() <= fds, f"descriptors to be {fds} again")


def test_all_detaching_through_the_library():
    with served() as (daemon, source), Link(daemon.socket) as link:
        options = dict(source=source, wait_for=2, laggard="detach", laggard_timeout_s=1, prefetch=2, **ALL)
        lazy = daemon.trainer(**options, hold=1, sleep_ms=4000, batches=4)
        link.open(**options).read(40)
        error = lazy.error()
        assert f"error {-errno.ECANCELED} " in error and "batch" in error, error


def test_all_laggard_of_a_group_that_has_ended_is_told_once():
    """A daemon that ends waits for its trainers a while; after its word nothing follows (PROTOCOL.md, "Order of messages")."""
    with served() as (daemon, source), links(daemon, 2) as (lazy, eager):
        options = dict(source=source, wait_for=2, laggard="detach", laggard_timeout_s=1, **ALL)
        slow, busy = lazy.open(**options), eager.open(**options)
        hold_all(slow)
        busy.read(slow.info.slots)
        daemon.process.send_signal(signal.SIGTERM)
        with refused(errno.ESHUTDOWN, "asked to end"):
            slow.next()
        lost(lazy)


def test_all_slow_but_going_on_is_no_laggard():
    """It holds everything, but never for as long as the limit."""
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        options = dict(source=source, wait_for=2, laggard="detach", laggard_timeout_s=int(2 * harness.SLOW), prefetch=2, **ALL)
        slow, busy = one.open(**options), two.open(**options)
        held = hold_all(slow)
        for _ in range(5):
            time.sleep(0.5 * harness.SLOW)
            slow.release(held.pop(0))
            busy.read(1)
            held.append(slow.next())
        for batch in held:
            slow.release(batch)
        assert len(slow.read(5)) == 5


def test_all_laggard_alone_is_nobodys():
    """Nobody waits for it: it may keep its batches as long as it likes. So may the slowest of all that keep theirs."""
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        options = dict(source=source, laggard="detach", laggard_timeout_s=1, **ALL)
        alone = one.open(**options)
        held = hold_all(alone)
        late = two.open(**options)
        kept = [late.next() for _ in range(2)]
        time.sleep(2.5)
        assert alone.pending() == 0 and late.pending() == late.info.slots - 2, "nobody was detached"
        for stream, batches in ((alone, held), (late, kept)):
            for batch in batches:
                stream.release(batch)
        late.read(2)
        assert len(alone.read(3)) == 3


def test_all_nobody_ends_anothers_epoch():
    with served() as (daemon, source):
        per_epoch = SAMPLES // ALL["batch_size"]
        for order in ((1, 3, 0), (0, 1, 3), (3, 1, 0)):
            with links(daemon, 3) as connections:
                streams = {}
                for epochs, link in zip(order, connections):
                    streams[epochs] = link.open(source=source, epochs=epochs, wait_for=3, **ALL)
                got = {epochs: [] for epochs in order}
                for _ in range(3 * per_epoch):
                    for epochs, stream in streams.items():
                        if epochs != 1 or len(got[1]) < per_epoch:
                            got[epochs] += sequence(stream.read(1))
                assert streams[1].next() is None and streams[1].ended == (1, per_epoch), streams[1].ended
                assert streams[3].next() is None and streams[3].ended == (3, 3 * per_epoch), streams[3].ended
                assert got[3] == got[0] and got[1] == got[0][:per_epoch]
                assert len(streams[0].read(per_epoch)) == per_epoch, "the endless one goes on"


def test_all_leases_live_on_after_the_end():
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        short = one.open(source=source, epochs=1, wait_for=2, **ALL)
        long = two.open(source=source, epochs=2, wait_for=2, **ALL)
        per_epoch = SAMPLES // ALL["batch_size"]
        slots, kept = long.opened().slots, []
        for step in range(per_epoch):
            kept.append(short.next())
            if step < per_epoch - slots:
                short.release(kept.pop())
            long.read(1)
        assert short.next() is None
        before = [short.rows(batch) for batch in kept]
        wait_until(lambda: daemon.status()["streams"][0]["leased"] == slots, "the other's releases")
        assert long.pending() == 0 and [short.rows(batch) for batch in kept] == before
        short.close()
        assert len(long.read(per_epoch)) == per_epoch and long.next() is None


def test_all_late_joiner_whose_epochs_are_over():
    with served() as (daemon, source), links(daemon, 2) as (one, two):
        first = one.open(source=source, **ALL)
        first.read(SAMPLES // ALL["batch_size"] + 3)
        late = two.open(source=source, epochs=1, **ALL)
        assert late.next() is None and late.ended == (1, 0)
        assert len(first.read(20)) == 20


def test_all_no_error_after_the_end():
    """Whoever has had its END is not told that the stream broke for others, or that the daemon ends."""
    with served() as (daemon, source), links(daemon, 3) as (one, two, three):
        options = dict(source=source, wait_for=2, train=False, on_broken="fail", seed=1, **{**ALL, "batch_size": 30})
        short, long = one.open(epochs=1, **options), two.open(epochs=3, **options)
        kept = [short.next() for _ in range(3)]
        assert short.next() is None
        done = three.open(source=source, epochs=1, **TINY, batch_size=30)
        done.read()
        long.read(1)
        break_images(source, SAMPLES)
        short.release(kept.pop(0))
        with refused(errno.EIO, "on_broken"):
            long.read()
        daemon.process.send_signal(signal.SIGTERM)
        for link in (one, three):
            wait_until(lambda link=link: json.loads(link.query(STATUS))["draining"], "the daemon to end")
            link.query(STATUS)  # what a turn of its loop has to say comes before the next turn's answer


def test_all_a_name_is_free_again():
    with served() as (daemon, source), Link(daemon.socket) as link:
        for seed in range(20):
            stream = link.open(source=source, seed=seed, **ALL)
            stream.read(2)
            stream.close()


# ---- coming back ----

class Mortal:
    """A dataset and a daemon that can be killed and started anew."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        self.home = self.stack.enter_context(folder())
        self.source = dataset(self.home / "images")
        self.start()
        return self

    def start(self):
        self.daemon = Daemon(self.home, "--threads", "2")

    def restart(self, connections):
        """SIGKILL and a new one; closes the connections, after they have noticed."""
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.out.close()
        for link in connections:
            lost(link)
        self.start()

    def __exit__(self, *what):
        with self.stack:
            self.daemon.__exit__(*what)


def lost(link):
    """The daemon is gone: the connection says so."""
    try:
        while True:
            link.take()
    except HungUp:
        link.close()


def progress(daemon, source, counts, **keys):
    """Trainers of a group that have read and released so many batches each: streams, their connections, what they read."""
    connections = [Link(daemon.socket) for _ in counts]
    streams = [link.open(source=source, wait_for=len(counts), **{**ALL, **keys}) for link in connections]
    for stream in streams:
        stream.opened()
    got = [[] for _ in counts]
    while any(len(mine) < count for mine, count in zip(got, counts)):
        for mine, stream, count in zip(got, streams, counts):
            if len(mine) < count:
                mine += stream.read(1)
    return connections, streams, got


def come_back(daemon, source, state, **keys):
    link = Link(daemon.socket)
    return link, link.open(source=source, reconnect=True, state=state, **{**ALL, **keys})


def check_return(world, counts, wait_for, order):
    """Trainers that have read so many batches each lose their daemon and come back in this order."""
    connections, streams, got = progress(world.daemon, world.source, counts, epochs=3)
    states = [stream.state(mine[-1][0] if mine else None) for stream, mine in zip(streams, got)]
    world.restart(connections)
    back = {i: come_back(world.daemon, world.source, states[i], epochs=3, wait_for=wait_for) for i in order}
    for i, (_, stream) in back.items():
        assert stream.opened() and stream.state() == states[i], "OPENED names the batch that it needs"
    per_epoch = SAMPLES // ALL["batch_size"]
    for step in range(3 * per_epoch):
        for i in order:
            if step >= counts[i]:
                got[i] += back[i][1].read(1)
    assert all(stream.next() is None for _, stream in back.values())
    names = [(epoch, number) for epoch in range(3) for number in range(per_epoch)]
    for mine in got:
        assert [(batch.epoch, batch.batch) for batch, _ in mine] == names, "nothing lost, nothing twice"
        assert sequence(mine) == sequence(got[0])
    for link, _ in back.values():
        link.close()


def test_return_of_a_group_to_a_new_daemon():
    with Mortal() as world:
        for counts, wait_for, order in (((5, 6, 8), 3, (0, 1, 2)), ((8, 6, 5), 3, (0, 1, 2)), ((0, 2, 4), 3, (2, 0, 1)),
                                        ((7, 7), 2, (1, 0)), ((16, 14, 15), 1, (0, 2, 1)), ((3,), 1, (0,))):
            check_return(world, counts, wait_for, order)


def test_return_too_late():
    """The group went on without it; what it needs next is gone."""
    with Mortal() as world:
        connections, streams, got = progress(world.daemon, world.source, (5, 6, 6))
        states = [stream.state(mine[-1][0]) for stream, mine in zip(streams, got)]
        world.restart(connections)
        pair = [come_back(world.daemon, world.source, state, wait_for=2) for state in states[1:]]
        assert [stream.read(1)[0][0].batch for _, stream in pair] == [6, 6]
        late, stream = come_back(world.daemon, world.source, states[0], wait_for=2)
        with refused(errno.ESTALE, 20):
            stream.opened()
        assert late.open(source=world.source, **ALL).opened().batch >= 6, "it may join as anybody who comes late"
        for _, other in pair:
            other.read(1)
        for link in (late, *(link for link, _ in pair)):
            link.close()


def test_return_to_a_group_that_lives():
    """One connection was lost, the daemon and the others go on."""
    with served() as (daemon, source), Link(daemon.socket) as link:
        other = link.open(source=source, wait_for=2, **ALL)
        with Link(daemon.socket) as dropped:
            stream = dropped.open(source=source, wait_for=2, **ALL)
            got, theirs = sequence(stream.read(3)), other.read(2)
            held = stream.next()  # batch 3: given, so it is not needed again
            state = stream.state(held)
        kept = other.next()  # batch 2
        back, again = come_back(daemon, source, state)
        assert (again.opened().epoch, again.info.batch, again.info.position) == (0, 4, 16)
        other.release(kept)
        ours = sequence(again.read(2))
        theirs += other.read(3)
        assert ours == sequence(theirs)[-2:]
        assert got == sequence(theirs[:2]) + got[2:] and [batch.batch for batch, _ in theirs] == [0, 1, 3, 4, 5], "the other was not disturbed"
        back.close()
        # and what has gone meanwhile is gone
        other.read(10)
        back, again = come_back(daemon, source, state)
        with refused(errno.ESTALE, 16):
            again.opened()
        back.close()


def test_return_ahead_of_the_group():
    """It had all that is in the slots, and comes back before the next batch was even begun."""
    with served() as (daemon, source), Link(daemon.socket) as link:
        other = link.open(source=source, wait_for=2, **ALL)
        with Link(daemon.socket) as dropped:
            stream = dropped.open(source=source, wait_for=2, **ALL)
            held = hold_all(other)
            state = job_state(stream, len(held))
        back, again = come_back(daemon, source, state)
        assert (again.opened().batch, again.info.position) == (4, 16)
        assert again.pending() == 0
        for batch in held:
            other.release(batch)
        assert sequence(again.read(3)) == sequence(other.read(3))
        back.close()


def test_return_of_one_that_leaves_while_it_waits():
    """The group waits for those who come back; one hangs up meanwhile, and counts no more."""
    with Mortal() as world:
        connections, streams, got = progress(world.daemon, world.source, (5, 6, 6))
        states = [stream.state(mine[-1][0]) for stream, mine in zip(streams, got)]
        world.restart(connections)
        first, _ = come_back(world.daemon, world.source, states[0], wait_for=2)
        wait_until(lambda: world.daemon.status()["streams"], "the group")
        first.close()
        pair = [come_back(world.daemon, world.source, state, wait_for=2) for state in states[1:]]
        assert [stream.read(1)[0][0].batch for _, stream in pair] == [6, 6]
        for link, _ in pair:
            link.close()


def test_return_after_the_last_batch():
    """All had been given when the daemon went: what comes now is the end."""
    with Mortal() as world:
        options = dict(source=world.source, epochs=1, reconnect=True, **ALL)
        per_epoch = SAMPLES // ALL["batch_size"]
        connections, streams, got = progress(world.daemon, world.source, (per_epoch, per_epoch - 1), epochs=1)
        states = [stream.state(mine[-1][0]) for stream, mine in zip(streams, got)]
        assert states[0]["epoch"] == 1 and states[0]["position"] == 0
        world.restart(connections)
        with links(world.daemon, 3) as (one, two, three):
            pair = [link.open(wait_for=2, state=state, **options) for link, state in zip((one, two), states)]
            assert pair[0].next() is None
            assert [batch.batch for batch, _ in pair[1].read()] == [per_epoch - 1]
            assert three.open(state=states[0], **{**options, "group": "alone"}).next() is None
            ranked = {**options, "group": "ranks", "share": "split", "rank": 1, "world_size": 2}
            assert three.open(state=states[0], **ranked).next() is None


def test_return_of_a_rank_waits_for_nobody():
    """wait_for is about the first batch of a job: what is under way goes on, however many ranks are missing."""
    with served() as (daemon, source), Link(daemon.socket) as link:
        options = dict(source=source, share="split", group="g", world_size=3, batch_size=4, wait_for=3, **TINY)
        with links(daemon, 2) as others:
            first = link.open(rank=0, **options)
            second, third = (other.open(rank=rank, **options) for rank, other in enumerate(others, 1))
            states = [stream.state(stream.read(2)[-1][0]) for stream in (second, third)]
            first.read(1)
        with Link(daemon.socket) as back:
            again = back.open(rank=1, reconnect=True, state=states[0], **options)
            assert again.read(1)[0][0].batch == 2
            assert len(first.read(8)) == 8


def test_return_with_another_transform_is_told_once():
    """However long the group waits for the others, who may come one by one."""
    with Mortal() as world:
        connections, streams, got = progress(world.daemon, world.source, (5, 6, 6))
        states = [{**stream.state(mine[-1][0]), "transform": "0" * 16} for stream, mine in zip(streams, got)]
        world.restart(connections)
        back = [come_back(world.daemon, world.source, state, wait_for=3) for state in states[:2]]
        wait_until(lambda: world.daemon.status()["streams"][0]["state"] == "waiting for those who come back", "the stream to be there")
        back.append(come_back(world.daemon, world.source, states[2], wait_for=3))
        for link, stream in back:
            stream.opened()
            link.close()
        assert world.daemon.text().count("another transform") == len(back)


def test_return_between_two_batches():
    """A state of another batch size is on no batch of the group's."""
    with served() as (daemon, source), Link(daemon.socket) as link:
        other = link.open(source=source, **ALL)
        other.read(1)
        for position in (3, 5, 6, 7, 9):
            back, stream = come_back(daemon, source, {**other.state(), "position": position})
            try:
                stream.opened()
                raise AssertionError("it was let in")
            except Refused as refusal:
                assert refusal.code in (-errno.ESTALE, -errno.EBUSY, -errno.EINVAL) and str(position) in refusal.sentence, refusal
            back.close()
        assert len(other.read(10)) == 10


def test_return_of_another_job_is_refused():
    with served() as (daemon, source), Link(daemon.socket) as link:
        other = link.open(source=source, **ALL)
        other.read(1)
        state = {**other.state(), "position": 4}  # a batch that the group has still to give
        for keys, code, words in (({"seed": 4}, errno.EBUSY, ("seed",)), ({"batch_size": 5}, errno.EBUSY, ("batch_size",))):
            back, stream = come_back(daemon, source, state, **keys)
            with refused(code, *words):
                stream.opened()
            back.close()
        for changed, code, words in (({"fingerprint": "0" * 16}, errno.ESTALE, ("dataset",)), ({"seed": 8}, errno.ESTALE, ("seed",)),
                                     ({"order": "0" * 16}, errno.ESTALE, ("order",))):
            for group in ("g", "alone"):
                back, stream = come_back(daemon, source, {**state, **changed}, group=group)
                with refused(code, *words):
                    stream.opened()
                back.close()


def test_return_of_ranks_to_a_new_daemon():
    """Ranks do not wait for each other: they come back differently far, and each goes on right there."""
    with Mortal() as world:
        table = reference(world.daemon, world.source, 3)
        options = dict(source=world.source, share="split", group="g", world_size=3, batch_size=4, epochs=3, **TINY)
        connections = [Link(world.daemon.socket) for _ in range(3)]
        streams = [link.open(rank=rank, **options) for rank, link in enumerate(connections)]
        got = [stream.read(count) for stream, count in zip(streams, (1, 9, 4))]
        states = [stream.state(mine[-1][0]) for stream, mine in zip(streams, got)]
        world.restart(connections)
        with links(world.daemon, 3) as connections:
            for rank in (1, 2, 0):
                back = connections[rank].open(rank=rank, reconnect=True, state=states[rank], **options)
                check_rank(got[rank] + back.read(), 3 * [plan(3, 4, True)], rank, table)


def test_return_of_a_trainer_alone():
    with Mortal() as world:
        options = dict(source=world.source, batch_size=4, epochs=2, **TINY)
        link = Link(world.daemon.socket)
        stream = link.open(**options)
        got = stream.read(17)
        world.restart([link])
        with Link(world.daemon.socket) as link:
            got += link.open(reconnect=True, state=stream.state(got[-1][0]), **options).read()
            assert sequence(got) == sequence(link.open(**options).read())


# ---- several streams at once ----

def test_streams_training_beside_validation():
    """On one connection and on several, over one dataset and several: each gets what it gets alone."""
    with served() as (daemon, source):
        other = make_dataset(daemon.home / "other", per_class=30)
        kinds = [dict(source=source, seed=1), dict(source=source, train=False), dict(source=other, seed=2), dict(source=other, train=False),
                 dict(source=source, seed=1, image_size=20)]
        kinds = [{"batch_size": 5, "epochs": 2, **TINY, **kind} for kind in kinds]
        with Link(daemon.socket) as link:
            alone = []
            for kind in kinds:
                stream = link.open(**kind)
                alone.append(sequence(stream.read()))
                stream.close()
        for connections in (1, len(kinds)):
            with links(daemon, connections) as ours:
                streams = [ours[i % connections].open(**kind) for i, kind in enumerate(kinds)]
                got = [[] for _ in kinds]
                while any(len(mine) < len(want) for mine, want in zip(got, alone)):
                    for stream, mine, want in zip(streams, got, alone):
                        if len(mine) < len(want):
                            mine += sequence(stream.read(1))
                assert got == alone and all(stream.next() is None for stream in streams)


def race(streams, until):
    """Reads whatever comes first, until `until(counts)`; batches of each."""
    counts = {stream: 0 for stream in streams}
    by_socket = {stream.link.socket: stream for stream in streams}
    while not until(counts):
        ready = select.select(list(by_socket), [], [], harness.LIMIT)[0]
        assert ready, f"nothing came any more after {list(counts.values())}"
        for found in ready:
            stream = by_socket[found]
            stream.release(stream.next())
            counts[stream] += 1
    return counts


def test_streams_huge_batches_do_not_starve_tiny_ones():
    """One stream wants 256 large rows at a time, the other a small one: rows take turns, so the small one does not wait for 256."""
    with folder() as home:
        source = make_dataset(home / "images", per_class=100, min_side=200, max_side=400)
        with Daemon(home, "--threads", "2") as daemon, links(daemon, 2) as (one, two):
            huge = one.open(source=source, batch_size=256, image_size=224, drop_last=False)
            huge.opened()
            tiny = two.open(source=source, batch_size=1, image_size=16, seed=1)
            tiny.opened()
            race([huge, tiny], lambda counts: counts[huge] >= 4)  # what was ready before
            counts = race([huge, tiny], lambda counts: counts[huge] >= 6 or counts[tiny] >= 100000)
            assert counts[huge] >= 6, f"the huge one starves: {counts[tiny]} tiny batches in its place"
            assert counts[tiny] >= 6 * 25, f"the tiny one starves: {counts[tiny]} batches beside {counts[huge]} of 256 images"


def test_streams_equals_get_equal_shares():
    """Four streams of one kind that wait all the time: none gets less than half of another's."""
    with served() as (daemon, source), links(daemon, 4) as connections:
        streams = [link.open(source=source, batch_size=8, image_size=64, seed=seed) for seed, link in enumerate(connections)]
        for stream in streams:
            stream.opened()
        counts = race(streams, lambda counts: sum(counts.values()) >= 1200)
        assert 2 * min(counts.values()) >= max(counts.values()), list(counts.values())


def test_streams_group_beside_private_and_split():
    """All ways of sharing one dataset at once, each as if it were alone."""
    with served() as (daemon, source):
        table = reference(daemon, source, 2, seed=5)
        options = dict(source=source, batch_size=4, epochs=2, seed=5, **TINY)
        with links(daemon, 5) as connections:
            group = [link.open(group="all", wait_for=2, **options) for link in connections[:2]]
            ranks = [link.open(group="split", share="split", rank=r, world_size=2, **options) for r, link in enumerate(connections[2:4])]
            private = connections[4].open(**options)
            got = {stream: [] for stream in (*group, private, *ranks)}
            for step in range(2 * plan_length(1)):
                for stream in got:
                    if stream not in ranks or step < 2 * plan_length(2):
                        got[stream] += stream.read(1)
        for stream in (*group, private):
            check_rank(got[stream], 2 * [plan(1, 4, True)], 0, table)
        for rank, stream in enumerate(ranks):
            check_rank(got[stream], 2 * [plan(2, 4, True)], rank, table)


def plan_length(world_size, batch_size=4):
    return len(plan(world_size, batch_size, True))


# ---- limits ----

def test_streams_of_one_source_open_in_the_order_in_which_they_were_asked_for():
    """One at a time opens a source; nobody is passed by those who come later."""
    with served() as (daemon, source), Link(daemon.socket) as link:
        daemon.process.send_signal(signal.SIGSTOP)
        streams = [link.open(source=source, batch_size=4, seed=i, **TINY) for i in range(12)]
        daemon.process.send_signal(signal.SIGCONT)
        for i, stream in enumerate(streams):
            stream.opened()
            assert all(s.info for s in streams[:i]) and not any(s.info for s in streams[i + 1:]), [bool(s.info) for s in streams]


def test_limit_of_streams():
    with served(config="max_streams: 3\n") as (daemon, source), links(daemon, 2) as (one, two):
        options = dict(source=source, batch_size=4, **TINY)
        first, second = one.open(**options), two.open(seed=1, **options)
        first.read(1), second.read(1)
        with refused(errno.EBUSY, "max_streams", 2):
            two.open(seed=2, **options).opened()
        assert len(second.read(3)) == 3, "the connection lives"
        first.close()
        wait_until(lambda: len(daemon.status()["streams"]) == 1, "the place to be free again")
        assert two.open(seed=2, **options).read(3)


def test_limit_of_streams_does_not_count_trainers():
    with served(config="max_streams: 1\n") as (daemon, source), links(daemon, 3) as connections:
        streams = [link.open(source=source, wait_for=3, **ALL) for link in connections]
        for stream in streams:
            stream.opened()
        assert [stream.read(2)[1][0].batch for stream in streams] == [1, 1, 1]


def test_limit_of_a_streams_memory():
    """224 pixels are 147 KiB a row: a batch of 16 takes 2.3 MiB."""
    with served(config="stream_memory: 8M\n") as (daemon, source), Link(daemon.socket) as link:
        options = dict(source=source, image_size=224)
        stream = link.open(batch_size=16, prefetch=8, **options)
        assert stream.opened().slots == 3, "fewer than asked for, as many as fit"
        assert stream.read(5)
        stream.close()
        with refused(errno.ENOMEM, "stream_memory"):
            link.open(batch_size=48, **options).opened()
        assert link.open(batch_size=4, prefetch=8, **options).opened().slots == 8
        assert json.loads(link.query(STATUS))["streams"]


def test_limit_to_named_streams():
    with folder() as home:
        source = dataset(home / "images")
        config = f"open_streams: named\nstreams:\n  train:\n    source: {source}\n    batch_size: 4\n    image_size: 12\n"
        with Daemon(home, "--threads", "2", config=config) as daemon, Link(daemon.socket) as link:
            with refused(errno.EACCES, "open_streams"):
                link.open(source=source, batch_size=4, **TINY).opened()
            with refused(errno.ENOENT, "validation"):
                link.open(stream="validation").opened()
            assert len(link.open(stream="train", epochs=1).read()) == SAMPLES // 4
            ranks = [link.open(stream="train", group="g", share="split", rank=r, world_size=2, epochs=1) for r in range(2)]
            for rank, stream in enumerate(ranks):
                assert [b.position for b, _ in stream.read()] == [8 * i + 4 * rank for i in range(SAMPLES // 8)]


def test_limits_that_are_none():
    with folder() as home:
        for text, words in (("max_streams: 0\n", ("max_streams", "1")), ("max_streams: many\n", ("max_streams", "many")),
                            ("stream_memory: lots\n", ("stream_memory", "lots")), ("open_streams: some\n", ("open_streams", "any", "named"))):
            daemon = Daemon(home, config=text, expect_start=False)
            assert daemon.process.wait(timeout=harness.LIMIT) == 2
            daemon.out.close()
            said = daemon.text()
            assert "penstock.yaml:1" in said and all(word in said for word in words), said
            daemon.log.unlink()


if __name__ == "__main__":
    run_tests(globals())
