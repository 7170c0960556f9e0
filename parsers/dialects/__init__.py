"""Training-log dialects as data: one TOML file per framework."""
