"""A made-up cluster: what happens on it, the truth about that, and the logs that it leaves."""
