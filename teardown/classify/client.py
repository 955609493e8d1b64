"""Time that the client itself lost before a request was on its way, and the network's part."""

import numpy as np

from teardown.classify.findings import Findings
from teardown.classify.ledger import Ledger
from teardown.classify.timeline import Array, Timeline

# diagnosis 3.5, test 1: a send lag above 5 % of time to first token blames the client.
MAX_LAG_RATIO = 0.05


def charge_client(ledger: Ledger, line: Timeline, frontend: Array, found: Findings) -> Array:
    """Charge client wait and network; return the frontend time that is left for the server.

    The network's part of what came before the server's queue is one connect time, a round trip.
    """
    ledger.add("client", "client_limited", line.client_wait)
    lag = line.client_wait.sum() / max(line.ttft.sum(), 1e-9)
    found.saw(
        "client wait over time to first token",
        float(lag),
        "ratio",
        "schedule",
        "late" if lag > MAX_LAG_RATIO else f"within {MAX_LAG_RATIO:.0%}",
        "client",
    )
    connects = [r.connect_s for r in line.requests if r.connect_s]
    if not connects:
        return frontend
    network = np.minimum(frontend, float(np.median(connects)))
    ledger.add("client", "network", network)
    return np.asarray(frontend - network, dtype=np.float64)
