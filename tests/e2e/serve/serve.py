"""The daemon from outside: groups, leases, deaths, refusals, signals; clients that lie; nobody else harmed."""
import contextlib
import errno
import json
import os
import re
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from harness import (BATCH, CLOSE, END, ERROR, EXTENT, OPENED, QUERY, Daemon, Raw, folder, hello, make_dataset, message, open_stream,
                     release, rows, run_tests, tool, wait_until)
import harness

SMALL = {"image_size": 32, "batch_size": 8}


def small_daemon(home, *options, **keys):
    make_dataset(home / "images", per_class=20)
    return Daemon(home, "--threads", "2", *options, **keys)


# ---- trainers together ----

def test_two_trainers_of_a_group_get_every_batch():
    with folder() as home, small_daemon(home) as daemon:
        both = [daemon.trainer(source=home / "images", group="g", wait_for=2, epochs=2, **SMALL) for _ in range(2)]
        lines = [t.finish() for t in both]
        assert lines[0] == lines[1] and lines[0][-1] == "end"
        assert len(rows(lines[0])) == 2 * (60 // 8)
        assert lines[0] == daemon.batches(source=home / "images", epochs=2, **SMALL), "company changes nothing"


def test_two_streams_at_once_do_not_mix():
    with folder() as home, small_daemon(home) as daemon:
        alone = [daemon.batches(source=home / "images", epochs=3, seed=s, **SMALL) for s in (1, 2)]
        pair = [daemon.trainer(source=home / "images", epochs=3, seed=s, **SMALL) for s in (1, 2)]
        assert [t.finish() for t in pair] == alone


def test_late_trainer_begins_with_a_batch_that_is_still_there():
    with folder() as home, small_daemon(home) as daemon:
        first = daemon.trainer(source=home / "images", group="g", batches=12, sleep_ms=50, **SMALL)
        for _ in range(3):
            first.line()
        late = daemon.trainer(source=home / "images", group="g", batches=4, **SMALL).finish()
        whole = rows(first.finish())
        begin = whole.index(rows(late)[0])
        assert begin >= 1 and whole[begin:begin + 4] == rows(late), "contiguous, and the same batches"


def test_lines_that_came_together_are_all_seen():
    """Of the harness: a trainer of which one line is read when it has printed all."""
    with folder() as home, small_daemon(home) as daemon:
        whole = daemon.batches(source=home / "images", epochs=1, **SMALL)
        trainer = daemon.trainer(source=home / "images", epochs=1, **SMALL)
        trainer.process.wait(timeout=harness.LIMIT)
        assert trainer.line() == whole[0] and trainer.finish() == whole


def definition(source, **keys):
    return json.dumps({"source": str(source), **keys})


def read_to_end(client, stream=1):
    """Reads and releases until END; how many batches came."""
    count = 0
    while True:
        kind, body = client.receive()
        if kind == BATCH:
            client.send(release(*struct.unpack_from("<IIQ", body), stream=stream))
            count += 1
        elif kind == END:
            return count
        else:
            assert kind in (OPENED, EXTENT), (kind, body)


def test_trainer_that_comes_after_the_end_is_told():
    with folder() as home, small_daemon(home) as daemon:
        text = definition(home / "images", group="g", epochs=1, **SMALL)
        first, late = Raw(daemon.socket), Raw(daemon.socket)
        first.send(open_stream(text))
        assert read_to_end(first) == 60 // 8
        wait_until(lambda: daemon.status()["streams"][0]["leased"] == 0, "the last release")
        late.send(open_stream(text))
        assert read_to_end(late) == 0
        first.close()
        late.close()


def test_group_refuses_other_options():
    with folder() as home, small_daemon(home) as daemon:
        first = daemon.trainer(source=home / "images", group="g", batches=100, sleep_ms=20, **SMALL)
        first.line()
        error = daemon.trainer(source=home / "images", group="g", seed=9, **SMALL).error()
        assert "another seed" in error, error
        first.kill()


def test_evaluation_ends_with_a_short_batch():
    with folder() as home, small_daemon(home) as daemon:
        lines = rows(daemon.batches(source=home / "images", train=0, epochs=1, **SMALL))
        counts = [int(line.split()[2]) for line in lines]
        assert counts == [8] * 7 + [4]
        assert lines[-1].endswith(" 1") and all(line.endswith(" 0") for line in lines[:-1]), "only the last is marked"


def test_state_goes_on_with_the_next_batch():
    with folder() as home, small_daemon(home) as daemon:
        whole = rows(daemon.batches(source=home / "images", epochs=3, seed=4, **SMALL))
        for cut in (1, 3, 6, 7, 8, 15):
            lines = daemon.batches(source=home / "images", epochs=3, seed=4, batches=cut, **SMALL)
            state = lines[-1].removeprefix("state ")
            again = daemon.batches(source=home / "images", epochs=3, seed=4, state=state, opened=1, **SMALL)
            assert again[0] == "opened " + state, "a state taken before the first batch is the one given"
            rest = rows(again)
            assert rows(lines) + rest == whole, cut


def test_a_group_resumes_together():
    with folder() as home, small_daemon(home) as daemon:
        whole = rows(daemon.batches(source=home / "images", epochs=2, **SMALL))
        state = daemon.batches(source=home / "images", epochs=2, batches=5, **SMALL)[-1].removeprefix("state ")
        keys = dict(source=home / "images", epochs=2, group="g", wait_for=2, **SMALL)
        pair = [daemon.trainer(**keys, state=state) for _ in range(2)]
        assert [rows(t.finish()) for t in pair] == [whole[5:], whole[5:]]
        running = daemon.trainer(**{**keys, "wait_for": 1, "epochs": 0}, state=state, sleep_ms=20, batches=10000)
        for _ in range(4):
            running.line()
        assert "gone on" in daemon.trainer(**{**keys, "wait_for": 1, "epochs": 0}, state=state).error()
        other = state.replace('"epoch":0', '"epoch":1')
        assert "another state" in daemon.trainer(**{**keys, "wait_for": 1, "epochs": 0}, state=other).error()
        running.kill()


def test_state_survives_the_daemon():
    with folder() as home:
        with small_daemon(home) as daemon:
            whole = rows(daemon.batches(source=home / "images", epochs=2, **SMALL))
            state = daemon.batches(source=home / "images", epochs=2, batches=5, **SMALL)[-1].removeprefix("state ")
        shutil.move(home / "images", home / "moved")
        with Daemon(home, "--threads", "1") as daemon:
            assert rows(daemon.batches(source=home / "moved", epochs=2, state=state, **SMALL)) == whole[5:], "moving changes nothing"


def test_state_that_does_not_fit_is_refused():
    with folder() as home, small_daemon(home) as daemon:
        state = daemon.batches(source=home / "images", batches=2, **SMALL)[-1].removeprefix("state ")
        make_dataset(home / "other", per_class=5)
        for keys, word in ((dict(source=home / "other"), "another dataset"), (dict(source=home / "images", seed=1), "another seed"),
                           (dict(source=home / "images", shuffle=0), "another order")):
            error = daemon.trainer(**{**SMALL, **keys, "state": state}).error()
            assert word in error, error
        for broken in ('{"version":1', "{}", state.replace('"version":1', '"version":9'), '{"version":1,"seed":-3}'):
            error = daemon.trainer(source=home / "images", state=broken, **SMALL).error()
            assert "state" in error or "seed: expected" in error, error


# ---- deaths ----

def test_killed_trainer_gives_everything_back():
    with folder() as home, small_daemon(home) as daemon:
        want = daemon.batches(source=home / "images", epochs=2, **SMALL)
        baseline = None
        for i in range(20):
            trainer = daemon.trainer(source=home / "images", hold=i % 4, die_at=i % 5, **SMALL)
            trainer.process.communicate(timeout=harness.LIMIT)
            assert trainer.process.returncode == -signal.SIGKILL
            wait_until(lambda: not daemon.status()["streams"], "the dead trainer's stream to go")
            # the query's own connection takes a moment to go
            baseline = baseline or (time.sleep(0.2), daemon.fds())[1]
            wait_until(lambda: daemon.fds() <= baseline, f"descriptors to be {baseline} again")
        assert daemon.status()["memory"]["reserved"] < daemon.status()["memory"]["budget"] * 0.7
        assert daemon.batches(source=home / "images", epochs=2, **SMALL) == want


def test_death_of_one_of_a_group_frees_the_others():
    with folder() as home, small_daemon(home) as daemon:
        keys = dict(source=home / "images", group="g", wait_for=2, batches=30, **SMALL)
        living = daemon.trainer(**keys)
        dying = daemon.trainer(**keys, hold=3, die_at=2)
        dying.process.communicate(timeout=harness.LIMIT)
        assert len(rows(living.finish())) == 30


def test_stopped_trainer_blocks_only_its_own_stream():
    with folder() as home, small_daemon(home) as daemon:
        stopped = daemon.trainer(source=home / "images", batches=100000, **SMALL)
        stopped.line()
        stopped.process.send_signal(signal.SIGSTOP)
        assert len(rows(daemon.batches(source=home / "images", batches=200, **SMALL))) == 200
        stopped.kill()


def test_daemon_death_is_an_error_within_a_second():
    with folder() as home:
        daemon = small_daemon(home)
        trainer = daemon.trainer(source=home / "images", batches=100000, sleep_ms=5, **SMALL)
        trainer.line()
        daemon.process.kill()
        begin = time.monotonic()
        error = trainer.error()
        assert time.monotonic() - begin < 1 * harness.SLOW, "too late"
        assert "ended" in error, error
        daemon.process.wait()
        daemon.out.close()
        # what the dead one left behind does not stand in the way of the next
        with Daemon(home) as again:
            assert rows(again.batches(source=home / "images", batches=1, **SMALL))


# ---- backpressure and waiting ----

def test_batch_kept_for_long_does_not_starve_its_stream():
    with folder() as home, small_daemon(home) as daemon:
        keeper, busy = Raw(daemon.socket), Raw(daemon.socket)
        keeper.send(open_stream(definition(home / "images", prefetch=8, **SMALL)))
        keeper.until(BATCH)
        busy.send(open_stream(definition(home / "images", prefetch=8, seed=1, **SMALL)))
        served = {keeper: 0, busy: 0}
        while served[busy] < 400:
            for client in select.select([keeper.socket, busy.socket], [], [], 10)[0]:
                client = keeper if client is keeper.socket else busy
                kind, body = client.receive()
                if kind == BATCH:
                    client.send(release(*struct.unpack_from("<IIQ", body)))
                    served[client] += 1
        assert served[keeper] > 80, f"{served[keeper]} batches beside {served[busy]} of a stream that keeps none"
        keeper.close()
        busy.close()


def test_holding_everything_is_an_error_that_says_so():
    with folder() as home, small_daemon(home) as daemon:
        error = daemon.trainer(source=home / "images", hold=60, batches=100, prefetch=3, **SMALL).error()
        assert re.search(r"holds? all 3|all 3", error), error


def test_waiting_too_long_names_who_holds():
    with folder() as home, small_daemon(home) as daemon:
        keys = dict(source=home / "images", group="g", wait_for=2, prefetch=2, **SMALL)
        holder = daemon.trainer(**keys, hold=1, sleep_ms=60000)
        waiter = daemon.trainer(**keys, timeout_ms=1500, batches=50)
        error = waiter.error()
        assert str(holder.process.pid) in error and "holds" in error, error
        holder.kill()


# ---- bad sources ----

def test_sources_that_are_none():
    with folder() as home, small_daemon(home) as daemon:
        (home / "empty").mkdir()
        (home / "text.jpg").write_text("no image")
        (home / "notes").mkdir()
        (home / "notes/a.txt").write_text("x")
        for source, words in ((home / "missing", "missing"), (home / "empty", "empty"), (home / "notes", "notes"), (home / "text.jpg", "text.jpg"),
                              (home / "no-*.tar", "no-*.tar"), ("stream:nothing", "nothing")):
            error = daemon.trainer(source=source, **SMALL).error()
            assert words in error and len(error) > 40, error
        assert rows(daemon.batches(source=home / "images", batches=1, **SMALL))


def test_file_that_is_no_image_is_replaced_and_named():
    with folder() as home, small_daemon(home) as daemon:
        victim = sorted((home / "images").rglob("*.jpg"))[7]
        victim.write_text("<html>not found</html>")
        raw = home / "raw"
        lines = daemon.batches(source=home / "images", epochs=2, max_broken=0.1, raw=raw, drop_last=0, **SMALL)
        assert lines[-1] == "end"
        data, step = raw.read_bytes(), 64 + 32 * 32 * 3
        flags = [int.from_bytes(data[at + 40:at + 44], "little") for at in range(0, len(data), step)]
        assert sum(f & 2 != 0 for f in flags) == 2, "substituted once an epoch"
        indices = {int.from_bytes(data[at:at + 8], "little") for at in range(0, len(data), step)}
        assert 7 not in indices
        quarantine = home / "cache/penstock/quarantine.tsv"
        wait_until(lambda: quarantine.exists() and quarantine.read_text().endswith("\n"), "its line")
        assert str(victim) in quarantine.read_text() and "not-image" in quarantine.read_text(), quarantine.read_text()
        again = daemon.batches(source=home / "images", epochs=2, max_broken=0.1, drop_last=0, **SMALL)
        assert rows(again) == rows(lines), "the substitute is the same each time"


def test_quarantine_makes_its_folder_or_says_once_that_it_cannot():
    with folder() as home:
        make_dataset(home / "tars", per_class=40, tars=True, per_shard=1000)
        tar = next((home / "tars").glob("*.tar"))
        data = bytearray(tar.read_bytes())
        with tarfile.open(tar) as members:
            images = [m for m in members if m.name.endswith(".jpg")]
        for image in images[::5]:
            data[image.offset_data:image.offset_data + 20] = 20 * b"x"
        tar.write_bytes(data)
        options = {"source": tar, "epochs": 2, "max_broken": 1, **SMALL}
        with Daemon(home, "--threads", "2") as daemon:
            daemon.batches(**options)
            file = home / "cache/penstock/quarantine.tsv"
            wait_until(lambda: file.exists() and file.read_text().count("\n") == len(images[::5]), "the lines")
            assert all(f"{tar}!" in line for line in file.read_text().splitlines()), file.read_text()
            wait_until(lambda: not daemon.status()["streams"], "the stream to go")
            shutil.rmtree(home / "cache")
            (home / "cache").write_text("in the way")
            daemon.batches(**options)
            wait_until(lambda: "are not named in" in daemon.text(), "the sentence")
            daemon.batches(source=make_dataset(home / "images"), batches=3, **SMALL)
            assert daemon.text().count("are not named in") == 1, "once a stream"


def test_configuration_without_streams_is_logged():
    with folder() as home:
        settings = home / "penstock.yaml"
        settings.write_text("idle_exit_s: 0\n")
        with Daemon(home, "--config", settings) as daemon:
            said = f"{settings} defines no streams: trainers open streams of their own"
            wait_until(lambda: said in daemon.text(), "the line")
            settings.write_text("open_streams: named\n")
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: f"{settings} defines no streams, and open_streams: named allows no others" in daemon.text(), "the warning")
            settings.write_text(f"streams:\n  one: {{source: {make_dataset(home / 'images')}, image_size: 32}}\n")
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "and 1 stream are in force" in daemon.text(), "the reload")
        with Daemon(home) as daemon:
            assert daemon.text().count("defines no streams") == 2, "a daemon without a file says nothing"


