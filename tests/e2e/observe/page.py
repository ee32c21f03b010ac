"""The page at `/`, in a headless Chromium: of a real daemon with a trainer, and of made-up ones that say what real ones seldom do.

    page.py [PATTERN...]               the tests
    page.py --pictures FOLDER          what there is to look at, in light, in dark and on a phone"""
import contextlib
import json
import math
import mmap
import os
import re
import struct
import sys
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from browser import Browser
from harness import BIN, STATUS, Daemon, Link, Skip, folder, make_dataset, run_tests, wait_until
from page_fake import HOSTILE, HURRY, Fake, built_page, picture, status, stream, trainer

BUILT = BIN.parent / "daemon/http/page.c"
LOADS = "Failed to load resource"  # Chromium's own line where an answer is no 2xx, or none
browser = None


def look(fake, **keys):
    return browser.open(fake.url, before=HURRY, **keys)


def fake_of(said, **keys):
    return Fake(*built_page(BUILT), said, **keys)


def sheet_of(rows, **words):
    return lambda number: (200, "image/png", picture(len(rows), {"stream": number, "epoch": 3, "batch": 117, "batch_rows": 256, "step": 2,
                                                                 "images": rows, **words}))


# ---- what it shows ----


def test_shows_what_the_daemon_says():
    with fake_of(status()) as fake, look(fake) as page:
        page.reads("live", "#link")
        assert re.fullmatch(r"version 0.1.0 · pid 4100 · up 1 h \d\d min · 1 stream · 2 trainers", page.text("#daemon")), page.text("#daemon")
        page.reads("trainer-bound, 97 %: complete batches wait for the trainer", "#verdict")
        for words in ("97 %", "processors used by penstockd", "93.5 MiB/s; best 209.8 MiB/s"):
            page.reads(words, "#evidence")
        page.reads("3.1 GiB of 4.0 GiB reserved; the process has 1.9 GiB resident", "#memory-note")
        page.reads("read buffers", "#memory")
        page.reads("50.0 GiB of 64.0 GiB", "#machine")
        page.reads("61.0 GiB of 80.0 GiB, busy 93 %", "#machine")
        page.reads("OOM kills in the cgroup: 0", "#machine-note")
        page.reads("epoch 3, batch 117 of 5,004", "#streams")
        for words in ("256 images of 224 × 224 pixels", "0.4 ms at the median, 13 ms at p99", "truncated 2", "with trainers"):
            page.reads(words, "#streams")
        for words in ("4121", "python3 train.py --epochs 90 --seed 4122", "1 of 8 slots", "0.84", "3.0 GiB", "11.0 GiB"):
            page.reads(words, "#trainers")
        page.reads("/home/u/.local/state/penstock/record-4100", "#about")
        page.reads("9,120 requests, 1.2 GiB received, 38 connections, first byte p99 900 ms, 12 tried again, 3 hedges", "#about")
        page.reads("1.0 GiB of 2.0 GiB; 700.0 MiB read from it", "#about")
        page.quiet()


def test_measures_what_grows():
    def said(clock):
        return status(images=int(1000 + 800 * clock), stages={"decode": 10 + 1.5 * clock}, read_bytes=int(50 * 2**20 * clock))

    with fake_of(said) as fake, look(fake) as page:
        # Two answers are enough for a rate; the clock that it is by has tenths of a second.
        page.until("/^1\\.[3-7]\\d CPUs$/.test(document.querySelector('#stages .text')?.textContent)", "CPU of a stage")
        page.until("/^[678]\\d\\d images|^9[01]\\d images/.test(document.querySelector('.chart .now').textContent)", "a rate near 800 images/s")
        assert "nothing measured" not in page.value("document.querySelector('.chart svg').getAttribute('aria-label')")
        assert page.value("document.title").endswith("images/s · penstock")
        page.quiet()


