"""How much of the prompts an ideal prefix cache would serve, by their texts or block hashes."""

import hashlib
from collections.abc import Iterable, Sequence

from teardown.workload.prompts import BLOCK_CHARS


def reusable_ratio(texts: Iterable[str]) -> float | None:
    """Return the fraction of text that an earlier prompt began with, in this order.

    None without any text. A cache of endless size and no time to fill it: an upper bound.
    """
    seen: set[bytes] = set()
    reusable = total = 0
    for text in texts:
        blocks = [text[i : i + BLOCK_CHARS] for i in range(0, len(text), BLOCK_CHARS)]
        reusable += BLOCK_CHARS * num_reusable(blocks, seen)
        total += len(blocks) * BLOCK_CHARS
    return reusable / total if total else None


def num_reusable(blocks: Sequence[str], seen: set[bytes]) -> int:
    """Return how many leading blocks an earlier prompt began with; adds this prompt to `seen`.

    A block counts with all blocks before it, so that equal text after a difference is no hit.
    """
    digest = hashlib.sha256()
    matching, count = True, 0
    for block in blocks:
        encoded = block.encode(errors="replace")
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
        key = digest.digest()[:16]
        matching = matching and key in seen
        count += matching
        seen.add(key)
    return count
