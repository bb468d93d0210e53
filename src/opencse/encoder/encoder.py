"""The sentence encoder: opens and saves model folders, and encodes texts as vectors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, Self, Unpack, overload

import torch
from torch import Tensor

from opencse.arrays import Embeddings
from opencse.encoder.card import plain_card
from opencse.encoder.network import EncoderNetwork, default_device, encode_in_batches, encode_together, usable_device
from opencse.encoder.text_encoder import (
    Batching,
    ComparesTexts,
    EncodingOptions,
    LoadOptions,
    counted,
    require_options,
    require_sound_vectors,
    require_texts,
)
from opencse.encoder.text_encoder import token_budget as usual_budget
from opencse.foreign import checks_trust
from opencse.model_folder.locate import HubOptions, upload
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Role
from opencse.modules.similarity import unit_rows
from opencse.progress import Count
from opencse.text.values import as_list


class SentenceEncoder(ComparesTexts, EncoderNetwork):
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
        parts = read_folder(
            model,
            pooling=pooling,
            template=template,
            max_length=max_length,
            dropout=dropout,
            layers=layers,
            trust_remote_code=trust_remote_code,
        )
        self._assemble(parts)
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
        from opencse.model_folder.writing import Content, write_folder

        if masked_lm and self.lm_head is None:
            raise RuntimeError("the encoder has no masked-LM head to save")
        merged = self.merged() if self.adapted else self
        content = Content(merged.parts, card or plain_card(merged), merged.lm_head if masked_lm else None)
        adapted = Content(self.parts, card or plain_card(self)) if self.adapted else None
        write_folder(content, folder, dtype=dtype, adapted=adapted)

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
            TypeError: for an unknown option, before anything is saved or sent.
        """
        for name in options:
            if name not in HubOptions.__annotations__:
                raise TypeError(f"SentenceEncoder.push_to_hub() got an unexpected keyword argument {name!r}")
        with TemporaryDirectory(prefix="opencse-") as folder:
            self.save(folder, card=card)
            return upload(Path(folder), repo_id, **options)

    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings: ...

    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodingOptions],
    ) -> Tensor: ...

    @torch.inference_mode()
    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        batch_size: int | None = None,
        show_progress_bar: bool = False,
        normalize_embeddings: bool = False,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        precision: Literal["float32", "bf16"] = "float32",
        token_budget: int | None = None,
        progress: Count | None = None,
    ) -> Embeddings | Tensor:
        """Encodes texts as vectors, in their order.

        Texts are tokenised in windows, sorted by token count inside a window and encoded in batches of about
        ``token_budget`` ids, so that hardly any padding is computed; other batches change the result by rounding alone.
        A text without a single token (an empty one, where the tokenizer adds no special tokens) has the zero vector.
        Weights that you change yourself through ``.data`` are used after `eval` is called; see `train`.
        The arguments that sentence-transformers has too mean the same there.

        Args:
            texts: one text or many (a list, an array or a generator of them).
            prompt_name: name of the model's prompt that is put before each text; by default the model's default
                prompt, if it has one. See `encode_query` and `encode_document`.
            prompt: text that is put before each text instead.
            batch_size: texts in a batch, at most; by default the token budget alone decides.
            show_progress_bar: show a bar on stderr, where that is a terminal.
            normalize_embeddings: L2-normalise the vectors.
            convert_to_tensor: return a tensor on the encoder's device instead of an array.
            device: move the encoder there first; it stays there.
            precision: ``float32``, or ``bf16`` (faster where the processor has it, cosine to the float32 vector about
                0.9999).
            token_budget: ids in a batch, padding counted; by default one that suits the device.
            progress: called after every batch with (texts done, texts in all).

        Returns:
            (n, dimension) float32; (dimension,) for a single text.

        Raises:
            UserError: if ``texts`` are not strings, for an unknown prompt or precision, no such device, a batch size or
                budget below 1, a progress bar and ``progress`` together, or vectors that hold NaN, infinity or zeros
                alone.

        Example:
            >>> encoder = SentenceEncoder("opencse-mini", device="cpu")
            >>> encoder.encode("One text gives one vector.").shape
            (448,)
            >>> encoder.encode(["Two texts", "give two."], convert_to_tensor=True, batch_size=1).shape
            torch.Size([2, 448])
        """
        rows = [texts] if isinstance(texts, str) else as_list(texts)
        require_texts(rows)
        require_options(precision, token_budget=token_budget, batch_size=batch_size)
        prompt = self.prompts.requested(Role.PLAIN, prompt_name, prompt)
        progress = counted({"show_progress_bar": show_progress_bar, "progress": progress})
        if device is not None:
            self.to(usable_device(device))
        batching = Batching(token_budget or usual_budget(self.device_kind), batch_size, precision == "bf16", prompt)
        if self.together.several:
            vectors = encode_together(self, rows, batching)
        else:
            vectors = encode_in_batches(self, rows, batching, progress)
        require_sound_vectors(self, vectors, rows, bf16=batching.bf16)
        if normalize_embeddings:
            vectors = unit_rows(vectors)
        result = vectors[0] if isinstance(texts, str) else vectors
        return torch.from_numpy(result).to(self.device) if convert_to_tensor else result

    @overload
    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings: ...

    @overload
    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodingOptions],
    ) -> Tensor: ...

    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: bool = False,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings | Tensor:
        """Encodes queries: `encode` with the model's prompt called ``query``, as in sentence-transformers.

        A model without that prompt encodes queries unchanged; its default prompt is not used.

        Args:
            texts: one query or many.
            prompt_name: name of another prompt.
            prompt: text of another prompt.
            convert_to_tensor: see `encode`, which has the same result and errors.
            options: see `encode`.

        Example:
            >>> from opencse.modules.prompts import Prompts
            >>> encoder = SentenceEncoder("opencse-mini", device="cpu")
            >>> encoder.prompts = Prompts({"query": "query: "})
            >>> query = encoder.encode_query("leaking valve")
            >>> bool((query == encoder.encode("query: leaking valve")).all())
            True
        """
        text = self.prompts.requested(Role.QUERY, prompt_name, prompt)
        vectors = self.encode(texts, prompt=text, **options)
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    @overload
    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings: ...

    @overload
    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodingOptions],
    ) -> Tensor: ...

    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: bool = False,
        **options: Unpack[EncodingOptions],
    ) -> Embeddings | Tensor:
        """Encodes documents: `encode` with the model's prompt called ``document``, as in sentence-transformers.

        A model without that prompt encodes documents unchanged; its default prompt is not used.

        Args:
            texts: one document or many.
            prompt_name: name of another prompt.
            prompt: text of another prompt.
            convert_to_tensor: see `encode`, which has the same result and errors.
            options: see `encode`.
        """
        text = self.prompts.requested(Role.DOCUMENT, prompt_name, prompt)
        vectors = self.encode(texts, prompt=text, **options)
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors
