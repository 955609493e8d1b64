"""Mooncake's traces: JSON Lines, milliseconds, ids of 512-token blocks from the prompt's start.

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}

Format: github.com/kvcache-ai/Mooncake, FAST25-release/traces.
"""

from collections.abc import Iterable, Iterator

from teardown.workload.traces.row import Row, blocks_of, json_fields


def read(lines: Iterable[str], source: str) -> Iterator[Row]:
    """Yield the requests of a Mooncake trace; UsageError names the line that is wrong."""
    for fields in json_fields(lines, source):
        yield Row(
            at_s=fields.number("timestamp") / 1000,
            prompt_tokens=fields.count("input_length"),
            output_tokens=fields.count("output_length"),
            blocks=blocks_of(fields),
        )
