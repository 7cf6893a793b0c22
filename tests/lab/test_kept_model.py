"""What a notebook does with a model: save it, restart the kernel, load it, run it."""

from __future__ import annotations

from pathlib import Path

from tests.lab.kernels import Kernel

BUILD = """
import numpy as np
import maxlab
from maxlab.graph import Graph, TensorType, Weight, ops
with Graph("scores", input_types=[TensorType(maxlab.float32, ["n", 64])]) as graph:
    graph.output(ops.softmax(graph.inputs[0] @ Weight("w", maxlab.float32, [64, 32])))
weights = {"w": np.random.default_rng(0).random((64, 32), np.float32)}
model = maxlab.load(graph, weights_registry=weights)
digest = model.save("scores.mlmodel")
x = np.ones((2, 64), np.float32)
"""
AGAIN = """
import numpy as np
import maxlab
model = maxlab.load("scores.mlmodel", trusted=True)
x = np.ones((2, 64), np.float32)
"""
RESULT = "model(x)[0].to_numpy().tobytes().hex()"


def test_a_kernel_is_restarted(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        wanted = kernel.run(BUILD, "a", RESULT)
        shown = kernel.run("", "b", "' '.join(model._repr_mimebundle_())")
        assert not kernel.errors
    finally:
        kernel.close()
    kernel = Kernel(tmp_path)
    try:
        assert kernel.run(AGAIN, "a", RESULT) == wanted
        assert "machine code are those of scores.mlmodel" in kernel.run(
            "", "b", "model.compiled.cached"
        )
        assert (
            kernel.run("", "c", "' '.join(model._repr_mimebundle_())") == shown
        )  # it is drawn too
        assert not kernel.errors
    finally:
        kernel.close()
