"""The kit's own trace: JSON Lines of times and lengths, as gateway logs give them.

    {"at_s": 0.25, "prompt_tokens": 1200, "output_tokens": 80, "session": "a",
     "hash_ids": [7, 8], "block_tokens": 64}

session, hash_ids and block_tokens may be left out.
"""

from collections.abc import Iterable, Iterator

from teardown.errors import UsageError
from teardown.workload.traces.row import Row, blocks_of, json_fields


def read(lines: Iterable[str], source: str) -> Iterator[Row]:
    """Yield the requests of a file of lengths; UsageError names the line that is wrong."""
    for fields in json_fields(lines, source):
        session = fields.values.get("session")
        block_tokens = fields.count("block_tokens") if "block_tokens" in fields.values else 512
        if block_tokens < 1:
            raise UsageError(f"{fields.where}: `block_tokens` is 0; a block has at least one")
        yield Row(
            at_s=fields.number("at_s"),
            prompt_tokens=fields.count("prompt_tokens"),
            output_tokens=fields.count("output_tokens"),
            session=None if session is None else str(session),
            blocks=blocks_of(fields),
            block_tokens=block_tokens,
        )
