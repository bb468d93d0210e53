"""Evaluates encoders with MTEB: ``mteb.evaluate(MtebEncoder("folder"), tasks=mteb.get_tasks(["STS12"]))``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from opencse.arrays import Embeddings
from opencse.encoder.encoder import SentenceEncoder
from opencse.encoder.fingerprint import fingerprint
from opencse.environment import require_packages
from opencse.errors import UserError
from opencse.foreign import checks_trust
from opencse.model_folder.locate import BUILTIN, locate
from opencse.modules.prompts import Role

if TYPE_CHECKING:
    from mteb.abstasks.task_metadata import TaskMetadata
    from mteb.models.model_meta import ModelMeta
    from mteb.types import Array, BatchedInput, PromptType
    from torch.utils.data import DataLoader

ORGANISATION = "opencse"


class MtebEncoder:
    """A sentence encoder with the interface of MTEB's ``EncoderProtocol`` (mteb 2.26).

    Vectors are compared by cosine. What MTEB calls queries and documents (in retrieval and reranking) is encoded by
    ``encode_query`` and ``encode_document``, everything else by ``encode``, with the prompts that the model's folder
    names. MTEB's own prompts and instructions are not used.

    MTEB takes cosines in float32, where texts of equal vectors need not tie exactly; its correlations then differ in
    the last digits from ours (by 0.002 points on 150 pairs, five of them with cosine 1).

    MTEB stores results by a model's name and revision, and does not repeat them. The revision is therefore a hash of
    the weights and of everything else that determines the vectors: a model that is trained again under its old name is
    evaluated again.

    Attributes:
        encoder: the encoder evaluated.
    """

    @checks_trust
    def __init__(
        self,
        model: str | Path | SentenceEncoder,
        revision: str | None = None,
        *,
        device: str | None = None,
        pooling: str | None = None,
        name: str | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        """Loads a model, or takes one that is loaded.

        Args:
            model: an encoder, or what ``SentenceEncoder.load`` takes.
            revision: recorded instead of the hash, for results of a release.
            device: where to run.
            pooling: replaces the model's own.
            name: recorded, ``organisation/model``; by default the Hub id, or ``opencse/`` and the folder's name.
            trust_remote_code: see ``SentenceEncoder.load``.

        Raises:
            UserError: if mteb is not installed, the model cannot be loaded, or the name is not of that form.
        """
        require_mteb()
        if isinstance(model, SentenceEncoder):
            self.encoder = model
        else:
            self.encoder = SentenceEncoder.load(
                model, device=device, pooling=pooling, trust_remote_code=trust_remote_code
            )
        full_name = name or _default_name(model)
        if full_name.count("/") != 1 or not all(part.strip() for part in full_name.split("/")):
            raise UserError(f"the name {full_name!r} is not of the form organisation/model, which mteb requires")
        self._meta = _meta(self.encoder, full_name, revision or fingerprint(self.encoder))

    @property
    def mteb_model_meta(self) -> ModelMeta:
        """The metadata that MTEB records; unknown fields (licence, training data) are None."""
        return self._meta

    def encode(
        self,
        inputs: DataLoader[BatchedInput],
        *,
        task_metadata: TaskMetadata,
        hf_split: str,
        hf_subset: str,
        prompt_type: PromptType | None = None,
        batch_size: int = 32,
        show_progress_bar: bool = False,
        precision: str = "float32",
    ) -> Embeddings:
        """Encodes the texts of a loader: (n, dimension).

        Of the other arguments, which MTEB passes, only ``prompt_type`` is used: vectors are float32, and the encoder
        forms its own batches.
        """
        texts = [text for batch in inputs for text in batch["text"]]
        role = Role.PLAIN if prompt_type is None else Role(prompt_type.value)
        return self.encoder.encode(texts, prompt=self.encoder.prompts.of(role))

    def similarity(self, embeddings1: Array, embeddings2: Array) -> torch.Tensor:
        """Returns the similarities (n, m) of every vector of one set (n, d) with every vector of the other (m, d)."""
        one, two = np.asarray(embeddings1, dtype=np.float32), np.asarray(embeddings2, dtype=np.float32)
        return torch.from_numpy(self.encoder.similarity_fn_name.matrix(np.atleast_2d(one), np.atleast_2d(two)))

    def similarity_pairwise(self, embeddings1: Array, embeddings2: Array) -> torch.Tensor:
        """Returns the similarities (n,) of row i of one set (n, d) with row i of the other."""
        one, two = np.asarray(embeddings1, dtype=np.float32), np.asarray(embeddings2, dtype=np.float32)
        function = self.encoder.similarity_fn_name
        return torch.from_numpy(function.of_pairs(function.prepared(one), function.prepared(two)).astype(np.float32))


def require_mteb() -> None:
    """Raises a ``UserError`` if mteb is not installed."""
    require_packages("opencse.evaluation.models.mteb", "mteb", "mteb")


def _default_name(model: str | Path | SentenceEncoder) -> str:
    if isinstance(model, SentenceEncoder):
        return f"{ORGANISATION}/{type(model.backbone).__name__}"
    if str(model) == BUILTIN:
        return f"{ORGANISATION}/{BUILTIN}"
    if Path(model).is_dir():
        return f"{ORGANISATION}/{Path(model).resolve().name}"
    return str(model) if "/" in str(model) else f"{ORGANISATION}/{locate(model).name}"


def _meta(encoder: SentenceEncoder, name: str, revision: str) -> ModelMeta:
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    weights = [*encoder.backbone.parameters(), *encoder.dense.parameters()]
    return ModelMeta(
        loader=None,
        name=name,
        revision=revision,
        release_date=None,
        languages=None,
        n_parameters=sum(weight.numel() for weight in weights),
        memory_usage_mb=sum(weight.numel() * weight.element_size() for weight in weights) / 2**20,
        max_tokens=encoder.max_length,
        embed_dim=encoder.dimension,
        license=None,
        open_weights=None,
        public_training_code=None,
        public_training_data=None,
        framework=["PyTorch"],
        similarity_fn_name=ScoringFunction(encoder.similarity_fn_name.value),
        use_instructions=False,
        training_datasets=None,
    )