def test_empty_states():
    with fake_of(status(streams=[], verdict="")) as fake, look(fake) as page:
        page.reads("No stream is open: no trainer has asked for batches yet.", "#verdict")
        page.reads("No trainer is attached.", "main")
        assert page.value("document.querySelector('#sheet-form').hidden")
        fake.status = status(streams=[{"name": "clips", "state": "indexing", "indexed_samples": 123456, "indexed_bytes": 3 << 30,
                                       "total_bytes": 10 << 30, "trainers": [{"pid": 7}]}], verdict="")
        page.reads("Indexing: the first batches come", "#verdict")
        page.reads("123,456 samples, 3.0 GiB of 10.0 GiB", "#streams")
        fake.status = status(streams=[stream(state="waiting for trainers", wait_for=4)], draining=True)
        page.reads("waiting for trainers", "#streams")
        page.reads("waits for 4 trainers", "#streams")
        page.reads("The daemon is draining", "#draining")
        assert page.text("#link") == "draining"
        page.quiet()


def test_keys_may_be_absent():
    """Or be what nobody expects: the page goes on, and says that it does not know."""
    with fake_of({}) as fake, look(fake) as page:
        page.reads("No stream is open", "#verdict")
        page.reads("The daemon does not say.", "main")
        odd = [None, 7, "text", [], {"trainers": None}, {"trainers": [None, 3, {"pid": "x", "waits": "much"}], "bottleneck": 4, "broken": [1]},
               {"state": "serving", "slots": None, "bottleneck": {"kind": None, "trainer_wait": None}, "waits_ms": None}]
        for streams in odd:
            before = len(fake.asked)
            fake.status = {"uptime_s": None, "memory": None, "machine": {"cgroup": None, "pressure": None}, "gpus": [None], "recorder": None,
                           "stages": {"decode": None}, "streams": [streams], "notices": [None, 1], "verdict": None}
            wait_until(lambda: len(fake.asked) > before + 1, "two more questions")
            page.reads("live", "#link")
        fake.status = []
        page.reads("No stream is open", "#verdict")
        page.quiet()


def test_streams_of_a_dataset_are_told_apart():
    """By what differs, everywhere a stream is named; each has its own remedy."""
    long = "/data/" + "deep/" * 20 + "imagenet"
    train = stream("", [trainer(11)], source=long, differs="train, 96 px, seed 1")
    evaluates = stream("", [trainer(12)], source=long, differs="eval, 96 px, seed 2", seed=2, train=False, remedy="try --threads 4")
    with fake_of(status([train, evaluates])) as fake, look(fake) as page:
        for words in (f"{long} · train, 96 px, seed 1", f"{long} · eval, 96 px, seed 2"):
            page.reads(words, "#streams")
        page.value("document.querySelectorAll('#streams details').forEach((one) => { one.open = true; })")
        page.reads("try --threads 4", "#streams")
        page.reads(f"{long} · eval, 96 px, seed 2", "#trainers")
        options = page.value("[...document.querySelectorAll('#sheet-stream option')].map((option) => option.textContent)")
        assert [option[-30:] for option in options] == [f"imagenet · {words}"[-30:] for words in ("train, 96 px, seed 1", "eval, 96 px, seed 2")], options
        assert all(len(option) == 80 and option[0] == "…" for option in options), options
        page.quiet()


def test_hostile_names_stay_text():
    evil = stream(HOSTILE, [trainer(1, command=HOSTILE)], differs=HOSTILE, remedy=HOSTILE, source=HOSTILE, group=HOSTILE, notice=HOSTILE, verdict=HOSTILE, state=HOSTILE,
                  broken={HOSTILE: 1}, decode=HOSTILE)
    said = status([evil], verdict=HOSTILE, remedy=HOSTILE, notices=[HOSTILE], socket=HOSTILE, version=HOSTILE, http=HOSTILE, config=HOSTILE,
                  memory={"budget": 1000, "reserved": 10, "lines": [{"name": HOSTILE, "bytes": 10}]},
                  gpus=[{"device": 0, "name": HOSTILE, "used": 1, "total": 2, "busy": 0.5}])
    sheet = sheet_of([{"index": 5, "label": 1, "class": HOSTILE, "flags": [HOSTILE]}])
    with fake_of(said, sheet=sheet) as fake, look(fake) as page:
        for place in ("#verdict", "#remedy", "#notices", "#daemon", "#streams", "#trainers", "#memory", "#machine", "#about"):
            page.reads(HOSTILE, place)
        page.value("document.querySelector('#sheet-show').click()")
        page.reads(HOSTILE, "#sheet")
        assert page.value("document.querySelectorAll('img, script, iframe, object').length") == 1  # the page's own script
        assert page.value("document.title") != "taken"
        page.quiet()


