"""Reports: HTML, Markdown and JSON from the timeline tables."""

from pipeline.report.reading import Choice, build, build_from
from pipeline.report.model import Report

__all__ = ["Choice", "Report", "build", "build_from"]
