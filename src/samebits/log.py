"""What a reader of a log of your own gives: mismatches, which `samebits explain LOG` then explains.

>>> from samebits.log import Metrics, Mismatch
>>> def read(lines):
...     for number, line in enumerate(lines, 1):
...         if line.startswith("MYTOOL max diff "):
...             yield Mismatch(line=number, names=("mine", "theirs"), metrics=Metrics(max_abs=float(line.split()[-1])))
>>> [found.metrics.max_abs for found in read(["MYTOOL max diff 0.25"])]
[0.25]

An installed package brings its reader by the entry-point group `samebits.logs`: `mytool = "my_package:read"`.
"""

from samebits.questions.explain.logs.entry import Metrics, Mismatch

# What this module promises: within one number, names may come and none goes.
api = 1
__all__ = ["Metrics", "Mismatch", "api"]
