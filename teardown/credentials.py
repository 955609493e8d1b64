"""Keys and headers come from the environment or from a file, and are written nowhere.

Settings and records hold the name of the variable or the path of the file, never what is in it.
"""

import os
from pathlib import Path
from typing import Final

from teardown.errors import UsageError

FROM_ENVIRONMENT: Final = "env:"
FROM_FILE: Final = "file:"


def api_key(variable: str | None, path: str | None) -> str | None:
    """Return the key in `variable`, else in the file at `path`; None where neither is named.

    UsageError where the one that is named holds none.
    """
    if variable is not None:
        key = os.environ.get(variable)
        if not key:
            raise UsageError(f"the environment variable {variable} has no API key")
        return key
    return None if path is None else _from_file(path)


def header_value(name: str, value: str) -> str:
    """Return what header `name` is to say: `env:NAME` and `file:PATH` are looked up."""
    if value.startswith(FROM_FILE):
        return _from_file(value.removeprefix(FROM_FILE))
    if not value.startswith(FROM_ENVIRONMENT):
        return value
    variable = value.removeprefix(FROM_ENVIRONMENT)
    found = os.environ.get(variable)
    if not found:
        raise UsageError(f"the header {name} is read from {variable}, which is not set")
    return found


def _from_file(path: str) -> str:
    try:
        secret = Path(path).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the key in {path} cannot be read: {error}") from error
    if not secret:
        raise UsageError(f"the file {path} has no key")
    return secret
