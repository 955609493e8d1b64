"""BurstGPT: CSV, seconds, tokens of requests and responses; later releases name the session.

    Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type

A response of 0 tokens is a request that failed there; it is sent here and asks for one token.
Format: github.com/HPMLL/BurstGPT.
"""

from collections.abc import Iterable, Iterator

from teardown.workload.traces.row import Row, csv_fields


def read(lines: Iterable[str], source: str) -> Iterator[Row]:
    """Yield the requests of a BurstGPT file; UsageError names the line that is wrong."""
    for fields in csv_fields(lines, source):
        session = str(fields.values.get("Session ID") or "").strip()
        yield Row(
            at_s=fields.number("Timestamp"),
            prompt_tokens=fields.count("Request tokens"),
            output_tokens=fields.count("Response tokens"),
            session=session or None,
        )
