"""Where an engine is: here, in another Python environment, on another host, or in a container."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.engines.workers.container import open_container
from samebits.engines.workers.other_host import reach_host
from samebits.engines.workers.other_python import OtherPython
from samebits.engines.workers.travelling_worker import TravellingWorker


@dataclass(frozen=True)
class Place:
    """A program of Python, and a host as ssh knows it or an image of a container; without any of them: here."""

    python: str | None = None
    host: str | None = None
    image: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is the environment that samebits runs in."""
        return self == HERE

    @property
    def shares_files(self) -> bool:
        """Whether the engine sees the files that are here."""
        return self.host is None and self.image is None

    def find(self) -> OtherPython | TravellingWorker | None:
        """What starts a worker there; None: here. Raises EngineMissingError where no worker can run."""
        if self.host is not None:
            return reach_host(self.host, self.python)
        if self.image is not None:
            return open_container(self.image, self.python)
        return None if self.python is None else OtherPython(self.python)


HERE = Place()
