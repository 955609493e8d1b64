"""Scrape configuration, alert rules and their tests, by engine."""
