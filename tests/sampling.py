"""Seeded samples of the big families of tests: what a push runs of them, and how it says so.

A *family* is a test module, or one test function of it, with hundreds of cases that are alike, of
which each push runs a sample. ``--all`` runs them whole, as does naming a case's own id on the
command line. Which cases a sample has is decided by a seed: the commit that is tested, unless
``--sample-seed`` or ``MAXLAB_SAMPLE_SEED`` gives another. So one commit always runs the same cases,
and many commits run all of them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Family:
    """Tests whose ids begin with one of ``prefixes``; a push runs ``share`` of each group's cases,
    and of each group ``least``, or all that it has; of a ``share`` of 0, none. A group is what
    shares an id before the first ``split`` in it: by default the cases of one test function.
    Without a ``split``, the family is one group. Of ``whole`` groups a push runs ``share``, each of
    them whole: what the tests of a group do leads to the next ones."""

    name: str
    prefixes: str | tuple[str, ...]
    share: Fraction
    split: str = "["
    least: int = 1
    whole: bool = False

    def fit(self, nodeid: str) -> int:
        """The length of the longest prefix that ``nodeid`` begins with; 0 without any."""
        prefixes = (self.prefixes,) if isinstance(self.prefixes, str) else self.prefixes
        return max((len(prefix) for prefix in prefixes if nodeid.startswith(prefix)), default=0)

    def group(self, nodeid: str) -> str:
        """What the test is sampled together with."""
        return nodeid.partition(self.split)[0] if self.split else ""


_NONE = Fraction(0)
_HALF, _THIRD, _QUARTER, _SIXTH, _EIGHTH, _SIXTEENTH = (Fraction(1, n) for n in (2, 3, 4, 6, 8, 16))

FAMILIES: tuple[Family, ...] = (
    Family(
        "random cells that are edited",
        "tests/lab/code/test_random_cells.py::test_a_new_text_builds_the_edited_graph",
        Fraction(1, 20),
    ),
    Family("all other tests", "tests/", Fraction(1, 10)),
    # Whatever prints something else than before is found here.
    Family("pages that are run", "tests/test_how_to.py", Fraction(1)),
    Family(
        "tests that wait for others",
        ("tests/diagnostics/", "tests/driver_cuda/", "tests/lab/", "tests/toolchain/"),
        _EIGHTH,
    ),
    Family(
        "random steps of an editor",
        "tests/graph/test_editing.py::test_random_steps_are_whole_or_nothing_and_are_taken_back_exactly",
        _EIGHTH,
    ),
    Family(
        "random groups of an editor",
        "tests/graph/test_grouping.py::test_what_is_grouped_and_dissolved_computes_the_same",
        _EIGHTH,
    ),
    Family(
        "random sequences of edits, in twenties",
        "tests/lab/test_interleaved.py::test_any_sequence_that_is_undone_gives_the_first_document",
        Fraction(1, 50),
    ),
    Family(
        "long sequences of edits",
        (
            "tests/lab/test_interleaved.py::test_a_thousand_steps_are_undone_and_done_again",
            "tests/lab/test_interleaved.py::test_five_hundred_edits_in_a_row_come_in_order",
        ),
        _QUARTER,
        "",
    ),
    Family("answers of several machines", "tests/dask/", _QUARTER, ""),
    Family("ops on a GPU", "tests/cuda/test_ops.py", Fraction(1, 24)),
    Family("GPU products of awkward sizes", "tests/cuda/test_hostile_products.py", _SIXTEENTH),
    Family("GPU masks of attention", "tests/cuda/test_hostile_masks.py", _SIXTH),
    Family("GPU attention templates", "tests/cuda/test_attention_kernel.py", _SIXTEENTH),
    Family("GPU product templates", "tests/cuda/test_product.py", Fraction(1, 32)),
    Family("GPU templates in graphs", "tests/cuda/test_products.py", _SIXTH),
    Family("GPU options", "tests/cuda/test_options.py", _THIRD),
    Family("random programs on a GPU", "tests/cuda/test_random_programs.py", Fraction(1, 32)),
    Family(
        "kernels compiled for devices",
        (
            "tests/cuda/test_ops.py::test_all_kernels_compile_for_a_device",
            "tests/cuda/test_attention_kernel.py::test_devices_get_no_warning_and_no_spill",
            "tests/cuda/test_product.py::test_devices_get_no_warning_and_no_spill",
            "tests/sim/test_launch.py::test_nvcc_takes_the_same_text",
        ),
        Fraction(1, 24),
        "",
    ),
    Family("ops, one by one", "tests/compiler/test_matrix.py::test_op", _EIGHTH),
    Family("ops under each option", "tests/compiler/test_options.py", _SIXTEENTH),
    Family("variants of ops", "tests/compiler/test_variants.py", _EIGHTH),
    Family("ops written as Python", "tests/graph/code/test_every_op.py", _EIGHTH),
    Family("random graphs written as Python", "tests/graph/code/test_random_graphs.py", _EIGHTH),
    Family("models written as Python", "tests/graph/code/test_models.py", _QUARTER),
    Family(
        "random programs on tensors",
        "tests/experimental/test_random_programs.py",
        Fraction(1, 20),
    ),
    Family("random programs over the table", "tests/compiler/test_whole_table.py", _HALF),
    Family(
        "changed graphs",
        "tests/compiler/test_edits.py::test_a_change_is_compiled_like_the_whole",
        _THIRD,
    ),
    Family("packed operands", "tests/compiler/test_packed.py", _QUARTER),
    Family("options of sessions", "tests/engine/test_session_options.py", _QUARTER),
    Family("runs that are ended", "tests/engine/test_running.py", Fraction(1, 32), ""),
    Family("arrays shared with others", "tests/driver/test_dlpack.py", _QUARTER),
    Family("kernels that are interrupted", "tests/engine/test_interrupt.py", _SIXTH, ""),
    Family("analyses that find no fault", "tests/analysis/check/test_sound.py", _QUARTER),
    # gcc takes minutes for the library of products with its sanitizers.
    Family("kernels in C under the sanitizers", "tests/compiler/test_sanitizers.py", _NONE),
    Family("models as programs of C", "tests/exporting/", _SIXTH),
    Family("packed kernels in C", "tests/kernels_c/test_packed.py", _QUARTER),
    Family("products in C", "tests/kernels_c/test_gemm.py", _QUARTER),
    Family("operations of torch", "tests/torch_import/test_operations.py", _EIGHTH),
    Family("models under torch.compile", "tests/torch_compile/test_models.py", _QUARTER),
    Family("ops beside those of torch", "tests/opset/test_torch.py", _QUARTER),
    Family("browser tests", "tests/browser", Fraction(1, 10), "::", whole=True),
    # Each makes environments outside of the checkout, and installs Jupyter in them.
    Family(
        "a server as a process, and very many requests",
        (
            "tests/serve/test_life.py::test_it_completes_what_it_has_begun_and_ends",
            "tests/serve/test_how_to.py",
            "tests/serve/test_soak.py::test_very_many_requests_in_flat_memory",
        ),
        _NONE,
    ),
    Family("the wheel installed", "tests/browser/test_installed.py", _NONE),
    Family(
        "kernels for the architectures before and after",
        tuple(
            f"tests/cuda/test_{name}_kernels.py::test_they_compile_without_a_warning_or_a_spill[{arch}"
            for name in ("cache", "expert", "sampling")
            for arch in ("sm_80", "sm_100")
        ),
        _NONE,
    ),
    Family("a network by hand", "tests/browser/test_by_hand.py", _HALF, ""),
    Family(
        "ways to walk a notebook",
        "tests/browser/test_walks.py::test_walk",
        Fraction(1, 60),
        "",
    ),
    Family("hostile weight files", "tests/graph/test_weights_hostile.py", _HALF),
    Family("hostile input", "tests/hostile/test_table.py::test_cases", Fraction(1, 800)),
    Family("seeds of hostile input", "tests/hostile/test_table.py::test_seeds", _SIXTEENTH, ""),
    Family(
        "cells of CUDA, run in a notebook's kernel", "tests/lab/test_cuda_sim_magic.py", _QUARTER
    ),
    Family(
        "modules of slow tests",
        (
            "tests/analysis/check/",
            "tests/analysis/runs/",
            "tests/analysis/test_edit.py",
            "tests/analysis/test_graph_commands.py",
            "tests/compiler/test_cached.py",
            "tests/cuda/test_hostile.py",
            "tests/custom/test_guard.py",
            "tests/custom/test_opaque.py",
            "tests/driver/test_dlpack_hostile.py",
            "tests/engine/test_mapped_files.py",
            "tests/engine/test_progress.py",
            "tests/files/test_readers.py",
            "tests/graph/test_ops_dynamic.py",
            "tests/kernels_c/test_executor.py",
            "tests/models/test_minilm.py",
            "tests/torch_compile/",
            "tests/torch_import/test_modules.py",
            "tests/torch_import/test_rare_tensors.py",
        ),
        _QUARTER,
        "",
    ),
    Family(
        "layers and models that write text",
        (
            "tests/nn/attention/",
            "tests/nn/float8/",
            "tests/nn/kernels/",
            "tests/nn/moe/",
            "tests/pipelines/decoders/",
            "tests/pipelines/serving/",
            "tests/pipelines/vision/test_how_to.py",
            "tests/pipelines/vision/test_qwen2_5_vl.py::test_numbers_of_16_bits",
        ),
        Fraction(1, 10),
        "",
    ),
    Family(
        "slow single tests",
        (
            "tests/analysis/test_edit.py::test_every_generated_kernel_of_a_graph",
            "tests/diagnostics/test_monitor.py::test_the_ring_is_bounded_and_what_is_left_is_whole",
            "tests/driver_cuda/test_models.py::test_on_the_fake_driver",
            "tests/analysis/runs/test_hostile_runs.py::test_large_runs_are_saved_and_loaded",
            "tests/kernels_c/test_prelude.py::test_coefficients_come_from_the_fits",
            "tests/kernels_c/test_packed.py::test_scratch_of_halves",
            "tests/kernels_c/test_executor.py::test_no_race_and_no_stray_access",
            "tests/lab/test_protocol.py::test_a_field_renamed_in_the_protocol_fails_mypy",
            (
                "tests/lab/test_protocol.py"
                "::test_a_field_renamed_in_the_protocol_fails_the_build_of_the_front_end"
            ),
            "tests/models/test_minilm.py::test_vectors_equal_those_of_transformers",
            "tests/test_gpu_check.py::test_a_dry_run_goes_through_every_stage",
            "tests/test_gpu_check.py::test_the_benchmarks_run_on_the_driver",
            "tests/torch_compile/test_backend.py::test_an_installed_maxlab_is_found_by_its_name",
            (
                "tests/torch_compile/test_hostile.py"
                "::test_ctrl_c_while_it_compiles_ends_the_call_and_nothing_else"
            ),
            "tests/torch_import/test_transformers.py::test_a_model_agrees_with_torch",
        ),
        _QUARTER,
        "",
    ),
)


@dataclass(slots=True)
class Sample:
    """What was chosen of the families, by name: ``(cases that run, cases there are)``."""

    seed: str
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """One line a family: how many of how many cases run."""
        return [
            f"{name}: {chosen} of {cases} cases"
            for name, (chosen, cases) in sorted(self.counts.items())
        ]


def seed_of(root: Path = ROOT) -> str:
    """The seed of a run that is given none: the commit of the checkout, ``"0"`` outside of one."""
    if given := os.environ.get("MAXLAB_SAMPLE_SEED"):
        return given
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short=12", "HEAD"],
            cwd=root,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "0"
    return done.stdout.strip() or "0"


def family_of(nodeid: str, families: Sequence[Family] = FAMILIES) -> Family | None:
    """The family of the test ``nodeid``: that with the longest prefix; None for tests of none."""
    best = max(families, key=lambda family: family.fit(nodeid), default=None)
    return best if best is not None and best.fit(nodeid) else None


def sample(
    nodeids: Sequence[str], seed: str, families: Sequence[Family] = FAMILIES
) -> tuple[set[str], Sample]:
    """The ids that run, and what was chosen of each family.

    Args:
        nodeids: All collected tests.
        seed: Decides which cases are chosen.
        families: What is sampled; every test of no family runs.
    """
    kept: set[str] = set()
    groups: dict[tuple[Family, str], list[str]] = {}
    for nodeid in nodeids:
        family = family_of(nodeid, families)
        if family is None:
            kept.add(nodeid)
        else:
            groups.setdefault((family, family.group(nodeid)), []).append(nodeid)
    made = Sample(seed)
    for (family, name), cases in groups.items():
        wanted = max(family.least, ceil(len(cases) * family.share)) if family.share else 0
        if family.whole:
            names = [group for one, group in groups if one is family]
            most = ceil(len(names) * family.share)
            wanted = len(cases) * (name in _first(seed, names, most))
        count = min(wanted, len(cases))
        kept.update(_first(seed, cases, count))
        chosen, total = made.counts.get(family.name, (0, 0))
        made.counts[family.name] = (chosen + count, total + len(cases))
    return kept, made


def _first(seed: str, names: Sequence[str], most: int) -> list[str]:
    """Those of ``names``, ``most`` at most, that the seed chooses."""
    return sorted(names, key=lambda name: _rank(seed, name))[:most]


def _rank(seed: str, nodeid: str) -> bytes:
    return hashlib.blake2b(f"{seed}\0{nodeid}".encode(), digest_size=8).digest()


def named_on(config: pytest.Config, nodeid: str) -> bool:
    """Whether the command line names this very case, which then runs whatever the sample is."""
    return any("[" in argument and nodeid.endswith(argument) for argument in config.args)


def chosen(request: pytest.FixtureRequest, test: object) -> list[dict[str, object]]:
    """The parameters of each case of the test function ``test`` that runs.

    For fixtures that ready all cases at once: what no case needs is not readied.
    """
    return [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is test
    ]
