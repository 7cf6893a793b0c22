"""``torch.compile(model, backend="maxlab")``: right results, few compilations, weights that are
never old ones, and gradients from torch."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import warnings
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")

import torch  # noqa: E402 - where it is installed
from torch import nn  # noqa: E402

import maxlab.torch  # noqa: E402 - registers the backend
from maxlab.errors import ArgumentError  # noqa: E402
from maxlab.torch import compiling  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


class Classifier(nn.Module):
    """A convolution, a norm and a product."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(144, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.first(x)))
        return self.head(x.flatten(1)).softmax(-1)


def close(made: Any, wanted: Any) -> None:
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)


def test_a_model_gives_what_torch_gives(graphs: list[Any]) -> None:
    model = Classifier().eval()
    compiled = torch.compile(model, backend="maxlab")
    x = torch.rand(3, 3, 8, 8)
    with torch.no_grad():
        close(compiled(x), model(x))
    (graph,) = graphs
    assert graph.graph.name == "Classifier"
    assert {row.by for row in graph.coverage} == {"maxlab"}


def test_operations_know_their_lines_modules_and_weights(graphs: list[Any]) -> None:
    model = nn.Sequential(Classifier(), nn.Linear(5, 2)).eval()
    with torch.no_grad():
        torch.compile(model, backend="maxlab")(torch.rand(2, 3, 8, 8))
    (graph,) = graphs
    (conv,) = [op for op in graph.graph.function.ops if op.name == "mo.conv"]
    assert conv.loc.file.endswith("test_backend.py")
    assert "self.first(x)" in conv.loc.text
    assert conv.scope == "0.first"
    assert {"0.first.weight", "0.norm.running_mean", "1.bias"} <= set(graph.weights)


@pytest.mark.parametrize("marked", [True, False], ids=["mark_dynamic", "dynamic=True"])
def test_batches_of_other_sizes_are_one_graph(marked: bool, graphs: list[Any]) -> None:
    """Also where the sizes of images are symbolic, and only torch knows what the last product
    needs: ``4 * (height - 2) * (width - 2) == 144``."""
    model = Classifier().eval()
    compiled = torch.compile(model, backend="maxlab", dynamic=None if marked else True)
    with torch.no_grad():
        for batch in (3, 5, 3, 8) if marked else (4, 5, 4, 9):  # 3 is the number of channels too
            x = torch.rand(batch, 3, 8, 8)
            if marked:
                torch._dynamo.mark_dynamic(x, 0)
            close(compiled(x), model(x))
    (graph,) = graphs
    assert {row.by for row in graph.coverage} == {"maxlab"}


def test_a_second_size_makes_the_batch_symbolic(graphs: list[Any]) -> None:
    model = Classifier().eval()
    compiled = torch.compile(model, backend="maxlab")
    with torch.no_grad():
        for batch in (3, 5, 7, 9, 4):
            x = torch.rand(batch, 3, 8, 8)
            close(compiled(x), model(x))
    assert len(graphs) == 2


@pytest.mark.parametrize(
    "how", ["in place", "load_state_dict", "another tensor", "another data", "data", "NumPy", "SGD"]
)
def test_changed_weights_are_followed(how: str, graphs: list[Any]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).eval()
    compiled = torch.compile(model, backend="maxlab")
    x = torch.rand(2, 4)
    with torch.no_grad():
        before = compiled(x).clone()
    weight = model[0].weight
    if how == "in place":
        with torch.no_grad():
            weight.mul_(-2)
            model[1].bias.add_(1)
    elif how == "load_state_dict":
        model.load_state_dict({k: v * 3 + 1 for k, v in model.state_dict().items()})
    elif how == "another tensor":
        model[0].weight = nn.Parameter(torch.rand(4, 4))
    elif how == "another data":
        weight.data = torch.rand(4, 4)
    elif how == "data":
        weight.data.mul_(-2)  # which torch does not count
    elif how == "NumPy":
        weight.detach().numpy()[...] = 0.5
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        model(x).square().sum().backward()
        optimizer.step()
    with torch.no_grad():
        close(compiled(x), model(x))
        assert not torch.allclose(compiled(x), before)


