import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from teardown.errors import UsageError
from teardown.load.journal import SCHEMA, missing, read_journal
from teardown.records import Request
from tests.fakes.loads import closed_schedule


def opened(attempt: int = 1, **more: Any) -> dict[str, Any]:
    return {"event": "open", "schema": SCHEMA, "attempt": attempt, "time_base_s": 0.0} | more


def started(request_id: str, sent_s: float, attempt: int = 1) -> dict[str, Any]:
    line = {"event": "start", "request_id": request_id, "attempt": attempt, "sent_s": sent_s}
    return line | {"session": "s0", "turn": 0, "intended_s": None, "salt": None, "worker": "0"}


def ended(request: Request, at_s: float = 9.0) -> dict[str, Any]:
    return {"event": "end", "at_s": at_s, "record": msgspec.to_builtins(request)}


def done(request_id: str, attempt: int = 1) -> Request:
    return Request(request_id=request_id, attempt=attempt, status="ok", sent_s=1.0, e2e_s=0.5)


def write(path: Path, *lines: dict[str, Any], tail: bytes = b"") -> Path:
    path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + tail)
    return path


def test_a_request_without_its_end_is_aborted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "j", opened(), started("r0", 1.0), ended(done("r0")), started("r1", 2.0)
    )
    journal = read_journal(path)
    assert [(r.request_id, r.status) for r in journal.requests] == [("r0", "ok"), ("r1", "aborted")]
    assert journal.requests[1].reasons["e2e_s"]
    assert journal.finished == ["r0"]
    assert not journal.is_complete
    assert journal.attempts[0].closed is None
    assert journal.attempts[0].last_s == 9.0


def test_a_half_written_last_line_is_left_out(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", opened(), started("r0", 1.0))
    expected = read_journal(whole)
    tail = json.dumps(ended(done("r0"))).encode()
    for length in range(len(tail)):
        path = write(tmp_path / "j", opened(), started("r0", 1.0), tail=tail[:length])
        assert read_journal(path) == expected


def test_a_torn_line_is_allowed_where_the_next_attempt_begins(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, opened(), started("r0", 1.0), tail=b'{"event": "en\n')
    with path.open("ab") as file:
        for line in (opened(2), started("r0", 3.0, 2), ended(done("r0", 2))):
            file.write(json.dumps(line).encode() + b"\n")
    journal = read_journal(path)
    assert [(r.status, r.attempt) for r in journal.requests] == [("ok", 2)]
    assert [(r.status, r.attempt) for r in journal.superseded] == [("aborted", 1)]
    assert len(journal.attempts) == 2


def test_a_damaged_line_inside_an_attempt_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "j", opened(), tail=b"{broken\n" + json.dumps(started("a", 1)).encode())
    with pytest.raises(UsageError, match="line 2 is damaged"):
        read_journal(path)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ([started("r0", 1.0)], "no journal"),
        ([{"event": "open", "schema": "teardown.journal/9"}], "schema is"),
        ([opened(), {"event": "end", "record": {"status": "ok"}}], "does not fit"),
    ],
)
def test_what_is_no_journal_is_refused(
    tmp_path: Path, lines: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        read_journal(write(tmp_path / "j", *lines))


def test_a_missing_journal_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        read_journal(tmp_path / "none")


def test_an_empty_journal_has_nothing(tmp_path: Path) -> None:
    journal = read_journal(write(tmp_path / "j"))
    assert (journal.attempts, journal.requests, journal.is_complete) == ([], [], False)


def test_what_was_never_sent_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "j", opened(), started("r1", 1.0))
    assert missing(closed_schedule(3, 1), read_journal(path)) == ["r0", "r2"]
