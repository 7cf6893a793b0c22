"""Habits of users of other libraries on a model, and what serves them here."""

from __future__ import annotations

INSTEAD: dict[str, str] = {
    "predict": "call it: model(array)[0]",
    "run": "call it: model(array)[0]",
    **dict.fromkeys(("export", "to_onnx", "dump"), "model.save('name.mlmodel') keeps it compiled"),
    **dict.fromkeys(("source", "code", "text", "asm"), 'model.kernels["k0"].source'),
    **dict.fromkeys(("benchmark", "timeit", "time"), "model.profile(array)"),
    **dict.fromkeys(("plot", "show", "draw", "visualize"), "model.to_svg(path)"),
    **dict.fromkeys(("summary", "nodes", "ops"), "print(model.graph)"),
    "check": "maxlab.compare(model, array)",
    "parameters": "model.weights has the weights by name",
    **dict.fromkeys(
        ("inputs", "input_names", "get_inputs"), "model.input_metadata has a type per input"
    ),
    **dict.fromkeys(
        ("outputs", "output_names", "get_outputs"),
        "model.output_metadata has a type per output",
    ),
    "input_types": "model.input_metadata has a type per input",
    **dict.fromkeys(("infer", "run_async", "warmup"), "call it: model(array)[0]"),
    **dict.fromkeys(
        ("flops", "cost", "stats", "nbytes"), "model.profile(array).kernels[0].flops, .nbytes"
    ),
    "memory": "maxlab.memory(model)",
    "threads": "model.num_threads",
    "signature": "model.input_metadata and model.output_metadata",
    "coverage": "maxlab.torch.load gives models that tell it: everything is compiled here",
    **dict.fromkeys(
        ("to", "cuda", "cpu", "device", "devices"),
        "the graph's types name devices: TensorType(dtype, shape, 'gpu')",
    ),
    **dict.fromkeys(
        ("half", "float", "double", "bfloat16", "dtype"),
        "the graph's types name dtypes: TensorType('float16', shape), or ops.cast in the graph",
    ),
    **dict.fromkeys(("apply", "numpy"), "call it: model(array)[0]"),
    **dict.fromkeys(("compile", "jit"), "it is compiled; call it: model(array)[0]"),
    **dict.fromkeys(("modules", "children", "layers"), "model.graph has the operations"),
    **dict.fromkeys(
        ("load_state_dict", "load_weights"),
        "give them when the graph is loaded: session.load(graph, weights_registry=weights)",
    ),
    "named_parameters": "model.weights has the weights by name",
    "state_dict": "model.weights has the weights by name",
}
"""By the name that is looked for: what to write."""

__all__ = ["INSTEAD"]
