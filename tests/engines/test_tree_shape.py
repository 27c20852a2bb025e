"""Junctions of terms in trees, counted against each tree walked by hand; parts joined to a tree."""

import numpy as np
import pytest

from samebits.engines.probes.tree_shape import Junctions, join_parts
from samebits.sums.recipes.tree import Chain, Fused, list_terms
from tree_walks import under_junction

COUNT = 12


def make_tree(random, terms):
    """A random tree over some terms: chains of terms, multi-term additions and chains."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) < 5 and random.random() < 0.3:
        return Fused(tuple(terms))
    cuts = sorted(random.choice(np.arange(1, len(terms)), random.integers(1, len(terms)), replace=False).tolist())
    return Chain(tuple(make_tree(random, part) for part in np.split(np.array(terms), cuts)))


def plain(item):
    """The same with Python's own integers."""
    if isinstance(item, Chain):
        return Chain(tuple(plain(p) for p in item.items))
    return Fused(tuple(int(t) for t in item.terms)) if isinstance(item, Fused) else int(item)


@pytest.mark.parametrize("seed", range(30))
def test_units_outside_every_junction_are_counted(seed):
    random = np.random.default_rng(seed)
    size = int(random.integers(2, COUNT + 1))
    terms = random.permutation(COUNT)[:size].tolist()
    tree = plain(make_tree(random, terms))
    units = random.random(COUNT) < 0.7
    there = {t for t in terms if units[t]}
    junctions = Junctions(tree, COUNT)
    assert sorted(junctions.sequence.tolist()) == sorted(terms)
    for pivot in terms:
        others = np.array([t for t in terms if t != pivot])
        expected = [len(there - under_junction(tree, pivot, int(b))) for b in others]
        assert junctions.count_outside(pivot, others, units).tolist() == expected


def test_in_a_chain_what_comes_later_is_outside():
    junctions = Junctions(Chain((2, 0, 1, 3)), 4)
    every = np.ones(4, bool)
    assert junctions.count_outside(2, np.array([0, 1, 3]), every).tolist() == [2, 1, 0]
    assert junctions.count_outside(3, np.array([0, 1, 2]), every).tolist() == [0, 0, 0]


def test_a_multi_term_addition_is_one_junction_with_the_sum_it_joins():
    junctions = Junctions(Chain((0, Fused((1, 2, 3)), 4)), 5)
    every = np.ones(5, bool)
    assert junctions.count_outside(1, np.array([0, 2, 3, 4]), every).tolist() == [1, 1, 1, 0]
    assert Junctions(Fused((0, 1, 2)), 3).count_outside(0, np.array([1, 2]), np.ones(3, bool)).tolist() == [0, 0]


def test_terms_without_a_unit_count_nowhere():
    junctions = Junctions(Chain((0, 1, 2, 3)), 4)
    assert junctions.count_outside(0, np.array([1]), np.array([True, True, False, True])).tolist() == [1]


def test_two_parts_are_one_addition_sums_before_terms():
    assert join_parts([3, 1]) == Chain((1, 3))
    assert join_parts([1, Chain((2, 3))]) == Chain((2, 3, 1))
    # The sum that holds the lowest term runs on; the other is finished first.
    assert join_parts([Chain((4, 5)), Chain((2, 7))]) == Chain((2, 7, Chain((4, 5))))


def test_more_parts_are_a_multi_term_addition():
    assert join_parts([3, 1, 2]) == Fused((1, 2, 3))
    assert join_parts([5, Chain((0, 1)), 4]) == Chain((0, 1, Fused((4, 5))))
    assert join_parts([Fused((0, 1)), 3, 2]) == Chain((Fused((0, 1)), Fused((2, 3))))


def test_several_sums_in_one_addition_are_joined_first():
    joined = join_parts([Chain((4, 5)), 6, Chain((0, 1)), 7])
    assert joined == Chain((0, 1, Chain((4, 5)), Fused((6, 7))))
    assert sorted(list_terms(joined)) == [0, 1, 4, 5, 6, 7]
    assert join_parts([Chain((4, 5)), Chain((2, 3)), Chain((0, 1))]) == Chain((0, 1, Chain((2, 3)), Chain((4, 5))))
