"""Watch the stack while load runs: engine metrics, host, GPU; in a process of its own."""
