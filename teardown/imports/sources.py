"""Every kind of file that can be imported, and which one a path is."""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from teardown.errors import UsageError
from teardown.imports import aiperf, guidellm, recording, vllm_bench
from teardown.imports.document import Node, parse, read_node, read_text
from teardown.imports.found import Found

GATEWAY: Final = "gateway"


class Source(NamedTuple):
    """What it is called in a sentence, and how it is read."""

    title: str
    read: Callable[[Path], list[Found]]


SOURCES: Final[dict[str, Source]] = {
    vllm_bench.SOURCE: Source("a result of `vllm bench serve`", vllm_bench.read),
    guidellm.SOURCE: Source("a GuideLLM report", guidellm.read),
    aiperf.SOURCE: Source("an AIPerf export", aiperf.read),
    recording.SOURCE: Source("a recording folder", recording.read),
}
KINDS: Final = (*SOURCES, GATEWAY)
DOCUMENTS: Final[tuple[tuple[str, Callable[[Node], bool]], ...]] = (
    (guidellm.SOURCE, guidellm.recognises),
    (vllm_bench.SOURCE, vllm_bench.recognises),
    (aiperf.SOURCE, aiperf.recognises),
)


def kind_of(path: Path, asked: str | None) -> str:
    """Return the kind of `path`, as asked or by its content; UsageError with the kinds there are.

    A file whose beginning fits no tool is taken for a gateway's log.
    """
    if asked is not None:
        if asked not in KINDS:
            near = difflib.get_close_matches(asked, KINDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KINDS)}"
            raise UsageError(f"--from {asked!r} is not known; {hint}")
        return asked
    if path.is_dir():
        if recording.recognises(path):
            return recording.SOURCE
        if (path / aiperf.LINES).exists() or (path / aiperf.SUMMARY).exists():
            return aiperf.SOURCE
        raise UsageError(
            f"{path} is neither a recording folder (client0.json) nor an AIPerf export "
            f"({aiperf.LINES}); name a file, or the kind with --from {'|'.join(KINDS)}"
        )
    if not path.is_file():
        raise UsageError(f"{path} does not exist")
    node = _first(path)
    if node is not None:
        for kind, recognises in DOCUMENTS:
            if recognises(node):
                return kind
        if path.name.removesuffix(".gz").endswith(".json"):
            raise UsageError(
                f"{path} is JSON of no tool that can be read ({', '.join(list(node.value)[:6])}); "
                f"name its kind with --from {'|'.join(KINDS)}"
            )
    elif path.name.removesuffix(".gz").endswith(".json"):
        read_node(path)  # says where it ends to be JSON
    return GATEWAY


def folders_of(path: Path) -> list[Path]:
    """Return the recording folders in `path`; itself where it is no folder of such."""
    if path.is_dir() and not recording.recognises(path):
        inner = sorted(p for p in path.iterdir() if p.is_dir() and recording.recognises(p))
        return inner or [path]
    return [path]


def _first(path: Path) -> Node | None:
    """Return the file's object, or that of its first line; None where neither is JSON."""
    try:
        return read_node(path)
    except UsageError:
        line = next((line for line in read_text(path).splitlines() if line.strip()), "")
    try:
        return parse(line, f"{path}, line 1:")
    except UsageError:
        return None