def test_blockers_and_broken_are_said():
    held = stream("held", [trainer(4130, blocks=True, held_s=75.2, held=8), trainer(4131)], notice="4 slots instead of 8",
                  bottleneck={"kind": "held", "trainer_wait": 0.9})
    with fake_of(status([stream(), held], verdict="held: one trainer holds its batches")) as fake, look(fake) as page:
        page.reads("pid 4130 blocks the other trainers of held for 1 min 15 s", "#blockers")
        page.reads("Evidence of held, over the last 10 seconds", "#verdict-of")
        assert page.value("document.querySelector('#verdict-card').dataset.tone") == "bad"
        assert page.value("document.querySelectorAll('details[open]').length") == 0
        page.value("document.querySelectorAll('summary')[1].click()")
        page.reads("4 slots instead of 8", "#streams")
        page.quiet()


def test_many_stay_usable():
    streams = [stream(f"stream {i}", [trainer(5000 + 4 * i + j, waits=i / 64) for j in range(4)]) for i in range(64)]
    with fake_of(status(streams)) as fake, look(fake) as page:
        page.reads("64 streams · 256 trainers", "#daemon")
        shown = "document.querySelectorAll('{}').length"
        assert page.value(shown.format("#streams > details")) == 12 and page.value(shown.format("#trainers > tr")) == 50
        assert page.text("#streams-more") == "Show all 64 streams" and page.text("#trainers-more") == "Show all 256 trainers"
        page.value("document.querySelector('#trainers-more').click()")
        page.until(shown.format("#trainers > tr") + " === 256", "all trainers")
        page.value("const sort = document.querySelector('#sort'); sort.value = 'waits'; sort.dispatchEvent(new Event('change'))")
        page.until("document.querySelector('#trainers td').textContent === '5252'", "who waits most on top")
        page.value("const f = document.querySelector('#filter'); f.value = 'Stream 17'; f.dispatchEvent(new Event('input'))")
        page.until(shown.format("#trainers > tr") + " === 4", "the trainers of one stream")
        assert page.text("#streams-count") == "1 of 64"
        page.value("const g = document.querySelector('#filter'); g.value = 'no such'; g.dispatchEvent(new Event('input'))")
        page.reads("No stream fits “no such”.", "#streams-empty")
        page.quiet()


def test_nodes_stay():
    """What one reads or has opened is not made anew each second, also when what is above it goes."""
    streams = [stream("one"), stream("two"), stream("three"), stream("four")]
    with fake_of(status(streams)) as fake, look(fake) as page:
        page.reads("three", "#streams")
        page.value("window.kept = document.querySelectorAll('details')[2]; kept.open = true; kept.firstElementChild.focus()")
        fake.status = status(streams[1:])
        page.until("document.querySelectorAll('details').length === 3", "a stream less")
        assert page.value("document.querySelectorAll('details')[1] === kept && kept.open && document.activeElement === kept.firstElementChild")
        page.quiet()


# ---- a daemon that is gone ----


SILENT = "((words) => / min /.test(words) || /^no answer for (\\d+) s$/.exec(words)?.[1] >= {})(document.querySelector('#link').textContent)"


def test_says_that_the_daemon_is_gone():
    with fake_of(status()) as fake, look(fake) as page:
        page.reads("live", "#link")
        fake.close()
        page.reads("; penstock why tells how it ended.", "#gone")
        page.until(SILENT.format(2), "the seconds to go on")
        assert page.text("#say") == "The daemon does not answer."
        assert page.text("#verdict").startswith("trainer-bound")  # what was known stays readable
        asked = len([url for url in page.asked if url.endswith("/status")])
        page.until(SILENT.format(20), "twenty seconds")
        assert len([url for url in page.asked if url.endswith("/status")]) - asked <= 5  # it asks more and more seldom
        page.quiet(but=(LOADS,))


def test_recovers():
    with fake_of(status()) as fake, look(fake) as page:
        page.reads("live", "#link")
        fake.code = 503
        page.reads("it answered 503", "#gone")
        fake.code, fake.status = 200, b"{ no JSON"
        page.reads("its answer is not JSON", "#gone")
        fake.status = status()
        page.reads("live", "#link")
        assert page.value("document.querySelector('#gone').hidden") and page.text("#say") == "The daemon answers again."
        page.quiet(but=(LOADS,))


