"""The sentence encoder: opens and saves model folders, and encodes texts as vectors."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self, TypedDict, Unpack

import torch

from opencse.encoder.card import plain_card
from opencse.encoder.network import EncoderNetwork, default_device, usable_device
from opencse.foreign import checks_trust
from opencse.model_folder.description import describe
from opencse.model_folder.locate import BUILTIN, HubOptions, upload
from opencse.model_folder.without_torch import static_parts
from opencse.modules.pooling import Pooling


class LoadOptions(TypedDict, total=False):
    """Options of opening an encoder; see `SentenceEncoder`, which documents each."""

    pooling: str | Pooling | None
    template: str | None
    max_length: int | None
    dropout: float | None
    layers: int | None
    device: str | torch.device | None
    trust_remote_code: bool


class SentenceEncoder(EncoderNetwork):
    """Turns texts into vectors: ``SentenceEncoder("folder").encode(texts)``.

    Attributes:
        backbone: any transformers encoder.
        tokenizer: its tokenizer.
        pooling: from token vectors to a sentence vector.
        token_weights: what token vectors are multiplied by before pooling; None if all count the same.
        dense: layers kept at inference (supervised SimCSE's head, a reduction, a LayerNorm of the folder).
        projection: the head used in training only, or None.
        lm_head: the masked-LM head; None unless an objective has the MLM term.
        normalize: whether vectors are L2-normalised.
        max_length: longest text in ids, special tokens included; longer ones are truncated.
        prompts: what is put before texts, by what they are for; see `opencse.modules.prompts`.
        pool_prompt: whether pooling counts the tokens of the prompt (sentence-transformers' ``include_prompt``).
        similarity_fn_name: the function that vectors are compared by.
        lower_case: whether the tokenizer was made to lower-case (sentence-transformers' ``do_lower_case``).
        alone: the templates whose vectors training subtracts, before the dense layers and the training head.
        computation: what computes the training forward: transformers, or one of `opencse.kernels`.
        own_code: the classes from its folder's own Python code that it uses, if that code was trusted; see `load`.
        own_dropout: the dropout rates of the folder it was opened from; these are saved, not those of training.
        adapted: whether the backbone has adapters that are trained (`opencse.model_folder.adapters`).
        together: the processes that share the texts of `encode`; see `opencse.encoder.network`.

    Example:
        >>> encoder = SentenceEncoder("opencse-mini", device="cpu")
        >>> vectors = encoder.encode(["A dog runs.", "A dog is running.", "The tax is due."])
        >>> vectors.shape
        (3, 448)
        >>> [round(float(score), 1) for score in encoder.similarity(vectors[0], vectors)[0]]
        [1.0, 0.8, 0.2]
    """

    @checks_trust
    def __init__(
        self,
        model: str | Path = "opencse-mini",
        *,
        pooling: str | Pooling | None = None,
        template: str | None = None,
        max_length: int | None = None,
        dropout: float | None = None,
        layers: int | None = None,
        device: str | torch.device | None = None,
        trust_remote_code: bool = False,
    ) -> None:
        """Opens an encoder from a folder or Hub id: ours, sentence-transformers', or plain transformers'.

        Args:
            model: the built-in encoder's name, a folder, or a Hub id.
            pooling: replaces the folder's own; plain transformers folders have none and get ``mean``.
            template: every text is put into it (``This text "{text}" means {mask}.``); replaces the folder's own.
            max_length: replaces the folder's own.
            dropout: rate of every dropout of the backbone; None keeps the configuration's.
            layers: how many of the backbone's layers are kept, from the first on (0: its embeddings alone); None
                keeps all.
            device: where to put it; by default a GPU if there is one.
            trust_remote_code: run the Python code that the model's folder brings or names (``auto_map``), where there
                is any. It can do whatever you can; read it first.

        Raises:
            UserError: where nothing loadable is found, weights are missing, or there is no such device.
            TypeError: for a ``model`` that is neither a name nor a path.
        """
        from opencse.model_folder.reading import read_folder

        super().__init__()
        target = default_device() if device is None else usable_device(device)
        about = describe(model, code=trust_remote_code)
        read = partial(
            read_folder,
            model,
            about,
            pooling=pooling,
            template=template,
            max_length=max_length,
            dropout=dropout,
            layers=layers,
            trust_remote_code=trust_remote_code,
        )
        plain = model == BUILTIN and (template, max_length, dropout, layers) == (None,) * 4 and target.type == "cpu"
        words = static_parts(about, pooling) if plain else None
        if words is not None:  # not for other folders, which may be replaced before their network is asked for
            self._put_words(words, read)
            self.eval()
        else:
            self._assemble(read())
            self.to(target).eval()

    @classmethod
    def load(cls, model: str | Path = "opencse-mini", **options: Unpack[LoadOptions]) -> Self:
        """Opens an encoder; the same as calling the class, whose arguments it takes."""
        return cls(model, **options)

    def save(
        self, folder: str | Path, *, card: str = "", dtype: torch.dtype = torch.float32, masked_lm: bool = False
    ) -> None:
        """Writes sentence-transformers' folder layout, of stock modules only; training-only parts stay out.

        Adapters are merged into the weights, so that the folder opens everywhere; next to them, ``adapter/`` holds the
        adapters alone as peft writes them, for the model that training began with.

        Args:
            folder: made if it does not exist; an encoder that opencse wrote is replaced, other files stay.
            card: text of the model card (README.md).
            dtype: of the weights on disk.
            masked_lm: keep the masked-LM head too, so that masked-LM training can continue from the folder.

        Raises:
            UserError: if the folder cannot be written, the disk is full, or a file that opencse did not write would be
                replaced.

        Example:
            >>> encoder = SentenceEncoder("opencse-mini", device="cpu")
            >>> with TemporaryDirectory() as folder:
            ...     encoder.save(folder)
            ...     copy = SentenceEncoder(folder, device="cpu")
            >>> bool((copy.encode("A dog runs.") == encoder.encode("A dog runs.")).all())
            True
        """
        from opencse.model_folder.writing import write_folder

        merged = self.merged() if self.adapted else self
        write_folder(
            merged.parts,
            folder,
            card or plain_card(merged),
            dtype=dtype,
            lm_head=merged.lm_head if masked_lm else None,
            adapted=self.parts if self.adapted else None,
        )

    def push_to_hub(self, repo_id: str, *, card: str = "", **options: Unpack[HubOptions]) -> str:
        """Saves the encoder and puts it on the Hub with its card, in one commit.

        Args:
            repo_id: ``owner/name``; a bare name is put under the token's owner.
            card: text of the model card; by default what is known of the encoder.
            options: ``token``, ``private``, ``exist_ok``, ``revision``, ``create_pr``, ``commit_message``; see
                `opencse.model_folder.locate.HubOptions`.

        Returns:
            The address of the commit, or of the pull request.

        Raises:
            UserError: in one line, for a wrong name, no token, no network, or what the Hub refuses.
        """
        with TemporaryDirectory(prefix="opencse-") as folder:
            self.save(folder, card=card)
            return upload(Path(folder), repo_id, **options)
