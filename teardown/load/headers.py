"""The headers of every request, with their secrets, made when the run begins."""

from teardown.credentials import api_key, header_value
from teardown.errors import UsageError
from teardown.load.config import LoadConfig

# What the client itself says of a request, and what it can read.
RESERVED = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"}
)


def headers_of(config: LoadConfig) -> dict[str, str]:
    """Return the headers of `config`; UsageError names a key that is missing or a wrong header."""
    headers = {"Accept": "text/event-stream"}
    for name, value in config.extra_headers.items():
        if not name or name.lower() in RESERVED or not name.isascii() or " " in name:
            raise UsageError(f"the header {name!r} cannot be set")
        headers[name] = header_value(name, value)
    key = api_key(config.api_key_env, config.api_key_file)
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    if any("\n" in text or "\r" in text for pair in headers.items() for text in pair):
        raise UsageError("a header contains a line break")
    return headers
