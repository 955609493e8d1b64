"""A recording folder: clients of `vllm bench serve` with the engine's metrics, log and GPU.

    meta.json  client<i>.json[.gz]  metrics.jsonl[.gz]  metrics_before.txt[.gz]  metrics_after.txt
    gpu.csv  engine.log  startup.log  (each also packed by gzip; all but the clients may lack)

meta.json may carry the truth (`label`); nothing but the names in META is ever read of it.
"""

import csv
import gzip
import io
import json
import re
from pathlib import Path
from typing import Any, Final

from teardown.engine_facts import gpu_of_device
from teardown.engines import engine_by_name, vllm_log
from teardown.errors import TargetError, UsageError
from teardown.imports import vllm_bench
from teardown.imports.document import Node, read_lines, read_node, read_text
from teardown.imports.found import Found, Load, Stated
from teardown.observe.gpu import GPU_COLUMNS
from teardown.records import Options, Request, Stack

SOURCE: Final = "recording"
META: Final = ("t_start", "t_end", "engine", "gpu")
CLIENT: Final = re.compile(r"client(\d{1,6})\.json(\.gz)?")
URL: Final = "http://recorded.invalid/metrics"
# Their names of what NVML says -> ours.
GPU_NAMES: Final = {
    "t": "t",
    "index": "index",
    "util_gpu": "utilisation",
    "power_w": "power_w",
    "sm_mhz": "sm_clock_mhz",
    "mem_mhz": "mem_clock_mhz",
    "mem_used": "memory_used_bytes",
    "throttle": "throttle_reasons",
}
LOST: Final = [
    "the prompts: how many of their tokens could have come from a prefix cache is not known",
]


def recognises(folder: Path) -> bool:
    """True for a folder with clients' results."""
    return bool(clients_of(folder))


def clients_of(folder: Path) -> list[Path]:
    """Return the results of the clients, in the order of their numbers."""
    found = {p: m for p in folder.glob("client*") if (m := CLIENT.fullmatch(p.name))}
    return sorted(found, key=lambda p: (int(found[p][1]), p.name))


def read(folder: Path) -> list[Found]:
    """Return the one run of a recording folder; UsageError names the file that is wrong."""
    meta_path = folder / "meta.json"
    document = read_node(meta_path) if meta_path.exists() else Node({}, f"{meta_path}:")
    meta = {name: document.get(name) for name in META}
    nodes = [read_node(path) for path in clients_of(folder)]
    zero = min((min(starts) for node in nodes if (starts := _starts(node))), default=0.0)
    requests: list[Request] = []
    for number, node in enumerate(nodes):
        if not node.has(*vllm_bench.LISTS) or not _starts(node):
            raise UsageError(f"{node.where} no lists of requests; record with --save-detailed")
        requests += vllm_bench.requests_of(node, f"{number}-", zero)
    log, page = _text(folder, "startup.log"), _text(folder, "metrics_after.txt")
    metrics, hit_ratio = _metrics(folder, meta, page)
    stack = _stack(nodes[0], meta, log, page)
    lost = [*LOST, *vllm_bench.LOST]
    if metrics is None:
        lost.append("the engine's own counters: there is no metrics.jsonl")
    files = {}
    if metrics is not None:
        files["metrics.jsonl.gz"] = gzip.compress(metrics.encode(), mtime=0)
    gpu = _gpu(folder)
    if gpu is not None:
        files["gpu.csv.gz"] = gzip.compress(gpu.encode(), mtime=0)
    whole_log = log + _text(folder, "engine.log")
    if whole_log:
        files["engine.log.gz"] = gzip.compress(whole_log.encode(), mtime=0)
    return [
        Found(
            source=SOURCE,
            tool="vllm bench serve",
            tool_version=None,
            workload=folder.name,
            stack=stack,
            load=_load(nodes),
            requests=sorted(requests, key=lambda r: r.sent_s or 0.0),
            stated=[_named(s, i) for i, n in enumerate(nodes) for s in vllm_bench.stated_of(n)]
            if len(nodes) > 1
            else vllm_bench.stated_of(nodes[0]),
            lost=lost,
            notes=[f"{len(nodes)} client(s) recorded beside one engine"],
            hit_ratio=hit_ratio,
            files=files,
            gpu_names=_gpu_names(meta["gpu"]),
        )
    ]


def _starts(node: Node) -> list[float]:
    return node.get("start_times").all_seconds()


def _named(stated: Stated, client: int) -> Stated:
    """Return a client's number under a name of its own; ours covers all clients, so none is."""
    return Stated(
        name=f"client{client} {stated.name}",
        value=stated.value,
        unit=stated.unit,
        says=stated.says,
    )


