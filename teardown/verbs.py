"""The verbs of measuring and attributing, and the two that call verbs in order: run and demo."""

import json
from pathlib import Path
from typing import Any

import click

from teardown.errors import FeatureMissing, RunInvalid, UsageError

FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
YES = click.option("--yes", is_flag=True, help="restart servers and spend without asking")


def emit_json(document: dict[str, Any]) -> None:
    """Print exactly one document on standard output."""
    click.echo(json.dumps(document, ensure_ascii=False))


def not_yet(verb: str, what: str) -> None:
    """Exit 3 with the reason: the verb is part of the contract, its content is not built yet."""
    raise FeatureMissing(f"`teardown {verb}` is not there yet: {what}")


@click.command()
@FOLDER
@click.option("--url", help="the endpoint's address, ending in /v1")
@click.option("--model", help="the model name to ask for; probed when left out")
@click.option("--prompts", type=click.Path(path_type=Path), help="the client's prompts, JSON Lines")
@click.option("--client", default=None, help="the client's name, printed on the report")
@JSON
def init(
    folder: Path,
    url: str | None,
    model: str | None,
    prompts: Path | None,
    client: str | None,
    as_json: bool,
) -> None:
    """Probe an endpoint; write engagement.yaml and intake.md into DIR.

    teardown init shop --url http://10.0.0.5:8000/v1 --prompts prompts.jsonl
    """
    from teardown.begin import begin

    if not url:
        raise UsageError("init needs --url, the address that clients use, such as http://host/v1")
    written = begin(folder, url, model, prompts, client)
    if as_json:
        emit_json({"schema": "teardown.init/1", "files": written})
        return
    for name in written:
        click.echo(name)
    click.echo(f"next: teardown doctor {folder}")


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--url", help="probe this endpoint instead of an engagement")
@click.option("--model", help="the model name to ask for")
@click.option("--api-key-env", metavar="NAME", help="the environment variable with the API key")
@JSON
def doctor(
    folder: Path | None,
    url: str | None,
    model: str | None,
    api_key_env: str | None,
    as_json: bool,
) -> None:
    """Preflight: can this be measured, and what does each missing right cost.

    teardown doctor DIR        or        teardown doctor --url http://host:8000/v1
    """
    from teardown.preflight import ANNOUNCEMENT, examine, key_from, render

    if (folder is None) == (url is None):
        raise UsageError("doctor needs either DIR or --url")
    key = key_from(api_key_env)
    click.echo(ANNOUNCEMENT, err=True)
    findings = examine(folder, url, model, key)
    failed = [f.name for f in findings if f.level == "fail"]
    sentence = f"{len(failed)} check(s) failed: {', '.join(failed)}"
    if as_json:
        checks = [
            {"name": f.name, "level": f.level, "text": f.text, "fix": f.fix} for f in findings
        ]
        emit_json({"schema": "teardown.doctor/1", "checks": checks})
    else:
        click.echo(render(findings))
    if failed:
        raise FeatureMissing(sentence, has_document=as_json)
    if not as_json:
        click.echo(f"next: teardown {f'measure {folder}' if folder else f'init DIR --url {url}'}")


@click.command()
@FOLDER
@click.option("--stack", default="before", show_default=True, help="the name of what is measured")
@click.option("--workload", help="one workload of engagement.yaml; all of them when left out")
@click.option("--regime", type=click.Choice(["cold", "steady", "production"]))
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="load processes that share the workload; never more in flight than asked, in sum",
)
@click.option(
    "--listen",
    metavar="HOST[:PORT]",
    help="wait there for --workers of other hosts, which ran `teardown worker --join`",
)
@click.option("--url", help="without an engagement.yaml: the endpoint")
@click.option("--model", help="without an engagement.yaml: the model name")
@click.option("--prompts", type=click.Path(path_type=Path), help="the prompts file")
@click.option("--requests", "num_requests", type=int, help="how many requests")
@click.option("--concurrency", type=int, default=1, show_default=True, help="closed-loop users")
@click.option("--max-tokens", type=int, default=64, show_default=True)
@JSON
def measure(folder: Path, as_json: bool, **options: Any) -> None:
    """Send the workload of DIR and write down what came back.

    teardown measure DIR
    teardown measure DIR --url U --model M --prompts P.jsonl --requests 50 --concurrency 4
    teardown measure DIR --workers 4                                4 processes of this host
    teardown measure DIR --workers 3 --listen 10.0.0.7              3 workers on other hosts
    """
    from teardown.load.messages import place_of
    from teardown.steps import measure_step

    if options["listen"]:
        place_of(options["listen"])
    runs = measure_step(folder, options)
    if as_json:
        emit_json(_measured(folder, runs))
    else:
        from teardown.text import run_text

        for run in runs:
            click.echo(run_text(run))
    invalid = [r for r in runs if r.validity.verdict == "invalid"]
    if invalid:
        reasons = "; ".join(f"{r.code}: {r.text}" for r in invalid[0].validity.reasons)
        raise RunInvalid(f"{invalid[0].run} is invalid ({reasons})", has_document=as_json)
    if not as_json:
        click.echo(f"next: teardown diagnose {folder}")


