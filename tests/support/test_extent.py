"""What `make test` leaves out is told by marks."""

import pytest

from tests.support import extent

pytest_plugins = ["pytester"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("here", "kept"), [(1, [0]), (3, [0, 2, 5]), (8, list(range(8))), (20, list(range(8)))])
def test_a_sample_is_spread_over_all_cases(pytester: pytest.Pytester, here: int, kept: list[int]) -> None:
    pytester.makeini("[pytest]\nmarkers =\n    sample\n    long")
    items = pytester.getitems(
        f"import pytest\n@pytest.mark.sample({here})\n@pytest.mark.parametrize('n', range(8))\ndef test_a(n): ...\n"
        "@pytest.mark.parametrize('n', [0, pytest.param(1, marks=pytest.mark.long)])\ndef test_b(n): ...\n"
    )
    left_out = extent.long_forms(items)
    assert [item.name for item in items if item not in left_out] == [*(f"test_a[{n}]" for n in kept), "test_b[0]"]
