"""One file per engine: how to recognise it, start it, and read what it says of itself."""
