"""Targets: how a stack is touched. `make_target` opens the one that engagement.yaml names."""

from teardown.targets.endpoint import EndpointTarget
from teardown.targets.local import LocalTarget
from teardown.targets.manual import ManualTarget
from teardown.targets.open import make_target
from teardown.targets.protocol import Target

__all__ = ["EndpointTarget", "LocalTarget", "ManualTarget", "Target", "make_target"]
