"""One path into an engagement folder: recognised, read, kept, and what to say of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from teardown.engagement import Engagement, write_atomic
from teardown.engine_facts import gpu
from teardown.errors import UsageError
from teardown.imports.found import Found
from teardown.imports.gateway import read as read_log
from teardown.imports.keep import ImportedRun, keep_runs, model_config
from teardown.imports.sources import GATEWAY, SOURCES, folders_of, kind_of
from teardown.imports.traffic import Traffic, trace_text, traffic_of
from teardown.records import to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What `teardown import` was asked beside the path."""

    kind: str | None = None
    mapping: str | None = None
    model_config: Path | None = None
    gpu: str | None = None


class ImportedTraffic(NamedTuple):
    """A gateway's log as it stands in the folder."""

    traffic: Traffic
    trace: Path


Imported = list[ImportedRun] | ImportedTraffic


def import_path(path: Path, folder: Path, asked: Asked) -> Imported:
    """Read `path` and keep what it holds in `folder`; UsageError names file and place.

    Nothing is written before all of it was read.
    """
    if asked.gpu is not None:
        gpu(asked.gpu)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--into {folder} is a file; name a folder")
    path = path if path.name not in ("", "..") else path.resolve()
    model = None if asked.model_config is None else model_config(asked.model_config)
    paths = folders_of(path) if asked.kind is None else [path]
    kind = kind_of(paths[0], asked.kind)
    if kind == GATEWAY:
        return _keep_traffic(path, folder, asked.mapping)
    if asked.mapping is not None:
        raise UsageError(f"--map is for gateway logs, and {path} is {SOURCES[kind].title}")
    found = [(p, part, one) for p in paths for part, one in enumerate(_read(kind, p))]
    return keep_runs(found, folder, asked.gpu, model)


def _read(kind: str, path: Path) -> list[Found]:
    runs = SOURCES[kind].read(path)
    for one in runs:
        ids = [r.request_id for r in one.requests]
        if len(set(ids)) < len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise UsageError(f"{path}: two requests have the id {twice!r}")
    return runs


def _keep_traffic(path: Path, folder: Path, mapping: str | None) -> ImportedTraffic:
    engagement = Engagement(folder)
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0] or path.name
    traffic, lines = traffic_of(read_log(path, mapping), name, path.name)
    trace = engagement.schedule_path(name).with_suffix(".jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    with engagement.lock():
        write_atomic(trace, trace_text(lines))
        write_atomic(trace.with_name(f"{trace.stem}-traffic.json"), to_json(traffic))
        engagement.write_manifest()
    return ImportedTraffic(traffic, trace)


def to_documents(imported: Imported) -> dict[str, Any]:
    """Return what `teardown import --json` prints."""
    if isinstance(imported, ImportedTraffic):
        return {
            "schema": "teardown.import/1",
            "workload": {"trace": str(imported.trace), **msgspec.to_builtins(imported.traffic)},
            "cannot_recover": imported.traffic.cannot_recover,
        }
    runs = [
        {
            "run": one.run.run,
            "is_new": one.is_new,
            "source": one.origin.source,
            "tool": one.origin.tool,
            "tool_version": one.origin.tool_version,
            "numbers": one.origin.numbers,
            "validity": msgspec.to_builtins(one.run.validity),
            "summary": msgspec.to_builtins(one.run.summary),
            "stated": msgspec.to_builtins(one.origin.stated),
            "cannot_recover": one.origin.cannot_recover,
        }
        for one in imported
    ]
    lost = dict.fromkeys(sentence for one in imported for sentence in one.origin.cannot_recover)
    return {
        "schema": "teardown.import/1",
        "run": runs[0]["run"],
        "runs": runs,
        "cannot_recover": list(lost),
    }
