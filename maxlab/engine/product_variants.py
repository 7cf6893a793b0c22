"""The variants of products of float32 on the CPU: how they are cut into blocks, and whether the
right operands of batched ones are packed."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.toolchain import runtime
from maxlab.toolchain.variants import Case, Family, Trial, Variant, rounded
from maxlab.toolchain.variants.work import Work, cut

LEAST_WORK = 4_000_000
"""Operations of a product from which on its variants are measured: some 20 µs of work."""
_MOST_WORK = 600_000_000
"""Operations of a trial."""
_MOST_BYTES = 64 << 20
"""Bytes of the right operands of a trial."""
_PANEL = 32
_ROW_GROUP = 12
FLOAT = 4
FEW_COLUMNS = 128
"""Columns up to which the left operand of a product is not copied at first; export/model.c has the
number too."""
PACKED = 0
"""The way of a batched product whose right operands are packed (mx_abi.h)."""


def tile_of(variant: Variant, m: int, n: int, k: int, threads: int) -> tuple[int, int]:
    """Rows and columns of the tiles of an ``m`` × ``n`` product over ``k`` that threads share."""
    library = runtime()
    sizes = library.ffi.new("i64[2]")
    rows, panels = variant.data[:2]
    library.products.mx_gemm_tile(m, n, k, threads, rows, panels, sizes, sizes + 1)
    return max(sizes[0], 1), max(sizes[1], 1)


def _blocks(rows: int, columns: int, deep: int, *, copied: bool) -> Variant:
    name = f"{rows} x {columns}, depth {deep}, {'copied' if copied else 'in place'}"
    return Variant(name, (rows, columns // _PANEL, deep, int(not copied)))


class Products(Family):
    """Products with a packed right operand: a case is ``m``, ``n``, ``k`` and the threads.

    The variants differ in the largest tile of a thread, in rows and columns, in how deep the blocks
    are in which it is made, and in whether rows of the left operand are copied before they are
    read, which is worth it where they collide in the first cache. Each number of the result is one
    chain of fused multiply-adds over ``k`` in all of them, so they give the same bits.
    """

    name = "products"
    axes = ("m", "n", "k", "threads")
    copied = _blocks(128, 512, 384, copied=True)
    in_place = _blocks(128, 512, 384, copied=False)
    others = (
        _blocks(120, 128, 512, copied=False),
        _blocks(128, 256, 512, copied=False),
        _blocks(256, 256, 512, copied=False),
        _blocks(256, 1024, 512, copied=True),
    )

    def guess(self, n: int) -> Variant:
        """The guess for ``n`` columns: with few of them, what was copied is hardly read again."""
        return self.in_place if n <= FEW_COLUMNS else self.copied

    def variants(self, case: Case) -> Sequence[Variant]:
        m, n, k, threads = case
        guess = self.guess(n)
        found: dict[tuple[int, ...], Variant] = {}
        for one in (guess, self.in_place, self.copied, *self.others):
            key: tuple[int, ...] = tile_of(one, m, n, k, threads)
            if m > 2 * _ROW_GROUP:  # fewer rows are made otherwise, whatever the rest says
                deep, is_direct = one.data[2:]
                key += (-(-k // -(-max(k, 1) // deep)), is_direct)
            found.setdefault(key, one)
        return list(found.values())

    def shape_class(self, case: Case) -> Case:
        m, n, k, threads = case
        return rounded(m), rounded(n), rounded(k), threads

    def trial(self, case: Case) -> Trial:
        m, n, k, threads = case
        tiles = {one.name: tile_of(one, m, n, k, threads) for one in self.variants(case)}
        m, n, k = cut([(m, 288), (n, 1024), (k, 1024)], _MOST_WORK // 2)
        library = runtime()
        packed = library.products.mx_pack_b_size(k, n)
        address = library.address("mx_k_gemm")
        work = Work(library, address, [m * n * FLOAT, m * k * FLOAT, packed * FLOAT])

        def run(variant: Variant) -> None:
            rows, columns = tiles[variant.name]
            extent = -(-m // rows) * -(-n // columns)
            scratch = library.products.mx_gemm_scratch(m, n, k, rows, columns)
            work.run((m, n, k, rows, columns, *variant.data[2:]), extent, scratch)

        return Trial(run, f"{m} x {k} by {k} x {n}")


class Batched(Family):
    """Batched products whose right operands are stored row by row: a case is how many there are,
    and ``m``, ``n`` and ``k`` of one.

    Each right operand is packed before it is read, or read where it is. The bits are the same.
    """

    name = "batched-products"
    axes = ("items", "m", "n", "k")
    ways = (Variant("packed", (PACKED,)), Variant("in place", (1,)))

    def variants(self, case: Case) -> Sequence[Variant]:
        guess = runtime().products.mx_matmul_guess(*case[1:])
        return [self.ways[guess], self.ways[1 - guess]]

    def shape_class(self, case: Case) -> Case:
        items, m, n, k = map(rounded, case)
        return items, m, n, k

    def trial(self, case: Case) -> Trial:
        _, m, n, k = case
        m, n, k = cut([(m, 128), (n, 256), (k, 512)], _MOST_WORK // 2)
        most = _MOST_WORK // (2 * m * n * k), _MOST_BYTES // (FLOAT * k * n)
        items = max(1, min(case[0], *most))
        library = runtime()
        scratch = library.products.mx_matmul_scratch(m, n, k)
        sizes = [items * size * FLOAT for size in (m * n, m * k, k * n)]
        work = Work(library, library.address("mx_k_matmul"), sizes)

        def run(variant: Variant) -> None:
            work.run((m, n, k, *variant.data), items, scratch)

        return Trial(run, f"{items} of {m} x {k} by {k} x {n}")


PRODUCTS = Products()
BATCHED = Batched()

__all__ = ["BATCHED", "LEAST_WORK", "PACKED", "PRODUCTS", "tile_of"]
