"""The text of functions: what is printed is read back the same, and nothing else is read."""

from __future__ import annotations

import math
import shutil
import struct
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxlab.dtype import DType
from maxlab.errors import GraphError, Location, ParseError
from maxlab.ir import (
    Block,
    BufferType,
    ChainType,
    Constant,
    ConvInputLayout,
    DeviceRef,
    Dim,
    FilterLayout,
    Function,
    Op,
    OpaqueType,
    Shape,
    TensorType,
    Type,
    Value,
    parse_dim,
)
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic, pretty
from tests.ids import stable

F32 = DType.float32


def small() -> Function:
    """Two inputs, three ops with places, scopes and names."""
    f = Function("f")
    x = f.add_input(TensorType(F32, ["b", 2]), "x")
    w = f.add_input(TensorType(F32, [2]))
    loc = Location("cell [7]", 3, 4, "y = x + w", "forward", 13)
    y = f.block.append(
        f.create("mo.add", [x, w], [TensorType(F32, ["b", 2])], loc=loc, scope="encoder.layers.0")
    ).result
    y.name = "sum"
    z = f.block.append(
        f.create(
            "mo.softmax", [y], [TensorType(F32, ["b", 2])], {"axis": -1}, loc=Location("m.py", 9)
        )
    ).result
    f.block.append(f.create("mo.output", [z, y], []))
    return f


def with_attr(value: Any) -> Function:
    f = Function("f")
    f.block.append(f.create("mo.test", [], [], {"value": value}))
    return f


def round_trip(function: Function) -> Function:
    """What the printed text of ``function`` is read as, checked to be the same."""
    text = generic(function)
    made = parse_function(text)
    assert generic(made) == text
    assert same(function, made)
    return made


def same(a: Function, b: Function) -> bool:
    """Whether two functions are equal in everything that has a meaning."""
    if (a.name, list(a.parameters), list(a.subgraphs)) != (
        b.name,
        list(b.parameters),
        list(b.subgraphs),
    ):
        return False
    return _same_block(a.block, b.block) and all(
        same(x, y) for x, y in zip(a.subgraphs.values(), b.subgraphs.values(), strict=True)
    )


def _value(v: Value) -> tuple[str, Type, str, int, int]:
    return v.id, v.type, v.name, v.index, sum(v.uses.values())


def _bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, (tuple, list)) and not isinstance(value, Shape):
        return tuple(_bits(item) for item in value)
    return (type(value), value)


def _same_block(a: Block, b: Block) -> bool:
    if len(a.ops) != len(b.ops) or [_value(v) for v in a.args] != [_value(v) for v in b.args]:
        return False
    for x, y in zip(a.ops, b.ops, strict=True):
        left = (x.id, x.name, x.loc, x.scope, x.origins, [v.id for v in x.operands])
        if left != (y.id, y.name, y.loc, y.scope, y.origins, [v.id for v in y.operands]):
            return False
        if [_value(r) for r in x.results] != [_value(r) for r in y.results]:
            return False
        if list(x.attrs) != list(y.attrs) or _bits(tuple(x.attrs.values())) != _bits(
            tuple(y.attrs.values())
        ):
            return False
        if len(x.regions) != len(y.regions):
            return False
        if not all(_same_block(r, s) for r, s in zip(x.regions, y.regions, strict=True)):
            return False
    return True


# ---------------------------------------------------------------- printing
def test_pretty_is_readable() -> None:
    assert pretty(small()) == (
        'mo.graph @f<b>(%a0 "x": !mo.tensor<[b, 2], f32>, %a1: !mo.tensor<[2], f32>) '
        "-> (!mo.tensor<[b, 2], f32>, !mo.tensor<[b, 2], f32>) {\n"
        "  // encoder.layers.0\n"
        '  %v0 = mo.add(%a0, %a1) : !mo.tensor<[b, 2], f32>  // "sum" cell [7]:3\n'
        "  // (top)\n"
        "  %v1 = mo.softmax(%v0) {axis = -1} : !mo.tensor<[b, 2], f32>  // m.py:9\n"
        "  mo.output(%v1, %v0)\n"
        "}"
    )


