"""Subtrees taken apart junction by junction: trees rebuilt from counts made by walking them."""

import numpy as np
import pytest

from samebits.engines.probes.subtrees import Subtree, pick_pairs
from samebits.sums.recipes.tree import Chain, Fused, list_terms
from tree_walks import terms_of, under_junction


def take_apart(tree):
    """The tree as found by asking about every subtree's members, copies not guessed."""
    root = Subtree(np.array(sorted(terms_of(tree))))
    open_ = [root]
    while open_:
        new = []
        for subtree in open_:
            counts = [len(under_junction(tree, subtree.pivot, int(b))) for b in subtree.members[1:]]
            new += subtree.settle(np.array(counts, np.int64))
        for subtree in new:
            subtree.model = None
        open_ = new
    assert root.is_complete()
    return root.build()


@pytest.mark.parametrize(
    "tree",
    [
        Chain((0, 1, 2, 3, 4)),
        Chain((4, 3, 2, 1, 0)),
        Chain((2, 4, 0, 3, 1)),
        Chain((0, 1, 2, Chain((3, 4, 5)), Chain((6, 7, 8)))),
        Chain((0, 1, Chain((2, 3)), Chain((4, 5, Chain((6, 7)))))),
        Fused((0, 1, 2, 3)),
        Chain((Fused((0, 1, 2)), Fused((3, 4, 5)), Fused((6, 7)))),
        Chain((0, 1, Fused((2, 3, 4)), 5)),
        Chain((7, Chain((0, 6)), Chain((1, 5)), Chain((2, Chain((3, 4)))))),
        Chain((0, 1)),
    ],
)
def test_a_tree_is_rebuilt_from_what_lies_under_its_junctions(tree):
    rebuilt = take_apart(tree)
    # Which of the first two terms came first is no question of masks.
    assert sorted(list_terms(rebuilt)) == sorted(list_terms(tree))
    for a in terms_of(tree):
        for b in terms_of(tree) - {a}:
            assert under_junction(rebuilt, a, b) == under_junction(tree, a, b)


def test_a_long_descending_chain_is_built_without_deep_recursion():
    count = 3000
    root = Subtree(np.arange(count))
    open_ = [root]
    while open_:
        (subtree,) = open_
        # All others meet before the lowest joins; asked from the highest, they come one after the other.
        members = subtree.members
        inside = np.where(np.arange(1, len(members)) > 0, len(members), 0)
        if subtree is not root:
            inside = count - members[1:]
        open_ = subtree.settle(inside.astype(np.int64))
    assert list_terms(root.build())[2:] == list(range(count - 3, -1, -1))


def test_one_term_is_its_own_tree():
    alone = Subtree(np.array([7]))
    assert alone.is_complete()
    assert alone.build() == 7


def test_members_that_meet_the_pivot_above_stand_beside_it():
    # The chain 0, then {1 2}, {3 4} in one addition with it: 3 and 4 meet 1 only where the anchor 0 is, too.
    siblings = []
    subtree = Subtree(np.array([1, 2, 3, 4]), anchor=0, siblings=siblings, whole=np.array([1, 2, 3, 4]))
    siblings.append(subtree)
    new = subtree.settle(np.array([2, 5, 5]))
    assert subtree.members.tolist() == [1, 2]
    (aside,) = [s for s in new if s.members.tolist() == [3, 4]]
    assert siblings == [subtree, aside]
    assert (aside.anchor, aside.loose) == (0, True)


def test_scattered_members_become_terms_of_their_own():
    siblings = []
    subtree = Subtree(np.array([1, 2, 3]), anchor=0, siblings=siblings, whole=np.array([1, 2, 3]))
    siblings.append(subtree)
    subtree.scatter()
    assert [s.members.tolist() for s in siblings] == [[1], [2], [3]]
    assert [s.build() for s in siblings] == [1, 2, 3]


def test_a_junction_as_large_as_an_earlier_one_waits_to_be_its_copy():
    # 0, then {1 2 3}, then {4 5 6}.
    root = Subtree(np.arange(7))
    first, second = root.settle(np.array([4, 4, 4, 7, 7, 7]))
    assert first.model is None
    assert second.model is first
    assert not second.can_copy()
    # Of the first it is learnt that 2 meets 1 before 3 does.
    assert first.settle(np.array([2, 3])) == []
    assert second.can_copy()
    assert second.copy_model() == [Chain((1 + 3, 2 + 3, 3 + 3))]
    second.accept_copy(second.copy_model())
    assert root.is_complete()
    # The first sum meets the pivot and runs on, the second is finished first.
    assert root.build() == Chain((1, 2, 3, 0, Chain((4, 5, 6))))


@pytest.mark.parametrize("count", [1, 3, 8])
def test_pairs_of_a_tree_are_its_own_terms_and_its_ends_are_among_them(count):
    tree = Chain((5, 2, Chain((9, 1)), Fused((4, 8))))
    pairs = pick_pairs(tree, count, np.random.default_rng(0))
    assert {(5, 2), (5, 8)} <= set(pairs)
    assert all(a != b and {a, b} <= {5, 2, 9, 1, 4, 8} for a, b in pairs)
    assert len(set(pairs)) == len(pairs) == max(count, 2)


def test_a_single_term_has_no_pairs():
    assert pick_pairs(3, 4, np.random.default_rng(0)) == []
