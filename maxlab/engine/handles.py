"""The inputs and outputs of models that are opaque handles: `Handles`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxlab.compiler.facts import HandleFacts
from maxlab.compiler.plan import Plan
from maxlab.driver import Tensor
from maxlab.engine.handle_errors import wrong_handle
from maxlab.engine.mojo_value import MojoValue, address_of, handle_of
from maxlab.toolchain import Runtime


class Handles:
    """The inputs and outputs of a model that are handles.

    Attributes:
        inputs: The type names of the inputs that are handles, by number.
        outputs: The same of the outputs.
        definitions: What tells the types that its kernels know from others of their names.
    """

    def __init__(self, plan: Plan, told: HandleFacts, runtime: Runtime) -> None:
        self.runtime = runtime
        self.inputs = told.inputs
        self.outputs = told.outputs
        self.definitions = told.types
        self.model = plan.facts.name
        self.names = [one.name for one in plan.facts.inputs]

    def tensor(self, number: int, given: Any) -> Tensor:
        """Input ``number`` as the address that kernels take.

        Raises:
            InputTypeError: ML786, it is no handle of its type.
        """
        found = self.require(number, given)
        return given if isinstance(given, Tensor) else found.tensor(self.runtime)

    def require(self, number: int, given: Any) -> MojoValue:
        """The handle that input ``number`` is, or is the address of.

        Raises:
            InputTypeError: ML786, it is no handle of its type.
        """
        wanted, found = self.inputs[number], handle_of(given)
        if found is not None and found.type.name == wanted:
            if self.definitions.get(wanted, found.definition) == found.definition:
                return found
        what = f"input {number} ({self.names[number]} of {self.model})"
        raise wrong_handle(what, wanted, given if found is None else found)

    def given(self, tensors: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """``outputs`` with a `MojoValue` for each that is a handle; one that an input, or another
        output, is already is that one."""
        made = list(outputs)
        passed = {address_of(tensors[n]): handle_of(tensors[n]) for n in self.inputs}
        for number, name in self.outputs.items():
            if isinstance(made[number], MojoValue):
                continue
            address = address_of(made[number])
            found = passed.get(address)
            if found is None:
                definition = self.definitions[name]
                found = MojoValue.of(self.runtime, address, name, definition)
                passed[address] = found
            made[number] = found
        return made


def handles_of(plan: Plan, runtime: Runtime) -> Handles | None:
    """The inputs and outputs of ``plan`` that are handles; None where no value of it is one."""
    told = plan.facts.handles
    return None if told is None else Handles(plan, told, runtime)


__all__ = ["Handles", "handles_of"]
