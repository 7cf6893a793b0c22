"""Models whose graphs have opaque handles; see ``engine.handles``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from maxlab.driver import Tensor
from maxlab.engine.device_binding import DeviceBinding
from maxlab.engine.device_model import DeviceModel
from maxlab.engine.handles import Handles, Made, collecting, failure, some_run
from maxlab.engine.model import Model
from maxlab.engine.observing import Observer
from maxlab.engine.staged_model import Stage, StagedModel
from maxlab.engine.whole import Outputs
from maxlab.opset.custom_text import NOTHING, SAME


class HandleModel(Model):
    """A model of the CPU with handles: its runs hold what they make, and give and take handles."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._handles = Handles(self.compiled, self._runtime)
        self._execute_c = collecting(self._execute_c, self._runtime)
        self._execute_slice = collecting(self._execute_slice, self._runtime)

    def _run(self, args: Sequence[Any], times: Any) -> list[Any]:
        given = self._handles.tensors(args)
        made = Made(self._runtime)
        try:
            with made.taken():
                outputs = super()._run(given, times)
            return Outputs(self._handles.given(given, outputs))
        finally:
            made.release()

    def _accepted(self, args: Sequence[Any]) -> list[Tensor]:
        return super()._accepted(self._handles.tensors(args))

    def _failed(self, code: int, info: Any, env: Mapping[str, int]) -> NoReturn:
        if code == 1 and info[1] in (NOTHING, SAME):
            step = self.compiled.plan.steps[info[0]]
            raise failure(self.compiled, step, info[1], info[2:4])
        super()._failed(code, info, env)
        raise AssertionError("a run that failed raises")


class StagedHandleModel(HandleModel, StagedModel):
    """The same, with dims that are in part computed."""

    def stages_of(self, inputs: Sequence[Tensor]) -> list[Stage]:
        """The stages of a run on ``inputs``, which is made to know them."""
        with some_run(self._runtime):
            return super().stages_of(inputs)


class DeviceHandleModel(HandleModel, DeviceModel):
    """The same, with operations on GPUs or on several CPUs; handles are on the host."""

    def _tensors(self, args: Sequence[Any]) -> list[Tensor]:
        return super()._tensors(self._handles.tensors(args))

    def run_observed(self, args: Sequence[Any], observer: Observer | None) -> list[Tensor]:
        """The outputs; ``observer`` sees every step."""
        given = self._handles.tensors(args)
        with some_run(self._runtime):
            return self._handles.given(given, super().run_observed(given, observer))

    def stages_of(self, inputs: Sequence[Tensor]) -> list[DeviceBinding]:
        """The stages of a run on ``inputs``, which is made to know them."""
        with some_run(self._runtime):
            return super().stages_of(inputs)


__all__ = ["DeviceHandleModel", "HandleModel", "StagedHandleModel"]
