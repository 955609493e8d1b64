"""Reference answers, stored before the first change and never written again.

    oracle/reference.jsonl    one answer a line; the only file of an engagement that holds text
    oracle/oracle.json        its SHA-256, what was asked of which stack, and the noise passes

The noise passes are the reference asked again: serially, at the workload's concurrency, and by a
numerical twin (same weights and number types, another order of arithmetic: other slots, other step
size, prompt cache on). They say how far answers move when nothing that matters has changed.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import msgspec

from teardown.engagement import write_atomic
from teardown.errors import TargetError, UsageError
from teardown.records import Options, Stack, read, to_json
from tuning.oracle.answers import Answer
from tuning.oracle.compare import Comparison, compare

REFERENCE_FILE = "reference.jsonl"
RECORD_FILE = "oracle.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleRecord:
    """What `oracle.json` holds; `noise` has one entry per pass of the reference over itself."""

    SCHEMA: ClassVar[str] = "teardown.oracle/1"

    sha256: str
    num_prompts: int
    max_tokens: int
    prompts_sha256: str
    model: str
    engine: str
    options: Options
    noise: list[Comparison]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The stored answers with their record."""

    record: OracleRecord
    answers: list[Answer]

    @property
    def sha256(self) -> str:
        """The hash that every verdict names."""
        return self.record.sha256


def is_stored(folder: Path) -> bool:
    """True once `folder` (an engagement's `oracle/`) holds a reference."""
    return (folder / RECORD_FILE).exists()


def store(
    folder: Path,
    stack: Stack,
    prompts: Sequence[Mapping[str, object]],
    max_tokens: int,
    answers: Sequence[Answer],
    passes: Mapping[str, Sequence[Answer]],
) -> Reference:
    """Write the reference answers and the noise of `passes` (name -> answers); return both.

    UsageError when a reference is stored already: it is never replaced. TargetError when the
    answers cannot serve as one (empty, or cut).
    """
    if is_stored(folder):
        raise UsageError(
            f"{folder} holds a reference already; answers are never replaced, begin a new folder"
        )
    if not answers or all(not answer.text and not answer.tokens for answer in answers):
        raise TargetError(f"{stack.served_model} answered no prompt with text: no reference")
    lines = "".join(json.dumps(msgspec.to_builtins(answer)) + "\n" for answer in answers)
    notes = sorted({answer.reason for answer in answers if answer.reason})
    if not passes:
        notes.append("no noise pass was made: the bands are their floors")
    record = OracleRecord(
        sha256=hashlib.sha256(lines.encode()).hexdigest(),
        num_prompts=len(answers),
        max_tokens=max_tokens,
        prompts_sha256=prompts_sha256(prompts),
        model=stack.model,
        engine=stack.engine,
        options=stack.options,
        noise=[compare(name, answers, other, max_tokens) for name, other in passes.items()],
        notes=notes,
    )
    write_atomic(folder / REFERENCE_FILE, lines)
    write_atomic(folder / RECORD_FILE, to_json(record))
    return Reference(record=record, answers=list(answers))


def load(folder: Path, prompts: Sequence[Mapping[str, object]] | None = None) -> Reference:
    """Read the reference; UsageError when a byte of it changed, or `prompts` are not its own."""
    record = read(OracleRecord, folder / RECORD_FILE)
    path = folder / REFERENCE_FILE
    try:
        lines = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read, so no answer can be judged: {error}") from error
    found = hashlib.sha256(lines).hexdigest()
    if found != record.sha256:
        raise UsageError(
            f"{path} has changed since it was stored (SHA-256 {found[:12]}, stored "
            f"{record.sha256[:12]}): nothing can be judged by it, begin a new folder"
        )
    if prompts is not None and prompts_sha256(prompts) != record.prompts_sha256:
        raise UsageError(f"{path} answers other prompts than those of this engagement")
    answers = [msgspec.json.decode(line, type=Answer) for line in lines.splitlines()]
    return Reference(record=record, answers=answers)


def prompts_sha256(prompts: Sequence[Mapping[str, object]]) -> str:
    """Return the hash of the prompts, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(list(prompts), sort_keys=True).encode()).hexdigest()
