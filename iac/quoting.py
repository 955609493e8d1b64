"""Text into each emitted format so that any value stays that value: one function per format.

Client names, options and paths come from outside and may hold quotes, newlines, `$`, `%`, `{{`.
Every template passes them through one of these.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

_PLACEHOLDER = re.compile(r"\{(python|root|model|host|port)\}")


def one_line(text: str) -> str:
    """Return `text` on one line without control characters, for comments and descriptions."""
    cleaned = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(cleaned.split())


def shell(value: str) -> str:
    """Return `value` as one word of POSIX shell."""
    return shlex.quote(value)


def shell_word(template: str) -> str:
    """Return one word of a LaunchSpec as shell: placeholders become quoted variables.

    "{root}/serve.py"  ->  "$root"/serve.py
    """
    parts = _PLACEHOLDER.split(template)
    words = [
        f'"${part}"' if index % 2 else shlex.quote(part)
        for index, part in enumerate(parts)
        if index % 2 or part
    ]
    return "".join(words) or "''"


def systemd_word(value: str) -> str:
    """Return `value` as one quoted word of an Exec line (systemd.service(5), "Command lines")."""
    return '"' + _backslashed(value).replace("%", "%%").replace("$", "$$") + '"'


def systemd_assignment(name: str, value: str) -> str:
    """Return `name=value` as one quoted word of Environment=, where `$` has no meaning."""
    return '"' + _backslashed(f"{name}={value}").replace("%", "%%") + '"'


def systemd_text(value: str) -> str:
    """Return `value` for Description= and the like: one line, specifiers escaped."""
    return one_line(value).replace("%", "%%")


def hcl(value: str) -> str:
    """Return `value` as a quoted HCL string; `${` and `%{` lose their meaning."""
    escaped = "".join(_hcl_character(c) for c in value)
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'


def prometheus_template(value: str) -> str:
    """Return `value` for a label or annotation of a rule, where `{{` opens a Go template."""
    return value.replace("{{", '{{ "{{" }}')


def compose_value(value: str) -> str:
    """Return `value` for compose.yaml, where `$` opens an interpolation."""
    return value.replace("$", "$$")


def yaml_document(document: Mapping[str, Any], header: list[str]) -> str:
    """Return `document` as YAML in the order given, below `header` as comments."""
    comments = "".join(f"# {one_line(line)}\n" for line in header)
    return comments + yaml.safe_dump(
        dict(document), sort_keys=False, allow_unicode=True, width=100_000
    )


def _backslashed(value: str) -> str:
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return "".join(
        named.get(c) or (c if c.isprintable() or ord(c) > 127 else f"\\x{ord(c):02x}")
        for c in value
    )


def _hcl_character(c: str) -> str:
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    if c in named:
        return named[c]
    if c.isprintable():
        return c
    return f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"
