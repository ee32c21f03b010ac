"""The decoder against Pillow on PNGs that the test writes itself.

    png_corpus.py DECODE_DUMP OUTCOMES.md

Every color type and depth, interlaced and not, all filters, odd sizes, palettes too short and too long, every chunk
that Pillow judges in good and bad form, animations, data cut and split everywhere, and seeded random damage. Names of
files that differ on purpose begin with a prefix that OUTCOMES.md lists."""
import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path

from jpeg_corpus import Image, check_regions, check_whole, on_purpose  # skips where Pillow is missing

SIGNATURE = b"\x89PNG\r\n\x1a\n"
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
PAIRS = [(d, 0) for d in (1, 2, 4, 8, 16)] + [(d, 3) for d in (1, 2, 4, 8)] + [(d, c) for c in (2, 4, 6) for d in (8, 16)]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(name, data=b"", length=None, crc=None):
    crc = zlib.crc32(name + data) if crc is None else crc
    return struct.pack(">I", len(data) if length is None else length) + name + data + struct.pack(">I", crc)


def header(w, h, depth, color, interlace=0, compression=0, filtering=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, compression, filtering, interlace))


def rows(rng, w, h, bits):
    """Rows of random filter and random bytes: what they mean after filtering is for both readers to agree on."""
    return b"".join(bytes([rng.randrange(5)]) + rng.randbytes((w * bits + 7) // 8) for _ in range(h)) if w else b""


def pixels(rng, w, h, depth, color, interlace):
    bits = depth * CHANNELS[color]
    if not interlace:
        return rows(rng, w, h, bits)
    passes = [((w - x + dx - 1) // dx, (h - y + dy - 1) // dy) for x, y, dx, dy in ADAM7]
    return b"".join(rows(rng, pw, ph, bits) for pw, ph in passes if pw > 0 and ph > 0)


def idat(data, pieces=1, name=b"IDAT"):
    step = max(1, -(-len(data) // pieces))
    return b"".join(chunk(name, data[i:i + step]) for i in range(0, len(data), step))


def palette(rng, entries):
    return chunk(b"PLTE", rng.randbytes(entries * 3))


def png(*parts):
    return SIGNATURE + b"".join(parts) + chunk(b"IEND")


def all_kinds(rng):
    for depth, color in PAIRS:
        for interlace in (0, 1):
            for w, h in ((1, 1), (3, 2), (5, 7), (8, 8), (9, 17), (33, 31)):
                parts = [header(w, h, depth, color, interlace)]
                if color == 3:
                    parts.append(palette(rng, 1 << depth))
                data = zlib.compress(pixels(rng, w, h, depth, color, interlace), rng.choice((0, 1, 9)))
                yield f"kind-{color}-{depth}-{interlace}-{w}x{h}", png(*parts, idat(data, rng.choice((1, 2, 7))))
    wide = zlib.compress(pixels(rng, 700, 300, 8, 6, 0), 1)
    yield "kind-large", png(header(700, 300, 8, 6), idat(wide, 3))
    yield "kind-large-interlaced", png(header(700, 300, 8, 2, 1), idat(zlib.compress(pixels(rng, 700, 300, 8, 2, 1)), 1))


def headers(rng):
    data = idat(zlib.compress(pixels(rng, 6, 5, 8, 2, 0)))
    for depth in (0, 1, 2, 3, 4, 8, 16, 32):
        for color in range(8):
            yield f"header-{depth}-{color}", png(header(6, 5, depth, color), data)
    yield "header-interlace-2", png(header(6, 5, 8, 2, 2), idat(zlib.compress(pixels(rng, 6, 5, 8, 2, 1))))
    yield "header-compression-1", png(header(6, 5, 8, 2, 0, 1), data)
    yield "header-filter-1", png(header(6, 5, 8, 2, 0, 0, 1), data)
    yield "header-width-0", png(header(0, 5, 8, 2), data)
    yield "header-height-0", png(header(6, 0, 8, 2), data)
    yield "header-huge", png(header(0xFFFFFFFF, 0xFFFFFFFF, 8, 2), data)
    yield "header-tall", png(header(1, 0x80000000, 8, 2), data)
    yield "header-twice", png(header(9, 9, 8, 0), header(6, 5, 8, 2), data)
    yield "header-late", png(chunk(b"gAMA", bytes(4)), header(6, 5, 8, 2), data)
    yield "header-after-pixels", png(data, header(6, 5, 8, 2), data)
    yield "header-none", png(data)
    yield "header-short", png(chunk(b"IHDR", bytes(12)), data)
    yield "header-long", png(chunk(b"IHDR", struct.pack(">IIBBBBB", 6, 5, 8, 2, 0, 0, 0) + b"more"), data)


def palettes(rng):
    for depth in (1, 4, 8):
        full = idat(zlib.compress(pixels(rng, 20, 20, depth, 3, 0)))
        for entries in (0, 1, 2, 3, 200, 256, 257):
            yield f"palette-{depth}-{entries}", png(header(20, 20, depth, 3), palette(rng, entries), full)
        for size in (1, 5, 767, 769, 770, 771):
            yield f"palette-{depth}-bytes-{size}", png(header(20, 20, depth, 3), chunk(b"PLTE", rng.randbytes(size)), full)
        yield f"palette-{depth}-none", png(header(20, 20, depth, 3), full)
        yield f"palette-{depth}-late", png(header(20, 20, depth, 3), full, palette(rng, 16))
        yield f"palette-{depth}-twice", png(header(20, 20, depth, 3), palette(rng, 9), palette(rng, 3), full)
        yield f"palette-{depth}-before-header", png(palette(rng, 9), header(20, 20, depth, 3), full)
        for name, trns in (("one", b"\xff\0\xff"), ("many", b"\1\2\3"), ("empty", b""), ("all", bytes(256)), ("long", bytes(300))):
            t = chunk(b"tRNS", trns)
            yield f"palette-{depth}-trns-{name}", png(header(20, 20, depth, 3), palette(rng, 16), t, full)
            yield f"palette-{depth}-trns-{name}-alone", png(header(20, 20, depth, 3), t, full)
            yield f"palette-{depth}-trns-{name}-late", png(header(20, 20, depth, 3), full, t)
    for depth, color in PAIRS:
        data = idat(zlib.compress(pixels(rng, 6, 5, depth, color, 0)))
        for size in (0, 1, 2, 5, 6, 9):
            parts = [palette(rng, 4)] if color == 3 else []
            yield f"trns-{color}-{depth}-{size}", png(header(6, 5, depth, color), *parts, chunk(b"tRNS", rng.randbytes(size)), data)
        yield f"trns-{color}-{depth}-suggested", png(header(6, 5, depth, color), palette(rng, 4), data)


def bomb(size, extra=b""):
    return zlib.compress(bytes(size), 9) + extra


def chunks(rng):
    image = header(6, 5, 8, 2), idat(zlib.compress(pixels(rng, 6, 5, 8, 2, 0)))
    cases = {f"{name.decode()}-{size}": (name, rng.randbytes(size)) for name, least in (
        (b"gAMA", 4), (b"cHRM", 32), (b"sRGB", 1), (b"pHYs", 9), (b"acTL", 8), (b"fcTL", 26), (b"eXIf", 0), (b"tIME", 7), (b"zzZz", 3),
        (b"bKGD", 6), (b"hIST", 4), (b"sBIT", 3), (b"a_1b", 3)) for size in {0, max(0, least - 1), least, least + 3}}
    mega = 1 << 20
    cases |= {
        "iCCP": (b"iCCP", b"name\0\0" + bomb(100)), "iCCP-garbage": (b"iCCP", b"name\0\0garbage"),
        "iCCP-empty": (b"iCCP", b""), "iCCP-name-only": (b"iCCP", b"name\0"), "iCCP-no-zero": (b"iCCP", b"name"),
        "iCCP-no-name": (b"iCCP", b"\0\0" + bomb(9)), "iCCP-method": (b"iCCP", b"name\0\1" + bomb(9)),
        "iCCP-limit": (b"iCCP", b"name\0\0" + bomb(mega)), "iCCP-over": (b"iCCP", b"name\0\0" + bomb(mega + 1)),
        "iCCP-bomb": (b"iCCP", b"name\0\0" + bomb(mega * 20)), "iCCP-trailing": (b"iCCP", b"name\0\0" + bomb(mega, b"more")),
        "tEXt": (b"tEXt", b"key\0value"), "tEXt-no-zero": (b"tEXt", b"key"), "tEXt-empty": (b"tEXt", b""), "tEXt-latin": (b"tEXt", b"\xff\0\xfe"),
        "zTXt": (b"zTXt", b"key\0\0" + bomb(9)), "zTXt-method": (b"zTXt", b"key\0\1" + bomb(9)), "zTXt-empty": (b"zTXt", b""),
        "zTXt-key": (b"zTXt", b"key"), "zTXt-key-zero": (b"zTXt", b"key\0"), "zTXt-key-zero-zero": (b"zTXt", b"key\0\0"),
        "zTXt-garbage": (b"zTXt", b"key\0\0garbage"), "zTXt-bomb": (b"zTXt", b"key\0\0" + bomb(mega * 20)),
        "zTXt-limit": (b"zTXt", b"key\0\0" + bomb(mega)), "zTXt-over": (b"zTXt", b"key\0\0" + bomb(mega + 1)),
        "iTXt": (b"iTXt", b"key\0\0\0en\0tr\0value"), "iTXt-packed": (b"iTXt", b"key\0\1\0en\0tr\0" + bomb(9)),
        "iTXt-method": (b"iTXt", b"key\0\1\1en\0tr\0" + bomb(9)), "iTXt-method-plain": (b"iTXt", b"key\0\0\1en\0tr\0value"),
        "iTXt-empty": (b"iTXt", b""), "iTXt-key": (b"iTXt", b"key\0"), "iTXt-short": (b"iTXt", b"key\0\1"), "iTXt-lang": (b"iTXt", b"key\0\1\0en"),
        "iTXt-bomb": (b"iTXt", b"key\0\1\0en\0tr\0" + bomb(mega * 20)), "iTXt-garbage": (b"iTXt", b"key\0\1\0en\0tr\0garbage"),
        "iTXt-bytes": (b"iTXt", b"key\0\0\0\xff\0\xff\0\xff"),
        "not-a-name": (b"ab d", b"data"), "not-a-name-high": (b"abc\xe9", b"data"), "IEND-data": (b"IEND", b"data"), "DDAT": (b"DDAT", b"data"),
    }
    for name, (cid, data) in cases.items():
        yield f"chunk-{name}-before", png(image[0], chunk(cid, data), image[1])
        yield f"chunk-{name}-after", png(*image, chunk(cid, data))
        if len(data) < 500:
            yield f"chunk-{name}-crc", png(image[0], chunk(cid, data, crc=1), image[1])
            yield f"chunk-{name}-crc-after", png(*image, chunk(cid, data, crc=1))
            yield f"chunk-{name}-cut", SIGNATURE + image[0] + image[1] + chunk(cid, data, length=len(data) + 900)


def animations(rng):
    def control(number, w=6, h=5, x=0, y=0):
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, w, h, x, y, 1, 10, 0, 0))

    def frame(number, data):
        return chunk(b"fdAT", struct.pack(">I", number) + data)

    def actl(frames):
        return chunk(b"acTL", struct.pack(">II", frames, 0))

    head = header(6, 5, 8, 2)
    data = zlib.compress(pixels(rng, 6, 5, 8, 2, 0))
    other = zlib.compress(pixels(rng, 6, 5, 8, 2, 0))
    yield "apng-two", png(head, actl(2), control(0), idat(data), control(1), frame(2, other))
    yield "apng-default-outside", png(head, actl(2), idat(data), control(0), frame(1, other), control(2), frame(3, data))
    yield "apng-one-outside", png(head, actl(1), idat(data), control(0), frame(1, other))
    yield "apng-second-broken", png(head, actl(2), control(0), idat(data), control(7), frame(2, other))
    yield "apng-still-broken", png(head, idat(data), control(7), frame(2, other))
    yield "apng-still", png(head, idat(data), control(0), frame(1, other))
    yield "apng-sequence", png(head, actl(2), control(1), idat(data))
    yield "apng-twice", png(head, actl(2), actl(2), control(0), idat(data), control(7))
    yield "apng-zero-frames", png(head, actl(0), control(0), idat(data), control(7))
    yield "apng-outside-image", png(head, actl(2), control(0, 7, 5), idat(data))
    yield "apng-from-fdat", png(head, actl(1), control(0), frame(1, data))
    yield "apng-fdat-alone", png(head, frame(0, data))
    yield "apng-fdat-split", png(head, actl(1), control(0), frame(1, data[:20]), frame(2, data[20:]))
    yield "apng-fdat-split-wrong", png(head, actl(1), control(0), frame(1, data[:20]), frame(9, data[20:]))
    yield "apng-fdat-short", png(head, actl(1), control(0), chunk(b"fdAT", b"\0\0"))
    yield "apng-idat-then-fdat", png(head, actl(1), control(0), idat(data[:20]), frame(1, data[20:]))
    yield "apng-ddat", png(head, idat(data[:20]), chunk(b"DDAT", data[20:]))
    yield "apng-zero-width", png(head, actl(1), control(0, 0, 5), idat(data))
    part = zlib.compress(pixels(rng, 3, 2, 8, 2, 0))
    yield "partial-frame", png(head, actl(1), control(0, 3, 2, 1, 1), idat(part))


def streams(rng):
    for color, depth, interlace in ((2, 8, 0), (3, 4, 0), (0, 1, 1), (6, 16, 1)):
        name = f"stream-{color}-{depth}-{interlace}"
        head = header(9, 11, depth, color, interlace) + (palette(rng, 16) if color == 3 else b"")
        raw = pixels(rng, 9, 11, depth, color, interlace)
        data = zlib.compress(raw)
        for i in range(len(data)):
            yield f"{name}-cut-{i}", SIGNATURE + head + idat(data)[:8 + i]
        for i in range(0, len(data), 7):
            yield f"{name}-missing-{i}", png(head, idat(data[:i]) or chunk(b"IDAT"))
            yield f"{name}-split-{i}", png(head, idat(data[:i]), chunk(b"IDAT"), idat(data[i:]))
            yield f"{name}-parted-{i}", png(head, idat(data[:i]), chunk(b"tEXt", b"a\0b"), idat(data[i:]))
        for i in range(12):
            yield f"{name}-no-end-{i}", png(head, idat(data[:len(data) - i]))
            yield f"{name}-end-split-{i}", png(head, idat(data[:len(data) - i]), idat(data[len(data) - i:]) if i else b"")
        yield f"{name}-checksum", png(head, idat(data[:-1] + bytes([data[-1] ^ 1])))
        yield f"{name}-checksum-split", png(head, idat(data[:-2]), idat(data[-2:-1] + bytes([data[-1] ^ 1])))
        yield f"{name}-more-rows", png(head, idat(zlib.compress(raw + raw)))
        yield f"{name}-more-data", png(head, idat(data + b"more"))
        yield f"{name}-more-chunks", png(head, idat(data), idat(b"more"))
        yield f"{name}-short-row", png(head, idat(zlib.compress(raw[:-2])))
        yield f"{name}-crc", png(head, chunk(b"IDAT", data, crc=5))
        yield f"{name}-filter", png(head, idat(zlib.compress(b"\7" + raw[1:])))
        yield f"{name}-not-zlib", png(head, idat(b"xx" + data))
        yield f"{name}-window", png(head, idat(bytes([0x18, 0x19]) + data[2:]))
        yield f"{name}-dictionary", png(head, idat(bytes([0x78, 0x20 | 0x5d & 0x1f, 0, 0, 0, 1]) + data[2:]))
        yield f"{name}-no-iend", SIGNATURE + head + idat(data)
        yield f"{name}-trailing", png(head, idat(data)) + b"trailing" * 20
        stride = 1 + (9 * depth * CHANNELS[color] + 7) // 8
        if not interlace:
            yield f"early-end-{color}-{depth}", png(head, idat(zlib.compress(raw[:stride * 4])))
    noise = rng.randbytes(300 * 301)
    big = zlib.compress(b"".join(b"\0" + noise[i * 300:i * 300 + 300] for i in range(300)), 0)
    for pieces in (1, 2):
        for lost in (1, 3, 4, 5, 30000):
            yield f"stream-big-{pieces}-{lost}", png(header(300, 300, 8, 0), idat(big[:-lost], pieces))
        yield f"stream-big-{pieces}-bad", png(header(300, 300, 8, 0), idat(big[:-1] + bytes([big[-1] ^ 1]), pieces))


def pillow_written(folder, rng):
    """What Pillow itself writes, for each of its modes."""
    source = Image.frombytes("RGBA", (61, 47), rng.randbytes(61 * 47 * 4))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = source.convert("L").convert("I").point(lambda v: v * 257).convert("I;16") if mode == "I;16" else source.convert(mode)
        image.save(folder / f"pillow-{mode.replace(';', '')}.png", dpi=(72, 72))
        image.save(folder / f"pillow-{mode.replace(';', '')}-optimized.png", optimize=True)


def damaged(rng, good, count):
    """Bytes changed, taken out and put in; half of them with the checksums mended, so that they are looked at."""
    for i in range(count):
        name, data = rng.choice(good)
        data = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(8, len(data))
            kind = rng.randrange(3)
            if kind == 0:
                data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255))
            elif kind == 1:
                del data[at:at + rng.choice((1, 1, 4, 20))]
            else:
                data[at:at] = rng.randbytes(rng.choice((1, 1, 4)))
            if len(data) < 10:
                break
        yield f"damaged-{i}-{name}", mend(bytes(data)) if i % 2 else bytes(data)


def mend(data):
    out, at = bytearray(data), 8
    while at + 12 <= len(data):
        end = at + 8 + int.from_bytes(data[at:at + 4], "big")
        if end + 4 > len(data):
            break
        out[end:end + 4] = struct.pack(">I", zlib.crc32(data[at + 4:end]))
        at = end + 4
    return bytes(out)


def main():
    verbose = "-v" in sys.argv
    dump, page = [a for a in sys.argv[1:] if a != "-v"]
    rng = random.Random(20)
    with tempfile.TemporaryDirectory(prefix="penstock-png-") as name:
        folder = Path(name)
        made = [case for make in (all_kinds, headers, palettes, chunks, animations, streams) for case in make(rng)]
        good = [c for c in made if c[0].startswith(("kind-2-8", "kind-3", "kind-0-1-1", "apng-two", "chunk-iCCP-b", "chunk-zTXt-b"))]
        for case, data in [*made, *damaged(rng, good, 1500)]:
            (folder / f"{case}.png").write_bytes(data)
        pillow_written(folder, rng)
        files = sorted(folder.iterdir())
        prefixes = tuple(name[:-1] for name in on_purpose(Path(page)) if name.endswith("*"))
        listed = {f.name for f in files if f.name.startswith(prefixes)} if prefixes else set()
        wrong, accepted = check_whole(dump, files, listed, verbose)
        wrong += check_regions(dump, accepted, 150)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
