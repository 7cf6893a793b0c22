"""What a read of a tensor computes, and what stays recorded."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ExecutionError, MaxlabError, ShapeError
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import recording, tracing
from maxlab.experimental.statistics import counts
from maxlab.experimental.tensor import Tensor


@pytest.fixture(autouse=True, params=["seen before", "through graph.ops"])
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test with both ways of recording a step."""
    if request.param == "through graph.ops":
        monkeypatch.setattr(recording, "remembering", False)
    yield
    tracing.here.trace = None


def given(*numbers: float) -> Tensor:
    """A tensor with memory."""
    return Tensor.constant(list(numbers))


def runs(of: Callable[[], Any]) -> int:
    """How many programs are run by ``of``."""
    before = counts.runs
    of()
    return counts.runs - before


def line_of(error: MaxlabError) -> int:
    """The line that ``error`` names."""
    assert error.at is not None
    return error.at.line


def test_a_read_computes_what_it_needs_and_nothing_else() -> None:
    """``c`` of the same parts as ``b`` is not computed with it."""
    a = given(1, 2, 3) * 2
    b = a + 1
    c = F.exp(a)
    assert (a.real, b.real, c.real) == (False, False, False)
    assert b.tolist() == [3, 5, 7]
    assert (a.real, b.real, c.real) == (True, True, False)
    np.testing.assert_allclose(c.numpy(), np.exp([2, 4, 6]), rtol=1e-6)


def test_what_is_dropped_is_never_computed() -> None:
    """A tensor without a reader does not become part of a run, and cannot fail in one."""
    a = given(1, 2, 3) * 2
    b = a + 1
    c = F.gather(a, Tensor.constant([7], dtype=DType.int64), 0)  # there are three elements
    del c
    assert runs(b.tolist) == 1
    assert runs(lambda: (a.tolist(), b.tolist())) == 0


def test_what_several_need_is_computed_once() -> None:
    """A temporary that ``b`` and ``c`` were made of is kept for ``c`` when ``b`` is read, though
    nobody has a name for it."""
    drawn = given(1, 2, 3)

    def both(shared: Tensor) -> tuple[Tensor, Tensor]:
        return shared + 1, shared * 2

    b, c = both(F.exp(drawn))
    assert runs(b.tolist) == 1
    drawn.numpy()[...] = 100  # only what is computed anew would see it
    np.testing.assert_allclose(c.numpy(), 2 * np.exp([1, 2, 3]), rtol=1e-6)


def test_what_is_recorded_goes_on_after_a_read() -> None:
    """Operations on what is still recorded join it with what was computed."""
    x = given(1, 2)
    a = x * 2
    kept = a - 1
    assert (a + 5).tolist() == [7, 9]
    more = kept * 10 + a
    before = kept.real
    assert more.tolist() == [12, 34]
    assert (before, kept.real) == (False, True)
    assert kept.tolist() == [1, 3]


def test_references_keep_a_tensor_and_do_not_compute_it() -> None:
    """What IPython keeps, such as ``_``, ``Out`` and tracebacks, reads no value."""
    out: dict[int, Any] = {}
    a = given(1, 2) * 2
    out[1] = a
    b = a + 1

    def failing(x: Tensor) -> None:
        local = x * 3
        raise KeyError(local.shape)

    try:
        failing(b)
    except KeyError:
        kind, error, trace = sys.exc_info()
        "".join(traceback.format_exception(kind, error, trace, limit=5))
        frame = trace.tb_next.tb_frame  # type: ignore[union-attr]
        held = frame.f_locals["local"]
    assert [t.real for t in (a, b, held)] == [False] * 3
    del a, b
    assert out[1].tolist() == [2, 4]
    assert not held.real
    assert held.tolist() == [9, 15]


def test_memory_of_what_is_dropped_is_free() -> None:
    """Neither a trace nor a program keeps the memory of tensors that are gone."""
    import weakref

    x = Tensor.from_dlpack(np.ones(1000, np.float32))
    y = (x * 2) + x
    y.numpy()
    memory = weakref.ref(x.driver_tensor)
    del x
    gc.collect()
    assert memory() is None
    assert y.tolist()[0] == 3


