"""Reports: HTML, Markdown and JSON from the timeline tables."""

from pipeline.report.model import Choice, Report
from pipeline.report.reading import build, build_from

__all__ = ["Choice", "Report", "build", "build_from"]
