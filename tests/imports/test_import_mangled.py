"""Whatever is done to a file, the import ends in runs or in one sentence with file and place."""

import copy
import gzip
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from teardown.errors import UsageError
from teardown.imports.entry import Asked, import_path
from tests.imports.files import FIXTURES, RECORDINGS

FILES = [
    "guidellm-concurrent.json.gz",
    "guidellm-poisson.json.gz",
    "aiperf/profile_export.jsonl",
    "aiperf/profile_export_aiperf.json",
    "vllm-chat.json",
    "vllm-aggregates.json",
]
WRONG: list[Any] = [
    None, True, -1, 0, 1.5, 1e300, 10**400, float("nan"), float("inf"), "", "x", "\ud800", "9" * 50,
    [], [None], {}, {"a": 1},
]  # fmt: skip
LOG = b"ts,input_tokens,output_tokens,session\n0,10,1,a\n1,12,2,b\n2.5,9,1,a\n"
QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


def plain(name: str) -> bytes:
    data = (FIXTURES / name).read_bytes()
    return gzip.decompress(data) if name.endswith(".gz") else data


def survives(data: bytes, name: str, mapping: str | None = None) -> None:
    """The import of `data` ends well, or in a sentence that begins with the file or the option."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        try:
            import_path(path, Path(folder) / "shop", Asked(mapping=mapping))
        except UsageError as error:
            assert str(path) in str(error) or "the log" in str(error), error
            assert "\n" not in str(error)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for row, inner in enumerate(value[:4]):
            found += places(inner, (*path, row))
    return found


def replaced(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    if not path:
        return value
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", FILES)
@QUICK
@given(cut=st.floats(0, 1))
@example(cut=0.0)
def test_a_cut_file_is_refused_in_a_sentence(name: str, cut: float) -> None:
    data = plain(name)
    survives(data[: int(cut * len(data))], Path(name).name.removesuffix(".gz"))


@pytest.mark.parametrize("name", FILES)
@QUICK
@given(data=st.data())
def test_wrong_bytes_are_refused_in_a_sentence(name: str, data: st.DataObject) -> None:
    content = bytearray(plain(name))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(content), Path(name).name.removesuffix(".gz"))


@pytest.mark.parametrize("name", FILES)
@QUICK
@given(seed=st.integers(0, 2**32), value=st.sampled_from(WRONG))
def test_a_wrong_value_anywhere_is_refused_in_a_sentence(name: str, seed: int, value: Any) -> None:
    draw = random.Random(seed)
    text = plain(name).decode()
    documents = [json.loads(x) for x in (text.splitlines() if name.endswith("l") else [text])]
    row = draw.randrange(len(documents))
    path = draw.choice(places(documents[row]))
    documents[row] = replaced(documents[row], path, value)
    changed = "\n".join(json.dumps(document) for document in documents)
    survives(changed.encode(errors="replace"), Path(name).name.removesuffix(".gz"))


@QUICK
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
@example(data=b"[" * 100_000)
@example(data=b"\x1f\x8b\x08 no gzip")
@example(data=b'{"ts": 1, "input_tokens": ' + b"9" * 5000 + b"}")
def test_any_bytes_are_refused_in_a_sentence(data: bytes) -> None:
    for name in ("x.json", "x.jsonl", "x.csv"):
        survives(data, name)


@QUICK
@given(data=st.data())
def test_a_mangled_log_is_refused_in_a_sentence(data: st.DataObject) -> None:
    content = bytearray(LOG)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    survives(bytes(content), "gateway.csv")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _wrong(data: bytes) -> bytes:
    return gzip.compress(b"{]" + gzip.decompress(data)[:2000])


@pytest.mark.parametrize("spoil", [_cut, _wrong], ids=["cut", "wrong"])
@pytest.mark.parametrize(
    "name",
    ["client0.json.gz", "metrics.jsonl.gz", "metrics_after.txt.gz", "gpu.csv.gz", "startup.log.gz"],
)
def test_a_recording_with_a_spoilt_file_names_it(
    tmp_path: Path, name: str, spoil: Callable[[bytes], bytes]
) -> None:
    folder = tmp_path / "host_eager_c4"
    shutil.copytree(RECORDINGS / "host_eager_c4", folder)
    path = folder / name
    path.chmod(0o644)
    path.write_bytes(spoil(path.read_bytes()))
    if (name, spoil) == ("startup.log.gz", _wrong):
        import_path(folder, tmp_path / "shop", Asked())  # a log may say anything
        return
    with pytest.raises(UsageError, match="host_eager_c4"):
        import_path(folder, tmp_path / "shop", Asked())


def test_a_model_config_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 8, '
                    '"num_attention_heads": 0, "vocab_size": 8}')  # fmt: skip
    with pytest.raises(UsageError, match=r"config\.json"):
        import_path(RECORDINGS / "weights_c8", tmp_path / "shop", Asked(model_config=path))
