"""Writes an encoder as one ONNX graph: ids and mask in, L2-normalised vectors out."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError, reason
from opencse.export.runtime import IDS, MASK, VECTORS
from opencse.modules.similarity import Similarity
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


def random_tokens(encoder: SentenceEncoder, rows: int, length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random ids and mask (rows, length); the first row is full, the others have random lengths from 1."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, length + 1, (rows, 1), generator=generator)
    lengths[0] = length
    mask = (torch.arange(length) < lengths).long()
    ids = torch.randint(encoder.tokenizer.vocabulary_size, (rows, length), generator=generator)
    ids[ids == encoder.tokenizer.pad_id] = (encoder.tokenizer.pad_id + 1) % encoder.tokenizer.vocabulary_size
    return torch.where(mask == 1, ids, encoder.tokenizer.pad_id), mask


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
                random_tokens(encoder, 3, min(5, encoder.max_length)),
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
    """Hides the messages of the exporter; failures are exceptions."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
