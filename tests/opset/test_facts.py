"""The facts of the rows: typed, complete, and the same as what the code that reads them needs."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

from maxlab import opset
from maxlab.compiler.codegen.scalar import operator
from maxlab.dtype import DType
from maxlab.errors import DTypeError, GraphError
from maxlab.ir import Constant, DeviceRef, Function, Op, TensorType
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic
from maxlab.opset import OPSET, OpDef
from maxlab.opset.attributes import _TESTS, Attribute, AttributeKind, wrong_attributes
from maxlab.opset.core import Facts, define
from maxlab.opset.facts import FAMILIES, LANGUAGES, Chapter, Family, Role
from maxlab.opset.verify import verify

ROWS = list(OPSET.values())
F32 = DType.float32


def name_of(row: OpDef) -> str:
    return row.name


# ---------------------------------------------------------------- define
def test_define_takes_the_facts_of_a_row_with_their_types() -> None:
    positional = {"name", "kind", "chapter", "summary"}
    own = get_type_hints(OpDef)
    told = get_type_hints(Facts)
    assert set(told) == {field.name for field in fields(OpDef)} - positional
    for name, kind in told.items():
        assert kind == own[name], name
    assert get_type_hints(define)["facts"] is not Any


def test_a_fact_that_no_row_has_is_refused_by_mypy_and_by_python() -> None:
    with pytest.raises(TypeError, match="colour"):
        define(  # the comment is an error of mypy where it has nothing to ignore
            "softplus",
            "map",
            "elementwise",
            "",
            infer=lambda types, attrs: [],
            reference=lambda call: None,
            colour="red",  # type: ignore[call-arg]
        )
    assert "mo.softplus" not in OPSET


# ---------------------------------------------------------------- roles and families
def test_every_chapter_has_a_family() -> None:
    assert set(FAMILIES) == set(get_args(Chapter))
    assert {row.family for row in ROWS} == set(get_args(Family))


def test_every_role_is_one_of_some_op() -> None:
    assert {row.role for row in ROWS} == set(get_args(Role))


def test_only_one_op_has_a_role_that_ops_are_made_of() -> None:
    assert opset.named("weight") == "mo.constant.external"
    assert opset.named("reshape") == "mo.reshape"
    with pytest.raises(ValueError, match="no op has the role 'custom' alone"):
        opset.named("custom")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("mo.constant", opset.is_constant),
        ("mo.constant.external", opset.is_weight),
        ("mo.dim", opset.is_dim),
        ("mo.cast", opset.is_cast),
        ("mo.transfer", opset.is_transfer),
        ("mo.call", opset.is_call),
        ("mo.chain", opset.is_chain),
        ("mo.output", opset.is_output),
    ],
)
def test_roles_are_asked_by_functions(name: str, asked: Any) -> None:
    assert [row.name for row in ROWS if asked(Op("n0", row.name, [], []))] == [name]
    assert not asked(None)
    assert not asked(Op("n0", "mo.unheard.of", [], []))


def test_an_iota_without_operands_has_a_position() -> None:
    for row in ROWS:
        assert (row.position is not None) == (row.kind == "iota"), row.name


# ---------------------------------------------------------------- scalar text
MAPS = [row for row in ROWS if row.kind == "map" and row.role != "cast"]


@pytest.mark.parametrize("row", MAPS, ids=name_of)
def test_every_map_is_spelt_in_every_language(row: OpDef) -> None:
    assert row.scalar is not None or next(iter(row.scalar_text)) == row.name.removeprefix("mo.")
    for text in row.scalar_text.values():
        assert set(text) == set(LANGUAGES)
        for language in LANGUAGES:
            assert text[language].floats or text[language].integers


@pytest.mark.parametrize("row", [row for row in MAPS if row.samples], ids=name_of)
def test_a_map_has_text_for_the_dtypes_that_its_rule_takes(row: OpDef) -> None:
    assert row.samples is not None
    for sample in row.samples():
        dtypes = [DType.from_numpy(np.asarray(x).dtype) for x in sample.arrays]
        name = row.scalar_name(sample.attrs)
        for language in LANGUAGES:
            assert operator(name, dtypes[-1], dtypes[-1], ["a", "b", "c"], language)


@pytest.mark.parametrize(
    ("name", "dtype", "text"),
    [
        ("add", DType.float32, "a + b"),
        ("add", DType.float16, "mx_f16_to_f32(mx_f32_to_f16(a + b))"),
        ("add", DType.int8, "(i8)((u32)a + (u32)b)"),
        ("add", DType.int64, "(i64)((u64)a + (u64)b)"),
        ("sub", DType.uint64, "(u64)((u64)a - (u64)b)"),
        ("mul", DType.uint16, "(u16)((u32)a * (u32)b)"),
        ("div", DType.bfloat16, "mx_bf16_to_f32(mx_f32_to_bf16(a / b))"),
        ("recip", DType.float64, "1.0 / a"),
        ("equal", DType.float16, "a == b"),
        ("greater_equal", DType.int32, "a >= b"),
        ("logical_xor", DType.bool, "a ^ b"),
        ("logical_not", DType.bool, "!a"),
        ("is_nan", DType.float32, "a != a"),
        ("is_inf", DType.float64, "mx_abs_f64(a) == __builtin_inf()"),
        ("where", DType.float16, "a ? b : c"),
        ("max", DType.float32, "mx_max_f32(a, b)"),
        ("min", DType.int32, "a < b ? a : b"),
        ("negate", DType.float32, "-a"),
        ("negate", DType.int64, "(i64)((u64)0ll - (u64)a)"),
        ("relu", DType.float32, "mx_max_f32(a, 0.0f)"),
        ("relu", DType.uint32, "a > 0u ? a : 0u"),
        ("abs", DType.int32, "mx_abs_i32(a)"),
        ("round", DType.float64, "mx_rint_f64(a)"),
        ("floor", DType.int16, "a"),
        ("acos", DType.float32, "mx_acos_f32(mx_max_f32(mx_min_f32(a, 1.0f), (-1.0f)))"),
        ("gelu_tanh", DType.float32, "mx_gelu_tanh_f32(a)"),
        ("pow", DType.int64, "mx_pow_i64(a, b)"),
    ],
)
def test_texts_of_scalar_operators(name: str, dtype: DType, text: str) -> None:
    for language in LANGUAGES:
        if language == "cuda":  # its headers round to halves in one instruction
            text = re.sub(r"mx_(b?f16)_to_f32\(mx_f32_to_\1\((.*)\)\)", r"mx_round_\1(\2)", text)
        assert operator(name, dtype, dtype, ["a", "b", "c"], language) == text


@pytest.mark.parametrize(
    ("name", "dtype", "code"),
    [("exp", DType.int32, "ML107"), ("recip", DType.bool, "ML107"), ("logical_or", F32, "ML109")],
)
def test_an_operand_that_an_operator_does_not_take(name: str, dtype: DType, code: str) -> None:
    with pytest.raises(DTypeError, match=rf"{name} takes .*, got {dtype.name}") as caught:
        operator(name, dtype, dtype, ["a", "b"], "c")
    assert caught.value.code == code


def test_an_operator_that_no_row_has() -> None:
    with pytest.raises(GraphError, match="no scalar operator 'expp'") as caught:
        operator("expp", F32, F32, ["a"], "c")
    assert caught.value.code == "ML301"


def test_an_inverse_is_a_scalar_operator() -> None:
    assert [row.name for row in ROWS if row.inverse] == ["mo.div"]
    for row in ROWS:
        if row.inverse:
            assert opset.scalar_text(row.inverse)


# ---------------------------------------------------------------- foreign names
def test_foreign_names_look_like_those_of_their_library() -> None:
    aten = [name for row in ROWS for name in row.foreign.get("aten", ())]
    onnx = [name for row in ROWS for name in row.foreign.get("onnx", ())]
    assert all(re.fullmatch(r"aten\.\w+|while_loop|cond", name) for name in aten), aten
    assert all(re.fullmatch(r"[A-Z]\w+", name) for name in onnx), onnx
    assert len(aten) > 60
    assert len(onnx) > 60


def test_foreign_names_of_torch_exist() -> None:
    torch = pytest.importorskip("torch")
    for row in ROWS:
        for name in row.foreign.get("aten", ()):
            library, _, op = name.partition(".")
            if op:
                assert hasattr(getattr(torch.ops, library), op), (row.name, name)


# ---------------------------------------------------------------- attributes
@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_samples_obey_the_schema(row: OpDef) -> None:
    for sample in row.samples() if row.samples is not None else ():
        assert wrong_attributes(row.attrs, sample.attrs) is None, sample.label


def test_every_kind_is_tested_and_used() -> None:
    assert set(_TESTS) == set(get_args(AttributeKind))
    assert {a.kind for row in ROWS for a in row.attrs.values()} == set(_TESTS)


def softmax(**attrs: Any) -> Function:
    f = Function("f")
    typed = TensorType(F32, [2, 3])
    op = f.create("mo.softmax", [f.add_input(typed)], [typed], attrs)
    f.block.append(op)
    f.block.append(f.create("mo.output", [op.result], []))
    return f


WRONG: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "missing": ({}, "mo.softmax n0 lacks the attribute 'axis'", None),
    "unknown": (
        {"axis": 0, "axes": 1},
        "mo.softmax n0 has no attribute 'axes'",
        "did you mean 'axis'?",
    ),
    "strange": (
        {"axis": 0, "scale": 1.0},
        "mo.softmax n0 has no attribute 'scale'",
        "its attributes are: axis",
    ),
    "text": ({"axis": "0"}, "the wrong attribute 'axis': expected an int, got '0'", None),
    "bool": ({"axis": True}, "the wrong attribute 'axis': expected an int, got True", None),
    "none": ({"axis": None}, "the wrong attribute 'axis': expected an int, got None", None),
    "float": ({"axis": 0.0}, "the wrong attribute 'axis': expected an int, got 0.0", None),
}


@pytest.mark.parametrize("written", [False, True], ids=["made", "read"])
@pytest.mark.parametrize("case", WRONG)
def test_attributes_that_break_the_schema(case: str, written: bool) -> None:
    attrs, message, fix = WRONG[case]
    made = softmax(**attrs)
    function = parse_function(generic(made)) if written else made
    with pytest.raises(GraphError, match=re.escape(message)) as caught:
        verify(function)
    assert caught.value.code == "ML358"
    assert caught.value.fix == fix
    verify(softmax(axis=0))


VALUES: dict[AttributeKind, tuple[list[Any], list[Any]]] = {
    "bool": ([True, np.bool_(False)], [0, "true", None]),
    "int": ([3, -1, np.int64(2)], [True, 1.0, "1"]),
    "float": ([0.5, 1, np.float32(2)], [True, "0.5", [0.5]]),
    "number": ([True, 1, 0.5], ["1", None, 1j]),
    "text": (["", "a"], [1, b"a"]),
    "dim": ([4, "n"], [True, 1.5, None]),
    "dtype": ([F32], ["float32", np.float32]),
    "device": ([DeviceRef.CPU()], ["cpu"]),
    "type": ([TensorType(F32, [2])], [F32, "f32"]),
    "constant": ([Constant(np.zeros(2))], [np.zeros(2), 0]),
    "ints": ([(), (1, 2), [3]], [(1.0,), 3, (True,)]),
    "bools": ([(), (True, False)], [(1,), True]),
    "floats": ([(0.5, 1)], [("a",), 0.5]),
    "dims": ([(1, "n"), TensorType(F32, ["n"]).shape], ["n", (None,), 3]),
    "types": ([(TensorType(F32, []),)], [TensorType(F32, []), (F32,)]),
    "pairs": ([(), ((0, "start"),)], [(1,), 1]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_a_kind(kind: AttributeKind) -> None:
    good, bad = VALUES[kind]
    assert [Attribute(kind).wrong(value) for value in good] == [""] * len(good)
    for value in bad:
        assert re.search(r"^an? .*, got ", Attribute(kind).wrong(value)), value
    assert Attribute(kind, none=True).wrong(None) == ""
    assert " or None, got " in Attribute(kind, none=True).wrong(object())
