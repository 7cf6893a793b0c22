"""What happens to weight files while they are mapped, each scenario in a process of its own.

``python -m tests.engine.mapped_scenarios FOLDER NAME...`` runs the named scenarios, each in a fork,
and prints one JSON object: what each of them said, or the signal that ended it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from maxlab import config, driver, engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.graph.weights import load_weights
from tests.graph.weight_files import gguf_of, torch_of

N = 512
LATER = 0.15
"""Seconds after which a run looks at its files again, and more."""
HANGS = 60
"""Seconds after which a scenario hangs."""
CPU, GPU = DeviceRef.CPU(), DeviceRef.GPU()

Array = np.ndarray[Any, Any]
SCENARIOS: dict[str, Callable[[Path], str]] = {}


def scenario(run: Callable[[Path], str]) -> Callable[[Path], str]:
    SCENARIOS[run.__name__] = run
    return run


# ---------------------------------------------------------------- files and models
def tensors(n: int = N) -> dict[str, Array]:
    small = np.arange(16, dtype=np.float32)
    return {"a.front": small, "w": np.ones((n, n), np.float32), "z.back": small + 1}


def file_of(folder: Path, kind: str = "safetensors", n: int = N, stem: str = "model") -> Path:
    path = folder / f"{stem}.{kind}"
    if kind == "safetensors":
        save_file(tensors(n), path)
    else:
        path.write_bytes((gguf_of if kind == "gguf" else torch_of)(tensors(n)))
    return path


def cut(path: Path, size: int = 4096) -> None:
    os.truncate(path, size)


def adder(weights: Any, threads: int | None = 1, n: int = N, place: DeviceRef = CPU) -> Any:
    """A model that reads ``w`` where it lies in each run."""
    with Graph("adder", input_types=[TensorType(DType.float32, [n, n], place)]) as graph:
        graph.output(graph.inputs[0].tensor + weights.w.allocate(device=place))
    return session(threads).load(graph, weights_registry=weights.allocated_weights)


def product(weights: Any, n: int = N) -> Any:
    """A model that packs ``w`` when it is loaded."""
    with Graph("product", input_types=[TensorType(DType.float32, ["m", n])]) as graph:
        graph.output(graph.inputs[0].tensor @ weights.w.allocate())
    return session(1).load(graph, weights_registry=weights.allocated_weights)


def session(threads: int | None) -> engine.InferenceSession:
    return engine.InferenceSession(num_threads=threads)


def zeros(n: int = N) -> Array:
    return np.zeros((n, n), np.float32)


def said(act: Callable[[], Any]) -> str:
    """``fine``, or the class, bases and message of what ``act`` raised."""
    try:
        act()
    except MaxlabError as error:
        bases = "+".join(c.__name__ for c in type(error).__mro__ if c.__name__ in KINDS)
        return f"{bases}: {error}"
    return "fine"


KINDS = ("WeightError", "ExecutionError", "FileError", "TensorError")


# ---------------------------------------------------------------- scenarios
@scenario
def cut_before_it_is_loaded(folder: Path) -> str:
    path = file_of(folder)
    weights = load_weights([path])
    cut(path)
    return said(lambda: product(weights))


@scenario
def cut_before_it_is_loaded_and_not_packed(folder: Path) -> str:
    path = file_of(folder)
    weights = load_weights([path])
    cut(path)
    return said(lambda: adder(weights))


@scenario
def cut_before_its_data_is_asked_for(folder: Path) -> str:
    path = file_of(folder)
    weights = load_weights([path])
    cut(path)
    return said(lambda: weights.w.data().astype(DType.float16))


@scenario
def cut_between_data_and_astype(folder: Path) -> str:
    path = file_of(folder)
    data = load_weights([path])["w"].data()
    cut(path)
    return said(lambda: data.astype(DType.float16))


def _between(folder: Path, size: int, threads: int, wait: float) -> str:
    path = file_of(folder)
    model = adder(load_weights([path]), threads)
    first = said(lambda: model(zeros()))
    cut(path, size)
    time.sleep(wait)
    return " | ".join([first, *(said(lambda: model(zeros())) for _ in range(3))])


@scenario
def cut_between_load_and_run(folder: Path) -> str:
    return _between(folder, 4096, 1, LATER)


@scenario
def cut_right_before_a_run(folder: Path) -> str:
    return _between(folder, 4096, 1, 0)


@scenario
def cut_right_before_a_run_of_two_threads(folder: Path) -> str:
    return _between(folder, 4096, 2, 0)


@scenario
def cut_to_nothing(folder: Path) -> str:
    return _between(folder, 0, 2, 0)


@scenario
def cut_and_made_whole_again(folder: Path) -> str:
    path = file_of(folder)
    model = adder(load_weights([path]))
    size = path.stat().st_size
    cut(path)
    first = said(lambda: model(zeros()))
    cut(path, size)
    again = said(lambda: model(zeros()))
    file_of(folder)
    fresh = adder(load_weights([path]))
    return f"{first} | {again} | {said(lambda: fresh(zeros()))}"


def _during(folder: Path, threads: int) -> str:
    """A loop of many turns that reads the weight, which is cut while it runs."""
    path = file_of(folder)
    weights = load_weights([path])
    types = [TensorType(DType.float32, [N, N]), TensorType(DType.int64, [], CPU)]
    with Graph("loop", input_types=types) as graph:
        x, turns = (value.tensor for value in graph.inputs)
        zero = ops.constant(0, DType.int64, CPU)
        w = weights.w.allocate()
        _, y = ops.while_loop(
            (zero, x), lambda i, y: i < turns, lambda i, y: (i + 1, (y + w) * 0.5)
        )
        graph.output(y)
    model = session(threads).load(graph, weights_registry=weights.allocated_weights)
    model(zeros(), 2)
    threading.Timer(0.2, cut, [path]).start()
    first = said(lambda: model(zeros(), 100_000_000))
    return f"{first} | {said(lambda: model(zeros(), 2))}"


@scenario
def cut_during_a_loop(folder: Path) -> str:
    return _during(folder, 1)


@scenario
def cut_during_a_loop_of_two_threads(folder: Path) -> str:
    return _during(folder, 2)


@scenario
def replaced_by_another_file(folder: Path) -> str:
    path = file_of(folder)
    model = adder(load_weights([path]))
    model(zeros())
    other = folder / "other"
    other.write_bytes(b"something else")
    other.replace(path)
    time.sleep(LATER)
    (out,) = model(zeros())
    return str(float(out.to_numpy().sum()) == N * N)


@scenario
def deleted(folder: Path) -> str:
    path = file_of(folder)
    model = adder(load_weights([path]))
    path.unlink()
    time.sleep(LATER)
    return said(lambda: model(zeros()))


@scenario
def written_over_in_place(folder: Path) -> str:
    path = file_of(folder)
    model = adder(load_weights([path]))
    model(zeros())
    with path.open("r+b") as file:
        file.seek(-8, os.SEEK_END)
        file.write(bytes(8))
    time.sleep(LATER)
    return f"{said(lambda: model(zeros()))} | {said(model.reload)}"


@scenario
def the_right_one_of_two_files(folder: Path) -> str:
    weight = np.ones((N, N), np.float32)
    for name in ("u", "w"):
        save_file({name: weight}, folder / f"{name}.safetensors")
    weights: Any = load_weights([folder / "u.safetensors", folder / "w.safetensors"])
    with Graph("both", input_types=[TensorType(DType.float32, [N, N])]) as graph:
        graph.output(graph.inputs[0].tensor + weights.u.allocate() * weights.w.allocate())
    model = session(1).load(graph, weights_registry=weights.allocated_weights)
    model(zeros())
    cut(folder / "w.safetensors")
    return said(lambda: model(zeros()))


@scenario
def another_model_goes_on(folder: Path) -> str:
    lost, kept = file_of(folder, stem="lost"), file_of(folder, stem="kept")
    one, other = adder(load_weights([lost])), adder(load_weights([kept]))
    cut(lost)
    first = said(lambda: one(zeros()))
    (out,) = other(zeros())
    return f"{first} | {float(out.to_numpy().sum()) == N * N}"


@scenario
def a_packed_weight(folder: Path) -> str:
    path = file_of(folder)
    model = product(load_weights([path]))
    cut(path)
    time.sleep(LATER)
    return said(lambda: model(zeros()))


@scenario
def a_model_in_stages(folder: Path) -> str:
    path = file_of(folder)
    weights: Any = load_weights([path])
    with Graph("stages", input_types=[TensorType(DType.float32, [N, N])]) as graph:
        total = graph.inputs[0].tensor + weights.w.allocate()
        graph.output(ops.nonzero(total, "hits"))
    model = session(2).load(graph, weights_registry=weights.allocated_weights)
    first = said(lambda: model(zeros()))
    cut(path)
    return f"{first} | {said(lambda: model(zeros()))}"


@scenario
def a_gpu_before_it_is_loaded(folder: Path) -> str:
    path = file_of(folder)
    weights = load_weights([path])
    cut(path)
    with driver.simulated():
        return said(lambda: _on_gpu(weights))


@scenario
def a_gpu_between_load_and_run(folder: Path) -> str:
    path = file_of(folder)
    with driver.simulated():
        model = _on_gpu(load_weights([path]))
        x = Tensor.from_numpy(zeros()).to(driver.Accelerator())
        first = said(lambda: model(x))
        cut(path)
        time.sleep(LATER)
        return f"{first} | {said(lambda: model(x))}"


def _on_gpu(weights: Any) -> Any:
    with Graph("gpu", input_types=[TensorType(DType.float32, [N, N], GPU)]) as graph:
        graph.output(graph.inputs[0].tensor + weights.w.allocate(device=GPU))
    made = engine.InferenceSession(devices=[driver.Accelerator()])
    return made.load(graph, weights_registry=weights.allocated_weights)


@scenario
def a_weight_that_moves_to_a_gpu_in_each_run(folder: Path) -> str:
    path = file_of(folder)
    weights: Any = load_weights([path])
    with driver.simulated():
        with Graph("moves", input_types=[TensorType(DType.float32, [N, N], GPU)]) as graph:
            there = weights.w.allocate().to(GPU)
            graph.output(graph.inputs[0].tensor + there)
        made = engine.InferenceSession(devices=[driver.Accelerator()])
        model = made.load(graph, weights_registry=weights.allocated_weights)
        x = Tensor.from_numpy(zeros()).to(driver.Accelerator())
        first = said(lambda: model(x))
        cut(path)
        time.sleep(LATER)
        return f"{first} | {said(lambda: model.run_to_the_end(x))}"


@scenario
def numpy_reads_it(folder: Path) -> str:
    path = file_of(folder)
    data = load_weights([path])["w"].data()
    cut(path)
    return f"{float(np.asarray(data.data).sum()) < N * N} | {said(lambda: np.from_dlpack(data))}"


@scenario
def a_tensor_reads_it(folder: Path) -> str:
    path = file_of(folder)
    data = load_weights([path])["w"].data()
    tensor = Tensor.from_dlpack(data.data)
    cut(path)
    return said(tensor.copy)


@scenario
def a_state_dict_is_saved(folder: Path) -> str:
    path = file_of(folder)
    weights = load_weights([path])
    found = {name: np.asarray(weight.data().data) for name, weight in weights.items()}
    cut(path)
    with contextlib.suppress(Exception):  # the system refuses to write pages that are not there
        save_file(found, folder / "saved.safetensors")
    return said(lambda: {name: weight.data() for name, weight in weights.items()})


@scenario
def a_mapped_tensor(folder: Path) -> str:
    path = folder / "raw"
    path.write_bytes(np.ones((N, N), np.float32).tobytes())
    tensor = Tensor.mmap(path, DType.float32, [N, N], "readonly")
    with Graph("raw", input_types=[TensorType(DType.float32, [N, N])]) as graph:
        graph.output(graph.inputs[0].tensor + 1)
    model = session(1).load(graph)
    model(tensor)
    cut(path)
    first = said(lambda: model(tensor))
    return f"{first} | {said(lambda: model(tensor))} | {said(lambda: model(zeros()))}"


@scenario
def a_mapped_tensor_is_a_weight(folder: Path) -> str:
    path = folder / "raw"
    path.write_bytes(np.ones((N, N), np.float32).tobytes())
    tensor = Tensor.mmap(path, DType.float32, [N, N], "readonly")
    with Graph("raw", input_types=[TensorType(DType.float32, [N, N])]) as graph:
        from maxlab.graph import Weight

        graph.output(graph.inputs[0].tensor + Weight("w", DType.float32, [N, N], CPU))
    model = session(1).load(graph, weights_registry={"w": tensor})
    first = said(lambda: model(zeros()))
    cut(path)
    return f"{first} | {said(lambda: model(zeros()))}"


@scenario
def a_tensor_that_is_written_to(folder: Path) -> str:
    path = folder / "raw"
    path.write_bytes(bytes(N * N * 4))
    tensor = Tensor.mmap(path, DType.float32, [N, N], "readwrite")
    tensor[0, 0] = 1
    first = said(tensor.copy)
    cut(path)
    tensor[N - 1, N - 1] = 1
    tensor[N - 1, 0] = 2
    kept = tensor.to_numpy()[N - 1, [0, N - 1]].tolist() == [2, 1]
    return f"{first} | {kept} | {said(tensor.copy)}"


@scenario
def pages_from_the_end(folder: Path) -> str:
    path = file_of(folder)
    data = load_weights([path])["w"].data()
    numbers = np.asarray(data.data).reshape(-1)
    cut(path, 0)
    total = sum(float(numbers[at]) for at in range(N * N - 1, 0, -1024))
    pieces = Path("/proc/self/maps").read_text().count(str(path))
    return f"{total} | {pieces} | {said(lambda: data.astype(DType.float16))}"


@scenario
def without_a_compiler(folder: Path) -> str:
    os.environ["MAXLAB_CC"] = str(folder / "none")
    os.environ["MAXLAB_CACHE_DIR"] = str(folder / "cache")
    config._config = None
    weights: Any = load_weights([file_of(folder)])
    return str(float(np.asarray(weights.w.data().data).sum()) == N * N)


def _private(folder: Path, kind: str) -> str:
    path = file_of(folder, kind)
    weights: Any = load_weights([path], private=True)
    cut(path, 0)
    model = adder(weights)
    (out,) = model(zeros())
    time.sleep(LATER)
    (again,) = model(zeros())
    mapped = str(path) in Path("/proc/self/maps").read_text()
    return f"{float((out.to_numpy() + again.to_numpy()).sum()) == 2 * N * N} | {mapped}"


@scenario
def a_private_safetensors(folder: Path) -> str:
    return _private(folder, "safetensors")


@scenario
def a_private_gguf(folder: Path) -> str:
    return _private(folder, "gguf")


@scenario
def a_private_pt(folder: Path) -> str:
    return _private(folder, "pt")


def _of(folder: Path, kind: str) -> str:
    path = file_of(folder, kind)
    model = adder(load_weights([path]))
    cut(path)
    return said(lambda: model(zeros()))


@scenario
def cut_gguf(folder: Path) -> str:
    return _of(folder, "gguf")


@scenario
def cut_pt(folder: Path) -> str:
    return _of(folder, "pt")


@scenario
def dumps_are_switched_on_later(folder: Path) -> str:
    path = file_of(folder)
    model = adder(load_weights([path]))
    model(zeros())
    with (folder / "dump").open("w") as dump:
        faulthandler.enable(dump)
        time.sleep(LATER)
        model(zeros())
        cut(path)
        return said(lambda: model(zeros()))


def _somebody_elses(folder: Path) -> None:
    """Read a page that is gone of a file that maxlab has not mapped."""
    model = adder(load_weights([file_of(folder)]))
    model(zeros())
    other = folder / "other"
    other.write_bytes(bytes(8192))
    with other.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 8192, access=mmap.ACCESS_READ)
    os.truncate(other, 0)
    pages[4096:4100]


@scenario
def a_fault_of_somebody_else(folder: Path) -> str:
    faulthandler.disable()
    _somebody_elses(folder)
    return "went on"


@scenario
def a_fault_of_somebody_else_with_dumps(folder: Path) -> str:
    faulthandler.enable((folder / "dump").open("w"))
    _somebody_elses(folder)
    return "went on"


@scenario
def a_signal_from_outside(folder: Path) -> str:
    faulthandler.disable()
    model = adder(load_weights([file_of(folder)]))
    model(zeros())
    caught: list[int] = []
    signal.signal(signal.SIGBUS, lambda number, _: caught.append(number))
    again = adder(load_weights([file_of(folder, stem="more")]))
    again(zeros())
    os.kill(os.getpid(), signal.SIGBUS)
    return str(caught == [signal.SIGBUS])


# ---------------------------------------------------------------- processes
def run_one(name: str, folder: Path) -> str:
    """What the scenario said, which runs in a fork."""
    folder.mkdir()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(HANGS)
            try:
                answer = SCENARIOS[name](folder)
            except Exception as error:
                answer = f"raised {type(error).__name__}: {error}"
            os.write(writing, answer.encode()[:60_000])
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        dump = folder / "dump"
        told = " with a dump" if dump.exists() and "Bus error" in dump.read_text() else ""
        return f"died of {signal.Signals(os.WTERMSIG(status)).name}{told}"
    return answer


def main(folder: Path, names: list[str]) -> None:
    print(json.dumps({name: run_one(name, folder / name) for name in names}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or list(SCENARIOS))
