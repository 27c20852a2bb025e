"""How the site is built (`make docs`): Sphinx reads the Markdown pages of this folder, and docstrings."""

from pathlib import Path

from sphinx.application import Sphinx

import samebits
from samebits.version import VERSION

project = "samebits"
author = "the samebits developers"
copyright = author
version = release = VERSION
extensions = ["myst_parser", "sphinx.ext.autodoc"]
html_theme = "furo"
# Summaries are fetched, which a page opened from a disk may not.
html_show_search_summary = False
html_title = f"samebits {VERSION}"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Docstrings are plain English with names between backticks.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["torch"]


def setup(app: Sphinx) -> None:
    """Stars in docstrings are multiplications or globs, no emphasis."""

    def keep_stars(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
        lines[:] = [line.replace("*", r"\*") for line in lines]

    def write_sample(app: Sphinx, error: Exception | None) -> None:
        """The page of a finding that the first page of the site leads to."""
        if error is None and app.builder.format == "html":
            sides = ["emulate:direct", "emulate:direct x=bfloat16 w=bfloat16", "truth"]
            found = samebits.compare("conv2d x=2x16x28x28 w=32x16x3x3 bias padding=1", sides)
            found.save(Path(app.outdir) / "sample.html")

    app.connect("autodoc-process-docstring", keep_stars)
    app.connect("build-finished", write_sample)
