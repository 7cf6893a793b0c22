"""Processes of their own: without a network, and with the variables that ``huggingface_hub`` reads
when it is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.hub.models import cached, config, folder, gguf_file, plain
from tests.pipelines.hub.server import Hub, Model

pytestmark = pytest.mark.oracle

OFFLINE = """
import json, sys
from pathlib import Path

asked = []

def hook(event, args):
    if event.startswith("socket.") and event not in ("socket.__new__",):
        asked.append(event)
        raise RuntimeError(f"the network is used: {event}")

sys.addaudithook(hook)
from maxlab.pipelines.lib import hf_utils

folder, told = sys.argv[1], {}
repo = hf_utils.HuggingFaceRepo(folder)
told["folder"] = [str(one) for one in repo.supported_encodings]
hf_utils.validate_hf_repo_access(folder, "main")
hf_utils.download_weight_files(folder, ["model.safetensors"])
told["imported"] = sorted({"huggingface_hub", "transformers", "torch"} & set(sys.modules))

for name in ("owner/tiny", "owner/gguf"):
    repo = hf_utils.HuggingFaceRepo(name)
    told[name] = [str(one) for one in repo.supported_encodings]
    for encoding in repo.supported_encodings:
        for files in repo.files_for_encoding(encoding).values():
            names = [str(file) for file in files]
            paths = hf_utils.download_weight_files(name, names, repo.revision)
            assert all(path.is_file() for path in paths)
            assert [repo.size_of(one) for one in names] == [path.stat().st_size for path in paths]
    hf_utils.validate_hf_repo_access(name, "main")
    assert repo.file_exists("generation_config.json") is False
    assert hf_utils.try_to_load_from_cache(name, "none.json", "main") is None
    assert Path(hf_utils.generate_local_model_path(name, "main")).is_dir()
    assert "in the cache" in str(repo) and repo._repr_html_()
told["asked"] = asked
print(json.dumps(told))
"""

ONLINE = """
import sys
from maxlab.pipelines.lib import hf_utils

repo = hf_utils.HuggingFaceRepo("owner/gated")
(path,) = hf_utils.download_weight_files(repo.repo_id, repo.weight_files[repo.formats_available[0]])
print(path)
"""


def run(program: str, *arguments: str, **environment: str) -> str:
    """The output of ``program``, without the variables of Hugging Face that this process has."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def test_a_folder_and_a_filled_cache_use_no_network(cache: Path, tmp_path: Path) -> None:
    root = folder(tmp_path / "model", {"model.safetensors": plain("BF16"), "config.json": config()})
    cached(cache, "owner/tiny", {"config.json": config(), "model.safetensors": plain("F16")})
    cached(cache, "owner/gguf", {"a-Q4_K_M.gguf": gguf_file({"w": ("Q4_K", 1)})})
    told = json.loads(
        run(OFFLINE, str(root), HF_HOME=str(tmp_path), HF_ENDPOINT="http://127.0.0.1:9")
    )
    assert told == {
        "folder": ["bfloat16"],
        "imported": [],
        "owner/tiny": ["float16"],
        "owner/gguf": ["q4_k"],
        "asked": [],
    }


def test_the_variables_of_hugging_face_are_followed(hub: Hub, tmp_path: Path) -> None:
    hub.models["owner/gated"] = Model({"model.safetensors": plain()}, token="mine", is_gated=True)
    home = tmp_path / "home"
    path = run(ONLINE, HF_HOME=str(home), HF_ENDPOINT=hub.url, HF_TOKEN="mine")
    assert Path(path).is_relative_to(home)
    assert Path(path).read_bytes() == plain()
    assert len(hub.asked) == 4, "a description for the object and the download each, and the file"
