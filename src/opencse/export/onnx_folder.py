"""Writes an encoder as an ONNX graph with tokenizer and description, in 8 bits if requested, checked against torch."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from opencse.encoder.card import front_matter
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.errors import UserError, reason
from opencse.evaluation.embedding import Encode
from opencse.evaluation.pairs import ScoredPairs
from opencse.export.runtime import DESCRIPTION, GRAPH, IDS, MASK, TOKENIZER, VECTORS, OnnxEncoder
from opencse.files import moving_in, write_text
from opencse.markdown import as_text, without_home
from opencse.modules.prompts import Role
from opencse.modules.similarity import Similarity
from opencse.numerals import number_of
from opencse.outputs import require_empty
from opencse.progress import Progress
from opencse.records import save_json
from opencse.statistics.correlation import cosine_of_rows, spearman
from opencse.text.tokenizer import Tokens


def exported_normalized(encoder: SentenceEncoder) -> bool:
    """Whether an export L2-normalises: always for a model that compares by cosine, else only where the model does."""
    return encoder.normalize or encoder.similarity_fn_name is Similarity.COSINE


class SentenceGraph(nn.Module):
    """The module that is exported: backbone, pooling, dense layers and L2 normalisation.

    A text without a single token has the zero vector, as in `SentenceEncoder.encode`.
    """

    def __init__(self, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """(rows, length) ids and mask, int64, padding on the right -> (rows, dimension) float32."""
        encoder = self.encoder
        layers = encoder.pooling.layers(encoder.depth)
        several = len(layers) > 1
        output = encoder.backbone(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=several, return_dict=True
        )
        states = [output.hidden_states[layer] for layer in layers] if several else [output.last_hidden_state]
        vectors = encoder.dense(encoder.pool(states, Tokens(input_ids, attention_mask)))
        filled = attention_mask.sum(dim=1, keepdim=True) > 0
        unit = nn.functional.normalize(vectors, dim=-1) if exported_normalized(encoder) else vectors
        return torch.where(filled, unit, torch.zeros_like(unit))


_EXAMPLE = 3, 5
"""Rows and length of the batch that the graph is traced with."""


def write_graph(encoder: SentenceEncoder, file: Path) -> None:
    """Writes the graph of ``encoder``, which is on the CPU and in evaluation mode, with dynamic rows and length.

    Raises:
        UserError: where torch cannot export the backbone.
    """
    rows, length = torch.export.Dim("rows"), torch.export.Dim("length", max=encoder.max_length)
    shape = {0: rows, 1: length}
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                SentenceGraph(encoder).eval(),
                (torch.ones(_EXAMPLE, dtype=torch.int64), torch.ones(_EXAMPLE, dtype=torch.int64)),
                dynamo=True,
                input_names=[IDS, MASK],
                output_names=[VECTORS],
                dynamic_shapes={IDS: shape, MASK: shape},
                verbose=False,
            )
            if program is None:
                raise RuntimeError("torch gave no graph")
            program.save(str(file))
    except OSError as error:
        raise UserError(f"{file}: cannot be written ({reason(error)})") from error
    except Exception as error:
        raise UserError(
            f"a {encoder.backbone.config.model_type} model cannot be exported to ONNX ({reason(error)}); models of "
            "BERT's, RoBERTa's and MPNet's kind can"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Hides the messages of the exporter and advice to preprocess its graph; failures are exceptions."""
    loggers = [logging.getLogger(name) for name in (None, "torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    silent = logging.NullHandler()  # without a handler, `logging.warning` would leave one on stderr for good
    levels = [logger.level for logger in loggers]
    try:
        loggers[0].addHandler(silent)
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        loggers[0].removeHandler(silent)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@dataclass(frozen=True)
class Int8Loss:
    """The loss of quality in 8 bits.

    Attributes:
        texts: number of texts that were encoded both ways.
        cosine: mean cosine of a text's int8 vector and its float32 vector.
        worst_cosine: the smallest.
        ranking: Spearman correlation (x 100) of the cosines of neighbouring texts, int8 against float32.
        pairs: name of the graded pairs.
        float32: Spearman (x 100) on the graded pairs in float32.
        int8: the same in int8.
    """

    texts: int
    cosine: float
    worst_cosine: float
    ranking: float
    pairs: str
    float32: float
    int8: float

    def lines(self) -> list[str]:
        """Lines for the user."""
        return [
            f"int8       cosine to float32 {self.cosine:.4f} on average, {self.worst_cosine:.4f} at worst, over "
            f"{number_of(self.texts, 'text')}; the ranks of their similarities agree to {self.ranking:.2f} (Spearman "
            "x 100)",
            f"int8       {self.int8:.2f} on {self.pairs} (Spearman x 100), float32 {self.float32:.2f}: "
            f"{self.int8 - self.float32:+.2f}",
        ]


def quantize(graph: Path, out: Path) -> None:
    """Writes ``graph`` with weights of 8 bits, one scale per row of output; activations are scaled at run time.

    Weights take 7 of the 8 bits: processors without VNNI would overflow on full ones.
    """
    from onnxruntime.quantization import quantize_dynamic

    with _quiet():
        quantize_dynamic(graph, out, per_channel=True, reduce_range=True)


FEWEST = 3
"""Smallest number of texts whose similarities can be ranked."""


def loss_of(exact: Encode, quantized: Encode, texts: Sequence[str], pairs: ScoredPairs) -> Int8Loss:
    """Measures the loss of quality in 8 bits.

    Args:
        exact: vectors of a list of texts in float32.
        quantized: the same in int8.
        texts: at least ``FEWEST``; the similarities of each text to the one before it are ranked.
        pairs: graded pairs.
    """
    vectors = [np.asarray(encode(list(texts))) for encode in (exact, quantized)]
    cosines = cosine_of_rows(*vectors)
    similar = [cosine_of_rows(rows, np.roll(rows, 1, axis=0)) for rows in vectors]
    correlations = [
        spearman(cosine_of_rows(np.asarray(encode(pairs.first)), np.asarray(encode(pairs.second))), pairs.scores)
        for encode in (exact, quantized)
    ]
    return Int8Loss(
        texts=len(texts),
        cosine=float(cosines.mean()),
        worst_cosine=float(cosines.min()),
        ranking=100 * spearman(similar[1], similar[0]),
        pairs=f"{pairs.name} ({number_of(len(pairs), 'pair')})",
        float32=100 * correlations[0],
        int8=100 * correlations[1],
    )


TOLERANCE = 1e-5
"""Largest difference from torch that a coordinate of a unit vector may have."""
EXAMPLE = """import json

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

FOLDER = "exported"
about = json.load(open(f"{FOLDER}/export.json"))
tokenizer = Tokenizer.from_file(f"{FOLDER}/tokenizer.json")  # truncates at max_length and pads
session = onnxruntime.InferenceSession(f"{FOLDER}/model.onnx")


def encode(texts, prompt=about["prompt"]):  # about["prompts"] has those for queries and documents
    rows = tokenizer.encode_batch([prompt + text for text in texts])
    inputs = {
        "input_ids": np.array([row.ids for row in rows], dtype=np.int64),
        "attention_mask": np.array([row.attention_mask for row in rows], dtype=np.int64),
    }
    return session.run(["sentence_embedding"], inputs)[0]  # (texts, dimension), L2-normalised


vectors = encode(["The valve leaks.", "Water drips from the valve.", "Call the office."])
print(np.round(vectors @ vectors.T, 4).tolist())
"""
_README = """# ONNX export of {model}

`model.onnx` takes token ids and attention mask to L2-normalised sentence vectors of {dimension} dimensions; pooling and
dense layers are in it. It needs `onnxruntime`, `tokenizers` and `numpy` alone. `export.json` says what was checked.

```python
{example}```

or, with batches of texts of similar length:

```python
from opencse.export.runtime import OnnxEncoder

encoder = OnnxEncoder("exported")
vectors = encoder.encode(["One sentence.", "Another one."])
```
{retrieval}
## Checked, and limits

{checked}- Texts of more than {max_length:,} ids are truncated.
- What holds for {model} holds for this: see its own card for how it was made, its scores and its limits.
"""


_RETRIEVAL = """
This model reads queries and documents with different prompts ({prompts}):

```python
queries = encoder.encode_query(["What is leaking?"])
documents = encoder.encode_document(["The valve leaks."])
```
"""


@dataclass(frozen=True)
class OnnxExport:
    """A report of an ONNX export.

    Attributes:
        folder: holds ``model.onnx``, ``tokenizer.json``, ``export.json`` and ``README.md``.
        dimension: length of a vector.
        difference: the largest difference of a coordinate on some texts, float32 graph against torch.
        int8: loss of quality in 8 bits, if they were requested.
        megabytes: of ``model.onnx``.
    """

    folder: Path
    dimension: int
    difference: float
    int8: Int8Loss | None
    megabytes: float


def write_onnx(
    encoder: SentenceEncoder,
    folder: Path,
    *,
    name: str,
    texts: Sequence[str],
    pairs: ScoredPairs | None,
    progress: Progress,
) -> OnnxExport:
    """Writes the graph of ``encoder`` and everything needed to run it, after comparing it with torch.

    Args:
        encoder: on the CPU, in evaluation mode.
        folder: a new or empty one.
        name: of the model, for the card.
        texts: real texts, on which tokenizer and graph are checked from end to end, and int8 is measured.
        pairs: graded pairs, on which int8 is measured; None writes the float32 graph.
        progress: is notified of each stage.

    Raises:
        UserError: where the backbone cannot be exported, its tokenizer has no file of the tokenizers library, the
            graph gives other vectors than torch, or the disk is full.
    """
    if not encoder.pool_prompt:
        raise UserError(
            f"{name}: its pooling leaves out the prompt's tokens (include_prompt is false), which an ONNX graph of ids "
            "and mask alone cannot do; use the model itself"
        )
    require_empty(folder)
    with moving_in(folder, last=(DESCRIPTION,)) as work:
        long = " ".join((list(texts) * 60)[:60])  # some hundred ids
        checked = [*texts, *encoder.tokenizer.hf.all_special_tokens, long]
        _write_tokenizer(encoder, work / TOKENIZER)
        prompts = {encoder.prompts.of(role) for role in Role}
        unit = exported_normalized(encoder)
        expected = {prompt: encoder.encode(checked, prompt=prompt, normalize_embeddings=unit) for prompt in prompts}
        progress.say("graph      exporting; this takes some seconds")
        write_graph(encoder, work / GRAPH)
        about = _description(encoder, name)
        write_text(work / DESCRIPTION, json.dumps(about))
        exact, difference = OnnxEncoder(work), 0.0
        for prompt, vectors in expected.items():
            exported = exact.encode(checked, prompt=prompt)
            difference = max(difference, _require_same(exported, vectors, f"on {number_of(len(texts), 'text')}"))
        progress.say(
            f"checked    against torch on {number_of(len(texts), 'text')}: no coordinate differs by more than "
            f"{difference:.1e}"
        )
        int8 = None
        if pairs is not None:
            (work / GRAPH).rename(work / "float32.onnx")
            quantize(work / "float32.onnx", work / GRAPH)
            int8 = loss_of(exact.encode, OnnxEncoder(work).encode, texts, pairs)
            for old in work.glob("float32.onnx*"):
                old.unlink()
        size = sum(file.stat().st_size for file in work.glob(f"{GRAPH}*")) / 1e6
        export = OnnxExport(folder, encoder.dimension, difference, int8, size)
        about |= {
            "precision": "float32" if int8 is None else "int8",
            "checks": {"against": "torch", "tolerance": TOLERANCE, "texts": len(texts)},
            "largest_difference": difference,
            "int8": None if int8 is None else asdict(int8),
        }
        write_text(work / "README.md", _card(encoder, name, difference, int8))
        save_json(work / DESCRIPTION, about)
    return export


def _card(encoder: SentenceEncoder, name: str, difference: float, int8: Int8Loss | None) -> str:
    checked = [f"The graph's vectors differ from torch's by at most {difference:.1e} in a coordinate."]
    checked += [] if int8 is None else [" ".join(line.split()) for line in int8.lines()]
    body = _README.format(
        model=as_text(name),
        dimension=encoder.dimension,
        example=EXAMPLE,
        retrieval=_RETRIEVAL.format(prompts=as_text(encoder.prompts.line(Role.QUERY, Role.DOCUMENT)))
        if encoder.prompts
        else "",
        checked="".join(f"- {line}\n" for line in checked),
        max_length=encoder.max_length,
    )
    return without_home(front_matter("onnx", ["onnx"], name) + body)


def _description(encoder: SentenceEncoder, name: str) -> dict[str, object]:
    packages = ("opencse", "torch", "transformers", "onnx", "onnxruntime")
    return {
        "model": name,
        "fingerprint": fingerprint(encoder),
        "dimension": encoder.dimension,
        "max_length": encoder.max_length,
        "max_characters": encoder.tokenizer.longest_text(encoder.max_length),
        "prompt": encoder.prompts.of(Role.PLAIN),
        **encoder.prompts.entries,
        "pooling": str(encoder.pooling),
        "normalized": exported_normalized(encoder),
        "similarity": encoder.similarity_fn_name.value,
        "inputs": [IDS, MASK],
        "output": VECTORS,
        "versions": {package: version(package) for package in packages},
    }


def _write_tokenizer(encoder: SentenceEncoder, file: Path) -> None:
    """Writes tokenizer.json with truncation and padding."""
    from tokenizers import Tokenizer

    hf, rust = encoder.tokenizer.hf, encoder.tokenizer.rust
    if rust is None:
        raise UserError(
            f"{hf.name_or_path or type(hf).__name__}: has no tokenizer.json (a tokenizer of Python alone), which ONNX "
            "users need; save the model with a fast tokenizer"
        )
    backend = Tokenizer.from_str(rust.backend.to_str())  # not that of hf, which adds [UNK] and [PAD] to a table's
    backend.enable_truncation(encoder.max_length, direction=hf.truncation_side)
    backend.enable_padding(pad_id=encoder.tokenizer.pad_id, pad_token=str(hf.pad_token))
    backend.save(str(file))


def _require_same(vectors: np.ndarray, expected: np.ndarray, where: str) -> float:
    difference = float(np.abs(vectors - expected).max())
    if not difference <= TOLERANCE:
        raise UserError(
            f"the ONNX graph differs from torch by {difference:.1e} {where}, more than {TOLERANCE:g}; nothing is "
            "written. Please report it with the model's name"
        )
    return difference
