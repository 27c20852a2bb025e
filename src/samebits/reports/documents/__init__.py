"""Findings laid out as documents, which pages (HTML) and texts (Markdown) render in the same way."""

from samebits.reports.documents.any_finding import document_from_finding

__all__ = ["document_from_finding"]
