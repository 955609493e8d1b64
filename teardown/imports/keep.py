"""Imported runs into an engagement folder; the same file twice is one run."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from teardown.begin import write_settings
from teardown.classify.facts import facts_of_config
from teardown.engagement import SETTINGS_FILE, Engagement, sha256_file, write_atomic
from teardown.engine_facts import gpu
from teardown.errors import UsageError
from teardown.imports.document import read_node
from teardown.imports.found import Found, Origin, Stated
from teardown.imports.judge import judge, load_of
from teardown.load.summary import summarise
from teardown.load.table import write_requests
from teardown.records import Quantiles, Request, Run, Summary, read, to_json
from teardown.runs import RUN_FILE, TABLE_FILE
from teardown.settings import HardwareSettings, Promises, Settings

STACK: Final = "imported"
ORIGIN_FILE: Final = "imported.json"
MODEL_FILE: Final = "model_config.json"
# No address at all (RFC 2606): the files of these tools seldom name the stack's.
NO_URL: Final = "http://imported.invalid/v1"


class ImportedRun(NamedTuple):
    """One run as it stands in the folder; is_new: it was not there before."""

    run: Run
    origin: Origin
    is_new: bool


def model_config(path: Path) -> bytes:
    """Return a model's config.json as it is kept; UsageError where it is none."""
    document = read_node(path).value
    try:
        facts_of_config(document)
    except (TypeError, ValueError, KeyError, ZeroDivisionError) as error:
        raise UsageError(f"{path} is not a model's config.json: {error}") from error
    return (json.dumps(document, indent=1) + "\n").encode()


