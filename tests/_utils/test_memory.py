"""Memory limits as users write them."""

import pytest

from salsa._utils.memory import DEFAULT_SHARE, available_bytes, format_bytes, memory_limit_bytes, require_memory


@pytest.mark.parametrize(
    ("limit", "count"),
    [(1000, 1000), (1e9, 10**9), ("4GB", 4 * 10**9), ("1.5 GiB", 3 * 2**29), ("200 mb", 2 * 10**8), ("7b", 7)],
)
def test_limits_are_numbers_of_bytes_or_texts_with_a_unit(limit, count):
    assert memory_limit_bytes(limit) == count


@pytest.mark.parametrize("limit", ["", "GB", "4 apples", "-4GB", 0, -1, float("nan")])
def test_limits_that_are_no_positive_size_are_refused(limit):
    with pytest.raises(ValueError, match="memory_limit"):
        memory_limit_bytes(limit)


def test_the_default_limit_is_a_share_of_the_available_memory():
    assert memory_limit_bytes(None) == pytest.approx(DEFAULT_SHARE * available_bytes(), rel=0.2)


def test_available_memory_is_at_most_the_memory_of_the_machine():
    import os

    assert 2**20 < available_bytes() <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_errors_state_need_limit_and_way_out():
    require_memory(10, 10, "this", "unused")
    with pytest.raises(MemoryError, match=r"this needs about 3\.2 GB, the limit is 2 GB\. Take less\."):
        require_memory(3_200_000_000, 2_000_000_000, "this", "Take less.")


@pytest.mark.parametrize(("count", "text"), [(5, "5 B"), (1500, "1.5 kB"), (2e12, "2 TB")])
def test_bytes_are_written_with_three_digits_and_a_unit(count, text):
    assert format_bytes(count) == text
