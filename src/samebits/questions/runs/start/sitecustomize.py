"""Read by every Python that `samebits trace` starts: arranges that torch, once it is imported, is recorded.

Where another sitecustomize stands on the path, it is run as well.
"""

import importlib.machinery
import importlib.util
import os
import sys


class _AfterTorch:
    """Finds torch as it is, and begins the recording behind its import."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            # A Python that has no samebits, or another one, is not recorded; it must not notice that.
            try:
                from samebits.questions.runs.tracing import start_in_process
            except Exception:
                return
            start_in_process(module)

        spec.loader.exec_module = exec_module
        return spec


def _run_other():
    here = os.path.dirname(os.path.abspath(__file__))
    elsewhere = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("SAMEBITS_TRACE"):
    sys.meta_path.insert(0, _AfterTorch())
_run_other()
