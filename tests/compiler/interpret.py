"""The oracle of the compiler's tests: a function run op by op with the NumPy references, and how
close two results of one op must be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from maxlab import engine, opset
from maxlab.dtype import DType
from maxlab.graph import Graph
from maxlab.ir import Constant, DeviceRef, Dim, Function, Shape, SymbolicDim, TensorType, Value

Array = np.ndarray[Any, Any]
_INTS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


# ---------------------------------------------------------------- building
class Builder:
    """Builds a function op by op, without the graph API."""

    def __init__(self, name: str = "test") -> None:
        self.function = Function(name)

    def input(self, dtype: DType, *shape: Any) -> Value:
        """A new input."""
        return self.function.add_input(TensorType(dtype, shape))

    def op(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """The result of a new op, whose type the op table gives."""
        (made,) = self.all_of(name, *operands, **attrs)
        return made

    def all_of(self, name: str, /, *operands: Value, **attrs: Any) -> Sequence[Value]:
        """The results of a new op, whose types the op table gives."""
        full = f"mo.{name}"
        row = opset.lookup(full)
        types = [v.type for v in operands if isinstance(v.type, TensorType)]
        op = self.function.create(full, operands, row.infer(types, attrs), attrs)
        self.function.block.append(op)
        return op.results

    def constant(self, array: Array) -> Value:
        """Data in the graph."""
        return self.op("constant", value=Constant(array), device=DeviceRef.CPU())

    def scalar(self, number: float, dtype: DType = DType.float32) -> Value:
        """A rank-0 constant."""
        return self.constant(np.asarray(number).astype(dtype.ml_numpy))

    def weight(self, name: str, array: Array) -> Value:
        """Data of the registry; ``array`` gives the type."""
        type = TensorType(DType.from_numpy(array.dtype), array.shape)
        return self.op("constant.external", name=name, type=type, placeholder=False)

    def output(self, *values: Value) -> Function:
        """The function, which now has an output."""
        self.function.block.append(self.function.create("mo.output", values, []))
        return self.function


def load(
    function: Function, weights: Mapping[str, Any] | None = None, threads: int | None = None
) -> engine.Model:
    """The compiled model of ``function``."""
    graph = Graph(function.name)
    graph.function = function
    return engine.InferenceSession(num_threads=threads).load(graph, weights_registry=weights)


def outputs_of(model: engine.Model, inputs: Sequence[Array]) -> list[Array]:
    """The outputs as arrays of ml_dtypes types."""
    from maxlab.driver import Tensor

    made = model.execute(*(Tensor.from_numpy(np.require(x, requirements="C")) for x in inputs))
    return [host(t) for t in made]


def host(tensor: Any) -> Array:
    """A copy of ``tensor`` as an array, of an ml_dtypes type where NumPy has none."""
    wide = tensor.dtype.ml_numpy
    if tensor.dtype is DType.bfloat16:
        return np.array(tensor.view(DType.uint16).to_numpy()).view(wide)
    return np.array(tensor.to_numpy())


# ---------------------------------------------------------------- interpreting
def sizes_of(function: Function, inputs: Sequence[Array]) -> dict[str, int]:
    """The size of each symbol: from the inputs, then from rebinds."""
    env: dict[str, int] = {}
    for value, array in zip(function.inputs, inputs, strict=True):
        for dim, size in zip(value.tensor_type.shape, array.shape, strict=True):
            if isinstance(dim, SymbolicDim):
                env[dim.name] = size
    for op in function.ops:
        if op.name == "mo.rebind":
            for old, new in zip(
                op.operands[0].tensor_type.shape, Shape(op.attrs["shape"]), strict=True
            ):
                if isinstance(new, SymbolicDim) and new.name not in env:
                    env[new.name] = Dim(old).evaluate(env)
    return env


def interpret(
    function: Function, inputs: Sequence[Array], weights: Mapping[str, Array] | None = None
) -> list[Array]:
    """What the NumPy references compute for ``function``."""
    env = sizes_of(function, inputs)
    known: dict[Value, Array] = dict(zip(function.inputs, inputs, strict=True))
    for op in function.ops:
        if op.name == "mo.output":
            return [known[v] for v in op.operands]
        if op.name == "mo.constant.external":
            assert weights is not None
            known[op.result] = weights[op.attrs["name"]]
            continue
        made = opset.evaluate(op, [known[v] for v in op.operands], env)
        known.update(zip(op.results, made, strict=True))
    raise AssertionError("the function has no output")


# ---------------------------------------------------------------- comparing
def steps_between(a: Array, b: Array) -> Array:
    """How many representable numbers lie from ``a`` to ``b``; -0 and 0 are one number."""
    kind = _INTS[a.dtype.itemsize]
    x, y = (
        np.ascontiguousarray(v).view(kind).reshape(v.shape).astype(np.int64).astype(object)
        for v in (a, b)
    )
    low = -(1 << (8 * a.dtype.itemsize - 1))
    x = np.where(x < 0, low - x, x)
    y = np.where(y < 0, low - y, y)
    return np.asarray(np.abs(x - y))


def same(got: Array, want: Array, *, ulps: int = 0, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Assert that ``got`` is ``want``: exactly, within ``ulps`` steps, or within the tolerances.

    NaNs and infinities must stand at the same places.
    """
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want)
        return
    x, y = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y), "NaNs differ")
    finite = np.isfinite(y) & np.isfinite(x)
    edge = ~finite & ~np.isnan(y)
    if rtol or atol:  # an overflow may be one step early or late
        edge &= np.abs(np.where(np.isfinite(y), y, x)) < 1e300 if got.dtype == np.float64 else edge
    np.testing.assert_array_equal(x[edge], y[edge], "infinities differ")
    good = np.zeros(x.shape, bool) | (x == y)
    todo = finite & ~good
    if todo.any():
        close = np.zeros(x.shape, bool)
        if ulps:
            close[todo] = (steps_between(got[todo], want[todo]) <= ulps).astype(bool)
        if rtol or atol:
            close |= np.abs(x - y) <= atol + rtol * np.abs(y)
        wrong = todo & ~close
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            raise AssertionError(
                f"{int(wrong.sum())} of {wrong.size} elements differ, the first at {at}: "
                f"{x[at]!r} instead of {y[at]!r}"
            )


def check(
    build: Callable[[Builder], Function],
    inputs: Sequence[Array],
    *,
    weights: Mapping[str, Array] | None = None,
    kernels: int | None = None,
    rtol: float = 2e-5,
    atol: float = 2e-5,
) -> engine.Model:
    """Build, compile, run and compare with the references; ``kernels`` is the promised number."""
    function = build(Builder())
    model = load(function, weights)
    got = outputs_of(model, inputs)
    want = interpret(function, inputs, weights)
    for g, w in zip(got, want, strict=True):
        same(g, w, rtol=rtol, atol=atol)
    if kernels is not None:
        names = [f"{s.kind}:{s.name}" for s in model.compiled.plan.steps]
        assert len(names) == kernels, names
    return model
