"""The first faulty version among several: found where the sequence of versions shows it, silent where it does not."""

import pytest

import samebits
from samebits.questions.reduce.fault_asking import find_faulty_versions, read_version
from samebits.questions.reduce.reduction_schema import FaultyVersions, OtherEngine
from samebits.questions.reduce.reduction_sentences import say_versions


def find(ours, *others, text="torch"):
    found = find_faulty_versions(
        text, ours, [OtherEngine(f"{text}:python=/v/{version}/bin/python", version, right) for version, right in others]
    )
    return (found.first, found.right_before, found.right_again) if found else None


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        ("2.10.0", [("2.9.1", True), ("2.2.0", True)], ("2.10.0", "2.9.1", None)),
        ("2.13.0+cpu", [("2.9.1", False), ("2.2.0", True)], ("2.9.1", "2.2.0", None)),
        ("1.20.1", [("1.23.2", True), ("1.32.0", True)], (None, None, "1.23.2")),
        ("1.22.0", [("1.21.0", True), ("1.32.0", True)], ("1.22.0", "1.21.0", "1.32.0")),
        # Nothing to compare, no change, one version that is both, and a fault that comes twice.
        ("1.22.0", [], None),
        ("1.22.0", [("1.21.0", False)], None),
        ("1.22.0", [("1.22.0", True)], None),
        ("1.22.0", [("1.21.0", None)], None),
        ("1.22.0", [("1.21.0", True), ("1.20.0", False)], None),
        ("1.24.0", [("1.23.0", True), ("1.22.0", False), ("1.21.0", True)], None),
    ],
)
def test_where_a_fault_begins_and_ends(ours, others, expected):
    assert find(ours, *others) == expected


def test_other_engines_and_settings_are_no_versions():
    others = [OtherEngine("jax", "0.1.0", True), OtherEngine("torch:threads=1", "2.0.0", True)]
    assert find_faulty_versions("torch", "2.13.0", others) is None


def test_versions_are_numbers():
    assert read_version("2.13.0+cpu") < read_version("2.14.0.dev20260101")
    assert read_version("1.9") < read_version("1.10")


def test_sentences_say_what_was_asked():
    said = say_versions(FaultyVersions(first="1.22.0", right_before="1.21.0", right_again="1.32.0", asked=["a", "b"]))
    assert said == (
        "of the versions asked (a, b) 1.22.0 is the first that has the fault, 1.21.0 is right; 1.32.0 is right again"
    )
    assert "1.20.1, the oldest, has the fault; 1.23.2 is right" in say_versions(
        FaultyVersions(right_again="1.23.2", asked=["1.20.1", "1.23.2"])
    )


def test_a_runner_of_ones_own_has_no_versions():
    assert samebits.reduce("linear x=2x4 w=3x4", "truth").versions is None
