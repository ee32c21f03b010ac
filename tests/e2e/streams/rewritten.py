"""Images of a folder that are rewritten in place: the folder's modification time stays the same, so its index looks up to date. The first
stream that meets such a file has the index made anew, once; streams whose samples are still the same go on without an error."""
import errno
import itertools
import json
import os
import shutil
import sys
import tarfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import run
from harness import STREAM, Daemon, Link, folder, make_dataset, run_tests, wait_until
from stream_checks import SUBSTITUTED, refused

TINY = {"image_size": 12, "drop_last": False, "batch_size": 7, "seed": 3}
INVALID = 8
ANEW = "so its index was made anew"


def rewrite(images, others, every=1, pause=0):
    """Writes other images into the files, which stay where they are. No folder's time changes."""
    before = {path: path.stat().st_mtime_ns for path in images.rglob("*") if path.is_dir()}
    files, texts = sorted(images.rglob("*.jpg")), [path.read_bytes() for path in sorted(others.rglob("*.jpg"))]
    for file, text in list(zip(files, texts))[::every]:
        assert file.stat().st_size != len(text)
        file.write_bytes(text)
        time.sleep(pause)
    assert before == {path: path.stat().st_mtime_ns for path in before}


def two_sets(home, per_class=20):
    """Two datasets with the same names and other images, all of other sizes."""
    images, others = make_dataset(home / "images", per_class=per_class), make_dataset(home / "others", per_class=per_class, seed=9)
    for file, other in zip(sorted(images.rglob("*.jpg")), sorted(others.rglob("*.jpg"))):
        assert file.name == other.name
        if file.stat().st_size == other.stat().st_size:
            other.write_bytes(other.read_bytes() + b"\0")
    return images, others


def clean(got):
    return all(not row.flags & (SUBSTITUTED | INVALID) for _, rows in got for row in rows)


def shown(got):
    return [row for _, rows in got for row in rows]


def test_an_index_that_is_stale_when_a_stream_opens():
    """Every stream failed with "changed" until the index was deleted by hand."""
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            old = shown(link.open(source=images, epochs=1, **TINY).read())
            rewrite(images, others)
            got = link.open(source=images, epochs=2, **TINY).read()
            assert clean(got) and daemon.text().count(ANEW) == 1, daemon.text()
            assert f"{images}: images were rewritten in place" in daemon.text()
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            stream = link.open(source=images, epochs=2, **TINY)
            assert shown(stream.read()) == shown(got) and "anew" not in daemon.text().split("penstockd ends")[1], daemon.text()
        (home / "fresh").mkdir()
        with Daemon(home / "fresh") as daemon, Link(daemon.socket) as link:
            fresh = shown(link.open(source=images, epochs=2, **TINY).read())
            assert fresh == shown(got), "the same bytes as with an index that was never stale"
            assert {row.index: row.content for row in fresh} != {row.index: row.content for row in old}


def test_few_rewritten_images_are_not_substituted_in_silence():
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            link.open(source=images, epochs=1, **TINY).read()
            rewrite(images, others, every=100)
            got = link.open(source=images, epochs=1, max_broken=0.5, train=True, **TINY).read()
            assert clean(got) and ANEW in daemon.text(), daemon.text()
            assert ANEW in json.dumps(daemon.status()), daemon.status()


def test_files_that_the_budget_has_no_room_for():
    """They are read through a temporary file, which must not decide what becomes of a rewritten one."""
    with folder() as home:
        images, others = two_sets(home, per_class=2)
        for at, file in enumerate([*images.rglob("*.jpg"), *others.rglob("*.jpg")]):
            file.write_bytes(file.read_bytes() + bytes(7_000_000 + at))
        with Daemon(home, "--memory", "64M", "--threads", "1") as daemon, Link(daemon.socket) as link:
            assert clean(link.open(source=images, epochs=1, max_broken=1, train=True, **TINY).read())
            rewrite(images, others)
            got = link.open(source=images, epochs=1, max_broken=1, train=True, **TINY).read()
            assert clean(got) and ANEW in daemon.text(), daemon.text()
            wait_until(lambda: "go through a temporary file" in daemon.text(), "the warning")


def test_a_replaced_tar_of_files_that_the_budget_has_no_room_for():
    """Its samples are others now: the stream ends, and replaces none of them in silence."""
    with folder() as home:
        images, tar = make_dataset(home / "images", per_class=1), home / "set.tar"
        with tarfile.open(tar, "w") as members:
            for at, file in enumerate(sorted(images.rglob("*.jpg"))):
                file.write_bytes(file.read_bytes() + bytes(7_000_000))
                members.add(file, f"{at}.jpg")
        with Daemon(home, "--memory", "64M", "--threads", "1") as daemon, Link(daemon.socket) as link:
            stream = link.open(source=tar, epochs=0, batch_size=1, image_size=12, max_broken=1, train=True, seed=3)
            assert clean(stream.read(2))
            shutil.copy(tar, home / "copy.tar")
            os.replace(home / "copy.tar", tar)
            with refused(errno.ESTALE, tar, "changed after the dataset was opened"):
                for _ in range(50):
                    assert clean(stream.read(1))


