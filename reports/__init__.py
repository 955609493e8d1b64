"""The before/after report: one self-contained HTML file, rendered from records alone."""
