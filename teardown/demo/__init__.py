"""The demo engagement: a support desk whose stack is configured as people really do it."""
