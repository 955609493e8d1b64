"""The frozen dataclasses that pass between stations and land on disk."""

from teardown.records.attribution import (
    CAUSES,
    TIME_CLASSES,
    Attribution,
    Evidence,
    RuledOut,
    TimeClass,
)
from teardown.records.bundle import Alert, Bundle
from teardown.records.calibration import Calibration, Spread, StreamShape
from teardown.records.capacity import Capacity, CapacityResult, Level, Limiter, Outcome
from teardown.records.codec import Record, from_document, read, to_document, to_json
from teardown.records.estimate import Estimate, Quantiles
from teardown.records.request import FAILED, Request, ServerTimings, Status
from teardown.records.run import (
    Environment,
    ErrorBar,
    Regime,
    Run,
    Segment,
    Summary,
    Validity,
    ValidityReason,
    Window,
)
from teardown.records.schedule import Schedule, ScheduledRequest, Speech, WorkloadKind
from teardown.records.stack import LaunchSpec, Options, OptionValue, Stack
from teardown.records.trial import (
    Candidate,
    Headline,
    LeftAlone,
    OracleCheck,
    OracleResult,
    Pair,
    Plan,
    Trial,
    VerdictRecord,
)

__all__ = [
    "CAUSES",
    "FAILED",
    "TIME_CLASSES",
    "Alert",
    "Attribution",
    "Bundle",
    "Calibration",
    "Candidate",
    "Capacity",
    "CapacityResult",
    "Environment",
    "ErrorBar",
    "Estimate",
    "Evidence",
    "Headline",
    "LaunchSpec",
    "LeftAlone",
    "Level",
    "Limiter",
    "OptionValue",
    "Options",
    "OracleCheck",
    "OracleResult",
    "Outcome",
    "Pair",
    "Plan",
    "Quantiles",
    "Record",
    "Regime",
    "Request",
    "RuledOut",
    "Run",
    "Schedule",
    "ScheduledRequest",
    "Segment",
    "ServerTimings",
    "Speech",
    "Spread",
    "Stack",
    "Status",
    "StreamShape",
    "Summary",
    "TimeClass",
    "Trial",
    "Validity",
    "ValidityReason",
    "VerdictRecord",
    "Window",
    "WorkloadKind",
    "from_document",
    "read",
    "to_document",
    "to_json",
]
