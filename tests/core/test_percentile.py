import pytest

from mgpu.core.percentile import percentile


@pytest.mark.parametrize(("count", "value"), [(1, 1), (2, 2), (10, 9), (11, 10), (100, 90)])
def test_the_ninetieth_of_a_hundred(count, value):
    assert percentile([float(number) for number in range(count, 0, -1)], 90) == value


def test_each_of_four():
    assert [percentile([1, 2, 3, 4], percent) for percent in (0, 1, 25, 26, 50, 95, 100)] == [1, 1, 1, 2, 2, 4, 4]