def test_pretty_shortens_constants_and_shows_origins() -> None:
    f = Function("f")
    array = np.arange(1000, dtype=np.float32).reshape(10, 100)
    op = f.create("mo.constant", [], [TensorType(F32, [10, 100])], {"value": Constant(array)})
    op.origins = ("n3", "n4")
    f.block.append(op)
    text = pretty(f)
    assert "dense<10x100xf32: 0, 1, 2, 3, …>" in text
    assert "// n0 from n3, n4" in text
    assert len(text) < 300


def test_generic_form() -> None:
    assert generic(small()) == (
        '#loc0 = loc(fused<{end = 13, function = "forward", text = "y = x + w"}>["cell [7]":3:5])\n'
        '#loc1 = loc("m.py":9:1)\n'
        '"mo.graph"() ({\n'
        "^bb0(%a0: !mo.tensor<[b, 2], f32>, %a1: !mo.tensor<[2], f32>):\n"
        '  %v0 = "mo.add"(%a0, %a1) {mo.id = "n0", mo.scope = "encoder.layers.0", '
        'mo.names = ["sum"]} : '
        "(!mo.tensor<[b, 2], f32>, !mo.tensor<[2], f32>) -> !mo.tensor<[b, 2], f32> loc(#loc0)\n"
        '  %v1 = "mo.softmax"(%v0) {axis = -1, mo.id = "n1"} : '
        "(!mo.tensor<[b, 2], f32>) -> !mo.tensor<[b, 2], f32> loc(#loc1)\n"
        '  "mo.output"(%v1, %v0) {mo.id = "n2"} : '
        "(!mo.tensor<[b, 2], f32>, !mo.tensor<[b, 2], f32>) -> ()\n"
        '}) {sym_name = "f", version = 1, parameters = ["b"], '
        'inputs = ["x", "input1"]} : () -> ()\n'
    )


def test_small_function_round_trips() -> None:
    made = round_trip(small())
    assert made.inputs[0].name == "x"
    assert made.ops[0].loc == Location("cell [7]", 3, 4, "y = x + w", "forward", 13)
    assert made.fresh() == 3  # an op added later gets a new id


