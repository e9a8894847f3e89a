"""What `make mutants` needs to begin: it runs every night, and a change of the core must not stop it unseen."""

from pathlib import Path

from tests.mutants import ROOT, TESTS, equivalent, mutants


def test_every_mutant_that_is_said_to_be_equivalent_is_there() -> None:
    assert equivalent({module: mutants(module) for module in TESTS})


def test_the_tests_that_are_run_are_there() -> None:
    assert [test for tests in TESTS.values() for test in tests if not Path(ROOT, "tests", test).exists()] == []
