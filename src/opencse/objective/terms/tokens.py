"""Terms of predictions at the tokens of a text: masked language modelling, and replaced token detection (DiffCSE)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence, Set
from typing import Any, Literal, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.packed import why_not_packed
from opencse.kernels.states import Computation, MaskedTokens, embedding_module, plain_states, trained_states
from opencse.model_folder.locate import locate
from opencse.model_folder.reading import load_masked_lm_head
from opencse.objective.similarity import at_least_float32
from opencse.objective.teachers.teacher import START
from opencse.objective.terms.base import Term
from opencse.objective.vectors.chunks import Chunks, through
from opencse.objective.vectors.masking import MaskedCopy, Masking
from opencse.objective.vectors.requests import LmHead, Masked, MaskedViews, Sentences
from opencse.objective.vectors.step import Representations, Request, StepInputs
from opencse.settings import AboveZero, ModelLocation, Share
from opencse.streams import seed_of
from opencse.text.tokenizer import Tokens, moved


def masked_lm(logits: Tensor, labels: Tensor) -> Tensor:
    """Masked language modelling: the cross-entropy at each hidden position (Devlin et al. 2019; SimCSE, section 4).

    With z_m the logits at position m and y_m the token that is hidden there::

        loss_m = -log(exp(z_m[y_m]) / sum_v exp(z_m[v]))

    Args:
        logits: (M, vocabulary); M may be 0.
        labels: (M,) ids of the hidden tokens.

    Returns:
        (M,) losses.

    Example:
        >>> import torch
        >>> masked_lm(torch.tensor([[0.0, 0.0], [0.0, 4.0]]), torch.tensor([0, 1]))
        tensor([0.6931, 0.0181])
    """
    return functional.cross_entropy(at_least_float32(logits), labels, reduction="none")


def replaced_tokens(logits: Tensor, replaced: Tensor) -> Tensor:
    """Replaced token detection: the cross-entropy at each token (ELECTRA; DiffCSE, section 3).

    With z_t the two logits of token t ("original", "replaced") and r_t whether it was replaced::

        loss_t = -log(exp(z_t[r_t]) / (exp(z_t[0]) + exp(z_t[1])))

    Args:
        logits: (rows, length, 2).
        replaced: (rows, length) integers: 1 for tokens that were replaced, else 0.

    Returns:
        (rows, length) losses.

    Example:
        >>> import torch
        >>> replaced_tokens(torch.tensor([[[3.0, 0.0], [3.0, 0.0]]]), torch.tensor([[0, 1]]))
        tensor([[0.0486, 3.0486]])
    """
    return functional.cross_entropy(at_least_float32(logits).transpose(1, 2), replaced, reduction="none")


class MaskedLM(Term):
    """Masked-language-model loss in addition to contrast (SimCSE, section 4 and Table D.2): ``loss + weight * mlm``.

    ``rate`` of the real tokens (never special ones) are chosen in a copy of the anchors and positives; of those
    80% become [MASK], 10% a random ordinary id, 10% stay. The contrastive input itself is not masked, unless
    ``masked_contrast`` (an early version of the authors' code, and DeCLUTR's, where one forward pass gives both; here
    the masked copy goes through twice, under two dropout masks). The backbone's own head predicts, over the chosen
    positions only. SimCSE's code also masks the hard negatives, its random ids may be special ones, and its decoder is
    a copy of the token embeddings that is trained separately (``tied = false``).

    `opencse.objective.losses.masked_lm` is the loss at each position as a function of tensors.

    Example:
        >>> import torch
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(2), torch.eye(2))
        >>> reps = replace(reps, answers={Masked(0.15): torch.tensor([1.0, 3.0])})  # of two hidden tokens
        >>> MaskedLM().loss(reps)
        tensor(2.)
    """

    class Settings(Term.Settings):
        """Settings of `MaskedLM`.

        Attributes:
            rate: share of the tokens that are chosen.
            tied: whether the head's decoder shares the token embeddings, where the model's configuration says so; false
                gives it a separate copy.
            texts: the texts of both views (SimCSE), or the anchors' alone (DeCLUTR).
            masked_contrast: whether the vectors are of the masked texts too.
        """

        kind: Literal["mlm"] = "mlm"
        weight: AboveZero = 0.1
        rate: Share = 0.15
        tied: bool = True
        texts: Literal["views", "anchors"] = "views"
        masked_contrast: bool = False

    settings: Settings
    compares_examples = False

    @property
    def reads(self) -> Set[Request[Any]]:
        """The losses of a masked copy, and the head that predicts."""
        return {self._masked, LmHead(tied=self.settings.tied)}

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the chosen positions; 0 where none was chosen."""
        losses = reps[self._masked]
        # The mean of nothing is not a number; its sum is 0, with a graph.
        return losses.mean() if len(losses) else losses.sum()

    @property
    def _masked(self) -> Masked:
        settings = self.settings
        return Masked(settings.rate, settings.texts, settings.masked_contrast)