def test_two_broken_samples_do_not_end_a_small_set():
    """1 % of 20 images is less than one. Two are allowed all the same, but not three, and none with max_broken 0."""
    config = "streams:\n  strict: {source: FEW, image_size: 32, batch_size: 8, max_broken: 0, drop_last: false}\n"
    with folder() as home, Daemon(home, config=config.replace("FEW", str(home / "few"))) as daemon:
        (home / "few").mkdir()
        for image in sorted(make_dataset(home / "images").rglob("*.jpg"))[:20]:
            shutil.copy(image, home / "few")
        victims = sorted((home / "few").iterdir())
        assert len(victims) == 20
        keys = {"source": home / "few", "epochs": 2, "drop_last": 0, **SMALL}
        for victim in victims[:2]:
            victim.write_text("no image")
        assert daemon.batches(**keys)[-1] == "end"
        assert "max_broken = 0 allows" in daemon.trainer(source="stream:strict").error()
        victims[2].write_text("no image")
        assert "3 of the 20 samples" in daemon.trainer(**keys).error()
        for victim in victims[2:-1]:
            victim.unlink()
        assert "2 of the 3 samples" in daemon.trainer(**dict(keys, batch_size=1)).error(), "more than half"


def test_policies_for_broken_samples():
    with folder() as home, small_daemon(home) as daemon:
        for victim in sorted((home / "images").rglob("*.jpg"))[:9]:
            victim.write_bytes(victim.read_bytes()[:700])
        source = home / "images"
        assert "max_broken" in daemon.trainer(source=source, batches=50, **SMALL).error()
        assert "on_broken is fail" in daemon.trainer(source=source, on_broken="fail", batches=50, **SMALL).error()
        raw = home / "raw"
        daemon.batches(source=source, train=0, epochs=1, max_broken=0.5, raw=raw, **SMALL)
        data, step = raw.read_bytes(), 64 + 32 * 32 * 3
        invalid = [at // step for at in range(0, len(data), step) if data[at + 40] & 8]
        assert invalid == list(range(9))
        assert not any(data[at * step + 64:(at + 1) * step].strip(b"\0") for at in invalid), "an invalid row is zero"


def test_shard_replaced_while_open_ends_the_stream_with_its_name():
    with folder() as home:
        make_dataset(home / "tars", per_class=40, tars=True, per_shard=200)
        shard = next((home / "tars").glob("*.tar"))
        with Daemon(home, "--threads", "1") as daemon:
            other = daemon.trainer(source=make_dataset(home / "images"), batches=100000, sleep_ms=10, **SMALL)
            trainer = daemon.trainer(source=shard, batches=100000, sleep_ms=20, **SMALL)
            trainer.line()
            data = shard.read_bytes()
            time.sleep(0.05)
            with open(shard, "r+b") as file:
                file.write(data[:512 * 20])
                file.truncate(len(data) // 2)
            error = trainer.error()
            assert shard.name in error and "changed after the dataset was opened" in error, error
            other.line()
            assert other.process.poll() is None, "nobody else is harmed"
            other.kill()


def test_fewer_samples_than_a_batch():
    with folder() as home, small_daemon(home) as daemon:
        assert "fewer than one batch" in daemon.trainer(source=home / "images", batch_size=64, image_size=32).error()
        assert rows(daemon.batches(source=home / "images", batch_size=64, image_size=32, drop_last=0, epochs=1))[0].split()[2] == "60"


# ---- memory, starting, stopping ----

def test_stream_that_does_not_fit_says_what_would():
    with folder() as home, small_daemon(home, "--memory", "64M") as daemon:
        error = daemon.trainer(source=home / "images", batch_size=512, image_size=224, drop_last=0).error()
        fits = re.search(r"batch_size (\d+) would fit", error)
        more = re.search(r"--memory (\d+)M", error)
        assert fits and more, error
        assert rows(daemon.batches(source=home / "images", batch_size=int(fits[1]), image_size=224, drop_last=0, epochs=1))
        with Daemon(home / "more", "--memory", f"{more[1]}M") if (home / "more").mkdir() is None else None as richer:
            assert rows(richer.batches(source=home / "images", batch_size=512, image_size=224, drop_last=0, epochs=1))


def test_stream_that_follows_another_waits_for_its_memory():
    with folder() as home, small_daemon(home, "--memory", "96M") as daemon:
        client = Raw(daemon.socket)
        for stream in range(1, 31):
            client.send(open_stream(definition(home / "images", batch_size=60, image_size=224, prefetch=2), stream, stream))
            kind, body = client.receive()
            while kind not in (OPENED, ERROR):
                kind, body = client.receive()
            assert kind == OPENED, body
            client.send(message(CLOSE, stream=stream))
        client.close()


def test_opening_and_closing_without_end_piles_nothing_up():
    with folder() as home, small_daemon(home) as daemon:
        client = Raw(daemon.socket)
        text, most = definition(home / "images", **SMALL), 0
        for stream in range(1, 2001):
            client.send(open_stream(text, stream, stream))
            client.send(message(CLOSE, stream=stream))
            if stream % 50 == 0:
                most = max(most, len(os.listdir(f"/proc/{daemon.process.pid}/task")))
        assert most < 40, f"{most} threads"
        client.close()


def test_budget_too_small_is_refused_at_start():
    with folder() as home:
        daemon = Daemon(home, "--memory", "3M", expect_start=False)
        assert daemon.process.wait(timeout=harness.LIMIT) == 2
        daemon.out.close()
        assert "memory: 3.0 MiB is too small" in daemon.text() and "at least" in daemon.text()


def test_busy_socket_names_the_other_daemon():
    with folder() as home, small_daemon(home) as daemon:
        second = subprocess.run([tool("penstockd"), "--socket", daemon.socket], capture_output=True, text=True, timeout=harness.LIMIT)
        assert second.returncode == 1
        assert f"pid {daemon.process.pid}" in second.stderr and "--socket" in second.stderr, second.stderr
        assert rows(daemon.batches(source=home / "images", batches=1, **SMALL))


def test_sigterm_drains():
    with folder() as home:
        daemon = small_daemon(home)
        trainer = daemon.trainer(source=home / "images", batches=100000, sleep_ms=2, **SMALL)
        trainer.line()
        daemon.process.send_signal(signal.SIGTERM)
        error = trainer.error()
        assert "asked to end" in error, error
        assert daemon.stop() == 0
        assert not os.path.exists(daemon.socket)


def test_sigterm_while_a_stream_is_being_opened():
    with folder() as home, small_daemon(home) as daemon:
        image = next((home / "images").rglob("*.jp*g"))
        many = home / "many/class"
        many.mkdir(parents=True)
        for i in range(20000):
            os.link(image, many / f"{i}.jpg")
        client = Raw(daemon.socket)
        client.send(open_stream(definition(home / "many")))
        status = wait_until(lambda: (lambda s: s["streams"] and s)(daemon.status()), "the opening to begin")
        assert status["streams"][0]["state"] != "indexing" or status["verdict"] == "not measured yet: the stream is being opened", status
        daemon.process.send_signal(signal.SIGTERM)
        assert "asked to end" in client.error()
        assert client.receive()[0] is None, "nothing comes after the answer, and nobody waits for a client without a stream"
        client.close()


def test_sighup_takes_new_streams_and_keeps_the_old_on_errors():
    with folder() as home:
        make_dataset(home / "images")
        config = f"streams:\n  one:\n    source: {home}/images\n    batch_size: 8\n    image_size: 32\n"
        with Daemon(home, config=config) as daemon:
            assert rows(daemon.batches(source="stream:one", batches=1))
            daemon.config.write_text(config.replace("one:", "two:"))
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "in force" in daemon.text(), "the reload")
            assert rows(daemon.batches(source="stream:two", batches=1))
            for name, says in (("one", "which has two: add it there, or name a folder or tars"), ("tvo", "; did you mean two?")):
                error = daemon.trainer(source=f"stream:{name}").error()
                assert f"no stream named {name} in {daemon.config}{says if says[0] == ';' else ', ' + says}" in error, error
            daemon.config.write_text(config.replace("batch_size: 8", "batch_size: many"))
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "old configuration stays" in daemon.text(), "the refusal")
            assert "penstock.yaml:4" in daemon.text()
            assert rows(daemon.batches(source="stream:two", batches=1))


