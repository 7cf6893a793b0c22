"""The steps of ops that bring kernels of their own: what ``opset.kernel`` describes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from maxlab.compiler.axes import extents_of, own_index, shape_of
from maxlab.compiler.codegen.c import NAME, SIGNATURE, Printer, finish
from maxlab.compiler.codegen.cuda import CudaPrinter, finish_kernel
from maxlab.compiler.codegen.notes import assert_call, least_level, log_call
from maxlab.compiler.codegen.product import finish_with
from maxlab.compiler.codegen.scalar import compute_type, literal, loaded, stored, stored_type
from maxlab.compiler.expressions import not_computed
from maxlab.compiler.finishing import Finish, finish_of
from maxlab.compiler.groups import Group
from maxlab.compiler.launches import Items, Parts
from maxlab.compiler.options import Options
from maxlab.compiler.plan import (
    Binds,
    GpuKernels,
    KernelArgument,
    Packing,
    Slot,
    Step,
    panels,
)
from maxlab.compiler.plan_sink import PlanSink
from maxlab.compiler.printed import HEADERS, CudaPrinted, Printed
from maxlab.compiler.traffic import Counted, Touch, Touched
from maxlab.compiler.traffic import touched as touched_of
from maxlab.dtype import DType
from maxlab.ir import BufferType, Op, TensorType
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.opset import OPSET
from maxlab.opset.core import changed_operands, elements
from maxlab.opset.custom import OPS as CUSTOM
from maxlab.opset.custom import bound_of
from maxlab.opset.kernel import Target
from maxlab.opset.notes import INDEX

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class KernelBuffer:
    """Memory that the kernels of one op share; see ``opset.kernel.Buffer``."""

    name: str
    dtype: DType
    type: TensorType
    slot: int
    count: Poly
    role: str  # result, operand, target (a buffer that is stored into), changed or temporary

    @property
    def compute(self) -> str:
        """The C type in which elements are computed."""
        return compute_type(self.dtype)

    @property
    def stored(self) -> str:
        """The C type in which elements are stored."""
        return stored_type(self.dtype)

    def load(self, index: str) -> str:
        """The element at ``index``."""
        return loaded(f"{self.name}[{index}]", self.dtype)

    def store(self, index: str, value: str) -> str:
        """The statement that stores ``value`` at ``index``."""
        return f"{self.name}[{index}] = {stored(value, self.dtype)};"


@dataclass(slots=True)
class _Part:
    """One launch, as it was asked for."""

    text: str
    extent: Poly
    before: str
    work: Poly
    block: bool
    threads: int
    shared: Poly
    scratch: Poly
    serial: bool
    name: str
    faults: bool
    total: Poly | None = None
    ahead: str = ""
    after: str = ""
    touched: Mapping[str, Poly] = field(default_factory=dict)


@dataclass(slots=True)
class KernelSite:
    """One op that is being written for one target; see ``opset.kernel.Site``."""

    sink: PlanSink
    op: Op
    target: Target
    attrs: Any
    operands: list[KernelBuffer]
    results: list[KernelBuffer]
    shared: str = "shared"
    scratch: str = "ctx->scratch"
    parts: list[_Part] = field(default_factory=list)
    temporaries: list[KernelBuffer] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    faulted: bool = False
    warned: bool = False
    in_place: bool = False
    known: list[KernelBuffer] = field(default_factory=list)
    follows: Finish | None = None

    @property
    def finish(self) -> str:
        """The name of the function that finishes a part of the result, if any."""
        return f"{NAME}_finish" if self.follows is not None else ""

    @property
    def options(self) -> Options:
        """The options of the compilation."""
        return self.sink.schedule.options

    @property
    def log_level(self) -> int:
        """The least level of messages that are compiled."""
        return least_level(self.options)

    @property
    def assert_level(self) -> str:
        """The level of assertions that kernels test."""
        return self.options.assert_level

    @property
    def accuracy(self) -> str:
        """How exact results are."""
        return self.options.accuracy

    @property
    def old_top_k(self) -> bool:
        """Whether ``top_k`` sorts whole rows."""
        return self.options.old_top_k

    def size(self, poly: Poly | int) -> str:
        """``poly`` as text."""
        printer = Printer(self.symbols)
        text = printer.poly(poly if isinstance(poly, Poly) else Poly.constant(poly))
        return text if not text.isdigit() else f"{text}ll"

    def temporary(self, dtype: DType, count: Poly) -> KernelBuffer:
        """Memory that all parts of this op share."""
        number = len(self.temporaries)
        if number < len(self.known):
            self.temporaries.append(self.known[number])
            return self.known[number]
        slots = self.sink.plan.slots
        nbytes = count * Poly.constant(dtype.size_in_bytes)
        device = (*self.op.results, *self.op.operands)[0].tensor_type.device
        slot = Slot(len(slots), "arena", dtype, nbytes, (count,), device=device)
        slots.append(slot)
        made = KernelBuffer(
            f"t{number}", dtype, TensorType(dtype, [], device), slot.number, count, "temporary"
        )
        self.temporaries.append(made)
        return made

    def packed(
        self, buffer: KernelBuffer, layout: Sequence[Poly], taps: Sequence[Poly] = ()
    ) -> KernelBuffer | None:
        """An operand packed in panels when the model is loaded; None where that cannot be."""
        if not self._is_known(buffer):
            return None
        packing = panels(buffer.slot, buffer.dtype, layout, Poly.constant(0), taps)
        return None if packing is None else self._packed(buffer, packing, (layout[0], layout[1]))

    def packed_tiles(
        self, buffer: KernelBuffer, layout: Sequence[int], nbytes: int
    ) -> KernelBuffer | None:
        """The filter of a convolution by tiles, made when the model is loaded; None where that
        cannot be."""
        if not self._is_known(buffer):
            return None
        panels = -(-layout[1] // 32)
        packing = Packing(buffer.slot, "mx_k_pack_winograd", tuple(layout), panels, nbytes)
        return self._packed(buffer, packing, (Poly.constant(nbytes // 4),))

    def packed_blocks(
        self, buffer: KernelBuffer, kernel: str, rows: int, sizes: tuple[Poly, Poly], nbytes: int
    ) -> KernelBuffer | None:
        """An operand of blocks laid out anew when the model is loaded; None where that cannot
        be."""
        blocks, n = sizes
        if not (self._is_known(buffer) and blocks.is_constant and n.is_constant):
            return None
        groups = -(-n.value // rows)
        numbers = (blocks.value, n.value)
        packing = Packing(buffer.slot, kernel, numbers, groups, groups * nbytes)
        return self._packed(buffer, packing, (Poly.constant(groups * nbytes),))

    def _is_known(self, buffer: KernelBuffer) -> bool:
        source = self.sink.plan.slots[buffer.slot]
        return source.kind in ("weight", "constant") and not source.order

    def _packed(
        self, buffer: KernelBuffer, packing: Packing, shape: tuple[Poly, ...]
    ) -> KernelBuffer:
        slot = self.sink.packed_slot(packing, buffer.dtype, shape)
        count = Poly.constant(packing.nbytes // buffer.dtype.size_in_bytes)
        typed = TensorType(buffer.dtype, [], buffer.type.device)
        made = KernelBuffer(
            f"t{len(self.temporaries)}", buffer.dtype, typed, slot, count, "operand"
        )
        self.temporaries.append(made)
        return made

    def literal(self, value: float | int, dtype: DType) -> str:
        """``value`` as a constant."""
        return literal(value, dtype)

    def wrap(self, name: str, index: str, extent: str) -> str:
        """The statement that declares ``name`` as the index ``index`` of an axis."""
        wrapped = f"i64 {name} = {index}; {name} = {name} < 0 ? {name} + {extent} : {name};"
        if self.assert_level == "none":
            return wrapped
        if self.assert_level == "warn":
            self.warned = True
            said = log_call(self.target, INDEX, index, [("i", "0"), ("i", index), ("i", extent)])
            empty = f"if (!{extent}) {self.fault(f'({index})', extent)} " * (self.target == "c")
            stop = f"{{ {empty}{said}; {name} = 0; }}"
        elif self.target == "c":
            stop = self.fault(f"({index})", extent)
        else:
            stop = f"{{ {self.fault(f'({index})', extent)} {name} = 0; }}"
        return f"{wrapped} if ((u64){name} >= (u64){extent}) {stop}"

    def fault(self, value: str, limit: str) -> str:
        """The statement that ends the run."""
        self.faulted = True
        if self.target == "cuda":
            return f"mx_fault(fault, 0, {value}, {limit});"
        return f"{{ ctx->err[0] = {value}; ctx->err[1] = {limit}; ctx->err[2] = 0; return 1; }}"

    def log(self, note: int, item: str, values: list[tuple[str, str]]) -> str:
        """The expression that writes down a note."""
        return log_call(self.target, note, item, values)

    def asserted(self, note: int, item: str) -> str:
        """The statement that ends the run with an assertion."""
        return assert_call(self.target, note, item)

    def along(
        self, name: str, first: str, last: str, *, before: str = "", strip: int = 1 << 20
    ) -> str:
        """The head of the loop over an axis that may be very long."""
        if self.target == "cuda":
            return f"for (i64 {name} = {first}; {name} < {last}; {name}++)"
        start, stop = f"{name}0", f"{name}1"
        end = f"{last} - {start} > {strip} ? {start} + {strip} : {last}"
        return f"""\
