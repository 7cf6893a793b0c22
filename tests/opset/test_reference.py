"""Every row of the op table on its own samples: types, references, index maps, decompositions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pytest

from maxlab import opset
from maxlab.dtype import DType
from maxlab.errors import GraphError
from maxlab.ir import (
    Constant,
    DeviceRef,
    Dim,
    Function,
    Op,
    Poly,
    SymbolicDim,
    TensorType,
    Type,
    Value,
)
from maxlab.opset import OPSET, Call, OpDef, Sample, scalar_weight
from maxlab.opset.core import ViewCall, concrete
from maxlab.opset.view import broadcast_index


def needs_names(sample: Sample) -> bool:
    """Whether the attributes speak of dims that only the symbolic operand types have."""
    return any(list(Dim(dim).parameters) for dim in sample.attrs.get("shape", ()))


SAMPLED = [
    pytest.param(row, sample, symbolic, id=f"{name}-{number}-{sample.label}-{kind}")
    for name, row in OPSET.items()
    if row.samples is not None
    for number, sample in enumerate(row.samples())
    for symbolic, kind in ((False, "static"), (True, "symbolic"))
    if (sample.shapes is not None if symbolic else not needs_names(sample))
]
WITHOUT_SAMPLES = {
    "mo.allgather",  # see tests/devices
    "mo.allreduce.sum",
    "mo.buffer.create",  # those with effects have buffers and chains, see tests/effects
    "mo.buffer.load",
    "mo.buffer.load_slice",
    "mo.buffer.store",
    "mo.buffer.store_slice",
    "mo.cache.attention",  # see tests/nn/kernels
    "mo.cache.load",
    "mo.cache.store",
    "mo.sample.count",  # memory: see tests/nn/kernels/test_sampling.py
    "mo.sample.penalise",
    "mo.call",  # those with regions are in tests/control
    "mo.chain",
    "mo.cond",
    "mo.constant",
    "mo.constant.external",
    "mo.custom",
    "mo.custom.inplace",
    "mo.host",
    "mo.iota",
    "mo.cache.add_lora",  # see tests/nn/kernels
    "mo.latent.attention",
    "mo.latent.chunk",
    "mo.latent.expand",
    "mo.latent.load",
    "mo.output",
    "mo.print",
    "mo.recip",
    "mo.while",
    "mo.watch",  # gives values to a function: tests/nn/test_hooks.py
}


def typed(sample: Sample, symbolic: bool) -> tuple[list[TensorType], dict[str, int]]:
    """The operand types of a sample, with its names for dims or with sizes only, and the sizes."""
    env: dict[str, int] = {}
    types = []
    for number, array in enumerate(sample.arrays):
        dims: Sequence[int | str] = array.shape
        if sample.shapes is not None:
            for dim, size in zip(sample.shapes[number], array.shape, strict=True):
                if isinstance(dim, str):
                    assert env.setdefault(dim, size) == size
            if symbolic:
                dims = sample.shapes[number]
        types.append(TensorType(DType.from_numpy(array.dtype), dims))
    return types, env


def attrs_of(row: OpDef, sample: Sample, env: dict[str, int]) -> dict[str, Any]:
    """The attributes of a sample; names that it introduces get their sizes from the operands."""
    attrs = dict(sample.attrs)
    for dim, size in zip(
        attrs.get("shape", ()), sample.arrays[0].shape if sample.arrays else (), strict=False
    ):
        if isinstance(dim, str):
            env.setdefault(dim, size)
    for dim in attrs.get("shape", ()):
        for parameter in Dim(dim).parameters:
            env.setdefault(parameter.name, 4)
    return attrs


def build(row: OpDef, sample: Sample, symbolic: bool) -> tuple[Function, Op, dict[str, int]]:
    types, env = typed(sample, symbolic)
    attrs = attrs_of(row, sample, env)
    function = Function("f")
    values = [function.add_input(t) for t in types]
    op = function.create(row.name, values, row.infer(types, attrs), attrs)
    function.block.append(op)
    return function, op, env


def test_every_op_has_samples() -> None:
    assert {name for name, row in OPSET.items() if row.samples is None} <= WITHOUT_SAMPLES | {
        "mo.transfer"
    }
    assert len(OPSET) > 60


@pytest.mark.parametrize(("row", "sample", "symbolic"), SAMPLED)
def test_infer_agrees_with_the_reference(row: OpDef, sample: Sample, symbolic: bool) -> None:
    check_types(row, sample, symbolic)


def check_types(row: OpDef, sample: Sample, symbolic: bool) -> None:
    """The result type of ``row`` on ``sample`` is what its reference returns."""
    _, op, env = build(row, sample, symbolic)
    types = [r.tensor_type for r in op.results]
    call = opset.Call(
        op.attrs,
        tuple(concrete(t.shape, env) for t in types),
        tuple(t.dtype for t in types),
        env,
    )
    with np.errstate(all="ignore"):
        made = row.reference(call, *sample.arrays)
    raws = [np.asarray(one) for one in (made if isinstance(made, (list, tuple)) else [made])]
    founds = opset.evaluate(op, sample.arrays, env)
    for raw, found, result, shape in zip(raws, founds, types, call.shapes, strict=True):
        assert raw.shape == shape
        assert found.dtype == result.dtype.ml_numpy
        if result.dtype.is_integral() or result.dtype is DType.bool:
            assert raw.dtype.kind in "biu", "an integer result is computed with integers"
    poly = opset.flops_of(op)
    assert poly.evaluate(env) >= 0


def with_row(which: Callable[[OpDef], bool]) -> list[Any]:
    """The samples of the rows that ``which`` chooses."""
    return [param for param in SAMPLED if which(cast(OpDef, param.values[0]))]


@pytest.mark.parametrize(("row", "sample", "symbolic"), with_row(lambda row: row.kind == "view"))
def test_the_index_map_of_a_view_is_what_numpy_does(
    row: OpDef, sample: Sample, symbolic: bool
) -> None:
    _, op, env = build(row, sample, symbolic)
    (operand,) = op.operands
    source = tuple(d.poly for d in operand.tensor_type.shape)
    target = tuple(d.poly for d in op.results[0].tensor_type.shape)
    axes = tuple(Poly.symbol(f"i{n}") for n in range(len(target)))
    assert row.view is not None
    index = row.view(ViewCall(op.attrs, source, target), axes)
    (expected,) = opset.evaluate(op, sample.arrays, env)
    for at in np.ndindex(*expected.shape):
        sizes = env | {f"i{n}": i for n, i in enumerate(at)}
        assert sample.arrays[0][tuple(p.evaluate(sizes) for p in index)] == expected[at]


class NumpyBuilder:
    """A builder of decompositions whose values are made by the references at once."""

    def __init__(self, function: Function, env: dict[str, int]) -> None:
        self.function = function
        self.env = env
        self.arrays: dict[Value, np.ndarray[Any, Any]] = {}

    def op(self, name: str, operands: Sequence[Value], /, **attrs: Any) -> tuple[Value, ...]:
        row = opset.lookup(f"mo.{name}")
        types: list[Any] = [v.type for v in operands]
        made = self.function.create(row.name, operands, row.infer(types, attrs), attrs)
        arrays = [self.arrays[v] for v in operands]
        (self.arrays[made.result],) = opset.evaluate(made, arrays, self.env)
        return tuple(made.results)

    def literal(self, x: Any, dtype: DType, device: DeviceRef) -> Value:
        data = Constant(np.asarray(x, dtype.ml_numpy))
        return self.op("constant", [], value=data, device=device)[0]

    def type_of(self, value: Value) -> Type:
        return value.type


@pytest.mark.parametrize(
    ("row", "sample", "symbolic"), with_row(lambda row: row.decompose is not None)
)
def test_a_decomposition_computes_the_same(row: OpDef, sample: Sample, symbolic: bool) -> None:
    check_decomposition(row, sample, symbolic)


def check_decomposition(row: OpDef, sample: Sample, symbolic: bool) -> None:
    """The ops that ``row`` is expanded to compute what its reference computes on ``sample``."""
    function, op, env = build(row, sample, symbolic)
    builder = NumpyBuilder(function, env)
    builder.arrays.update(zip(op.operands, sample.arrays, strict=True))
    assert row.decompose is not None
    result = row.decompose(builder, op)
    assert isinstance(result, Value)
    assert result.type == op.results[0].type
    (expected,) = opset.evaluate(op, sample.arrays, env)
    tolerance = {2: 2e-2, 4: 2e-5, 8: 1e-9}.get(expected.dtype.itemsize, 0)
    np.testing.assert_allclose(
        builder.arrays[result].astype(np.float64),
        expected.astype(np.float64),
        rtol=tolerance,
        atol=tolerance / 10,
    )


def test_names_are_unique_and_unknown_names_are_errors() -> None:
    with pytest.raises(GraphError, match="no op 'mo.nothing'"):
        opset.lookup("mo.nothing")
    with pytest.raises(ValueError, match="declared twice"):
        opset.core.define(
            "add",
            "map",
            "elementwise",
            "",
            infer=lambda types, attrs: [],
            reference=lambda call, x, y: x + y,
        )


def checks(index: Any, sizes: int) -> Iterator[bool]:
    row = OPSET["mo.slice"]
    start, step, length = index
    n = Dim("n")
    x = TensorType(DType.float32, [n])
    attrs = {"starts": (start,), "steps": (step,), "shape": (length,)}
    assert row.checks is not None
    for check in row.checks([x], row.infer([x], attrs), attrs):
        yield check.holds({"n": sizes})


@pytest.mark.parametrize(
    ("index", "least"),
    [
        ((Dim(0), 1, Dim(2)), 2),
        ((Dim(1), 1, Dim("n") - 1), 1),
        ((Dim("n") - 3, 1, Dim(3)), 3),
        ((Dim("n") - 1, -1, Dim("n")), 0),
        ((Dim(3), -1, Dim(4)), 4),
        ((Dim(0), 2, (Dim("n") + 1) // 2), 0),
    ],
)
def test_checks_of_slices(index: Any, least: int) -> None:
    for size in range(8):
        assert all(checks(index, size)) == (size >= least), size


def test_broadcast_index_reads_the_only_element_of_a_dim_of_size_one() -> None:
    i, j = Poly.symbol("i"), Poly.symbol("j")
    n, one = SymbolicDim("n").poly, Poly.constant(1)
    assert broadcast_index((i, j), (n, one)) == (i, Poly.constant(0))
    assert broadcast_index((i, j), (n,)) == (j,)


@pytest.mark.parametrize(
    ("row", "sample"),
    [
        pytest.param(row, sample, id=f"{name}-{number}")
        for name, row in OPSET.items()
        if row.same_order and row.samples is not None
        for number, sample in enumerate(row.samples())
        if not needs_names(sample)
    ],
)
def test_a_view_declared_same_order_keeps_the_order(row: OpDef, sample: Sample) -> None:
    types, env = typed(sample, False)
    results = tuple(row.infer(types, attrs_of(row, sample, env)))
    assert isinstance(results[0], TensorType)
    call = Call(dict(sample.attrs), (concrete(results[0].shape, env),), (results[0].dtype,), env)
    made = np.asarray(row.reference(call, sample.arrays[0]))
    np.testing.assert_array_equal(made.ravel(), sample.arrays[0].ravel())


def test_every_scalar_operator_has_the_weight_of_its_row() -> None:
    for approximate in ("none", "tanh", "quick"):
        row = OPSET["mo.gelu"]
        assert scalar_weight(row.scalar_name({"approximate": approximate})) == row.weight
    for name, row in OPSET.items():
        if row.kind == "map" and row.scalar is None and row.role != "cast":
            assert scalar_weight(name.removeprefix("mo.")) == row.weight


@pytest.mark.parametrize(
    ("approximate", "x", "expected"),
    [
        # computed with 100 digits
        ("none", -10.0, -7.6198530241605260660e-23),
        ("none", -1.0, -0.15865525393145705142),
        ("tanh", -1.0, -0.15880800939172329522),
        ("tanh", -5.0, -2.2917961966295060456e-07),
        ("quick", -1.0, -0.15420423406717870429),
    ],
)
def test_the_left_tail_of_gelu_does_not_cancel(approximate: str, x: float, expected: float) -> None:
    call = Call({"approximate": approximate}, ((1,),), (DType.float64,), {})
    found = OPSET["mo.gelu"].reference(call, np.array([x]))
    np.testing.assert_allclose(found, [expected], rtol=1e-12)
