"""The dispatch of a model: the way of its inputs to the executor when nothing is to be said about
them, in as few steps of Python as there can be.

A call of a small model is a microsecond of C, and of Python as long as its author lets it be. So
what does not change between calls is bound once, and the loop over the inputs is written out, for
each number of them: for one input it would take longer than what it does. All that is not as usual,
such as arrays, wrong inputs and sizes that are new, goes the way of `Runner.run`.

The program of the last call is kept with its shapes: tensors that are given again have the same
tuples, and no table has to be asked. A program that another one has replaced is no longer `direct`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from maxlab.driver import CPU, Tensor
from maxlab.driver.memory import block_of
from maxlab.engine.layout import input_slots
from maxlab.engine.whole import Outputs

if TYPE_CHECKING:
    from maxlab.engine.runner import Runner

MOST = 16
"""Inputs and outputs up to which the loops are written out."""

_TEXT = """
def bind(runner, program_for, otherwise, {constants}, Tensor, new, block_of, host, Outputs):
    known = None, {nothing}
    def run(args):
        nonlocal known
        if runner.instead is not None or len(args) != {count}:
            return otherwise(args)
        {inputs}, = args
        if (
            {differs}
        ):
            return otherwise(args)
        program, {last}, = known
        if (
            {moved}
            or program.direct is None
        ):
            program = program_for(({shapes},))
            if program is None or program.direct is None:
                return otherwise(args)
            known = program, {shapes},
        try:
            frame = program.free.pop()
        except IndexError:
            frame = program.new_frame()
        addresses = frame.addresses
        {given}
        {rows}, = program.rows
        {made}
        code = program.direct(frame.call)
        if code:
            program.settle(code, frame, [{memory}])
        program.free.append(frame)
        return Outputs(({outputs},))
    return run
"""
_DIFFERS = """type(x{n}) is not Tensor
            or x{n}._dtype is not type{n}
            or x{n}._strides is not None
            or x{n}._stream is not stream{n}
            or (address{n} := x{n}.address) & unaligned{n}"""

_MADE = """y{n} = new(Tensor)
        y{n}._owner = block = block_of(nbytes{n})
        y{n}.address = addresses[slot{n}] = block.address
        y{n}._dtype = dtype{n}
        y{n}._shape = shape{n}
        y{n}._strides = None
        y{n}._stream = host
        y{n}._read_only = False"""


def dispatch(runner: Runner) -> Callable[[Sequence[Any]], list[Tensor]]:
    """A function from inputs to the outputs of ``runner``, by the programs that it has now."""
    arguments, plan = runner.arguments, runner.executable.compiled.plan
    is_usual = arguments.is_plain and not plan.aliases and not plan.cuts
    outputs = len(plan.facts.outputs)
    few = arguments.count and outputs and arguments.count + outputs <= MOST
    if not is_usual or runner.executable.placed or not few:
        return runner.run
    given = zip(input_slots(plan), arguments.expected, strict=True)
    constants = [x for slot, row in given for x in (slot, row[1], row[3], row[4])]
    made: Callable[[Sequence[Any]], list[Tensor]] = _bind(arguments.count, outputs)(
        runner, runner.programs.get, runner.run, *constants,
        Tensor, object.__new__, block_of, CPU().default_stream, Outputs,
    )  # fmt: skip
    return made


@cache
def _bind(count: int, outputs: int) -> Callable[..., Any]:
    """``bind`` of the text for ``count`` inputs and ``outputs``. Ranks are not looked at: there are
    programs for shapes of the right ones alone."""

    def each(form: str, between: str = ", ", of: int = count) -> str:
        return between.join(form.format(n=n) for n in range(of))

    text = _TEXT.format(
        count=count,
        constants=each("place{n}, type{n}, unaligned{n}, stream{n}"),
        inputs=each("x{n}"),
        differs=each(_DIFFERS, "\n            or "),
        shapes=each("x{n}._shape"),
        given=each("addresses[place{n}] = address{n}", "\n        "),
        rows=each("(slot{n}, dtype{n}, shape{n}, nbytes{n})", of=outputs),
        made=each(_MADE, "\n        ", of=outputs),
        memory=each("address{n}"),
        nothing=each("None"),
        last=each("last{n}"),
        moved=each("x{n}._shape is not last{n}", "\n            or "),
        outputs=each("y{n}", of=outputs),
    )
    names: dict[str, Any] = {}
    exec(compile(text, f"<the dispatch of {count} inputs>", "exec"), names)
    found: Callable[..., Any] = names["bind"]
    return found


__all__ = ["MOST", "dispatch"]
