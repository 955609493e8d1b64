"""KV-cache formats, sizes and codecs; usable alone."""