def test_a_loop_that_hangs():
    """The HTTP thread still answers, with what the event loop said last."""
    with fake_of(b'{"uptime_s": 12.5, "streams": []}') as fake, look(fake) as page:
        page.reads("not responding", "#link")
        page.reads("its event loop has not turned since", "#gone")
        fake.status = status(streams=[])
        page.reads("live", "#link")
        page.quiet()


# ---- the contact sheet ----


def test_sheet_has_captions_and_pixels():
    rows = [{"index": 100 + i, "label": i, "class": f"class-{i}" if i else "", "flags": ["flipped"] if i == 2 else ["substituted"] if i == 3 else []}
            for i in range(6)] + [{"index": 106, "label": -1, "class": "", "flags": []}]
    with fake_of(status(), sheet=sheet_of(rows)) as fake, look(fake) as page:
        page.reads("live", "#link")
        assert not [path for path in fake.asked if path.startswith("/sheet")]  # on demand alone
        page.value("document.querySelector('#sheet-show').click()")
        page.reads("imagenet train: epoch 3, batch 117; 7 of 256 rows, every second pixel", "#sheet-note")
        for words in ("class 0\nsample 100", "class-2\nflipped\nsample 102", "class-3\nsubstituted", "unlabelled\nsample 106"):
            page.reads(words.split("\n")[0], "#sheet")
            page.reads(words.split("\n")[-1], "#sheet")
        got = page.value("[...document.querySelectorAll('#sheet canvas')].map(c => [c.getAttribute('aria-label'), "
                         "...c.getContext('2d').getImageData(10, 20, 1, 1).data])")
        # The ramps of page_fake.picture().
        assert got[2] == ["class-2, flipped, sample 102", 10 * 5 + 2 * 40, (20 * 5 + 2 * 90) % 256, 2 * 37, 255], got[2]
        assert got[0][0] == "class 0, sample 100"  # a class without a name is its number
        assert got[6][0] == "unlabelled, sample 106"
        page.quiet()


def test_sheet_again_and_none():
    answers = [lambda n: (404, "text/plain", b"no batch yet\n")]
    with fake_of(status([stream("a"), stream("b")]), sheet=lambda n: answers[0](n)) as fake, look(fake) as page:
        page.reads("live", "#link")
        page.value("document.querySelector('#sheet-show').click()")
        page.reads("No batch is complete now; the page shows the next one as soon as it is complete.", "#sheet-note")
        answers[0] = sheet_of([{"index": 1, "label": 1, "class": "hen", "flags": []}])
        page.reads("hen", "#sheet")  # nobody clicked again
        page.value("document.querySelector('#sheet-auto').click()")
        answers[0] = sheet_of([{"index": 1, "label": 1, "class": "ostrich", "flags": []}])
        page.reads("ostrich", "#sheet")
        answers[0] = lambda n: (200, "image/png", b"\x89PNG no more")
        page.reads("No images:", "#sheet-note")
        answers[0] = sheet_of([{"index": 1, "label": 1, "class": "tench", "flags": []}])
        page.value("const s = document.querySelector('#sheet-stream'); s.selectedIndex = 1; s.dispatchEvent(new Event('change'))")
        page.reads("tench", "#sheet")
        assert "/sheet?stream=1" in fake.asked
        page.quiet(but=(LOADS,))


# ---- how it looks ----

CONTRAST = """(() => {
    const light = (c) => { const [r, g, b] = c.match(/[\\d.]+/g).slice(0, 3).map((v) => (v /= 255, v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const paper = (n) => { for (; n; n = n.parentElement) { const c = getComputedStyle(n).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return "rgb(255,255,255)"; };
    const poor = [];
    for (const node of document.querySelectorAll("body *")) {
        const own = [...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim());
        if (!own || !node.checkVisibility() || node.closest("template, script, style, .unseen"))
            continue;
        const [a, b] = [light(getComputedStyle(node).color), light(paper(node))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5)
            poor.push(`${node.tagName} ${node.className} ${node.textContent.slice(0, 40)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
    }
    return poor;
})()"""
NAMELESS = """[...document.querySelectorAll("button, select, input, a, [role=img], [role=meter], [role=region]")].filter((n) => n.checkVisibility() &&
    !(n.getAttribute("aria-label") || n.labels?.length || n.getAttribute("aria-labelledby") || n.textContent.trim())).map((n) => n.outerHTML)"""


