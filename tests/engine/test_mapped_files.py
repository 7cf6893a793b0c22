"""Weight files that change while they are mapped: typed errors, never the end of the process.

The scenarios run in forks of one child process; see ``mapped_scenarios``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.engine.mapped_scenarios import SCENARIOS

FAILS = "WeightError+ExecutionError: "
CHANGED, LOST = "[ML639]", "[ML641]"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("mapped")
    command = [sys.executable, "-m", "tests.engine.mapped_scenarios", str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def parts(outcomes: dict[str, str], name: str) -> list[str]:
    return outcomes[name].split(" | ")


def refused(said: str, file: str = "model.safetensors", weight: str = "w") -> bool:
    """Whether the error is of both kinds, and names the file and the weight."""
    return (
        said.startswith(FAILS)
        and (CHANGED in said or LOST in said)
        and file in said
        and repr(weight) in said
    )


@pytest.mark.parametrize(
    "name",
    [
        "cut_before_it_is_loaded",
        "cut_before_it_is_loaded_and_not_packed",
        "cut_before_its_data_is_asked_for",
        "cut_between_data_and_astype",
        "a_packed_weight",
        "a_gpu_before_it_is_loaded",
    ],
)
def test_a_file_that_was_cut_is_refused(outcomes: dict[str, str], name: str) -> None:
    assert refused(outcomes[name]), outcomes[name]


@pytest.mark.parametrize(
    "name",
    [
        "cut_between_load_and_run",
        "cut_right_before_a_run",
        "cut_right_before_a_run_of_two_threads",
        "a_model_in_stages",
        "a_gpu_between_load_and_run",
        "a_weight_that_moves_to_a_gpu_in_each_run",
    ],
)
def test_a_run_fails_and_so_do_all_later_ones(outcomes: dict[str, str], name: str) -> None:
    first, *later = parts(outcomes, name)
    assert first == "fine"
    assert later
    assert all(map(refused, later)), later


def test_a_file_cut_to_nothing_names_the_first_weight(outcomes: dict[str, str]) -> None:
    first, *later = parts(outcomes, "cut_to_nothing")
    assert first == "fine"
    assert all(said.startswith(FAILS) and "model.safetensors" in said for said in later), later


@pytest.mark.parametrize("name", ["cut_during_a_loop", "cut_during_a_loop_of_two_threads"])
def test_a_run_that_is_going_on_fails(outcomes: dict[str, str], name: str) -> None:
    assert all(map(refused, parts(outcomes, name))), outcomes[name]


def test_a_lost_page_stays_lost_until_the_file_is_loaded_again(outcomes: dict[str, str]) -> None:
    first, again, fresh = parts(outcomes, "cut_and_made_whole_again")
    assert refused(first), first
    assert refused(again), again
    assert fresh == "fine"


def test_another_file_of_the_same_name_changes_nothing(outcomes: dict[str, str]) -> None:
    assert outcomes["replaced_by_another_file"] == "True"
    assert outcomes["deleted"] == "fine"


def test_a_file_that_was_written_over(outcomes: dict[str, str]) -> None:
    for said in parts(outcomes, "written_over_in_place"):
        assert said.startswith(FAILS)
        assert CHANGED in said
        assert "model.safetensors" in said


def test_the_file_that_is_named_is_the_one_that_was_cut(outcomes: dict[str, str]) -> None:
    said = outcomes["the_right_one_of_two_files"]
    assert refused(said, "w.safetensors"), said
    assert "u.safetensors" not in said


def test_models_of_other_files_go_on(outcomes: dict[str, str]) -> None:
    lost, kept = parts(outcomes, "another_model_goes_on")
    assert refused(lost, "lost.safetensors"), lost
    assert kept == "True"


@pytest.mark.parametrize("kind", ["gguf", "pt"])
def test_the_other_formats(outcomes: dict[str, str], kind: str) -> None:
    assert refused(outcomes[f"cut_{kind}"], f"model.{kind}"), outcomes[f"cut_{kind}"]


@pytest.mark.parametrize("kind", ["safetensors", "gguf", "pt"])
def test_private_weights_do_not_need_their_file(outcomes: dict[str, str], kind: str) -> None:
    assert parts(outcomes, f"a_private_{kind}") == ["True", "False"]


def test_numpy_reads_zeros_and_we_say_so_where_we_read(outcomes: dict[str, str]) -> None:
    survived, refusal = parts(outcomes, "numpy_reads_it")
    assert survived == "True"
    assert refused(refusal), refusal
    assert refused(outcomes["a_tensor_reads_it"]), outcomes["a_tensor_reads_it"]
    assert outcomes["a_state_dict_is_saved"].startswith(FAILS)


def test_tensors_that_are_mapped(outcomes: dict[str, str]) -> None:
    first, later = parts(outcomes, "a_mapped_tensor_is_a_weight")
    assert first == "fine"
    assert refused(later, "raw"), later
    *given, others = parts(outcomes, "a_mapped_tensor")
    assert all(said.startswith(FAILS) and "raw has 4096 bytes" in said for said in given), given
    assert others == "fine"


def test_what_is_written_to_a_lost_page_is_kept(outcomes: dict[str, str]) -> None:
    first, kept, later = parts(outcomes, "a_tensor_that_is_written_to")
    assert (first, kept) == ("fine", "True")
    assert later.startswith(FAILS)
    assert "raw has 4096 bytes" in later


def test_faults_come_to_an_end(outcomes: dict[str, str]) -> None:
    total, pieces, refusal = parts(outcomes, "pages_from_the_end")
    assert (total, pieces) == ("0.0", "0"), "the whole file is given up"
    assert refused(refusal), refusal


def test_weights_are_read_without_a_compiler(outcomes: dict[str, str]) -> None:
    assert outcomes["without_a_compiler"] == "True"


def test_a_later_faulthandler_does_not_take_the_guard_away(outcomes: dict[str, str]) -> None:
    assert refused(outcomes["dumps_are_switched_on_later"]), outcomes["dumps_are_switched_on_later"]


def test_faults_of_others_end_as_they_did(outcomes: dict[str, str]) -> None:
    assert outcomes["a_fault_of_somebody_else"] == "died of SIGBUS"
    assert outcomes["a_fault_of_somebody_else_with_dumps"] == "died of SIGBUS with a dump"
    assert outcomes["a_signal_from_outside"] == "True"


def test_all_scenarios_are_looked_at(outcomes: dict[str, str]) -> None:
    assert set(outcomes) == set(SCENARIOS)