def test_division_never_begins_a_comment() -> None:
    f = Function("f")
    f.add_input(TensorType(F32, [Dim("n") // 4 + 1, -(Dim("n") // 3) * 2]))
    f.block.append(f.create("mo.test", [], [], {"dim": (Dim("n") * 3 + 1) // (Dim("m") - 1)}))
    text = generic(f)
    assert "floordiv" in text
    assert "//" not in text
    round_trip(f)


# ---------------------------------------------------------------- attributes
ATTRIBUTES: list[Any] = [
    True,
    False,
    None,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    2**63,
    -(10**40),
    0.0,
    -0.0,
    0.1,
    1e-05,
    1e300,
    5e-324,
    math.inf,
    -math.inf,
    math.nan,
    struct.unpack(">d", bytes.fromhex("FFF8000000000123"))[0],
    "",
    "plain",
    'quo"te \\ back',
    "line\nbreak\ttab\r\0",
    "ünïcödé 漢字 🙂",
    "\ud800 lone",
    "// no comment",
    "-> }>](",
    (),
    (1, 2, 3),
    (1, (2.5, "x", None), True, ()),
    *DType,
    Dim(4),
    Dim("n"),
    Dim("lambda"),
    Dim("floordiv") // 2,
    Dim("n") // 4 * 4 - Dim("m") * Dim("n") + 7,
    Shape([]),
    Shape(["n", 4, Dim("n") // 2]),
    TensorType(F32, ["n", 2]),
    TensorType(F32, [3], DeviceRef.GPU(2)),
    TensorType(F32, [2, 2, 3, 3], None, FilterLayout.FCRS),
    BufferType(DType.int8, []),
    OpaqueType('odd "name" <>'),
    ChainType(),
    DeviceRef.CPU(),
    DeviceRef.GPU(3),
    FilterLayout.RSCF,
    ConvInputLayout.NCHW,
]


@pytest.mark.parametrize("value", ATTRIBUTES, ids=lambda v: ascii(v)[:40])
def test_attribute_round_trips(value: Any) -> None:
    made = round_trip(with_attr(value)).ops[0].attrs["value"]
    assert _bits(made) == _bits(value)


def test_numbers_of_numpy_become_python_numbers() -> None:
    made = parse_function(generic(with_attr((np.int32(7), np.float64(0.5), np.bool_(True), [1]))))
    assert made.ops[0].attrs["value"] == (7, 0.5, True, (1,))


@pytest.mark.parametrize(
    "key", ["mo.id", "mo.scope", "mo.attr:x", "with space", "9", 'q"', "é", ""]
)
def test_any_attribute_name_round_trips(key: str) -> None:
    f = Function("f")
    f.block.append(f.create("mo.test", [], [], {key: "own", "axis": 1}))
    assert round_trip(f).ops[0].attrs == {key: "own", "axis": 1}


@pytest.mark.parametrize("value", [object(), b"bytes", {"a": 1}, {1}, 1j], ids=stable)
def test_values_that_are_no_attribute_are_refused_with_the_op_named(value: Any) -> None:
    with pytest.raises(GraphError, match="mo.test n0"):
        generic(with_attr(value))


CONSTANTS: list[np.ndarray[Any, Any]] = [
    np.array(1.5, np.float32),
    np.array([0.1, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 16777217], np.float32),
    np.array([[0.1, 1e-300], [5e-324, 1.7976931348623157e308]]),
    np.array([1.5, 65504, 6e-8, np.nan], np.float16),
    np.array([True, False]),
    np.arange(100) % 3 == 0,
    np.array([-128, 127], np.int8),
    np.array([0, 255], np.uint8),
    np.array([2**64 - 1], np.uint64),
    np.array([-(2**63)], np.int64),
    np.zeros((0, 3), np.float32),
    np.zeros((3, 0), np.bool_),
    np.ones((2, 1, 3), np.int32),
    np.full((4, 4), 2.5, np.float32),
    np.arange(1000, dtype=np.float32).reshape(10, 100).T,
    np.arange(64, dtype=np.float64)[::2],
    *[np.linspace(-3, 3, 5).astype(d.ml_numpy) for d in DType if d.is_float()],
    *[np.linspace(0.5, 3, 40).astype(d.ml_numpy) for d in DType if d.is_float()],
]


@pytest.mark.parametrize("array", CONSTANTS, ids=lambda a: f"{a.dtype}{list(a.shape)}")
def test_constant_round_trips_bit_for_bit(array: np.ndarray[Any, Any]) -> None:
    made = round_trip(with_attr(Constant(array))).ops[0].attrs["value"].array
    assert made.dtype == array.dtype
    assert made.shape == array.shape
    assert made.tobytes() == np.ascontiguousarray(array).tobytes()
    assert not made.flags.writeable


def test_nan_payloads_survive() -> None:
    bits = np.array([0x7FC00001, 0xFFC12345, 0x7F800001], np.uint32)
    made = round_trip(with_attr(Constant(bits.view(np.float32)))).ops[0].attrs["value"].array
    assert np.array_equal(made.view(np.uint32), bits)


# ---------------------------------------------------------------- structure
def test_regions_subgraphs_and_several_results_round_trip() -> None:
    f = Function("outer")
    p = f.add_input(TensorType(DType.bool, []), "p")
    x = f.add_input(TensorType(F32, ["n"]))
    inner = Function("inner")
    y = inner.add_input(TensorType(F32, ["n"]))
    inner.block.append(inner.create("mo.output", [y], []))
    deeper = Function("deeper")
    deeper.block.append(deeper.create("mo.output", [], []))
    inner.subgraphs["deeper"] = deeper
    f.subgraphs["inner"] = inner
    regions = []
    for number in range(2):
        region = Block()
        arg = Value(f"r{number}", TensorType(F32, ["n"]), region, 0, "carried")
        region.args.append(arg)
        number_ = f.fresh()
        region.append(Op(f"n{number_}", "mo.mul", [arg, x], [x.type], result_ids=[f"v{number_}"]))
        region.append(Op(f"n{f.fresh()}", "mo.yield", [region.ops[0].result], []))
        regions.append(region)
    op = Op("n9", "mo.cond", [p], [x.type, x.type], regions=regions, result_ids=["v9", "v9_1"])
    for region in regions:
        region.parent = op
    f.block.append(op)
    f.block.append(Op("n10", "mo.output", list(reversed(op.results)), []))
    made = round_trip(f)
    assert made.ops[0].regions[0].parent is made.ops[0]
    assert "mo.cond" in pretty(f)
    assert made.fresh() == 11


def test_other_values_of_a_region_cannot_be_read_outside() -> None:
    text = (
        '"mo.graph"() ({ "mo.if"() ({ %v0 = "mo.c"() : () -> !mo.chain }) : () -> () '
        '"mo.output"(%v0) : (!mo.chain) -> () }) {sym_name = "f"} : () -> ()'
    )
    with pytest.raises(ParseError, match="%v0 is read before any op makes it"):
        parse_function(text)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SYMBOLS = st.sampled_from(["n", "m", "seq_len", "_x", "floordiv", "lambda", "é"])


@st.composite
def dims(draw: st.DrawFn) -> Dim:
    dim = Dim(draw(st.one_of(st.integers(0, 9), SYMBOLS)))
    for _ in range(draw(st.integers(0, 4))):
        other = Dim(draw(st.one_of(st.integers(1, 9), SYMBOLS)))
        match draw(st.sampled_from("+-*/")):
            case "+":
                dim = dim + other
            case "-":
                dim = dim - other
            case "*":
                dim = dim * other
            case _:
                dim = dim // other
    return dim


@st.composite
def types(draw: st.DrawFn) -> Type:
    if draw(st.integers(0, 9)) == 0:
        return draw(st.one_of(st.just(ChainType()), NAMES.map(OpaqueType)))
    shape = [d for d in draw(st.lists(dims(), max_size=3)) if not str(d).startswith("-")]
    cls = draw(st.sampled_from([TensorType, BufferType]))
    return cls(
        draw(st.sampled_from(list(DType))), shape, draw(st.sampled_from([None, DeviceRef.GPU(1)]))
    )


LEAVES = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(list(DType)),
    dims(),
    types(),
    st.lists(dims(), max_size=3).map(Shape),
    st.lists(st.floats(width=32), max_size=20).map(lambda v: Constant(np.array(v, np.float32))),
)
ATTRS = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)
LOCATIONS = st.one_of(
    st.none(),
    st.builds(
        Location,
        NAMES,
        st.integers(0, 10**6),
        st.integers(0, 200),
        NAMES,
        NAMES,
        st.integers(0, 200),
    ),
)


@st.composite
def functions(draw: st.DrawFn) -> Function:
    f = Function(draw(NAMES))
    values = [f.add_input(t, draw(NAMES)) for t in draw(st.lists(types(), max_size=2))]
    for _ in range(draw(st.integers(0, 5))):
        operands = draw(st.lists(st.sampled_from(values), max_size=3)) if values else []
        op = f.create(
            draw(st.sampled_from(["mo.add", "mo.x.y", 'od"d', "é"])),
            operands,
            draw(st.lists(types(), max_size=3)),
            draw(st.dictionaries(NAMES, ATTRS, max_size=3)),
            loc=draw(LOCATIONS),
            scope=draw(st.one_of(st.just(""), NAMES)),
            origins=draw(st.sampled_from([(), ("n7", "n8"), ("odd id",)])),
        )
        for result in op.results:
            result.name = draw(st.one_of(st.just(""), NAMES))
        f.block.append(op)
        values.extend(op.results)
    f.block.append(f.create("mo.output", values[-2:], []))
    return f


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(functions())
def test_any_function_round_trips(function: Function) -> None:
    round_trip(function)
    pretty(function)


@settings(deadline=None, max_examples=300)
@given(dims())
def test_any_dim_round_trips(dim: Dim) -> None:
    assert parse_dim(str(dim)) == dim
    made = round_trip(with_attr(dim)).ops[0].attrs["value"]
    assert made == dim


# ---------------------------------------------------------------- hostile text
def attempt(text: str) -> tuple[Function | None, ParseError | None]:
    """The function that ``text`` is read as, or the error."""
    try:
        return parse_function(text), None
    except ParseError as error:
        return None, error


SEED_TEXT = generic(small()) + "\n"
RICH_TEXT = generic(
    with_attr((1, "a\\b", 0.5, Dim("n") // 2, F32, Constant(np.eye(3)), TensorType(F32, ["n"])))
)
PIECES = st.sampled_from(
    [
        *(
            "",
            '"',
            "\\",
            "<",
            ">",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "//",
            "\n",
            "\x00",
            "-",
            "->",
            ": ",
        ),
        *("%v0", "%v9", "#loc0", "loc(", "^bb0", "mo.id", "mo.names = [", "unit", "é", "9" * 30),
        *("!mo.tensor<[", "!mo.tensor<[n], f32>", "dense<", "dense<1.0>", "0x", "1e"),
        "tensor<99999999999x9999xf32>",
    ]
)


@settings(deadline=2000, max_examples=400, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([SEED_TEXT, RICH_TEXT]),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 12), PIECES), min_size=1, max_size=4),
)
def test_mutated_text_is_read_or_refused(text: str, edits: list[tuple[int, int, str]]) -> None:
    for start, length, piece in edits:
        start %= len(text) + 1
        text = text[:start] + piece + text[start + length :]
    function, error = attempt(text)
    if function is not None:
        round_trip(function)
    else:
        assert error is not None
        assert error.code == "ML350"
        assert error.at is not None


@settings(deadline=2000, max_examples=150)
@given(st.text())
def test_random_text_is_refused(text: str) -> None:
    with pytest.raises(ParseError):
        parse_function(text)


def attribute(text: str) -> str:
    return (
        f'"mo.graph"() ({{ "mo.t"() {{value = {text}}} : () -> () }}) {{sym_name = "f"}} : () -> ()'
    )


HOSTILE = {
    "open strings": '"\\"' * 50_000,
    "open types": "!mo.tensor<" * 50_000,
    "open quotes in types": '!mo.tensor<"' * 50_000,
    "spaces": " " * 500_000,
    "slashes": "/" * 200_000,
    "comments": "// x\n" * 100_000,
    "hashes": "#" * 200_000,
    "deep lists": attribute("[" * 100_000),
    "deep parentheses": attribute("#mo.dim<" + "(" * 100_000 + ">"),
    "deep dim within the length": attribute("#mo.dim<" + "(" * 4000 + "1" + ")" * 4000 + ">"),
    "many minus signs": attribute("#mo.dim<" + "-" * 8000 + "n>"),
    "many divisions": attribute("#mo.dim<n" + " // 3" * 1500 + ">"),
    "many products": attribute("#mo.dim<" + " * ".join(["(a + b + c + d)"] * 400) + ">"),
    "long number": attribute("9" * 100_000),
    "long dim number": attribute("#mo.dim<" + "9" * 8000 + ">"),
    "big int": attribute("#mo.int<" + "9" * 100_000 + ">"),
    "huge constant of one value": attribute("dense<1.0> : tensor<99999999x99999999xf32>"),
    "huge empty constant": attribute("dense<> : tensor<999999999999xf32>"),
    "deep constant": attribute("dense<" + "[" * 100_000),
    "deep regions": '"mo.graph"() ({ ' + '"mo.if"() ({ ' * 100_000,
    "deep subgraphs": '"mo.graph"() ({ }, { ' * 100_000,
    "alias circle": '#a = loc(#b)\n#b = loc(#a)\n"mo.graph"() ({ "mo.t"() : () -> () loc(#a) }) '
    '{sym_name = "f"} : () -> ()',
    "many results": '"mo.graph"() ({ %0:99999 = "mo.t"() : () -> () ',
    "division by zero": attribute("#mo.dim<n // (n - n)>"),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    start = time.process_time()
    _, error = attempt(text)
    assert len(str(error)) < 2000
    assert time.process_time() - start < 5


REFUSED = [
    ("", "the text ends before a graph begins"),
    ('"mo.graph"', "expected '('"),
    ('"mo.graph"() ({ }) {} : () -> ()', "sym_name"),
    ('"mo.graph"() ({ }) {sym_name = "f", version = 2} : () -> ()', "version 2"),
    ('"mo.graph"() ({ }) {sym_name = "f"} : () -> () x', "end of the text"),
    ('"mo.graph"() ({ }) {sym_name = "f", sym_name = "g"} : () -> ()', "occurs twice"),
    ('"mo.graph"() ({ }) {sym_name = "f", inputs = ["x"]} : () -> ()', "1 names for 0 inputs"),
    (attribute("f32"), "expected an attribute"),
    (attribute("#mo.dtype<f99>"), "f99"),
    (attribute("#mo.other<1>"), "not an attribute"),
    (attribute("!mo.tensor<[n, f32>"), "expected"),
    (attribute("!mo.tensor<[-1], f32>"), "negative"),
    (attribute("!mo.tensor<[n], f32, tpu:0>"), "not a device"),
    (attribute("!llvm.ptr"), "expected"),
    (attribute('"open\n'), "not well formed"),
    (attribute('"\\q"'), "not well formed"),
    (attribute('"\\FF"'), "not well formed"),
    (attribute("dense<[1.0, 2.0]> : tensor<3xf32>"), "sizes"),
    (attribute("dense<[1.0, [2.0]]> : tensor<2xf32>"), "expected a number"),
    (attribute("dense<[[1], [2, 3]]> : tensor<2x2xsi32>"), "a list of 2"),
    (attribute("dense<[300]> : tensor<1xui8>"), "not an element of ui8"),
    (attribute('dense<"0x00"> : tensor<2xf32>'), "1 bytes"),
    (attribute('#mo.dense<bool, [1], "0x02">'), "a bool is a byte"),
    (attribute("1 : f32"), "not a number"),
    (attribute("0x7FF8 : f64"), "16 hexadecimal digits"),
    ('"mo.graph"() ({ "mo.t"() : () -> () loc(#x) }) {sym_name = "f"} : () -> ()', "not defined"),
    ('"mo.graph"() ({ %v0 = "mo.t"() : () -> () }) {sym_name = "f"} : () -> ()', "1 results"),
    (
        '"mo.graph"() ({ "mo.t"(%v1) : (!mo.chain) -> () }) {sym_name = "f"} : () -> ()',
        "%v1 is read",
    ),
    (
        '"mo.graph"() ({ %v0 = "mo.t"() : () -> !mo.chain "mo.u"(%v0) : (!mo.opaque<"x">) -> () })',
        "%v0 is !mo.chain",
    ),
    ('"mo.graph"() ({ %v0, %v0 = "mo.t"() : () -> (!mo.chain, !mo.chain) })', "one name"),
    (
        '"mo.graph"() ({ "a.b"() {mo.id = "n1"} : () -> () "a.b"() {mo.id = "n1"} : () -> () })',
        "occurs twice",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused_says_why(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_function(text, "saved.mlir")
    assert message in str(caught.value)
    assert "line 1, column" in str(caught.value)
    assert "saved.mlir" in str(caught.value)


def test_errors_point_at_the_place() -> None:
    text = SEED_TEXT.replace('"mo.softmax"(%v0)', '"mo.softmax"(%v7)')
    with pytest.raises(ParseError) as caught:
        parse_function(text)
    assert caught.value.at is not None
    assert caught.value.at.line == 6
    assert str(caught.value).count("^") == 1
    line = text.splitlines()[5]
    assert f"column {line.index('%v7') + 1}" in str(caught.value)


# ---------------------------------------------------------------- speed
def chain(count: int) -> Function:
    f = Function("chain")
    x = f.add_input(TensorType(F32, ["batch", 64]))
    y = x
    places = [Location("cell [7]", i, 4, "x = x + y", "fn", 9) for i in range(30)]
    for i in range(count - 1):
        name, operands, attrs = (
            ("mo.add", [y, x], {}) if i % 3 else ("mo.softmax", [y], {"axis": -1})
        )
        op = f.create(name, operands, [TensorType(F32, ["batch", 64])], attrs, loc=places[i % 30])
        y = f.block.append(op).result
    f.block.append(f.create("mo.output", [y], []))
    return f


def test_time_grows_with_the_number_of_ops_only() -> None:
    def cost(count: int) -> float:
        function = chain(count)
        start = time.process_time()
        parse_function(generic(function))
        return time.process_time() - start

    cost(100)
    few = min(cost(1000) for _ in range(3))
    many = min(cost(8000) for _ in range(2))
    assert many < 24 * few + 0.2


# ---------------------------------------------------------------- the real MLIR
def mlir_opt() -> str | None:
    """The path of an ``mlir-opt``, of whatever version is installed."""
    found = shutil.which("mlir-opt")
    installed = sorted(Path("/usr/lib").glob("llvm-*/bin/mlir-opt"), reverse=True)
    return found or (str(installed[0]) if installed else None)


def run_mlir_opt(text: str, *flags: str) -> str:
    program = mlir_opt()
    if program is None:
        pytest.skip("no mlir-opt here; on Debian: apt-get install mlir-19-tools")
    run = subprocess.run(
        [program, "--allow-unregistered-dialect", *flags],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, run.stderr[:2000]
    return run.stdout


def everything() -> Function:
    """One op for each attribute and constant of the tables above."""
    f = small()
    output = f.ops.pop()
    for value in [*ATTRIBUTES, *map(Constant, CONSTANTS)]:
        f.block.append(f.create("mo.test", [], [], {"value": value}))
    f.block.append(
        f.create("mo.top_k", [f.inputs[0]], [f.inputs[0].type, f.inputs[0].type], {"mo.id": 3})
    )
    subgraph = small()
    subgraph.name = "sub"
    f.subgraphs["sub"] = subgraph
    f.block.append(output)
    return f


def test_mlir_reads_what_we_print() -> None:
    run_mlir_opt(generic(everything()))


@pytest.mark.parametrize("flags", [(), ("-mlir-print-op-generic",)], ids=["custom", "generic"])
def test_we_read_what_mlir_prints(flags: tuple[str, ...]) -> None:
    original = everything()
    made = parse_function(run_mlir_opt(generic(original), "-mlir-print-debuginfo", *flags))
    assert [op.id for op in made.ops] == [op.id for op in original.ops]
    assert [[r.id for r in op.results] for op in made.ops] == [
        [r.id for r in op.results] for op in original.ops
    ]
    assert [op.loc for op in made.ops][:2] == [op.loc for op in original.ops][:2]
    for ours, theirs in zip(original.ops, made.ops, strict=True):
        assert _bits(tuple(ours.attrs.values())) == _bits(tuple(theirs.attrs.values())), ours
        assert [v.id for v in ours.operands] == [v.id for v in theirs.operands]
    assert list(made.subgraphs) == ["sub"]


def test_mlir_passes_run_on_our_text() -> None:
    f = Function("f")
    x = f.add_input(TensorType(F32, ["n"]))
    y = f.block.append(f.create("mo.relu", [x], [x.type])).result
    f.block.append(f.create("mo.output", [y], []))
    made = parse_function(run_mlir_opt(generic(f), "--cse", "--canonicalize"))
    assert generic(made) == generic(f)
