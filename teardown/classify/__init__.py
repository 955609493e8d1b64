"""Attribute the time of one run to what the stack was doing."""