def test_layers_of_one_class_share_a_graph_and_keep_their_weights(graphs: list[Any]) -> None:
    layers = [nn.Linear(4, 4) for _ in range(3)]
    for layer in layers:
        layer.compile(backend="maxlab")
    x = torch.rand(2, 4)
    with torch.no_grad():
        for _ in range(2):
            for layer in layers:
                close(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


def test_gradients_are_torchs_and_warned_about_once(graphs: list[Any]) -> None:
    model = Classifier()
    compiled = torch.compile(model, backend="maxlab")
    x = torch.rand(3, 3, 8, 8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            compiled(x).square().sum().backward()
    ours = [w for w in caught if "maxlab" in str(w.message)]
    assert len(ours) == 1
    assert ours[0].filename == __file__
    assert "torch.no_grad()" in str(ours[0].message)
    made = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.load_state_dict(model.state_dict())
    for _ in range(3):
        model(x).square().sum().backward()
    for gradient, parameter in zip(made, model.parameters(), strict=True):
        close(gradient, parameter.grad)
    assert not graphs
    with torch.no_grad():
        compiled.eval()(x)
    assert len(graphs) == 1


def test_an_unknown_option_is_named() -> None:
    compiled = torch.compile(nn.Linear(2, 2), backend="maxlab", options={"threads": 2})
    with pytest.raises(Exception, match="ML888") as caught, torch.no_grad():
        compiled(torch.rand(2, 2))
    error: Any = caught.value
    assert isinstance(error.inner_exception, ArgumentError)
    assert "num_threads" in str(error)


def test_threads_are_those_of_the_options(graphs: list[Any]) -> None:
    compiled = torch.compile(nn.Linear(2, 2), backend="maxlab", options={"num_threads": 1})
    with torch.no_grad():
        compiled(torch.rand(2, 2))
    assert graphs[0].model.num_threads == 1


# ---------------------------------------------------------------- how torch finds it
def test_the_project_declares_the_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["entry-points"]["torch_dynamo_backends"]
    (name,) = declared
    assert name == "maxlab"
    point = EntryPoint(name, declared[name], "torch_dynamo_backends")
    assert point.load() is maxlab.torch.backend


PROGRAM = """
import torch

compiled = torch.compile(torch.nn.Linear(2, 2), backend="maxlab")
with torch.no_grad():
    compiled(torch.ones(1, 2))
"""


def test_an_installed_maxlab_is_found_by_its_name(tmp_path: Path) -> None:
    made = tmp_path / "maxlab-0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: maxlab\nVersion: 0\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (point,) = project["entry-points"]["torch_dynamo_backends"].values()
    (made / "entry_points.txt").write_text(f"[torch_dynamo_backends]\nmaxlab = {point}\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_where_it_is_not_installed_importing_it_registers_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered: dict[str, Any] = {}
    monkeypatch.setattr(compiling, "entry_points", lambda group: EntryPoints())
    monkeypatch.setattr(torch._dynamo, "list_backends", lambda exclude_tags: list(registered))
    monkeypatch.setattr(
        torch._dynamo, "register_backend", lambda made, name: registered.update({name: made})
    )
    compiling.register()
    compiling.register()
    assert registered == {"maxlab": maxlab.torch.backend}


def test_inputs_have_the_names_of_arguments() -> None:
    def scaled(x: torch.Tensor, *, scale: torch.Tensor, _hidden: Any = None) -> torch.Tensor:
        return x * scale + x

    run = torch.compile(scaled, backend="maxlab")
    run(torch.ones(2, 3), scale=torch.ones(3))
    graph = maxlab.torch.last().graph
    named = [value.name for value in graph.function.inputs]
    assert sorted(named) == ["scale", "x"]
    assert graph.function.ops[-1].loc is None  # the output is no line of the user
