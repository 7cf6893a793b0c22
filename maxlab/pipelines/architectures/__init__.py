"""Architectures that maxlab brings: models of embeddings.

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
        >>> sorted(PIPELINE_REGISTRY.architectures)
        ['BertForMaskedLM', 'BertModel', 'MPNetForMaskedLM', 'MPNetModel']
    """
    from maxlab.pipelines.architectures import bert, mpnet
    from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY

    for architecture in (*bert.ARCHITECTURES, *mpnet.ARCHITECTURES):
        PIPELINE_REGISTRY.register(architecture)


__all__ = ["register_all_models"]