def test_a_name_that_no_stream_has_among_many():
    with folder() as home:
        (home / "images").mkdir()
        names = [f"stream-number-{n}" for n in range(40)]
        config = "streams:\n" + "".join(f"  {name}:\n    source: {home}/images\n" for name in names)
        with Daemon(home, config=config) as daemon:
            error = daemon.trainer(source="stream:mix").error()
            assert f", which has {names[0]}, {names[1]}, " in error and "...: add it there" in error, error


def test_sighup_does_not_beat_the_command_line():
    with folder() as home:
        with Daemon(home, "--log-level", "debug", config="log_level: error\n") as daemon:
            daemon.process.send_signal(signal.SIGHUP)
            wait_until(lambda: "in force" in daemon.text(), "the reload")
            Raw(daemon.socket).close()
            wait_until(lambda: "hung up" in daemon.text().split("in force")[1], "a line of the level that was asked for")


def test_bad_settings_name_place_and_expectation():
    with folder() as home:
        for text, words in (("thraeds: 2\n", ("penstock.yaml:1", "thraeds", "threads")), ("threads: many\n", ("penstock.yaml:1:", "threads", "many")),
                            ("streams:\n  a:\n    batch_size: 8\n", ("source",)), ("memory: [1]\n", ("memory",)), ("a: b: c\n", ("penstock.yaml:1",))):
            path = home / "penstock.yaml"
            path.write_text(text)
            for extra in ([], ["--check-config"]):
                got = subprocess.run([tool("penstockd"), "--config", path, "--socket", home / "s", *extra], capture_output=True, text=True,
                                     timeout=harness.LIMIT)
                assert got.returncode == 2, (text, got)
                assert all(word in got.stderr for word in words), got.stderr
        for option, value in (("--memory", "lots"), ("--threads", "0"), ("--io", "fast"), ("--reader", "x"), ("--log-level", "loud"),
                              ("--idle-exit", "-1"), ("--socket", "x" * 200), ("--socket", "/" + "x" * 200), ("--socket", "rel.sock"), ("--socket", "")):
            got = subprocess.run([tool("penstockd"), option, value], capture_output=True, text=True, timeout=harness.LIMIT)
            assert got.returncode == 2 and "expected" in got.stderr, (option, got)


