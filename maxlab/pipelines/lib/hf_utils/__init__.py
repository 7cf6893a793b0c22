"""Models of Hugging Face: in folders, in the cache, and on hubs.

What lies on this machine is read without the network. Only a repository that the cache lacks, or
has in part, is asked of its hub: ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE``
mean what they mean to ``huggingface_hub``, which is imported then, and reads them once.
"""

from __future__ import annotations

from maxlab.pipelines.lib.config_enums import RepoType
from maxlab.pipelines.lib.hf_utils.access import validate_hf_repo_access
from maxlab.pipelines.lib.hf_utils.cache import generate_local_model_path
from maxlab.pipelines.lib.hf_utils.downloads import download_weight_files, try_to_load_from_cache
from maxlab.pipelines.lib.hf_utils.repo import HuggingFaceRepo

__all__ = [
    "HuggingFaceRepo",
    "RepoType",
    "download_weight_files",
    "generate_local_model_path",
    "try_to_load_from_cache",
    "validate_hf_repo_access",
]