def full_status():
    """Every kind of text that the page has."""
    held = stream("validation", [trainer(4130, blocks=True, held_s=12.3, held=8)], notice="4 slots instead of 8", train=False, share="split",
                  rank=3, world_size=8, bottleneck={"kind": "held", "trainer_wait": 0.62, "slots_full": 1.0})
    return status([stream(), held], notices=["io_uring is not permitted here: reading with 16 threads instead"], draining=True,
                  verdict="validation: one trainer holds its batches: pid 4130 has 8 of 8",
                  remedy="find out why pid 4130 has stopped; laggard: detach lets the others go on")


def test_readable_everywhere():
    rows = [{"index": i, "label": i, "class": f"class-{i}", "flags": ["substituted"] if i == 3 else []} for i in range(9)]
    with fake_of(full_status(), sheet=sheet_of(rows)) as fake:
        for keys in ({}, {"dark": True}, {"width": 360, "height": 740, "phone": True}):
            with look(fake, **keys) as page:
                page.reads("draining", "#link")
                page.value("document.querySelector('#sheet-show').click(); document.querySelectorAll('details').forEach((d) => { d.open = true; })")
                page.reads("class-3", "#sheet")
                assert page.value("document.documentElement.scrollWidth") <= page.width, "it scrolls sideways"
                assert page.value("document.body.scrollWidth") <= page.width
                poor = page.value(CONTRAST)
                assert not poor, (keys, poor)
                assert page.value(NAMELESS) == [], page.value(NAMELESS)
                paper = page.value("getComputedStyle(document.body).backgroundColor")
                assert ("rgb(18" in paper) == bool(keys.get("dark")), paper
                page.quiet()


def test_keyboard_reaches_everything():
    with fake_of(full_status()) as fake, look(fake) as page:
        page.reads("draining", "#link")
        reached = []
        for _ in range(12):
            for kind in ("rawKeyDown", "keyUp"):
                page.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
            reached.append(page.value("document.activeElement.id || document.activeElement.className || document.activeElement.tagName"))
        for part in ("skip", "SUMMARY", "scroll", "sheet-stream", "sheet-show", "sheet-auto"):
            assert part in reached, (part, reached)
        page.quiet()


def test_nothing_jumps():
    """A second later every heading is where it was."""
    with fake_of(lambda clock: status(images=int(500 * clock), stages={"read": clock / 9, "decode": clock, "pixel": clock / 3, "serve": 0})) as fake:
        with look(fake) as page:
            page.until("document.querySelector('#stages .text')?.textContent.endsWith('CPUs')", "rates")
            where = "JSON.stringify([...document.querySelectorAll('h1, h2')].map((h) => [h.offsetLeft, h.offsetTop]))"
            first, asked = page.value(where), len(fake.asked)
            wait_until(lambda: len(fake.asked) > asked + 2, "three more answers")
            assert page.value(where) == first
            page.quiet()


# ---- a real daemon ----


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read(), answer.headers


def pixels_of(png):
    """(width, height, rgb, text) of a PNG whose lines are filtered by `none` or `sub`."""
    at, chunks = 8, {}
    while at < len(png):
        size, kind = struct.unpack_from(">I4s", png, at)
        chunks[kind] = chunks.get(kind, b"") + png[at + 8:at + 8 + size]
        at += size + 12
    width, height = struct.unpack_from(">II", chunks[b"IHDR"])
    raw, out, stride = zlib.decompress(chunks[b"IDAT"]), bytearray(), width * 3 + 1
    for y in range(height):
        kind, line = raw[y * stride], bytearray(raw[y * stride + 1:(y + 1) * stride])
        assert kind in (0, 1), kind
        for x in range(3, len(line)) if kind else ():
            line[x] = (line[x] + line[x - 3]) & 255
        out += line
    return width, height, bytes(out), chunks[b"iTXt"].partition(b"\0")[2][4:].decode()


