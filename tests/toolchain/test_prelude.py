"""The prelude: its sections, and which of them a kernel gets."""

from __future__ import annotations

import pytest

from maxlab.errors import ToolchainError
from maxlab.toolchain import KernelSource, compile_units, kernels_dir, prelude_for
from maxlab.toolchain.prelude import Prelude, prelude

SAMPLE = """
// @section abi
typedef long long i64;
typedef struct mx_ctx {
  i64 a;
} mx_ctx;
#define RS __restrict
// @end
// @section bits needs abi
INL u32 bits(f32 x) { return helper(x); }
// @end
// @section exp needs bits
INL f32 mx_exp(f32 x) { return bits(x); }
// @end
// @section other needs abi
static inline __attribute__((unused)) int other_name(int x) {
  return x;
}
extern double erf(double);
// @end
"""


@pytest.mark.parametrize(
    ("text", "sections"),
    [
        ("", ["abi"]),
        ("x = mx_exp(y);", ["abi", "bits", "exp"]),
        ("x = mx_expand(y);", ["abi"]),
        ("bits(1)", ["abi", "bits"]),
        ("other_name(erf(2))", ["abi", "other"]),
    ],
)
def test_sections_are_closed_over_needs(text: str, sections: list[str]) -> None:
    assert [s.name for s in Prelude(SAMPLE).sections_for([text])] == sections


def test_names_of_a_section() -> None:
    found = Prelude(SAMPLE).sections
    assert found["abi"].defines == {"i64", "mx_ctx", "RS"}
    assert found["other"].defines == {"other_name", "erf"}


def test_sections_out_of_order_are_refused() -> None:
    with pytest.raises(ToolchainError, match=r"exp needs bits.*ML504"):
        _ = Prelude("// @section exp needs bits\n// @end\n// @section bits\n// @end\n").sections


def test_the_shipped_prelude_is_sound() -> None:
    sections = prelude().sections
    assert next(iter(sections)) == "abi"
    owners: dict[str, str] = {}
    for section in sections.values():
        assert section.defines, f"section {section.name} defines nothing"
        for name in section.defines:
            assert owners.setdefault(name, section.name) == section.name, f"{name} defined twice"
    assert {"i64", "mx_ctx", "mx_fn", "RS", "INL"} <= sections["abi"].defines
    assert (kernels_dir() / "c" / "mx_abi.h").is_file()


def test_every_section_compiles_with_what_it_needs() -> None:
    kernels = []
    for section in prelude().sections.values():
        text = (
            f"int k_section_{section.name}(void *const *b, const i64 *d, i64 lo, i64 hi, "
            "mx_ctx *ctx) { return 0; }"
        )
        uses = " ".join(sorted(section.defines))
        kernels.append(KernelSource(f"k_section_{section.name}", f"/* {uses} */\n{text}"))
    for kernel in kernels:  # the closure of each alone: a missing `needs` would not compile
        assert "int k_section" not in prelude_for(kernel.text)
    assert len(compile_units(kernels)) == len(kernels)