for (i64 {start} = {first}; {start} < {last}; {start} += {strip})
  if ({start} > {first} && mx_stop(ctx)) return MX_STOPPED;
  else
    {before}for (i64 {name} = {start}, {stop} = {end}; {name} < {stop}; {name}++)"""

    def header(self, name: str) -> None:
        """Let the CUDA text be read behind a header."""
        if name not in self.headers:
            self.headers.append(name)

    def part(
        self,
        text: str,
        extent: Poly,
        *,
        ahead: str = "",
        before: str = "",
        after: str = "",
        work: Poly = ONE,
        block: bool = False,
        threads: int = 256,
        shared: Poly | int = 0,
        scratch: Poly | int = 0,
        serial: bool = False,
        name: str = "",
        total: Poly | None = None,
        touched: Mapping[str, Poly] | None = None,
    ) -> None:
        """Add a launch."""

        def poly(size: Poly | int) -> Poly:
            return size if isinstance(size, Poly) else Poly.constant(size)

        if extent.is_constant and extent.value == 0:
            text = before = ""  # sizes of 0 divide by 0 in it, which compilers warn of
        self.parts.append(
            _Part(
                text,
                extent,
                before,
                work,
                block,
                threads,
                poly(shared),
                poly(scratch),
                serial,
                name,
                self.faulted or self.warned,
                total,
                ahead,
                after,
                touched or {},
            )
        )
        self.faulted = self.warned = False


def add_kernel(sink: PlanSink, group: Group) -> None:
    """Add the steps of the op of ``group``.

    Raises:
        DTypeError: ML107, its kernel does not take a dtype that it is asked for.
    """
    schedule, op = sink.schedule, group.main
    assert op is not None
    row = OPSET[op.name]
    write = row.kernel
    assert write is not None, f"{op.name} has no kernel"
    if not row.takes_float8 and row.family not in ("effect", "custom"):
        for value in (*op.operands, *op.results):
            if _tensor(value.type).dtype.is_float8():
                raise not_computed(_tensor(value.type).dtype)
    results, operands = [], []
    follows = finish_of(sink, group) if len(group.ops) > 1 else None
    for number, value in enumerate(op.results):
        typed = _tensor(value.type)
        slot = sink.slot(value if follows is None else follows.values[follows.result])
        results.append(
            KernelBuffer(f"y{number}", typed.dtype, typed, slot, elements(typed), "result")
        )
    whole = OPSET[op.name].changed is not None  # any element may be read and written
    for number, value in enumerate(op.operands):
        typed, shape = _tensor(value.type), shape_of(value)
        base, _ = schedule.resolve(value, own_index(shape), extents_of(shape))
        role, count = "operand", elements(typed)
        if number in changed_operands(op):
            role = "changed" if whole else "target"
            count = count if whole else elements(_tensor(op.operands[1].type))
        operands.append(
            KernelBuffer(f"x{number}", typed.dtype, typed, sink.slot(base), count, role)
        )
    target: Target = "cuda" if group.device.is_gpu() else "c"
    site = KernelSite(sink, op, target, op.attrs, operands, results, follows=follows)
    write(site)
    assert site.parts, f"{op.name} wrote no kernel"
    for number, part in enumerate(site.parts):
        _add_part(sink, group, site, part, number + 1 == len(site.parts))


def _tensor(type: Any) -> TensorType:
    if isinstance(type, BufferType):
        return type.as_tensor()
    assert isinstance(type, TensorType)
    return type


def _touched(
    part: _Part, used: Sequence[KernelBuffer], numbers: Sequence[int], before: Touched
) -> Touched:
    """Counts what a part touches of ``used``, the pointers of these ``numbers``; ``before`` is what
    the maps behind it do."""
    touched = dict(before)
    for number, buffer in zip(numbers, used, strict=True):
        read = buffer.role not in ("result", "target")
        written = buffer.role != "operand"
        told = part.touched.get(buffer.name)
        count = buffer.count if told is None else told
        changed = count if written else ZERO
        if number in touched:
            touched[number] = touched[number]._replace(written=changed)
            continue
        if read and told is not None:  # which elements they are is data
            touched[number] = Touch(written=changed, gathered=told)
        else:
            touched[number] = Touch(count if read else ZERO, changed)
    return touched


def _add_part(sink: PlanSink, group: Group, site: KernelSite, part: _Part, last: bool) -> None:
    words = _names(part)
    used = [b for b in (*site.results, *site.operands, *site.temporaries) if b.name in words]
    follows = site.follows if site.finish in words else None
    numbers = list(range(len(used)))
    if follows is not None:  # the pointers of what follows come first, and the result is one
        used.remove(site.results[0])
        numbers = list(range(len(follows.values), len(follows.values) + len(used)))
        used.append(site.results[0])
        numbers.append(follows.result)
    symbols = [s for n, s in enumerate(site.symbols) if f"s{n}" in words]
    node = site.op.origins[0] if site.op.origins else ""

    touched = _touched(part, used, numbers, {} if follows is None else touched_of(follows.kernel))
    extent = ONE if part.serial and site.target == "cuda" else part.extent
    printed: Printed
    if site.target == "c":
        printed = _print_c(site, part, used, numbers, symbols, node)
        kernels = None
    else:
        made = _print_cuda(site, part, used, symbols, node)
        parts = Parts(extent, part.threads, part.block, part.shared)
        printed, kernels = made, GpuKernels([made], parts)
    pointers = [b.slot for b in used]
    if follows is not None:
        pointers = [*sink.slots_of(follows.values), *pointers[:-1]]
    launch = Items(
        part.extent,
        part.work,
        part.scratch,
        serial=part.serial,
        total=part.total,
        products="ctx->lib" in part.text,
    )
    step = sink.add(
        group,
        "kernel",
        printed,
        pointers,
        launch if kernels is None else None,
        extent,
        touching=Counted(touched),
        computed=None if last else (),
        gpu=kernels,
    )
    if site.op.name in CUSTOM:
        step.arguments = _arguments(site, used)
    if group.binds:
        step.binds = Binds(site.results[0].slot, site.op.id)
    if last:
        whole = {b.slot: None for b in (*site.results, *site.operands)}
        step.keeps = tuple(slot for slot in whole if slot not in step.pointers)
    if part.name:
        step.name = f"{step.name}_{part.name}"

    def in_place(target: int, source: int) -> Step | None:
        """The same where the first operand is the memory of the result."""
        if len(site.results) != 1 or used[target] is not site.results[0]:
            return None
        if len(site.operands) < 2 or used[source] is not site.operands[0] or site.in_place:
            return None
        # no more of the result is written than there are updates, the second operand
        results = [replace(site.results[0], count=site.operands[1].count)]
        other = replace(
            site, results=results, parts=[], temporaries=[], headers=[], symbols=[],
            in_place=True, known=site.temporaries,
        )  # fmt: skip
        write = OPSET[site.op.name].kernel
        assert write is not None
        write(other)
        number = site.parts.index(part)
        same = len(other.parts) == len(site.parts)
        if not same or _names(other.parts[number]) & {used[source].name}:
            return None
        made = sink.apart(lambda: _add_part(sink, group, other, other.parts[number], last))
        made.keeps = step.keeps
        return made

    if follows is None:
        sink.let_in_place(step, in_place)


def _arguments(site: KernelSite, used: Sequence[KernelBuffer]) -> tuple[KernelArgument, ...]:
    """The kind of each of the pointers ``used``, as the declaration of the user's op names them."""
    bound = bound_of([buffer.type for buffer in site.operands], site.attrs)
    declared = bound.declared
    shared = [each.name for each in declared.temporaries if bound.holds(each.condition)]
    names = dict(
        zip(
            (buffer.name for buffer in (*site.results, *site.operands, *site.temporaries)),
            (*(a.name for a in (*declared.results, *declared.operands)), *shared),
            strict=True,
        )
    )
    return tuple(
        KernelArgument(
            names[buffer.name],
            buffer.count,
            buffer.dtype.size_in_bytes,
            buffer.role != "result",
            buffer.role != "operand",
        )
        for buffer in used
    )


