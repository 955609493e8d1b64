"""The diagnosis as plain text for the terminal: a bar of shares, then the evidence."""

from teardown.records import Attribution

BAR_WIDTH = 40
FULL, EMPTY = "█", "·"
# Shares below half a percent are left out of the bar; they are in attribution.json.
MIN_SHOWN = 0.005
MAX_EVIDENCE = 12


def picture(found: Attribution) -> str:
    """Return the attribution as lines of text without colours, ending without a newline."""
    lines = [_headline(found), ""]
    shown = sorted(found.shares.items(), key=lambda item: (item[0] == "unexplained", -item[1]))
    for name, share in shown:
        if share >= MIN_SHOWN or name == "unexplained":
            filled = round(share * BAR_WIDTH)
            bar = FULL * filled + EMPTY * (BAR_WIDTH - filled)
            lines.append(f"  {name:<13} {bar} {share:6.1%}")
    if found.overshoot >= MIN_SHOWN:
        lines.append(f"  terms overshot the time by {found.overshoot:.1%} and were scaled down")
    if found.causes:
        lines += ["", "what to change (saves at most, of experienced time)"]
        lines += [f"  {cause:<22} {share:6.1%}" for cause, share in found.causes.items()]
    if found.evidence:
        lines += ["", "evidence"]
        for row in found.evidence[:MAX_EVIDENCE]:
            lines.append(
                f"  {row.name}: {_number(row.value)} {row.unit} ({row.source}); {row.says}"
            )
        rest = len(found.evidence) - MAX_EVIDENCE
        if rest > 0:
            lines.append(f"  and {rest} more in attribution.json")
    if found.would_disprove:
        lines += ["", "this would disprove it"]
        lines += [f"  {sentence}" for sentence in found.would_disprove]
    if found.notes:
        lines += ["", "notes"]
        lines += [f"  {note}" for note in found.notes]
    return "\n".join(lines)


def _headline(found: Attribution) -> str:
    if found.abstained or found.time_class is None:
        return f"{found.run}: I cannot tell where the time goes"
    cause = f", cause {found.cause}" if found.cause else ""
    return f"{found.run}: {found.time_class}{cause} (confidence {found.confidence:.2f})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