def image_of(reader, batch, row):
    memory, stride = reader.extents[batch.extent]
    *_, images, _, _, row_bytes = reader.head(batch)
    at = batch.slot * stride + images + row * row_bytes
    return memory[at:at + row_bytes]


def said_by(daemon):
    with Link(daemon.socket) as link:
        return json.loads(link.query(STATUS))


@contextlib.contextmanager
def real_daemon(*options):
    """With a page on a port of the kernel's choice; (daemon, url, home)."""
    with folder() as home:
        with Daemon(home, "--memory", "512M", "--http", "0", *options) as daemon:
            yield daemon, said_by(daemon)["http"], home


def test_real_daemon_is_shown():
    with real_daemon() as (daemon, url, home):
        data = make_dataset(home / "<b>data", classes=3, per_class=20)
        with Link(daemon.socket) as link, browser.open(url) as page:
            page.reads("No stream is open: no trainer has asked for batches yet.", "#verdict")
            reader = link.open(source=data, batch_size=8, image_size=64, seed=1)
            reader.opened()
            page.reads(str(data), "#streams")
            page.reads(str(os.getpid()), "#trainers")
            page.reads("stream of a client", "#memory")
            page.reads("epoch 0, batch", "#streams")
            page.value("document.querySelector('#sheet-show').click()")
            page.reads("sample", "#sheet")
            names = {path.name for path in Path(data).iterdir() if path.is_dir()}
            shown = page.value("[...document.querySelectorAll('#sheet .name')].map((n) => n.textContent)")
            assert len(shown) == 8 and set(shown) <= names, (shown, names)
            page.quiet()