def test_options_that_penstockd_does_not_know():
    """The nearest one is named. The old name of an option with a value beside it does not move the others."""
    def said(*words):
        got = subprocess.run([tool("penstockd"), *map(str, words)], capture_output=True, text=True, timeout=harness.LIMIT)
        assert got.returncode == 2 and got.stdout == "", got
        return got.stderr
    for words, says in ((["--memroy", "1G"], "penstockd: there is no option --memroy; did you mean --memory?\n"),
                        (["--Theads=2"], "no option --Theads; did you mean --threads?"), (["--frobnicate"], "no option --frobnicate; see penstockd --help"),
                        (["-x"], "no option -x; see penstockd --help"), (["--threads"], "--threads: expected a value; see"),
                        (["--version=2"], '--version takes no value, got "--version=2"'), (["--r", "x"], "no option --r; see")):
        assert says in said(*words), (words, said(*words))
    with folder() as home:
        (home / "c.yaml").write_text("streams:\n  a: {source: /nowhere/at/all, batch_size: 4, image_size: 16}\n")
        for options in ([], ["--no-checkpoints", "--threads", "2"]):
            got = subprocess.run([tool("penstockd"), "--config", home / "c.yaml", "--check-config", *options], capture_output=True, text=True,
                                 timeout=harness.LIMIT)
            assert got.returncode == 0 and got.stdout == f"{home}/c.yaml: good; 1 stream, whose source was not opened\n", got


