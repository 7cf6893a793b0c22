"""The plan of a model as tables of C: ``plan.c``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from maxlab.compiler.conventions import HALVES
from maxlab.compiler.facts import Conditions
from maxlab.compiler.launches import (
    Attention,
    BatchedGemm,
    Blocks,
    Gemm,
    HostFormula,
    Items,
    Once,
)
from maxlab.compiler.lifetimes import slot_uses
from maxlab.compiler.plan import Plan, Slot, Step
from maxlab.dtype import DType
from maxlab.engine.exporting.data import Data
from maxlab.engine.exporting.sizes import Sizes, literal, number, where
from maxlab.engine.host_steps import CONTROL, exchanged
from maxlab.engine.kernel_log import place_of
from maxlab.ir.poly import Poly
from maxlab.opset.notes import NOTES, numbers_in
from maxlab.toolchain.library import OWN_KERNELS

_NUMPY = frozenset(
    (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
)
SIGNATURE = "(void *const *b, const i64 *d, i64 lo, i64 hi, mx_ctx *ctx)"
_KINDS = {
    "input": "PLAN_INPUT",
    "output": "PLAN_OUTPUT",
    "weight": "PLAN_DATA",
    "constant": "PLAN_DATA",
    "packed": "PLAN_PACKED",
    "arena": "PLAN_ARENA",
}
_FAULTS = {
    "index": "PLAN_INDEX",
    "slice": "PLAN_SLICE",
    "bounds": "PLAN_BOUNDS",
    "reversed bounds": "PLAN_BACKWARDS",
}


def needs_products(plan: Plan) -> bool:
    """Whether ``plan`` uses the library of products."""
    for step in plan.steps:
        if isinstance(step.launch, Gemm | BatchedGemm | Attention):
            return True
        if isinstance(step.launch, Items) and step.launch.products:
            return True
        if step.builtin and step.builtin not in OWN_KERNELS:
            return True
        texts = [step.printed, step.in_strips()]
        if any(one is not None and "->lib" in one.text for one in texts):
            return True
    return any(slot.packing is not None for slot in plan.slots)


class Tables:
    """The text of ``plan.c`` for a plan and its weights.

    Attributes:
        text: The whole of it.
    """

    def __init__(self, plan: Plan, data: Data) -> None:
        self._plan = plan
        self._data = data
        self._sizes = Sizes()
        self._out: list[str] = []
        for name, _, _ in plan.facts.sizes.names:
            self._sizes.symbol(name)
        body = [
            *self._specs(),
            *self._bind(plan.facts.sizes.stages[0]),
            *self._slots(),
            *self._steps(),
            *self._outputs(),
            *self._whole(),
        ]
        head = [
            f"/* plan.c - the graph {plan.facts.name}, compiled by maxlab. */".replace("\n", " "),
            '#include "plan.h"',
            "",
            *self._declared(),
            "",
        ]
        self.text = "\n".join([*head, *self._sizes.texts, "", *body, ""])

    # ------------------------------------------------------------ kernels
    def _declared(self) -> list[str]:
        names = dict.fromkeys(
            itertools.chain.from_iterable(
                (self._function(step), self._longer(step)) for step in self._plan.steps
            )
        )
        names.update(dict.fromkeys(s.packing.kernel for s in self._plan.slots if s.packing))
        return [f"int {name}{SIGNATURE};" for name in names if name != "NULL"]

    def _function(self, step: Step) -> str:
        if step.kind in CONTROL:
            return "NULL"
        if step.builtin:
            return step.builtin
        assert step.printed is not None
        return step.printed.symbol

    def _longer(self, step: Step) -> str:
        printed = step.in_strips() if step.long is not None else None
        return "NULL" if printed is None else printed.symbol

    # ------------------------------------------------------------ inputs and sizes
    def _specs(self) -> list[str]:
        facts = self._plan.facts
        lines = [f"const char *const model_name = {literal(facts.name)};"]
        rows = [_spec(x.name, x.dtype, x.shape) for x in facts.inputs]
        lines.append(f"const int64_t model_input_count = {len(rows)};")
        lines += _array("const model_spec model_input_specs[]", rows, "{0}")
        rows = [_spec(f"output{n}", y.dtype, y.declared) for n, y in enumerate(facts.outputs)]
        lines.append(f"const int64_t model_output_count = {len(rows)};")
        return lines + _array("const model_spec model_output_specs[]", rows, "{0}")

    def _bind(self, stage: Conditions) -> list[str]:
        """The function that finds the sizes of all symbols: ``SizeRules`` in C."""
        sizes, facts = self._sizes, self._plan.facts
        lines = ["plan_wrong = 0;"]
        for name, of, axis in facts.sizes.names:
            lines.append(f"{sizes.symbol(name)} = x[{of}].shape[{axis}];")
        for name, of, axis, rest, factor in facts.sizes.solved:
            known = f"x[{of}].shape[{axis}]"
            value = (
                f"plan_div(plan_add({known}, plan_mul(-1, {sizes.function(rest)}(s))), {factor})"
            )
            lines.append(f"{sizes.symbol(name)} = {value};")
            lines.append(sizes.countable(name, ""))
            what = literal("%s has the size %lld at axis %lld, and %s would be %lld [ML602]")
            told = (
                f"{literal(facts.inputs[of].name)}, (i64){known}, {number(axis)}, {literal(name)}"
            )
            found = sizes.symbol(name)
            lines.append(f"if ({found} < 0) return plan_say({what}, {told}, {found});")
        for of, axis, size in facts.sizes.checks:
            known = f"x[{of}].shape[{axis}]"
            lines.append(f"{{ const i64 size = {sizes.function(size)}(s);")
            lines.append(sizes.countable(str(size), ""))
            what = literal("%s has the size %lld at axis %lld, but its type %s says %lld [ML602]")
            own = facts.inputs[of]
            told = f"{literal(own.name)}, (i64){known}, {number(axis)}"
            told += f", {literal(_type(own.dtype, own.shape))}, size"
            lines.append(f"if ({known} != size) return plan_say({what}, {told}); }}")
        for name, poly, op in stage.definitions:
            lines.append(f"{sizes.symbol(name)} = {sizes.function(poly)}(s);")
            lines.append(sizes.countable(name, where(op.at)))
        if stage.guard.stated:
            lines += sizes.tested(stage.guard)
        for poly, op in stage.counts.items():
            lines.append(f"plan_wrong = 0, (void){sizes.function(poly)}(s);")
            what = literal("the dim %s of %s is larger than 63 bits can count%s [ML223]")
            told = f"{literal(str(poly))}, {literal(op.word)}, {literal(where(op.at))}"
            lines.append(f"if (plan_wrong & PLAN_OVER) return plan_say({what}, {told});")
        body = "\n  ".join(["(void)x, (void)s;", *lines, "plan_wrong = 0;", "return 0;"])
        return [f"static int bind(const model_value *x, i64 *s) {{\n  {body}\n}}", ""]

    # ------------------------------------------------------------ memory
    def _slots(self) -> list[str]:
        uses = slot_uses(self._plan)
        before: list[str] = []
        rows = []
        for slot in self._plan.slots:
            first, last = uses.get(slot.number, (-1, -1))
            fields = [f".kind = {_KINDS[slot.kind]}", f".first = {first}", f".last = {last}"]
            if slot.kind in ("input", "output"):
                fields.append(f".index = {slot.index}")
            elif slot.kind == "arena":
                fields.append(f".nbytes = {self._sizes.function(slot.nbytes)}")
            elif slot.packing is not None:
                fields += self._packed(slot, before)
            elif slot.number in self._data.pieces:
                piece = self._data.pieces[slot.number]
                fields += [f".offset = {number(piece.offset)}", f".bytes = {number(piece.nbytes)}"]
            rows.append("{" + ", ".join(fields) + "}")
        return [*before, *_array("static const plan_slot slots[]", rows, "{0}")]

    def _packed(self, slot: Slot, before: list[str]) -> list[str]:
        packing = slot.packing
        assert packing is not None
        before += _array(
            f"static const i64 packing{slot.number}[]", [number(n) for n in packing.sizes], "0"
        )
        return [
            f".pack = {packing.kernel}",
            f".source = {packing.source}",
            f".offset = {number(packing.offset)}",
            f".bytes = {number(packing.nbytes)}",
            f".items = {number(packing.items)}",
            f".nsizes = {len(packing.sizes)}",
            f".sizes = packing{slot.number}",
        ]

    # ------------------------------------------------------------ steps
    def _steps(self) -> list[str]:
        steps = self._plan.steps
        starts = [0, *itertools.accumulate(len(step.pointers) for step in steps)]
        before: list[str] = []
        rows = []
        for n, step in enumerate(steps):
            fields = [
                f".name = {literal(step.name)}",
                f".where = {literal(where(place_of(self._plan, step)))}",
                f".fn = {self._function(step)}",
                f".npointers = {len(step.pointers)}",
                f".pointers = pointers{n}",
            ]
            before += _array(f"static const i64 pointers{n}[]", map(str, step.pointers), "0")
            if step.kind in CONTROL:
                fields += [f".kind = {CONTROL[step.kind]}", f".jump = {step.jump}"]
                if step.exchange is not None:
                    listed = exchanged(n, steps, starts)
                    before += _array(f"static const i64 moves{n}[]", map(str, listed), "0")
                    fields += [f".nmoves = {len(listed)}", f".moves = moves{n}"]
                rows.append("{" + ", ".join(fields) + "}")
                continue
            names = [self._sizes.function(size) for size in step.sizes]
            before += _array(f"static const plan_size sizes{n}[]", names, "NULL")
            fields += [f".nsizes = {len(names)}", f".sizes = sizes{n}"]
            if step.long is not None and self._longer(step) != "NULL":
                fields.append(f".longer = {self._longer(step)}")
                fields.append(f".costs = {self._sizes.function(step.long)}")
            if step.guard is not None:
                fields.append(f".guard = {self._sizes.guard(step.guard)}")
                fields.append(f".refused = {step.jump}")
            faults = self._faults(step)
            if faults:
                before += _array(f"static const plan_fault faults{n}[]", faults, "{0}")
                fields += [f".nfaults = {len(faults)}", f".faults = faults{n}"]
            assert step.launch is not None
            fields.append(f".launch = {self._launch(n, step.launch, before)}")
            rows.append("{" + ", ".join(fields) + "}")
        return [*before, *_array("static const plan_step steps[]", rows, "{0}")]

    def _faults(self, step: Step) -> list[str]:
        rows = []
        for node in step.printed.checked if step.printed is not None else []:
            op = self._plan.facts.ops.get(next(iter(step.nodes_of(node)), ""))
            if op is None:
                rows.append('{"", "", PLAN_INDEX}')
                continue
            label, at = literal(op.fault.label), literal(where(op.at))
            rows.append(f"{{{label}, {at}, {_FAULTS[op.fault.kind]}}}")
        return rows

    def _launch(self, n: int, formula: HostFormula, before: list[str]) -> str:
        own = self._sizes

        def row(name: str, polys: Sequence[Poly], *more: str) -> str:
            sizes = own.functions(polys) or "NULL"
            return "{" + ", ".join([f".formula = {name}", f".size = {{{sizes}}}", *more]) + "}"

        match formula:
            case Once():
                return row("PLAN_ONCE", [])
            case Items():
                polys = [formula.extent, formula.cost, formula.scratch]
                if formula.total is not None:
                    polys.append(formula.total)
                more = [f".number = {formula.unit}", f".serial = {int(formula.serial)}"]
                if formula.extra:
                    extra = [number(one) for one in formula.extra]
                    before += _array(f"static const i64 extra{n}[]", extra, "0")
                    more += [f".nextra = {len(extra)}", f".extra = extra{n}"]
                return row("PLAN_ITEMS", polys, *more)
            case Blocks():
                polys = [formula.rows, formula.columns, formula.depth]
                return row("PLAN_BLOCKS", polys, f".number = {formula.weight}")
            case Gemm():
                kind = HALVES.get(formula.dtype, -1)
                return row("PLAN_GEMM", [formula.m, formula.n, formula.k], f".number = {kind}")
            case BatchedGemm():
                polys = [formula.items, formula.m, formula.n, formula.k]
                return row("PLAN_BATCHED", polys, f".number = {HALVES.get(formula.dtype, -1)}")
            case Attention():
                return row("PLAN_ATTENTION", formula.sizes)

    # ------------------------------------------------------------ the whole
    def _outputs(self) -> list[str]:
        plan = self._plan
        slots = {s.index: s.number for s in plan.slots if s.kind == "output"}
        before: list[str] = []
        rows = []
        for n, output in enumerate(plan.facts.outputs):
            alias = same = -1
            if n in plan.aliases:
                target = plan.slots[plan.aliases[n]]
                alias = target.index if target.kind == "input" else -1
                same = target.index if target.kind == "output" else -1
            names = [self._sizes.function(size) for size in output.shape]
            before += _array(f"static const plan_size shape{n}[]", names, "NULL")
            rows.append(f"{{{slots.get(n, 0)}, {alias}, {same}, shape{n}}}")
        return [*before, *_array("static const plan_output outputs[]", rows, "{0}")]

    def _whole(self) -> list[str]:
        plan = self._plan
        pairs = [f"{{{a}, {b}}}" for a, b in sorted(plan.facts.apart)]
        lines = _array("static const i64 pairs[][2]", pairs, "{0}")
        texts = [step.printed.text for step in plan.steps if step.printed is not None]
        noted = dict.fromkeys(n for text in texts for n in numbers_in(text) if n in NOTES)
        notes = [
            f"{{{number(n)}, {literal(NOTES[n].op + ': ' + NOTES[n].text.replace('%%', '%'))}}}"
            for n in noted
            if NOTES[n].kind == "assert"
        ]
        lines += _array("static const plan_note notes[]", notes, "{0}")
        bytes_of_id = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in self._data.id)
        lines.append(f"static const signed char id[16] = {{{bytes_of_id}}};")
        fields = [
            f".nslots = {len(plan.slots)}",
            f".nsteps = {len(plan.steps)}",
            f".nsizes = {len(self._sizes.numbers)}",
            f".npairs = {len(pairs)}",
            f".nnotes = {len(notes)}",
            f".is_program = {int(any(step.kind in CONTROL for step in plan.steps))}",
            f".weights = {number(self._data.nbytes)}",
            ".id = (const char *)id",
            ".slots = slots",
            ".steps = steps",
            ".outputs = outputs",
            ".pairs = pairs",
            ".notes = notes",
            ".bind = bind",
        ]
        if needs_products(plan):
            fields += [
                ".products = mx_get_lib",
                ".half_gemm_plan = mx_half_gemm_plan",
                ".half_gemm_scratch = mx_half_gemm_scratch",
                ".half_matmul_scratch = mx_half_matmul_scratch",
            ]
        inside = ",\n  ".join(fields)
        return [*lines, f"const plan_table plan = {{\n  {inside},\n}};"]


def _array(head: str, rows: Iterable[str], empty: str) -> list[str]:
    """A table of C with ``rows``; C has none without any, so those have one that is ``empty``."""
    return [f"{head} = {{", *(f"  {row}," for row in (list(rows) or [empty])), "};"]


def _type(dtype: DType, shape: Sequence[Poly]) -> str:
    return f"{dtype.name}[{', '.join(map(str, shape))}]"


def _spec(name: str, dtype: DType, shape: Sequence[Poly]) -> str:
    size = dtype.size_in_bytes
    # NumPy itself has no bfloat16, and saves arrays of ml_dtypes as bytes.
    spelled = np.dtype(dtype.name).str if dtype.name in _NUMPY else f"|V{size}"
    told = literal(name), literal(_type(dtype, shape)), literal(spelled)
    return f"{{{', '.join(told)}, {size}, {len(shape)}}}"


__all__ = ["SIGNATURE", "Tables", "needs_products"]