def test_real_sheet_is_the_newest_batch():
    """Pixel by pixel what lies in shared memory."""
    with real_daemon() as (daemon, url, home):
        data = make_dataset(home / "data", classes=3, per_class=20)
        with Link(daemon.socket) as link:
            reader = link.open(source=data, batch_size=12, image_size=232, seed=1, prefetch=2, epochs=1)
            reader.opened()
            batches = [reader.next(), reader.next()]  # held: both slots are complete, so the newest stays the newest
            png = get(f"{url}sheet?stream=0")[0]
            width, height, rgb, text = pixels_of(png)
            words = json.loads(text)
            assert json.loads(get(f"{url}sheet.json?stream=0")[0]) == words
            batch = batches[1]
            assert (words["epoch"], words["batch"], words["batch_rows"], words["rows"], words["columns"]) == (batch.epoch, batch.batch, 12, 12, 4)
            assert [row["index"] for row in words["images"]] == [row.index for row in reader.rows(batch)]
            side, step = words["width"], words["step"]
            assert (width, height) == (4 * side, 3 * side) and side == -(-232 // step) and step == 1
            for row in range(12):
                image = image_of(reader, batch, row)
                for y in range(0, 232, 17):
                    at = ((row // 4 * side + y) * width + row % 4 * side) * 3
                    assert rgb[at:at + side * 3] == image[y * 232 * 3:(y + 1) * 232 * 3], (row, y)
            with_nobody = urllib.request.Request(f"{url}sheet?stream=7")
            try:
                urllib.request.urlopen(with_nobody, timeout=30)
                raise AssertionError("a sheet of a stream that is not there")
            except urllib.error.HTTPError as refused:
                assert refused.code == 404, refused
                refused.close()


def test_real_sheet_of_a_trainer_that_writes():
    """pin_memory leaves the slots writable to their one trainer: what it wrote is shown, and nothing of it is believed."""
    with real_daemon() as (daemon, url, home):
        data = make_dataset(home / "data", classes=3, per_class=20)
        with Link(daemon.socket) as link:
            reader = link.open(source=data, batch_size=4, image_size=64, seed=1, prefetch=2, pin_memory=True)
            descriptors, file = [], reader.file

            def keep(kind, body, fds):
                descriptors.extend(map(os.dup, fds))
                file(kind, body, fds)

            reader.file = keep
            reader.next()
            batch = reader.next()
            *_, images, _, records, _ = reader.head(batch)
            with mmap.mmap(descriptors[0], 0) as memory:
                at = batch.slot * reader.extents[batch.extent][1]
                struct.pack_into("<Qq", memory, at + records, 2**64 - 1, 2**62)
                struct.pack_into("<I", memory, at + records + 40, 2**32 - 1)
                memory[at + images:at + images + 3] = b"\1\2\3"
                memory[at + 8:at + 144] = b"\xff" * 136  # its head, but for the magic
            _, _, rgb, text = pixels_of(get(f"{url}sheet?stream=0")[0])
            words = json.loads(text)
            assert (words["rows"], words["batch"], words["width"]) == (4, batch.batch, 64), words
            assert words["images"][0] == {"index": 2**64 - 1, "label": 2**62, "class": "",
                                          "flags": ["flipped", "flipped vertically", "substituted", "padded", "invalid"]}
            assert rgb[:3] == b"\1\2\3"
            for fd in descriptors:
                os.close(fd)


def test_real_daemon_goes():
    with folder() as home:
        with Daemon(home, "--memory", "512M", "--http", "0") as daemon:
            with browser.open(said_by(daemon)["http"]) as page:
                page.reads("live", "#link")
                daemon.stop()
                page.reads("; penstock why tells how it ended.", "#gone")
                page.quiet(but=(LOADS,))


def test_real_policy_is_sent():
    """A page that says more than it was built with is refused by the browser: the policy names its script and style by their hashes."""
    html, policy = built_page(BUILT)
    with real_daemon() as (_, url, _):
        body, headers = get(url)
        assert body == html and headers["Content-Security-Policy"] == policy
    with Fake(html.replace(b"</body>", b"<script>document.title='taken'</script><img src='http://127.0.0.2:9/x.png'></body>"), policy, status()) as fake:
        with browser.open(fake.url) as page:
            page.reads("live", "#link")
            assert page.value("document.title") != "taken"
            assert len([c for c in page.complaints if "Content Security Policy" in c]) >= 2, page.complaints


# ---- to look at ----

STYLES = {"light": {}, "dark": {"dark": True}, "phone": {"width": 360, "height": 740, "phone": True}}


def growing(clock):
    return {**full_status(), "images": int(2200 * clock + 9000 * math.sin(clock / 20)), "read_bytes": int(98e6 * clock + 6e8 * math.sin(clock / 15)),
            "stages": {"read": 0.2 * clock, "decode": 3.9 * clock, "pixel": 1.7 * clock, "serve": 0.02 * clock}}


def draw(to, name, said, code=200):
    rows = [{"index": 100 + i, "label": i, "class": f"class-{i}", "flags": ["flipped"] * (i % 2)} for i in range(36)]
    for style, keys in STYLES.items():
        with fake_of(said, sheet=sheet_of(rows)) as fake, look(fake, **keys) as page:
            page.reads("up ", "#daemon")
            page.value("document.querySelector('#sheet-show').click()")
            time.sleep(5)  # forty seconds of the page's
            fake.code = code
            time.sleep(2 if code != 200 else 0)
            page.picture(to / f"{name}-{style}.png")


def draw_real(to):
    """With generated images, and a trainer that is this one."""
    with real_daemon() as (daemon, url, home):
        data = make_dataset(home / "photos", classes=6, per_class=60, min_side=300, max_side=420)
        with Link(daemon.socket) as link:
            reader = link.open(source=data, batch_size=36, image_size=224, seed=1)
            for style, keys in STYLES.items():
                with browser.open(url, **keys) as page:
                    page.reads(str(data), "#streams")
                    for _ in range(60):
                        reader.read(1)
                        time.sleep(0.2)
                    page.value("document.querySelector('#sheet-show').click()")
                    page.reads("sample", "#sheet")
                    page.picture(to / f"real-{style}.png")


def draw_all(to):
    to.mkdir(parents=True, exist_ok=True)
    draw(to, "full", growing)
    draw(to, "many", status([stream(f"stream {i}", [trainer(5000 + 4 * i + j) for j in range(4)]) for i in range(64)]))
    draw(to, "empty", status(streams=[], verdict=""))
    draw(to, "gone", growing, code=503)
    draw_real(to)


def main():
    global browser
    try:
        browser = Browser()
    except Skip as reason:
        print(f"skip: {reason}")
        sys.exit(77)
    with browser:
        if sys.argv[1:2] == ["--pictures"]:
            draw_all(Path(sys.argv[2]))
        else:
            run_tests(globals())


if __name__ == "__main__":
    main()
