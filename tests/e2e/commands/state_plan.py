"""`penstock state` and `penstock plan`: states that fit and that do not, and what ranks get, against the documented rule computed here."""
import json
import random
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from command_line import assert_same, environment, refuse, replayed, run, served
from harness import LIMIT, Daemon, Trainer, folder, make_dataset, run_tests, tool, wait_until

WIDTH = 80


# ---- the rule of PROTOCOL.md, "Groups", written down once more ----

def global_batches(samples, batch_size, world_size, drop_last, start=0):
    """[(position, per rank [positions of its own rows], per rank [position of a padded row or None])] from `start` on."""
    batches, position = [], start
    while position < samples:
        left = samples - position
        taken = min(left, batch_size * world_size)
        if drop_last and taken < batch_size * world_size:
            break
        shares = [taken // world_size + (rank < taken % world_size) for rank in range(world_size)]
        own, at = [], position
        for share in shares:
            own.append(list(range(at, at + share)))
            at += share
        batches.append((position, own, [None if rows else position + taken - 1 for rows in own]))
        position += taken
    return batches


def epoch_of(samples, batch_size, world_size, drop_last):
    """What plan's JSON must say of a whole epoch and of every rank."""
    batches = global_batches(samples, batch_size, world_size, drop_last)
    last = batches[-1]
    ranks = [{"batches": len(batches), "samples": sum(len(b[1][r]) for b in batches), "last_batch_samples": len(last[1][r]),
              "rows_padded": sum(b[2][r] is not None for b in batches),
              "first_position": batches[0][1][r][0] if batches[0][1][r] else batches[0][2][r]} for r in range(world_size)]
    used = sum(rank["samples"] for rank in ranks)
    return {"batches": len(batches), "samples_used": used, "samples_dropped": samples - used,
            "last_batch_rows": sum(map(len, last[1])), "rows_padded": sum(r["rows_padded"] for r in ranks)}, ranks


def order_of(home, images, *options):
    """The epoch's samples by position, from replay, which cli.py compares with what is served."""
    return [row["index"] for row in replayed_all(home, images, *options)]


def replayed_all(home, images, *options):
    out, _ = run(home, "replay", images, "--image-size", 8, "--no-drop-last", "-b", 65536, "--json", *options)
    return json.loads(out)["rows"]


def plan(home, images, *options):
    return json.loads(run(home, "plan", images, "--json", *options)[0])


def take_state(home, daemon, images, **keys):
    """A trainer's state, as it is told after its last batch."""
    lines = Trainer(daemon.socket, environment(home), source=images, **keys).finish()
    return [line for line in lines if line.startswith("state ")][-1][6:]


# ---- plan ----

def test_plan_is_the_documented_rule():
    draw = random.Random(5)
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        samples = 51
        cases = [(1, 1), (51, 1), (52, 1), (1, 51), (1, 52), (17, 3), (13, 4), (50, 1), (3, 60), (65536, 1), (2, 25)]
        cases += [(draw.randint(1, 30), draw.randint(1, 20)) for _ in range(25)]
        order = {"--seed=3": order_of(home, images, "--seed=3"), "--eval": order_of(home, images, "--eval")}
        assert sorted(order["--seed=3"]) == sorted(order["--eval"]) == list(range(samples)) and order["--seed=3"] != order["--eval"]
        for batch_size, world_size in cases:
            for recipe, keep in (("--seed=3", "--no-drop-last"), ("--seed=3", "--drop-last"), ("--seed=3", None), ("--eval", None)):
                drop_last = keep == "--drop-last" or (recipe != "--eval" and keep is None)
                args = ["-b", batch_size, "-W", world_size, recipe, *([keep] if keep else [])]
                if drop_last and batch_size * world_size > samples:
                    refuse(home, "plan", images, *args, code=1, says=["51 samples, not enough for one batch", "would fit"])
                    continue
                got = plan(home, images, *args)
                epoch, ranks = epoch_of(samples, batch_size, world_size, drop_last)
                assert {key: got[key] for key in epoch} == epoch, (args, got)
                assert (got["samples"], got["global_batch"], got["drop_last"]) == (samples, batch_size * world_size, drop_last)
                assert [rank["rank"] for rank in got["ranks"]] == list(range(world_size))
                batches = global_batches(samples, batch_size, world_size, drop_last)
                for mine, rank, own, padded in zip(got["ranks"], ranks, batches[0][1], batches[0][2]):
                    assert {key: mine[key] for key in rank} == rank, (args, mine, rank)
                    rows = own[:3] if own else [padded]
                    assert mine["first_samples"] == [order[recipe][p] for p in rows], (args, mine)


def test_plan_names_what_would_fit():
    with folder() as home:
        images = make_dataset(home / "images", per_class=7, min_side=32, max_side=40)
        err = refuse(home, "plan", images, "-W", 4, "-b", 6, code=1, says=["21 samples", "6 for each of 4 ranks"])
        assert "--batch-size 5 or less, --world-size 3 or less, or --no-drop-last would fit" in err, err
        for args in (["-W", 4, "-b", 5], ["-W", 3, "-b", 6], ["-W", 4, "-b", 6, "--no-drop-last"]):
            assert plan(home, images, *args)["batches"] >= 1
        err = refuse(home, "plan", images, "-W", 30, "-b", 30, code=1, says="; --no-drop-last would fit")
        assert "or less" not in err


def test_plan_for_people():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        cases = {
            ("-W", 4, "-b", 8, "--eval"): ["51 samples", "none dropped", "19 of 32 rows: 5 for ranks 0-2, 4 for the others"],
            ("-W", 3, "-b", 8): ["48 in each epoch, 3 dropped (5.9 %)", "full, like all others", "note: 6 % of every epoch is dropped"],
            ("-W", 3, "-b", 8, "--no-shuffle"): ["the 3 dropped samples are the same in every epoch"],
            ("-W", 40, "-b", 1, "--eval"): ["  0-10  ", " 11-39  ", "11 of 40 rows: 1 for ranks 0-10, a padded row for the others",
                                            "29 of 40 ranks have nothing of their own"],
            ("-W", 60, "-b", 1, "--eval"): ["there are fewer samples than ranks"],
            ("-W", 2, "-b", 25, "--no-drop-last", "--epochs", 4): ["weighs as much as a full one", "8 batches for each rank in 4 epochs"],
            ("-W", 6, "-b", 1, "--ranks-per-node", 4): ["6 ranks do not fill nodes of 4"],
            ("-W", 8, "-b", 500, "--image-size", 2048, "--no-drop-last"): ["penstockd's default budget on this machine", "start it with --memory"],
        }
        for args, words in cases.items():
            text, err = run(home, "plan", images, *args)
            assert err == "", err
            flat = " ".join(text.split())
            for word in words:
                assert word in flat or word in text, (args, word, text)
            assert not [line for line in text.splitlines()[1:] if len(line) > WIDTH], text
            # As many lines of ranks as there are kinds of them.
            table = text[re.search(r"\n +rank +batches ", text).start():]
            rows = [line for line in table.splitlines() if line.split() and line.split()[0].replace("-", "").isdigit()]
            assert len(rows) == args[1] if args[1] <= 16 else len(rows) == 2, text


def test_plan_of_memory():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        got = plan(home, images, "-W", 6, "-b", 8, "--image-size", 32, "--ranks-per-node", 2, "--prefetch", 5)["memory"]
        assert got["slot_bytes"] >= 8 * (32 * 32 * 3 + 8 + 64) and got["slot_bytes"] % 4096 == 0
        assert (got["slots"], got["ranks_per_node"]) == (5, 2)
        assert (got["rank_bytes"], got["node_bytes"]) == (5 * got["slot_bytes"], 10 * got["slot_bytes"])


def test_plan_of_memory_is_the_daemons():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        options = ["-W", 3, "-b", 40, "--image-size", 224, "--no-drop-last"]
        got = plan(home, images, *options)["memory"]
        wanted, least = got["daemon_bytes"] >> 20, got["daemon_bytes_least"] >> 20
        assert 8 < least < wanted
        keys = dict(source=images, batch_size=40, image_size=224, drop_last=0, group="job", share="split", world_size=3)
        for memory, slots in ((wanted, 4), (least, 2), (least - 1, None)):
            with Daemon(home, "--memory", f"{memory}M") as daemon:
                ranks = [daemon.trainer(**keys, rank=rank, sleep_ms=1000, prefetch=slots or 2) for rank in range(3)]
                lines = [trainer.line() for trainer in ranks]
                refused = [line for line in lines if line.startswith("error ")]
                if slots is None:
                    assert len(refused) == 1 and "start penstockd with --memory" in refused[0], lines
                else:
                    assert not refused, lines
                    streams = daemon.status()["streams"]
                    assert len(streams) == 3 and min(stream["slots"] for stream in streams) >= slots, streams
                for trainer in ranks:
                    trainer.kill()


def test_plan_from_a_state():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        with Daemon(home, "--threads", "2") as daemon:
            state = take_state(home, daemon, images, batch_size=5, image_size=32, seed=3, batches=4)
            near = take_state(home, daemon, images, batch_size=5, image_size=32, seed=3, batches=9)
        assert json.loads(state)["position"] == 20
        for batch_size, world_size, keep in ((5, 1, "--drop-last"), (4, 2, "--no-drop-last"), (7, 3, "--no-drop-last"), (3, 4, "--drop-last")):
            args = ["-b", batch_size, "-W", world_size, "--seed", 3, "--image-size", 32, keep]
            got = plan(home, images, *args, "--state", state, "--epochs", 3)
            rest = global_batches(51, batch_size, world_size, keep == "--drop-last", start=20)
            whole = global_batches(51, batch_size, world_size, keep == "--drop-last")
            assert got["from"]["batches_left"] == len(rest) and got["from"]["position"] == 20 and got["from"]["epoch"] == 0
            assert got["from"]["samples_left"] == sum(len(own) for b in rest for own in b[1])
            assert got["from"]["last_batch_rows"] == sum(map(len, rest[-1][1]))
            assert got["batches"] == len(whole) and got["total_batches"] == len(rest) + 2 * len(whole)
            for rank, mine in enumerate(got["ranks"]):
                assert mine["samples"] == sum(len(b[1][rank]) for b in rest), (args, mine)
                assert mine["first_position"] == rest[0][1][rank][0]
            text, _ = run(home, "plan", images, *args, "--state", state)
            assert f"position 20; {len(rest)} batch" in text, text
        # Six samples are left and a batch takes ten: the next epoch's first comes next.
        got = plan(home, images, "-b", 5, "-W", 2, "--seed", 3, "--image-size", 32, "--state", near)
        assert json.loads(near)["position"] == 45 and (got["from"]["epoch"], got["from"]["position"]) == (1, 0)
        refuse(home, "plan", images, "-b", 5, "--seed", 4, "--state", state, code=1, says=["the state does not fit: seed", "3 in the state; 4 here"])
        refuse(home, "plan", images, "-b", 5, "--state", home / "none", says="cannot read")
        other = plan(home, images, "-b", 5, "--seed", 3, "--image-size", 64, "--state", state)
        assert any("training, 32 px in the state; training, 64 px here" in note for note in other["notes"]), other["notes"]


# ---- state ----

def test_a_state_in_words():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        kinds = [
            (dict(train=1), "shuffled, seed 9223372036854775807", "training, 32 px"),
            (dict(train=0), "in order, seed 9223372036854775807", "evaluation, 32 px"),
            (dict(train=1, shuffle=0, decode="fast"), "in order, seed", "training, 32 px, decoded fast"),
            (dict(train=0, shuffle=1, interpolation="lanczos"), "shuffled, seed", "evaluation, 32 px, lanczos"),
        ]
        with Daemon(home, "--threads", "2") as daemon:
            for keys, order, rows in kinds:
                state = take_state(home, daemon, images, batch_size=8, image_size=32, seed=(1 << 63) - 1, batches=3, **keys)
                (home / "state.json").write_text(f"\n  {state} \r\n\n")
                text, err = run(home, "state", home / "state.json", "-b", 4, "-W", 3)
                for words in (order, rows, json.loads(state)["fingerprint"], "in epoch 0, at position 24", "number 2 of epoch 0, with 3 ranks of 4"):
                    assert words in text, (words, text)
                assert err == "" and not [line for line in text.splitlines() if len(line) > WIDTH]
                assert run(home, "state", state, "-b", 4, "-W", 3)[0] == text
                got = json.loads(run(home, "state", state, "--json", "-b", 4, "-W", 3)[0])
                assert {key: got[key] for key in json.loads(state)} == json.loads(state)
                assert got["shuffle"] == ("shuffled" in order) and got["rows"]["image_size"] == 32
                assert got["next"] == {"epoch": 0, "batch": 2, "position": 24, "aligned": True, "batch_size": 4, "world_size": 3}
        unsaid = " ".join(run(home, "state", json.dumps({**json.loads(state), "position": 24}))[0].split())
        assert "it begins between two batches of 64, the default: give -b, and -W for several ranks, to learn more" in unsaid, unsaid
        (home / "ck.json").write_text(json.dumps({"epoch": 1, "loader": json.loads(state)}, indent=2))
        assert run(home, "state", home / "ck.json", "-b", 4, "-W", 3)[0] == text, "a checkpoint that keeps it"
        unsaid = " ".join(run(home, "state", home / "state.json", "-W", 2)[0].split())
        assert "64, the default: give -b to learn more" in unsaid and "-W for several" not in unsaid, unsaid
        assert "between two batches" in " ".join(run(home, "state", home / "state.json", "-b", 7)[0].split())
        piped = subprocess.run([tool("penstock"), "state", "-", "-b", "4", "-W", "3"], input=(home / "state.json").read_bytes(),
                               capture_output=True, env=environment(home), timeout=LIMIT)
        assert (piped.returncode, piped.stdout.decode()) == (0, text), piped


def test_a_state_that_fits():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        with Daemon(home, "--threads", "2") as daemon:
            state = take_state(home, daemon, images, batch_size=8, image_size=32, seed=3, batches=3)
            whole = served(home, daemon, batch_size=8, image_size=32, seed=3, epochs=1)
            rest = served(home, daemon, batch_size=4, image_size=32, seed=3, epochs=1, state=state)
        assert [r[0][0] for r in rest] == [r[0][0] for r in whole[24:]][:len(rest)]
        options = ["--seed", 3, "--image-size", 32]
        for batch_size, world_size in ((8, 1), (4, 1), (5, 3), (1, 20), (27, 1)):
            text, _ = run(home, "state", state, images, *options, "-b", batch_size, "-W", world_size)
            assert text.splitlines()[-1] == f"  fits {images}", text
            got = json.loads(run(home, "state", state, images, *options, "-b", batch_size, "-W", world_size, "--json")[0])
            batches = global_batches(51, batch_size, world_size, True, start=24)
            assert got["fits"] and got["differs"] == [] and got["samples"] == 51
            assert got["next"]["batches_left"] == len(batches) and got["next"]["position"] == 24
            for rank, mine in enumerate(got["next"]["ranks"]):
                assert (mine["position"], mine["rows"]) == (batches[0][1][rank][0], len(batches[0][1][rank]))
            assert got["next"]["ranks"][0]["first_sample"] == rest[0][0][0]
        got = json.loads(run(home, "state", state, images, *options, "-b", 28, "--json")[0])
        assert (got["next"]["epoch"], got["next"]["position"]) == (1, 0), "27 are left, and 28 are wanted"
        # Other pixels are allowed, and said.
        got = json.loads(run(home, "state", state, images, "--seed", 3, "-b", 8, "--interpolation", "box", "--json")[0])
        assert got["fits"] and [(d["what"], d["refused"]) for d in got["differs"]] == [("rows", False)]
        text, _ = run(home, "state", state, images, "--seed", 3, "-b", 1, "-W", 20)
        assert "and so on to rank 19" in text and "other pixels" in text and not [line for line in text.splitlines() if len(line) > WIDTH]


def test_a_state_that_does_not_fit():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        other = make_dataset(home / "other", per_class=17, min_side=32, max_side=40, seed=9)
        with Daemon(home, "--threads", "2") as daemon:
            state = json.loads(take_state(home, daemon, images, batch_size=8, image_size=32, seed=3, batches=3))

            def judge(source, *options, **edit):
                changed = json.dumps({**state, **edit})
                out, err = run(home, "state", changed, source, "--image-size", 32, "-b", 8, "--json", *options, code=1)
                text, again = run(home, "state", changed, source, "--image-size", 32, "-b", 8, *options, code=1)
                assert err == again == "" and f"  does not fit {source}:" in text and "next batch" not in text, text
                assert not [line for line in text.splitlines() if len(line) > WIDTH], text
                got = json.loads(out)
                assert not got["fits"] and "next" not in got
                # The daemon refuses what is refused here.
                keys = {"shuffle": 0} if "--no-shuffle" in options else {}
                seed = options[options.index("--seed") + 1] if "--seed" in options else 0
                error = Trainer(daemon.socket, environment(home), source=source, batch_size=8, image_size=32, seed=seed, state=changed, **keys).error()
                assert "the state" in error, error
                return {d["what"]: (d["state"], d["here"]) for d in got["differs"]}

            fingerprint = state["fingerprint"]
            found = judge(other, "--seed", 3)
            assert list(found) == ["dataset"] and found["dataset"][0] == fingerprint
            assert judge(images, "--seed", 4) == {"seed": ("3", "4")}
            assert judge(images) == {"seed": ("3", "0")}
            assert judge(images, "--seed", 3, "--no-shuffle") == {"order": ("shuffled", "in order")}
            assert list(judge(images, "--seed", 3, order="0123456789abcdef")) == ["order"]
            assert judge(images, "--seed", 3, position=52) == {"position": ("52", "51 at most")}
            assert list(judge(other, "--seed", 4, "--no-shuffle")) == ["dataset", "seed", "order"]
            # A seed that was edited has another order, too.
            assert list(judge(images, "--seed", 4, seed=4)) == ["order"]
            assert judge(images, "--eval")["rows"] == ("training, 32 px", "evaluation, 32 px")


def test_what_is_no_state():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        with Daemon(home, "--threads", "2") as daemon:
            state = take_state(home, daemon, images, batch_size=8, image_size=32, seed=3, batches=3)
        file = home / "cut.json"
        for size in range(len(state)):
            file.write_text(state[:size])
            for source in ([], [images]) if size % 16 == 0 else ([],):
                err = refuse(home, "state", file, *source, code=1, says=[f"{file}:", "resume from an earlier state"])
                assert len(err.splitlines()) == 1, err
        edited = [
            (state.replace('"version":1', '"version":2'), "the state has version 2, of another release"),
            (state.replace('"seed":3', '"seed":-3'), "seed: expected a whole number from 0"),
            (state.replace('"seed":3', '"seed":18446744073709551616'), "seed: expected a whole number"),
            (state.replace('"epoch":0', '"epoch":4294967296'), "epoch: expected a whole number"),
            (state.replace('"epoch"', '"epoc"'), 'unknown key "epoc"; did you mean "epoch"?'),
            (state.replace('"position":24', '"position":2.4'), "position: expected"),
            (state.replace('"position":24', '"position":24,"position":25'), "position appears twice"),
            (state.replace('"fingerprint":"', '"fingerprint":"0'), "16 hexadecimal digits"),
            (state.replace(',"position":24', ""), "the state has no position"),
            (state + state, "one document"),
            ("{" + state + "}", "expected"),
            ("{}", "the state has no version; expected what penstock_stream_state wrote or state_dict() returned"),
        ]
        for text, says in edited:
            if says == "one document":
                says = "not valid YAML"
            refuse(home, "state", text, code=1, says=["the state:1:", says])
        file.write_bytes(b"\x00\x01\xff" + bytes(range(256)))
        refuse(home, "state", file, code=1, says=str(file))
        file.write_bytes(b" " * (1 << 17))
        refuse(home, "state", file, code=1, says="more than 64 KiB, so it is not a state")
        file.write_bytes(b"\xef\xbb\xbf" + state.encode())
        run(home, "state", file)
        refuse(home, "plan", images, "-b", 8, "--state", "{}", code=1, says="the state has no version")


def test_bad_command_lines():
    cases = [
        (["state"], "state: expected STATE"),
        (["state", "a", "b", "c"], '"c" is one more'),
        (["state", "/nowhere"], ["cannot read /nowhere: No such file", "its text in quotes"]),
        (["state", "/"], "cannot read /: Is a directory"),
        (["state", "{}", "--seed", "1"], "--seed belongs to the stream that should resume: name its SOURCE, too"),
        (["state", "{}", "--no-drop-last"], "--no-drop-last belongs to"),
        (["state", "{}", "x", "-W", "0"], "--world-size: expected a whole number from 1 to 65536"),
        (["state", "{}", "stream:a"], "state opens the dataset itself"),
        (["plan"], "plan: expected SOURCE"),
        (["plan", "x", "--world-size", "0"], "--world-size: expected a whole number from 1 to 65536"),
        (["plan", "x", "-W", "65537"], "--world-size: expected a whole number from 1 to 65536"),
        (["plan", "x", "--batch-size", "0"], "--batch-size: expected a whole number from 1"),
        (["plan", "x", "--prefetch", "1"], "--prefetch: expected a whole number from 2 to 64"),
        (["plan", "x", "--drop-last", "--no-drop-last"], "cannot both be"),
        (["plan", "x", "-W", "2", "--ranks-per-node", "3"], "--ranks-per-node 3 is more than the --world-size of 2"),
        (["plan", "x", "--epochs", "0"], "--epochs: expected a whole number from 1"),
        (["plan", "stream:a"], "plan opens the dataset itself"),
        (["plan", "/nowhere"], "/nowhere"),
        (["replay", "x", "--rank", "1"], "--rank 1 is not below --world-size, which is 1"),
        (["replay", "x", "--index", "1", "--eval", "--rank", "0"], "--rank cannot be given"),
    ]
    with folder() as home:
        for args, says in cases:
            refuse(home, *args, says=says)


# ---- replay of a rank ----

def test_replay_of_a_rank_is_its_part_of_the_order():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        for recipe in (["--seed", 3, "--no-drop-last"], ["--eval"]):
            order = replayed_all(home, images, *recipe)
            for batch_size, world_size in ((5, 3), (4, 4), (7, 10), (1, 60)):
                for number, (_, own, padded) in enumerate(global_batches(51, batch_size, world_size, False)):
                    for rank in {0, 1, world_size // 2, world_size - 1}:
                        rows = replayed(home, "-b", batch_size, "-W", world_size, "--rank", rank, "--batch", number, "--image-size", 8, *recipe)
                        wanted = own[rank] or [padded[rank]]
                        assert [row["index"] for row in rows] == [order[p]["index"] for p in wanted]
                        assert [row["position"] for row in rows] == wanted
                        assert [row["padded"] for row in rows] == [not own[rank]] * len(rows)
                        assert [row["crc32"] for row in rows] == [order[p]["crc32"] for p in wanted], "the position decides the pixels"
        # And what a split stream serves to a rank, padded rows too.
        keys = dict(seed=3, batch_size=7, image_size=8, drop_last=0, epochs=1, share="split", group="job", world_size=10)
        with Daemon(home, "--threads", "1") as daemon:
            for rank in (0, 3, 9):
                rows = replayed(home, "-b", 7, "-W", 10, "--rank", rank, "--image-size", 8, "--seed", 3, "--no-drop-last")
                expected = served(home, daemon, rank=rank, **keys)
                assert_same(rows, expected)
            keys.update(batch_size=1, world_size=60)
            rows = replayed(home, "-b", 1, "-W", 60, "--rank", 59, "--image-size", 8, "--seed", 3, "--no-drop-last")
            (record, image), = served(home, daemon, rank=59, **keys)
            assert_same(rows, [(record, image)])
            assert rows[0]["padded"] and record[8] & 4
        refuse(home, "replay", images, "-b", 5, "-W", 3, "--batch", 3, says="--batch 3 is beyond the epoch's last, 2")
        refuse(home, "replay", images, "-b", 26, "-W", 2, says="51 samples, not enough for one batch of 26 for each of 2 ranks")


# ---- bench of those who share, split, or have streams of their own ----

def test_bench_of_each_way_to_share():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        for share, count in (("all", 3), ("split", 1), ("split", 3), ("private", 2)):
            args = ["bench", images, "-n", count, "--share", share, "-b", 8, "--image-size", 32, "--seconds", "0.4", "--threads", 1]
            args += ["--distinct-seeds"] if share == "private" else []
            got = json.loads(run(home, *args, "--json")[0])
            each = got["trainer_images_per_s"]
            assert got["share"] == share and len(each) == got["trainers"] == count and min(each) > 0
            assert abs(sum(each) / count - got["images_per_s"]) < 0.1 + 0.001 * got["images_per_s"]
            if share != "all":
                # What the workers spent on all streams, not on the first alone.
                assert abs(sum(got["decode_stages"].values()) - got["stages"]["decode"]) < 0.01
                assert sum(got["checkpoints"].values()) >= got["images"], "the first epoch's are made, the others' used"
            if got["announce_p50_us"] is not None:
                assert 0 < got["announce_p50_us"] <= got["announce_p99_us"]
            text, err = run(home, *args)
            assert err == "" and "announced" in text and ("all trainers" in text) == (count > 1), text
            assert not [line for line in text.splitlines()[1:] if len(line) > WIDTH], text
        # A trainer that waits for each batch knows how long each announcement took.
        got = json.loads(run(home, "bench", images, "-b", 16, "--image-size", 256, "--seconds", "0.5", "--threads", 1, "--json")[0])
        assert got["announce_p50_us"] > 0, got
        refuse(home, "bench", images, "-n", 2, "--share", "split", "-b", 26, says="51 samples, not enough for one batch of 26 for each of 2 ranks")


# ---- status of groups ----

def test_status_of_those_who_read_together():
    with folder() as home:
        images = make_dataset(home / "images", per_class=17, min_side=32, max_side=40)
        with Daemon(home, "--threads", "1") as daemon:
            env = environment(home, PENSTOCK_SOCKET=daemon.socket)
            keys = dict(source=images, batch_size=4, image_size=32)
            ranks = [daemon.trainer(**keys, group="job", share="split", rank=rank, world_size=3, sleep_ms=20) for rank in (0, 1)]
            for trainer in ranks:
                trainer.line()
            early = daemon.trainer(**keys, group="early", wait_for=2, laggard="detach")
            slow, quick = (daemon.trainer(**keys, group="pair", wait_for=2, **more) for more in (dict(hold=4, sleep_ms=60000), {}))
            wait_until(lambda: "others wait for it" in run(home, "status", env=env)[0], "a laggard to be shown")
            wait_until(lambda: str(early.process.pid) in run(home, "status", env=env)[0], "the third group")
            text, err = run(home, "status", env=env)
            assert err == "" and not [line for line in text.splitlines() if len(line) > WIDTH and str(home) not in line], text
            for words in ("\njob rank 0 ", "\njob rank 1 ", "\n  split among 3 ranks, 2 of them here\n",
                          f"\n  rank 0: trainer {ranks[0].process.pid}, at batch ", f"\n  rank 1: trainer {ranks[1].process.pid}, at batch ",
                          "\n  every batch shared by 2 trainers\n", f"\n  trainer {slow.process.pid}, at batch 3 of epoch 0, holds 4; others wait for it (",
                          f"\n  trainer {quick.process.pid}, at batch 3 of epoch 0",
                          "\n  every batch shared by 1 trainer; waits for 2; laggards are detached\n",
                          f"\n  trainer {early.process.pid}, has received no batch yet\n"):
                assert words in text, (words, text)
            assert text.count(f"\njob: {images}\n") == 1, "the ranks of a job have one paragraph"
            # A group that has begun does not begin again when one of it has gone.
            quick.kill()
            wait_until(lambda: "\n  every batch shared by 1 trainer\n" in run(home, "status", env=env)[0], "the pair without one")
            for trainer in (*ranks, early, slow):
                trainer.kill()


if __name__ == "__main__":
    run_tests(globals())
