"""A cached property is computed once, and threads and forks do not wait for each other."""

import threading

from salsa._utils.cached import cached_property


class Slow:
    """The first instance waits for the second one."""

    def __init__(self, begun=None, waits_for=None):
        self.begun, self.waits_for, self.count = begun, waits_for, 0

    @cached_property
    def value(self):
        """Count the calls."""
        self.count += 1
        if self.begun is not None:
            self.begun.set()
            assert self.waits_for.wait(60)
        return self.count


def test_it_is_computed_once_and_kept_in_the_instance():
    slow = Slow()
    assert (slow.value, slow.value, slow.count, vars(slow)["value"]) == (1, 1, 1, 1)
    slow.value = 7
    assert slow.value == 7


def test_the_class_shows_the_property_and_its_docstring():
    assert isinstance(Slow.value, cached_property)
    assert Slow.value.__doc__ == "Count the calls."


def test_an_instance_does_not_wait_for_another_one_in_another_thread():
    begun, may_end = threading.Event(), threading.Event()
    waiting = Slow(begun, may_end)
    other = threading.Thread(target=lambda: waiting.value)
    other.start()
    try:
        assert begun.wait(60)
        assert Slow().value == 1  # a lock of the class would never be released here
    finally:
        may_end.set()
        other.join()
    assert waiting.value == 1
