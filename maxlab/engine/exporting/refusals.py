"""The reasons why a plan cannot be exported as C: each is an error that names it."""

from __future__ import annotations

from maxlab.compiler.plan import Plan, Step
from maxlab.driver.device import Device
from maxlab.engine.kernel_log import place_of
from maxlab.errors import UnsupportedError
from maxlab.ir import DeviceRef


def require_exportable(plan: Plan, placed: dict[DeviceRef, Device]) -> None:
    """Return when ``plan`` can run as C alone.

    Args:
        plan: The plan.
        placed: The devices that it names, beside the host.

    Raises:
        UnsupportedError: ML460, it runs on another device; ML461, it calls Python; ML462, sizes are
            computed while it runs; ML463, it passes opaque values; ML464, kernels write messages.
    """
    name = plan.facts.name
    for ref, device in placed.items():
        raise UnsupportedError(
            "ML460",
            f"{name} cannot be exported as C: it runs on {device}, which the graph calls {ref}",
            fix="build the graph with DeviceRef.CPU(), and load it in a session of the CPU alone",
        )
    if plan.facts.handles is not None:
        found = {**plan.facts.handles.inputs, **plan.facts.handles.outputs}
        what = f"it takes or gives {', '.join(sorted(set(found.values())))}" if found else (
            "its kernels make opaque values"
        )  # fmt: skip
        raise UnsupportedError(
            "ML463",
            f"{name} cannot be exported as C: {what}, which only Python lets go of",
            fix="let the kernels of one graph pass tensors",
        )
    for step in plan.steps:
        if step.call is not None:
            raise UnsupportedError(
                "ML461",
                f"{name} cannot be exported as C: its step {step.id} calls {step.call.name}, a "
                "function of Python",
                at=place_of(plan, step),
                fix="use operations that have kernels, or write one: docs/how-to/write-a-kernel.md",
            )
        if step.gpu is not None or step.kind == "transfer":
            raise UnsupportedError(
                "ML460",
                f"{name} cannot be exported as C: its step {step.id} runs on {step.device}",
                at=place_of(plan, step),
                fix="build the graph with DeviceRef.CPU()",
            )
        if _writes_messages(step):
            raise UnsupportedError(
                "ML464",
                f"{name} cannot be exported as C: its kernel {step.id} ({step.name}) writes "
                "messages to Python's logging",
                at=place_of(plan, step),
                fix="load the graph without the prints, and without options that report NaN",
            )
    if plan.cuts:
        binding = next((step for step in plan.steps if step.binds is not None), None)
        raise UnsupportedError(
            "ML462",
            f"{name} cannot be exported as C: it runs in {len(plan.stages)} stages, because sizes "
            "are computed from the values of tensors",
            at=None if binding is None else place_of(plan, binding),
            fix="give dims that follow from the shapes of inputs to what reads these values",
        )


def _writes_messages(step: Step) -> bool:
    texts = [step.printed, step.in_strips()]
    return any(one is not None and one.logs for one in texts)


__all__ = ["require_exportable"]
