"""Questions about pairs of terms: packed into calls, asked once, answered by position; rows parted by answers."""

import numpy as np
import pytest

from numpy_runners import FailingRunner, PlainRunner, keep_bits
from samebits.engines.probes.mask_values import Scale
from samebits.engines.probes.query_batch import QueryBatch, classify_rows
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text

LAYER = "conv1d x=1x4x8 w=6x4x3"
WIDE = Scale(2.0**100, 1.0, 12)


class Rows(PlainRunner):
    """Adds the rows (output channels) that it is told in reverse."""

    def __init__(self, reverse):
        super().__init__()
        self.reverse = list(reverse)

    def run(self, problem, operands):
        self.tree = None
        forth = super().run(problem, operands)
        self.tree = tuple(range(11, -1, -1))
        forth[:, self.reverse] = super().run(problem, operands)[:, self.reverse]
        self.calls -= 1
        return forth


def batch_of(runner, text=LAYER, rows=6, scale=WIDE, positions=None, **limits):
    session = ProbeSession(runner, parse_problem_text(text), **limits)
    return QueryBatch(session, scale, np.arange(rows), positions)


def test_answers_count_the_terms_that_join_a_chain_after_both_masks():
    batch = batch_of(PlainRunner())
    pairs = [(i, j, 0) for i in range(12) for j in range(12) if i != j]
    batch.ask(pairs)
    for i, j, u in pairs:
        assert batch.answers[i, j, u].tolist() == [11 - max(i, j)] * 6


def test_only_marked_terms_carry_units():
    batch = batch_of(PlainRunner())
    marks = np.zeros(12, bool)
    marks[[2, 5, 7, 11]] = True
    batch.units.append(marks)
    batch.ask([(0, 6, 1), (0, 6, 0)])
    assert batch.answers[0, 6, 1].tolist() == [2] * 6
    assert batch.answers[0, 6, 0].tolist() == [5] * 6


def test_small_units_are_counted_as_ones():
    batch = batch_of(PlainRunner(), scale=Scale(2.0**15, 2.0**-24, 12))
    batch.ask([(0, 3, 0)])
    assert batch.answers[0, 3, 0].tolist() == [8] * 6


def test_as_many_questions_go_to_a_call_as_there_are_rows():
    batch = batch_of(PlainRunner())
    batch.ask([(0, j, 0) for j in range(1, 12)])
    assert batch.session.calls == 2
    few = batch_of(PlainRunner(), rows=2)
    few.ask([(0, j, 0) for j in range(1, 12)])
    assert few.session.calls == 6
    assert few.answers[0, 4, 0].tolist() == [7] * 6


def test_no_question_is_asked_twice():
    batch = batch_of(PlainRunner())
    batch.ask([(0, 1, 0), (0, 1, 0), (0, 2, 0)])
    batch.ask([(0, 2, 0), (0, 1, 0)])
    assert batch.session.calls == 1
    batch.ask([(1, 0, 0)])
    assert batch.session.calls == 2


def test_only_the_chosen_rows_carry_questions():
    session = ProbeSession(Rows([0, 1]), parse_problem_text(LAYER))
    batch = QueryBatch(session, WIDE, np.array([0, 1]), None)
    batch.ask([(0, 1, 0), (3, 7, 0)])
    # In reverse it is the terms before the first mask that join later.
    assert batch.answers[0, 1, 0].tolist() == [0] * 6
    assert batch.answers[3, 7, 0].tolist() == [3] * 6


def test_positions_that_lack_terms_answer_for_those_they_have():
    batch = batch_of(PlainRunner(), LAYER + " padding=1")
    assert len(batch.exists) == 3
    batch.ask([(0, 4, 0), (1, 4, 0)])
    # Eight positions; the first lacks the first tap of each channel, the last the last: terms 0 3 6 9, 2 5 8 11.
    assert batch.answers[1, 4, 0].tolist() == [5, *[7] * 6, 4]
    # Without the first mask everything after the second is lost, and what came before is absorbed by it.
    assert batch.answers[0, 4, 0][0] == -(2.0**100)
    assert batch.answers[0, 4, 0][1:].tolist() == [*[7] * 6, 4]


