"""Measure a model-serving stack under a client's load and attribute the time."""