def _run_document(run: Any) -> dict[str, Any]:
    import msgspec

    return {
        "schema": "teardown.measure/1",
        "run": run.run,
        "validity": msgspec.to_builtins(run.validity),
        "summary": msgspec.to_builtins(run.summary),
    }


def _measured(folder: Path, runs: list[Any]) -> dict[str, Any]:
    """Return one run's document; several are listed under `runs`, capacities under `capacity`."""
    import msgspec

    from teardown.capacity import results_of
    from teardown.engagement import Engagement

    documents = [_run_document(run) for run in runs]
    if not documents:
        documents = [{"schema": "teardown.measure/1", "run": None, "summary": None}]
    many = {} if len(documents) == 1 else {"runs": documents}
    results = results_of(Engagement(folder), runs)
    return {**documents[0], **many} | (
        {"capacity": msgspec.to_builtins(results)} if results else {}
    )


@click.command("import")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--into", "folder", required=True, metavar="DIR", type=click.Path(path_type=Path))
@click.option("--from", "kind", help="the kind of file, where its content does not tell")
@click.option("--map", "mapping", help="columns of a gateway's log: ts=arrival,prompt=input_tokens")
@click.option("--model-config", type=click.Path(path_type=Path), help="the model's config.json")
@click.option("--gpu", help="what it ran on, such as H200")
@JSON
def import_(path: Path, folder: Path, as_json: bool, **options: Any) -> None:
    """Read another tool's result, a recording folder or a gateway's log into DIR.

    \b
    teardown import result.json --into shop             vllm bench serve, GuideLLM, AIPerf
    teardown import gateway.csv --into shop --map ts=arrival,prompt=input_tokens
    """
    from teardown.imports.entry import Asked, import_path, to_documents
    from teardown.imports.text import imported_text

    imported = import_path(path, folder, Asked(**options))
    if as_json:
        emit_json(to_documents(imported))
        return
    click.echo(imported_text(imported))
    if isinstance(imported, list):
        click.echo(f"next: teardown diagnose {folder} --run {imported[-1].run.run}")
    else:
        name = imported.traffic.workload
        entry = f"{{name: {name}, kind: trace, trace: {imported.trace.relative_to(folder)}}}"
        click.echo(f"next: add under workloads: in {folder}/engagement.yaml: {entry}")


@click.command()
@click.option(
    "--join",
    required=True,
    metavar="HOST[:PORT]",
    help="where `teardown measure --listen` waits for workers; port 5557 unless given",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="seconds to wait for a run, at first and between runs",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="where the journal lies until the master has all of it; a new one in the temporary folder",
)
@JSON
def worker(join: str, wait_s: float, folder: Path | None, as_json: bool) -> None:
    """Be a load worker for another host, until its `measure` has ended.

    The API key is taken from this host's environment, under the name that engagement.yaml gives.
    Prompts come from the master and are kept in memory alone.

    teardown worker --join 10.0.0.7
    """
    from teardown.steps import worker_step

    num_runs = worker_step(join, folder, wait_s)
    if as_json:
        emit_json({"schema": "teardown.worker/1", "runs": num_runs})
        return
    click.echo(f"took part in {num_runs} run(s)")
    click.echo(f"next: teardown worker --join {join}")


