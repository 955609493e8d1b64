"""Prompts and arrivals into a schedule with intended times."""