def test_closed_standard_files_are_not_taken_by_others():
    """Where stderr is closed, the log goes nowhere: not into what would have got its number."""
    for closed, options in (("0<&- 1>&- 2>&-", ()), ("2>&-", ()), ("2>&-", ("--log-file", "file"))):
        with folder() as home:
            options = [str(home / o) if o == "file" else o for o in options]
            daemon = Daemon(home, *options, prefix=["sh", "-c", f'exec "$@" {closed}', "sh"])
            wait_until(lambda: daemon.status()["recorder"]["writes"], "the flight recorder, which must have kept its socket")
            daemon.process.send_signal(signal.SIGHUP)  # is answered by a line
            daemon.status()
            at = [os.readlink(f"/proc/{daemon.process.pid}/fd/{fd}") for fd in range(3)]
            assert at[2] == (options[1] if options else "/dev/null") and at[0] == "/dev/null", at
            assert (home / "run/s.sock.lock").read_text() == f"{daemon.process.pid}\n"
            assert daemon.stop() == 0
            assert not options or "penstockd ends" in (home / "file").read_text()


def test_idle_daemon_ends():
    with folder() as home:
        daemon = small_daemon(home, "--idle-exit", "1")
        daemon.batches(source=home / "images", batches=1, **SMALL)
        assert daemon.process.wait(timeout=harness.LIMIT) == 0
        daemon.out.close()


