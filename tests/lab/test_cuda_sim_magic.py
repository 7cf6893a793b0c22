"""``%%cuda_sim`` in an IPython shell: options, variables, errors told shortly, results."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from IPython.utils.capture import capture_output

from maxlab.driver import Tensor
from maxlab.errors import MaxlabError
from maxlab.lab.cuda_sim import SimRun, run_cell
from maxlab.lab.cuda_sim.magic import USAGE, _parser
from tests.shells import shell_with_maxlab

TWICE = """extern "C" __global__ void twice(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}"""
TWO = TWICE + '\nextern "C" __global__ void thrice(float *x) { x[threadIdx.x] *= 3; }'
FOREVER = """extern "C" __global__ void forever(volatile int *x) {
  while (x[0] == 0) {
  }
}"""


@pytest.fixture(scope="module")
def loaded() -> Iterator[Any]:
    with shell_with_maxlab() as shell:
        yield shell


@pytest.fixture
def shell(loaded: Any) -> Any:
    loaded.reset(new_session=False)
    loaded.user_ns.update(x=np.arange(6, dtype=np.float32), n=6, blocks=2)
    return loaded


def cell(shell: Any, options: str, text: str = TWICE) -> Any:
    """The result of a cell."""
    with contextlib.redirect_stdout(io.StringIO()):
        done = shell.run_cell(f"%%cuda_sim {options}\n{text}")
    done.raise_error()
    return done.result


def test_arrays_are_changed_in_place(shell: Any) -> None:
    result = cell(shell, "--grid 2 --block 4 --args x n")
    assert isinstance(result, SimRun)
    assert result.ok
    assert result.configuration == "twice<<<2, 4>>>"
    assert shell.user_ns["x"].tolist() == [0, 2, 4, 6, 8, 10]
    assert list(shell.user_ns["Out"].values())[-1] is result


def test_tensors_too(shell: Any) -> None:
    shell.user_ns["x"] = tensor = Tensor.from_numpy(np.ones(3, np.float32))
    assert cell(shell, "--grid 1 --block 4 --args x 3").ok
    assert tensor.to_numpy().tolist() == [2, 2, 2]


def test_sizes_may_be_variables_and_have_axes(shell: Any) -> None:
    result = cell(shell, "--grid blocks,1 --block (2,2,1) --args x 0x2 --out got --kernel twice")
    assert (result.grid, result.block) == ((2, 1, 1), (2, 2, 1))
    assert shell.user_ns["got"] is result


def test_which_block_and_which_kernel(shell: Any) -> None:
    result = cell(shell, "--grid 2 --block 4 --view-block 1 --kernel thrice --args x", TWO)
    assert result.shown == (1, 0, 0)


def test_without_checks(shell: Any) -> None:
    result = cell(shell, "--grid 2 --block 4 --no-check --args x n")
    assert (result.checked, result.accesses) == (False, ())
    assert shell.user_ns["x"][5] == 10


def test_both_forms_are_shown(shell: Any) -> None:
    result = cell(shell, "--grid 2 --block 4 --args x n")
    data, _ = shell.display_formatter.format(result)
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"].startswith("twice<<<2, 4>>>: nothing wrong was found\nmemory of")


def test_what_the_kernel_prints_is_printed(shell: Any) -> None:
    text = 'extern "C" __global__ void hello() { printf("hello from %d\\n", threadIdx.x); }'
    with capture_output() as captured:
        shell.run_cell(f"%%cuda_sim --grid 1 --block 2\n{text}")
    assert "hello from 0\nhello from 1\n" in captured.stdout


# ------------------------------------------------------------------ mistakes of the user

MISTAKES = {
    "unknown variable": ("--grid 1 --block 4 --args y n", TWICE, "ML821", "no variable 'y'"),
    "expression": ("--grid 1 --block 4 --args x n//2", TWICE, "ML821", "'n//2' is neither"),
    "wrong dtype": ("--grid 1 --block 4 --args n n", TWICE, "ML441", "takes an array for float *x"),
    "wrong count": ("--grid 1 --block 4 --args x", TWICE, "ML441", "takes 2 arguments, got 1"),
    "no kernel": ("--grid 1 --block 4", "int f() { return 1; }", "ML822", "has no kernel"),
    "two kernels": ("--grid 1 --block 4 --args x n", TWO, "ML822", "twice, thrice"),
    "no such kernel": ("--grid 1 --block 4 --kernel half", TWO, "ML822", "no kernel 'half'"),
    "bad grid": ("--grid 0 --block 4 --args x n", TWICE, "ML440", "grid (0,) is not possible"),
    "grid of text": ("--grid 'a b' --block 4 --args x n", TWICE, "ML821", "'a b' is neither"),
    "grid of a float": ("--grid 1.5 --block 4 --args x n", TWICE, "ML820", "integers, got '1.5'"),
    "grid of an array": ("--grid x --block 4 --args x n", TWICE, "ML820", "one to three integers"),
    "bad block": ("--grid 1 --block 2048 --args x n", TWICE, "ML440", "(2048,) is not possible"),
    "no block": ("--grid 1 --args x n", TWICE, "ML820", "required: --block"),
    "unknown option": ("--grid 1 --block 4 --arg x", TWICE, "ML820", "unrecognized"),
    "open quote": ("--grid 1 --block '4", TWICE, "ML820", "cannot be read"),
    "bad shared": ("--grid 1 --block 4 --shared 1,2 --args x n", TWICE, "ML820", "one integer"),
    "bad timeout": ("--grid 1 --block 4 --timeout -1 --args x n", TWICE, "ML820", "seconds"),
    "bad out": ("--grid 1 --block 4 --out a.b --args x n", TWICE, "ML820", "name of a variable"),
    "no such block": ("--grid 1 --block 4 --view-block 1 --args x n", TWICE, "ML440", "no block"),
    "hangs": ("--grid 1 --block 1 --timeout 0.2 --args zero", FOREVER, "ML658", "did not end"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_shortly(shell: Any, name: str) -> None:
    options, text, code, words = MISTAKES[name]
    shell.user_ns["zero"] = np.zeros(1, np.int32)
    with capture_output() as captured:
        done = shell.run_cell(f"%%cuda_sim {options}\n{text}")
    assert isinstance(done.error_in_exec, MaxlabError)
    assert done.error_in_exec.code == code
    assert words in captured.stdout
    assert f"[{code}]" in captured.stdout
    assert "fix:" in captured.stdout
    assert "Traceback" not in captured.stdout
    assert "magic.py" not in captured.stdout
    assert len(captured.stdout.splitlines()) <= 8


def test_what_does_not_compile_is_shown_on_its_line(shell: Any) -> None:
    text = TWICE.replace("x[i] *= 2", "y[i] *= 2")
    with capture_output() as captured:
        done = shell.run_cell(f"%%cuda_sim --grid 1 --block 4 --args x n\n{text}")
    assert isinstance(done.error_in_exec, MaxlabError)
    assert done.error_in_exec.code == "ML502"
    assert "Traceback" not in captured.stdout
    (shown,) = captured.outputs
    assert shown.data["text/plain"].startswith("line 3: ")
    row = re.search(
        r'<tr class="mx-cs-at" style="[^"]*"><th scope="row">(\d+)<', shown.data["text/html"]
    )
    assert row is not None
    assert row[1] == "3"
    assert "was not declared" in shown.data["text/html"]


def test_ctrl_c_ends_a_kernel_that_hangs(shell: Any) -> None:
    shell.user_ns["zero"] = np.zeros(1, np.int32)
    warm = "%%cuda_sim --grid 1 --block 1 --timeout 0.1 --args zero\n" + FOREVER
    with capture_output():
        shell.run_cell(warm)
    done = threading.Event()

    def interrupt() -> None:
        if not done.wait(0.5):
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with capture_output():
            result = shell.run_cell(warm.replace("0.1", "60"))
    finally:
        done.set()
        thread.join()
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert cell(shell, "--grid 1 --block 8 --args x n").ok


# ------------------------------------------------------------------ without a shell


def test_run_cell_needs_no_shell() -> None:
    text = """extern "C" __global__ void maybe(float *x, const float *y) {
  x[threadIdx.x] += y ? y[threadIdx.x] : 1;
}"""
    x = np.ones(2, np.float32)
    assert run_cell("--grid 1 --block 2 --args x None", text, {"x": x}).ok
    assert x.tolist() == [2, 2]


def test_every_option_is_in_the_usage() -> None:
    options = {o for action in _parser()._actions for o in action.option_strings}
    assert {o for o in options if o in USAGE} | {"--check"} == options
