"""Reports: HTML, Markdown and JSON from the timeline tables."""

from pipeline.report.model import Report
from pipeline.report.reading import Choice, build, build_from

__all__ = ["Choice", "Report", "build", "build_from"]