def test_idle_daemon_ends_though_clients_ask():
    """They keep it while they are there; that they come again and again does not."""
    with folder() as home:
        daemon = small_daemon(home, "--idle-exit", "1")

        def asked():
            time.sleep(0.1)
            try:
                Raw(daemon.socket).close()
            except (OSError, EOFError):
                pass
            return daemon.process.poll() is not None

        wait_until(asked, "its end")
        assert daemon.process.returncode == 0
        daemon.out.close()


def test_client_that_comes_as_the_idle_daemon_would_end():
    with folder() as home, small_daemon(home, "--idle-exit", "1") as daemon:
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(2.5)
        late = Raw(daemon.socket, greet=False)
        daemon.process.send_signal(signal.SIGCONT)
        late.send(hello())
        late.send(open_stream(definition(home / "images", **SMALL)))
        late.until(BATCH)
        late.close()


def test_private_daemon_is_started_once_and_ends():
    with folder() as home:
        make_dataset(home / "images")
        environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "PENSTOCKD": tool("penstockd")}
        (home / "run").mkdir(mode=0o700)
        trainers = [harness.Trainer(str(home / "run/s.sock"), environment, private=1, source=home / "images", epochs=1, **SMALL)
                    for _ in range(8)]
        lines = [t.finish() for t in trainers]
        assert all(one == lines[0] and one[-1] == "end" for one in lines)
        daemons = [pid for pid, name in harness.penstock_processes() if name == "penstockd"
                   and str(home) in open(f"/proc/{pid}/cmdline").read()]
        assert len(daemons) == 1, daemons
        stopped = subprocess.run([tool("penstock"), "stop"], env={**environment, "PENSTOCK_SOCKET": str(home / "run/s.sock")},
                                 timeout=harness.LIMIT, capture_output=True, text=True)
        assert stopped.returncode == 0, stopped
        wait_until(lambda: not os.path.exists(f"/proc/{daemons[0]}"), "the private daemon's end")


