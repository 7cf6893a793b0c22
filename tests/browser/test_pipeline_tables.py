"""What pipelines show in JupyterLab: configurations, memory, folders, prompts, architectures and
caches, read on light and on dark pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.browser.documents import write_notebook
from tests.browser.page import LabPage
from tests.browser.server import LabServer
from tests.pipelines.config import folders
from tests.pipelines.tokenizer import trained

pytestmark = pytest.mark.browser

TABLES = """\
import numpy as np
from IPython.display import display
from maxlab.driver import CPU
from maxlab.dtype import DType
from maxlab.interfaces import RequestID
from maxlab.nn.attention import MHAMaskVariant, attention_mask
from maxlab.nn.kv_cache import KVCacheParams, PagedKVCacheManager
from maxlab.nn.rotary_embedding import RotaryEmbedding
from maxlab.pipelines import PIPELINE_REGISTRY, HuggingFaceRepo, PipelineConfig
from maxlab.pipelines.architectures import register_all_models
from maxlab.pipelines.core import TextContext
from maxlab.pipelines.lib.tokenizer import TextTokenizer

register_all_models()
config = PipelineConfig(model_path={path!r}, max_batch_size=4)
template = "{{% for m in messages %}}<s>{{{{ m.role }}}}: {{{{ m.content }}}}</s>{{% endfor %}}"
tokenizer = TextTokenizer({path!r}, chat_template=template)
params = KVCacheParams(DType.float32, n_kv_heads=2, head_dim=8, page_size=128,
                       enable_prefix_caching=True)
manager = PagedKVCacheManager(params, max_batch_size=4, max_seq_len=512, num_layers=2,
                              devices=[CPU()])
for name in ("first", "second"):
    context = TextContext(max_length=512, tokens=np.arange(320), request_id=RequestID(name))
    manager.claim(context.request_id)
    manager.alloc(context)
    context.update(7)
    manager.step([context])
display(config, config.estimate_memory(on="H100"), HuggingFaceRepo({path!r}))
display(tokenizer.explain([{{"role": "user", "content": "a quick fox"}}]), PIPELINE_REGISTRY)
display(manager, attention_mask(MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK, 8,
        local_window_size=3),
        RotaryEmbedding(64, 4, 10000.0, 128).frequencies)"""


@pytest.mark.parametrize("width", [900])
def test_tables(lab: LabPage, server: LabServer, theme: str, width: int, tmp_path: Path) -> None:
    path = folders.model(tmp_path / "model")
    trained.folder(Path(path))
    lab.page.set_viewport_size({"width": width, "height": 1000})
    lab.open_notebook(write_notebook(server.root, f"tables-{theme}.ipynb", []))
    shown = lab.run_code(TABLES.format(path=path))
    assert len(shown) == 8, json.dumps(shown)[:2000]
    place = lab.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-OutputArea-child")
    for number in range(place.count()):
        place.nth(number).scroll_into_view_if_needed()
        lab.shot(f"tables-{theme}-{width}-{number}")
    assert lab.barriers(".jp-OutputArea-output") == []
    assert [one for one in lab.contrast(".jp-OutputArea-output") if one[1] < 4.5] == []
    wide = "nodes => nodes.filter(n => n.scrollWidth > n.clientWidth + 1).length"
    assert place.locator(".jp-RenderedHTMLCommon").evaluate_all(wide) == 0
    assert lab.errors == []
