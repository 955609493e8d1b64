"""The accuracy gate: reference answers, what they vary by, and the judgement of a stack."""

from tuning.oracle.answers import Answer, ask_all
from tuning.oracle.compare import Comparison, Flip, compare
from tuning.oracle.forbidden import forbidden
from tuning.oracle.judge import judge
from tuning.oracle.reference import OracleRecord, Reference, is_stored, load, store

__all__ = [
    "Answer",
    "Comparison",
    "Flip",
    "OracleRecord",
    "Reference",
    "ask_all",
    "compare",
    "forbidden",
    "is_stored",
    "judge",
    "load",
    "store",
]
