"""One page per alert, filled from the bundle that was emitted."""
