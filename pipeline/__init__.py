"""From facts to answers: lake, timeline, reports and the command line."""
