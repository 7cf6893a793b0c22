"""The choices of a pipeline, by table."""

from __future__ import annotations

import pickle
from enum import StrEnum

import pytest

from maxlab.driver import DeviceSpec
from maxlab.dtype import DType
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.pipelines.lib.config_enums import PipelineRole, RepoType, RopeType, SupportedEncoding

CPU, GPU = DeviceSpec.cpu(), DeviceSpec.accelerator()
BOTH = ("cpu", "gpu")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (RepoType, "online local"),
        (RopeType, "none normal neox longrope yarn"),
        (PipelineRole, "prefill_and_decode prefill_only decode_only"),
        (
            SupportedEncoding,
            "float32 float16 bfloat16 q4_0 q4_k q5_k q6_k float8_e4m3fn gptq",
        ),
    ],
)
def test_members_are_their_texts(kind: type[StrEnum], values: str) -> None:
    assert [str(member) for member in kind] == values.split()
    for member in kind:
        assert member == member.value == member.name == f"{member}"
        assert kind(member.value) is member
        assert pickle.loads(pickle.dumps(member)) is member


def test_roles() -> None:
    assert [(role.uses_prefill, role.uses_decode) for role in PipelineRole] == [
        (True, True),
        (True, False),
        (False, True),
    ]
    assert PipelineRole["PrefillOnly"] is PipelineRole.prefill_only


@pytest.mark.parametrize(
    ("name", "dtype", "cache", "quantization", "devices"),
    [
        ("float32", DType.float32, DType.float32, None, BOTH),
        ("float16", DType.float16, DType.float16, None, BOTH),
        ("bfloat16", DType.bfloat16, DType.bfloat16, None, BOTH),
        ("q4_0", DType.uint8, DType.float32, QuantizationEncoding.Q4_0, BOTH),
        ("q4_k", DType.uint8, DType.float32, QuantizationEncoding.Q4_K, BOTH),
        ("q5_k", DType.uint8, DType.float32, QuantizationEncoding.Q5_K, BOTH),
        ("q6_k", DType.uint8, DType.float32, QuantizationEncoding.Q6_K, BOTH),
        ("float8_e4m3fn", DType.float8_e4m3fn, DType.bfloat16, None, BOTH),
        ("gptq", DType.uint8, DType.bfloat16, QuantizationEncoding.GPTQ, BOTH),
    ],
)
def test_facts_of_an_encoding(
    name: str,
    dtype: DType,
    cache: DType,
    quantization: QuantizationEncoding | None,
    devices: tuple[str, ...],
) -> None:
    encoding = SupportedEncoding(name)
    assert (encoding.dtype, encoding.cache_dtype) == (dtype, cache)
    assert encoding.quantization_encoding is quantization
    assert encoding.is_quantized == (quantization is not None)
    assert encoding.is_float8 == name.startswith("float8")
    assert encoding.supported_devices == devices
    assert encoding.supported_on(CPU) == ("cpu" in devices)
    assert encoding.supported_on(GPU) == ("gpu" in devices)


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("llama-3.1-8b-instruct-q4_k_m.gguf", "q4_k"),
        ("Llama-3.1-8B-Instruct-Q4_K_S.gguf", "q4_k"),
        ("model.Q4_0.gguf", "q4_0"),
        ("a/b/model-Q6_K.gguf", "q6_k"),
        ("model_q5_k_m.gguf", "q5_k"),
        ("x-bf16.gguf", "bfloat16"),
        ("x-BFLOAT16-00001-of-00003.safetensors", "bfloat16"),
        ("x-f32.gguf", "float32"),
        ("x_fp16.safetensors", "float16"),
        ("model-GPTQ.safetensors", "gptq"),
        ("model-fp8.safetensors", "float8_e4m3fn"),
        ("model-float8_e4m3fn.safetensors", "float8_e4m3fn"),
        # A folder or a neighbouring word says nothing of the file.
        ("f32/model.safetensors", None),
        ("f32\\model.safetensors", None),
        ("pdf32.safetensors", None),
        ("nf16x.bin", None),
        ("model-IQ4_XS.gguf", None),
        ("model.Q8_0.gguf", None),
        ("model.safetensors", None),
        ("", None),
    ],
)
def test_encodings_by_file_name(name: str, encoding: str | None) -> None:
    assert SupportedEncoding.parse_from_file_name(name) == encoding
