"""What several tests of streams compare: refusals, what each rank reads, lists of samples."""
import array
import struct

from harness import LAST, PADDED, Refused

SAMPLES = 61  # of the datasets that ranks split: a prime, so no batch divides it
SUBSTITUTED = 2


def refused(code, *words):
    """The block must end with the daemon's refusal: this code, and a sentence with these words."""
    class Expect:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, trace):
            assert kind is not None, f"expected a refusal with {words}"
            if kind is not Refused:
                return False
            assert value.code == -code and all(str(word) in value.sentence for word in words), f"{value}; expected -{code} and {words}"
            return True
    return Expect()


def plan(world_size, batch_size, drop_last, position=0, samples=SAMPLES):
    """From PROTOCOL.md: for each global batch from `position` to the end of the epoch, for each rank, (position, padded) of its rows."""
    batches = []
    while position < samples:
        left = min(samples - position, world_size * batch_size)
        if drop_last and left < world_size * batch_size:
            break
        at, ranks = position, []
        for rank in range(world_size):
            count = left // world_size + (rank < left % world_size)
            ranks.append([(p, False) for p in range(at, at + count)] or [(position + left - 1, True)])
            at += count
        batches.append(ranks)
        position += world_size * batch_size
    return batches


def check_rank(got, want, rank, table, first_epoch=0):
    """What a rank read is `want`: for each epoch, for each global batch, the ranks' rows."""
    names = [(epoch, number, ranks[rank], number == len(batches) - 1) for epoch, batches in enumerate(want, first_epoch)
             for number, ranks in enumerate(batches)]
    assert len(got) == len(names), f"rank {rank}: {len(got)} batches, not {len(names)}"
    for (batch, rows), (epoch, number, expected, last) in zip(got, names):
        assert batch.epoch == epoch and bool(batch.flags & LAST) == last and batch.position == expected[0][0], (rank, batch, expected)
        assert [(row.position, bool(row.flags & PADDED)) for row in rows] == expected, (rank, batch)
        for row in rows:
            whole = table[epoch, row.position]
            assert row._replace(flags=row.flags & ~PADDED) == whole, f"rank {rank}: {row} is not {whole}"


def npy(path, values, kind="<i8", shape=None, cut=0):
    """A .npy file as numpy.save writes it."""
    code = {"<i8": "q", "<u8": "Q", "<i4": "i", "<u4": "I", "<f8": "d", "<f4": "f"}[kind]
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape or (len(values),)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + array.array(code, values).tobytes()
    path.write_bytes(data[:len(data) - cut])
    return path


def shown(got):
    """{(epoch, position): sample} of the rows that are not padded."""
    return {(batch.epoch, row.position): row.index for batch, rows in got for row in rows if not row.flags & PADDED}


def reserved(daemon):
    return daemon.status()["memory"]["reserved"]
