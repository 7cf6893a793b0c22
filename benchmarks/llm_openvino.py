"""The Llama of the benchmarks as OpenVINO GenAI takes it: batches of tokens, an attention mask,
positions, and keys and values as state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino as ov
import torch
from openvino import opset13
from openvino._offline_transformations import apply_make_stateful_transformation

from benchmarks.llm_shapes import Sizes
from benchmarks.llm_torch import Batched, Llama

INPUTS = ("input_ids", "attention_mask", "position_ids")


def stateful(sizes: Sizes) -> Any:
    """The model of OpenVINO, float32."""
    torch.set_grad_enabled(False)
    past = [torch.zeros(2, sizes.kv_heads, 3, sizes.dim) for _ in range(2 * sizes.layers)]
    ids, mask = torch.zeros(2, 4, dtype=torch.int64), torch.ones(2, 7, dtype=torch.int64)
    given = (ids, mask, torch.arange(3, 7)[None].repeat(2, 1), *past)
    made = ov.convert_model(Batched(Llama(sizes).eval()), example_input=given)
    for port, name in zip(made.inputs, INPUTS, strict=False):
        port.get_node().set_partial_shape(ov.PartialShape([-1, -1]))
        port.get_tensor().set_names({name})
    made.outputs[0].get_tensor().set_names({"logits"})
    names: dict[str, str] = {}
    for n, port in enumerate(made.inputs[len(INPUTS) :]):
        port.get_node().set_partial_shape(ov.PartialShape([-1, sizes.kv_heads, -1, sizes.dim]))
        port.get_tensor().set_names({f"past.{n}"})
        made.outputs[n + 1].get_tensor().set_names({f"present.{n}"})
        names[f"past.{n}"] = f"present.{n}"
    order = opset13.parameter([-1], np.int32, name="beam_idx")
    order.output(0).get_tensor().set_names({"beam_idx"})
    made.add_parameters([order])
    zero = opset13.constant(np.int64(0))
    for port in made.inputs[len(INPUTS) : -1]:  # its fused attention wants beams to reorder them
        source = port.get_node().output(0)
        readers = source.get_target_inputs()
        gathered = opset13.gather(source, order, zero)
        for reader in readers:
            reader.replace_source_output(gathered.output(0))
    made.validate_nodes_and_infer_types()
    apply_make_stateful_transformation(made, names)
    shape = opset13.shape_of(made.input("input_ids").get_node(), output_type="i64")
    batch = opset13.gather(shape, opset13.constant(np.array([0])), zero)
    rest = opset13.constant(np.array([sizes.kv_heads, 0, sizes.dim]))
    for op in made.get_ops():
        if op.get_type_name() == "ReadValue":  # which begins empty
            empty = opset13.concat([batch, rest], 0)
            value = opset13.broadcast(opset13.constant(np.float32(0)), empty)
            op.set_arguments([value.output(0)])
    made.validate_nodes_and_infer_types()
    return made


__all__ = ["stateful"]
