"""A browser for tests that open pages; where there is none they are skipped, with the reason."""

import contextlib
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def open_browser():
    """A Chromium of this machine, driven by Playwright."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser here ({', '.join(BROWSERS)}): apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Sandboxes need rights that containers do not give.
        opened = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()
