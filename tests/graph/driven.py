"""All that adds ops, driven with whatever ``maxlab.graph.Graph`` is.

Run as a program, it puts the builder of ``counting`` there and ``maxlab.graph.graph`` out of reach,
and prints what was counted as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

PUBLIC = (
    "BufferType BufferValue DeviceRef Dim DimLike FilterLayout ConvInputLayout Shape "
    "ShardingStrategy StaticDim TensorType TensorValue TensorValueLike Type Value Weight"
)
KERNEL = """
// @op scale(x: T[*shape]) -> (y: T[*shape])
// @types T: float32
// @both
store(y, i, 2 * load(x, i));
// @op bump(inout x: T[*shape])
// @types T: float32
// @both
store(x, i, load(x, i) + 1);
"""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "2+": lambda x, y: 2 + x,
    "-": lambda x, y: x - y,
    "2-": lambda x, y: 2 - x,
    "*": lambda x, y: x * y,
    "2*": lambda x, y: 2 * x,
    "/": lambda x, y: x / y,
    "2/": lambda x, y: 2 / x,
    "//": lambda x, y: x // y,
    "2//": lambda x, y: 2 // x,
    "%": lambda x, y: x % y,
    "2%": lambda x, y: 2 % x,
    "divmod": divmod,
    "2divmod": lambda x, y: divmod(2, x),
    "**": lambda x, y: x**2,
    "2**": lambda x, y: 2**x,
    "@": lambda x, y: x @ y.T,
    "2@": lambda x, y: [[1.0, 2.0]] @ x[0:2],
    "neg": lambda x, y: -x,
    "pos": lambda x, y: +x,
    "abs": lambda x, y: abs(x),
    "round": lambda x, y: round(x),
    "~": lambda x, y: ~(x > 0),
    "&": lambda x, y: (x > 0) & (y > 0),
    "True&": lambda x, y: True & (x > 0),
    "|": lambda x, y: (x > 0) | (y > 0),
    "True|": lambda x, y: True | (x > 0),
    "^": lambda x, y: (x > 0) ^ (y > 0),
    "True^": lambda x, y: True ^ (x > 0),
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "[]": lambda x, y: x[0],
    "[...]": lambda x, y: [*x[0:2].rebind([2, 4])],
    "methods": lambda x, y: x.T.flatten().cast(x.dtype).mean() + y.var() + y.stdev(),
}


def driven() -> dict[str, list[Any]]:
    """What each function, operator and layer adds: names of ops and types of results."""
    from maxlab import nn
    from maxlab.dtype import DType
    from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
    from tests.graph.bad_values import CALLS, Setting, called

    cpu, f32 = DeviceRef.CPU(), DType.float32
    found: dict[str, list[Any]] = {}

    def count(name: str, act: Callable[[Setting], Any]) -> None:
        setting = Setting()
        before = len(made_by(setting.graph))
        with setting.graph:
            act(setting)
        found[name] = sorted(made_by(setting.graph)[before:])

    for name, good in CALLS.items():
        if "custom" not in name:
            count(name, lambda s, name=name, good=good: called(name, good(s)))  # type: ignore[misc]
    for name, act in OPERATORS.items():
        count(name, lambda s, act=act: act(s.x, s.x + 1))  # type: ignore[misc]
    weight = Weight("w", f32, [4, 4], cpu)
    count("weight", lambda s: s.x @ weight + ops.sum(weight, 0) @ weight)
    layers: dict[str, Any] = {
        "Linear": lambda: nn.Linear(4, 3, f32, cpu, has_bias=True),
        "MLP": lambda: nn.MLP(f32, None, 4, 8, [cpu]),
        "LayerNorm": lambda: nn.LayerNorm(4, [cpu], f32),
        "RMSNorm": lambda: nn.RMSNorm(4, f32),
        "ConstantLayerNorm": lambda: nn.ConstantLayerNorm(4, cpu, f32),
        "Sequential": lambda: nn.Sequential(
            [nn.Linear(4, 4, f32, cpu), nn.LayerList([nn.RMSNorm(4, f32)])[0]]
        ),
        "LinearV1": lambda: nn.LinearV1(Weight("v1", f32, [3, 4], cpu)),
    }
    for name, make in layers.items():
        layer = make()
        count(name, lambda s, layer=layer: layer(s.x))  # type: ignore[misc]
    embedding = nn.Embedding(5, 4, f32, cpu)
    count("Embedding", lambda s: embedding(s.i))
    seen: list[Any] = []
    with Graph("custom", input_types=[TensorType(f32, [8])], custom_extensions=[KERNEL]) as graph:
        nn.add_layer_hook(lambda layer, args, kwargs, outputs: seen.append(layer))
        linear = nn.Linear(4, 3, f32, cpu)
        x = graph.inputs[0]
        linear(ops.reshape(ops.custom("scale", cpu, [x], [x.type])[0].tensor, [-1, 4]))
        store = ops.buffer_create(TensorType(f32, [3]).as_buffer())
        ops.inplace_custom("bump", cpu, [store])
    found["custom"] = sorted(made_by(graph))
    assert seen == [linear]
    return found


def made_by(graph: Any) -> list[Any]:
    """The ops that ``graph`` has, or has counted: chains and the output are not counted."""
    if hasattr(graph, "made"):
        return [(name, list(types)) for name, types in graph.made]
    return [
        (op.name, [str(r.type) for r in op.results if str(r.type) != "!mo.chain"])
        for op in graph.function.walk()
        if op.name not in ("mo.output", "mo.chain")
    ]


class Refused:
    """An import hook that lets nobody import ``maxlab.graph.graph``."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """None, for all other modules."""
        if name == "maxlab.graph.graph":
            raise ImportError(f"{name} is out of reach")


def without_graph() -> None:
    """Let ``maxlab.graph`` be a package whose ``Graph`` is the counting builder."""
    import maxlab
    import maxlab.ir
    import maxlab.opset

    sys.meta_path.insert(0, Refused())
    package = ModuleType("maxlab.graph")
    package.__path__ = [str(Path(maxlab.__file__).parent / "graph")]
    sys.modules["maxlab.graph"] = maxlab.graph = package
    from maxlab.graph import ops, sharding, value, weight

    public: dict[str, Any] = {"ops": ops}
    for module in (maxlab.ir, value, weight, sharding):
        public |= {name: getattr(module, name) for name in PUBLIC.split() if hasattr(module, name)}
    vars(package).update(public)
    from tests.graph.counting import Counting

    vars(package)["Graph"] = Counting


if __name__ == "__main__":
    without_graph()
    counted = driven()
    assert "maxlab.graph.graph" not in sys.modules
    print(json.dumps(counted))
