"""What an architecture must have, and how it is shown."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from maxlab.errors import InputError, InputTypeError
from maxlab.graph.weights import WeightsFormat
from maxlab.interfaces import PipelineTask, PipelineTokenizer
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.core import TextAndVisionContext, TextContext
from maxlab.pipelines.lib.config_enums import RopeType, SupportedEncoding
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.registry import PipelineRegistry, SupportedArchitecture
from tests.pipelines.tiny.bag_of_words import ARCHITECTURES, BagOfWords, WordTokenizer, rename

(GOOD,) = ARCHITECTURES


def changed(**fields: Any) -> SupportedArchitecture:
    return dataclasses.replace(GOOD, **fields)


def test_the_example_of_the_reference() -> None:
    MyModel, TextTokenizer = BagOfWords, WordTokenizer

    class weight_adapters:  # noqa: N801 - stands for a module of the reference's user
        convert_safetensor_state_dict = staticmethod(rename)

    my_architecture = SupportedArchitecture(
        name="MyModelForCausalLM",  # Must match your Hugging Face model class name
        example_repo_ids=[
            "your-org/your-model-name",  # Add example model repository IDs
        ],
        default_encoding=SupportedEncoding.q4_k,
        supported_encodings={
            SupportedEncoding.q4_k: [KVCacheStrategy.PAGED],
            SupportedEncoding.bfloat16: [KVCacheStrategy.PAGED],
            # Add other encodings your model supports
        },
        pipeline_model=MyModel,
        tokenizer=TextTokenizer,
        default_weights_format=WeightsFormat.safetensors,
        rope_type=RopeType.none,
        weight_adapters={
            WeightsFormat.safetensors: weight_adapters.convert_safetensor_state_dict,
            # Add other weight formats if needed
        },
        multi_gpu_supported=True,  # Set based on your implementation capabilities
        required_arguments={"some_arg": True},
        task=PipelineTask.TEXT_GENERATION,
    )
    registry = PipelineRegistry([my_architecture])
    assert registry.architectures == {"MyModelForCausalLM": my_architecture}


def test_the_example_of_validators_of_the_reference() -> None:
    def validate_single_image(context: TextContext | TextAndVisionContext) -> None:
        if isinstance(context, TextAndVisionContext):
            if context.pixel_values and len(context.pixel_values) > 1:
                raise InputError(f"Model supports only 1 image, got {len(context.pixel_values)}")

    assert changed(context_validators=[validate_single_image]).context_validators


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 3),
        ("example_repo_ids", "your-org/name"),
        ("example_repo_ids", [3]),
        ("default_encoding", "float32"),
        ("supported_encodings", [SupportedEncoding.float32]),
        ("supported_encodings", {"float32": []}),
        ("supported_encodings", {SupportedEncoding.float32: KVCacheStrategy.PAGED}),
        ("supported_encodings", {SupportedEncoding.float32: ["paged"]}),
        ("pipeline_model", object),
        ("pipeline_model", None),
        ("pipeline_model", "BagOfWords"),
        ("task", "embeddings_generation"),
        ("tokenizer", "WordTokenizer"),
        ("default_weights_format", "safetensors"),
        ("rope_type", "none"),
        ("weight_adapters", [rename]),
        ("weight_adapters", {"safetensors": rename}),
        ("weight_adapters", {WeightsFormat.safetensors: None}),
        ("multi_gpu_supported", 1),
        ("required_arguments", {"max_length": "8"}),
        ("required_arguments", {3: True}),
        ("context_validators", print),
        ("context_validators", [None]),
        ("supports_empty_batches", None),
    ],
)
def test_a_field_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(InputTypeError) as caught:
        changed(**{field: value})
    assert caught.value.code == "ML980"
    assert f"SupportedArchitecture.{field}" in caught.value.what


class Unfinished(PipelineModel[Any]):
    @classmethod
    def calculate_max_seq_len(cls, pipeline_config: Any, huggingface_config: Any) -> int:
        return 8


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"name": ""}, "ML981", "name"),
        ({"supported_encodings": {}}, "ML170", "float32"),
        ({"default_encoding": SupportedEncoding.bfloat16}, "ML170", "bfloat16"),
        (
            {"pipeline_model": Unfinished},
            "ML170",
            "execute, prepare_initial_token_inputs, prepare_next_token_inputs",
        ),
        ({"tokenizer": lambda model_path: None}, "ML170", "context_validators"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, Any], code: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        changed(**fields)
    assert caught.value.code == code
    assert said in caught.value.what


def test_the_class_of_the_tokenizer_is_found() -> None:
    part = functools.partial(functools.partial(WordTokenizer, max_length=3), context_validators=[])
    assert changed(tokenizer=part).tokenizer_cls is WordTokenizer
    assert GOOD.tokenizer_cls is WordTokenizer
    made = changed(tokenizer=lambda path, context_validators: None)
    assert made.tokenizer_cls is PipelineTokenizer


class Printer:
    """Takes text as IPython's printer does."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def text(self, text: str) -> None:
        self.lines += text.splitlines()


def printed(value: Any) -> list[str]:
    printer = Printer()
    value._repr_pretty_(printer, False)
    return printer.lines


def test_a_registry_is_a_table() -> None:
    both: Any = {SupportedEncoding.q4_k: [], SupportedEncoding.float32: []}
    other = changed(name="Another", supported_encodings=both, example_repo_ids=[])
    registry = PipelineRegistry([GOOD, other])
    title, head, *rows = printed(registry)
    assert title == repr(registry) == "PipelineRegistry(2 architectures)"
    assert head.split() == ["architecture", "task", "encodings", "files", "model", "examples"]
    assert [row.split()[0] for row in rows] == ["Another", "BagOfWords"]
    assert "float32 (default), q4_k" in rows[0]
    page = registry._repr_html_()
    assert page.count("<tr>") == 3
    assert '<th scope="row">Another</th>' in page
    assert "your-org/bag-of-words" in page
    assert printed(PipelineRegistry([])) == ["PipelineRegistry(0 architectures)"]
    assert "register()" in PipelineRegistry([])._repr_html_()


def test_an_architecture_is_a_table_of_its_fields() -> None:
    shown = changed(required_arguments={"max_length": 8})
    text = "\n".join(printed(shown))
    for word in ("embeddings_generation", "float32: no cache", "WordTokenizer", "max_length=8"):
        assert word in text
        assert word in shown._repr_html_()
    assert "no_more_than_six_words" in text


def test_names_are_text_and_no_markup() -> None:
    shown = changed(name="<script>alert(1)</script>", example_repo_ids=["a&b", "\x1b[2J"])
    for page in (shown._repr_html_(), PipelineRegistry([shown])._repr_html_()):
        assert "<script>" not in page
        assert "&lt;script&gt;" in page
        assert "a&amp;b" in page
        assert "\x1b" not in page
