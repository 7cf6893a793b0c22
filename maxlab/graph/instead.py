"""Names of other libraries that graphs do not have, and what there is instead."""

from __future__ import annotations

_COMPILED = "maxlab.load(graph)(array)[0]"
INSTEAD = {
    "run": _COMPILED,
    "forward": _COMPILED,
    "execute": _COMPILED,
    "predict": _COMPILED,
    "eval": _COMPILED,
    "compile": "maxlab.load(graph)",
    "load": "maxlab.load(graph)",
    "draw": "the graph itself, as the last value of a cell, is drawn",
    "show": "the graph itself, as the last value of a cell, is drawn",
    **dict.fromkeys(("to_png", "to_dot", "plot", "visualize", "render"), "graph.to_svg(path)"),
    **dict.fromkeys(("summary", "print", "to_mlir"), "print(graph)"),
    **dict.fromkeys(("export", "to_onnx", "dump"), "graph.save(path)"),
    "profile": "maxlab.load(graph).profile(array)",
    "outputs": "graph.output_types",
    "nodes": "graph.function.ops",
    "ops": "graph.function.ops",
    "operations": "graph.function.ops",
    "print_tabular": "print(graph)",
    "input": "graph.inputs[0]",
    "code": 'maxlab.load(graph).kernels["k0"].source',
    **dict.fromkeys(("to", "cuda", "cpu"), "inputs name devices: TensorType(dtype, shape, 'gpu')"),
    **dict.fromkeys(("add", "append"), "within `with graph:`, ops add themselves: ops.exp(x)"),
    "input_types": "[one.type for one in graph.inputs]",
    **dict.fromkeys(("to_json", "to_dict", "to_string"), "str(graph), graph.save(path)"),
    **dict.fromkeys(("copy", "clone"), "copy.deepcopy(graph)"),
    **dict.fromkeys(("view", "display"), "graph.to_svg(path); as a cell's last value it is drawn"),
    **dict.fromkeys(("describe", "info", "print_readable"), "print(graph)"),
    **{one: f"graph.inputs[0].{one}" for one in ("shape", "dtype", "device")},
    **dict.fromkeys(
        ("verify", "validate", "check", "optimize", "lower"),
        "ops are checked as they are added; maxlab.load(graph) compiles them",
    ),
    **dict.fromkeys(("flops", "nbytes", "cost"), "maxlab.load(graph).profile(array).kernels"),
    **dict.fromkeys(("from_torch", "from_module"), "maxlab.torch.load(module, x)"),
    **dict.fromkeys(("from_file", "from_path", "read"), "Graph(path=path)"),
    **dict.fromkeys(
        ("from_function", "trace", "jit"),
        "Graph('g', lambda x: x + 1, [TensorType(DType.float32, ['n', 4])])",
    ),
    "add_input": "name the inputs when the graph is made: Graph(name, input_types=[...])",
}

__all__ = ["INSTEAD"]
