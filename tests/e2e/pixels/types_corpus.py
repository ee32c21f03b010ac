"""The decoder against Pillow on BMPs, Netpbm's formats, GIFs, WebPs and TIFFs that the test makes itself.

    types_corpus.py DECODE_DUMP OUTCOMES.md

Every header, depth, mask, palette and compression of BMP; PBM, PGM and PPM, binary and plain, with comments, signs and
odd largest values; GIFs with frames smaller and larger than the screen, interlaced, with and without palettes, of all
code sizes; WebPs lossy, lossless, with alpha and animated; TIFFs of all
kinds of samples, in strips and tiles, in both byte orders; what Pillow itself writes; and seeded random damage. PENSTOCK_TEST_NIGHTLY=1: twenty times as
much damage, and more sizes of TIFFs."""
import io
import os
import random
import struct
import sys
import tempfile
import zlib
from pathlib import Path

from jpeg_corpus import Image, check_regions, check_whole, describe, on_purpose, open_rgb, run_dump  # skips where Pillow is missing

NIGHTLY = os.environ.get("PENSTOCK_TEST_NIGHTLY") == "1"
DAMAGED = 12000 if NIGHTLY else 600
MOST_PIXELS = 64_000_000
MASKS = {32: [(0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF000000, 0xFF00, 0xFF, 0),
              (0xFF000000, 0xFF0000, 0xFF00, 0xFF), (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
              (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0), (1, 2, 4, 8)],
         24: [(0xFF0000, 0xFF00, 0xFF, 0), (0xFF, 0xFF00, 0xFF0000, 0)],
         16: [(0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0), (0xF00, 0xF0, 0xF, 0)], 8: [(0xFF0000, 0xFF00, 0xFF, 0)]}


# ---- BMP ----

def gray_palette(colors, entry):
    values = (0, 255) if colors == 2 else range(colors)
    return b"".join(bytes([v & 255] * 3 + [0] * (entry - 3)) for v in values)


def bmp(rng, width, height, bits, head=40, compression=0, colors=0, palette=None, masks=None, offset=None, data=None, down=False):
    """A BMP of random bytes; what they mean is for both readers to agree on."""
    entry = 3 if head == 12 else 4
    if palette is None:
        palette = rng.randbytes(entry * (colors or (1 << bits))) if bits <= 8 else b""
    stride = (width * bits + 31) // 32 * 4
    data = rng.randbytes(stride * height) if data is None else data
    if head == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IIiHHIIIIII", head, width, -height if down else height, 1, bits, compression, len(data), 2835, 2835, colors, 0)
        packed = struct.pack("<IIII", *(masks or (0, 0, 0, 0)))
        info += (packed + bytes(200))[:head - 40] if head > 40 else packed[:12] if compression == 3 else b""
    at = 14 + len(info) + len(palette) if offset is None else offset
    return b"BM" + struct.pack("<IHHI", (at + len(data)) % (1 << 32), 0, 0, at) + info + palette + data


def runs(rng, width, height, nibbles):
    """Run-length codes: runs, literals, ends of rows, jumps; some too long, some too short."""
    out, pixels = bytearray(), 0
    while pixels < width * height and len(out) < 4 * width * height + 20:
        kind = rng.randrange(12)
        if kind < 6:
            count = rng.randrange(1, min(255, width + 2) + 1)
            out += bytes([count, rng.randrange(256)])
            pixels += count
        elif kind < 9:
            count = rng.randrange(3, min(255, width + 3) + 1)
            literal = rng.randbytes((count + 1) // 2 if nibbles else count)
            out += bytes([0, count]) + literal + bytes(len(literal) % 2)
            pixels += count
        elif kind < 11:
            out += b"\0\0"
            pixels += (-pixels) % width
        else:
            right, up = rng.randrange(4), rng.randrange(2)
            out += bytes([0, 2, right, up])
            pixels += right + up * width
    return bytes(out) + rng.choice((b"", b"\0\1", b"\0\0\0\1", rng.randbytes(6)))


def bmps(rng):
    sizes = ((1, 1), (3, 2), (5, 7), (8, 8), (9, 17), (33, 31))
    for bits in (1, 4, 8, 16, 24, 32):
        for head in (12, 40, 52, 56, 64, 108, 124):
            for width, height in sizes:
                yield f"bmp-{bits}-{head}-{width}x{height}", bmp(rng, width, height, bits, head, down=head > 12 and width % 2)
        for head in (40, 52, 56, 64, 108, 124):
            for i, masks in enumerate(MASKS.get(bits, ())):
                yield f"bmp-masks-{bits}-{head}-{i}", bmp(rng, 7, 5, bits, head, 3, masks=masks)
    for bits in (1, 4, 8):
        for colors in (0, 1, 2, 3, 16, 200, 256, 257, 65536, 65537):
            for entry, head in ((4, 40), (3, 12)):
                if head == 12 and colors:
                    continue
                count = colors or 1 << bits
                for name, palette in (("random", None), ("gray", gray_palette(count, entry)), ("short", rng.randbytes(5)),
                                      ("nearly", gray_palette(count, entry)[:-1]), ("none", b"")):
                    for width in (3, 9):
                        yield f"bmp-palette-{bits}-{colors}-{head}-{name}-{width}", bmp(rng, width, 6, bits, head, colors=colors, palette=palette)
    for bits in (1, 4, 8, 24):
        for offset in (0, 54, 26, 14, 10**6, 0xFFFFFFFF):
            yield f"bmp-offset-{bits}-{offset}", bmp(rng, 5, 4, bits, offset=offset)
        for compression in (4, 5, 6, 99):
            yield f"bmp-compression-{bits}-{compression}", bmp(rng, 5, 4, bits, compression=compression)
    for i in range(160):
        bits, compression = rng.choice(((8, 1), (4, 2), (8, 2), (4, 1), (1, 1), (24, 1)))
        width, height = rng.choice(sizes[1:])
        palette = rng.choice((None, None, gray_palette(1 << min(bits, 8), 4)))
        data = runs(rng, width, height, compression == 2)
        yield f"bmp-runs-{bits}-{compression}-{i}", bmp(rng, width, height, bits, 40, compression, palette=palette, data=data, down=i % 2)
    for bits in (0, 2, 3, 7, 15, 33, 64):
        yield f"bmp-depth-{bits}", bmp(rng, 5, 4, bits, palette=b"", data=bytes(400))
    for head in (0, 11, 13, 16, 41, 128, 0x7FFFFFFF):
        yield f"bmp-head-{head}", struct.pack("<2sIHHII", b"BM", 0, 0, 0, 54, head) + bytes(300)
    for width, height in ((0, 5), (5, 0), (0xFFFFFFFF, 5), (5, 0x7FFFFFFF), (70000, 1)):
        yield f"bmp-size-{width}x{height}", b"BM" + struct.pack("<IHHIIIIHHIIIIII", 0, 0, 0, 54, 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(300)


# ---- Netpbm ----

def numbers(rng, count, most):
    blanks = (b" ", b"\n", b"\t", b"  ", b"\r\n", b" # a comment 5\n", b"\x0b", b"\x0c")
    spell = (lambda v: b"%d" % v, lambda v: b"%d" % v, lambda v: b"+%d" % v, lambda v: b"0%d" % v)
    return b"".join(rng.choice(spell)(rng.randint(0, most)) + rng.choice(blanks) for _ in range(count))


def pnms(rng):
    for width, height in ((1, 1), (3, 2), (8, 5), (9, 17), (33, 8)):
        for i, sep in enumerate((b" ", b"\n", b"\n# hello 1 2 3\n", b"\t\r\n", b" #\r")):
            size = b"%d%s%d%s" % (width, sep, height, sep)
            yield f"pnm-4-{width}-{i}", b"P4\n" + size.rstrip(b"\t\r\n ") + b"\n" + rng.randbytes((width + 7) // 8 * height)
            bits = b"".join(rng.choice((b"0", b"1", b"0 ", b"1\n", b"1#x\n")) for _ in range(width * height))
            yield f"pnm-1-{width}-{i}", b"P1" + sep[:1].replace(b" ", b"\n") + size + bits
            for most in (1, 2, 100, 254, 255, 256, 1000, 65534, 65535):
                wide = 2 if most > 255 else 1
                head = b"%s%d\n" % (size, most)
                yield f"pnm-5-{width}-{i}-{most}", b"P5\n" + head + rng.randbytes(width * height * wide)
                yield f"pnm-6-{width}-{i}-{most}", b"P6 " + head + rng.randbytes(width * height * wide * 3)
                if i < 2:
                    yield f"pnm-2-{width}-{i}-{most}", b"P2\n" + head + numbers(rng, width * height, most)
                    yield f"pnm-3-{width}-{i}-{most}", b"P3\n" + head + numbers(rng, width * height * 3, most)
    odd = {"sign": b"P5\n+3 2 255\n", "minus": b"P5\n-3 2 255\n", "under": b"P5\n1_0 2 255\n", "unders": b"P5\n1__0 2 255\n",
           "last": b"P5\n10_ 2 255\n", "zero": b"P5\n0 2 255\n", "long": b"P5\n00000000003 2 255\n", "ten": b"P5\n0000000003 2 255\n",
           "most-0": b"P5\n3 2 0\n", "most-large": b"P5\n3 2 65536\n", "word": b"P5\nthree 2 255\n", "hex": b"P5\n0x3 2 255\n",
           "inside": b"P5\n1#c\n0 2 255\n", "magic": b"P5#c\n3 2 255\n", "magic-long": b"P55 3 2 255\n", "no-end": b"P5\n3 2",
           "comment": b"P5\n3 2 #", "huge": b"P5\n99999999 9999999 255\n", "nul": b"P5\n3\x002 255\n"}
    for name, head in odd.items():
        yield f"pnm-odd-{name}", head + rng.randbytes(60)
    plain = {"less": b"1 2 3", "more": b"1 2 3 4 5 6 7 8", "sign": b"+1 -0 +3 4 5 6", "minus": b"1 2 -3 4 5 6", "above": b"1 2 256 4 5 6",
             "word": b"1 2 x 4 5 6", "under": b"1_0 2 3 4 5 6", "long": b"00000000001 2 3 4 5 6 ", "no-blank": b"1 2 3 4 5 6",
             "comment": b"1 2#3\n3 4 5 6", "point": b"1.0 2 3 4 5 6"}
    for name, text in plain.items():
        yield f"pnm-plain-{name}", b"P2\n3 2 255\n" + text
    for name, text in {"less": b"01", "two": b"012010", "letter": b"01a010"}.items():
        yield f"pnm-bits-{name}", b"P1\n3 2\n" + text


# ---- GIF ----

def lzw(rng, indices, bits, clears=False, early=False):
    """LZW codes as writers make them; `clears`: clear codes in between; `early`: an end code before the end."""
    clear, out, have, value = 1 << bits, bytearray(), 0, 0
    table, width = {}, 0

    def put(code):
        nonlocal have, value
        value |= code << have
        have += width
        while have >= 8:
            out.append(value & 255)
            value >>= 8
            have -= 8

    def reset():
        nonlocal table, width
        table, width = {bytes([i]): i for i in range(clear)}, bits + 1

    reset()
    put(clear)
    count, word = clear + 2, b""
    for number, index in enumerate(indices):
        longer = word + bytes([index])
        if longer in table:
            word = longer
            continue
        put(table[word])
        if count < 4096:
            table[longer] = count
            if count == 1 << width and width < 12:
                width += 1
            count += 1
        word = bytes([index])
        if clears and rng.randrange(20) == 0:
            put(table[word])
            word = b""
            put(clear)
            reset()
            count = clear + 2
        if early and number == len(indices) // 2:
            break
    if word:
        put(table[word])
    if count == 1 << width and width < 12:
        width += 1
    put(clear + 1)
    if have:
        out.append(value & 255)
    return bytes(out)


def blocks(rng, data):
    out, at = b"", 0
    while at < len(data):
        size = rng.choice((255, 255, 7, 100))
        out += bytes([len(data[at:at + size])]) + data[at:at + size]
        at += size
    return out + b"\0"


def gif(rng, screen, frame, bits, interlaced=False, colors=None, local=None, control=None, extra=b"", data=None, tail=b";", indices=None):
    left, top, width, height = frame
    if indices is None:
        indices = [rng.randrange(1 << bits) if rng.randrange(3) else 0 for _ in range(width * height)]
    codes = max(bits, 2)
    data = lzw(rng, indices, codes) if data is None else data
    out = b"GIF89a" + struct.pack("<HHBBB", *screen, (0x80 | colors - 1) if colors else 0, 0, 0)
    out += (gray_palette(1 << colors, 3) if rng.randrange(4) == 0 else rng.randbytes(3 << colors)) if colors else b""
    if control is not None:
        out += b"!\xf9\4" + bytes([1, 0, 0, control]) + b"\0"
    out += extra + b"," + struct.pack("<HHHHB", left, top, width, height, (0x40 if interlaced else 0) | ((0x80 | local - 1) if local else 0))
    out += (gray_palette(1 << local, 3) if rng.randrange(3) == 0 else rng.randbytes(3 << local)) if local else b""
    return out + bytes([codes]) + blocks(rng, data) + tail


def gifs(rng):
    for bits in (1, 2, 3, 5, 8):
        for width, height in ((1, 1), (3, 2), (5, 7), (8, 8), (9, 17), (60, 61)):
            for interlaced in (False, True):
                yield f"gif-{bits}-{width}-{interlaced}", gif(rng, (width, height), (0, 0, width, height), bits, interlaced, colors=bits)
    for i in range(60):
        screen = rng.randrange(0, 20), rng.randrange(0, 20)
        frame = rng.randrange(8), rng.randrange(8), rng.randrange(0, 16), rng.randrange(0, 16)
        yield f"gif-frame-{i}", gif(rng, screen, frame, 3, i % 3 == 0, colors=rng.choice((None, 3, 1)), local=rng.choice((None, 3, 8)),
                                    control=rng.choice((None, 0, 2, 255)))
    comment, loop = b"!\xfe\5hello\2xy\0", b"!\xff\x0bNETSCAPE2.0\3\1\0\0\0"
    extras = {"comment": comment, "loop": loop, "plain": b"!\1\4abcd\0", "empty": b"!\xf9\0", "empty-comment": b"!\xfe\0", "app-empty": b"!\xff\0",
              "short": b"!\xf9\2\1\0\0", "three": b"!\xf9\3\0\0\0\0", "three-transparent": b"!\xf9\3\1\0\0\0", "twice": b"!\xf9\4\1\0\0\5\0!\xf9\4\1\0\0\1\0",
              "junk": b"junk", "trailer": b";", "end": b"!", "loop-short": b"!\xff\x0bNETSCAPE2.0\0", "zeros": b"\0\0\0"}
    for name, extra in extras.items():
        yield f"gif-extra-{name}", gif(rng, (9, 9), (1, 1, 6, 6), 3, colors=3, extra=extra)
    for i in range(40):
        indices = [rng.randrange(8) if rng.randrange(2) else 0 for _ in range(400)]
        codes = lzw(rng, indices, 3, clears=i % 2, early=i % 5 == 4)
        yield f"gif-codes-{i}", gif(rng, (20, 20), (0, 0, 20, 20), 3, i % 3 == 0, colors=3, data=codes, tail=rng.choice((b"", b";", b";" * 300)))
    long = [rng.randrange(256) for _ in range(12000)]
    yield "gif-full-table", gif(rng, (120, 100), (0, 0, 120, 100), 8, colors=8, indices=long)
    yield "gif-one-color", gif(rng, (300, 300), (0, 0, 300, 300), 1, colors=1, indices=[0] * 90000)
    for bits in (0, 1, 9, 11, 12, 13, 255):
        made = bytearray(gif(rng, (9, 9), (0, 0, 9, 9), 3, colors=3))
        made[13 + 24 + 10] = bits
        yield f"gif-bits-{bits}", bytes(made)
    whole = gif(rng, (9, 9), (0, 0, 9, 9), 3, colors=3)
    for cut in range(len(whole)):
        yield f"gif-cut-{cut:03}", whole[:cut]


# ---- WebP, as Pillow's libwebp writes it ----

def noise(rng, mode, width, height):
    small = Image.frombytes(mode, (6, 5), rng.randbytes(30 * len(mode)))
    return small.resize((width, height), Image.Resampling.BICUBIC)


def written(image, **options):
    file = io.BytesIO()
    image.save(file, "WEBP", **options)
    return file.getvalue()


def webps(rng):
    sizes = [(1, 1), (2, 3), (15, 16), (16, 17), (17, 33), (31, 9), (64, 64), (100, 75), (301, 211)]
    for width, height in sizes:
        for mode in ("RGB", "RGBA"):
            for name, options in {"q5": {"quality": 5}, "q80": {"quality": 80}, "q100": {"quality": 100, "method": 6},
                                  "lossless": {"lossless": True}, "exact": {"lossless": True, "exact": True, "method": 6, "quality": 100},
                                  "alpha-q": {"quality": 50, "alpha_quality": 30}}.items():
                yield f"webp-{mode}-{name}-{width}x{height}", written(noise(rng, mode, width, height), **options)
    few = Image.frombytes("L", (200, 150), bytes(rng.choice((0, 90, 255)) for _ in range(30000))).convert("RGB")
    yield "webp-palette", written(few, lossless=True, method=6)
    raw = Image.frombytes("RGBA", (120, 90), rng.randbytes(120 * 90 * 4))
    yield "webp-random", written(raw, lossless=True, exact=True)
    yield "webp-random-lossy", written(raw, quality=90)
    yield "webp-wide", written(noise(rng, "RGB", 16383, 2), quality=50)
    yield "webp-tall-lossless", written(noise(rng, "RGBA", 2, 16383), lossless=True)
    frames = [noise(rng, "RGBA", 50, 40) for _ in range(3)]
    for name, options in {"lossy": {}, "lossless": {"lossless": True}, "mixed": {"allow_mixed": True}}.items():
        yield f"webp-animation-{name}", written(frames[0], save_all=True, append_images=frames[1:], duration=40, **options)
    animation = bytearray(written(frames[0], save_all=True, append_images=frames[1:], duration=40))
    frame = animation.find(b"ANMF") + 8
    for name, x, y, canvas in (("moved", 3, 5, (60, 60)), ("wide", 0, 0, (300, 50)), ("outside", 9, 9, (50, 40))):
        made = bytearray(animation)
        at = -1
        while (at := made.find(b"ANMF", at + 1)) >= 0:
            made[at + 8:at + 14] = x.to_bytes(3, "little") + y.to_bytes(3, "little")
        vp8x = made.find(b"VP8X") + 8
        made[vp8x + 4:vp8x + 10] = (canvas[0] - 1).to_bytes(3, "little") + (canvas[1] - 1).to_bytes(3, "little")
        yield f"webp-frame-{name}", bytes(made)
    yield "webp-frame-size", bytes(animation[:frame + 6] + b"\x07\0\0\x07\0\0" + animation[frame + 12:])
    whole = written(noise(rng, "RGBA", 40, 30), quality=60)
    for cut in range(0, len(whole), 3):
        yield f"webp-cut-{cut:04}", whole[:cut]
    yield "webp-tail", whole + b"tail"
    yield "webp-none", b"RIFF\x04\0\0\0WEBP"
    yield "webp-kind", b"RIFF\x0c\0\0\0WEBPVP8Y\0\0\0\0"


# ---- TIFF ----

KINDS = {  # photometric, bits of a sample, samples, extra samples, format
    "white1": (0, 1, 1, (), 1), "white2": (0, 2, 1, (), 1), "white4": (0, 4, 1, (), 1), "white8": (0, 8, 1, (), 1), "white16": (0, 16, 1, (), 1),
    "white-float": (0, 32, 1, (), 3), "black1": (1, 1, 1, (), 1), "black2": (1, 2, 1, (), 1), "black4": (1, 4, 1, (), 1), "black8": (1, 8, 1, (), 1),
    "black8-signed": (1, 8, 1, (), 2), "black12": (1, 12, 1, (), 1), "black16": (1, 16, 1, (), 1), "black16-signed": (1, 16, 1, (), 2),
    "black32": (1, 32, 1, (), 1), "black32-signed": (1, 32, 1, (), 2), "black-float": (1, 32, 1, (), 3), "black64": (1, 64, 1, (), 3),
    "black-any": (1, 8, 2, (0,), 1), "black-premultiplied": (1, 8, 2, (1,), 1), "black-alpha": (1, 8, 2, (2,), 1), "black16-alpha": (1, 16, 2, (2,), 1),
    "rgb": (2, 8, 3, (), 1), "rgb-any": (2, 8, 4, (0,), 1), "rgb-premultiplied": (2, 8, 4, (1,), 1), "rgb-alpha": (2, 8, 4, (2,), 1),
    "rgb-missing": (2, 8, 4, (), 1), "rgb-corel": (2, 8, 4, (999,), 1), "rgb-any2": (2, 8, 5, (0, 0), 1), "rgb-premultiplied2": (2, 8, 5, (1, 0), 1),
    "rgb-alpha2": (2, 8, 5, (2, 0), 1), "rgb-alpha3": (2, 8, 6, (2, 0, 0), 1), "rgb-premultiplied3": (2, 8, 6, (1, 0, 0), 1), "rgb16": (2, 16, 3, (), 1),
    "rgb16-any": (2, 16, 4, (0,), 1), "rgb16-premultiplied": (2, 16, 4, (1,), 1), "rgb16-alpha": (2, 16, 4, (2,), 1), "rgb16-missing": (2, 16, 4, (), 1),
    "rgb-float": (2, 32, 3, (), 3), "palette1": (3, 1, 1, (), 1), "palette2": (3, 2, 1, (), 1), "palette4": (3, 4, 1, (), 1), "palette8": (3, 8, 1, (), 1),
    "palette-any": (3, 8, 2, (0,), 1), "palette-alpha": (3, 8, 2, (2,), 1), "palette16": (3, 16, 1, (), 1), "cmyk": (5, 8, 4, (), 1),
    "cmyk-any": (5, 8, 5, (0,), 1), "cmyk-any2": (5, 8, 6, (0, 0), 1), "cmyk16": (5, 16, 4, (), 1), "ycbcr": (6, 8, 3, (), 1), "y": (6, 8, 1, (), 1)}


def directory(tags, order, big, offset):
    """A directory and its data, for `offset` in the file. tags: number -> (type, values)."""
    out, data = b"", b""
    head = struct.pack(order + ("Q" if big else "H"), len(tags))
    entry, word = (20, 8) if big else (12, 4)
    behind = offset + len(head) + entry * len(tags) + word
    for number, (kind, values) in sorted(tags.items()):
        if kind in (1, 7):
            packed = values
        else:
            packed = b"".join(struct.pack(order + {3: "H", 4: "L", 16: "Q", 8: "h"}[kind], v) for v in values)
        out += struct.pack(order + ("HHQ" if big else "HHL"), number, kind, len(values))
        if len(packed) <= word:
            out += packed.ljust(word, b"\0")
        else:
            out += struct.pack(order + ("Q" if big else "L"), behind + len(data))
            data += packed + bytes(len(packed) % 2)
    return head + out + bytes(word) + data


def packbits(data):
    return b"".join(bytes([len(data[i:i + 100]) - 1]) + data[i:i + 100] for i in range(0, len(data), 100))


def tiff(rng, kind, width, height, order="<", big=False, compression=1, rows=None, tile=None, separate=False, fill=None, orientation=None,
         predictor=None, subsampling=None, samples=None, more=None, pack=None, first=0):
    """A TIFF of random samples, small numbers among those of more than 8 bits."""
    photo, bits, count, extras, form = KINDS[kind]
    rows = rows or height
    across, down = tile or (width, rows)
    planes = count if separate else 1
    each = bits * (1 if separate else count)
    pieces = []
    for _ in range(planes):
        for y in range(0, height, down):
            for _ in range(0, width, across):
                lines = down if tile else min(down, height - y)
                size = (across * each + 7) // 8 * lines
                if subsampling:
                    size = (across + subsampling[0] - 1) // subsampling[0] * ((lines + subsampling[1] - 1) // subsampling[1]) * \
                        (subsampling[0] * subsampling[1] + 2)
                data = rng.randbytes(size)
                if form == 3 and bits == 32:
                    data = b"".join(struct.pack(order + "f", rng.choice((rng.uniform(-50, 400), rng.randrange(256), float("nan")))) for _ in range(size // 4))
                elif bits in (16, 32) and photo < 2:
                    letter = {16: "h", 32: "i"}[bits]
                    data = b"".join(struct.pack(order + letter, rng.randrange(-100, 400)) for _ in range(size // (bits // 8)))
                if compression == 32773:
                    line = (across * each + 7) // 8
                    data = b"".join(packbits(data[i:i + line]) for i in range(0, size, line))
                elif compression in (8, 32946):
                    data = zlib.compress(data)
                pieces.append(pack(data) if pack else data)
    head = 16 if big else 8
    offsets, at = [], head
    for piece in pieces:
        offsets.append(at + first)
        at += len(piece)
    at += at % 2
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * count), 259: (3, [compression]), 262: (3, [photo]), 277: (3, [count])}
    places, sizes = (324, 325) if tile else (273, 279)
    long = 16 if big else 4
    tags[places], tags[sizes] = (long, offsets), (long, [len(p) for p in pieces])
    if tile:
        tags[322], tags[323] = (4, [across]), (4, [down])
    elif rows != height:
        tags[278] = (4, [rows])
    if separate:
        tags[284] = (3, [2])
    if extras:
        tags[338] = (3, extras)
    if form != 1:
        tags[339] = (3, [form] * count)
    if photo == 3:
        tags[320] = (3, [rng.randrange(65536) for _ in range(3 << min(bits, 8))])
    for number, value in ((266, fill), (274, orientation), (317, predictor)):
        if value:
            tags[number] = (3, [value])
    if photo == 6 and count == 3:
        tags[530] = (3, subsampling or (1, 1))
    tags.update(more or {})
    mark = {"<": b"II", ">": b"MM"}[order]
    start = mark + (struct.pack(order + "HHHQ", 43, 8, 0, at) if big else struct.pack(order + "HL", 42, at))
    body = start + b"".join(pieces)
    return body.ljust(at, b"\0") + directory({n: v for n, v in tags.items() if v is not None}, order, big, at)


def tiffs(rng):
    sizes = ((1, 1), (3, 2), (8, 8), (17, 33)) if NIGHTLY else ((3, 2), (17, 33))
    for kind in KINDS:
        for order in "<>":
            for compression in (1, 8):
                for width, height in sizes:
                    name = f"tiff-{kind}-{'le' if order == '<' else 'be'}-{compression}-{width}x{height}"
                    yield name, tiff(rng, kind, width, height, order, compression=compression, rows=rng.choice((None, 1, 3, 7)))
                yield name + "-tiles", tiff(rng, kind, 45, 35, order, compression=compression, tile=(32, 16))
                # Uncompressed separate samples are read by Pillow as if they had 8 bits, and others not at all.
                if compression == 8 or (KINDS[kind][1] == 8 and kind not in ("rgb-missing", "y")):
                    yield name + "-separate", tiff(rng, kind, 17, 9, order, compression=compression, rows=4, separate=True)
                    yield name + "-separate-tiles", tiff(rng, kind, 40, 20, order, compression=compression, tile=(16, 16), separate=True)
                yield name + "-fill", tiff(rng, kind, 21, 10, order, compression=compression, fill=2)
            yield name + "-packbits", tiff(rng, kind, 21, 10, order, compression=32773, rows=4)
        yield f"tiff-{kind}-big", tiff(rng, kind, 17, 9, big=True, rows=4)
        yield f"tiff-{kind}-big-tiles", tiff(rng, kind, 17, 19, big=True, tile=(16, 16), compression=8)
        yield f"tiff-{kind}-difference", tiff(rng, kind, 17, 9, rows=4, compression=8, predictor=2)
        yield f"tiff-{kind}-difference-be", tiff(rng, kind, 17, 9, ">", rows=4, compression=8, predictor=2)
        yield f"tiff-{kind}-float-difference", tiff(rng, kind, 17, 9, rows=4, compression=8, predictor=3)
    for kind in ("black4", "black16-signed", "rgb16", "rgb16-alpha", "cmyk16", "rgb-missing"):
        yield f"tiff-raw-separate-{kind}", tiff(rng, kind, 17, 9, rows=4, separate=True)
    yield "tiff-lab", tiff(rng, "rgb", 17, 9, more={262: (3, [8])})
    yield "tiff-tile-large", tiff(rng, "rgb", 3, 2, tile=(16, 16), compression=8, more={322: (4, [65536]), 323: (4, [65536])})
    for orientation in range(10):
        for kind, options in (("rgb", {"rows": 3}), ("palette4", {"compression": 8, "rows": 5}), ("rgb-alpha", {"tile": (16, 16), "compression": 8})):
            yield f"tiff-turned-{orientation}-{kind}", tiff(rng, kind, 21, 13, orientation=orientation, **options)
        xmp = b'<x tiff:Orientation="%d" tiff:Orientation>7<' % orientation
        yield f"tiff-turned-xmp-{orientation}", tiff(rng, "rgb", 21, 13, more={700: (1, xmp)})
        yield f"tiff-turned-both-{orientation}", tiff(rng, "rgb", 21, 13, orientation=1, more={700: (7, xmp)})
    for across, down in ((1, 1), (2, 1), (2, 2), (1, 2), (4, 4), (4, 1)):
        for size in ((16, 16), (21, 13)):
            yield f"tiff-ycbcr-{across}{down}-{size[0]}", tiff(rng, "ycbcr", *size, compression=8, rows=8, subsampling=(across, down))
            yield f"tiff-ycbcr-{across}{down}-{size[0]}-tiles", tiff(rng, "ycbcr", *size, compression=8, tile=(16, 16), subsampling=(across, down))
            yield f"tiff-ycbcr-{across}{down}-{size[0]}-raw", tiff(rng, "ycbcr", *size, rows=8, subsampling=(across, down))
    odd = {"no-photo": {262: None}, "photos": {262: (3, [2, 2])}, "no-width": {256: None}, "no-height": {257: None}, "no-samples": {277: None},
           "no-bits": {258: None}, "one-bits": {258: (3, [8])}, "many-bits": {258: (3, [8] * 5)}, "other-bits": {258: (3, [8, 8, 4])},
           "zero-width": {256: (4, [0])}, "wide": {256: (4, [70000])}, "huge": {256: (4, [60000]), 257: (4, [60000])}, "no-compression": {259: None},
           "compression-0": {259: (3, [0])}, "compression-6": {259: (3, [6])}, "compression-99": {259: (3, [99])}, "compression-byte": {259: (1, b"\1")},
           "no-offsets": {273: None}, "more-offsets": {273: (4, [8, 9, 10])}, "far-offset": {273: (4, [1 << 31])}, "planar-3": {284: (3, [3])},
           "no-rows": {278: (4, [0])}, "many-rows": {278: (4, [0xFFFFFFFF])}, "formats": {339: (3, [1, 1, 2])}, "media": {0xBC01: (3, [1])},
           "samples-7": {277: (3, [7])}, "samples-0": {277: (3, [0])}, "extras": {338: (3, [0] * 9)}, "fill-3": {266: (3, [3])}, "width-signed": {256: (8, [5])}}
    for name, more in odd.items():
        yield f"tiff-odd-{name}", tiff(rng, "rgb", 9, 7, more=more)
        yield f"tiff-odd-{name}-8", tiff(rng, "rgb", 9, 7, compression=8, more=more)
    for colors in (0, 3, 9, 90, 768, 771):
        yield f"tiff-colors-{colors}", tiff(rng, "palette8", 9, 7, more={320: (3, [rng.randrange(65536) for _ in range(colors)])})
    yield "tiff-colors-none", tiff(rng, "palette8", 9, 7, more={320: None})
    yield "tiff-many-tags", tiff(rng, "rgb", 9, 7, more={n: (3, [1]) for n in range(40000, 41200)})
    yield "tiff-big-be", tiff(rng, "rgb", 9, 7, ">", big=True)
    whole = tiff(rng, "rgb", 9, 7, compression=8, rows=3)
    for cut in range(0, len(whole), 3):
        yield f"tiff-cut-{cut:04}", whole[:cut]
    at = len(whole) - 200
    yield "tiff-front", b"II*\0" + whole[4:]
    for head in (b"II\0*", b"MM*\0", b"II+\0", b"MM\0+", b"II*\1", b"EP*\0"):
        yield f"tiff-head-{head.hex()}", head + whole[4:]
    for offset in (0, 1, at, len(whole), len(whole) - 1, 0xFFFFFFFF):
        yield f"tiff-offset-{offset}", whole[:4] + struct.pack("<L", offset) + whole[8:]
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "I", "F"):
        image = noise(rng, "RGB", 70, 50)
        image = image.convert("L").convert("I").convert(mode) if mode == "I;16" else image.convert(mode)
        for compression in ("raw", "tiff_ccitt", "group3", "group4", "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits", "lzma", "zstd", "jpeg"):
            file = io.BytesIO()
            try:
                image.save(file, "TIFF", compression=compression, **({"strip_size": 700} if rng.randrange(2) else {}))
            except (OSError, ValueError, KeyError):
                continue
            yield f"tiff-pillow-{mode.replace(';', '')}-{compression}", file.getvalue()
    file = io.BytesIO()
    pages = [noise(rng, "RGB", 30, 20), noise(rng, "L", 40, 50)]
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:], compression="tiff_lzw")
    yield "tiff-pages", file.getvalue()


# ---- what Pillow writes, and damage ----

def pillow_written(folder, rng):
    photo = Image.frombytes("RGB", (40, 30), rng.randbytes(3600)).resize((400, 300), Image.Resampling.BICUBIC)
    for mode in ("1", "L", "P", "RGB", "RGBA"):
        image = photo.convert(mode)
        for ending in ("bmp", "gif", "ppm"):
            if ending == "ppm" and mode == "P":
                continue
            image.save(folder / f"pillow-{mode}.{ending}")
    photo.convert("I").save(folder / "pillow-I.ppm")
    photo.save(folder / "pillow-interlaced.gif", interlace=1)
    photo.save(folder / "pillow-animated.gif", save_all=True, append_images=[photo.rotate(90), photo.rotate(180)])


def damaged(rng, good, count):
    for i in range(count):
        name, data = rng.choice(good)
        data = bytearray(data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(2, len(data)) if rng.randrange(2) else rng.randrange(2, min(60, len(data)))
            kind = rng.randrange(4)
            if kind < 2:
                data[at] = rng.choice((data[at] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 255))
            elif kind == 2:
                del data[at:at + rng.choice((1, 1, 4, 20))]
            else:
                data[at:at] = rng.randbytes(rng.choice((1, 1, 4)))
            if len(data) < 10:
                break
        yield f"hurt-{i}-{name}", bytes(data)


def check_damaged_tiffs(dump, folder, made):
    """Uncompressed ones: what the decoder reads has Pillow's pixels; it may refuse more."""
    good = [c for c in made if c[0].startswith("tiff-") and len(c[1]) < 5000 and ("-1-" in c[0] or "turned" in c[0])]
    folder.mkdir()
    for case, data in damaged(random.Random(22), good, DAMAGED // 3):
        (folder / case).write_bytes(data)
    files = sorted(f for f in folder.iterdir() if pixels_of(f) <= MOST_PIXELS)
    ours = run_dump(dump, files, "-v")
    wrong = read = 0
    for path in files:
        mine = ours[str(path)]
        read += mine[0] == "ok"
        if mine[0] == "ok" and describe(open_rgb(path)) != tuple(mine[1:4]):
            wrong += 1
            print(f"WRONG {path.name}: we {mine}; Pillow {describe(open_rgb(path))}")
    print(f"{len(files)} damaged TIFFs: {read} read, {wrong} wrong")
    return wrong + (read < len(files) // 20)


def pixels_of(path):
    """Of an image that Pillow opens. Larger ones than the limit differ by rule."""
    image = open_rgb(path)
    return 0 if isinstance(image, Exception) else image.width * image.height


def reads(dump, folder, made, kind):
    """Whether this build has the library that images of this kind need."""
    path = folder / "probe"
    path.write_bytes(next(data for case, data in made if case.startswith(kind)))
    said = run_dump(dump, [path], "-v")[str(path)]
    path.unlink()
    return not (said[0] == "unsupported" and "built without lib" in said[-1])


def main():
    verbose = "-v" in sys.argv
    dump, page = [a for a in sys.argv[1:] if a != "-v"]
    rng = random.Random(21)
    with tempfile.TemporaryDirectory(prefix="penstock-types-") as name:
        folder = Path(name)
        made = [case for make in (bmps, pnms, gifs, webps, tiffs) for case in make(rng)]
        for kind in ("webp-", "tiff-"):
            if not reads(dump, folder, made, kind):
                print(f"without {kind}: this build has no library for it")
                made = [c for c in made if not c[0].startswith(kind)]
        good = [c for c in made if 20 < len(c[1]) < 5000 and not c[0].startswith(("tiff-", "gif-cut", "webp-cut", "bmp-size", "pnm-odd-huge"))]
        for case, data in [*made, *damaged(rng, good, DAMAGED)]:
            (folder / case).write_bytes(data)
        pillow_written(folder, rng)
        files = sorted(f for f in folder.iterdir() if pixels_of(f) <= MOST_PIXELS)
        prefixes = tuple(name[:-1] for name in on_purpose(Path(page)) if name.endswith("*"))
        listed = {f.name for f in files if f.name.startswith(prefixes)} if prefixes else set()
        wrong, accepted = check_whole(dump, files, listed, verbose)
        wrong += check_regions(dump, accepted, 100)
        for kind in ("webp-", "tiff-"):
            wrong += check_regions(dump, {f: size for f, size in accepted.items() if f.name.startswith(kind)}, 100)
        if any(c[0].startswith("tiff-") for c in made):
            wrong += check_damaged_tiffs(dump, folder / "damaged", made)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