@click.command()
@FOLDER
@click.option("--run", "run_id", required=True, help="the run's id, as under runs/")
@JSON
def requests(folder: Path, run_id: str, as_json: bool) -> None:
    """Print the requests of one run as a table.

    teardown requests DIR --run r0001-before-chats
    """
    from teardown.steps import requests_of

    rows = requests_of(folder, run_id)
    if as_json:
        emit_json({"schema": "teardown.requests/1", "requests": rows})
        return
    from teardown.text import requests_text

    click.echo(requests_text(rows))
    click.echo(f"next: teardown diagnose {folder} --run {run_id}")


@click.command()
@FOLDER
@click.option("--run", "run_id", help="a run's id; the newest valid run of stack `before` if not")
@JSON
def diagnose(folder: Path, run_id: str | None, as_json: bool) -> None:
    """Say where the time of a run went, with the evidence.

    teardown diagnose DIR
    """
    from teardown.records import to_document
    from teardown.steps import diagnose_step

    attribution = diagnose_step(folder, run_id)
    if as_json:
        emit_json(to_document(attribution))
        return
    from teardown.classify.picture import picture

    click.echo(picture(attribution))
    click.echo(f"next: teardown plan {folder}")


@click.command()
@FOLDER
@click.argument("run_a")
@click.argument("run_b")
@click.option("--gate", is_flag=True, help="exit 5 unless RUN_B is measurably better")
@JSON
def compare(folder: Path, run_a: str, run_b: str, gate: bool, as_json: bool) -> None:
    """Compare two runs of one schedule; one pair makes no claim.

    teardown compare DIR r0001-before-chats r0009-after-chats
    """
    from teardown.comparison import compare_runs, comparison_text

    result = compare_runs(folder, run_a, run_b)
    if as_json:
        emit_json(result)
    else:
        click.echo(comparison_text(result))
    if gate:
        from teardown.errors import GateNotMet

        raise GateNotMet(
            "one pair makes no claim: a gate needs at least 4 interleaved pairs, "
            f"as `teardown tune {folder}` makes them",
            has_document=as_json,
        )
    if not as_json:
        click.echo(f"next: teardown tune {folder}")


@click.command()
@FOLDER
@JSON
def forget(folder: Path, as_json: bool) -> None:
    """Delete every stored text of DIR, and prove it.

    Prompts, reference answers and logs go; numbers, lengths and keyed hashes stay, so that the
    report can still be written. What is left is then searched for pieces of what was deleted.
    """
    from teardown.forget import forget_texts, forgotten_text, read_forgotten
    from teardown.records import to_document
    from teardown.steps import opened

    with opened(folder) as (engagement, settings):
        before = read_forgotten(engagement)
        record = forget_texts(engagement, settings)
    if as_json:
        emit_json(to_document(record))
        return
    num_new = len(record.deleted) - (len(before.deleted) if before else 0)
    click.echo(forgotten_text(record, num_new))
    click.echo(f"next: teardown report {folder}")


@click.command()
@FOLDER
@YES
@JSON
def run(folder: Path, yes: bool, as_json: bool) -> None:
    """Do every step of the engagement in DIR, resuming where it stopped.

    doctor, measure, diagnose, plan, tune, emit, report; each is also a verb of its own.
    """
    from teardown.chain import run_chain

    document = run_chain(folder, yes=yes)
    if as_json:
        emit_json(document)
    else:
        click.echo(document["text"])


@click.command()
@click.argument("folder", metavar="[DIR]", default="demo", type=click.Path(path_type=Path))
@click.option(
    "--model", type=click.Path(path_type=Path), help="a GGUF file instead of the download"
)
@click.option("--tuned", is_flag=True, help="the same desk without its faults: nothing should help")
@JSON
def demo(folder: Path, model: Path | None, tuned: bool, as_json: bool) -> None:
    """Run a whole engagement on the embedded engine: a support desk that is served badly.

    teardown demo [DIR]        about 7 minutes on 2 cores
    """
    from teardown.chain import run_chain
    from teardown.demo.desk import write_desk

    write_desk(folder, model, tuned=tuned)
    document = run_chain(folder, yes=True)
    if as_json:
        emit_json(document)
    else:
        click.echo(document["text"])
