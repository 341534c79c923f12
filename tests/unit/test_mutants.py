"""The catalogue of `make mutants` stays true to the code that it mutates."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]


def test_there_are_enough_and_each_has_a_name() -> None:
    """By its name one is chosen."""
    assert len(MUTANTS) >= 60
    assert [name for name, times in Counter(mutant.name for mutant in MUTANTS).items() if times > 1] == []


def test_each_is_a_fault_in_one_place_of_what_is_there() -> None:
    """Code that has changed since makes a mutant that must be thought over."""
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text()
        mutated = mutant.applied(text)
        assert mutated != text, mutant.name


def test_each_names_tests_of_the_fast_tiers() -> None:
    """They are run first."""
    for mutant in MUTANTS:
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            assert test.startswith(("tests/unit/", "tests/model/")), mutant.name
            assert (ROOT / test).is_file(), f"{mutant.name}: {test}"


@pytest.mark.parametrize("text", ["", "one one"])
def test_what_is_not_there_once_is_told(text: str) -> None:
    """Rather than a verdict on something else."""
    mutant = Mutant(name="test", file="test.py", old="one", new="two", tests=())
    with pytest.raises(ValueError, match="not once"):
        mutant.applied(text)