def _names(part: _Part) -> set[str]:
    """The words of the text of ``part``."""
    return set(_WORD.findall("\n".join((part.before, part.text, part.after))))


def _renamed(text: str, site: KernelSite, symbols: list[str]) -> str:
    """``text`` with the sizes numbered as the part has them: equal parts are equal text."""
    numbers = {f"s{site.symbols.index(s)}": f"s{n}" for n, s in enumerate(symbols)}
    return _WORD.sub(lambda m: numbers.get(m[0], m[0]), text)


def _write_lines(printer: Printer, text: str, node: str) -> None:
    for line in text.strip("\n").splitlines():
        printer.write(line, node)


def _print_c(
    site: KernelSite,
    part: _Part,
    used: list[KernelBuffer],
    numbers: list[int],
    symbols: list[str],
    node: str,
) -> Printed:
    printer = Printer(list(symbols))
    printer.begins = site.options.log_level == "trace"
    write = printer.write
    write.depth = 1
    follows = site.follows if site.finish in _names(part) else None
    for number, buffer in zip(numbers, used, strict=True):
        const = "const " if buffer.role == "operand" else ""
        kind = f"{const}{buffer.stored}"
        # What follows changes the result, so its pointer is not the only one there.
        alone = "RS " if follows is None or number != follows.result else ""
        write(f"{kind} *{alone}{buffer.name} = ({kind} *)b[{number}];")
    if part.before:
        _write_lines(printer, _renamed(part.before, site, symbols), node)
    with write.block("for (i64 i = lo; i < hi; i++)"):
        _write_lines(printer, _renamed(part.text, site, symbols), node)
    if part.after:
        _write_lines(printer, part.after, node)
    if part.faults:
        printer.checked.append(node)
    if follows is not None:
        assert not part.ahead
        assert not part.faults
        tile = f"p{follows.result}[row * {printer.poly(follows.columns)} + j]"
        return finish_with(printer, follows.kernel, tile)
    return finish(printer, f"int {NAME}{SIGNATURE} {{", ahead=part.ahead.splitlines())


