"""Reports: HTML, Markdown and JSON from the timeline tables."""
