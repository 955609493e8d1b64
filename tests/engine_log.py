"""`make test-engines`: the longer tests on real engines, and the log that proves when they ran.

The log is committed. It names the hash of the code that the long tests cover; `make check` fails
when that code has changed since.
"""

import datetime
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOG = ROOT / "tests" / "engines.log"
COVERED = ("teardown/engines", "teardown/load", "teardown/targets", "tuning")


def code_hash() -> str:
    """Return the SHA-256 over the sources that the long tests cover."""
    digest = hashlib.sha256()
    for folder in COVERED:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(str(path.relative_to(ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def long_tests() -> list[str]:
    """Return the files of long tests; they are collected by `make test-engines` alone."""
    return sorted(str(p) for p in (ROOT / "tests").rglob("long_*.py"))


def check() -> None:
    """Exit with a sentence when the log is older than the code it covers."""
    if not long_tests():
        return
    first = LOG.read_text(encoding="utf-8").splitlines()[0] if LOG.exists() else ""
    if code_hash() not in first:
        sys.exit("tests/engines.log is older than the code it covers: run `make test-engines`")


def run() -> None:
    """Run the long tests and write the dated log."""
    found = long_tests()
    if not found:
        print("there are no long tests yet")
        return
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    command = [sys.executable, "-m", "pytest", "-v", *found]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    print(result.stdout)
    if result.returncode:
        sys.exit(result.returncode)
    LOG.write_text(f"code {code_hash()} tested {now}\n{result.stdout}", encoding="utf-8")


if __name__ == "__main__":
    run() if "--run" in sys.argv else check()
