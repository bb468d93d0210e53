"""The network of a sentence encoder: from token ids to vectors, and from many texts to vectors in batches."""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from opencse.arrays import Embeddings
from opencse.encoder.fingerprint import hash_parts
from opencse.encoder.static import StaticEncoder
from opencse.encoder.text_encoder import WINDOW, Batching, TextEncoder, token_batches
from opencse.errors import UserError, reason, shortened
from opencse.folder_kinds import TABLE
from opencse.kernels.numpy_models import EMBEDDINGS, WordMeans
from opencse.kernels.packed import InferenceForward
from opencse.kernels.precision import PrecisionName
from opencse.kernels.states import (
    Computation,
    Disturb,
    Encoded,
    MaskedTokens,
    inference_computation,
    plain_states,
    trained_states,
)
from opencse.model_folder.adapters import merge_adapters
from opencse.model_folder.backbone import dropout_at, dropout_rates, takes_token_types, with_type_0
from opencse.model_folder.without_torch import NumpyParts
from opencse.modules.dense import Dense, Head, Projection, SavedLayer, as_saved, evaluating
from opencse.modules.parts import Common, Parts, lower_casing
from opencse.modules.pooling import Pooling
from opencse.modules.token_modules import MaskedLMHead, TemplatesAlone, TokenWeights
from opencse.processes import ALONE, Processes
from opencse.progress import Count, uncounted
from opencse.text.tokenizer import Ids, Tokenizer, Tokens, moved

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from transformers import PreTrainedModel


def usable_device(device: str | torch.device) -> torch.device:
    """The device, after a check that tensors can be created on it and read back.

    Raises:
        UserError: if not.
    """
    try:
        torch.zeros(1, device=device).item()  # `meta` makes tensors that nothing can be read of
    except (RuntimeError, AssertionError, ImportError, ValueError) as error:
        raise UserError(
            f"device {shortened(str(device))}: cannot be used here ({shortened(reason(error), 200)})"
        ) from None
    return torch.device(device)


