"""Every alert has a page that can be followed, with names that exist in what was emitted."""

import dataclasses
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbooks.pages import PAGES
from runbooks.render import HEADINGS, INDEX, markdown, render_runbook
from runbooks.verbs import write_runbook
from teardown.errors import UsageError
from teardown.records import Alert, Bundle, LaunchSpec, Stack, to_json

NASTY = 'O\'Neil & "Söhne" $HOME {{ x }} <b> `id` | #\n# --> two'
OLD, NEW = "0" * 12, "a" * 12


def alert(name: str = "LLMServerDown") -> Alert:
    return Alert(
        alert=name,
        expr='llamacpp:requests_deferred{job="llm-tiny"} > 0',
        for_s=90.0,
        severity="critical",
        summary="It does not answer",
        runbook=f"runbook/{name}.md",
    )


def bundle(**changes: object) -> Bundle:
    def stack(slots: int) -> Stack:
        return Stack(
            engine="llama.cpp",
            launcher="xllamacpp",
            version=None,
            model="/models/tiny.gguf",
            served_model="it's | tiny",
            options={"parallel": slots, "threads": 2},
        )

    fields: dict[str, object] = {
        "service": "llm-tiny",
        "engagement": "Example Voice",
        "stack": stack(4),
        "previous": stack(1),
        "launch": LaunchSpec(
            argv=["{python}"],
            files={},
            env={},
            packages=[],
            health_path="/health",
            metrics_path="/metrics",
            start_timeout_s=10.0,
            drain_s=5.0,
        ),
        "install_dir": "/opt/llm",
        "host": "0.0.0.0",
        "port": 8080,
        "model_sha256": None,
        "config_sha256": "a" * 64,
        "alerts": [alert(name) for name in PAGES],
        "files": [f"stack/{NEW}/start", f"rollback/{OLD}/start", "compose/compose.yaml"],
    }
    return Bundle(**(fields | changes))  # type: ignore[arg-type]


def commands(page: str) -> list[str]:
    """Return the commands of a page: its code blocks, without rules and metrics expressions."""
    blocks = re.findall(r"^(?: {4}| {8})(\S.*)$", page, re.MULTILINE)
    return [block for block in blocks if not block.startswith("llamacpp:")]


@pytest.mark.parametrize("name", [*PAGES, "AnAlertFromElsewhere"])
def test_each_page_has_every_heading_in_order(name: str) -> None:
    page = render_runbook(bundle(alerts=[alert(name)]), "Example")[f"runbook/{name}.md"]
    assert tuple(re.findall(r"^## (.*)$", page, re.MULTILINE)) == HEADINGS
    assert page.splitlines()[1] == f"# {name}"


@pytest.mark.parametrize("name", PAGES)
def test_each_diagnosis_has_a_command_what_it_shows_and_what_else(name: str) -> None:
    page = render_runbook(bundle(), "Example")[f"runbook/{name}.md"]
    diagnosis = page.split("## Diagnosis")[1].split("## Mitigation")[0]
    steps = len(re.findall(r"^\d+\. ", diagnosis, re.MULTILINE))
    assert steps >= 1
    assert diagnosis.count("Expected: ") == diagnosis.count("Otherwise: ") == steps
    assert len(commands(diagnosis)) >= steps


def test_commands_name_only_what_the_bundle_names() -> None:
    made = bundle()
    known = {made.service, f"{made.service}.service"}
    for path, page in render_runbook(made, NASTY).items():
        for command in commands(page):
            for unit in re.findall(r"systemctl .*?(\S+\.service)", command):
                assert unit in known, (path, command)
            for unit in re.findall(r"journalctl .* -u (\S+)", command):
                assert unit in known, (path, command)
            for release in re.findall(r"(?:releases/|LLM_RELEASE=)([0-9a-f]+)", command):
                assert release in {OLD, NEW}, (path, command)
            for url in re.findall(r"http://[^/' ]+", command):
                assert url == "http://127.0.0.1:8080", (path, command)
            for script in re.findall(r"sh (/\S+)", command):
                assert script == "/opt/llm/supervisor/run.sh", (path, command)


def test_commands_are_shell_that_parses() -> None:
    for page in render_runbook(bundle(), NASTY).values():
        for command in commands(page):
            checked = subprocess.run(["sh", "-n", "-c", command], capture_output=True, check=False)
            assert checked.returncode == 0, command


def test_without_an_old_release_no_page_offers_to_roll_back() -> None:
    pages = render_runbook(bundle(files=[f"stack/{NEW}/start"]), "Example")
    assert "no other release" in pages[INDEX]
    assert "ln -sfn" not in "".join(pages.values())
    assert "docker" not in "".join(pages.values())


def test_a_server_that_the_kit_does_not_start_has_no_start_command() -> None:
    made = bundle(files=[], launch=dataclasses.replace(bundle().launch, argv=[]))
    pages = render_runbook(made, "Example")
    text = "".join(pages.values())
    assert "systemctl" not in text
    assert "run.sh" not in text
    assert "as you do today" in pages[INDEX]
    assert "curl" in text


def test_the_index_links_every_page_and_shows_what_changed() -> None:
    index = render_runbook(bundle(), "Example")[INDEX]
    for name in PAGES:
        assert f"[{name}]({name}.md)" in index
    assert "| `parallel` | `1` | `4` |" in index
    for title in ("Start", "Stop", "Status", "Upgrade", "Roll back"):
        assert f"## {title}" in index


def test_a_clients_name_opens_no_markup() -> None:
    for page in render_runbook(bundle(), NASTY).values():
        head, _, rest = page.partition("\n")
        assert head.startswith("<!-- ")
        assert head.count("-->") == 1
        assert "<b>" not in rest.replace("\\<b\\>", "")
        assert "\n# --" not in rest


@given(st.text(max_size=30))
def test_markdown_is_one_line_and_every_mark_is_escaped(text: str) -> None:
    quoted = markdown(text)
    assert len(quoted.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(\\\\)*[`*_\[\]<>#|]", quoted)


def test_the_same_bundle_gives_the_same_pages() -> None:
    assert render_runbook(bundle(), NASTY) == render_runbook(bundle(), NASTY)


def test_pages_are_written_from_the_bundle_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/bundle.json").write_text(to_json(bundle()))
    (tmp_path / "engagement.yaml").write_text(
        "client: Example Voice\ntarget: {kind: endpoint, url: 'http://h/v1'}\n"
    )
    paths = write_runbook(tmp_path)
    assert paths == sorted([INDEX, *(f"runbook/{name}.md" for name in PAGES)])
    assert "Example Voice" in (tmp_path / "out" / INDEX).read_text()


def test_without_a_bundle_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"bundle\.json does not exist"):
        write_runbook(tmp_path)
