"""The sentence encoder: backbone, pooling, dense layers; and its fast, order-keeping `encode`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal, Self, Unpack, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from opencse.encoder.batches import EncodeOptions, listed, require_options, require_texts
from opencse.encoder.batches import token_budget as budget_of
from opencse.encoder.damage import require_whole
from opencse.encoder.devices import default_device, usable
from opencse.encoder.encoding import Batching, encoded
from opencse.encoder.together import encode_together
from opencse.errors import UserError
from opencse.foreign import checks_trust
from opencse.kernels.inference import Kernels
from opencse.kernels.outputs import Disturb, Encoded, MaskedTokens
from opencse.kernels.packed import unpackable
from opencse.kernels.states import inferred_states, plain_states, trained_states
from opencse.kernels.word_means import WordMeans
from opencse.model_folder.backbone import dropout_rates
from opencse.modules.dense import Dense, Head, Projection
from opencse.modules.lower_case import lower_casing
from opencse.modules.masked_lm import MaskedLMHead
from opencse.modules.modes import evaluating
from opencse.modules.parts import Parts
from opencse.modules.pooling import Pooling
from opencse.modules.prompts import Role
from opencse.modules.rows import as_vectors, unit_rows
from opencse.processes import ALONE
from opencse.progress import Count, Counted, Terminal
from opencse.text.moving import moved
from opencse.text.tokenizer import Ids, Tokens

Vectors = NDArray[np.float32]


class SentenceEncoder(nn.Module):
    """Turns texts into vectors: ``SentenceEncoder("folder").encode(texts)``.

    Attributes:
        backbone: any transformers encoder.
        tokenizer: its tokenizer.
        pooling: from token vectors to a sentence vector.
        token_weights: how much each token counts in a mean; None for all alike.
        dense: layers kept at inference (supervised SimCSE's head, a reduction).
        projection: the head used in training only, or None.
        lm_head: the masked-LM head, there only while an objective has the MLM term.
        normalize: whether vectors are L2-normalised.
        max_length: longest text in ids, special tokens counted; longer ones are cut.
        prompts: what is put before texts, by what they are for; see `opencse.modules.prompts`.
        pool_prompt: whether pooling counts the tokens of the prompt (sentence-transformers' ``include_prompt``).
        similarity_fn_name: the function that vectors are compared by.
        lower_case: whether the tokenizer was made to lower-case (sentence-transformers' ``do_lower_case``).
        packed: whether the training forward computes no padding; see `opencse.kernels.packed`.
        own_code: the classes of its folder's own that it is made of, where their code was trusted; see `load`.
        own_dropout: the rates the model came with; they are saved, whatever a training run made of them.
        adapted: whether the backbone has adapters that are trained (`opencse.model_folder.adapters`).
        together: the processes that encode what this one is asked for, each a share; see `opencse.encoder.together`.
    """

    @checks_trust
    def __init__(
        self,
        model: str | Path = "opencse-mini",
        *,
        pooling: str | Pooling | None = None,
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
        target = default_device() if device is None else usable(device)
        parts = read_folder(
            model,
            pooling=pooling,
            max_length=max_length,
            dropout=dropout,
            layers=layers,
            trust_remote_code=trust_remote_code,
        )
        self._assemble(parts)
        self.to(target).eval()

    @classmethod
    def from_parts(cls, parts: Parts) -> Self:
        """Builds an encoder of a backbone, a tokenizer and the layers after them, where they are, in training mode.

        Example:
            A sentence encoder of any transformers model::

                parts = Parts(backbone, Tokenizer(hf_tokenizer), pooling=Pooling.MEAN, max_length=128)
                encoder = SentenceEncoder.from_parts(parts).eval()
        """
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder._assemble(parts)
        return encoder

    def _assemble(self, parts: Parts) -> None:
        self.backbone = parts.backbone
        self.tokenizer = lower_casing(parts.tokenizer) if parts.lower_case else parts.tokenizer
        self.pooling = parts.pooling
        self.token_weights = parts.token_weights
        self.max_length = parts.max_length
        self.dense = nn.Sequential(*parts.dense)
        self.projection: Head | None = None
        self.lm_head: MaskedLMHead | None = None
        self.normalize = parts.normalize
        self.prompts = parts.prompts
        self.pool_prompt = parts.pool_prompt
        self.similarity_fn_name = parts.similarity_fn_name
        self.lower_case = parts.lower_case
        self.packed = False
        self.kernels = Kernels()
        self.own_code = parts.own_code
        self.own_dropout = dict(parts.own_dropout)
        self.adapted = False
        self.together = ALONE

    @classmethod
    def load(
        cls,
        model: str | Path = "opencse-mini",
        *,
        pooling: str | Pooling | None = None,
        max_length: int | None = None,
        dropout: float | None = None,
        layers: int | None = None,
        device: str | torch.device | None = None,
        trust_remote_code: bool = False,
    ) -> Self:
        """Opens an encoder: the same as calling the class, with the same arguments."""
        return cls(
            model,
            pooling=pooling,
            max_length=max_length,
            dropout=dropout,
            layers=layers,
            device=device,
            trust_remote_code=trust_remote_code,
        )

    def save(
        self, folder: str | Path, *, card: str = "", dtype: torch.dtype = torch.float32, masked_lm: bool = False
    ) -> None:
        """Writes sentence-transformers' folder layout, of stock modules only; training-only parts stay out.

        Adapters are merged into the weights, so that the folder opens everywhere; beside them, ``adapter/`` holds them
        alone as peft has them, for the model that training began with.

        Args:
            folder: made if it does not exist; an encoder that opencse wrote is replaced, other files stay.
            card: text of the model card (README.md).
            dtype: of the weights on disk.
            masked_lm: keep the masked-LM head too, so that masked-LM training can go on from the folder.

        Raises:
            UserError: if the folder cannot be written, the disk is full, or a file that opencse did not write would be
                replaced.
        """
        from opencse.model_folder.writing import write_folder

        write_folder(self, Path(folder), card=card, dtype=dtype, masked_lm=masked_lm)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        token: str | None = None,
        private: bool | None = None,
        exist_ok: bool = False,
        revision: str | None = None,
        create_pr: bool = False,
        commit_message: str | None = None,
        card: str = "",
    ) -> str:
        """Saves the encoder and puts it on the Hub with its card, in one commit.

        Args:
            repo_id: ``owner/name``; a bare name is put under the token's owner.
            token: with write access; by default that of ``hf auth login`` or ``HF_TOKEN``.
            private: make the repository private; by default as the owner has it set.
            exist_ok: add a version to a repository that is there.
            revision: branch to write to, made if it is not there; the main one by default.
            create_pr: open a pull request instead of writing to the branch.
            commit_message: of the commit.
            card: text of the model card; by default what is known of the encoder.

        Returns:
            The address of the commit, or of the pull request.

        Raises:
            UserError: in one line, for a wrong name, no token, no network, or what the Hub refuses.
        """
        from opencse.model_folder.hub import push

        return push(
            self,
            repo_id,
            card=card,
            token=token,
            private=private,
            exist_ok=exist_ok,
            revision=revision,
            create_pr=create_pr,
            commit_message=commit_message,
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def depth(self) -> int:
        """Number of layers of the backbone (L)."""
        return int(self.backbone.config.num_hidden_layers)

    @property
    def dimension(self) -> int:
        """Length of a sentence vector."""
        sizes = [layer.out_features for layer in self.dense if isinstance(layer, Dense | Projection)]
        return sizes[-1] if sizes else int(self.backbone.config.hidden_size)

    @property
    def has_dropout(self) -> bool:
        """Whether the backbone draws any dropout in training, by its configuration or by a module of its own."""
        own = (part.p for part in self.backbone.modules() if isinstance(part, nn.Dropout))
        return any(dropout_rates(self.backbone.config).values()) or any(own)

    @property
    def training_dimension(self) -> int:
        """Length of a sentence vector in training, after the training head."""
        return self.dimension if self.projection is None else self.projection.out_features

    @property
    def batch_heads(self) -> list[Projection]:
        """The heads that normalise over the rows of a batch, and so must see all of them at once."""
        return [layer for layer in (*self.dense, self.projection) if isinstance(layer, Projection)]

    def twin(self) -> Self:
        """An independent copy of all modules, as they are now; the tokenizer is shared."""
        return copy.deepcopy(self, {id(self.tokenizer): self.tokenizer})

    @contextmanager
    def without_dropout(self) -> Iterator[None]:
        """Evaluation mode within the block (attention's dropout too); gradients flow as before.

        `batch_heads` have no dropout and stay as they are: in training they normalise over the batch.
        """
        with evaluating(self, but=self.batch_heads):
            yield

    def forward(
        self,
        tokens: Tokens | None,
        *,
        layers: Iterable[int] = (),
        masked: MaskedTokens | None = None,
        disturb: Disturb | None = None,
        headless: bool = False,
    ) -> Encoded:
        """The training forward: vectors after the training head, and whatever else the objective needs.

        Args:
            tokens: the sentences; None if only the MLM term is trained.
            layers: intermediate layers whose sentence vectors are wanted (0 = embedding output).
            masked: a masked copy for the MLM term.
            disturb: changes the sentences' token embeddings (positions come after), if given.
            headless: give pooled vectors, before the dense layers and the training head; see `project`.
        """
        sentence, by_layer = None, {}
        if tokens is not None:
            wanted = tuple(layers)
            first_only = self.pooling is Pooling.CLS and not wanted
            states = self._states(tokens, need_all=bool(wanted), disturb=disturb, packed=self.packed, first=first_only)
            sentence = self._pool(states, tokens)
            by_layer = {layer: self.pool([states[layer]], tokens) for layer in wanted}
            if not headless:
                sentence = self.project(sentence)
                by_layer = {layer: self.project(pooled) for layer, pooled in by_layer.items()}
        return Encoded(sentence, by_layer, None if masked is None else self._masked_logits(masked))

    def embed(self, tokens: Tokens, *, bf16: bool = False) -> Tensor:
        """The inference forward: (rows, dimension) vectors as saved models give them.

        On a CPU, without gradient, backbones of BERT's shape go through `opencse.kernels.packed` with the weights in
        order for this processor (`opencse.kernels.inference`): the same vectors up to rounding.

        Args:
            tokens: of the texts.
            bf16: compute the backbone in bf16.
        """
        fast = tokens.input_ids.device.type == "cpu" and not torch.is_grad_enabled() and not self.training
        fast = fast and self.backbone.dtype == torch.float32 and unpackable(self.backbone) is None
        plain_mean = self.pooling is Pooling.MEAN and self.token_weights is None and tokens.unpooled is None
        if fast and plain_mean and WordMeans.fits(self.backbone):
            pooled = self.kernels.word_means(self.backbone)(tokens)
        elif fast:
            layers, first = self._layers(need_all=self._need_all()), self.pooling is Pooling.CLS
            states = inferred_states(self.backbone, self.kernels, tokens, layers, first=first, bf16=bf16)
            pooled = self._pool(states, tokens)
        else:
            with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
                pooled = self._pool(self._states(tokens), tokens)
        vectors: Tensor = self.dense(pooled)
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    def _need_all(self) -> bool:
        """Whether pooling reads other layers than the last."""
        return len(self.pooling.layers(self.depth)) > 1

    def _layers(self, *, need_all: bool) -> Sequence[int]:
        return range(self.depth + 1) if need_all else [self.depth]

    def _states(
        self,
        tokens: Tokens,
        *,
        need_all: bool = False,
        disturb: Disturb | None = None,
        packed: bool = False,
        first: bool = False,
    ) -> Sequence[Tensor]:
        """Hidden states, of all layers or the last; of ``first`` tokens alone where a ``packed`` forward can."""
        if torch.is_grad_enabled():
            self.kernels.forget()
        need_all = need_all or self._need_all()
        if packed:
            layers = self._layers(need_all=need_all)
            return trained_states(self.backbone, tokens, layers, first=first, disturb=disturb, dropout=self.training)
        return plain_states(self.backbone, tokens, need_all=need_all, disturb=disturb)

    def _pool(self, states: Sequence[Tensor], tokens: Tokens) -> Tensor:
        wanted = self.pooling.layers(self.depth)
        return self.pool([states[-1]] if len(wanted) == 1 else [states[layer] for layer in wanted], tokens)

    def pool(self, states: Sequence[Tensor], tokens: Tokens) -> Tensor:
        """One vector a sentence, (rows, hidden), of hidden states (rows, length, hidden) that are averaged."""
        weights = None if self.token_weights is None else self.token_weights(tokens.input_ids)
        return self.pooling(states, tokens.pooled_mask, weights)

    def project(self, pooled: Tensor) -> Tensor:
        """Pooled vectors (rows, hidden) through the dense layers and the training head, if there is one."""
        vectors: Tensor = self.dense(pooled)
        return vectors if self.projection is None else self.projection(vectors)

    def _masked_logits(self, masked: MaskedTokens) -> Tensor:
        if self.lm_head is None:
            raise RuntimeError("masked tokens were given to an encoder without a masked-LM head")
        hidden = self._states(masked.tokens, packed=self.packed)[-1]
        places = masked.positions.flatten().nonzero().squeeze(1)
        logits: Tensor = self.lm_head(hidden.flatten(0, 1).index_select(0, moved(places, hidden.device)))
        return logits

    def tokenize(self, texts: Sequence[str], prompt: str = "") -> list[Ids]:
        """Ids of each text with ``prompt`` put before it, truncated to ``max_length``, as `encode` uses them."""
        return self.tokenizer.encode([prompt + text for text in texts] if prompt else texts, self.max_length)

    def unpooled(self, prompt: str) -> int:
        """How many first tokens of a text with ``prompt`` before it pooling leaves out; 0 where it counts all."""
        if self.pool_prompt or not prompt:
            return 0
        ids = self.tokenizer.encode([prompt], self.max_length)[0]
        return len(ids) - int(len(ids) > 0 and int(ids[-1]) in self.tokenizer.hf.all_special_ids)

    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodeOptions],
    ) -> Vectors: ...

    @overload
    def encode(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions],
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
    ) -> Vectors | Tensor:
        """Vectors of ``texts``, in their order.

        Texts are tokenised in windows, sorted by token count inside a window and encoded in batches of about
        ``token_budget`` ids, so that hardly any padding is computed; other batches change the result by rounding alone.
        A text without a single token (an empty one, where the tokenizer adds no special tokens) has the zero vector.
        The arguments that sentence-transformers has too mean the same there.

        Args:
            texts: one text or many (a list, an array or a generator of them).
            prompt_name: name of the model's prompt that is put before each text; by default the model's default
                prompt, if it has one. See `encode_query` and `encode_document`.
            prompt: text that is put before each text instead.
            batch_size: texts in a batch, at most; by default the token budget alone decides.
            show_progress_bar: show a bar on stderr, where that is a terminal.
            normalize_embeddings: L2-normalise the vectors.
            convert_to_tensor: give a tensor on the encoder's device instead of an array.
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
        """
        rows = [texts] if isinstance(texts, str) else listed(texts)
        require_texts(rows)
        require_options(precision, token_budget=token_budget, batch_size=batch_size)
        prompt = self.prompts.chosen(Role.PLAIN, prompt_name, prompt)
        if show_progress_bar:
            if progress is not None:
                raise UserError("show_progress_bar and progress are two ways to be told; give one of them")
            progress = Counted(Terminal(), "encoding")
        if device is not None:
            self.to(usable(device))
        how = Batching(token_budget or budget_of(self.device), batch_size, precision == "bf16", prompt)
        vectors = encode_together(self, rows, how) if self.together.several else encoded(self, rows, how, progress)
        require_whole(self, vectors, rows, bf16=how.bf16)
        if normalize_embeddings:
            vectors = unit_rows(vectors)
        given = vectors[0] if isinstance(texts, str) else vectors
        return torch.from_numpy(given).to(self.device) if convert_to_tensor else given

    @overload
    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodeOptions],
    ) -> Vectors: ...

    @overload
    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...

    def encode_query(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> Vectors | Tensor:
        """Vectors of queries: `encode` with the model's prompt called ``query``, as in sentence-transformers.

        A model without that prompt reads queries as they are; its default prompt is not used.

        Args:
            texts: one query or many.
            prompt_name: name of another prompt.
            prompt: text of another prompt.
            convert_to_tensor: see `encode`.
            options: see `encode`.

        Returns:
            (n, dimension) float32; (dimension,) for a single query.

        Raises:
            UserError: see `encode`.
        """
        text = self.prompts.chosen(Role.QUERY, prompt_name, prompt)
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
        **options: Unpack[EncodeOptions],
    ) -> Vectors: ...

    @overload
    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions],
    ) -> Tensor: ...

    def encode_document(
        self,
        texts: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        convert_to_tensor: bool = False,
        **options: Unpack[EncodeOptions],
    ) -> Vectors | Tensor:
        """Vectors of documents: `encode` with the model's prompt called ``document``, as in sentence-transformers.

        A model without that prompt reads documents as they are; its default prompt is not used.

        Args:
            texts: one document or many.
            prompt_name: name of another prompt.
            prompt: text of another prompt.
            convert_to_tensor: see `encode`.
            options: see `encode`.

        Returns:
            (n, dimension) float32; (dimension,) for a single document.

        Raises:
            UserError: see `encode`.
        """
        text = self.prompts.chosen(Role.DOCUMENT, prompt_name, prompt)
        vectors = self.encode(texts, prompt=text, **options)
        return torch.from_numpy(vectors).to(self.device) if convert_to_tensor else vectors

    def similarity(
        self, a: str | Sequence[str] | NDArray[np.floating], b: str | Sequence[str] | NDArray[np.floating]
    ) -> Vectors:
        """Compares every a with every b by the model's own function (``similarity_fn_name``): (n, m) float32.

        That is the cosine, the dot product, or the negative Euclidean or Manhattan distance, as the folder says and as
        in sentence-transformers. Texts are encoded; arrays are taken as vectors, (n, d) or (d,) for a single one.

        Raises:
            UserError: for arrays of another shape, or vectors of different lengths.
            TypeError: for what is neither texts nor an array.
        """
        return self.similarity_fn_name.matrix(as_vectors("a", a, self.encode), as_vectors("b", b, self.encode))

    def similarity_pairwise(
        self, a: str | Sequence[str] | NDArray[np.floating], b: str | Sequence[str] | NDArray[np.floating]
    ) -> Vectors:
        """Compares each a with the b of its number, as `similarity` does: (n,) float32.

        Raises:
            UserError: for arrays of another shape, or of different numbers of rows or dimensions.
            TypeError: for what is neither texts nor an array.
        """
        one, two = as_vectors("a", a, self.encode), as_vectors("b", b, self.encode)
        if one.shape != two.shape:
            raise UserError(f"vectors of shape {one.shape} and {two.shape} cannot be compared row by row")
        function = self.similarity_fn_name
        return function.of_pairs(function.prepared(one), function.prepared(two)).astype(np.float32)
