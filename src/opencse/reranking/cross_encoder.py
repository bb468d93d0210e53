"""Opens cross-encoders with one output from folders, and scores pairs of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from opencse.encoder.network import default_device, usable_device
from opencse.encoder.text_encoder import token_batches, usual_budget
from opencse.errors import UserError, shortened
from opencse.foreign import CLASSIFIER, checks_trust, own_code
from opencse.kernels.precision import PrecisionName
from opencse.model_folder.backbone import load_all_weights, load_config, position_limit
from opencse.model_folder.description import Stated, read_sentence_config
from opencse.model_folder.layout import SENTENCE_CONFIG, entry, module_folder, read_config, read_json
from opencse.model_folder.locate import locate
from opencse.modules.dense import ACTIVATION_PATHS, ACTIVATIONS
from opencse.modules.prompts import Role
from opencse.progress import Count, uncounted
from opencse.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


_ENDING = "ForSequenceClassification"
_PATHS = {path: name for name, path in ACTIVATION_PATHS.items()}
_PATHS |= {f"torch.nn.{path.rpartition('.')[2]}": name for path, name in _PATHS.items()}


@dataclass(frozen=True)
class CrossEncoderFolder:
    """The parts of a cross-encoder.

    Attributes:
        network: transformers' model, whose ``logits`` are (n, 1).
        tokenizer: of pairs of texts.
        max_length: longest pair in ids, special tokens included.
        activation: name of the function that turns a logit into the score; see `opencse.modules.dense.ACTIVATIONS`.
        prompt: put before the first text of each pair.
        own_code: classes of the folder's own code that are run.
    """

    network: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    activation: str
    prompt: str
    own_code: tuple[str, ...]


@checks_trust
def read_cross_encoder(model: str | Path, *, trust_remote_code: bool = False) -> CrossEncoderFolder:
    """Opens a cross-encoder in float32, on the CPU.

    Args:
        model: a folder or a Hub id.
        trust_remote_code: run the code that the folder brings.

    Raises:
        UserError: if there is no such model, it is no cross-encoder with one output, it has no tokenizer, or its folder
            asks for what is not supported.
    """
    folder = locate(model, code=trust_remote_code)
    transformer = _transformer_of(folder)
    config = load_config(transformer, trust_remote_code=trust_remote_code)
    _require_one_output(transformer, config)
    settings = read_sentence_config(transformer, "sequence-classification")
    if settings.lower_case:
        raise UserError(f"{transformer}: do_lower_case is not supported for cross-encoders; save it in the tokenizer")
    activation = _activation(folder, config)
    tokenizer = Tokenizer.load(transformer, trust_remote_code=trust_remote_code).hf
    if tokenizer.chat_template is not None:
        raise UserError(f"{transformer}: puts pairs into a chat template, which is not supported for cross-encoders")
    network = _load_network(transformer, config, trust_remote_code)
    limit = position_limit(network, tokenizer.model_max_length)
    return CrossEncoderFolder(
        network,
        tokenizer,
        limit if settings.max_length is None else min(limit, settings.max_length),
        activation,
        Stated(folder).prompts.of(Role.PLAIN),
        own_code(transformer, CLASSIFIER) if trust_remote_code else (),
    )


def _transformer_of(folder: Path) -> Path:
    """The folder of the only module."""
    path = folder / "modules.json"
    if not path.is_file():
        return folder
    listed = read_json(path)
    modules = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    kinds = [str(one.get("type")).rpartition(".")[2] for one in modules]
    if kinds != ["Transformer"]:
        raise UserError(
            f"{folder}: is no cross-encoder of a single Transformer module (modules.json lists "
            f"{', '.join(kinds) or 'none'}); give one that scores pairs of texts by sequence classification"
        )
    return module_folder(path, entry(path, modules[0], "path", str, ""))


def _require_one_output(folder: Path, config: PretrainedConfig) -> None:
    names = config.architectures or []
    if not any(name.endswith(_ENDING) for name in names):
        raise UserError(
            f"{folder}: is no cross-encoder: config.json names {', '.join(names) or 'no architecture'}, and one for "
            "sequence classification was expected"
        )
    if config.num_labels != 1:
        raise UserError(
            f"{folder}: has {config.num_labels} outputs (id2label in config.json); a cross-encoder that ranks has one"
        )


def _activation(folder: Path, config: PretrainedConfig) -> str:
    """The name of the activation; the sigmoid where the folder names none, as in sentence-transformers."""
    path = folder / SENTENCE_CONFIG
    sources = [
        (path, read_config(path).get("activation_fn")),
        (folder / "config.json", (getattr(config, "sentence_transformers", None) or {}).get("activation_fn")),
        (folder / "config.json", getattr(config, "sbert_ce_default_activation_function", None)),
    ]
    for source, value in sources:
        if value is None:
            continue
        if value not in _PATHS:
            known = ", ".join(ACTIVATION_PATHS.values())
            raise UserError(f"{source}: the activation {value!r} is not supported here; known: {known}")
        return _PATHS[value]
    return "sigmoid"


def _load_network(folder: Path, config: PretrainedConfig, trust_remote_code: bool) -> PreTrainedModel:
    from transformers import AutoModelForSequenceClassification

    network = load_all_weights(AutoModelForSequenceClassification, folder, config, trust_remote_code)
    network.train(False)
    return network


_WINDOW = 8_192
"""Pairs that are tokenised and sorted by length together."""


class CrossEncoder:
    """A model that reads two texts together and gives one score, such as those trained on MS MARCO.

    The scores are those of sentence-transformers' ``CrossEncoder.predict``: its prompt, its activation and the longest
    pair are as the folder says. Pairs of similar length are computed together.

    Example:
        >>> reranker = CrossEncoder.load("cross-encoder/ms-marco-MiniLM-L6-v2")  # doctest: +SKIP
        >>> reranker.scores([("how do cats sleep?", "A cat sleeps curled up.")])  # doctest: +SKIP
        array([4.1], dtype=float32)

    Args:
        folder: the parts, see `read_cross_encoder`.
        name: of the model, for messages and tables.
        device: where it runs.
        precision: ``float32`` or ``bf16``.
    """

    def __init__(
        self,
        folder: CrossEncoderFolder,
        *,
        name: str,
        device: torch.device,
        precision: PrecisionName = "float32",
    ) -> None:
        if precision not in ("float32", "bf16"):
            raise UserError(f"unknown precision {precision!r}; known: float32, bf16")
        self.name = name
        self.device = device
        self.max_length = folder.max_length
        self.own_code = folder.own_code
        self._precision = precision
        self._prompt = folder.prompt
        self._tokenizer = folder.tokenizer
        self._activation = ACTIVATIONS[folder.activation]()
        network: torch.nn.Module = folder.network
        self._network = network.to(device=device, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)

    @classmethod
    def load(
        cls,
        model: str | Path,
        *,
        device: str | torch.device | None = None,
        precision: PrecisionName = "float32",
        trust_remote_code: bool = False,
    ) -> CrossEncoder:
        """Opens a cross-encoder.

        Args:
            model: a folder of sentence-transformers or transformers, or a Hub id.
            device: where it runs; None: a GPU if there is one.
            precision: ``float32`` or ``bf16``.
            trust_remote_code: run the code that the folder brings; read it first.

        Raises:
            UserError: if it is no cross-encoder with one output; see `read_cross_encoder`.
        """
        runs_on = default_device() if device is None else usable_device(device)
        folder = read_cross_encoder(model, trust_remote_code=trust_remote_code)
        return cls(folder, name=str(model), device=runs_on, precision=precision)

    def scores(
        self, pairs: Sequence[tuple[str, str]], *, logits: bool = False, progress: Count = uncounted
    ) -> NDArray[np.float32]:
        """The score of each pair of texts.

        Args:
            pairs: n pairs, query first; longer ones are truncated, the longer text of a pair first.
            logits: scores before the activation.
            progress: called with (pairs done, n).

        Returns:
            (n,) float32.

        Raises:
            UserError: if a score is NaN or infinite.
        """
        scores = np.empty(len(pairs), dtype=np.float32)
        for start in range(0, len(pairs), _WINDOW):
            window = pairs[start : start + _WINDOW]
            computed = 0
            rows = self._tokenized(window)
            lengths = [len(ids) for ids in rows["input_ids"]]
            for batch in reversed(token_batches(lengths, usual_budget(self.device.type))):  # the longest first
                scores[start + batch] = self._scored(rows, batch, logits)
                computed += len(batch)
                progress(start + computed, len(pairs))
        if not np.isfinite(scores).all():
            query, text = pairs[int(np.argmin(np.isfinite(scores)))]
            fix = "try precision float32" if self._precision == "bf16" else "the weights of the model are damaged"
            pair = f"{shortened(query, 40)!r} and {shortened(text, 40)!r}"
            raise UserError(f"{self.name}: the score of {pair} is NaN or infinite; {fix}")
        return scores

    def _tokenized(self, pairs: Sequence[tuple[str, str]]) -> dict[str, list[list[int]]]:
        """The inputs of the network by name, a row of ids for each pair."""
        encoded = self._tokenizer(
            [self._prompt + first for first, _ in pairs],
            [second for _, second in pairs],
            truncation="longest_first",
            max_length=self.max_length,
        )
        return dict(encoded)

    def _scored(self, rows: dict[str, list[list[int]]], batch: NDArray[np.int64], logits: bool) -> NDArray[np.float32]:
        some = {name: [values[row] for row in batch.tolist()] for name, values in rows.items()}
        inputs = self._tokenizer.pad(some, return_tensors="pt").to(self.device)
        with torch.inference_mode():
            outputs = self._network(**inputs).logits[:, 0].float()
            scores: NDArray[np.float32] = (outputs if logits else self._activation(outputs)).cpu().numpy()
            return scores
