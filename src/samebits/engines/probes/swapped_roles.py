"""Questions in the other operand: the same sums with rows and source in each other's place.

Questions go into rows, one to a row. Where a problem has few rows and many positions, as a matrix has that is
multiplied by a vector, the source can carry them instead, if each of its values enters the sums of one position only.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from samebits.engines.probes.session import ProbeSession
from samebits.problems import Problem
from samebits.problems.terms import Terms, find_terms


def can_swap(terms: Terms) -> bool:
    """Whether every value of the source enters the sums of one position only, and none lacks a term."""
    if terms.volume * int(np.prod(terms.outputs)) > int(np.prod(terms.source_sizes)):
        return False
    at = terms.locate_sources(np.arange(int(np.prod(terms.outputs))))
    return bool((at >= 0).all()) and len(np.unique(at)) == at.size


@dataclass
class SwappedSession(ProbeSession):
    """Asks another session's runner; a row here is a group's position there, a position here a row there.

    Its problem is the 1x1 convolution that has those rows. Calls are counted by the other session, whose limits hold.
    """

    base: ProbeSession = field(kw_only=True)

    @classmethod
    def swap(cls, base: ProbeSession) -> SwappedSession:
        """The session with the roles of another one's operands exchanged; see `can_swap`."""
        terms, problem = base.terms, base.problem
        swapped = Problem(
            kind="conv1d",
            x=(terms.rows, terms.groups * terms.count, 1),
            w=(terms.groups * terms.positions, terms.count, 1),
            groups=terms.groups,
            dtype=problem.dtype,
            out=problem.out,
            then=problem.then,
        )
        return cls(base.runner, swapped, progress=base.progress, base=base)

    @property
    def numbered_terms(self) -> Terms:
        """The other session's: its problem's sums have the axes, here they are one."""
        return self.base.terms

    def ask(self, operands: dict[str, np.ndarray]) -> np.ndarray:
        """The other session's result, rows and positions exchanged. Raises EngineFailure, ProbeStopped."""
        terms, own = self.base.terms, find_terms(self.problem)
        asked = self.base.make_operands(0.0)
        source = terms.view_source(asked[terms.source_operand])
        sums = own.view_rows(operands["w"]).reshape(terms.groups, terms.batch, -1, terms.depth, terms.volume)
        source[..., self._at] = sums.transpose(0, 1, 3, 2, 4)
        rows = self.base.view_rows(asked)
        rows[...] = own.view_source(operands["x"]).reshape(rows.shape)
        result = terms.view_result(self.base.ask(asked))
        answer = np.empty(self.problem.out_shape, result.dtype)
        own.view_result(answer)[...] = result.reshape(terms.groups, terms.rows, -1).transpose(0, 2, 1)[..., None]
        return answer

    @functools.cached_property
    def _at(self) -> npt.NDArray[np.int64]:
        terms = self.base.terms
        return terms.locate_sources(np.arange(int(np.prod(terms.outputs))))
