"""Models that travel to other processes: `pickled`. Graph, plan and texts of kernels go as the
archive of a kept model; weights go by the names of their files where they are mapped from some, and
as their numbers otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from maxlab.engine.guard import Guard
from maxlab.engine.kept.archive import Archive
from maxlab.engine.kept.loading import is_loadable, load_kept
from maxlab.engine.kept.opening import misfit, options_of
from maxlab.engine.kept.reading import graph_in
from maxlab.engine.kept.saving import Saving
from maxlab.engine.kept.weights import Numbers
from maxlab.ir import DeviceRef

if TYPE_CHECKING:
    from maxlab.engine.model import Model

_NOWHERE = Path("/")
"""The folder that the paths of files are relative to: they are absolute."""


def pickled(model: Model) -> tuple[Any, ...]:
    """The function that pickle calls to make ``model`` again, `unpickled`, and its arguments.

    Raises:
        GraphError: ML450, a part of the model belongs to this process alone.
    """
    made = Saving(model, _NOWHERE, code=False)
    devices = [str(DeviceRef.from_device(device)) for device in model.session_devices()]
    return unpickled, (made.bytes(), devices, model.num_threads, model.guard, model.gpu_profiling)


def unpickled(
    content: bytes, devices: list[str], threads: int, guard: bool | Guard, profiling: Any
) -> Model:
    """The model in ``content``, the archive that `pickled` has made. Whoever reads a pickle trusts
    it already.

    Raises:
        MaxlabError: As ``InferenceSession.load`` of a kept model that is trusted.
    """
    from maxlab.driver.device import device_named
    from maxlab.engine.session import InferenceSession
    from maxlab.engine.session_settings import GPUProfilingMode

    archive = Archive(_NOWHERE / "pickle.mlmodel", content)
    options = options_of(archive, is_trusted=True)
    named = [device_named(name) for name in devices]
    if guard is False and not misfit(archive) and is_loadable(archive, {}):
        return load_kept(archive, options, {}, devices=named, threads=threads, profiling=profiling)
    session = InferenceSession(named, threads)
    session.gpu_profiling(GPUProfilingMode(profiling))
    numbers = Numbers(archive, is_trusted=True)
    graph = graph_in(archive, is_trusted=True)
    weights: dict[str, np.ndarray[Any, Any]] = dict(numbers)
    return session.load(graph, weights_registry=weights, options=options, guard=guard)


__all__ = ["pickled", "unpickled"]