def _load(nodes: list[Node]) -> Load:
    loads = [vllm_bench.load_of(node, 1) for node in nodes]
    if len(loads) == 1:
        return loads[0]
    return Load(
        is_open=all(load.is_open for load in loads),
        concurrency=sum(load.concurrency for load in loads),
        num_intended=sum(load.num_intended or 0 for load in loads),
    )


def _path(folder: Path, name: str) -> Path | None:
    return next((p for p in (folder / f"{name}.gz", folder / name) if p.is_file()), None)


def _text(folder: Path, name: str) -> str:
    path = _path(folder, name)
    return "" if path is None else read_text(path)


def _stack(client: Node, meta: dict[str, Node], log: str, page: str) -> Stack:
    """Return the engine by its log, its page or the recording's word."""
    named = (meta["engine"].text() or "").split()
    engine = "llama.cpp" if "llamacpp:" in page else "vllm" if "vllm:" in page else "openai"
    if engine == "openai" and named and named[0].lower() in ("vllm", "llama.cpp"):
        engine = named[0].lower()
    asked: Options = vllm_log.given(log) if engine == "vllm" else {}
    effective: Options = vllm_log.options(log) if engine == "vllm" else {}
    model = client.get("model_id").text() or "unknown"
    served = re.search(r'model_name="([^"]+)"', page)
    return Stack(
        engine=engine,
        launcher="external",
        version=vllm_log.version(log) or (named[1] if len(named) > 1 else None),
        model=model,
        served_model=served[1] if served else model,
        options=asked,
        effective=effective,
    )


def _metrics(
    folder: Path, meta: dict[str, Node], last_page: str
) -> tuple[str | None, float | None]:
    """Return the pages as the kit keeps them, and cached over prompt tokens between the edges."""
    path = _path(folder, "metrics.jsonl")
    if path is None:
        return None, None
    rows: list[dict[str, Any]] = []
    for node in read_lines(path):
        row: dict[str, Any] = {"t": node.get("t").needed_number(), "url": URL}
        text = node.get("text").text()
        row |= {"error": str(node.get("error").value)} if text is None else {"text": text}
        rows.append(row)
    if not rows:
        return None, None
    first_page = _text(folder, "metrics_before.txt")
    start = meta["t_start"].number()
    end = meta["t_end"].number()
    if first_page:
        at = min(rows[0]["t"], rows[0]["t"] if start is None else start)
        rows.insert(0, {"t": at, "url": URL, "text": first_page})
    if last_page:
        at = max(rows[-1]["t"], rows[-1]["t"] if end is None else end)
        rows.append({"t": at, "url": URL, "text": last_page})
    ratio = _hit_ratio([row["text"] for row in rows if "text" in row], str(path))
    return "".join(json.dumps(row) + "\n" for row in rows), ratio


def _hit_ratio(pages: list[str], where: str) -> float | None:
    """Return cached over prompt tokens between the first page and the last; every page is read."""
    if len(pages) < 2:
        return None
    engine = engine_by_name("llama.cpp" if "llamacpp:" in pages[-1] else "vllm")
    try:
        seen = [engine.counters(page) for page in pages]
    except (TargetError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error
    first, last = seen[0], seen[-1]
    if None in (first.cached_tokens, last.cached_tokens, first.prompt_tokens, last.prompt_tokens):
        return None
    prompt = (last.prompt_tokens or 0.0) - (first.prompt_tokens or 0.0)
    cached = (last.cached_tokens or 0.0) - (first.cached_tokens or 0.0)
    return min(cached / prompt, 1.0) if prompt > 0 and cached >= 0 else None


def _gpu(folder: Path) -> str | None:
    """Return the GPU's samples under the kit's column names; None where there are none."""
    path = _path(folder, "gpu.csv")
    if path is None:
        return None
    rows = csv.DictReader(io.StringIO(read_text(path)))
    if rows.fieldnames is None or "t" not in rows.fieldnames:
        raise UsageError(f"{path}, line 1: no column `t`")
    out = io.StringIO()
    writer = csv.DictWriter(out, GPU_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for number, row in enumerate(rows, 2):
        ours = {GPU_NAMES[k]: v for k, v in row.items() if k in GPU_NAMES}
        for name, value in ours.items():
            if value not in (None, "") and not re.fullmatch(r"-?\d+(\.\d+)?", str(value)):
                raise UsageError(f"{path}, line {number}: `{name}` is {value!r}, not a number")
        writer.writerow({"index": "0", **ours})
    return out.getvalue()


def _gpu_names(node: Node) -> list[str]:
    """Return the driver's names of `1x NVIDIA H200`; none where it is not a known device."""
    match = re.fullmatch(r"(?:(\d{1,4})\s*x\s*)?(.+)", node.text() or "")
    if match is None or gpu_of_device(match[2]) is None:
        return []
    return [match[2]] * int(match[1] or 1)
