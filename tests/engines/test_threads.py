"""One owner of threads: pools never multiply, limits are given back, results do not depend on them."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from harmonicalign.engines import threads as module
from harmonicalign.engines.faiss_neighbours import FaissNeighbours
from harmonicalign.engines.threads import (
    blas_threads,
    each_in_threads,
    in_threads,
    owned,
    row_slices,
    threads,
)


def blas():
    """Threads that BLAS has now, the most over all that are loaded."""
    return max(lib.num_threads for lib in ThreadpoolController().lib_controllers if lib.user_api == "blas")


def test_work_in_threads_is_all_done_and_its_errors_are_told():
    slices = row_slices(95, 8, block_bytes=80)
    assert len(slices) == 10
    out, seen = np.zeros(95), set()

    def work(rows):
        seen.add(threading.get_ident())
        out[rows] += np.arange(rows.start, rows.stop)

    with owned(3):
        in_threads(work, slices)
        np.testing.assert_array_equal(out, np.arange(95))
        assert threading.get_ident() not in seen
        in_threads(work, slices[:1])
        assert threading.get_ident() in seen  # one slice needs no thread
    assert in_threads(len, []) == []

    def fail(rows):
        raise ValueError(f"rows {rows.start} and on")

    for n in (1, 3):
        with owned(n), pytest.raises(ValueError, match="rows 0 and on"):
            in_threads(fail, slices)


def test_pools_within_pools_do_not_multiply():
    seen, lock, most = [0], threading.Lock(), []

    def inner(_):
        with lock:
            seen[0] += 1
            most.append(seen[0])
        for _ in range(200):
            np.ones(1000).sum()
        with lock:
            seen[0] -= 1
        return threads()

    for n in (1, 2, 4):
        most.clear()
        with owned(n):
            shares = in_threads(lambda _: (threads(), in_threads(inner, range(8))), range(4))
        assert max(most) <= n
        assert {share for share, _ in shares} == {1}
    with owned(6):  # two parts have three threads each
        assert in_threads(lambda _: threads(), range(2)) == [3, 3]


def test_threads_follow_the_environment(monkeypatch):
    monkeypatch.setattr(module, "_cores", lambda: 8)
    for name in ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT", "LOKY_MAX_CPU_COUNT"):
        monkeypatch.delenv(name, raising=False)
    assert threads() == 8
    for text, n in (("3", 3), ("4,2", 4), ("nonsense", 8), ("0", 8), ("99", 8)):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert threads() == n
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "2")
    assert threads() == 2


@pytest.mark.parametrize(
    ("text", "n"), [("150000 100000", 2), ("max 100000", sys.maxsize), ("", sys.maxsize)]
)
def test_the_quota_of_a_container(tmp_path, text, n):
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert module._quota(str(file)) == n
    assert module._quota(str(tmp_path / "none")) == sys.maxsize


def test_a_number_of_jobs(monkeypatch):
    monkeypatch.setattr(module, "_cores", lambda: 8)
    for n_jobs, n in ((1, 1), (5, 5), (-1, 8), (-3, 6), (-20, 1)):
        with owned(n_jobs):
            assert threads() == n
    with owned(4), owned(2):
        assert threads() == 2
        with owned(7):  # no more than was granted
            assert threads() == 2
        with owned():
            assert threads() == 2
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match="n_jobs is"), owned(wrong):
            pass


def test_blas_has_one_thread_and_gets_its_own_back():
    with threadpool_limits(2):
        with owned(2):
            assert blas() == 1
            with owned(), blas_threads():
                assert blas() == 2
            assert blas() == 1
            assert set(in_threads(lambda _: blas(), range(4))) == {1}
        assert blas() == 2
        with pytest.raises(KeyError), owned(2):
            raise KeyError
        assert blas() == 2


def test_a_limit_for_all_libraries_holds_for_ours():
    pytest.importorskip("faiss")  # brings OpenMP
    with threadpool_limits(1), owned():
        assert threads() == 1
    with threadpool_limits(1), owned(2):
        assert threads() == 2


def test_owners_in_several_threads_leave_blas_as_it_was():
    def work(_):
        for _ in range(10):
            with owned(2):
                assert blas() == 1

    with threadpool_limits(2):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert blas() == 2


@pytest.mark.parametrize("name", ["_numbers", "_set"])
def test_an_interrupt_leaves_no_owner_behind(monkeypatch, name):
    """Wherever Ctrl-C comes, while threads are taken or given back."""
    n_interrupted, original = 0, getattr(module, name)
    for at in range(1, 20):
        calls = 0

        def interrupted(*args, at=at, **options):
            nonlocal calls
            calls += 1
            if calls == at:
                raise KeyboardInterrupt
            return original(*args, **options)

        with threadpool_limits(2):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, interrupted)
                try:
                    with owned(2):
                        pass
                except KeyboardInterrupt:
                    n_interrupted += 1
            with owned(2):
                assert threads() == 2
                assert blas() == 1
            assert blas() == 2
        if calls < at:  # it was not called as often
            break
    assert n_interrupted == at - 1 > 0


def test_a_function_can_be_owned():
    @owned(1)
    def ask(n):
        """Doc."""
        return n, threads()

    assert ask(5) == (5, 1)
    assert ask(n=6) == (6, 1)
    assert (ask.__name__, ask.__doc__) == ("ask", "Doc.")


@pytest.mark.parametrize("options", [{}, {"exact_pairs": 0}])
@pytest.mark.parametrize("exact", [True, False])
def test_neighbours_have_the_same_bits_in_any_number_of_threads(rng, options, exact):
    x = rng.randn(5000, 12)
    found = []
    for n in (1, 3):
        with owned(n):
            engine = FaissNeighbours(exact=exact, **options)
            found += [engine(x, 11), engine(x, 11, x[:700] + 0.1)]
    for one, three in zip(found[:2], found[2:], strict=True):
        np.testing.assert_array_equal(one.indices, three.indices)
        np.testing.assert_array_equal(one.distances, three.distances)
        assert one.recall == three.recall


def test_results_come_one_by_one():
    """The first is handed out while the last is still waiting."""
    go_on = threading.Event()

    def work(i):
        assert i == 0 or go_on.wait(60)
        return i

    with owned(2):
        found = each_in_threads(work, range(4))
        assert next(found) == 0
        go_on.set()
        assert list(found) == [1, 2, 3]
    with owned(1):
        lazily = each_in_threads(work, range(4))
        go_on.clear()
        assert next(lazily) == 0, "without threads a part is worked on before it is asked for"
        go_on.set()
        assert list(lazily) == [1, 2, 3]
