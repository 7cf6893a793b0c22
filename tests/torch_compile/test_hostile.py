"""Models that ``torch.compile`` makes hard for a backend: everything comes out as torch has it."""

from __future__ import annotations

import copy
import gc
import io
import signal
import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")

import torch  # noqa: E402 - where it is installed
from torch import nn  # noqa: E402

import maxlab.torch  # noqa: E402 - registers the backend
from maxlab.errors import ArgumentTypeError, InputError  # noqa: E402
from maxlab.torch import compiled as module_of_compiled  # noqa: E402


def both(function: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """What ``function`` gives compiled and as it is, each for its own copy of ``args``."""
    ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
    with torch.no_grad():
        made = torch.compile(function, backend="maxlab", **options)(*ours)
        wanted = function(*theirs)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    return made, wanted


# ---------------------------------------------------------------- control flow
def branches(x: Any) -> Any:
    y = x.sin()
    if y.sum() > 0:
        y = y + 1
    else:
        y = y - 1
    for _ in range(int(y.abs().sum().item()) % 3):
        y = y * 2
    return y


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_branch_on_values_ends_a_graph(sign: float, graphs: list[Any]) -> None:
    both(branches, sign * torch.rand(4, 4))
    assert len(graphs) >= 2


def test_explain_names_what_torch_runs_with_lines_and_reasons() -> None:
    def model(x: Any) -> Any:
        y = x.cumprod(-1)
        if y.sum() > 0:
            y = y.relu()
        return torch.fft.fft(y).abs()

    found = maxlab.torch.explain(model, torch.rand(3, 4))
    assert [(f.name, f.at.text.strip()) for f in found.fallbacks if f.at] == [
        ("aten.cumprod", "y = x.cumprod(-1)"),
        ("aten._fft_r2c", "return torch.fft.fft(y).abs()"),
        ("aten.abs", "return torch.fft.fft(y).abs()"),
    ]
    assert all(f.at is not None and f.at.file.endswith("test_hostile.py") for f in found.fallbacks)
    (cut,) = found.cuts
    assert cut.at is not None
    assert cut.at.text.strip() == "if y.sum() > 0:"
    assert 0 < found.share < 1
    text = str(found)
    assert "test_hostile.py:" in text
    assert "aten.cumprod: maxlab has no such operation yet" in text


def test_explain_takes_what_is_compiled_already_and_nothing_else() -> None:
    layer = torch.compile(nn.Linear(4, 2), backend="maxlab")
    assert maxlab.torch.explain(layer, torch.rand(3, 4)).share == 1
    with pytest.raises(ArgumentTypeError, match="ML684"):
        maxlab.torch.explain(3, torch.rand(3, 4))


# ---------------------------------------------------------------- memory
def test_inputs_are_changed_in_place() -> None:
    def model(x: Any, y: Any) -> Any:
        x.add_(1)
        y[:, 1:] = x[:, :-1]
        return x * y

    both(model, torch.rand(3, 4), torch.rand(3, 4))


def test_buffers_are_changed_in_place() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    twin = copy.deepcopy(model)
    compiled = torch.compile(model, backend="maxlab")
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(8, 4)
            torch.testing.assert_close(compiled(x), twin(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-5)


def test_outputs_share_memory_as_they_do_in_torch() -> None:
    def model(x: Any) -> Any:
        y = x + 1
        return x, x.view(-1), y, y[0], y.t(), x.expand(2, 3, 4)

    x = torch.rand(3, 4)
    same, flat, y, row, turned, _ = torch.compile(model, backend="maxlab")(x)
    flat[0] = 7
    assert same is x
    assert x[0, 0] == 7
    y[0, 1] = 9
    assert row[1] == 9
    assert turned[1, 0] == 9
    both(model, torch.rand(3, 4))


def test_views_of_outputs_with_other_steps_are_right() -> None:
    """A view of a result is taken by the steps that torch's own result has."""

    def model(x: Any, weight: Any) -> Any:
        y = torch.nn.functional.conv2d(x, weight)
        return y, y.permute(0, 2, 3, 1).reshape(-1), y[:, 1:]

    x = torch.rand(2, 3, 6, 5).to(memory_format=torch.channels_last)
    weight = torch.rand(4, 3, 3, 3).to(memory_format=torch.channels_last)
    made, wanted = both(model, x, weight)
    assert [a.stride() for a in made] == [b.stride() for b in wanted]


@pytest.mark.parametrize(
    "x",
    [
        torch.rand(4, 6).t(),
        torch.rand(4, 6)[:, ::2],
        torch.rand(6)[None].expand(4, 6),
        torch.rand(0, 6),
        torch.rand(4, 0),
        torch.rand(()),
        torch.rand(3, 4, dtype=torch.float64),
        torch.rand(3, 4, dtype=torch.bfloat16),
        torch.randint(0, 9, (3, 4)),
        torch.tensor([True, False]),
        torch.randn(3, 4, dtype=torch.complex64),
        torch.randn(3, 4, dtype=torch.complex64).conj(),
        torch.randn(3, 4, dtype=torch.complex64).conj().imag,
    ],
    ids=[
        "turned", "strided", "expanded", "no rows", "no columns", "rank 0", "float64", "bfloat16",
        "int64", "bool", "complex", "conj", "neg",
    ],
)  # fmt: skip
def test_rare_tensors(x: Any) -> None:
    def model(x: Any) -> Any:
        y = x + x
        return y, y.sum(), (y == x).any(), torch.cat([y, x]) if x.dim() else y

    both(model, x)


# ---------------------------------------------------------------- numbers
def test_numbers_among_the_inputs_become_symbolic() -> None:
    def model(x: Any, n: int, scale: float) -> Any:
        return x.reshape(-1, n) * scale + n, x.shape[0] // n

    compiled = torch.compile(model, backend="maxlab")
    x = torch.rand(24)
    for n, scale in ((2, 0.5), (3, 0.25), (6, 2.0), (4, 2.0)):
        torch.testing.assert_close(compiled(x, n, scale), model(x, n, scale))


def test_random_numbers_are_those_of_torch() -> None:
    def model(x: Any) -> Any:
        return torch.rand_like(x) + torch.rand_like(x), nn.functional.dropout(x, 0.5)

    compiled = torch.compile(model, backend="maxlab")
    x = torch.ones(3, 4)
    torch.manual_seed(1)
    first, dropped = compiled(x)
    assert not torch.equal(first, compiled(x)[0])
    assert set(dropped.unique().tolist()) <= {0.0, 2.0}
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(x), (first, dropped))


# ---------------------------------------------------------------- errors
def test_an_error_in_the_model_is_its_own() -> None:
    def model(x: Any) -> Any:
        if x.shape[0] > 2:
            raise LookupError("too many rows")
        return x + 1

    compiled = torch.compile(model, backend="maxlab")
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    with pytest.raises(LookupError, match="too many rows"):
        compiled(torch.ones(3))
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_an_index_out_of_range_is_the_error_of_torch() -> None:
    table = nn.Embedding(4, 2)
    compiled = torch.compile(table, backend="maxlab")
    with torch.no_grad():
        compiled(torch.tensor([1, 2]))
        with pytest.raises(IndexError, match="out of range"):
            compiled(torch.tensor([1, 9]))
        torch.testing.assert_close(compiled(torch.tensor([3, 2])), table(torch.tensor([3, 2])))


def test_a_fault_of_maxlab_leaves_the_model_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise KeyError("something")

    monkeypatch.setattr(module_of_compiled, "Importer", broken)
    compiled = torch.compile(torch.sin, backend="maxlab")
    x = torch.rand(3)
    with pytest.warns(UserWarning, match="torch runs .*, which maxlab cannot import"):
        torch.testing.assert_close(compiled(x), x.sin())


CANCELLED = """
import signal
import threading

import torch

import maxlab.torch
from maxlab.torch import compiled as under_test


class Deep(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(60))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


model = Deep()
compiled = torch.compile(model, backend="maxlab")
x = torch.rand(2, 4)
plain = under_test.Importer.build


def interrupted(self):
    signal.raise_signal(signal.SIGINT)
    return plain(self)


under_test.Importer.build = interrupted
with torch.no_grad():
    try:
        compiled(x)
    except KeyboardInterrupt:
        print("interrupted")
    under_test.Importer.build = plain
    torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    print(maxlab.torch.last())
"""


def test_ctrl_c_while_it_compiles_ends_the_call_and_nothing_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CANCELLED],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("interrupted\nCompiledGraph('compiled', 120 operations")


