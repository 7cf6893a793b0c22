"""Architectures that maxlab brings: models that write text, and models of embeddings.

``register_all_models`` makes them known to the registry.
"""

from __future__ import annotations


def register_all_models() -> None:
    """Registers every architecture that maxlab brings; calling it again changes nothing.

    Raises:
        InputError: ML171 (a ValueError), another architecture of one of their names is registered.

    Example:
        >>> from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
        >>> register_all_models()
        >>> sorted(PIPELINE_REGISTRY.architectures)[:3]
        ['BertForMaskedLM', 'BertModel', 'DeepseekV2ForCausalLM']
    """
    from maxlab.pipelines.architectures import (
        bert,
        deepseek_v2,
        gemma3,
        gpt_oss,
        granite,
        llama,
        mistral,
        mpnet,
        olmo,
        olmo2,
        phi3,
        qwen2,
        qwen2_5_vl,
        qwen3,
        qwen3_moe,
    )
    from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY

    texts = (gemma3, granite, llama, mistral, olmo, olmo2, phi3, qwen2, qwen2_5_vl, qwen3)
    experts = (deepseek_v2, gpt_oss, qwen3_moe)
    for module in (bert, mpnet, *texts, *experts):
        for architecture in module.ARCHITECTURES:
            PIPELINE_REGISTRY.register(architecture)


__all__ = ["register_all_models"]