# ---- clients that lie ----

def test_another_version_is_told():
    with folder() as home, small_daemon(home) as daemon:
        raw = Raw(daemon.socket, greet=False)
        raw.send(hello(7, 9))
        assert "7 to 9" in raw.error() and raw.closed()
        raw.close()


def test_garbage_closes_only_the_liar():
    with folder() as home, small_daemon(home) as daemon:
        good = daemon.trainer(source=home / "images", batches=400, sleep_ms=2, **SMALL)
        good.line()
        big = message(2, b"x" * 60000)
        lies = [b"", b"x", b"\0" * 16, os.urandom(15), os.urandom(64), message(1, b"short"), message(1, b"\0" * 24), hello(magic=1), message(99),
                message(2, size=4000), big]
        for lie in lies:
            raw = Raw(daemon.socket, greet=False)
            try:
                raw.send(lie)
                if lie:
                    assert raw.closed(), lie[:20]
            except OSError:
                pass
            raw.close()
        for lie in (message(99), message(2, b"", stream=1), message(6, b"12345678"), message(5, b""), message(1, b"\0" * 24), hello(),
                    message(3, b""), message(4, b"12345678", stream=1), open_stream("source: x", stream=0), open_stream("source: x", request=0),
                    message(5, struct.pack("<IIQ", 1, 0, 0)), message(6)):
            raw = Raw(daemon.socket)
            raw.send(lie)
            assert raw.error()
            assert raw.closed()
            raw.close()
        for _ in range(300):
            raw = Raw(daemon.socket)
            raw.send(os.urandom(16 + 8 * (_ % 40)))
            assert raw.closed()
            raw.close()
        assert len(rows(good.finish())) == 400


def test_open_requests_that_are_no_definition():
    with folder() as home, small_daemon(home) as daemon:
        raw = Raw(daemon.socket)
        for text in ("", "]", "source", "[1, 2]", "{source: 1, nonsense: 2}", "batch_size: 8", "{source: x, batch_size: -1}", "&a [*a]", "\x00\xff",
                     "{stream: nothing}", "{source: %s}" % ("x" * 5000), "{" * 2000):
            raw.send(open_stream(text))
            sentence = raw.error()
            assert len(sentence) > 10, (text, sentence)
        raw.close()


def reach_batch(daemon, home, prefetch=3):
    raw = Raw(daemon.socket)
    raw.send(open_stream(json.dumps({"source": str(home / "images"), "batch_size": 8, "image_size": 32, "prefetch": prefetch})))
    raw.until(OPENED)
    extent = int.from_bytes(raw.until(EXTENT)[:4], "little")
    body = raw.until(BATCH)
    return raw, extent, int.from_bytes(body[4:8], "little"), int.from_bytes(body[8:16], "little")


def test_false_releases_close_the_liar():
    with folder() as home, small_daemon(home) as daemon:
        for lie in (lambda e, s, n: [release(e, s, n), release(e, s, n)], lambda e, s, n: [release(e + 1, s, n)],
                    lambda e, s, n: [release(e, 63, n)], lambda e, s, n: [release(e, 1000000, n)], lambda e, s, n: [release(e, s, n + 7)]):
            raw, extent, slot, serial = reach_batch(daemon, home)
            for data in lie(extent, slot, serial):
                raw.send(data)
            while True:
                kind, body = raw.receive()
                if kind == ERROR:
                    assert "does not hold" in body[8:].decode()
                    break
                assert kind == BATCH, kind
            assert raw.closed()
            raw.close()
        wait_until(lambda: not daemon.status()["streams"], "the liars' streams to go")
        assert rows(daemon.batches(source=home / "images", batches=3, **SMALL))


