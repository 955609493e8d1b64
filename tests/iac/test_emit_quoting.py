"""Any text comes back as that text from each format, read by a parser that is not ours."""

import json
import re
import shlex
import string
import subprocess
from pathlib import Path

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from iac import quoting
from tests.iac.engagements import NASTY, sh, tool

SPECIAL = st.sampled_from(["${", "%{", "{{", "}}", "$", "%", "\\", '"', "'", "\n", "#", "`", "-- "])
# no NUL (no command line can hold one), no lone surrogates (no file can)
PLAIN = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=20)
TEXT = st.lists(SPECIAL | PLAIN, max_size=6).map("".join)


@given(TEXT)
def test_shell_word_is_read_back_by_a_shell_parser(text: str) -> None:
    assert shlex.split(quoting.shell(text)) == [text]


@settings(max_examples=30, deadline=None)
@given(TEXT, TEXT)
def test_placeholders_are_filled_by_a_real_shell_and_the_rest_stays_text(
    before: str, after: str
) -> None:
    word = quoting.shell_word(before + "{root}" + after)
    script = f'root="a  b"; printf %s {word}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True)
    assert done.stdout.decode() == re.sub(
        r"\{(python|model|host|port)\}", "", (before + "{root}" + after)
    ).replace("{root}", "a  b")


def _read_systemd(word: str, *, is_exec: bool) -> str:
    """Undo systemd.syntax(7): quotes, C escapes, then specifiers and variables."""
    assert word[0] == word[-1] == '"'
    escapes = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"'}
    text = re.sub(
        r"\\(x[0-9a-f]{2}|.)",
        lambda m: chr(int(m[1][1:], 16)) if m[1][0] == "x" else escapes[m[1]],
        word[1:-1],
    )
    assert not re.search(r"(?<!%)%(%%)*(?!%)", text)
    text = text.replace("%%", "%")
    return text.replace("$$", "$") if is_exec else text


@given(TEXT)
def test_systemd_word_is_one_line_and_is_read_back(text: str) -> None:
    word = quoting.systemd_word(text)
    assert "\n" not in word
    assert _read_systemd(word, is_exec=True) == text
    pair = quoting.systemd_assignment("NAME", text)
    assert _read_systemd(pair, is_exec=False) == f"NAME={text}"


@given(TEXT)
def test_one_line_holds_no_control_character(text: str) -> None:
    line = quoting.one_line(text)
    assert line.isprintable()
    assert len(line.splitlines()) <= 1


@given(TEXT, TEXT)
def test_yaml_is_read_back_below_comments_of_any_text(value: str, header: str) -> None:
    assert yaml.safe_load(quoting.yaml_document({"a": value}, [header])) == {"a": value}


@given(TEXT)
def test_compose_value_leaves_no_interpolation(text: str) -> None:
    assert quoting.compose_value(text).replace("$$", "").count("$") == 0
    assert quoting.compose_value(text).replace("$$", "$") == text


@given(TEXT)
def test_prometheus_template_opens_no_action_but_its_own(text: str) -> None:
    quoted = quoting.prometheus_template(text)
    assert "{{" not in quoted.replace('{{ "{{" }}', "")
    assert quoted.replace('{{ "{{" }}', "{{") == text


def test_terraform_reads_back_any_string(tmp_path: Path) -> None:
    terraform = tool("terraform")
    samples = [NASTY, "${", "%{", "$${a}", "%%{b}", "\\n", 'a"b', "\t\r", "é", "\x01\x7f", "$", "%"]
    samples += ["${" * 3, "$" * 5 + "{", string.punctuation]
    listed = ",".join(quoting.hcl(s) for s in samples)
    (tmp_path / "main.tf").write_text(f'output "x" {{\n value = [{listed}]\n}}\n')
    env = {"PATH": "/usr/bin:/bin", "CHECKPOINT_DISABLE": "1", "HOME": str(tmp_path)}
    code, out = sh(terraform, f"-chdir={tmp_path}", "apply", "-auto-approve", env=env)
    assert code == 0, out
    code, out = sh(terraform, f"-chdir={tmp_path}", "output", "-json", "x", env=env)
    assert json.loads(out) == samples


@given(TEXT)
def test_hcl_string_is_one_line_without_an_open_template(text: str) -> None:
    word = quoting.hcl(text)
    assert word.isprintable()
    inner = word[1:-1].replace("$${", "").replace("%%{", "")
    assert "${" not in inner
    assert "%{" not in inner
