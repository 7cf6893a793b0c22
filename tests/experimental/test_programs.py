"""What is compiled, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import programs, recipes, recording, tracing
from maxlab.experimental.mirror import Mirror
from maxlab.experimental.statistics import Stats
from maxlab.experimental.tensor import Tensor, stats


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing that another test has recorded or compiled is there."""
    for module in (programs, recipes, tracing.forest):
        module.forget()
    tracing.here.trace = None
    yield
    tracing.here.trace = None


def cost(of: Callable[[], Any]) -> Stats:
    """What ``of`` has cost."""
    before = stats()
    of()
    return stats() - before


def array(*shape: int) -> Tensor:
    """A tensor of numbers."""
    return Tensor.from_dlpack(np.arange(math.prod(shape), dtype=np.float32).reshape(shape) / 7)


def test_a_hundred_operations_are_one_program() -> None:
    def chain() -> None:
        x = array(8)
        for _ in range(50):
            x = F.tanh(x + 0.5)
        x.numpy()

    first = cost(chain)
    assert (first.recorded, first.runs, first.compiled) == (100, 1, 1)
    assert dict(first.why) == {"a new structure": 1}
    again = cost(chain)
    assert (again.recorded, again.runs, again.compiled) == (100, 1, 0)


def test_numbers_that_vary_become_inputs() -> None:
    """The number that stays the same is still a constant, to the last bit."""
    x = array(5)

    def with_number(number: float) -> np.ndarray[Any, Any]:
        made: np.ndarray[Any, Any] = ((x * number + 0.5) / 3).numpy()
        return made

    made = cost(lambda: [with_number(n) for n in (1.5, 2.5, 3.5, -0.0, 0.0, 1e30, math.inf)])
    assert dict(made.why) == {"a new structure": 1, "another number": 1}
    for number in (2.5, math.nan, -7.25):
        wanted = (x.numpy() * np.float32(number) + np.float32(0.5)) / np.float32(3)
        np.testing.assert_array_equal(with_number(number), wanted)
    assert np.signbit((x * -0.0).numpy()).all()
    assert not np.signbit((x * 0.0).numpy()).any()


@pytest.mark.parametrize("number", [2**24 + 1, 10**40])
def test_numbers_that_a_dtype_cannot_hold(number: int) -> None:
    """They are refused also where another number was taken before."""
    x = array(3)
    (x * 2).numpy()
    with pytest.raises(ValueError, match="float32"):
        x * number
    small = Tensor.from_dlpack(np.array([1, 2], np.uint8))
    assert (small + 200).tolist() == [201, 202]
    for wrong in (256, -1):
        with pytest.raises(ValueError, match="uint8"):
            small + wrong
    with pytest.raises(ValueError, match="0.5"):
        small + 0.5


def network(x: Tensor, w: Tensor) -> Any:
    """Operations some of which are given sizes."""
    h = F.relu(x @ w).reshape((x.shape[0] * 2, 4))
    return F.softmax(h - F.mean(h))[1:]


def test_a_second_batch_size_compiles_for_all() -> None:
    w = array(6, 8)
    sizes = (3, 5, 7, 2, 1, 40)
    wanted = [network(array(n, 6), w).numpy() for n in sizes]
    fresh_again = cost(lambda: None)
    assert fresh_again.compiled == 0
    for module in (programs, recipes, tracing.forest):
        module.forget()
    made = cost(lambda: [network(array(n, 6), w).numpy() for n in sizes])
    assert dict(made.why) == {"a new structure": 1, "another size": 1}
    for n, known in zip(sizes, wanted, strict=True):
        x = array(n, 6).numpy()
        h = np.maximum(x @ w.numpy(), 0).reshape(2 * n, 4)
        e = np.exp(h - h.max(-1, keepdims=True))
        np.testing.assert_allclose(known, (e / e.sum(-1, keepdims=True))[1:], rtol=1e-4)


def test_sizes_that_broadcast_otherwise_are_another_program() -> None:
    """A batch of one beside a row is not a batch of many."""
    row = array(4, 3)
    for n in (4, 1, 4, 1):
        np.testing.assert_array_equal(
            (array(n, 3) + row).numpy(), array(n, 3).numpy() + row.numpy()
        )
    with pytest.raises(ValueError, match="could not be broadcast"):
        array(3, 3) + row


