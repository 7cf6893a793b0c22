"""Choices of a pipeline: the encoding of its weights, its rotary embedding, its role, and where its
model lies."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from maxlab.dtype import DType
from maxlab.graph.quantization import QuantizationEncoding

if TYPE_CHECKING:
    from maxlab.driver import DeviceSpec

DeviceType = Literal["cpu", "gpu"]


class RepoType(StrEnum):
    """Where the files of a model lie."""

    online = "online"
    """On a Hugging Face hub, or in the cache of files downloaded from one."""
    local = "local"
    """In a folder of this machine."""


class RopeType(StrEnum):
    """How rotary embeddings pair and scale the numbers of a head."""

    none = "none"
    """There are no rotary embeddings, or the architecture chooses them itself."""
    normal = "normal"
    """Neighbours are a pair: numbers 0 and 1, 2 and 3."""
    neox = "neox"
    """The halves are paired: number 0 with the first of the second half."""
    longrope = "longrope"
    """Two lists of factors, for short and for long texts."""
    yarn = "yarn"
    """Frequencies are interpolated by their wavelength."""


class PipelineRole(StrEnum):
    """Which steps of text generation a pipeline serves.

    Example:
        >>> PipelineRole("prefill_only").uses_decode
        False
    """

    prefill_and_decode = "prefill_and_decode"
    """Prompts, and the tokens that follow."""
    prefill_only = "prefill_only"
    """Prompts alone; another pipeline continues them."""
    decode_only = "decode_only"
    """The tokens that follow a prompt which another pipeline has read."""

    # The same three, as they are written in programs for MAX.
    PrefillAndDecode = "prefill_and_decode"
    PrefillOnly = "prefill_only"
    DecodeOnly = "decode_only"

    @property
    def uses_prefill(self) -> bool:
        """True if the pipeline reads prompts."""
        return self is not PipelineRole.decode_only

    @property
    def uses_decode(self) -> bool:
        """True if the pipeline makes the tokens that follow a prompt."""
        return self is not PipelineRole.prefill_only


class SupportedEncoding(StrEnum):
    """How the weights of a model are stored.

    Example:
        >>> encoding = SupportedEncoding("q4_k")
        >>> encoding.dtype, encoding.cache_dtype, encoding.quantization_encoding
        (DType.uint8, DType.float32, <QuantizationEncoding.Q4_K: 'Q4_K'>)
    """

    float32 = "float32"
    """Numbers of 32 bits."""
    float16 = "float16"
    """Numbers of 16 bits, as IEEE 754 has them; MAX has no such encoding."""
    bfloat16 = "bfloat16"
    """Numbers of 16 bits with the exponent of ``float32``."""
    q4_0 = "q4_0"
    """Blocks of a GGUF file, 4 bits a number; 32 share a scale."""
    q4_k = "q4_k"
    """Blocks of a GGUF file, 4 bits a number; 256 make a block."""
    q5_k = "q5_k"
    """Blocks of a GGUF file, 5 bits a number; 256 make a block. MAX has no such encoding."""
    q6_k = "q6_k"
    """Blocks of a GGUF file, 6 bits a number; 256 make a block."""
    float8_e4m3fn = "float8_e4m3fn"
    """Numbers of 8 bits: a sign, 4 bits of exponent, 3 bits of fraction."""
    gptq = "gptq"
    """Groups of integers of few bits in safetensors files, as GPTQ packs them."""

    @classmethod
    def parse_from_file_name(cls, name: str) -> SupportedEncoding | None:
        """The encoding that the name of a file tells; None where it tells none of these.

        The name is read in whole words, divided by anything but letters, digits and ``_``, and
        whatever folders come before it are left out. Of ``q4_k`` the variants count too, such as
        ``q4_k_m``.

        Example:
            >>> SupportedEncoding.parse_from_file_name("llama-3.1-8b-instruct-Q4_K_M.gguf")
            <SupportedEncoding.q4_k: 'q4_k'>
            >>> SupportedEncoding.parse_from_file_name("model.safetensors") is None
            True
        """
        base = re.split(r"[/\\]", name.lower())[-1]
        words = re.split(r"[^a-z0-9_]+", base)
        for word in reversed(words):  # the last says most: gptq-4bit-f32.gguf
            found = _FILE_WORDS.fullmatch(word)
            if found is not None:
                return next(cls(_SPELLINGS[text]) for text in found.groups() if text)
        return None

    @property
    def quantization_encoding(self) -> QuantizationEncoding | None:
        """The encoding of quantised weights in graphs; None for plain numbers."""
        return _FACTS[self].quantization

    @property
    def dtype(self) -> DType:
        """The dtype of the stored weights; ``uint8`` for quantised ones."""
        return _FACTS[self].dtype

    @property
    def cache_dtype(self) -> DType:
        """The dtype of cached keys and values, which is that of the activations."""
        return _FACTS[self].cache

    @property
    def is_float8(self) -> bool:
        """True if the weights are floats of 8 bits."""
        return self.dtype.is_float8()

    @property
    def is_quantized(self) -> bool:
        """True if the weights are integers that share scales."""
        return self.quantization_encoding is not None

    @property
    def supported_devices(self) -> tuple[DeviceType, ...]:
        """The types of devices that maxlab has kernels for; none where the encoding can be named
        and read, but not computed with."""
        return _FACTS[self].devices

    def supported_on(self, device_spec: DeviceSpec) -> bool:
        """True if maxlab has kernels for the encoding on the device.

        Example:
            >>> from maxlab.driver import DeviceSpec
            >>> SupportedEncoding.q4_k.supported_on(DeviceSpec.cpu())
            True
        """
        return device_spec.device_type in self.supported_devices


@dataclass(frozen=True, slots=True)
class _Facts:
    dtype: DType
    cache: DType
    quantization: QuantizationEncoding | None = None
    devices: tuple[DeviceType, ...] = ("cpu", "gpu")


_FACTS = {
    SupportedEncoding.float32: _Facts(DType.float32, DType.float32),
    SupportedEncoding.float16: _Facts(DType.float16, DType.float16),
    SupportedEncoding.bfloat16: _Facts(DType.bfloat16, DType.bfloat16),
    SupportedEncoding.q4_0: _Facts(DType.uint8, DType.float32, QuantizationEncoding.Q4_0),
    SupportedEncoding.q4_k: _Facts(DType.uint8, DType.float32, QuantizationEncoding.Q4_K),
    SupportedEncoding.q5_k: _Facts(DType.uint8, DType.float32, QuantizationEncoding.Q5_K),
    SupportedEncoding.q6_k: _Facts(DType.uint8, DType.float32, QuantizationEncoding.Q6_K),
    SupportedEncoding.float8_e4m3fn: _Facts(DType.float8_e4m3fn, DType.bfloat16),
    SupportedEncoding.gptq: _Facts(DType.uint8, DType.bfloat16, QuantizationEncoding.GPTQ),
}

_SPELLINGS = {
    **{str(encoding): encoding for encoding in SupportedEncoding},
    "f32": SupportedEncoding.float32,
    "fp32": SupportedEncoding.float32,
    "f16": SupportedEncoding.float16,
    "fp16": SupportedEncoding.float16,
    "bf16": SupportedEncoding.bfloat16,
    "fp8": SupportedEncoding.float8_e4m3fn,
    "f8_e4m3": SupportedEncoding.float8_e4m3fn,
    "float8": SupportedEncoding.float8_e4m3fn,
}
_FILE_WORDS = re.compile(f"(?:.*_)?({'|'.join(sorted(_SPELLINGS, key=len, reverse=True))})(?:_.*)?")

__all__ = ["DeviceType", "PipelineRole", "RepoType", "RopeType", "SupportedEncoding"]