def _print_cuda(
    site: KernelSite, part: _Part, used: list[KernelBuffer], symbols: list[str], node: str
) -> CudaPrinted:
    printer = CudaPrinter()
    printer.begins = site.options.log_level == "trace"
    printer.symbols = list(symbols)
    write = printer.write
    write.depth = 1
    pointers = []
    for buffer in used:
        const = "const " if buffer.role == "operand" else ""
        pointers.append(f"{const}{buffer.stored} *__restrict__ {buffer.name}")
    if any(word == site.shared for word in _WORD.findall(part.before + " " + part.text)):
        write(f"MX_DYN_SHARED(unsigned char, {site.shared});")
    if part.before:
        _write_lines(printer, _renamed(part.before, site, symbols), node)
    if part.serial:
        many = "for (i64 i = 0; i < " + printer.poly(part.extent) + "; i++)"
        head = many if part.block else f"if (blockIdx.x == 0 && threadIdx.x == 0) {many}"
    elif part.block:
        head = "for (i64 i = blockIdx.x; i < items; i += gridDim.x)"
    else:
        first = "(i64)blockIdx.x * blockDim.x + threadIdx.x"
        head = f"for (i64 i = {first}; i < items; i += (i64)gridDim.x * blockDim.x)"
    with write.block(head):
        _write_lines(printer, _renamed(part.text, site, symbols), node)
    if part.faults:
        printer.checked.append(node)
    headers = (*HEADERS, *site.headers)
    return finish_kernel(printer, pointers, part.threads, headers)
