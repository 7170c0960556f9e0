"""Failure signatures as data: one TOML file per family."""
