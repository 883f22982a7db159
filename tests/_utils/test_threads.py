"""The number of threads: asked for, limited by the environment and by the cores of the process, and by the work."""

import os

import children
import pytest

from salsa._utils.threads import MOST_THREADS, max_threads, parse_threads, thread_count


@pytest.fixture
def cores(monkeypatch):
    """The cores of this process, without a limit by the environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return max_threads()


def test_cores_are_those_of_the_process(cores):
    assert 1 <= cores <= os.cpu_count()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system binds no process to cores")
def test_affinity_limits_the_threads():
    code = (
        "import os; from salsa._utils.threads import max_threads\n"
        "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(max_threads())"
    )
    assert children.run(code, OMP_NUM_THREADS=None) == "1\n"


@pytest.mark.parametrize(("text", "count"), [("1", 1), ("3", 3), (" 7 ", 7), ("5,2", 5), ("9" * 30, MOST_THREADS)])
def test_the_environment_says_how_many(monkeypatch, text, count):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert max_threads() == count
    assert parse_threads(-1) == count
    assert parse_threads(-2) == max(1, count - 1)


@pytest.mark.parametrize("text", ["", "0", "-1", "two", "2.5", "2x"])
def test_other_texts_in_the_environment_are_ignored(monkeypatch, cores, text):
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert max_threads() == cores


def test_every_thread_gets_a_million_values(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert thread_count(None, 10, 10, 10) == 1
    assert thread_count(None, 1000, 1000, 3) == 3
    assert thread_count(None, 1000, 1000, 30) == 4
    assert thread_count(2, 1000, 1000, 30) == 2
