"""Random programs: ops of the table on operands that fit, with static and named sizes.

A program is made from a seed alone. It is compiled and compared with its op-by-op interpretation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from maxlab.dtype import DType
from maxlab.ir import Dim, Function, Shape, StaticDim, Value
from maxlab.opset.rules import broadcast_dims
from tests.compiler.interpret import Array, Builder, interpret, load, outputs_of, same

FLOATS = (DType.float32, DType.float32, DType.float32, DType.float64)
INTS = (DType.int32, DType.int64, DType.uint8)
VIEWS = (
    "transpose", "permute", "reshape", "flatten", "slice", "slice", "unsqueeze", "squeeze",
    "broadcast_to", "tile",
)  # fmt: skip
SMOOTH = ("tanh", "sigmoid", "silu", "gelu", "erf", "sin", "cos", "abs", "negate", "relu")
NAMES = ("n", "m", "j", "k", "s0", "row", "d", "i0", "lo", "p0")
"""Names of dims; most are names that generated code uses for something else."""


@dataclass
class Program:
    """A function, and arrays for its inputs and weights."""

    function: Function
    inputs: list[Array]
    weights: dict[str, Array] = field(default_factory=dict)


class Generator:
    """Makes the program of one seed."""

    def __init__(self, seed: int | random.Random) -> None:
        self.rng = random.Random(seed) if isinstance(seed, int) else seed
        number = seed if isinstance(seed, int) else self.rng.getrandbits(32)
        self.arrays = np.random.default_rng(number)
        self.b = Builder(f"random{number}")
        sizes = (
            [0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33]
            if self.rng.random() < 0.15
            else [1, 2, 3, 4, 5, 7, 8, 16, 17, 33]
        )
        names = self.rng.sample(NAMES, 4)
        self.env = {name: self.rng.choice(sizes) for name in names}
        self.symbolic = self.rng.random() < 0.6
        self.program = Program(self.b.function, [])
        self.pool: list[Value] = []
        self.fixed = self.rng.choice([2, 3, 4, 8])

    # ------------------------------------------------------------ shapes
    def dim(self) -> Dim:
        """A dim: a name, a fixed size, or 1."""
        r = self.rng.random()
        if r < 0.15:
            return Dim(1)
        if r < 0.35:
            return Dim(self.fixed)
        name = self.rng.choice(list(self.env))
        return Dim(name) if self.symbolic else Dim(self.env[name])

    def sizes(self, shape: Shape) -> tuple[int, ...]:
        """The sizes of ``shape`` in this program."""
        return tuple(d.evaluate(self.env) for d in shape)

    def data(self, dtype: DType, shape: Shape) -> Array:
        """Numbers that keep results small."""
        sizes = self.sizes(shape)
        if dtype is DType.bool:
            return np.asarray(self.arrays.random(sizes) < 0.5)
        if dtype.is_integral():
            return np.asarray(self.arrays.integers(0, 5, sizes)).astype(dtype.ml_numpy)
        return np.asarray(self.arrays.uniform(-1.5, 1.5, sizes)).astype(dtype.ml_numpy)

    def fresh(self, dtype: DType, dims: list[Dim]) -> Value:
        """An input, a weight or a constant of this type."""
        shape = Shape(dims)
        array = self.data(dtype, shape)
        kind = self.rng.random()
        if kind < 0.6 or not all(isinstance(d, StaticDim) for d in shape):
            self.program.inputs.append(array)
            return self.b.input(dtype, *shape)
        if kind < 0.8:
            name = f"w{len(self.program.weights)}"
            self.program.weights[name] = array
            return self.b.weight(name, array)
        return self.b.constant(array)

    def pick(self, want: Callable[[Value], bool] = lambda v: True) -> Value | None:
        """A value of the pool, newer ones more often."""
        good = [v for v in self.pool if want(v)]
        if not good:
            return None
        return good[-1] if self.rng.random() < 0.4 else self.rng.choice(good)

    def floating(self) -> Value | None:
        """A float value."""
        return self.pick(lambda v: v.tensor_type.dtype.is_float())

    def partner(self, x: Value) -> Value:
        """An operand that broadcasts with ``x``: of the pool when there is one."""
        shape = list(x.tensor_type.shape)

        def fits(v: Value) -> bool:
            other = list(v.tensor_type.shape)
            if v.tensor_type.dtype is not x.tensor_type.dtype:
                return False
            pairs = zip(reversed(shape), reversed(other), strict=False)
            return all(broadcast_dims(a, b) is not None for a, b in pairs)

        found = self.pick(fits)
        if found is not None and self.rng.random() < 0.75:
            return found
        keep = self.rng.randint(0, len(shape))
        dims = [Dim(1) if self.rng.random() < 0.3 else d for d in shape[len(shape) - keep :]]
        return self.fresh(x.tensor_type.dtype, dims)

    # ------------------------------------------------------------ steps
    def unary(self) -> Value | None:
        x = self.floating()
        if x is None:
            return None
        name = self.rng.choice(SMOOTH)
        return self.b.op(
            name,
            x,
            **(
                {"approximate": self.rng.choice(["none", "tanh", "quick"])}
                if name == "gelu"
                else {}
            ),
        )

    def binary(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.dtype is not DType.bool)
        if x is None:
            return None
        y = self.partner(x)
        name = self.rng.choice(["add", "sub", "mul", "max", "min", "add", "mul"])
        return self.b.op(name, *((x, y) if self.rng.random() < 0.5 else (y, x)))

    def compare(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.dtype.is_integral())
        if x is None:
            return None
        return self.b.op(
            self.rng.choice(["equal", "greater", "greater_equal", "not_equal"]), x, self.partner(x)
        )

    def where(self) -> Value | None:
        x = self.floating()
        c = self.pick(lambda v: v.tensor_type.dtype is DType.bool)
        if x is None:
            return None
        if c is None:
            c = self.fresh(DType.bool, list(x.tensor_type.shape)[-1:])
        y = self.partner(x)
        try:
            return self.b.op("where", c, x, y)
        except ValueError:
            return None

    def cast(self) -> Value | None:
        x = self.pick()
        if x is None:
            return None
        if x.tensor_type.dtype.is_float():  # no cast that turns a small difference into a large one
            return self.b.op("cast", x, dtype=self.rng.choice([DType.float32, DType.float64]))
        return self.b.op("cast", x, dtype=self.rng.choice([*FLOATS, DType.int64, DType.int32]))

    def reduce(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.rank > 0 and v.tensor_type.dtype is not DType.bool)
        if x is None:
            return None
        axis = self.rng.randrange(x.tensor_type.rank)
        name = self.rng.choice(["reduce.sum", "reduce.max", "reduce.min", "mean"])
        size = x.tensor_type.shape[axis].evaluate(self.env)
        if size == 0 and name != "reduce.sum":
            return None
        if self.rng.random() < 0.2 and x.tensor_type.dtype.is_integral() and size:
            name = self.rng.choice(["argmax", "argmin"])
        return self.b.op(name, x, axis=axis)

    def normalise(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.rank > 0 and v.tensor_type.dtype.is_float())
        if x is None:
            return None
        if self.rng.random() < 0.4 and x.tensor_type.shape[-1].evaluate(self.env) > 1:
            dims = [x.tensor_type.shape[-1]]
            g, c = self.fresh(x.tensor_type.dtype, dims), self.fresh(x.tensor_type.dtype, dims)
            return self.b.op("layer_norm", x, g, c, epsilon=1e-2)
        axis = self.rng.randrange(x.tensor_type.rank)
        if not x.tensor_type.shape[axis].evaluate(self.env):
            return None
        return self.b.op(self.rng.choice(["softmax", "softmax", "logsoftmax"]), x, axis=axis)

    def matmul(self) -> Value | None:
        x = self.pick(lambda v: 2 <= v.tensor_type.rank <= 4 and v.tensor_type.dtype in FLOATS)
        if x is None:
            return None
        shape = list(x.tensor_type.shape)
        inner = shape[-1]

        def fits(v: Value) -> bool:
            t = v.tensor_type
            if (
                t.rank < 2
                or t.rank > 4
                or t.dtype is not x.tensor_type.dtype
                or t.shape[-2] != inner
            ):
                return False
            pairs = zip(reversed(shape[:-2]), reversed(list(t.shape)[:-2]), strict=False)
            return all(broadcast_dims(a, b) is not None for a, b in pairs)

        y = self.pick(fits)
        if y is None or self.rng.random() < 0.3:
            lead = shape[:-2] if self.rng.random() < 0.5 else []
            if self.rng.random() < 0.4:
                t = self.fresh(x.tensor_type.dtype, [*lead, self.dim(), inner])
                y = self.b.op("transpose", t, axis_1=-1, axis_2=-2)
            else:
                y = self.fresh(x.tensor_type.dtype, [*lead, inner, self.dim()])
        z = self.b.op("matmul", x, y)
        return self.b.op("mul", z, self.b.scalar(0.25, z.tensor_type.dtype))

    def attention(self) -> Value | None:
        q = self.pick(
            lambda v: v.tensor_type.rank in (3, 4) and v.tensor_type.dtype is DType.float32
        )
        if q is None:
            return None
        *lead, _, size = q.tensor_type.shape
        keys = self.dim()
        if not keys.evaluate(self.env):
            return None
        k, v = (
            self.fresh(DType.float32, [*lead, keys, size]),
            self.fresh(DType.float32, [*lead, keys, self.dim()]),
        )
        s = self.b.op("matmul", q, self.b.op("transpose", k, axis_1=-1, axis_2=-2))
        s = self.b.op("mul", s, self.b.scalar(0.4))
        if self.rng.random() < 0.5:
            biased = self.b.op("add", s, self.partner(s))
            s = biased if biased.type == s.type else s
        return self.b.op("matmul", self.b.op("softmax", s, axis=-1), v)

    def view(self) -> Value | None:
        x = self.pick()
        if x is None:
            return None
        shape, rank = list(x.tensor_type.shape), x.tensor_type.rank
        kind = self.rng.choice(VIEWS)
        if kind == "transpose" and rank > 1:
            return self.b.op(
                "transpose",
                x,
                axis_1=self.rng.randrange(rank),
                axis_2=self.rng.randrange(-rank, rank),
            )
        if kind == "permute" and rank > 1:
            return self.b.op("permute", x, dims=tuple(self.rng.sample(range(rank), rank)))
        if kind == "flatten" and rank > 1:
            first = self.rng.randrange(rank - 1)
            return self.b.op("flatten", x, start_dim=first, end_dim=self.rng.randrange(first, rank))
        if kind == "reshape" and rank:
            return self.reshape(x)
        if kind == "slice" and rank:
            return self.slice(x)
        if kind == "unsqueeze" and rank < 4:
            return self.b.op("unsqueeze", x, axis=self.rng.randint(-rank - 1, rank))
        if kind == "squeeze":
            ones = [n for n, d in enumerate(shape) if d == Dim(1)]
            return self.b.op("squeeze", x, axis=self.rng.choice(ones)) if ones else None
        if kind == "broadcast_to" and rank < 4:
            dims = [self.dim() if d == Dim(1) else d for d in shape]
            if self.rng.random() < 0.5:
                dims = [self.dim(), *dims]
            return self.known(self.b.op("broadcast_to", x, shape=tuple(dims)))
        if kind == "tile" and rank:
            return self.b.op("tile", x, repeats=tuple(self.rng.choice([1, 1, 2, 3]) for _ in shape))
        return None

    def known(self, x: Value) -> Value:
        """``x``, after every name in its type has got an input that defines it."""
        defined = {d for v in self.b.function.inputs for d in v.tensor_type.shape}
        for dim in x.tensor_type.shape.parameters:
            if dim not in defined:
                self.program.inputs.append(np.zeros(self.env[dim.name], np.uint8))
                self.b.input(DType.uint8, dim)
        return x

    def reshape(self, x: Value) -> Value:
        """The elements of ``x`` in another grouping of its dims."""
        dims = list(x.tensor_type.shape)
        total = Shape(dims).num_elements
        how = self.rng.random()
        if how < 0.3:
            return self.b.op("reshape", x, shape=(total,))
        if how < 0.6 and len(dims) > 1:
            turned = self.rng.sample(dims, len(dims))
            return self.b.op("reshape", x, shape=tuple(turned))
        if all(isinstance(d, StaticDim) for d in dims):
            size, parts = total.evaluate({}), []
            for factor in (2, 3, 4):
                if size and size % factor == 0:
                    parts.append(factor)
                    size //= factor
            return self.b.op("reshape", x, shape=(*parts, size))
        return self.b.op("reshape", x, shape=(1, *dims, 1) if len(dims) < 3 else tuple(dims))

    def slice(self, x: Value) -> Value | None:
        """A part of ``x``, perhaps backwards."""
        starts: list[Dim] = []
        steps: list[int] = []
        lengths: list[Dim] = []
        for dim in x.tensor_type.shape:
            size = dim.evaluate(self.env)
            how = self.rng.random()
            if how < 0.3 or not size:
                starts, steps, lengths = [*starts, Dim(0)], [*steps, 1], [*lengths, dim]
            elif how < 0.5:
                starts, steps, lengths = [*starts, dim - 1], [*steps, -1], [*lengths, dim]
            elif how < 0.7 and size > 2 and not isinstance(dim, StaticDim):
                starts, steps, lengths = [*starts, Dim(1)], [*steps, 1], [*lengths, dim - 2]
            else:
                step = self.rng.choice([1, 1, 2, -1, -2])
                length = self.rng.randint(
                    0 if self.rng.random() < 0.1 else min(size, 1),
                    (size + abs(step) - 1) // abs(step),
                )
                span = (length - 1) * abs(step) if length else 0
                start = self.rng.randint(0, max(size - 1 - span, 0))
                starts.append(Dim(start + span if step < 0 else start))
                steps.append(step)
                lengths.append(Dim(length))
        return self.b.op("slice", x, starts=tuple(starts), steps=tuple(steps), shape=tuple(lengths))

    def concat(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.rank > 0)
        if x is None:
            return None
        axis = self.rng.randrange(x.tensor_type.rank)

        def fits(v: Value) -> bool:
            a, c = list(v.tensor_type.shape), list(x.tensor_type.shape)
            same_rank = len(a) == len(c) and v.tensor_type.dtype is x.tensor_type.dtype
            return same_rank and all(
                p == q for n, (p, q) in enumerate(zip(a, c, strict=True)) if n != axis
            )

        parts = [x]
        for _ in range(self.rng.randint(0, 2)):
            other = self.pick(fits)
            if other is not None:
                parts.append(other)
        self.rng.shuffle(parts)
        return self.b.op("concat", *parts, axis=axis)

    def pad(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.rank > 0 and v.tensor_type.dtype is not DType.bool)
        if x is None:
            return None
        pads = tuple(self.rng.choice([0, 0, 1, 2]) for _ in range(2 * x.tensor_type.rank))
        return self.b.op("pad", x, paddings=pads, value=self.rng.choice([0, 1, 3]))

    def gather(self) -> Value | None:
        x = self.pick(lambda v: v.tensor_type.rank > 0)
        if x is None:
            return None
        axis = self.rng.randrange(x.tensor_type.rank)
        size = x.tensor_type.shape[axis].evaluate(self.env)
        if not size:
            return None
        dims = [self.dim() for _ in range(self.rng.randint(0, 2))]
        if x.tensor_type.rank - 1 + len(dims) > 4:
            return None
        dtype = self.rng.choice([DType.int64, DType.int32])
        low = self.rng.choice([0, -size])
        places = np.asarray(self.arrays.integers(low, size, self.sizes(Shape(dims))))
        self.program.inputs.append(places.astype(dtype.ml_numpy))
        return self.b.op("gather", x, self.b.input(dtype, *dims), axis=axis)

    def count(self) -> Value | None:
        size = self.dim()
        dtype = self.rng.choice([DType.float32, DType.int64, DType.int32])
        start, step = Dim(self.rng.randint(-2, 2)), Dim(self.rng.choice([1, 2, -1]))
        made = self.b.op("range", start=start, step=step, size=size, dtype=dtype, device=None)
        made = self.known(made)
        if dtype is DType.float32:
            return self.b.op("mul", made, self.b.scalar(0.05))
        return made

    def scalar(self) -> Value | None:
        d = self.known(self.b.op("broadcast_to", self.b.scalar(0.5), shape=(self.dim(),)))
        n = self.b.op("cast", self.b.op("dim", dim=d.tensor_type.shape[0]), dtype=DType.float32)
        return self.b.op("mul", n, self.b.scalar(0.01)) if self.rng.random() < 0.5 else d

    # ------------------------------------------------------------ all of it
    def make(self) -> Program:
        """The program."""
        for _ in range(self.rng.randint(1, 3)):
            dtype = self.rng.choice([*FLOATS, *INTS])
            self.pool.append(self.fresh(dtype, [self.dim() for _ in range(self.rng.randint(1, 4))]))
        self.steps(self.rng.randint(5, 40))
        unread = [v for v in self.pool if not v.uses]
        extra = self.rng.sample(self.pool, min(len(self.pool), self.rng.randint(1, 3)))
        self.b.output(*(unread[-4:] + extra))
        return self.program

    def steps(self, count: int) -> None:
        """Put the results of ``count`` steps, or fewer, into the pool."""
        kinds: list[tuple[Callable[[], Value | None], int]] = [
            (self.unary, 6), (self.binary, 8), (self.compare, 1), (self.where, 2), (self.cast, 2),
            (self.reduce, 5), (self.normalise, 3), (self.matmul, 4), (self.attention, 1),
            (self.view, 10), (self.concat, 2), (self.pad, 2), (self.gather, 2), (self.count, 1),
            (self.scalar, 1),
        ]  # fmt: skip
        steps = [kind for kind, weight in kinds for _ in range(weight)]
        for _ in range(count):
            made = self.rng.choice(steps)()
            if (
                made is not None
                and 0 <= np.prod(self.sizes(Shape(made.tensor_type.shape))) <= 20_000
            ):
                if made.tensor_type.rank <= 5:
                    self.pool.append(made)


def run(seed: int, threads: int | None = None) -> int:
    """Compile and compare the program of ``seed``; the number of its kernels.

    Raises:
        AssertionError: A result differs from the reference.
    """
    program = Generator(seed).make()
    with np.errstate(all="ignore"):
        want = interpret(program.function, program.inputs, program.weights)
    model = load(program.function, program.weights, threads)
    got = outputs_of(model, program.inputs)
    for number, (g, w) in enumerate(zip(got, want, strict=True)):
        scale = (
            float(np.max(np.abs(w[np.isfinite(w)].astype(np.float64)), initial=1.0))
            if w.dtype.kind == "f"
            else 1.0
        )
        try:
            same(g, w, rtol=1e-3, atol=1e-4 * max(scale, 1.0))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, output {number}: {error}") from None
    return len(model.compiled.plan.steps)
