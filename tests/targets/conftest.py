"""The embedded model for tests that drive a real engine."""

from pathlib import Path

import pytest

from teardown.engines.embedded import embedded_model
from teardown.errors import FeatureMissing


@pytest.fixture(scope="session")
def model() -> Path:
    pytest.importorskip("xllamacpp")
    try:
        return embedded_model(None)
    except FeatureMissing as missing:
        pytest.skip(str(missing))
