"""What a model with a cache could pretend to do, and the tests that tell.

An implementation can give the right numbers and still not do what it says: compute a prefix again
that it claims to have cached, or evaluate every expert. Each line of the table names a shortcut of
this kind, and the tests that fail where it is taken. This module checks that these tests are there,
run, and assert something.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

PROBES: dict[str, tuple[str, ...]] = {
    "each step computes the whole text again, and no cache is read": (
        "nn::test_steps_of_a_batch_are_what_is_computed_at_once",
        "pipelines/serving::test_a_step_computes_one_token_of_each_request_in_one_run",
    ),
    "pages are one block of memory in order, whatever the page table says": (
        "nn/kernels::test_a_write_touches_new_tokens_of_one_layer",
        "nn/kernels::test_causal",
    ),
    "a ragged batch is padded to its longest sequence": (
        "nn/kernels::test_short_sequences_are_not_padded",
    ),
    "a cached prefix is counted as a hit, and computed all the same": (
        "nn::test_a_prefix_of_another_sequence_is_not_computed_again",
        "nn/kv_cache::test_free_pages_are_poisoned_and_so_is_what_is_evicted",
        "pipelines/serving::test_a_prefix_of_others_is_not_computed_again",
    ),
    "pages with equal tokens are shared, whatever text, image or adapter is before them": (
        "nn/kv_cache::test_full_pages_of_a_prefix_are_found",
        "nn/kv_cache::test_images_keep_prefixes_apart",
        "nn/kv_cache::test_adapters_share_nothing",
    ),
    "a batch is a loop over single requests": (
        "pipelines/serving::test_a_step_computes_one_token_of_each_request_in_one_run",
    ),
    "several steps are a loop of single ones, with the host between them": (
        "pipelines/serving::test_several_steps_copy_their_tokens_to_the_host_once",
        "pipelines/serving::test_drawn_tokens_go_into_the_next_step_as_they_are",
    ),
    "packed weights become floats when a model is loaded": (
        "nn::test_weights_stay_packed_in_memory",
        "nn::test_weights_stay_packed_in_memory",
        "nn/float8::test_the_weight_stays_of_8_bits",
        "nn/float8::test_weights_stay_bytes",
        "nn/moe::test_weights_stay_of_8_bits",
    ),
    "numbers of 8 and 16 bits are float32 from the beginning to the end": (
        "nn/float8::test_casts_round_once",
        "nn/float8::test_a_given_scale",
        "nn::test_rms_norm_rounds_where_it_is_told",
    ),
    "a mixture of experts evaluates all of them": (
        "nn/moe::test_only_chosen_experts_are_computed_and_read",
        "nn/moe::test_work_follows_the_tokens",
    ),
    "an adapter is added to the weights of the base": (
        "nn::test_attention_by_the_adapter_of_each_sequence",
        "nn/kernels::test_adapters_of_several_ranks_and_the_base_in_one_batch",
        "pipelines/decoders::test_the_base_and_two_adapters_in_one_batch",
    ),
    "latent attention caches keys and values of all heads": (
        "nn/kv_cache::test_latent_vectors_have_one_part",
        "pipelines/decoders::test_the_cache_has_one_vector_of_a_token",
    ),
    "a sliding window is plain causal attention, and chunks are a window": (
        "nn/attention::test_windows_and_chunks_are_those_of_transformers",
        "nn/kernels::test_masks",
    ),
    "answers are repaired, or drawn again, until they fit their schema": (
        "pipelines/serving::test_masks_are_there_for_schemas_only",
        "pipelines/serving::test_answers_fit_their_schema_beside_free_ones",
        "pipelines/sampling::test_a_bitmask_leaves_what_it_allows",
    ),
    "penalties stay as they were before the first of several steps": (
        "pipelines/sampling::test_penalties_see_the_tokens_of_earlier_steps",
    ),
    "a seed is not used, or draws depend on the place in the batch": (
        "nn/kernels::test_a_row_is_drawn_alone_as_in_a_batch",
        "nn/kernels::test_seeds_make_different_draws",
        "pipelines/serving::test_a_seed_decides_a_request_alone",
    ),
    "min_p, top_p and processors of logits are taken and not used": (
        "nn/sampling::test_draws_have_the_analytic_distribution",
        "nn/kernels::test_draws_have_the_analytic_distribution",
        "nn/kernels::test_the_numbers_of_a_call_decide_what_is_drawn",
        "pipelines/sampling::test_draws_of_many_requests_have_the_distribution",
        "pipelines/serving::test_processors_change_the_logits_of_their_request",
    ),
    "tokens of a draft are taken although the target would not draw them": (
        "nn/sampling::test_greedy_tokens_are_those_of_the_target_for_any_draft",
        "nn/sampling::test_one_token_has_the_distribution_of_the_target",
        "nn/sampling::test_later_tokens_have_the_distribution_of_the_target",
    ),
    "each device gets the whole weight, and a sum over devices is what the first one has": (
        "devices::test_no_device_gets_the_whole_weight",
        "devices::test_allreduce_adds_what_all_have",
        "nn::test_shards_of_mlp_add_up",
    ),
    "pages never run out, because there come more": (
        "nn/kv_cache::test_the_tail_of_the_oldest_prefix_is_evicted_first",
        "nn/kv_cache::test_a_reservation_that_fails_changes_nothing",
        "pipelines/serving::test_pages_that_run_out_are_given_to_the_older_requests",
    ),
    "epsilons, offsets of weights, clips and multipliers are the default ones": (
        "nn::test_layer_norm",
        "nn::test_rms_norm",
        "nn::test_linear_cuts_its_weights",
        "pipelines/decoders::test_logits_and_tokens_are_those_of_transformers",
    ),
    "another library runs the model": ("pipelines/decoders::test_a_model_runs_without_torch",),
    "a body that is called for each layer is compiled for each of them": (
        "nn::test_code_does_not_grow_with_the_number_of_layers",
        "nn::test_each_call_has_weights_of_its_own",
    ),
    "hooks see the outermost layer alone, and print no values of a run": (
        "nn::test_hooks_see_every_nested_call_with_bound_arguments",
        "nn::test_every_call_is_printed_and_written",
    ),
    "settings, releases and cancellations do nothing": (
        "pipelines::test_the_readers_read",
        "pipelines::test_settings_that_nobody_reads_are_refused",
        "nn/kv_cache::test_requests_wait_for_pages_and_get_them_all_back",
        "pipelines/serving::test_threads_ask_and_cancel_at_random",
    ),
    "attention holds the scores of all pairs of tokens": ("nn/kernels::test_no_matrix_of_scores",),
}
"""The shortcut, and tests that fail where it is taken, by their folders in ``tests``."""

Known = dict[str, ast.FunctionDef]


@functools.cache
def modules(folder: str) -> tuple[Known, ...]:
    """The functions of each test module in a folder, by name."""
    found = []
    for file in sorted((TESTS / folder).glob("test_*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        found.append({node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)})
    return tuple(found)


def module_of(test: str) -> tuple[str, Known]:
    """The name of ``test``, and the functions of its module."""
    folder, _, name = test.partition("::")
    found = [known for known in modules(folder) if name in known]
    assert len(found) >= 1, f"{test} is gone: name the test that tells now"
    return name, found[0]


@pytest.mark.parametrize("shortcut", PROBES)
def test_each_shortcut_has_its_tests(shortcut: str) -> None:
    tests = PROBES[shortcut]
    assert tests
    for test in tests:
        name, known = module_of(test)
        assert name.startswith("test_")
        marks = " ".join(ast.unparse(mark) for mark in known[name].decorator_list)
        assert ".skip" not in marks, test
        assert "xfail" not in marks, test


def test_no_test_is_without_a_check() -> None:
    """A test that is named asserts itself, raises, or calls a function of its module that does."""
    for test in sorted({test for tests in PROBES.values() for test in tests}):
        name, known = module_of(test)
        helpers = [known[called] for called in _called(known[name]) if called in known]
        assert any(_checks(function) for function in (known[name], *helpers)), test


def _checks(function: ast.FunctionDef) -> bool:
    """Whether there is an assertion in it."""
    text = ast.unparse(function)
    return "assert" in text or "pytest.raises" in text


def _called(function: ast.FunctionDef) -> set[str]:
    """The names of the functions that it calls."""
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {call.id for call in calls if isinstance(call, ast.Name)}
