"""The verifier finds each way in which a function can be wrong, and names the op."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import GraphError, Location
from maxlab.ir import Block, Constant, DeviceRef, Function, Op, TensorType, Value
from maxlab.ir.parser import parse_function
from maxlab.ir.printer import generic
from maxlab.ir.verifier import verify as verify_structure
from maxlab.opset.verify import verify

F32 = DType.float32
TYPE = TensorType(F32, ["n"])


def good() -> Function:
    f = Function("f")
    x = f.add_input(TYPE)
    y = f.block.append(f.create("mo.relu", [x], [TYPE], loc=Location("cell [1]", 7))).result
    c = f.create(
        "mo.constant",
        [],
        [TensorType(F32, [])],
        {"value": Constant(np.array(2, np.float32)), "device": DeviceRef.CPU()},
    )
    f.block.append(c)
    z = f.block.append(f.create("mo.add", [y, c.result], [TYPE])).result
    f.block.append(f.create("mo.softmax", [z], [TYPE], {"axis": -1}))
    f.block.append(f.create("mo.output", [f.ops[-1].result, x], []))
    return f


def test_a_good_function_passes() -> None:
    verify(good())
    verify(good().clone())
    verify(parse_function(generic(good())))
    verify(Function("empty"))


def test_regions_pass() -> None:
    verify_structure(with_region(good()))


def with_region(f: Function) -> Function:
    region = Block()
    arg = Value("r0", TYPE, region, 0)
    region.args.append(arg)
    region.append(Op("n90", "mo.yield", [arg, f.inputs[0]], []))
    op = Op("n91", "mo.loop", [], [], regions=[region])
    region.parent = op
    op.block = f.block
    f.ops.insert(0, op)
    return f


def swap(f: Function) -> None:
    f.ops[0], f.ops[2] = f.ops[2], f.ops[0]


def foreign(f: Function) -> None:
    f.ops[0].set_operand(0, good().inputs[0])


def lost_use(f: Function) -> None:
    f.inputs[0].uses.pop(f.ops[0])


def stale_use(f: Function) -> None:
    f.inputs[0].uses[f.ops[3]] = 1


def wrong_count(f: Function) -> None:
    f.inputs[0].uses[f.ops[0]] = 2


def removed_user(f: Function) -> None:
    f.block.ops.pop(3)  # without drop(): its use stays


def same_op_id(f: Function) -> None:
    f.ops[1].id = f.ops[0].id


def same_value_id(f: Function) -> None:
    f.ops[1].result.id = f.ops[0].result.id


def same_op_twice(f: Function) -> None:
    f.block.ops.insert(1, f.ops[0])


def wrong_block(f: Function) -> None:
    f.ops[0].block = None


def wrong_owner(f: Function) -> None:
    f.ops[0].result.owner = f.ops[1]


def wrong_index(f: Function) -> None:
    f.inputs[0].index = 1


def early_output(f: Function) -> None:
    f.block.append(f.create("mo.relu", [f.inputs[0]], [TYPE]))


def wrong_parent(f: Function) -> None:
    with_region(f).ops[0].regions[0].parent = None


def leaked_region_value(f: Function) -> None:
    region = with_region(f).ops[0].regions[0]
    f.ops[1].set_operand(0, region.args[0])


def missing_parameter(f: Function) -> None:
    f.parameters.clear()


def misfiled_subgraph(f: Function) -> None:
    f.subgraphs["other"] = good()


def bad_subgraph(f: Function) -> None:
    f.subgraphs["f"] = good()
    swap(f.subgraphs["f"])


@pytest.mark.parametrize(
    ("damage", "code", "names"),
    [
        (swap, "ML356", "%v0"),
        (foreign, "ML356", "mo.relu n0"),
        (lost_use, "ML356", "n0 = mo.relu"),
        (stale_use, "ML356", "n3 = mo.softmax"),
        (wrong_count, "ML356", "n0 = mo.relu"),
        (removed_user, "ML356", "%v3"),
        (same_op_id, "ML357", "n0"),
        (same_value_id, "ML357", "v0"),
        (same_op_twice, "ML357", "v0"),
        (wrong_block, "ML357", "mo.relu n0"),
        (wrong_owner, "ML357", "mo.relu n0"),
        (wrong_index, "ML357", "%a0"),
        (early_output, "ML357", "mo.output n4"),
        (wrong_parent, "ML357", "mo.loop"),
        (leaked_region_value, "ML356", "%r0"),
        (missing_parameter, "ML357", "n, which is not a parameter"),
        (misfiled_subgraph, "ML357", "other"),
        (bad_subgraph, "ML356", "%v0"),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_damage_is_found(damage: Callable[[Function], None], code: str, names: str) -> None:
    f = good()
    damage(f)
    with pytest.raises(GraphError) as caught:
        verify_structure(f)
    assert caught.value.code == code
    assert names in str(caught.value)


def wrong_type(f: Function) -> None:
    f.ops[0].result.type = TensorType(F32, ["m"])


def wrong_dtype(f: Function) -> None:
    f.ops[0].result.type = TensorType(DType.float64, ["n"])


def too_many_results(f: Function) -> None:
    op = f.ops[0]
    op.results.append(Value("v9", TYPE, op, 1))


def unknown_op(f: Function) -> None:
    f.ops[0].name = "mo.nothing"


def missing_attribute(f: Function) -> None:
    del f.ops[3].attrs["axis"]


def bad_attribute(f: Function) -> None:
    f.ops[3].attrs["axis"] = 5


def odd_attribute(f: Function) -> None:
    f.ops[1].attrs["value"] = 7


def filler_of_another_dtype(f: Function) -> None:
    flags = TensorType(DType.bool, [2])
    x = f.add_input(flags)
    attrs = {"paddings": (1, 0), "value": 0.5}  # is it True, as NumPy says, or int(0.5)?
    made = f.create("mo.pad", [x], [TensorType(DType.bool, [3])], attrs)
    f.block.ops.insert(0, made)
    made.block = f.block


def operand_count(f: Function) -> None:
    f.ops[2].name = "mo.matmul"
    f.ops[2].drop()


@pytest.mark.parametrize(
    ("damage", "code", "names"),
    [
        (wrong_type, "ML358", "%v0 is !mo.tensor<[m], f32>, expected !mo.tensor<[n], f32>"),
        (wrong_dtype, "ML358", "mo.relu n0"),
        (too_many_results, "ML358", "2 results, expected 1"),
        (unknown_op, "ML301", "mo.nothing"),
        (missing_attribute, "ML358", "mo.softmax n3 lacks the attribute 'axis'"),
        (bad_attribute, "ML358", "axis 5"),
        (filler_of_another_dtype, "ML358", "the float 0.5 cannot become bool"),
        (odd_attribute, "ML358", "mo.constant n1"),
        (operand_count, "ML358", "mo.matmul n2"),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
def test_wrong_types_are_found(damage: Callable[[Function], None], code: str, names: str) -> None:
    f = good()
    damage(f)
    with pytest.raises(GraphError) as caught:
        verify(f)
    assert caught.value.code == code
    assert names in str(caught.value)


def test_errors_name_the_users_line() -> None:
    f = good()
    wrong_type(f)
    with pytest.raises(GraphError, match=r"at cell \[1\]:7"):
        verify(f)