_AT_ONCE = 512
"""Positions whose logits (vocabulary each) are in memory at once."""

Pick = Literal["sample", "best"]
GuessedPositions = Literal["masked", "all"]


class Replacer(nn.Module):
    """Reads a masked copy of some texts and returns the texts with guesses in place of tokens; it is never trained.

    The first token of a text and padding are never replaced. Guesses are in the vocabulary of the tokenizer.
    Its weights are in the state, so a resumed run continues with the same weights.

    Attributes:
        model: the masked language model, frozen.

    Args:
        model: with its masked-LM head; it is changed.
        pick: draw each guess from the softmax without special tokens, or take the most probable token.
        positions: guess at the masked positions only, or at every position.
        dropout: whether the model's dropout is on in training.
    """

    def __init__(self, model: SentenceEncoder, *, pick: Pick, positions: GuessedPositions, dropout: bool) -> None:
        super().__init__()
        model.projection = None  # sentence vectors are not made
        model.dense = nn.Sequential()
        self.model = model.requires_grad_(False).eval()
        self.pick = pick
        self.positions = positions
        self.dropout = dropout

    @classmethod
    def open(
        cls,
        generator: str,
        encoder: SentenceEncoder,
        *,
        pick: Pick,
        positions: GuessedPositions,
        dropout: bool,
        reader: str,
    ) -> Self:
        """Opens a replacer for the texts of ``encoder``.

        Args:
            generator: ``start`` for a copy of ``encoder`` as it is now, with its masked-LM head; else a folder or Hub
                id of a model with such a head and the same vocabulary.
            encoder: the encoder to be trained.
            pick: see the class.
            positions: see the class.
            dropout: see the class.
            reader: the part that needs it, for messages.

        Raises:
            UserError: if there is no such model, it has no masked-LM head, or it has another vocabulary.
        """
        if generator == START:
            assert encoder.lm_head is not None
            return cls(encoder.twin(), pick=pick, positions=positions, dropout=dropout)
        model = SentenceEncoder(generator, device=str(encoder.device))
        if model.tokenizer.hf.get_vocab() != encoder.tokenizer.hf.get_vocab():
            raise UserError(
                f"{generator}: has another vocabulary than the model that is trained, and the {reader} needs the same; "
                'choose another generator, or generator = "start"'
            )
        words = cast(nn.Embedding, model.backbone.get_input_embeddings())
        model.lm_head = load_masked_lm_head(locate(generator), words, instead="choose another generator").to(
            encoder.device
        )
        if why_not_packed(model.backbone) is None:
            model.computation = encoder.computation
        return cls(model, pick=pick, positions=positions, dropout=dropout)

    def train(self, mode: bool = True) -> Self:
        """Sets training mode; the model's dropout is on only if ``dropout`` is."""
        super().train(mode)
        self.model.train(mode and self.dropout)
        return self

    @torch.no_grad()
    def forward(self, texts: Tokens, copy: MaskedCopy, noise: torch.Generator, chunks: Chunks) -> Tensor:
        """Guesses tokens of the texts.

        Args:
            texts: (rows, length) the original texts.
            copy: their masked copy.
            noise: the generator of the draws: one number per position, in any number of chunks and processes.
            chunks: the chunks of the step.

        Returns:
            (rows, length) ids.

        Raises:
            UserError: for texts longer than the model reads.
        """
        rows, length = texts.input_ids.shape
        if length > self.model.max_length:
            raise UserError(
                f"the generator reads {self.model.max_length} tokens, and a text has {length}; "
                f"set data.max_length={self.model.max_length}"
            )
        # Drawn before the rows are split, so that chunks and processes change no draw.
        uniform = torch.rand((rows, length), generator=noise, device=texts.input_ids.device)

        def guess(start: int, stop: int, uniform: Tensor) -> Tensor:
            step = max(1, _AT_ONCE // length)
            parts = [
                self._guess(texts, copy, a, min(a + step, stop), uniform[a - start : min(a + step, stop) - start])
                for a in range(start, stop, step)
            ]
            return torch.cat(parts)

        return through(self.model, guess, uniform, chunks)

    def _guess(self, texts: Tokens, copy: MaskedCopy, start: int, stop: int, uniform: Tensor) -> Tensor:
        """(stop - start, length) ids of some rows."""
        before, seen = texts.rows(start, stop), copy.masked.tokens.rows(start, stop)
        positions = copy.masked.positions[start:stop]  # on the CPU, where they are counted without waiting for a GPU
        if self.positions == "all":
            positions = torch.ones_like(positions)
        indices = moved(positions.flatten().nonzero().squeeze(1), before.input_ids.device)
        if not len(indices):
            return before.input_ids
        logits = self.model(None, masked=MaskedTokens(seen, positions)).masked_logits
        guesses = self._sample(logits.float(), uniform.flatten().index_select(0, indices))
        ids = before.input_ids.flatten().index_copy(0, indices, guesses).view_as(before.input_ids)
        ids = torch.where(before.attention_mask.bool(), ids, before.input_ids)
        # The first token stays: the discriminator reads the sentence vector in its place.
        return torch.cat([before.input_ids[:, :1], ids[:, 1:]], dim=1)

    def _sample(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """(M, vocabulary) logits, and (M,) uniform draws from 0 to 1 -> (M,) ids."""
        tokenizer = self.model.tokenizer
        logits[:, tokenizer.vocabulary_size :] = -torch.inf  # rows that only round the embedding table up
        if self.pick == "best":
            return logits.argmax(dim=1)
        logits[:, tokenizer.hf.all_special_ids] = -torch.inf
        heights = logits.double().softmax(dim=1).cumsum(dim=1)
        # The last height is 1 only up to rounding.
        levels = uniform.double().unsqueeze(1) * heights[:, -1:]
        return torch.searchsorted(heights, levels, right=True).squeeze(1).clamp(max=logits.shape[1] - 1)


_LOSS, _COUNTED, _REPLACED, _REPLACED_FOUND, _REAL, _RIGHT = range(6)
"""Columns of `ReplacedTokens.compute`."""


class _Discriminator(nn.Module):
    """Predicts which tokens of a text were replaced, given the sentence vector: two logits per token.

    Attributes:
        backbone: a copy of the encoder's, trained.
        classify: Linear(hidden, 2), with torch's own initialisation.
        computation: the computation of the backbone's states; ``packed`` ones mean nothing at padding.

    Args:
        encoder: gives the first weights.
        seed: the seed of the last layer's first weights.
        computation: the computation of the backbone's states.
    """

    def __init__(self, encoder: SentenceEncoder, seed: int, computation: Computation) -> None:
        super().__init__()
        self.backbone = copy.deepcopy(encoder.backbone)
        self.computation = computation
        hidden = int(encoder.backbone.config.hidden_size)
        self.classify = nn.Linear(hidden, 2)
        bound, generator = 1 / math.sqrt(hidden), torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weights in self.classify.parameters():
                weights.uniform_(-bound, bound, generator=generator)
        self.classify.to(encoder.device)

    def forward(self, tokens: Tokens, vectors: Tensor) -> Tensor:
        """(rows, length, 2) logits of "original" and "replaced", of float32 at least.

        Args:
            tokens: (rows, length), some of them replaced.
            vectors: (rows, hidden), read in place of the first token: after the embeddings' LayerNorm and dropout, and
                without a position.
        """
        if self.computation != "transformers":
            depth = int(self.backbone.config.num_hidden_layers)
            states = trained_states(
                self.backbone, tokens, [depth], self.computation, dropout=self.training, leading=vectors
            )
        else:
            states = plain_states(self.backbone, tokens, leading=vectors)
        logits: Tensor = self.classify(states[-1])
        return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


class ReplacedTokens(Term):
    """Replaced token detection by a discriminator that reads the sentence vector (DiffCSE, section 3).

    A frozen masked language model, the generator, reads a copy x' of each of the 2N texts of the views of which
    ``rate`` of the tokens are hidden, and gives an edited text x''. The discriminator D, a second network with the
    encoder's first weights and two logits per token, reads x'' with the text's own sentence vector h (after the head)
    in place of the first token's embedding, and predicts which tokens differ::

        r_t  = [x''_t != x_t]
        loss = mean over all tokens t of all texts of -log p_t(r_t),   p_t = softmax(D(x'', h)_t)

    The gradient reaches the encoder only through h; D is trained and checkpointed with it, and dropped at the end.
    The paper writes the sum over tokens and texts, its code takes the mean, and the published weights go with that.

    ==============  ==========================================  =============================================
    .               paper                                       reference (the authors' code)
    ==============  ==========================================  =============================================
    hidden tokens   ``masking = "all"``: all are [MASK]         ``"bert"``: 80% [MASK], 10% random, 10% kept
    guesses         ``pick = "sample"`` from the softmax, at    ``pick = "best"``, the most probable token, at
                    ``places = "masked"``, the hidden ones      ``places = "all"``, every position
    generator       without dropout                             ``generator_dropout``: trained mode leaves it on
    padding         ``padding = "ignored"``                     ``"counted"`` in the mean, as not replaced
    ==============  ==========================================  =============================================

    The first token is never replaced, and counts in the mean as [SEP] does. In the authors' code the random ids may be
    special ones, and the discriminator reads id 0 at padding.

    The log has ``replaced_share``, the share of the tokens that were replaced, ``replaced_found``, the share of those
    that the discriminator finds, and ``originals_found``, the same share of the others.

    `opencse.objective.losses.replaced_tokens` is the loss at each token as a function of tensors.

    Example:
        >>> from dataclasses import replace
        >>> reps = Representations.of(torch.eye(1), torch.eye(1))
        >>> sums = torch.tensor([[2.0, 4.0, 1.0, 1.0, 4.0, 3.0]])  # loss 2 over 4 tokens, ...
        >>> ReplacedTokens().loss(replace(reps, computed={"replaced_tokens": sums}))
        tensor(0.5000)
    """

    class Settings(Term.Settings):
        """Settings of `ReplacedTokens`.

        Attributes:
            rate: share of the tokens that are hidden from the generator.
            generator: ``start``, a frozen copy of the model that training begins with and its masked-LM head; or the
                folder or Hub id of a masked language model with the same vocabulary.
            generator_dropout: whether the generator's dropout is on.
            masking: what the hidden tokens become: all [MASK], or by BERT's rule.
            pick: draw each guess, or take the most probable token.
            places: where tokens are replaced by guesses.
            padding: whether padding counts in the mean.
        """

        kind: Literal["replaced_tokens"] = "replaced_tokens"
        weight: AboveZero = 0.005
        rate: Share = 0.3
        generator: ModelLocation = START
        generator_dropout: bool = False
        masking: Masking = "all"
        pick: Pick = "sample"
        places: GuessedPositions = "masked"
        padding: Literal["ignored", "counted"] = "ignored"

    settings: Settings
    replacer: Replacer
    discriminator: _Discriminator
    compares_examples = False
    cannot = (
        ("no_layers", "needs a discriminator that reads a text"),
        ("other_size", "puts the sentence vector in a token's place"),
    )

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self._copy = MaskedViews(self.settings.rate, self.settings.masking, f"{self.kind} term")

    @property
    def reads(self) -> Set[Request[Any]]:
        """The views' vectors and a masked copy of their texts; the masked-LM head if the start generates."""
        head = LmHead(instead="set a generator: objective.terms.replaced_tokens.generator=MODEL")
        return {Sentences(), self._copy, *([head] if self.settings.generator == START else [])}

    @property
    def networks(self) -> Sequence[nn.Module]:
        """The discriminator."""
        return (self.discriminator,)

    def begin(self, encoder: SentenceEncoder, *, batch_size: int, seed: int) -> None:
        """Opens the generator, and makes the discriminator of a copy of the encoder's weights."""
        embedding_module(encoder.backbone)  # the vector takes a place in its output
        settings = self.settings
        self.replacer = Replacer.open(
            settings.generator,
            encoder,
            pick=settings.pick,
            positions=settings.places,
            dropout=settings.generator_dropout,
            reader=f"{self.kind} term",
        )
        packed_away = encoder.computation == "packed" and settings.padding == "counted"  # logits at padding count
        computation: Computation = "transformers" if packed_away else encoder.computation
        self.discriminator = _Discriminator(encoder, seed_of(seed, self.name), computation)

    def compute(self, inputs: StepInputs, reps: Representations) -> Tensor:
        """(rows, 6) for each of the views' texts.

        The columns: the sum of the losses of its tokens, how many tokens count, how many were replaced, how many of
        these the discriminator finds, how many are real, how many of these it classifies correctly.
        """
        discriminator, copied = self.discriminator, reps[self._copy]
        rows = len(copied.masked.positions)
        texts = inputs.tokens.rows(0, rows)
        vectors = torch.cat([reps.anchor, reps.positive])[:rows]
        ids = self.replacer(texts, copied, self.noise(reps), inputs.chunks)
        real = texts.attention_mask.bool()
        labels = ((ids != texts.input_ids) & real).long()
        counted = real if self.settings.padding == "ignored" else torch.ones_like(real)

        def detect(start: int, stop: int, vectors: Tensor) -> Tensor:
            logits = discriminator(Tokens(ids[start:stop], texts.attention_mask[start:stop]), vectors)
            replaced, is_real = labels[start:stop], real[start:stop]
            losses = replaced_tokens(logits, replaced)
            right = (logits.detach().argmax(dim=2) == replaced) & is_real
            columns = [
                losses * counted[start:stop],
                counted[start:stop],
                replaced,
                right & replaced.bool(),
                is_real,
                right,
            ]
            return torch.stack([column.to(losses.dtype).sum(dim=1) for column in columns], dim=1)

        return through(discriminator, detect, vectors, inputs.chunks)

    def loss(self, reps: Representations) -> Tensor:
        """Mean cross-entropy over the tokens that count."""
        sums: Tensor = reps.computed[self.name]
        return sums[:, _LOSS].sum() / sums[:, _COUNTED].sum()

    def diagnose(self, reps: Representations) -> dict[str, Tensor]:
        """The share of replaced tokens, and the shares of them and of the others that the discriminator finds."""
        if self.name not in reps.computed:
            return {}
        totals = reps.computed[self.name].sum(dim=0)
        originals = totals[_REAL] - totals[_REPLACED]
        return {
            "replaced_share": totals[_REPLACED] / totals[_REAL],
            "replaced_found": totals[_REPLACED_FOUND] / totals[_REPLACED].clamp(min=1),
            "originals_found": (totals[_RIGHT] - totals[_REPLACED_FOUND]) / originals.clamp(min=1),
        }
