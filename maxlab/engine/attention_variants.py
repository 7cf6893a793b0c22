"""The variants of attention in float32 on the CPU: how many queries and keys are taken at once, and
whether keys and values are packed."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.toolchain import runtime
from maxlab.toolchain.variants import Case, Family, Trial, Variant, rounded
from maxlab.toolchain.variants.work import Work, cut

FLOAT = 4
LEAST_WORK = 4_000_000
"""Operations of attention from which on its variants are measured: some 40 µs of work."""
_MOST_WORK = 200_000_000
"""Operations of a trial."""
FEW = 4
"""Queries up to which nothing is packed (attention.c): there is one way then."""
KEYS = 512
"""Keys that are taken at once. Blocks of other sizes give other bits."""
HELD = 1 << 20
"""Floats of packed keys and values that a thread may keep for the other queries of a head."""
PACKED = 0
KEYS_IN_PLACE = 1
VALUES_IN_PLACE = 2
PACKED_ONCE = 4
_MOST_TURNED = 64
"""Queries up to which keys may be read where they are: what they give has to be turned."""


def _way(queries: int, way: int) -> Variant:
    packed = [name for name, bit in (("keys", KEYS_IN_PLACE), ("values", VALUES_IN_PLACE))
              if not way & bit]  # fmt: skip
    told = f"{' and '.join(packed)} packed" if packed else "in place"
    return Variant(
        f"{queries} queries, {told}{' once' if way & PACKED_ONCE else ''}", (queries, KEYS, way)
    )


def plan_of(variant: Variant, case: Case) -> tuple[int, int, int]:
    """The plan of ``attention_f32``: queries of an item, keys of a block, and what is read in
    place."""
    heads, queries, *_, threads = case
    library = runtime()
    size = library.ffi.new("i64 *")
    most, keys, way = variant.data
    library.products.mx_attention_cut(1, heads, queries, threads, most, size)
    return size[0], keys, way


class Attention(Family):
    """Attention: a case is how many heads all batches have, the queries and keys of one, the sizes
    of keys and of values, and the threads.

    The variants differ in the most queries of a block, in whether keys and values are packed for
    the products or read where they are, and in whether what is packed is kept for the other queries
    of a head. Each score and each number of the result is one chain of fused multiply-adds in all
    of them, so they give the same bits.
    """

    name = "attention"
    axes = ("heads", "queries", "keys", "size", "value_size", "threads")
    all_ways = (
        _way(96, PACKED),
        _way(96, VALUES_IN_PLACE),
        _way(96, VALUES_IN_PLACE | PACKED_ONCE),
        _way(96, PACKED | PACKED_ONCE),
        _way(48, VALUES_IN_PLACE),
        _way(256, VALUES_IN_PLACE),
        _way(32, KEYS_IN_PLACE | VALUES_IN_PLACE),
        _way(96, KEYS_IN_PLACE | VALUES_IN_PLACE),
    )

    def guess(self, case: Case) -> Variant:
        """The way that the library takes when nobody tells it."""
        heads, queries, keys, size, value_size, threads = case
        library = runtime()
        plan = library.ffi.new("i64[3]")
        library.products.mx_attention_plan(1, heads, queries, keys, size, value_size, threads, plan)
        return next(one for one in self.all_ways if one.data == (96, KEYS, plan[2]))

    def variants(self, case: Case) -> Sequence[Variant]:
        heads, queries, keys, size, value_size, _ = case
        guess = self.guess(case)
        work = 2 * heads * queries * keys * (size + value_size)
        if queries <= FEW or work < LEAST_WORK:
            return [guess]
        found: dict[tuple[int, ...], Variant] = {}
        for one in (guess, *self.all_ways):
            plan = plan_of(one, case)
            way = plan[2]
            packed = size * (not way & KEYS_IN_PLACE) + value_size * (not way & VALUES_IN_PLACE)
            is_held = queries > plan[0] and keys > KEYS and keys * packed <= HELD
            if one is guess or not (
                (way & PACKED_ONCE and not is_held)
                or (way & KEYS_IN_PLACE and queries > _MOST_TURNED)
            ):
                found.setdefault(plan, one)
        return list(found.values())

    def shape_class(self, case: Case) -> Case:
        *sizes, threads = case
        heads, queries, keys, size, value_size = map(rounded, sizes)
        return heads, queries, keys, size, value_size, threads

    def trial(self, case: Case) -> Trial:
        heads, queries, keys, size, value_size, _ = case
        plans = {one.name: plan_of(one, case) for one in self.variants(case)}
        most = max(_MOST_WORK // (2 * (size + value_size)), 1)
        queries, keys = cut([(queries, 192), (keys, 1024)], most)
        items = max(1, min(heads, most // (queries * keys)))
        library = runtime()
        shapes = queries * value_size, queries * size, keys * size, keys * value_size
        address = library.address("mx_k_attention")
        work = Work(library, address, [items * shape * FLOAT for shape in shapes])
        given, scratch = library.ffi.new("i64[3]"), 0
        for plan in plans.values():
            given[0:3] = plan
            room = library.products.mx_attention_scratch(keys, size, value_size, given)
            scratch = max(scratch, room)

        def run(variant: Variant) -> None:
            plan = plans[variant.name]
            extent = items * -(-queries // plan[0])
            work.run((items, queries, keys, size, value_size, *plan), extent, scratch)

        return Trial(run, f"{items} heads of {queries} queries and {keys} keys, {size} wide")


ATTENTION = Attention()

__all__ = ["ATTENTION", "plan_of"]