# ---------------------------------------------------------------- copies, threads, lives
def test_copies_have_weights_of_their_own() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = torch.compile(model, backend="maxlab")
    x = torch.rand(2, 4)
    with torch.no_grad():
        before = compiled(x)
        copied = copy.deepcopy(compiled)
        model[0].weight.zero_()
        torch.testing.assert_close(copied(x), before)
        torch.testing.assert_close(compiled(x), model(x))
    file = io.BytesIO()
    torch.save(copied.state_dict(), file)
    file.seek(0)
    compiled.load_state_dict(torch.load(file))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), before)


def test_two_threads_get_their_own_results() -> None:
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)).eval()
    compiled = torch.compile(model, backend="maxlab", dynamic=True)
    inputs = [torch.rand(n, 16) for n in range(2, 10)]
    with torch.no_grad():
        wanted = [model(x) for x in inputs]
    wrong: list[Any] = []

    def work() -> None:
        with torch.no_grad():
            for _ in range(5):
                for x, y in zip(inputs, wanted, strict=True):
                    try:
                        torch.testing.assert_close(compiled(x), y, rtol=1e-4, atol=1e-5)
                    except Exception as error:
                        wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_modes_without_gradients(mode: Any, graphs: list[Any]) -> None:
    model = nn.Linear(4, 2)
    compiled = torch.compile(model, backend="maxlab")
    x = torch.rand(3, 4)
    with mode():
        made = compiled(x)
        torch.testing.assert_close(made, model(x), rtol=1e-4, atol=1e-5)
    assert not made.requires_grad
    assert len(graphs) == 1


