"""Three ways in which the same bytes can come in: whole, byte by byte, at random places."""

import random

SPLITS = ("whole", "bytes", "random")
SEED = 20260917


def pieces(data: bytes, split: str) -> list[bytes]:
    """Cut `data` as one of SPLITS says; the random cuts are the same for the same data."""
    if split == "whole":
        return [data]
    if split == "bytes":
        return [bytes([byte]) for byte in data]
    source = random.Random(data)
    cuts = sorted(source.sample(range(len(data) + 1), min(5, len(data))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class ReadSize:
    """How many bytes the next read asks for, where a client says `recvmsg(size)`.

    The kernel stamps a segment, not a read: all reads of one write carry the same stamp.
    """

    def __init__(self, split: str) -> None:
        self._split = split
        self._source = random.Random(SEED)

    def __index__(self) -> int:
        if self._split == "whole":
            return 16384
        return 1 if self._split == "bytes" else self._source.randint(1, 60)
