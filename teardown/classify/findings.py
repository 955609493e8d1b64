"""What the decision tests found: evidence, doubts and notes, gathered in their order."""

from dataclasses import dataclass, field

from teardown.records import Evidence


@dataclass(slots=True)
class Findings:
    """Filled by one test after the other. doubts: (factor on the confidence, why)."""

    evidence: list[Evidence] = field(default_factory=list)
    doubts: list[tuple[float, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def saw(
        self, name: str, value: float, unit: str, source: str, says: str, supports: str = ""
    ) -> None:
        """Keep one number as evidence."""
        self.evidence.append(
            Evidence(
                name=name,
                value=round(float(value), 6),
                unit=unit,
                source=source,
                says=says,
                supports=supports,
            )
        )

    def doubt(self, factor: float, why: str) -> None:
        """Lower the confidence by `factor` and say why."""
        self.doubts.append((factor, why))
