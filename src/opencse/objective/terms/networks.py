"""Terms with a trained network that reads token states or the sentence vector (InfoCSE, TSDAE, DenoSent, IS-BERT)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.states import embedding_module, plain_states, trained_states
from opencse.objective.similarity import at_least_float32
from opencse.objective.terms.base import Term
from opencse.objective.terms.tokens import masked_lm
from opencse.objective.vectors.chunks import seeded, sums_by_row, through
from opencse.objective.vectors.masking import Masking
from opencse.objective.vectors.requests import (
    AnchorTexts,
    AnchorVectors,
    LmHead,
    MaskedViews,
    Pooled,
    PositiveTexts,
    Sentences,
)
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import AboveZero, PartSettings, Rate, Share
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens, moved

if TYPE_CHECKING:
    from transformers import PreTrainedModel


_LOSS, _COUNTED, _RIGHT = range(3)
"""Columns of `compute`; `ConditionalMLM` has the first two."""


class _VectorReader(nn.Module):
    """States of a masked text by layers that read the sentence vector in place of the first token's state.

    Attributes:
        lower: the first layers of the start, frozen and without dropout.
        depth: how many layers they are.
        layers: new ones of the backbone's width, trained; normal of standard deviation .02, zero biases.
        head: a copy of the masked-LM head, trained.
    """

    def __init__(self, encoder: SentenceEncoder, depth: int, layers: int, seed: int) -> None:
        super().__init__()
        assert encoder.lm_head is not None
        config = encoder.backbone.config
        self.depth = depth
        self.lower: Any = copy.deepcopy(encoder.backbone).requires_grad_(False)
        stack: Any = getattr(self.lower, "encoder", None)
        if isinstance(getattr(stack, "layer", None), nn.ModuleList):
            stack.layer = stack.layer[:depth]  # the others are not computed
        self.head = copy.deepcopy(encoder.lm_head)
        dropout = float(getattr(config, "hidden_dropout_prob", 0.1))
        # New modules draw from torch's global generator, as dropout does: seeded here, and put back.
        with seeded(seed, torch.device("cpu")):
            layer = nn.TransformerEncoderLayer(
                int(config.hidden_size),
                int(config.num_attention_heads),
                int(getattr(config, "intermediate_size", 4 * config.hidden_size)),
                dropout,
                "gelu",
                # BERT's; torch's default is 1e-5.
                layer_norm_eps=1e-12,
                batch_first=True,
            )
            self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            for module in self.layers.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.02)
                    nn.init.zeros_(module.bias)
                elif isinstance(module, nn.MultiheadAttention):
                    nn.init.normal_(module.in_proj_weight, std=0.02)
        self.layers.to(encoder.device)
        self.train()  # but not the frozen layers

    def train(self, mode: bool = True) -> _VectorReader:
        """Sets training mode, but for the frozen layers."""
        super().train(mode)
        self.lower.eval()
        return self

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length, hidden).

        Args:
            tokens: (rows, length), masked.
            vectors: (rows, hidden), of the sentences.
        """
        with torch.no_grad():
            states = plain_states(self.lower, tokens, need_all=True)[self.depth]
        read = torch.cat([vectors.to(states.dtype).unsqueeze(1), states[:, 1:]], dim=1)
        out: Tensor = self.layers(read, src_key_padding_mask=tokens.attention_mask == 0)
        return out


