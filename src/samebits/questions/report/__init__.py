"""Any finding laid out as a document, and shown as a page (HTML), as Markdown, or in a notebook."""
