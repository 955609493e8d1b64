"""From an attribution to a proven change: plan, trials, oracle, verdict."""
