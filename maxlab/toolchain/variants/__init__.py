"""Variants of kernels, chosen by a short timing on this machine.

A `Family` does its work in several ways, its `Variant` objects: blocks of other sizes, other
instructions, another algorithm. `choose` says which one to take for given sizes: at first the
family's own guess; and once a thread beside has timed the variants, for a few milliseconds, the
fastest one. The verdict is kept in the cache for all processes on machines with this CPU.

``MAXLAB_VARIANTS`` says how, and `use` does so from Python:

* ``on``: as above. A model takes the faster variant from one run to the next.
* ``off``: always the guess; nothing is measured or read.
* ``deterministic``: what is not known is measured before the first run, and then never again, so
  that all runs of all processes that share a cache take the same variant. Variants that give other
  bits than the guess are left out.

All variants that maxlab has give the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from maxlab.config import VARIANTS, config, set_config
from maxlab.errors import ArgumentError, shown
from maxlab.toolchain.variants.choosing import Choice, State, choose, forget, wait
from maxlab.toolchain.variants.family import Case, Family, Trial, Variant, rounded
from maxlab.toolchain.variants.verdicts import Verdict


def use(how: str) -> str:
    """How variants were chosen before; from now on as ``how`` says: ``"on"``, ``"off"`` or
    ``"deterministic"``. Models keep what they have chosen for sizes that they ran with.

    Raises:
        ArgumentError: ML225, ``how`` is something else.

    Example:
        >>> from maxlab.toolchain import variants
        >>> before = variants.use("off")
        >>> variants.use(before)
        'off'
    """
    if how not in VARIANTS:
        raise ArgumentError(
            "ML225",
            f"variants are chosen in one of the ways {', '.join(VARIANTS)}, got {shown(how)}",
            fix='pass "on", "off" or "deterministic"',
        )
    return set_config(replace(config(), variants=how)).variants


__all__ = [
    "Case",
    "Choice",
    "Family",
    "State",
    "Trial",
    "Variant",
    "Verdict",
    "choose",
    "forget",
    "rounded",
    "use",
    "wait",
]
