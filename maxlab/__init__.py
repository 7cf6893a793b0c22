"""maxlab: build tensor graphs, see them, compile them to C, and read on the graph what each
operation cost.

``import maxlab`` does no work: it compiles nothing, starts no process and touches no device.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from maxlab import errors as _errors
from maxlab import progress as _progress
from maxlab import trace as _trace
from maxlab.config import VERSION as _VERSION

if TYPE_CHECKING:
    from maxlab import driver as driver
    from maxlab import engine as engine
    from maxlab import graph as graph
    from maxlab import nn as nn
    from maxlab import torch as torch
    from maxlab.dtype import DType as DType
    from maxlab.engine import InferenceSession as InferenceSession
    from maxlab.engine.front import load as load
    from maxlab.engine.front import save as save
    from maxlab.graph import BufferType as BufferType
    from maxlab.graph import DeviceRef as DeviceRef
    from maxlab.graph import Dim as Dim
    from maxlab.graph import Graph as Graph
    from maxlab.graph import TensorType as TensorType
    from maxlab.graph import Weight as Weight
    from maxlab.graph import ops as ops

    compile: Any
    open: Any

__version__ = _VERSION

# What stands at the front door, each imported when it is first asked for: name -> module:attribute.
_LAZY = {
    "dashboard": "maxlab.lab.dashboard:dashboard",
    "doctor": "maxlab.lab.doctor:doctor",
    "record": "maxlab.analysis.recording:record",
    "profile": "maxlab.torch.front:profile",
    "compile_report": "maxlab.analysis.compile_report:compile_report",
    "machine": "maxlab.analysis.machine:machine",
    "quantize": "maxlab.analysis.quantizing:quantize",
    "roofline": "maxlab.analysis.roofline:roofline",
    "advice": "maxlab.analysis.advice:advice",
    "experiments": "maxlab.analysis.advice:experiments",
    "try_action": "maxlab.analysis.trial:try_action",
    "memory": "maxlab.analysis.memory:memory",
    "stages": "maxlab.analysis.stages:stages",
    "why": "maxlab.analysis.fusion:why",
    "diff": "maxlab.lab.beside:diff",
    "merge": "maxlab.analysis.merging:merge",
    "load_run": "maxlab.analysis.runs:load_run",
    "compare": "maxlab.analysis.check:compare",
    "values": "maxlab.analysis.check:values",
    "watch": "maxlab.analysis.check:watch",
    "tripwire": "maxlab.analysis.check:tripwire",
    "first_nonfinite": "maxlab.analysis.check:first_nonfinite",
    "sweep": "maxlab.analysis.runs:sweep",
}

# Packages that ``import maxlab`` reaches, each imported when it is first asked for.
_PACKAGES = (
    "driver",
    "engine",
    "experimental",
    "graph",
    "nn",
    "profiler",
    "torch",
    "dtype",
    "errors",
)
_FRONT = {
    "ops": "maxlab.graph:ops",
    "Graph": "maxlab.graph:Graph",
    "TensorType": "maxlab.graph:TensorType",
    "BufferType": "maxlab.graph:BufferType",
    "DeviceRef": "maxlab.graph:DeviceRef",
    "Dim": "maxlab.graph:Dim",
    "Weight": "maxlab.graph:Weight",
    "InferenceSession": "maxlab.engine:InferenceSession",
    "DType": "maxlab.dtype:DType",
    "device": "maxlab.driver.device:device_named",
    "load": "maxlab.engine.front:load",
    "compile": "maxlab.engine.front:load",
    "save": "maxlab.engine.front:save",
    "open": "maxlab.analysis.opening:open_file",
    "cache": "maxlab.toolchain:cache",
}
_TENSOR = (
    "to compute at once: maxlab.experimental.Tensor([1.0, 2.0]); inputs and results of models: "
    "maxlab.driver.Tensor.from_numpy(array)"
)
_NO_GRADIENTS = "graphs compute no gradients: train with PyTorch, then maxlab.torch.load(module, x)"
_INSTEAD = {
    **dict.fromkeys(("Tensor", "tensor", "array", "asarray", "from_numpy", "as_tensor"), _TENSOR),
    **dict.fromkeys(("grad", "no_grad", "autograd", "optim", "value_and_grad"), _NO_GRADIENTS),
    "cuda": "maxlab.driver.accelerator_count() counts the GPUs, driver.Accelerator() is the first",
    "manual_seed": "of tensors: maxlab.experimental.random.set_seed(0); in a graph: "
    "ops.random.set_seed(0)",
    "random": "of tensors: maxlab.experimental.random; in a graph: ops.random",
    "rand": "a tensor: maxlab.experimental.random.uniform([2, 3]); in a graph: ops.random.uniform",
    "randn": "a tensor: maxlab.experimental.Tensor.randn([2, 3]); in a graph: ops.random.normal",
    **dict.fromkeys(
        ("show", "draw", "plot", "visualize", "render", "view"),
        "graphs, models and profiles are drawn as the last value of a cell; graph.to_svg(path)",
    ),
    **dict.fromkeys(
        ("check", "verify", "allclose", "assert_close", "assert_allclose"),
        "maxlab.compare(model, array) holds a model against references",
    ),
    **dict.fromkeys(
        ("benchmark", "timeit", "time"), "model.profile(array) measures a model, kernel by kernel"
    ),
    **dict.fromkeys(
        ("set_num_threads", "get_num_threads"), "maxlab.InferenceSession(num_threads=2)"
    ),
    **dict.fromkeys(
        ("devices", "list_devices", "get_device", "is_available", "backends"),
        "maxlab.driver.accelerator_count() counts the GPUs, maxlab.device('cpu') is the CPU",
    ),
    "linalg": "maxlab.ops.matmul, maxlab.ops.norm and NumPy's: np.linalg.norm(x)",
    "fft": "of a result: np.fft.fft(result.to_numpy())",
    "Linear": "maxlab.nn.Linear(4, 4)",
    "Sequential": "maxlab.nn.Sequential",
    **dict.fromkeys(("Parameter", "Variable"), "maxlab.Weight(name, dtype, shape)"),
    **dict.fromkeys(
        ("Input", "placeholder"),
        "inputs are types of a graph: maxlab.TensorType(maxlab.float32, ['n', 4])",
    ),
    **dict.fromkeys(("version", "VERSION"), "maxlab.__version__"),
    **dict.fromkeys(("info", "help", "show_versions"), "maxlab.doctor()"),
    **dict.fromkeys(
        ("from_torch", "from_onnx", "script", "convert"),
        "graphs come from Python or from PyTorch: maxlab.torch.load(module, x)",
    ),
    **{
        name: f"NumPy's: np.{name}"
        for name in ("newaxis", "inf", "nan", "pi", "e", "set_printoptions")
    },
    "ndarray": "results are maxlab.driver.Tensor, values of a graph maxlab.graph.TensorValue",
    **dict.fromkeys(("simulator", "use_simulator"), "maxlab.driver.use_simulator()"),
    "testing": "maxlab.compare(model, array) holds a model against references",
    **dict.fromkeys(
        ("quantization", "quantize_dynamic"),
        "maxlab.quantize(model, calibration=[array, ...]); ops.dequantize reads blocks",
    ),
    "explain": "maxlab.compile_report(model), maxlab.stages(model)",
    "summary": "print(graph)",
    "clear_cache": "maxlab.cache().clear()",
    "jit": "build a Graph of a function, then maxlab.compile(graph)",
    "function": "build a Graph of a function, then maxlab.compile(graph)",
    "vmap": "ops broadcast over leading dims: give the input one dim more",
    "pmap": "give the session several devices: engine.InferenceSession(devices=[...])",
    "onnx": "graphs come from Python or from PyTorch: maxlab.torch.load(module, x)",
    "export": "maxlab.save(graph, path) writes a graph; graph.to_html(path) a page",
    "Module": "of graphs: maxlab.nn.Module; of tensors: maxlab.experimental.nn.Module",
    "numpy": "NumPy's functions work on values of a graph, and are in maxlab.ops",
    "functional": "in a graph: maxlab.ops; of tensors too: maxlab.experimental.functional",
    "set_default_dtype": "types of graphs and layers name theirs; of tensors: "
    "with maxlab.experimental.tensor.default_dtype(dtype): ...",
    "Session": "maxlab.engine.InferenceSession",
    "Model": "maxlab.compile(graph) makes one",
    "float": "maxlab.float32",
    "double": "maxlab.float64",
    "half": "maxlab.float16",
    "int": "maxlab.int32",
    "long": "maxlab.int64",
}

# What references, models and profiles offer of the packages above them: see ``trace.reading``.
_READINGS: dict[str, str] = {
    "checked_document": "maxlab.lab.documents:checked_document",
    "diff_graphs": "maxlab.lab.beside:diff_graphs",
    "diff_of_run": "maxlab.lab.beside:packed_diff_of_run",
    "document_of": "maxlab.lab.documents:document_of",
    "open_device": "maxlab.driver.accelerator:open_device",
    "edit": "maxlab.lab.widget:edit",
    "edit_kernel": "maxlab.analysis.edit:edit_kernel",
    "computed_again": "maxlab.engine.session:computed_again",
    "find": "maxlab.lab.query:find",
    "load_again": "maxlab.engine.session:load_again",
    "pickled": "maxlab.engine.kept.pickling:pickled",
    "overlay": "maxlab.lab.coloured:add",
    "remember_run": "maxlab.analysis.runs.history:remember",
    "save_run": "maxlab.analysis.runs:save_run",
    "to_svg": "maxlab.lab.export:to_svg",
    "timeline": "maxlab.analysis.timeline:of_profile",
}

__all__ = ["__version__", "load_ipython_extension", *_LAZY]  # noqa: PLE0604


def _found(place: str) -> Any:
    """The object at ``module:attribute``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _load_lab() -> Any:
    from maxlab.lab import display

    return display.mimebundle


