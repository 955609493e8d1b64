"""Certificates of one test, made by openssl."""

import subprocess
from pathlib import Path

import pytest


def certificate_for(folder: Path, name: str) -> Path:
    """A certificate for `name` ("IP:127.0.0.1", "DNS:engine.test") with its key, in one file."""
    path = folder / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-days", "2", "-subj", "/CN=fake", "-keyout", str(path)]
    command += ["-addext", f"subjectAltName={name}", "-out", str(folder / "one.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl makes the certificate of this test")
    path.write_text(path.read_text() + (folder / "one.pem").read_text())
    return path
