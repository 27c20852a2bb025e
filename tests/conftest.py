"""What all tests share: hypothesis without deadlines (compiled code's first call is slow); tests of missing engines."""

import pytest
from hypothesis import settings

from needed_engines import skip_without_engines

settings.register_profile("samebits", deadline=None, derandomize=True)
settings.load_profile("samebits")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Before any fixture is made: one of them may open the engine.
    for mark in item.iter_markers("needs"):
        skip_without_engines(mark.args)