def test_running_streams_go_on_and_share_the_new_index():
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            streams = [link.open(source=images, epochs=6, **{**TINY, "seed": seed}) for seed in range(4)]
            streams.append(link.open(source=images, epochs=6, labels="none", **TINY))
            for stream in streams:
                assert clean(stream.read(3))
            rewrite(images, others)
            for stream in streams:
                got = stream.read()
                assert clean(got) and len(got) == 6 * 9 - 3, len(got)
                stream.close()
            # "none" has an entry of its own in the daemon, and finds the index that the others had made, or makes it for them.
            assert 1 <= daemon.text().count(ANEW) <= 2, daemon.text()
            assert "broken sample" not in daemon.text(), daemon.text()


def test_a_folder_that_is_rewritten_for_seconds_while_it_is_read():
    """The index is made anew at once, a second later, two seconds after that: samples wait for it."""
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home) as daemon, Link(daemon.socket) as link:
            stream = link.open(source=images, epochs=0, **TINY)
            assert clean(stream.read(2))
            writer = threading.Thread(target=rewrite, args=(images, others, 1, 0.05))
            writer.start()
            got = []
            while writer.is_alive():
                got += stream.read(1)
            writer.join()
            got += stream.read(3 * 9)
            assert clean(got) and "broken" not in daemon.text(), daemon.text()
            assert 2 <= daemon.text().count(ANEW) <= 6, daemon.text()


def test_ranks_and_groups_go_on():
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home) as daemon, Link(daemon.socket) as one, Link(daemon.socket) as two:
            keys = dict(TINY, source=images, share="split", world_size=2, group="job", epochs=4)
            ranks = [link.open(rank=rank, **keys) for rank, link in enumerate((one, two))]
            both = [dict(TINY, source=images, group="all", wait_for=2, epochs=2, batch_size=5)] * 2
            group = [link.open(**keys) for link, keys in zip((one, two), both)]
            for stream in ranks:
                stream.read(2)
            rewrite(images, others)
            for stream in ranks:
                assert clean(stream.read())
            got = [[], []]
            while any(stream is not None for stream in group):
                for i, stream in enumerate(group):
                    batch = stream.next() if stream else None
                    if batch is None:
                        group[i] = None
                        continue
                    got[i] += stream.rows(batch)
                    stream.release(batch)
            assert got[0] == got[1] and not any(row.flags & SUBSTITUTED for row in got[0])
            assert 1 <= daemon.text().count(ANEW) <= 2, daemon.text()


def rename_over(images, others):
    """As programs write that replace a file as a whole: the folders' times change."""
    for file, other in zip(sorted(images.rglob("*.jpg")), sorted(others.rglob("*.jpg"))):
        shutil.copy(other, images / "new.tmp")
        os.replace(images / "new.tmp", file)


def test_a_confined_daemon_makes_the_index_anew():
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home, "--root", home) as daemon, Link(daemon.socket) as link:
            stream = link.open(source=images, epochs=3, **TINY)
            assert clean(stream.read(2))
            rewrite(images, others)
            assert clean(stream.read()) and ANEW in daemon.text(), daemon.text()


def test_a_state_still_fits():
    """The keys are the same, so a state from before goes on; the pixels are those of the new files."""
    for change in (rewrite, rename_over):
        with folder() as home:
            images, others = two_sets(home)
            with Daemon(home) as daemon, Link(daemon.socket) as link:
                stream = link.open(source=images, epochs=2, **TINY)
                head = stream.read(4)
                state = stream.state(head[-1][0])
                old = state["fingerprint"]
                stream.close()
                change(images, others)
                link.open(source=images, epochs=1, **TINY).read()
                stream = link.open(source=images, epochs=2, state=state, **TINY)
                info = stream.opened()
                assert f"{info.fingerprint:016x}" == old, "the trainer keeps the fingerprint that it knows"
                assert old in json.loads(stream.query(STREAM))["earlier_fingerprints"] or change is rewrite
                tail = stream.read()
                assert clean(tail) and len(head) + len(tail) == 18
            with Daemon(home) as daemon, Link(daemon.socket) as link:
                stream = link.open(source=images, epochs=2, state=state, **TINY)
                info = stream.opened()
                assert old in json.loads(stream.query(STREAM))["earlier_fingerprints"]
                assert shown(stream.read()) == shown(tail)
                whole = link.open(source=images, epochs=2, **TINY)
                new = whole.opened().fingerprint
                assert shown(whole.read())[4 * 7:] == shown(tail) and f"{new:016x}" != old
                again = dict(state, fingerprint=f"{new:016x}")
                assert shown(link.open(source=images, epochs=2, state=again, **TINY).read()) == shown(tail)
                with refused(errno.ESTALE, "another dataset"):
                    link.open(source=images, state=dict(state, fingerprint="0123456789abcdef"), **TINY).opened()
            # Names that differ are another dataset, whatever was remembered.
            victim = sorted(images.rglob("*.jpg"))[0]
            victim.rename(victim.with_name("another name.jpg"))
            with Daemon(home) as daemon, Link(daemon.socket) as link:
                for lost in (state, again):
                    with refused(errno.ESTALE, "another dataset"):
                        link.open(source=images, state=lost, **TINY).opened()


