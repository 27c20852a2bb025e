"""The documentation is a site: it builds without a warning, holds every page, and is searched offline."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from needed_browser import open_browser

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(p.relative_to(ROOT / "docs") for p in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "docs", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_in_it(site):
    assert len(PAGES) > 40
    missing = [page for page in PAGES if not (site / page).with_suffix(".html").is_file()]
    assert not missing


def test_the_api_is_documented(site):
    page = (site / "api.html").read_text()
    for name in ("compare", "explain", "conv2d", "torch.guard", "testing.conformance", "errors.EngineCrashed"):
        assert f'id="samebits.{name}"' in page


def test_links_lead_somewhere(site):
    """Links to files that are no pages become downloads; none is left as it was written."""
    for page in site.rglob("*.html"):
        for target in re.findall(r'href="([^"#:?]+)(?:#[^"]*)?"', page.read_text()):
            assert (page.parent / target).exists(), (page.name, target)


def test_it_is_searched_without_a_network(site):
    with open_browser() as browser:
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"{site.as_uri()}/search.html?q=tf32")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        found = page.locator("#search-results li a").all_inner_texts()
    assert any("TF32" in title for title in found)
    assert not said