def keep_runs(
    found: list[tuple[Path, int, Found]], folder: Path, gpu_name: str | None, model: bytes | None
) -> list[ImportedRun]:
    """Keep every run of `found` (its path, which part of it, what was read) in `folder`."""
    engagement = Engagement(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with engagement.lock():
        if not engagement.settings_path.exists():
            _begin(engagement, found[0][2])
        settings = engagement.settings()
        _check_hardware(settings, gpu_name)
        try:
            return [
                _keep(engagement, settings, path, part, one, gpu_name, model)
                for path, part, one in found
            ]
        finally:
            engagement.write_manifest()


def _begin(engagement: Engagement, found: Found) -> None:
    """Write an engagement.yaml for a stack that is known by its results alone."""
    url = (found.url or "").rstrip("/")
    url = (url if url.endswith("/v1") else f"{url}/v1") if url.startswith("http") else NO_URL
    write_settings(
        engagement.folder,
        {
            "client": engagement.folder.resolve().name,
            "access": {"metrics": "none", "logs": "none", "host": "none", "restart": "never"},
            "target": {
                "kind": "endpoint",
                "engine": "auto" if found.stack.engine == "openai" else found.stack.engine,
                "url": url,
                "model": found.stack.served_model,
            },
            "workloads": [],
        },
    )


def _check_hardware(settings: Settings, asked: str | None) -> None:
    named = settings.hardware.gpu if isinstance(settings.hardware, HardwareSettings) else None
    if asked is not None and named is not None and asked != named:
        raise UsageError(
            f"--gpu {asked}, but {SETTINGS_FILE} says hardware {named}; import into another folder"
        )


def _keep(
    engagement: Engagement,
    settings: Settings,
    path: Path,
    part: int,
    found: Found,
    gpu_name: str | None,
    model: bytes | None,
) -> ImportedRun:
    sha = _sha256(path)
    known = _known(engagement, sha, part)
    if known is not None:
        return known
    found = replace(found, load=load_of(found))
    validity = judge(found, settings.limits.stop_if.error_ratio)
    summary = None
    if found.requests and validity.verdict != "invalid":
        summary = _summary(found, settings.promises)
    origin = Origin(
        source=found.source,
        tool=found.tool,
        tool_version=found.tool_version,
        file=path.name,
        sha256=sha,
        part=part,
        cannot_recover=found.lost,
        stated=[_with_ours(s, summary) for s in found.stated],
        numbers="recomputed" if found.requests else "stated",
    )
    run_id = engagement.new_run_id(STACK, found.workload)
    run = Run(
        run=run_id,
        stack=STACK,
        workload=found.workload,
        regime="production",
        salt="",
        seed=0,
        schedule_sha256=work_sha256(found.requests, sha, part),
        target=found.stack,
        segments=found.segments,
        validity=validity,
        summary=summary,
        notes=[
            f"imported from {found.tool} {found.tool_version or ''}".rstrip()
            + f" ({path.name}); its caches were as found",
            *found.notes,
            *(f"cannot be recovered: {sentence}" for sentence in found.lost),
        ],
    )
    run_folder = engagement.run_dir(run_id)
    run_folder.mkdir(parents=True, exist_ok=True)
    for name, content in found.files.items():
        write_atomic(run_folder / name, content)
    model = model or _model_beside(path)
    if model is not None:
        write_atomic(run_folder / MODEL_FILE, model)
    names = _gpu_names(gpu_name, found)
    if names:
        write_atomic(run_folder / "host.json", json.dumps(_host(names), indent=1) + "\n")
    write_requests(run_folder / TABLE_FILE, found.requests)
    write_atomic(run_folder / ORIGIN_FILE, to_json(origin))
    write_atomic(run_folder / RUN_FILE, to_json(run))
    return ImportedRun(run, origin, is_new=True)


def _summary(found: Found, promises: Promises) -> Summary:
    return summarise(
        found.requests,
        promises,
        concurrency=found.load.concurrency,
        is_open=found.load.is_open,
    )


def work_sha256(requests: list[Request], file_sha256: str, part: int) -> str:
    """Return what stands in for a schedule's hash: the prompt lengths that were sent, in any order.

    Where a length is not known the run compares with no other: the hash is the file's own.
    """
    lengths = [r.prompt_tokens for r in requests]
    known = sorted(n for n in lengths if n is not None)
    key = f"{file_sha256}/{part}" if len(known) < len(lengths) or not known else str(known)
    return hashlib.sha256(f"imported {key}".encode()).hexdigest()


def _sha256(path: Path) -> str:
    if path.is_file():
        return sha256_file(path)
    digest = hashlib.sha256()
    for inner in sorted(p for p in path.iterdir() if p.is_file()):
        digest.update(f"{inner.name} {sha256_file(inner)}\n".encode())
    return digest.hexdigest()


def _known(engagement: Engagement, sha256: str, part: int) -> ImportedRun | None:
    """Return the run that this very file made before."""
    for run_id in engagement.run_ids():
        run_folder = engagement.run_dir(run_id)
        if (run_folder / ORIGIN_FILE).exists() and (run_folder / RUN_FILE).exists():
            origin = read(Origin, run_folder / ORIGIN_FILE)
            if (origin.sha256, origin.part) == (sha256, part):
                return ImportedRun(read(Run, run_folder / RUN_FILE), origin, is_new=False)
    return None


def _model_beside(path: Path) -> bytes | None:
    """Return the config.json that was recorded with a folder, or with all of its neighbours."""
    places = (path / MODEL_FILE, path.parent / MODEL_FILE) if path.is_dir() else ()
    return next((model_config(place) for place in places if place.is_file()), None)


def _gpu_names(asked: str | None, found: Found) -> list[str]:
    """Return the driver's names of all GPUs of the stack; as many as its options divide it over."""
    if asked is None:
        return found.gpu_names
    options = {**found.stack.options, **found.stack.effective}
    count = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size"):
        size = options.get(name)
        count *= size if isinstance(size, int) and 0 < size < 1024 else 1
    return [gpu(asked).device_names[0]] * count


def _host(gpu_names: list[str]) -> dict[str, Any]:
    return {
        "schema": "teardown.host/1",
        "gpu_names": gpu_names,
        "gpu_reason": None,
        "problem": "the host was not watched: this run was imported",
        "samples": [],
    }


def _with_ours(stated: Stated, summary: Summary | None) -> Stated:
    """Return `stated` beside the same statistic by DEFINITIONS.md over the whole run."""
    if summary is None or stated.metric is None or stated.statistic is None:
        return stated
    quantiles: Quantiles = getattr(summary.whole, stated.metric)
    found = getattr(quantiles, stated.statistic)
    value = found if found is None or isinstance(found, float) else found.value
    scale = {"ms": 1e3, "s": 1.0, "sec": 1.0}.get(stated.unit)
    return replace(stated, ours=None if value is None or scale is None else value * scale)
