"""Random programs on tensors, beside NumPy and beside graphs that are cut at the same reads.

A program makes tensors of several dtypes, views, folds, multiplies, stores into and drops them,
does what cannot be done, and reads in random places. Each read gives what NumPy has, and to the
last bit what a graph of one's own gives that is cut at the same reads: it has the operations that
were recorded since, with their numbers, and the same results. Its sizes have names where those of
the program that ran have: a sum of a known number of elements may be added in another order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.engine import InferenceSession
from maxlab.errors import MaxlabError
from maxlab.experimental import functional as F  # noqa: N812 - as everybody calls it
from maxlab.experimental import programs, recipes, recording, tracing
from maxlab.experimental.programs import graph_of, program_for
from maxlab.experimental.reading import cut
from maxlab.experimental.tensor import Tensor

PROGRAMS = 2000
SIZES = (1, 2, 3, 5)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Nothing that another program has recorded is there."""
    tracing.here.trace = None
    yield
    tracing.here.trace = None


class Program:
    """A program that is being run: tensors, and beside each what NumPy has."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.session = InferenceSession()
        self.pool: list[tuple[Tensor, np.ndarray[Any, Any]]] = []
        for _ in range(2):
            self.source()

    def pick(self) -> tuple[Tensor, np.ndarray[Any, Any]]:
        """Any of the tensors."""
        return self.random.choice(self.pool)

    def pick_of(self, kinds: str) -> tuple[Tensor, np.ndarray[Any, Any]]:
        """One whose dtype is among ``kinds``, by NumPy's letters."""
        found = [one for one in self.pool if one[1].dtype.kind in kinds]
        return self.random.choice(found) if found else self.source(kinds[0])

    def keep(self, tensor: Any, array: Any) -> tuple[Tensor, np.ndarray[Any, Any]]:
        """``tensor``, which must have the type of ``array``, as one of the pool."""
        array = np.asarray(array)
        assert tuple(tensor.shape) == array.shape
        assert tensor.dtype.to_numpy() == array.dtype
        self.pool.append((tensor, array))
        return tensor, array

    # ------------------------------------------------------------ steps
    def source(self, kind: str = "") -> tuple[Tensor, np.ndarray[Any, Any]]:
        """A tensor with a value."""
        kind = kind or self.random.choice("fffi")
        shape = tuple(self.random.choice(SIZES) for _ in range(self.random.randint(1, 3)))
        if kind == "b":
            array = self.numbers.random(shape) < 0.5
        elif kind == "i":
            dtype: Any = self.random.choice([np.int32, np.int64])
            array = self.numbers.integers(-9, 9, shape).astype(dtype)
        else:
            dtype = self.random.choice([np.float32, np.float32, np.float64])
            array = (self.numbers.random(shape) * 4 - 2).astype(dtype)
        return self.keep(Tensor.from_dlpack(array.copy()), array)

    def binary(self) -> None:
        """An operator on two tensors that broadcast, or on one and a number."""
        x, a = self.pick_of("fi")
        name = self.random.choice(["add", "sub", "mul", "maximum", "minimum"])
        if self.random.random() < 0.5:
            number: Any = self.random.choice([1, 2, -3])
            if a.dtype.kind == "f":
                number = self.random.choice([number, 0.5, -1.25, self.random.random()])
            y: Any = number
            b: Any = a.dtype.type(number)
        else:
            y, b = self.random.choice([one for one in self.pool if one[1].dtype == a.dtype])
            try:
                np.broadcast_shapes(a.shape, b.shape)
            except ValueError:
                with pytest.raises(MaxlabError, match="could not be broadcast together"):
                    x + y
                return
        if self.random.random() < 0.5:
            x, a, y, b = y, b, x, a
        functions = {"add": np.add, "sub": np.subtract, "mul": np.multiply}
        if name in functions:
            made = {"add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y}[name]()
        elif isinstance(x, Tensor) and isinstance(y, Tensor):
            made = getattr(F, name)(x, y)
        else:
            return
        function = functions[name] if name in functions else getattr(np, name)
        with np.errstate(all="ignore"):
            self.keep(made, function(a, b))

    def unary(self) -> None:
        """A function of each element."""
        name = self.random.choice(["tanh", "relu", "abs", "negate", "cos", "floor", "sigmoid"])
        x, a = self.pick_of("f")
        functions: dict[str, Callable[[Any], Any]] = {
            "relu": lambda a: np.maximum(a, 0),
            "negate": np.negative,
            "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
        }
        self.keep(getattr(F, name)(x), (functions.get(name) or getattr(np, name))(a))

    def view(self) -> None:
        """The same elements seen otherwise, or some of them."""
        x, a = self.pick()
        which = self.random.randrange(6)
        if which == 0:
            order = self.random.sample(range(a.ndim), a.ndim)
            self.keep(x.permute(order), a.transpose(order))
        elif which == 1:
            self.keep(x.reshape((-1,)), a.reshape(-1))
        elif which == 2:
            self.keep(x[..., None], a[..., None])
        elif which == 3 and a.ndim and a.shape[0]:
            step = self.random.choice([1, 2, -1])
            start = self.random.choice([None, 0, 1])
            self.keep(x[start::step], a[start::step])
        elif which == 4 and a.ndim and a.shape[0]:
            places = [self.random.randrange(a.shape[0]) for _ in range(3)]
            self.keep(x[places], a[places])
        elif a.ndim and a.dtype.kind == "f":
            mask = a > 0
            self.keep(x[x > 0], a[mask])

    def fold(self) -> None:
        """A sum, mean, or greatest element along an axis."""
        x, a = self.pick_of("f")
        if a.ndim and a.size:
            name = self.random.choice(["sum", "mean", "max"])
            axis = self.random.randrange(a.ndim)
            wanted = getattr(np, name)(a, axis=axis, keepdims=True)
            self.keep(getattr(F, name)(x, axis=axis), wanted.astype(a.dtype))

    def product(self) -> None:
        """A product of matrices."""
        x, a = self.pick_of("f")
        if a.ndim == 2 and a.size:
            self.keep(x @ x.T, a @ a.T)

    def choice(self) -> None:
        """One of two by a condition, which is a tensor of bools."""
        x, a = self.pick_of("f")
        self.keep(F.where(x > 0, x, x * 2), np.where(a > 0, a, a * 2))

    def cast(self) -> None:
        """The elements in another dtype."""
        x, a = self.pick_of("fib")
        dtype = self.random.choice([DType.float32, DType.int64, DType.float64])
        if np.abs(a.astype(np.float64)).max(initial=0) < 2**30:
            self.keep(x.cast(dtype), a.astype(dtype.to_numpy()))

    def store(self) -> None:
        """A change of one tensor: of what was made of it nothing changes."""
        place = self.random.randrange(len(self.pool))
        x, a = self.pool[place]
        if not a.ndim or not a.size or not x.real or any(x is y for y, _ in self.pool[:place]):
            return
        changed = a.copy()
        changed[0] = 1
        F.buffer_store_slice(x, 1, [0])
        self.pool = [(y, changed if y is x else b) for y, b in self.pool]

    def drop(self) -> None:
        """A tensor is forgotten."""
        if len(self.pool) > 2:
            del self.pool[self.random.randrange(len(self.pool))]

    def fail(self) -> None:
        """What cannot be done, and changes nothing."""
        x, a = self.pick_of("f")
        wrong: list[Callable[[], Any]] = [
            lambda: x @ Tensor.ones((7, 7, 7, 7, 7)),
            lambda: F.sum(x, axis=9),
            lambda: x.reshape((a.size + 1,)),
            lambda: x[a.shape[0] if a.ndim else 0],
            lambda: ~x,
        ]
        with pytest.raises(MaxlabError):
            self.random.choice(wrong)()

    def read(self) -> None:
        """A value is looked at, beside NumPy's and that of the graph."""
        x, a = self.pick()
        self.check(x, a)

    def check(self, x: Tensor, a: np.ndarray[Any, Any]) -> None:
        """Raises unless ``x`` has the value ``a``, and the one of its graph to the last bit."""
        alone: Any = None
        if not x.real:
            trace, slot = x._trace, x._slot
            assert trace is not None
            part, outputs, _ = cut(trace, (slot,), trace.alive())
            inputs = [trace.memory[one] for one in part.inputs]
            sizes = program_for(trace, part.nodes, part.inputs, outputs).pattern
            graph = graph_of(trace, part.nodes, part.inputs, outputs, (), sizes)
            made = self.session.load(graph).execute(*inputs)
            alone = made[outputs.index(slot)].to_numpy()
        found = x.numpy()
        assert found.shape == a.shape
        if a.dtype.kind == "f":
            single = a.dtype == np.float32
            np.testing.assert_allclose(found, a, rtol=2e-3 if single else 1e-9, atol=1e-3)
        else:
            np.testing.assert_array_equal(found, a)
        if alone is not None:
            assert found.tobytes() == alone.tobytes()


STEPS: list[Callable[[Program], Any]] = (
    [Program.binary] * 5
    + [Program.unary] * 3
    + [Program.view] * 4
    + [Program.read] * 2
    + [
        Program.fold,
        Program.product,
        Program.choice,
        Program.cast,
        Program.store,
        Program.drop,
        Program.fail,
        Program.source,
    ]
)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_program(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 8 == 0:
        monkeypatch.setattr(recording, "remembering", False)
    if seed % 5 == 0:  # what is remembered is forgotten again and again
        monkeypatch.setattr(tracing, "MOST_STATES", 5)
        monkeypatch.setattr(programs, "MOST_PROGRAMS", 2)
        monkeypatch.setattr(recipes, "MOST_RECIPES", 3)
    program = Program(seed)
    for _ in range(program.random.randint(4, 14)):
        program.random.choice(STEPS)(program)
    for x, a in program.random.sample(program.pool, min(2, len(program.pool))):
        program.check(x, a)