def test_sizes_that_no_name_says() -> None:
    """A size that does not follow from those of the inputs is compiled as it is, and right."""
    for n, k in ((4, 2), (6, 3), (8, 2), (12, 6), (5, 5)):
        made = array(n, 3).reshape((k, -1)) * 2
        np.testing.assert_array_equal(made.numpy(), array(n, 3).numpy().reshape(k, -1) * 2)
    for n, k in ((4, 2), (6, 3), (8, 7), (9, 1)):
        np.testing.assert_array_equal(array(n)[k:].numpy(), array(n).numpy()[k:])


def test_misses_go_through_graph_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    """With memory turned off every step asks ``graph.ops``; the values are the same bits, and the
    programs are found all the same."""
    calls: list[Any] = []
    whole = Mirror.record

    def counted(self: Any, function: Any, *rest: Any) -> Any:
        calls.append(function.__name__)
        return whole(self, function, *rest)

    monkeypatch.setattr(Mirror, "record", counted)
    w, x = array(6, 8), array(3, 6)
    first = network(x, w).numpy().tobytes()
    steps = len(calls)
    assert steps >= 5
    assert network(x, w).numpy().tobytes() == first
    assert len(calls) == steps
    monkeypatch.setattr(recording, "remembering", False)
    made = cost(lambda: calls.append(network(x, w).numpy().tobytes()))
    assert calls.pop() == first
    assert len(calls) == 2 * steps
    assert made.compiled == 0


def test_what_is_remembered_holds_wherever_it_stands() -> None:
    """A function of the same types at another place of a trace asks nobody; the same tensor twice
    is not two tensors."""
    x, y = array(3), array(3) + 1
    assert (x + x).tolist() == (x.numpy() * 2).tolist()
    assert (x + y).tolist() == (x.numpy() + y.numpy()).tolist()
    z = F.exp(x)
    np.testing.assert_array_equal((z + z).numpy(), z.numpy() * 2)
    np.testing.assert_array_equal((z + x).numpy(), z.numpy() + x.numpy())


def test_the_same_read_with_other_tensors_in_use() -> None:
    """What else is in use decides what is kept, not what is computed."""
    x = array(4)
    for keep in (False, True, False, True):
        a = x * 2
        b = a + 1
        if not keep:
            del a
        np.testing.assert_array_equal(b.numpy(), x.numpy() * 2 + 1)
        if keep:
            assert a.real


def test_places_that_vary_are_compiled_once() -> None:
    """A loop over rows, over batches, over columns, and backwards."""
    x = array(48, 6)
    loops: list[tuple[Callable[[Any, int], Any], tuple[int, ...]]] = [
        (lambda x, n: x[n] * 2, (0, 1, 2, 40, -1, 7)),
        (lambda x, n: x[n : n + 8] * 2, (0, 5, 10, 15, 20, 40)),
        (lambda x, n: x[::2, n] - 1, (5, 4, 3, 2, 1, 0)),
        (lambda x, n: x[n : n - 6 : -2, None, 1:] + 1, (47, 40, 30, 20, 9)),
    ]

    def run(part: Callable[[Any, int], Any], places: tuple[int, ...]) -> None:
        for n in places:
            np.testing.assert_array_equal(part(x, n).numpy(), part(x.numpy(), n))

    for part, places in loops:
        assert cost(lambda part=part, places=places: run(part, places)).compiled <= 4  # type: ignore[misc]
    with pytest.raises(IndexError):
        x[48]
    assert x[50:60].shape == [0, 6]


def test_stats_tell_why() -> None:
    before = stats()
    (array(3) * 2).numpy()
    (array(4) * 2).numpy()
    (array(5) * 3).numpy()
    made = stats() - before
    assert repr(made) == (
        "3 operations recorded, 3 runs, 3 compiled: 1 for a new structure, 1 for another number, "
        "1 for another size"
    )


def test_what_is_forgotten_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traces that are under way go on with what they have, and tensors keep what made them."""
    monkeypatch.setattr(tracing, "MOST_STATES", 4)
    monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
    x = Tensor.from_dlpack(np.ones(3, np.float32))
    kept = x * 2
    for n in range(1, 12):
        y = x
        for _ in range(n):
            y = F.tanh(y) + kept
        expected = np.ones(3, np.float32)
        for _ in range(n):
            expected = np.tanh(expected) + np.float32(2)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-6)
        assert tracing.forest.count <= 4
    assert kept.tolist() == [2, 2, 2]

    def again() -> None:
        (F.tanh(x) + kept).numpy()

    assert cost(again).compiled == 1  # it was known, and forgotten
    assert cost(again).compiled == 0