def default_device() -> torch.device:
    """A CUDA GPU if there is one, else Apple's, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


def words_of(backbone: PreTrainedModel, weights: TokenWeights | None = None) -> WordMeans | None:
    """The word vectors whose mean is a text's vector; None for networks that have layers.

    Args:
        backbone: a table, or a BERT without layers, of a size that a table can be made of.
        weights: how much each token counts in the mean; only tables have some here.

    Example:
        >>> from opencse import SentenceEncoder
        >>> words_of(SentenceEncoder("opencse-mini", device="cpu").backbone).dimension
        448
    """
    config = backbone.config
    if config.num_hidden_layers:
        return None
    if config.model_type == TABLE:
        table: Any = backbone
        by_token = None if weights is None else _numpy(weights.weights)
        return WordMeans(_numpy(table.embedding.weight), token_weights=by_token)
    from transformers import BertModel

    if type(backbone) is not BertModel or weights is not None:
        return None
    of: Any = backbone.embeddings
    if type(of.word_embeddings) is not nn.Embedding:
        return None
    return WordMeans.of_bert([_numpy(of.get_parameter(name)) for name in EMBEDDINGS], float(of.LayerNorm.eps))


def _numpy(weights: Any) -> NDArray[Any]:  # noqa: ANN401 - a tensor or a parameter
    array: NDArray[Any] = weights.detach().float().cpu().numpy()
    return array


S = TypeVar("S")
T = TypeVar("T")


def prefetched(make: Callable[[S], T], items: Iterable[S], *, in_thread: bool) -> Iterator[T]:
    """``make`` of each item, in order; ``in_thread`` makes the next one in a thread while the last is used.

    >>> list(prefetched(str.upper, ["a", "b"], in_thread=True))
    ['A', 'B']
    """
    if not in_thread:
        yield from map(make, items)
        return
    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(1) as worker:
        for item in items:
            pending.append(worker.submit(make, item))
            if len(pending) > 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


E = TypeVar("E", bound="EncoderNetwork")


def evaluate_together(encoder: E, world: Processes, evaluate: Callable[[E], T]) -> T:
    """Evaluates ``encoder`` in the first process and returns the result in all of them.

    Each process encodes its share of the texts that ``evaluate`` encodes; the rest of the evaluation is done once.
    """
    result: T | None = None
    if not world.several:
        return evaluate(encoder)
    if world.first:
        encoder.together = world
        try:
            result = evaluate(encoder)
        finally:
            encoder.together = ALONE
            world.share(None)
    else:
        while True:
            request: tuple[list[str], Batching] | None = world.share()
            if request is None:
                break
            encoder.share_vectors(world, *request)
    return world.share(result)


_PACKED_WITH_GAPS = 64
"""Longest texts with gaps in their mask that the packed forward computes; longer batches it splits by length."""


_OF_NETWORK = ("backbone", "tokenizer", "own_dropout", "token_weights")
"""What a model of word vectors has only when its network is built."""
_BUILDING = threading.RLock()  # two threads that ask for the weights get the same ones


@dataclass(frozen=True)
class Later:
    """A model of word vectors whose network is not built yet.

    Attributes:
        words: its vectors and its tokenizer.
        network: reads all parts.
    """

    words: NumpyParts[WordMeans]
    network: Callable[[], Parts]


class EncoderNetwork(TextEncoder, nn.Module):
    """Turns token ids into vectors; the base class of `SentenceEncoder`, which adds folders and texts.

    See `SentenceEncoder` for the attributes.
    """

    _later: Later | None = None
    own_dropout: dict[str, float]

    @classmethod
    def from_parts(cls, parts: Parts) -> Self:
        """Builds an encoder in training mode from a backbone, a tokenizer and the layers after them; nothing is copied.

        Example:
            A sentence encoder of any transformers model, here of the built-in one:

            >>> from opencse import SentenceEncoder
            >>> from opencse.text.tokenizer import Tokenizer
            >>> loaded = SentenceEncoder("opencse-mini", device="cpu")
            >>> backbone, hf_tokenizer = loaded.backbone, loaded.tokenizer.hf
            >>> parts = Parts(backbone, Tokenizer(hf_tokenizer), pooling=Pooling.MAX, max_length=128)
            >>> SentenceEncoder.from_parts(parts).eval().encode(["A dog runs."]).shape
            (1, 448)
        """
        encoder = cls.__new__(cls)
        nn.Module.__init__(encoder)
        encoder._assemble(parts)
        return encoder

    def _assemble(self, parts: Parts) -> None:
        self._prepare(parts, parts.token_weights, parts.dense)
        self._put_network(parts)
        self.pool_prompt = parts.pool_prompt
        self.lower_case = parts.lower_case
        self.own_code = parts.own_code
        template = self.tokenizer.template
        if self.pooling is Pooling.MASK and (template is None or not template.ends_in_mask):
            raise UserError(
                "pooling mask reads the mask token that the encoder's template puts after the text, and "
                + ("there is no template" if template is None else f"{template.text!r} has none there")
                + "; give one, such as 'This sentence of \"{text}\" means {mask}.'"
            )
        if template is not None and not self.pool_prompt:
            raise UserError("a template goes with a pooling that counts the prompt's tokens (include_prompt is false)")

    def _prepare(self, common: Common, token_weights: TokenWeights | None, dense: Sequence[SavedLayer]) -> None:
        """All but the network and the tokenizer."""
        self.adopt(common)
        self.register_module("backbone", None)  # the first of the modules, whenever it is put there
        self.token_weights = token_weights
        self.dense = nn.Sequential(*dense)
        self.projection: Head | None = None
        self.lm_head: MaskedLMHead | None = None
        self.pool_prompt = True
        self.lower_case = False
        self.computation: Computation = "transformers"
        self.fast = InferenceForward()
        self.adapted = False
        self.together = ALONE
        self.alone: TemplatesAlone | None = None

    def _put_network(self, parts: Parts) -> None:
        self._later = None
        self.backbone = parts.backbone
        self.tokenizer: Tokenizer = lower_casing(parts.tokenizer) if parts.lower_case else parts.tokenizer
        if takes_token_types(self.backbone, self.tokenizer.hf):
            self.backbone.register_forward_pre_hook(with_type_0, with_kwargs=True)
        self.own_dropout = dict(parts.own_dropout)

    def _put_words(self, words: NumpyParts[WordMeans], network: Callable[[], Parts]) -> None:
        """Opens a model of word vectors as the table that it is; whatever asks for its network has it built."""
        self._prepare(words, None, ())
        self._later = Later(words, network)

    def _build(self) -> None:
        with _BUILDING:
            if self._later is not None:
                self._put_network(self._later.network())
                self.backbone.train(self.training)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - as torch has it
        if name in _OF_NETWORK:  # replaced in the network, not in the table
            self._build()
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as torch has it
        if name in _OF_NETWORK:
            self._build()
            if name in self.__dict__:
                return self.__dict__[name]
        return super().__getattr__(name)

    def named_children(self) -> Iterator[tuple[str, nn.Module]]:
        """As torch has it; a network that is not built yet is built for it, as for all that reads or moves weights."""
        self._build()
        return super().named_children()

    def named_modules(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """As torch has it."""
        self._build()
        return super().named_modules(*args, **options)

    def state_dict(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """As torch has it."""
        self._build()
        return super().state_dict(*args, **options)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        """As torch has it."""
        self._build()
        return super().load_state_dict(*args, **options)

    @property
    def mask_id(self) -> int:
        """The id of the tokenizer's mask token.

        Raises:
            UserError: if it has none.
        """
        number = self.tokenizer.hf.mask_token_id
        if number is None:
            raise UserError(f"{self.tokenizer.hf.name_or_path}: the tokenizer has no mask token")
        return int(number)

    @property
    def parts(self) -> Parts:
        """The parts that are saved; the training head and the masked-LM head are not among them."""
        return Parts(
            self.backbone,
            self.tokenizer,
            dense=as_saved(self.dense),
            pool_prompt=self.pool_prompt,
            lower_case=self.lower_case,
            token_weights=self.token_weights,
            own_code=self.own_code,
            own_dropout=self.own_dropout,
            **self.common,
        )

    @property
    def device(self) -> torch.device:
        """The device that the weights are on."""
        return next(self.parameters()).device if self._later is None else torch.device("cpu")

    @property
    def depth(self) -> int:
        """Number of layers of the backbone (L)."""
        return int(self.backbone.config.num_hidden_layers)

    @property
    def dimension(self) -> int:
        """Number of dimensions of a sentence vector."""
        sizes = [layer.out_features for layer in self.dense if isinstance(layer, Dense | Projection)]
        if sizes:
            return sizes[-1]
        return int(self.backbone.config.hidden_size) if self._later is None else self._later.words.model.dimension

    @property
    def has_dropout(self) -> bool:
        """Whether the backbone draws any dropout in training, by its configuration or by a module of its own."""
        rates = (part.p for part in self.backbone.modules() if isinstance(part, nn.Dropout))
        return any(dropout_rates(self.backbone.config).values()) or any(rates)

    @property
    def training_dimension(self) -> int:
        """Number of dimensions of a sentence vector in training, after the training head."""
        return self.dimension if self.projection is None else self.projection.out_features

    @property
    def batch_heads(self) -> list[Projection]:
        """The heads that normalise over the rows of a batch, and so must see all of them at once."""
        return [layer for layer in (*self.dense, self.projection) if isinstance(layer, Projection)]

    @property
    def network_name(self) -> str:
        """The class of the backbone, in records."""
        return type(self.backbone).__name__

    @property
    def device_kind(self) -> str:
        """Kind of the device that the weights are on: cpu, cuda, mps."""
        return self.device.type

    @property
    def kind(self) -> str | None:
        """What it is called in messages, where it computes in float32 alone: word vectors on the CPU."""
        return StaticEncoder.kind if self.device_kind == "cpu" and self.static is not None else None

    def move_to(self, device: str | torch.device) -> None:
        """Moves the weights to a device, where tensors can be made and read."""
        self.to(usable_device(device))

    @property
    def id_count(self) -> int:
        """Number of word vectors: ids are smaller."""
        return len(torch.as_tensor(self.backbone.get_input_embeddings().weight))

    @property
    def weight_bytes(self) -> int:
        """Bytes of memory of the weights."""
        return sum(parameter.nbytes for parameter in self.parameters())

    @property
    def static(self) -> StaticEncoder | None:
        """The same encoder in numpy, if it is word vectors alone that are averaged; None for all others.

        It shares the weights where they are on the CPU in float32, and is used as long as they do not change.
        """
        if self.pooling is not Pooling.MEAN or len(self.dense) or not self.pool_prompt or self.adapted:
            return None
        if self._later is not None:
            return StaticEncoder(replace(self._later.words, **self.common))
        words, rust = words_of(self.backbone, self.token_weights), self.tokenizer.rust
        if words is None or rust is None or self.tokenizer.template is not None:
            return None
        return StaticEncoder(NumpyParts(words, rust, **self.common))

    def fingerprint(self) -> str:
        """A hash, 16 hexadecimal digits, of all that makes the vectors; see `opencse.encoder.fingerprint`."""
        static = self.static
        return hash_parts(self.parts) if static is None else static.fingerprint()

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, or evaluation mode (`eval`); `encode` then reads the weights as they are.

        In evaluation mode `encode` keeps prepared copies of the weights on a CPU. Optimizers, `load_state_dict` and
        changes in place are noticed. After writing through ``.data``, or the step of a fused optimizer that no forward
        with gradient follows, call ``eval()`` again. In training mode nothing is kept between calls of `encode`.

        Example:
            >>> from opencse import SentenceEncoder
            >>> encoder = SentenceEncoder("opencse-mini", device="cpu")
            >>> encoder.train().training, encoder.eval().training
            (True, False)
        """
        self.fast.forget()
        if self._later is not None:
            self.training = mode
            return self
        return super().train(mode)

    def twin(self) -> Self:
        """An independent copy of all modules, as they are now; the tokenizer is shared."""
        return copy.deepcopy(self, {id(self.tokenizer): self.tokenizer})

    def merged(self) -> Self:
        """A copy whose adapters are added to the weights of the backbone."""
        merged = self.twin()
        merge_adapters(merged.backbone)
        merged.adapted = False
        return merged

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
        dropout: float | None = None,
    ) -> Encoded:
        """The training forward: vectors after the training head, and whatever else the objective needs.

        Args:
            tokens: the sentences; None if only the MLM term is trained.
            layers: intermediate layers whose sentence vectors are returned too (0 = embedding output).
            masked: a masked copy for the MLM term.
            disturb: changes the sentences' token embeddings (positions come after), if given.
            headless: return pooled vectors, before the dense layers and the training head; see `project`.
            dropout: the rate of the backbone's dropout for the sentences; None: its own.
        """
        sentence, pooled, by_layer = None, None, {}
        if tokens is not None:
            intermediate = tuple(layers)
            first_only = self.pooling is Pooling.CLS and not intermediate
            with nullcontext() if dropout is None else dropout_at(self.backbone, dropout):
                states = self._states(
                    tokens, need_all=bool(intermediate), disturb=disturb, computation=self.computation, first=first_only
                )
            sentence = self._pool(states, tokens)
            by_layer = {layer: self.pool([states[layer]], tokens) for layer in intermediate}
            if self.alone is not None:
                sentence, by_layer = self._denoised(sentence, by_layer, tokens)
            pooled = sentence
            if not headless:
                sentence = self.project(sentence)
                by_layer = {layer: self.project(vectors) for layer, vectors in by_layer.items()}
        if masked is None:
            return Encoded(sentence, by_layer, pooled=pooled)
        head, hidden = self._masked_states(masked)
        if masked.labels is None:
            return Encoded(sentence, by_layer, masked_logits=head(hidden), pooled=pooled)
        return Encoded(sentence, by_layer, masked_losses=head.losses(hidden, masked.labels), pooled=pooled)

    def embed(self, tokens: Tokens, *, bf16: bool = False) -> Tensor:
        """The inference forward: (rows, dimension) vectors as saved models give them.

        Without gradient, backbones of BERT's shape are computed by `opencse.kernels.packed` on a CPU, and in bf16 by
        `opencse.kernels.gpu` on a GPU: the same vectors up to rounding.

        Args:
            tokens: of the texts.
            bf16: compute the backbone in bf16.
        """
        if not self.training and self.fast.supports(self.backbone, tokens):
            pooled = self._fast_pooled(tokens, bf16=bf16)
        else:
            how, first = inference_computation(self.backbone, bf16=bf16), self.pooling is Pooling.CLS
            with torch.autocast(self.device.type, torch.bfloat16) if bf16 else nullcontext():
                pooled = self._pool(self._states(tokens, computation=how, first=first), tokens)
        vectors: Tensor = self.dense(pooled)
        return nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    @torch.inference_mode()
    def vectors(self, texts: Sequence[str], how: Batching, progress: Count = uncounted) -> Embeddings:
        """(n, dimension) vectors of texts; see `TextEncoder.vectors`.

        A GPU gets one batch after the other and is waited for once per window, while the next window is tokenised.
        """
        world, self.together = self.together, ALONE
        if world.several:
            try:
                world.share((list(texts), how))
                return self.share_vectors(world, texts, how)
            finally:
                self.together = world
        on_cpu = self.device.type == "cpu"
        static = self.static if on_cpu else None
        if static is not None:
            return static.vectors(texts, how, progress)
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        starts = range(0, len(texts), WINDOW)
        windows = (texts[start : start + WINDOW] for start in starts)
        # Next to a GPU a thread tokenises ahead; next to a CPU it would take the cores that compute.
        tokenised = prefetched(partial(self.tokenize, prompt=how.prompt), windows, in_thread=not on_cpu)
        done, unpooled = 0, self.unpooled(how.prompt)
        with evaluating(self):
            for start, ids in zip(starts, tokenised, strict=True):
                encoded = torch.empty(len(ids), self.dimension, device=self.device)
                rows = np.empty(len(ids), dtype=np.int64)
                at = 0
                for indices in token_batches([len(row) for row in ids], how.budget, how.most):
                    filled = indices[[len(ids[i]) > 0 for i in indices]]
                    if len(filled):
                        tokens = self.tokenizer.pad([ids[i] for i in filled]).leaving_out(unpooled).to(self.device)
                        encoded[at : at + len(filled)] = self.embed(tokens, bf16=how.bf16)
                        rows[at : at + len(filled)] = start + filled
                        at += len(filled)
                    done += len(indices)
                    progress(done, len(texts))
                # One copy for a window: each copy waits for the GPU.
                vectors[rows[:at]] = encoded[:at].cpu().numpy()
        return vectors

    @torch.inference_mode()
    def share_vectors(self, world: Processes, texts: Sequence[str], how: Batching) -> Embeddings:
        """(n, dimension) vectors of texts in all processes of ``world``, each of which encodes a share."""
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))  # all have as many long ones
        shares = [order[rank :: world.count] for rank in range(world.count)]
        own = torch.from_numpy(self.vectors([texts[row] for row in shares[world.rank]], how)).to(self.device)
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        gathered = world.gathered(own, [len(share) for share in shares])
        vectors[np.concatenate(shares).astype(np.intp)] = gathered.cpu().numpy()
        return vectors

    @torch.inference_mode()
    def encode_ids(
        self, rows: Sequence[Ids], unpooled: int | Sequence[int] = 0, *, precision: PrecisionName = "float32"
    ) -> Embeddings:
        """(n, dimension) vectors of texts that are given as ids, at least one each; see `TextEncoder.encode_ids`."""
        tokens = self.tokenizer.pad(rows).leaving_out(unpooled)
        with evaluating(self):
            return self.embed(tokens.to(self.device), bf16=precision == "bf16").float().cpu().numpy()

    def _fast_pooled(self, tokens: Tokens, *, bf16: bool) -> Tensor:
        """Pooled vectors (rows, hidden) by the fast forward."""
        if self.depth == 0 and self.pooling is Pooling.MEAN and tokens.unpooled is None:
            words = words_of(self.backbone, self.token_weights)
            if words is not None:
                ids, lengths = tokens.input_ids.numpy(), tokens.attention_mask.sum(dim=1).tolist()
                return torch.from_numpy(words.of([row[:length] for row, length in zip(ids, lengths, strict=True)]))
        layers, first = self._layers(need_all=self._needs_all_layers()), self.pooling is Pooling.CLS
        return self._pool(self.fast.states(self.backbone, tokens, layers, first=first, bf16=bf16), tokens)

    def _needs_all_layers(self) -> bool:
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
        computation: Computation = "transformers",
        first: bool = False,
    ) -> Sequence[Tensor]:
        """Hidden states, of all layers or the last; of ``first`` tokens alone where ``computation`` is of our own."""
        # A step of a fused optimizer may follow, which the weights' counts of changes do not show.
        if torch.is_grad_enabled():
            self.fast.forget()
        need_all = need_all or self._needs_all_layers()
        if computation != "transformers":
            layers = self._layers(need_all=need_all)
            return trained_states(
                self.backbone, tokens, layers, computation, first=first, disturb=disturb, dropout=self.training
            )
        return plain_states(self.backbone, tokens, need_all=need_all, disturb=disturb)

    def _pool(self, states: Sequence[Tensor], tokens: Tokens) -> Tensor:
        pooled_layers = self.pooling.layers(self.depth)
        return self.pool(
            [states[-1]] if len(pooled_layers) == 1 else [states[layer] for layer in pooled_layers], tokens
        )

    def pool(self, states: Sequence[Tensor], tokens: Tokens) -> Tensor:
        """Pools averaged hidden states (rows, length, hidden) into one vector per sentence, (rows, hidden)."""
        if self.pooling is Pooling.MASK:
            return self.pooling(states, (tokens.input_ids == self.mask_id).long() * tokens.attention_mask)
        weights = None if self.token_weights is None else self.token_weights(tokens.input_ids)
        return self.pooling(states, tokens.pooled_mask, weights)

    def project(self, pooled: Tensor) -> Tensor:
        """Applies the dense layers and the training head, if there is one, to pooled vectors (rows, hidden)."""
        vectors: Tensor = self.dense(pooled)
        return vectors if self.projection is None else self.projection(vectors)

    def _denoised(
        self, sentence: Tensor, by_layer: dict[int, Tensor], tokens: Tokens
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Pooled vectors, and those of layers, less what the texts' templates give alone; see `TemplatesAlone`."""
        assert self.alone is not None
        templates, which = self.alone.of(tokens, self.tokenizer.pad_id)
        computation = self.computation
        if computation == "packed" and templates.input_ids.shape[1] > _PACKED_WITH_GAPS:
            computation = "transformers"
        states = self._states(templates, need_all=bool(by_layer), computation=computation)
        sentence = sentence - self._pool(states, templates)[which]
        return sentence, {
            layer: vectors - self.pool([states[layer]], templates)[which] for layer, vectors in by_layer.items()
        }

    def _masked_states(self, masked: MaskedTokens) -> tuple[MaskedLMHead, Tensor]:
        """The masked-LM head, and the last hidden states (M, hidden) of the masked positions."""
        assert self.lm_head is not None, "masked tokens need a masked-LM head"
        hidden = self._states(masked.tokens, computation=self.computation)[-1]
        positions = masked.positions.flatten().nonzero().squeeze(1)
        return self.lm_head, hidden.flatten(0, 1).index_select(0, moved(positions, hidden.device))

    def unpooled(self, prompt: str) -> int:
        """Number of first tokens that pooling leaves out of a text with ``prompt`` in front; 0 if it counts all."""
        if self.pool_prompt or not prompt:
            return 0
        ids = self.tokenizer.encode([prompt], self.max_length)[0]
        return len(ids) - int(len(ids) > 0 and int(ids[-1]) in self.tokenizer.hf.all_special_ids)