def test_digests_distinguish_positions_by_all_their_answers():
    class LastColumn(PlainRunner):
        """Adds the last output in reverse."""

        def run(self, problem, operands):
            self.tree = None
            result = super().run(problem, operands)
            self.tree = tuple(range(11, -1, -1))
            result[..., -1:] = super().run(problem, operands)[..., -1:]
            return result

    batch = batch_of(LastColumn())
    batch.ask([(3, 8, 0)])
    assert len(set(batch.digests.tolist())) == 1  # Three units after 8 and three before 3.
    batch.ask([(0, 1, 0)])
    assert len(set(batch.digests[:-1].tolist())) == 1
    assert batch.digests[-1] != batch.digests[0]


def test_chosen_positions_alone_are_kept():
    chosen = np.array([False, True, False, False, True, False])
    batch = batch_of(PlainRunner(), positions=chosen)
    batch.ask([(0, 1, 0)])
    assert batch.sample.tolist() == [1, 4]
    assert batch.answers[0, 1, 0].tolist() == [10, 10]


def test_of_many_positions_a_thousand_and_every_border_are_kept():
    problem = parse_problem_text("conv2d x=1x1x60x60 w=2x1x3x3 padding=1")
    batch = QueryBatch(ProbeSession(PlainRunner(), problem), WIDE, np.arange(2), None)
    assert 1000 <= len(batch.sample) <= 1024 + 18
    assert {0, 59, 59 * 60, 3599} <= set(batch.sample.tolist())
    assert set(batch.pattern[batch.sample].tolist()) == set(range(9))


def test_rows_that_answer_alike_are_one_class_the_largest_first():
    def classify(runner, **more):
        session = ProbeSession(runner, parse_problem_text(LAYER))
        return [c.tolist() for c in classify_rows(session, WIDE, **more)]

    assert classify(PlainRunner()) == [[0, 1, 2, 3, 4, 5]]
    assert classify(Rows([4, 5])) == [[0, 1, 2, 3], [4, 5]]
    assert classify(Rows([0, 2, 3, 5])) == [[0, 2, 3, 5], [1, 4]]
    assert classify(Rows([4, 5]), rows=np.array([3, 4, 5])) == [[4, 5], [3]]
    assert classify(Rows([5]), rows=np.array([5])) == [[5]]


def test_rows_are_parted_by_chosen_positions_only():
    class Corner(PlainRunner):
        """The last row adds in reverse at the first position."""

        def run(self, problem, operands):
            self.tree = None
            result = super().run(problem, operands)
            self.tree = tuple(range(11, -1, -1))
            result[:, -1, 0] = super().run(problem, operands)[:, -1, 0]
            return result

    session = ProbeSession(Corner(), parse_problem_text(LAYER))
    first, others = np.zeros(6, bool), np.ones(6, bool)
    first[0], others[0] = True, False
    assert [c.tolist() for c in classify_rows(session, WIDE, positions=first)] == [[0, 1, 2, 3, 4], [5]]
    assert [c.tolist() for c in classify_rows(session, WIDE, positions=others)] == [[0, 1, 2, 3, 4, 5]]


def test_sums_of_two_terms_part_no_rows_and_take_no_call():
    session = ProbeSession(Rows([]), parse_problem_text("conv1d x=1x2x4 w=3x2x1"))
    assert [c.tolist() for c in classify_rows(session, Scale(2.0**100, 1.0, 2))] == [[0, 1, 2]]
    assert session.calls == 0


def test_failures_and_spent_budgets_come_through_and_keep_the_answers_so_far():
    with pytest.raises(EngineFailure):
        batch_of(FailingRunner()).ask([(0, 1, 0)])
    batch = batch_of(PlainRunner(accumulator=keep_bits(24)), rows=1, most_calls=2)
    with pytest.raises(ProbeStopped):
        batch.ask([(0, 1, 0), (0, 2, 0), (0, 3, 0)])
    assert set(batch.answers) == {(0, 1, 0), (0, 2, 0)}