def test_a_stream_that_does_not_fit_any_more_ends():
    def add(images, others):
        shutil.copy(next(others.rglob("*.jpg")), next(images.iterdir()) / "added.jpg")

    def rename(images, others):
        victim = sorted(images.rglob("*.jpg"))[7]
        victim.rename(victim.with_name("renamed.jpg"))
        (others / victim.relative_to(images)).rename((others / victim.relative_to(images)).with_name("renamed.jpg"))

    for change, words in ((add, "it had 60 samples, and has 61 now"), (rename, "some have other names or labels now")):
        with folder() as home:
            images, others = two_sets(home)
            with Daemon(home) as daemon, Link(daemon.socket) as link:
                streams = [link.open(source=images, epochs=0, **{**TINY, "seed": seed}) for seed in range(3)]
                for stream in streams:
                    stream.read(2)
                change(images, others)
                rewrite(images, others)
                for stream in streams:
                    with refused(errno.ESTALE, str(images), words, "open it again"):
                        for _ in range(200):
                            stream.read(1)
                assert daemon.text().count("streams that read it cannot go on") == 1, daemon.text()
                assert clean(link.open(source=images, epochs=1, **TINY).read()), "a new stream reads what is there"


def test_a_file_that_changes_for_ever_does_not_keep_the_daemon_indexing():
    with folder() as home:
        images, others = two_sets(home, per_class=4)
        victim = sorted(images.rglob("*.jpg"))[5]
        text, stop = victim.read_bytes(), threading.Event()

        def write():
            for size in itertools.count():
                if stop.is_set():
                    return
                victim.write_bytes(text + bytes(1 + size % 64))
                time.sleep(0.001)

        with Daemon(home) as daemon, Link(daemon.socket) as link:
            stream = link.open(source=images, epochs=0, max_broken=0.5, train=True, **TINY)
            stream.read(2)
            writer = threading.Thread(target=write)
            writer.start()
            try:
                flags = [row.flags for _ in range(300) for _, rows in stream.read(1) for row in rows]
            finally:
                stop.set()
                writer.join()
            assert any(flag & SUBSTITUTED for flag in flags), "it is broken like any other"
            assert 1 <= daemon.text().count("made anew") <= 8, daemon.text()
            stream.close()


def test_a_stream_that_ends_while_its_index_is_made():
    with folder() as home:
        images, others = two_sets(home)
        with Daemon(home) as daemon:
            for _ in range(5):
                with Link(daemon.socket) as link:
                    link.open(source=images, epochs=1, **TINY).read(1)
                for image in images.rglob("*.jpg"):
                    image.write_bytes(image.read_bytes() + b"\0")
                with Link(daemon.socket) as link:
                    link.open(source=images, epochs=1, **TINY).opened()
            wait_until(lambda: not daemon.status()["streams"], "the streams to go")


def test_check_and_pack_make_the_index_anew():
    with folder() as home:
        images, others = two_sets(home)
        assert json.loads(run(home, "check", images, "--json")[0])["index_s"] > 0
        assert json.loads(run(home, "check", images, "--json")[0])["index_s"] == 0
        rewrite(images, others)
        got = json.loads(run(home, "check", images, "--json")[0])
        assert got["index_s"] > 0 and got["broken"] == [] and got["samples"] == 60, got
        assert json.loads(run(home, "check", images, "--json", "--index-only")[0])["index_s"] == 0
        rewrite(images, make_dataset(home / "third", per_class=20, seed=4), every=7)
        (home / "out").mkdir()
        run(home, "pack", images, home / "out/x-%06d.tar")
        assert json.loads(run(home, "check", home / "out/*.tar", "--json")[0])["samples"] == 60


if __name__ == "__main__":
    run_tests(globals())