def test_illegal_operations_raise_at_once() -> None:
    """The error is raised where the operation is written, and what was recorded is unharmed."""
    a = given(1, 2, 3) * 2
    line = sys._getframe().f_lineno + 2
    with pytest.raises(ShapeError) as caught:
        a + given(1, 2)
    assert caught.value.code == "ML201"
    assert line_of(caught.value) == line
    assert not a.real
    assert (a + 1).tolist() == [3, 5, 7]


def test_errors_of_runs_name_the_line_and_lose_nothing() -> None:
    """What is found wrong while a program runs says where it was written, each time it is read."""
    a = given(1, 2, 3)
    for name in ("here", "there"):
        where = Tensor.constant([7], dtype=DType.int64)
        line = sys._getframe().f_lineno + 2
        if name == "here":
            b = F.gather(a + 1, where, 0)
        else:
            line += 3
            b = F.gather(a + 1, where, 0)
        for _ in range(2):
            with pytest.raises(ExecutionError) as caught:
                b.tolist()
            assert line_of(caught.value) == line
        assert not b.real
        where.numpy()[...] = 2
        assert b.tolist() == [4]


def test_a_structure_that_was_seen_has_the_lines_of_this_time() -> None:
    """Of operators, of functions of one tensor, and of others."""
    x = given(1, 2, 3)
    seen: list[set[int]] = []
    for _ in range(3):
        first = sys._getframe().f_lineno
        y = x + 1
        y = F.exp(y)
        y = F.sum(y, axis=0)
        y = y.tanh()
        graph = y.graph
        places = [op.loc for op in graph.function.ops[:-1]]
        assert all(at is not None and at.file.endswith("test_laziness.py") for at in places)
        seen.append({at.line - first for at in places if at is not None})
        y.numpy()
    assert seen == [{1, 2, 3, 4}] * 3


def test_a_long_chain_is_cut() -> None:
    """Ten thousand operations that nobody reads in between become runs of bounded length, of few
    programs."""
    x = given(1)
    before = sum(counts.compilations.values())

    def chain() -> Tensor:
        y = x
        for _ in range(10_000):
            y = y + 1
        return y

    made: list[Tensor] = []
    assert 20 < runs(lambda: made.append(chain())) < 200
    assert made[0].tolist() == [10_001]
    assert sum(counts.compilations.values()) - before <= 4


def test_realize_works_everywhere() -> None:
    """With a running loop, without one, in a thread, under ``asyncio.run``."""
    a = given(1, 2) * 2
    a.realize  # noqa: B018 - reading it computes
    assert a.real

    async def main() -> list[float]:
        b = given(1, 2) * 3
        assert await b.realize is b
        c = b + 1
        assert await c is c
        d = c + 1
        assert await d.realize() is d
        e = d + 1
        assert e.tolist() == [6, 9]  # a plain read inside of a running loop
        return [b.real, c.real, d.real]

    assert asyncio.run(main()) == [True, True, True]
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(asyncio.run(main())))
    thread.start()
    thread.join()
    assert made == [[True, True, True]]


def test_threads_read_each_others_tensors() -> None:
    """A tensor that many threads read at once is computed once."""
    a = given(1, 2) * 2
    b = a + 1
    before = counts.runs
    made: list[list[float]] = []
    threads = [threading.Thread(target=lambda: made.append(b.tolist())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [[3, 5]] * 8
    assert counts.runs == before + 1


def test_operations_on_tensors_of_other_threads() -> None:
    """Another thread uses what this one has recorded, and this one goes on with it."""
    a = given(1, 2) * 2
    made: list[Tensor] = []
    thread = threading.Thread(target=lambda: made.append(a + 1))
    thread.start()
    thread.join()
    c = made[0] * a
    assert c.tolist() == [6, 20]