def _load_export() -> Any:
    from maxlab.lab import export

    return export.to_html


def _tell_cell(work: Any) -> None:
    _found("maxlab.lab.cells:told")(work)


def __getattr__(name: str) -> Any:
    place = _LAZY.get(name) or _FRONT.get(name)
    if place is not None:
        return _found(place)
    if name in _PACKAGES:
        return import_module(f"maxlab.{name}")
    if not name.startswith("_") and name in _dtypes():
        return getattr(_found("maxlab.dtype:DType"), name)
    raise _missing(name)


def _dtypes() -> list[str]:
    """The names of all dtypes, which stand at the front door too."""
    return [dtype.name for dtype in _found("maxlab.dtype:DType")]


def _missing(name: str) -> AttributeError:
    """The error for a name that maxlab does not have."""
    if name.startswith("_"):
        return AttributeError(f"module 'maxlab' has no attribute {name!r}")
    if find_spec(f"maxlab.{name}") is not None:  # ``from maxlab import files`` imports it then
        return AttributeError(f"module 'maxlab' has no attribute {name!r}")
    known = [*_LAZY, *_FRONT, *_PACKAGES, *_dtypes()]
    if name not in _INSTEAD:
        of_ops = _found("maxlab.graph.elsewhere:names")
        if name in of_ops(vars(_found("maxlab.graph:ops"))):
            return _errors.MissingNameError(
                "ML964", f"maxlab has no attribute {name!r}", fix=f"it is an op: maxlab.ops.{name}"
            )
    return _errors.missing("maxlab", name, known, _INSTEAD)


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY, *_FRONT, *_PACKAGES, *_dtypes()])


def load_ipython_extension(shell: Any) -> None:
    """Add maxlab's magics to an IPython shell: what ``%load_ext maxlab`` does."""
    from maxlab.lab import tensor_magic
    from maxlab.lab.cuda_sim import magic as cuda_sim
    from maxlab.lab.generating import command as generating
    from maxlab.lab.kernel_magic import magic as kernel
    from maxlab.lab.maxprof import magic as maxprof

    cuda_sim.register(shell)
    generating.register(shell)
    kernel.register(shell)
    maxprof.register(shell)
    tensor_magic.register(shell)


_trace.set_display_hook(_load_lab)
if sys.stderr is not None and sys.stderr.isatty():
    _progress.listen(_progress.TerminalLine())
if "ipykernel" in sys.modules:
    _progress.listen(_tell_cell)
_trace.set_export_hook(_load_export)
for _name, _place in _READINGS.items():
    _trace.set_reading(_name, partial(_found, _place))
