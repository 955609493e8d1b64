"""Azure's LLM inference traces: CSV, a date and time, context and generated tokens.

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:17:03.9799600,4808,10

Format: github.com/Azure/AzurePublicDataset, AzureLLMInferenceDataset 2023 and 2024.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from teardown.errors import UsageError
from teardown.workload.traces.row import Fields, Row, csv_fields


def read(lines: Iterable[str], source: str) -> Iterator[Row]:
    """Yield the requests of an Azure file; UsageError names the line that is wrong."""
    for fields in csv_fields(lines, source):
        yield Row(
            at_s=_seconds(fields),
            prompt_tokens=fields.count("ContextTokens"),
            output_tokens=fields.count("GeneratedTokens"),
        )


def _seconds(fields: Fields) -> float:
    text = str(fields.values.get("TIMESTAMP") or "").strip()
    try:
        stamp = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{fields.where}: TIMESTAMP {text!r} is not a date and time") from error
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
