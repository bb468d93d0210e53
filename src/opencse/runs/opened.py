"""Opens the encoder and the objectives of a run, and makes data sets of its texts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import cast

from torch import nn

from opencse.adapting.selection import Selector
from opencse.arrays import Flags
from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.model_folder.locate import locate
from opencse.model_folder.masked_lm import load_masked_lm_head
from opencse.modules.token_weights import TokenWeights
from opencse.objective.context import Context
from opencse.objective.inputs import InputBuilder
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import LmHead, Masked
from opencse.objective.views.base import ChangesTokens
from opencse.objective.views.spans import DrawsTexts
from opencse.processes import Processes
from opencse.progress import Counted, Progress
from opencse.recipes.recipe import Recipe
from opencse.runs.data_sets import FurtherSet, PreparedSet, training_of_set
from opencse.runs.forward import choose_forward
from opencse.runs.start import Start, build_encoder, put_weights, weigh_tokens
from opencse.streams import seed_of
from opencse.text.corpus import Corpus, CorpusFacts, tokenise
from opencse.text.duplicates import find_near_duplicates
from opencse.text.given import TextSource
from opencse.text.left_out_rows import say_left_out_rows
from opencse.text.sampling import sample_rows
from opencse.training.mixture import FIRST, DataSet
from opencse.training.pace import plan_batches
from opencse.training.settings import TrainingSettings
from opencse.training.soundness import probes_of, require_known, require_sound

AUTO_LENGTH = 256
"""Most ids of a text that ``data.max_length=auto`` reads."""


@dataclass(frozen=True)
class FirstSet:
    """The text that a run is given first, ready for its first step.

    Attributes:
        data_set: what its steps are made of.
        facts: counts of the text.
        near_duplicates: rows left out; None where they were not looked for.
        sample: (rows drawn, rows to draw from) where a share is trained on; None without ``data.rows`` and
            ``data.share``.
        token_weights: computed from the text; None without ``encoder.token_weights``.
    """

    data_set: DataSet
    facts: CorpusFacts
    near_duplicates: int | None
    sample: tuple[int, int] | None
    token_weights: TokenWeights | None


@dataclass(frozen=True)
class OpenedRun:
    """The encoder and the objectives of a run, checked against each other before any text is read.

    Attributes:
        start: the model where it is now, and the recipe with pooling and head decided.
        further: further data sets, each with an objective of its own.
        model: the start as the user knows it, which differs from ``start.model`` until a new start has moved to the
            run's folder.
        encoder: with the recipe's pooling and head.
        objectives: of the text, and of each further data set.
        attention: what computes the training forward, in words; see `choose_forward`.
        max_length: ids of a text that training reads.
        world: the processes that train together.
        progress: receives decisions and progress.
    """

    start: Start
    further: Sequence[FurtherSet]
    model: str
    encoder: SentenceEncoder
    objectives: Sequence[Objective]
    attention: str
    max_length: int
    world: Processes
    progress: Progress

    @classmethod
    def open(
        cls,
        start: Start,
        further: Sequence[FurtherSet],
        *,
        model: str,
        device: str | None,
        trust_remote_code: bool,
        world: Processes,
        progress: Progress,
    ) -> OpenedRun:
        """Opens the start for training, and checks it with every objective.

        Args:
            start: see above, as ``further``, ``model``, ``world`` and ``progress``.
            further: see above.
            model: see above.
            device: where to train; None: a GPU, if there is one.
            trust_remote_code: run the Python code in the model's folder.
            world: see above.
            progress: see above.

        Raises:
            UserError: for settings that cannot work with this model.
        """
        recipe = start.recipe
        progress.say(f"loading    {model}")
        encoder = build_encoder(recipe, start.model, device, trust_remote_code)
        max_length = longest_text(encoder, recipe, model)
        settings = [recipe.objective, *(one.objective for one in further)]
        objectives = [Objective.from_settings(one).to(encoder.device) for one in settings]
        for one in objectives:
            one.check(Context(one, encoder=encoder, model=start.model, own_dropout=recipe.encoder.dropout is None))
        _add_masked_lm_head(encoder, objectives, start.model, trust_remote_code)
        attention = choose_forward(encoder, recipe.training.packed)
        return cls(start, further, model, encoder, objectives, attention, max_length, world, progress)

    @property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        return self.start.recipe

    def first_set(self, text: TextSource, dev: Selector | None, explicit: Collection[str]) -> FirstSet:
        """Makes a data set of the run's text, and checks that the encoder reads it.

        Args:
            text: what is trained on.
            dev: holds out some of its rows.
            explicit: dotted keys of the settings that the user chose.

        Raises:
            UserError: for a text of one example, or one that the encoder does not know.
        """
        recipe, encoder, objective = self.recipe, self.encoder, self.objectives[0]
        corpus = self._tokenised(text, objective)
        weights = None
        if recipe.encoder.token_weights is not None:
            weights = weigh_tokens(encoder, corpus.every_text(), explicit="encoder.token_weights" in explicit)
        put_weights(encoder, weights)
        require_known(encoder, corpus, self.model)
        fix = "choose another pooling, for instance with --set encoder.pooling=mean"
        require_sound(encoder, probes_of(corpus), f"{self.model}, untrained", fix)
        near = near_duplicates(text, recipe, self.progress)
        inputs = InputBuilder(corpus, encoder.tokenizer, objective, recipe.training.seed, _left_out(dev, near))
        sample = _keep_sample(inputs, recipe, text)
        if len(inputs) < 2:
            documents = isinstance(objective.view, DrawsTexts)
            fix = " documents (a blank line ends one in a text file; elsewhere each record is one)" * documents
            raise UserError(f"{text.location}: only one example; contrast needs at least two{fix}")
        data_set = self._begun(FIRST, objective, inputs, recipe.training)
        return FirstSet(data_set, corpus.facts, _count(near), sample, weights)

    def further_sets(self) -> list[PreparedSet]:
        """Makes the further data sets, and drops the masked-LM head if no part reads masked texts.

        A part that uses the head for other texts has made a copy of it when it began.

        Raises:
            UserError: for a text of one example, or one that the encoder does not know.
        """
        prepared = [self._further_set(*pair) for pair in zip(self.further, self.objectives[1:], strict=True)]
        if not any(isinstance(request, Masked) for one in self.objectives for request in one.reads):
            self.encoder.lm_head = None
        return prepared

    def _further_set(self, further: FurtherSet, objective: Objective) -> PreparedSet:
        """Makes a data set, whose draws have a seed of their own."""
        name, training = further.settings.name, self.recipe.training
        seed = seed_of(training.seed, f"data set {name}")
        corpus = self._tokenised(further.text, objective)
        require_known(self.encoder, corpus, self.model)
        near = near_duplicates(further.text, self.recipe, self.progress)
        inputs = InputBuilder(corpus, self.encoder.tokenizer, objective, seed, near)
        if len(inputs) < 2:
            raise UserError(f"data set {name}: {further.text.location}: only one example; at least two are needed")
        data_set = self._begun(name, objective, inputs, training_of_set(training, further.settings, seed))
        return PreparedSet(data_set, further.settings, corpus.facts, _count(near))

    def _tokenised(self, text: TextSource, objective: Objective) -> Corpus:
        """The text as ids, from the token cache if possible; the first of several processes fills the cache."""
        encoder = self.encoder
        if self.world.first:
            say_left_out_rows(text, self.progress.say)
        with self.world.first_alone():
            corpus = tokenise(
                text,
                encoder.tokenizer,
                self.max_length,
                prompts=encoder.prompts.columns,
                words=isinstance(objective.view, ChangesTokens),
                progress=Counted(self.progress, "tokenising"),
                say=self.progress.say,
            )
        unpooled = [encoder.unpooled(prompt) for prompt in encoder.prompts.columns.of(corpus.width)]
        return replace(corpus, unpooled=tuple(unpooled) if any(unpooled) else ())

    def _begun(self, name: str, objective: Objective, inputs: InputBuilder, training: TrainingSettings) -> DataSet:
        """Plans the batches of a data set, and begins its objective."""
        batches = plan_batches(inputs, training)
        classes = len(inputs.corpus.facts.classes)
        objective.begin(self.encoder, batch_size=batches.batch_size, seed=training.seed, classes=classes)
        return DataSet(name, objective, inputs, batches)


def longest_text(encoder: SentenceEncoder, recipe: Recipe, model: str) -> int:
    """Decides how many ids of a text training reads.

    Raises:
        UserError: for more than the model can read, or than a batch can hold.
    """
    around = encoder.tokenizer.special_count
    limit, batch_tokens = recipe.data.max_length, recipe.training.batch_tokens
    if limit == "auto":
        longest = min(encoder.max_length, AUTO_LENGTH)
        if batch_tokens is not None and batch_tokens < longest:
            raise UserError(
                f"training.batch_tokens {batch_tokens} cannot hold a text of {longest} ids; raise it, "
                "or lower data.max_length"
            )
        return longest
    if limit > encoder.max_length:
        raise UserError(
            f"data.max_length {limit} is more than {model} reads ({encoder.max_length} ids); "
            f"set it with --set data.max_length={encoder.max_length}"
        )
    if limit <= around:
        raise UserError(
            f"data.max_length {limit} leaves no room for text next to the {around} ids of the template and the special "
            f"tokens; set it with --set data.max_length={around + 32}"
        )
    return limit


def near_duplicates(text: TextSource, recipe: Recipe, progress: Progress) -> Flags | None:
    """(M,) rows that nearly repeat an earlier one; None where ``data.near_duplicates`` is unset."""
    threshold = recipe.data.near_duplicates
    if threshold is None:
        return None
    progress.say("looking for near duplicates")
    return find_near_duplicates((row for _, row in text.rows_with_documents()), threshold).rows


def _left_out(dev: Selector | None, near: Flags | None) -> Flags | None:
    """(M,) rows that are not trained on: held out by ``dev``, or near duplicates; None where there are none."""
    held_out = None if dev is None else dev.left_out
    if near is None or held_out is None:
        return held_out if near is None else near
    return near | held_out


def _count(rows: Flags | None) -> int | None:
    return None if rows is None else int(rows.sum())


def _keep_sample(inputs: InputBuilder, recipe: Recipe, text: TextSource) -> tuple[int, int] | None:
    """Keeps the sample of ``data.rows`` or ``data.share``: (rows drawn, rows to draw from); None without these."""
    data, rows = recipe.data, inputs.anchor_rows
    drawn = sample_rows(rows, count=data.rows, share=data.share, seed=data.sample_seed, source=text.location)
    if drawn is None:
        return None
    inputs.keep_rows(drawn)
    return len(drawn), len(rows)


def _add_masked_lm_head(
    encoder: SentenceEncoder, objectives: Sequence[Objective], model: str, trust_remote_code: bool
) -> None:
    """Opens the masked-LM head of the model if a term reads it."""
    requests = [request for one in objectives for request in one.reads if isinstance(request, LmHead)]
    if requests:
        embeddings = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
        tied = all(request.tied for request in requests)
        instead = " and ".join(sorted({request.instead for request in requests}))
        head = load_masked_lm_head(
            locate(model), embeddings, tied=tied, trust_remote_code=trust_remote_code, instead=instead
        )
        encoder.lm_head = head.to(encoder.device)
