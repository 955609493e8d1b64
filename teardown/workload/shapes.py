"""What the folder keeps of the client's prompts: keyed hashes of 64-token blocks, and lengths.

A block's hash covers the prompt up to the block's end, so that two prompts share as many leading
hashes as they share leading blocks: a prefix cache's view, without a word of text. The hashes are
keyed (BLAKE2b) with a random key of the engagement, because short texts could otherwise be guessed
and compared; once the key is deleted, nobody can.
"""

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, Literal

from teardown.engagement import write_atomic
from teardown.workload.prompts import Prompt

BLOCK_TOKENS: Final = 64
# About four characters of English a token; exact blocks would need the client's tokenizer.
BLOCK_CHARS: Final = 4 * BLOCK_TOKENS
HASH_BYTES: Final = 8
KEY_FILE: Final = "block-key"

Privacy = Literal["hash", "shape", "full"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShape:
    """One prompt without its text; `blocks` is empty under `privacy: shape`."""

    index: int
    session: str
    turn: int
    num_chars: int
    max_tokens: int | None
    blocks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptShapes:
    """The prompts of one workload; `reusable_ratio` is what an ideal prefix cache would serve."""

    SCHEMA: ClassVar[str] = "teardown.shapes/1"

    workload: str
    prompts_sha256: str
    block_chars: int
    reusable_ratio: float
    prompts: list[PromptShape]


def shapes_of(prompts: Sequence[Prompt], privacy: Privacy, key: bytes) -> list[PromptShape]:
    """Return the shapes of `prompts`; under `shape` lengths alone."""
    return [
        PromptShape(
            index=prompt.index,
            session=prompt.session,
            turn=prompt.turn,
            num_chars=len(prompt.text),
            max_tokens=prompt.max_tokens,
            blocks=[] if privacy == "shape" else block_hashes(prompt.text, key),
        )
        for prompt in prompts
    ]


def block_hashes(text: str, key: bytes) -> list[str]:
    """Return the hash of `text` up to the end of each whole block, as hexadecimal."""
    digest = hashlib.blake2b(key=key, digest_size=HASH_BYTES)
    hashes = []
    for start in range(0, len(text) - BLOCK_CHARS + 1, BLOCK_CHARS):
        digest.update(text[start : start + BLOCK_CHARS].encode("utf-8", errors="surrogatepass"))
        hashes.append(digest.copy().hexdigest())
    return hashes


def block_key(folder: Path) -> bytes:
    """Return the key kept in `folder`, made at the first call; readable by its owner alone."""
    path = folder / KEY_FILE
    if not path.exists():
        write_atomic(path, secrets.token_bytes(32))
        path.chmod(0o600)
    return path.read_bytes()