def test_weights_made_in_inference_mode_are_followed() -> None:
    with torch.inference_mode():
        model = nn.Linear(4, 2)
        compiled = torch.compile(model, backend="maxlab")
        x = torch.rand(3, 4)
        compiled(x)
        model.weight.mul_(3)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_single_number_written_unseen_is_followed_where_nothing_is_packed() -> None:
    model = nn.Linear(100, 100)
    compiled = torch.compile(model, backend="maxlab", options={"pack": False})
    x = torch.rand(3, 100)
    with torch.no_grad():
        compiled(x)
        model.weight.data[17, 23] = 50
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_model_and_its_weights_may_die(graphs: list[Any]) -> None:
    model = nn.Linear(64, 64)
    compiled = torch.compile(model, backend="maxlab")
    with torch.no_grad():
        compiled(torch.rand(2, 64))
    (graph,) = graphs
    assert graph.model is not None
    weight = weakref.ref(model.weight)
    del model, compiled
    torch._dynamo.reset()
    gc.collect()
    assert weight() is None
    with pytest.raises(InputError, match="ML888"):
        _ = graph.model


# ---------------------------------------------------------------- the last run
def test_last_shows_the_graph_that_ran_last() -> None:
    first = torch.compile(nn.Linear(4, 2), backend="maxlab")
    x = torch.rand(3, 4)
    with torch.no_grad():
        first(x)
        linear = maxlab.torch.last()
        torch.compile(lambda x: x.sin() * 2, backend="maxlab")(x)
        last = maxlab.torch.last()
    assert linear is not last
    profile = last.profile(runs=3, warmup=1)
    assert profile.kernels
    assert "sin" in str(last.graph)
    with pytest.raises(InputError, match="ML888"):
        linear.profile()
    assert last._repr_mimebundle_() is not None
