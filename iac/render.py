"""Templates to text: strict about names, deterministic, quoting by filter."""

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from iac import quoting
from iac.deployment import Deployment

# The supervisor and the unit share one policy: five starts in ten minutes, then stay down.
RESTART_LIMIT = 5
RESTART_WINDOW_S = 600
# Loading takes longer on a cold disk than in the measurement: twice the time that was allowed.
START_TIMEOUT_FACTOR = 2
# After the drain, the time that an engine may take to end before it is killed.
STOP_MARGIN_S = 10


def header(deployment: Deployment) -> str:
    """Return the line that every emitted file carries as a comment."""
    client = quoting.one_line(deployment.client)
    return (
        f"teardown emit: {deployment.service} for {client}; "
        f"config sha256 {deployment.config_sha256}"
    )


def start_timeout_s(deployment: Deployment) -> int:
    """Return how long a start may take on the client's host, whole seconds."""
    launch = deployment.launch
    return max(10, round(launch.start_timeout_s * START_TIMEOUT_FACTOR)) if launch else 60


def stop_timeout_s(deployment: Deployment) -> int:
    """Return how long a stop may take before the server is killed, whole seconds."""
    return round(deployment.launch.drain_s) + STOP_MARGIN_S if deployment.launch else STOP_MARGIN_S


def render(template: str, context: Mapping[str, Any]) -> str:
    """Return the text of `iac/templates/<template>` filled from `context`."""
    environment = Environment(
        loader=PackageLoader("iac", "templates"),
        undefined=StrictUndefined,
        autoescape=False,  # no HTML; each value is quoted for its own format by a filter
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "hcl": quoting.hcl,
        "shell": quoting.shell,
        "shell_word": quoting.shell_word,
        "systemd_pair": lambda pair: quoting.systemd_assignment(*pair),
        "systemd_text": quoting.systemd_text,
        "systemd_word": quoting.systemd_word,
    }
    return environment.get_template(template).render(**context)