class ConditionalMLM(Term):
    """Masked language modelling whose last layers read the sentence vector (InfoCSE, section 3).

    A frozen copy of the start's first layers F reads a copy x' of each of the 2N texts of the views of which ``rate``
    of the tokens are hidden. New layers A read the text's own pooled vector h (before dense layers and head, [CLS]'s
    state in the paper) in place of the first token's state, and the states of F at the other tokens; a copy of the
    masked-LM head predicts::

        loss = mean over the hidden tokens t of -log softmax(head(A(h, F(x')_2 ... F(x')_l)_t))[x_t]

    The gradient reaches the encoder through h alone; A and the head are trained, and dropped at the end. So the vector
    has to hold what the lower layers miss. In the paper A and the encoder start from a model that was pretrained with
    such layers (Condenser); here A starts at random.

    `opencse.objective.losses.masked_lm` is the loss at each token as a function of tensors.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), torch.eye(1))
        >>> sums = torch.tensor([[2.0, 4.0]])  # loss 2 over 4 hidden tokens
        >>> ConditionalMLM().loss(replace(reps, computed={"conditional_mlm": sums}))
        tensor(0.5000)
    """

    class Settings(Term.Settings):
        """Settings of `ConditionalMLM`.

        Attributes:
            rate: share of the tokens that are hidden.
            masking: what the hidden tokens become: by BERT's rule, or all [MASK].
            depth: how many of the start's first layers read the masked text; by default half of them.
            layers: how many new layers follow.
        """

        kind: Literal["conditional_mlm"] = "conditional_mlm"
        weight: AboveZero = 1e-5
        rate: Share = 0.4
        masking: Masking = "bert"
        depth: int | None = Field(default=None, ge=0, le=256)
        layers: int = Field(default=2, ge=1, le=256)

    settings: Settings
    reader: _VectorReader
    compares_examples = False
    cannot = (("no_layers", "needs some that read a text"),)

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self._copy = MaskedViews(self.settings.rate, self.settings.masking, f"{self.kind} term")

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views' vectors before the head, a masked copy of their texts, and the masked-LM head."""
        return {Sentences(), Pooled(), self._copy, LmHead(instead="leave out the conditional_mlm term")}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The new layers and the head, with the frozen layers below."""
        return (self.reader,)

    def check_encoder(self, encoder: SentenceEncoder, model: str) -> None:
        """Refuses an encoder with fewer layers than are read."""
        depth = self.settings.depth
        if depth is not None and encoder.depth < depth:
            raise UserError(
                f"{model}: has {encoder.depth} layers, fewer than the {depth} that read the masked text; leave "
                f"objective.terms.{self.kind}.depth out"
            )

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Copies the frozen layers and the head, and makes the new layers."""
        settings = self.settings
        depth = encoder.depth // 2 if settings.depth is None else settings.depth
        self.reader = _VectorReader(encoder, depth, settings.layers, seed_of(seed, self.name))

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(rows, 2) for each of the views' texts: the sum of the losses of its hidden tokens, and how many they are."""
        reader, copied = self.reader, reps[self._copy]
        seen, positions = copied.masked.tokens, copied.masked.positions
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), positions.sum(dim=1).cumsum(0)]).tolist()
        vectors = reps[Pooled()]

        def predict(start: int, stop: int, vectors: Tensor) -> Tensor:
            states = reader(seen.rows(start, stop), vectors)
            row, column = (moved(one, states.device) for one in positions[start:stop].nonzero(as_tuple=True))
            losses = masked_lm(reader.head(states[row, column]), copied.labels[starts[start] : starts[stop]])
            columns = torch.stack([losses, torch.ones_like(losses)], dim=1)
            return sums_by_row(columns, row, column, states.shape[:2])

        return through(reader, predict, vectors, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the hidden tokens; 0 where none is hidden."""
        sums: Tensor = reps.computed[self.name]
        return sums[:, _LOSS].sum() / sums[:, _COUNTED].sum().clamp(min=1)


class Copied(PartSettings):
    """A decoder of the backbone's shape with its weights, which reads the text so far (TSDAE).

    Attributes:
        tied: share the encoder's weights; only the cross-attention is new.

    Example:
        >>> Denoising(Denoising.Settings(decoder={"kind": "copy", "tied": False})).settings.decoder
        Copied(kind='copy', tied=False)
    """

    kind: Literal["copy"] = "copy"
    tied: bool = True


class New(PartSettings):
    """A new decoder over the embeddings of the text (DenoSent).

    Attributes:
        layers: number of layers.
        heads: attention heads of a layer.
        width: the width of the feed-forward layers.
        dropout: the dropout of the layers.
        noise: rate of the dropout on the embeddings that it reads, all at once; 0 lets it read the text so far.

    Example:
        >>> Denoising(Denoising.Settings(decoder={"kind": "new", "layers": 2})).settings.decoder.layers
        2
    """

    kind: Literal["new"] = "new"
    layers: int = Field(default=16, ge=1, le=256)
    heads: int = Field(default=1, ge=1)
    width: int = Field(default=2048, ge=1, le=65_536)
    dropout: Rate = 0.1
    noise: Rate = 0.825


class CopiedDecoder(nn.Module):
    """A decoder of the backbone's shape, with its weights and new cross-attention to one sentence vector (TSDAE).

    Each token is predicted from the vector and from the tokens before it (teacher forcing).

    Attributes:
        backbone: the decoder's layers.
        head: the masked-LM head, whose word embeddings are the decoder's.

    Args:
        encoder: gives the weights, and the masked-LM head.
        seed: the seed of the cross-attention's first weights.
        tied: share the encoder's weights; false starts from a copy of them.
        reader: the part that needs it, for messages.

    Raises:
        UserError: for a backbone that transformers cannot use as a decoder.
    """

    ahead = 1
    """How many tokens after its position each state predicts."""

    def __init__(self, encoder: SentenceEncoder, seed: int, *, tied: bool, reader: str) -> None:
        super().__init__()
        head = encoder.lm_head
        assert head is not None
        if encoder.adapted and tied:
            raise UserError(
                f"the {reader} cannot share the weights of a backbone that is trained by adapters; set "
                f"{reader_key(reader)}.decoder.tied=false"
            )
        source = encoder.merged() if encoder.adapted else encoder
        backbone = source.backbone
        self.backbone = _as_decoder(backbone, seed, encoder.device, reader)
        shared = dict(backbone.named_parameters())
        if tied:
            for name, _ in list(self.backbone.named_parameters()):
                if name in shared:
                    _set_parameter(self.backbone, name, shared[name])
        words: Any = self.backbone.get_input_embeddings()
        before: Any = encoder.backbone.get_input_embeddings()
        # deepcopy's memo: the copied head shares the decoder's word embeddings.
        self.head = copy.deepcopy(head, {id(before.weight): words.weight})

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length - 1, hidden) states, of which the one at t predicts the token at t + 1.

        Args:
            tokens: (rows, length), the texts to reconstruct.
            vectors: (rows, hidden), of the sentences.
        """
        read = tokens.columns(tokens.input_ids.shape[1] - 1)
        states: Tensor = self.backbone(
            input_ids=read.input_ids,
            attention_mask=read.attention_mask,
            encoder_hidden_states=vectors.unsqueeze(1),
            use_cache=False,
        ).last_hidden_state
        return states


class NewDecoder(nn.Module):
    """A new decoder that attends to one sentence vector, over the embeddings of the text (DenoSent).

    It reads the output of the backbone's embeddings, without gradient. With ``noise`` that is the embeddings under
    dropout, and every token is predicted from all of them (without a causal mask); without, each token is predicted
    from the tokens before it.

    Attributes:
        embeddings: the backbone's, whose weights it shares.
        layers: torch's decoder, newly initialised: normal of standard deviation .02, zero biases.
        head: the masked-LM head, with the encoder's word embeddings.

    Args:
        encoder: gives the embeddings and the masked-LM head.
        seed: the seed of the first weights.
        settings: the settings of its layers, and the rate of the dropout on the embeddings; 0 for teacher forcing.
        reader: the part that needs it, for messages.

    Raises:
        UserError: for a backbone without a module of embeddings, or a number of heads that does not divide its width.
    """

    def __init__(self, encoder: SentenceEncoder, seed: int, settings: New, *, reader: str) -> None:
        super().__init__()
        assert encoder.lm_head is not None
        hidden, heads = int(encoder.backbone.config.hidden_size), settings.heads
        if hidden % heads:
            raise UserError(
                f"{heads} attention heads do not divide {hidden} dimensions; set {reader_key(reader)}.decoder.heads"
            )
        self.ahead = 0 if settings.noise else 1
        weights: dict[int, Any] = {id(p): p for p in encoder.backbone.parameters()}
        self.embeddings = copy.deepcopy(embedding_module(encoder.backbone), dict(weights))
        self.head = copy.deepcopy(encoder.lm_head, dict(weights))
        self.noise = nn.Dropout(settings.noise)
        with seeded(seed, torch.device("cpu")):
            layer = nn.TransformerDecoderLayer(hidden, heads, settings.width, settings.dropout, batch_first=True)
            self.layers = nn.TransformerDecoder(layer, settings.layers)
            for module in self.layers.modules():
                if isinstance(module, nn.Linear):
                    nn.init.normal_(module.weight, std=0.02)
                    nn.init.zeros_(module.bias)
                elif isinstance(module, nn.MultiheadAttention):
                    nn.init.xavier_uniform_(module.in_proj_weight)
        self.layers.to(encoder.device)

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length, hidden) states that predict the token at their position; one less, the next token.

        Args:
            tokens: (rows, length), the texts to reconstruct.
            vectors: (rows, hidden), of the sentences.
        """
        read = tokens.columns(tokens.input_ids.shape[1] - self.ahead)
        length = read.input_ids.shape[1]
        with torch.no_grad():
            embedded = self.embeddings(read.input_ids)
        causal = None
        if self.ahead:
            causal = torch.ones(length, length, dtype=torch.bool, device=embedded.device).triu(1)
        states: Tensor = self.layers(
            self.noise(embedded),
            vectors.unsqueeze(1),
            tgt_mask=causal,
            tgt_key_padding_mask=read.attention_mask == 0,
        )
        return states


def reader_key(reader: str) -> str:
    """The key of the settings of a term that is called "KIND term" in messages."""
    return f"objective.terms.{reader.removesuffix(' term')}"


def _as_decoder(backbone: PreTrainedModel, seed: int, device: torch.device, reader: str) -> PreTrainedModel:
    """A copy of ``backbone`` that attends from left to right, and to a memory with new weights."""
    config = copy.deepcopy(backbone.config)
    config.is_decoder = True
    config.add_cross_attention = True
    refusal = UserError(
        f"a {config.model_type} backbone cannot be a decoder that attends to the sentence vector, which the {reader} "
        f"needs; set {reader_key(reader)}.decoder.kind=new, or choose another model"
    )
    with seeded(seed, torch.device("cpu")):
        try:
            decoder: Any = type(backbone)(config)
        except (TypeError, ValueError, AttributeError):
            raise refusal from None
    missing, unexpected = decoder.load_state_dict(backbone.state_dict(), strict=False)
    if hasattr(decoder, "pooler"):
        decoder.pooler = None  # it reads no sentence
        missing = [name for name in missing if not name.startswith("pooler.")]
        unexpected = [name for name in unexpected if not name.startswith("pooler.")]
    # What may be missing is the new cross-attention, and nothing else.
    if not missing or unexpected or any("crossattention" not in name for name in missing):
        raise refusal
    moved: PreTrainedModel = decoder.to(device)
    return moved


def _set_parameter(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
    path, _, attribute = name.rpartition(".")
    setattr(module.get_submodule(path), attribute, parameter)


class Denoising(Term):
    """Reconstruction of a text from the anchor's vector, by a decoder that is trained too and dropped at the end.

    The decoder D attends to the one vector h_i of the anchor i, as the encoder reads it (a view may have damaged it),
    and predicts the tokens x_i1 ... x_il of the text as it was before::

        loss = mean over all tokens t of all texts of -log p_it(x_it)
        TSDAE     p_it = softmax(D(x_i1 ... x_i(t-1); h_i))      decoder = { kind = "copy" }
        DenoSent  p_it = softmax(D(dropout(e(x_i)); h_i)_t)      decoder = { kind = "new" }

    TSDAE's decoder is the backbone with cross-attention, and shares its weights (``tied``); the first token is read and
    not predicted. DenoSent's is a new one of 16 layers with one head, which reads the output e of the backbone's
    embeddings, without gradient, with .825 of its values dropped, and predicts all tokens, the special ones too. Both
    predict with the backbone's masked-LM head. Where the examples are pairs, ``target = "positive"`` reconstructs the
    pair's other text, as DenoSent does with paraphrases.

    The log has ``reconstructed``, the share of the tokens that are predicted correctly.

    `opencse.objective.losses.masked_lm` is the loss at each token as a function of tensors.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), torch.eye(1))
        >>> sums = torch.tensor([[2.0, 4.0, 1.0]])  # loss 2 over 4 tokens, of which 1 is predicted correctly
        >>> Denoising().loss(replace(reps, computed={"denoising": sums}))
        tensor(0.5000)
    """

    class Settings(Term.Settings):
        """Settings of `Denoising`.

        Attributes:
            decoder: the network that reconstructs.
            target: the text that is reconstructed from the anchor's vector.
        """

        kind: Literal["denoising"] = "denoising"
        decoder: Annotated[Copied | New, Field(discriminator="kind")] = Copied()
        target: Literal["anchor", "positive"] = "anchor"

    settings: Settings
    decoder: CopiedDecoder | NewDecoder
    compares_examples = False
    cannot = (
        ("no_layers", "needs a decoder that reads a text"),
        ("other_size", "has a decoder that attends to the sentence vector as to a token"),
    )

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self._texts = AnchorTexts() if self.settings.target == "anchor" else PositiveTexts()

    @property
    def reads(self) -> Set[Request[Any]]:
        """The anchors' vectors, the texts to reconstruct, and the masked-LM head."""
        vectors = AnchorVectors() if self.settings.target == "anchor" else Sentences()
        return {vectors, self._texts, LmHead(instead="leave out the denoising term")}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The decoder."""
        return (self.decoder,)

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the decoder."""
        decoder, reader = self.settings.decoder, f"{self.kind} term"
        own_seed = seed_of(seed, self.name)
        if isinstance(decoder, Copied):
            self.decoder = CopiedDecoder(encoder, own_seed, tied=decoder.tied, reader=reader)
        else:
            self.decoder = NewDecoder(encoder, own_seed, decoder, reader=reader)

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(N, 3): the sum of the losses of each text's tokens, how many there are, and how many are predicted."""
        decoder, texts = self.decoder, reps[self._texts]

        def reconstruct(start: int, stop: int, vectors: Tensor) -> Tensor:
            rows = texts.rows(start, stop)
            states = decoder(rows, vectors)
            real = rows.attention_mask[:, decoder.ahead :].bool()
            row, column = real.nonzero(as_tuple=True)
            labels = rows.input_ids[:, decoder.ahead :][row, column]
            logits = decoder.head(states[row, column])
            losses = masked_lm(logits, labels)
            right = (logits.detach().argmax(dim=1) == labels).to(losses.dtype)
            columns = torch.stack([losses, torch.ones_like(losses), right], dim=1)
            return sums_by_row(columns, row, column, real.shape)

        return through(decoder, reconstruct, reps.anchor, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the tokens."""
        sums: Tensor = reps.computed[self.name]
        return sums[:, _LOSS].sum() / sums[:, _COUNTED].sum().clamp(min=1)

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """The share of the tokens that the decoder predicts."""
        if self.name not in reps.computed:
            return {}
        totals = reps.computed[self.name].sum(dim=0)
        return {"reconstructed": totals[_RIGHT] / totals[_COUNTED].clamp(min=1)}


def mutual_information(local: Tensor, real: Tensor, texts: Tensor) -> Tensor:
    """Jensen-Shannon estimate of the mutual information of local vectors and texts, negated (IS-BERT, eqs. 3 and 4).

    With l_it the local vectors of text i, g_j the vector of text j, T the real tokens of all N texts and
    sp(x) = log(1 + exp(x))::

        loss = E_neg - E_pos
        E_pos = 1/T       sum_it           log 2 - sp(-l_it . g_i)
        E_neg = 1/(T(N-1)) sum_it sum_{j != i}  sp(l_it . g_j) - log 2

    Args:
        local: (N, length, d) vectors of the tokens, N at least 2.
        real: (N, length) 1 at tokens, 0 at padding.
        texts: (N, d) vectors of the texts.

    Returns:
        The scalar loss.

    Example:
        >>> local = torch.tensor([[[2.0, -2.0]], [[-2.0, 2.0]]])  # two texts of one token
        >>> mutual_information(local, torch.ones(2, 1), local[:, 0])
        tensor(-1.3856)
    """
    local, texts = at_least_float32(local), at_least_float32(texts)
    scores = torch.einsum("itd,jd->itj", local, texts)
    n, tokens = len(texts), real.to(scores.dtype)
    total = tokens.sum()
    is_pair = torch.eye(n, dtype=torch.bool, device=scores.device).unsqueeze(1)
    # Deep InfoMax's estimator; log 2 makes a score of 0 count 0.
    positive = math.log(2) - functional.softplus(-scores)
    negative = functional.softplus(scores) - math.log(2)
    mask = tokens.unsqueeze(2)
    e_pos = (positive * mask * is_pair).sum() / total
    e_neg = (negative * mask * ~is_pair).sum() / (total * (n - 1))
    return e_neg - e_pos


class _Convolutions(nn.Module):
    """Local vectors of a text's tokens: the encoder's states through convolutions of several windows, side by side.

    Attributes:
        backbone: the encoder's, whose weights it shares.
        computation: the computation of the backbone's states.
        convolutions: one per window, newly initialised as torch does, without activation.
    """

    def __init__(self, encoder: SentenceEncoder, windows: Sequence[int], seed: int) -> None:
        super().__init__()
        weights: dict[int, Any] = {id(p): p for p in encoder.backbone.parameters()}
        self.backbone = copy.deepcopy(encoder.backbone, weights)
        self.computation = encoder.computation
        hidden, count = int(encoder.backbone.config.hidden_size), len(windows)
        # Widths that add up to the hidden size, also where the windows do not divide it.
        edges = [hidden * i // count for i in range(count + 1)]
        with seeded(seed, torch.device("cpu")):
            self.convolutions = nn.ModuleList(
                nn.Conv1d(hidden, stop - start, window, padding=window // 2)
                for window, start, stop in zip(windows, edges, edges[1:], strict=False)
            )
        self.convolutions.to(encoder.device)

    def forward(self, tokens: Tokens) -> Tensor:
        """(rows, length, hidden); padding is read as zeros."""
        if self.computation != "transformers":
            depth = int(self.backbone.config.num_hidden_layers)
            states = trained_states(self.backbone, tokens, [depth], self.computation, dropout=self.training)[-1]
        else:
            states = plain_states(self.backbone, tokens)[-1]
        read = (states * tokens.attention_mask.unsqueeze(2).to(states.dtype)).transpose(1, 2)
        return torch.cat([convolution(read) for convolution in self.convolutions], dim=1).transpose(1, 2)


class LocalGlobal(Term):
    """Mutual information between a text's vector and its local vectors (IS-BERT, section 3).

    Convolutions over the token states of a text, of windows 1, 3 and 5 and a third of the width each, give a local
    vector for each token; their mean is the text's vector. `opencse.objective.losses.mutual_information` is the loss,
    over the anchors of the batch: local vectors should fit their own text, and no other one.

    The term encodes the anchors' texts itself, as they are before a view changes them; next to a contrast that is one
    more pass. **What is saved is the backbone with the recipe's pooling, without the convolutions**, which the paper
    keeps. Padding is zeros to the convolutions; in the paper's code they read the backbone's states there.

    Example:
        >>> from dataclasses import replace
        >>> reps = replace(Representations.of(torch.eye(2), torch.eye(2)), answers={})
        >>> local = torch.tensor([[[2.0, -2.0]], [[-2.0, 2.0]]])  # two texts of one token
        >>> texts = Tokens(torch.ones(2, 1, dtype=torch.int64), torch.ones(2, 1, dtype=torch.int64))
        >>> reps = replace(reps, answers={AnchorTexts(): texts}, computed={"local_global": local})
        >>> LocalGlobal().loss(reps)
        tensor(-1.3856)
    """

    class Settings(Term.Settings):
        """Settings of `LocalGlobal`.

        Attributes:
            windows: how many tokens each convolution reads, odd numbers.
        """

        kind: Literal["local_global"] = "local_global"
        windows: tuple[Literal[1, 3, 5, 7, 9], ...] = Field(default=(1, 3, 5), min_length=1, max_length=8)

    settings: Settings
    network: _Convolutions
    cannot = (("no_layers", "needs the states of tokens in their text"),)

    @property
    def reads(self) -> Set[Request[Any]]:
        """The anchors' texts."""
        return {AnchorTexts()}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The backbone with the convolutions."""
        return (self.network,)

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Makes the convolutions."""
        self.network = _Convolutions(encoder, self.settings.windows, seed_of(seed, self.name))

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(N, length, hidden) the local vectors."""
        network, texts = self.network, reps[AnchorTexts()]

        def local(start: int, stop: int, nothing: Tensor) -> Tensor:
            return network(texts.rows(start, stop))  # type: ignore[no-any-return]

        none = torch.zeros(len(texts), 0, device=texts.input_ids.device)
        return through(network, local, none, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """The negated estimate; 0 for a batch of one text."""
        local: Tensor = reps.computed[self.name]
        real = reps[AnchorTexts()].attention_mask
        weights = real.to(local.dtype).unsqueeze(2)
        texts = (local * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
        return mutual_information(local, real, texts) if len(texts) > 1 else local.sum() * 0.0