def test_client_that_never_reads_harms_nobody():
    with folder() as home, small_daemon(home) as daemon:
        deaf = Raw(daemon.socket)
        try:
            deaf.socket.settimeout(0.2)
            for _ in range(5000):
                deaf.send(message(5, (1).to_bytes(4, "little") + b"\0" * 12, request=1))
        except OSError:
            pass
        assert rows(daemon.batches(source=home / "images", batches=50, **SMALL))
        deaf.close()


def test_full_socket_is_no_reason_to_close_when_a_stream_ends():
    """The announcements of several streams may fill a socket; where among them the last message falls must not matter."""
    with folder() as home, small_daemon(home, "--memory", "256M") as daemon:
        for padding in range(16):
            client = Raw(daemon.socket)
            for stream in range(1, 5):
                client.send(open_stream(definition(home / "images", batch_size=1, image_size=8, prefetch=64), stream, 10 + stream))
            wait_until(lambda: [s.get("leased") for s in daemon.status()["streams"]] == 4 * [64], "four streams to be full")
            with contextlib.suppress(BrokenPipeError):  # an answer that it asked for found no room
                for i in range(padding):
                    client.send(message(QUERY, struct.pack("<IIQ", 5, 0, 0), 100 + i, 1))
                client.send(open_stream(definition(home / "images", train=False, epochs=1, batch_size=60, image_size=8), 9, 20))
            time.sleep(0.05)
            kinds = []
            while not kinds or kinds[-1] not in (END, None):
                kinds.append(client.receive()[0])
            assert kinds[-1] == END or kinds.count(EXTENT) < 5, f"closed behind {len(kinds)} messages, though all it asked for was sent"
            client.close()


def test_descriptors_from_clients_are_not_kept():
    with folder() as home, small_daemon(home) as daemon:
        import array
        import socket
        raw = Raw(daemon.socket)
        before = daemon.fds()
        query = message(5, (1).to_bytes(4, "little") + b"\0" * 12, request=1)
        for _ in range(50):
            try:
                raw.socket.sendmsg([query], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))])
            except PermissionError:  # the kernel does not even let it send one
                continue
            assert raw.receive()[0] == ERROR and raw.closed()
            raw.close()
            raw = Raw(daemon.socket)
        time.sleep(0.1)
        assert daemon.fds() <= before + 2
        raw.close()


def test_too_many_clients_are_turned_away():
    with folder() as home:
        make_dataset(home / "images")
        with Daemon(home, config="max_clients: 4\n") as daemon:
            assert daemon.status()["clients"] == 1, "the last is for another process"
            three = [Raw(daemon.socket) for _ in range(3)]
            fourth = Raw(daemon.socket, greet=False)
            assert "max_clients" in fourth.error() and fourth.closed()
            for raw in [*three, fourth]:
                raw.close()
            wait_until(lambda: daemon.status()["clients"] == 1, "the places to be free again")
            assert rows(daemon.batches(source=home / "images", batches=1, **SMALL))


def test_no_descriptors_left_is_said_and_waited_out():
    with folder() as home:
        make_dataset(home / "images")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            daemon = Daemon(home, "--threads", "2", "--reader", "pread")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with daemon:
            crowd = [Raw(daemon.socket, greet=False) for _ in range(60)]
            wait_until(lambda: "no file descriptors left" in daemon.text(), "the sentence")
            time.sleep(1)
            assert daemon.text().count("no file descriptors left") < 10, "said now and then, not without end"
            for raw in crowd:
                raw.close()
            assert rows(daemon.batches(source=home / "images", batches=1, **SMALL))


def test_queries_that_cannot_be_answered():
    with folder() as home, small_daemon(home) as daemon:
        client = Raw(daemon.socket)
        for request, (kind, stream, argument) in enumerate([(99, 0, 0), (0, 0, 0), (5, 7, 0), (4, 7, 1 << 60)], 5):
            client.send(message(QUERY, struct.pack("<IIQ", kind, 0, argument), request, stream))
            assert struct.unpack_from("<i", client.until(ERROR))[0] == -errno.EINVAL
        client.send(open_stream(definition(home / "images", **SMALL)))
        client.until(OPENED)
        client.send(message(QUERY, struct.pack("<IIQ", 4, 0, 60), 20, 1))
        assert "60" in client.error(), "the connection lives"
        client.close()


def test_hanging_up_at_every_step():
    with folder() as home, small_daemon(home) as daemon:
        want = daemon.batches(source=home / "images", epochs=1, **SMALL)
        text = json.dumps({"source": str(home / "images"), "batch_size": 8, "image_size": 32})
        for step in range(4):
            raw = Raw(daemon.socket, greet=step > 0)
            if step > 1:
                raw.send(open_stream(text))
            if step > 2:
                raw.until(OPENED)
            raw.close()
        reach_batch(daemon, home)[0].close()
        wait_until(lambda: not daemon.status()["streams"], "the streams to go")
        assert daemon.batches(source=home / "images", epochs=1, **SMALL) == want


if __name__ == "__main__":
    run_tests(globals())
