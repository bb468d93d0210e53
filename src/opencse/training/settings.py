"""The ``[training]`` table of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from opencse.settings import PartSettings, Settings


class Undisturbed(PartSettings):
    """No disturbance of the inputs in the second pass."""

    kind: Literal["none"] = "none"


class GaussianInputs(PartSettings):
    """N(0, sd) on every dimension of the input embeddings in the second pass (Park's thesis, 4.2 "AWP + GNI")."""

    kind: Literal["gaussian"] = "gaussian"
    sd: float = Field(default=0.001, ge=0, allow_inf_nan=False)


class FgsmInputs(PartSettings):
    """``epsilon * sign(gradient)`` on the input embeddings in the second pass (Park's thesis, 4.2 "AWP + FGSM").

    The gradient is the first pass's with respect to the input embeddings; ``epsilon`` is our choice, the thesis
    gives none.
    """

    kind: Literal["fgsm"] = "fgsm"
    epsilon: float = Field(default=0.001, ge=0, allow_inf_nan=False)


InputsSettings = Annotated[Undisturbed | GaussianInputs | FgsmInputs, Field(discriminator="kind")]


class Sam(PartSettings):
    """Sharpness-aware minimisation (Foret et al. 2020, eq. 2; Park's thesis, 4.2): ``w + rho * g / ||g||``.

    g is the gradient of all weights together. ``rho`` = 0 is the plain step, bit for bit (under ``same_masks``).
    """

    kind: Literal["sam"] = "sam"
    rho: float = Field(default=0.05, ge=0, allow_inf_nan=False)
    inputs: InputsSettings = Undisturbed()
    same_masks: bool = True


class Awp(PartSettings):
    """Adversarial weight perturbation (Wu et al. 2020, eq. 9; Park's thesis, 4.2): ``w + gamma * ||w|| * g / ||g||``.

    Matrix by matrix; biases and LayerNorm weights stay. ``gamma`` is our choice, the thesis gives none.
    ``gamma`` = 0 is the plain step, bit for bit (under ``same_masks``).
    """

    kind: Literal["awp"] = "awp"
    gamma: float = Field(default=0.0005, ge=0, allow_inf_nan=False)
    inputs: InputsSettings = Undisturbed()
    same_masks: bool = True


WorstCaseSettings = Annotated[Sam | Awp, Field(discriminator="kind")]


class TrainingSettings(Settings):
    """Settings of training: batches, optimizer, schedule, precision, evaluation.

    Example:
        >>> settings = TrainingSettings(epochs=2, batch_size=64)
        >>> settings.steps(batches_per_epoch=100, tokens_per_epoch=120_000)
        200

    Attributes:
        epochs: passes over the examples; a fraction stops inside one. The schedule spans the whole run.
        max_steps: the most steps, if set.
        tokens: instead of epochs: as many steps as read this many tokens.
        minutes: instead of epochs: as many steps as fit into this time; the pace is measured before the first step
            and the schedule spans these steps (evaluation on dev pairs and checkpoints take additional time). With
            ``tokens`` too, the smaller budget counts.
        batch_size: examples in a batch (N).
        accumulate: batches whose gradients are averaged into one step. Each is contrasted separately: this saves
            memory compared with a larger ``batch_size``, but adds no negatives.
        chunk: texts encoded together, by gradient caching (arXiv:2101.06983): the same loss and gradient up to
            dropout's draws, of a batch of any size in the memory of one chunk, for the time of a second forward pass.
            ``auto`` takes as many as fit into half of the free memory. See docs/encoding.md.
        batch_tokens: instead of ``batch_size``: texts of about equal length, this many tokens together; only for
            objectives without contrast, such as pretraining.
        learning_rate: peak of the optimizer's rate.
        schedule: ``linear`` decays to 0 at the last step (the authors' code), ``constant`` does not.
        warmup: share of the steps over which the rate rises linearly from 0.
        rate_changes: with ``constant``: steps (from 1, ascending) and the rate from each on: ``[[502, 8e-6], ...]``.
        optimizer: ``adamw``, or ``rmsprop`` (with a moving average of .9 and eps 1e-7, as TensorFlow has it; CT's).
        adamw: ``torch`` is AdamW as published; ``transformers`` is that of transformers 4, with which the authors' code
            trains: eps is added before the bias correction, which makes it count more in the first steps;
            ``uncorrected`` is that one without the bias correction (its ``correct_bias=False``).
        eps: AdamW's, added to the root of the average square.
        betas: AdamW's decay rates of the moving averages of the gradient and of its square.
        weight_decay: AdamW's, on matrices only (not on biases and LayerNorm weights).
        max_grad_norm: gradients are clipped to this norm.
        worst_case: a second pass of each step at adversarial weights (SAM, AWP), and inputs if set; its gradient
            counts.
        packed: skip padding: the same losses and gradients up to rounding, other dropout masks, and faster; see
            `opencse.kernels.packed`. ``auto`` does so for backbones of BERT's shape on a CPU.
        graphs: on a GPU record a step as a CUDA graph and replay it, where backbone and objective allow it; see
            `opencse.training.step`.
        precision: ``auto`` takes bf16 autocast where the processor is faster in it, float32 elsewhere.
        average_with_start: what is evaluated, and may be saved: averages of the weights with the start's, of which the
            best counts. Each number is the share w of the trained weights, (1 - w) start + w trained; 1, the default,
            is the trained encoder itself. Averages preserve what the start knew (Wortsman et al. 2022,
            arXiv:2109.01903). Each costs an evaluation.
        averages_at_end: further averages that are evaluated once, after the last step, with the weights of the best
            step (of the last where the guard refused all); they are kept if they are better.
        patience: training stops after this many evaluations without a new best; unset makes all steps. The learning
            rate follows its schedule over all steps either way.
        evaluate_every: steps between evaluations on the dev pairs (the start and the last step always are).
        checkpoint_every: steps between checkpoints; a kill loses at most these, or five minutes where they are slow.
        log_every: steps between lines of metrics.jsonl.
        seed: of data order, dropout, augmentation and new weights, each with its own stream of random numbers.
        data_seed: of the order of the examples alone; unset takes ``seed``. With ``dropout_seed``, `opencse.compare`
            separates how much of the variation between runs is due to each.
        dropout_seed: of the dropout masks alone; unset takes ``seed``.
    """

    epochs: float = Field(default=1.0, gt=0, le=1_000_000)
    max_steps: int | None = Field(default=None, gt=0, le=10**12)
    tokens: int | None = Field(default=None, gt=0, le=10**15)
    minutes: float | None = Field(default=None, gt=0, le=10_000_000)
    batch_size: int = Field(default=64, ge=2, le=1_048_576)
    accumulate: int = Field(default=1, ge=1, le=1_048_576)
    chunk: Annotated[int, Field(gt=0, le=1_048_576)] | Literal["auto"] | None = None
    batch_tokens: int | None = Field(default=None, gt=0, le=10**9)
    learning_rate: float = Field(default=3e-5, gt=0, le=1_000)
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = Field(default=0.0, ge=0, lt=1)
    rate_changes: tuple[tuple[Annotated[int, Field(ge=2)], Annotated[float, Field(gt=0, le=1_000)]], ...] = ()
    optimizer: Literal["adamw", "rmsprop"] = "adamw"
    adamw: Literal["torch", "transformers", "uncorrected"] = "torch"
    eps: float = Field(default=1e-8, gt=0, le=1)
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    weight_decay: float = Field(default=0.0, ge=0, le=1_000_000)
    max_grad_norm: float = Field(default=1.0, gt=0)
    worst_case: WorstCaseSettings | None = None
    packed: Literal["auto"] | bool = "auto"
    graphs: bool = True
    precision: Literal["auto", "float32", "bf16"] = "auto"
    average_with_start: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Field(min_length=1)] = (1.0,)
    averages_at_end: tuple[Annotated[float, Field(gt=0, le=1)], ...] = ()
    patience: int | None = Field(default=None, gt=0)
    evaluate_every: int = Field(default=125, gt=0)
    checkpoint_every: int = Field(default=125, gt=0)
    log_every: int = Field(default=10, gt=0)
    seed: int = Field(default=42, ge=0)
    data_seed: int | None = Field(default=None, ge=0)
    dropout_seed: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _optimizer_has_its_own_settings(self) -> TrainingSettings:
        if self.rate_changes and self.schedule != "constant":
            raise ValueError("rate_changes are of a constant rate; set schedule = constant")
        steps = [step for step, _ in self.rate_changes]
        if steps != sorted(set(steps)):
            raise ValueError("the steps of rate_changes ascend")
        own = (self.adamw, self.eps, self.betas, self.weight_decay)
        if self.optimizer == "rmsprop" and own != ("torch", 1e-8, (0.9, 0.999), 0.0):
            raise ValueError(
                "adamw, betas, eps and weight_decay are AdamW's, not of optimizer = rmsprop; leave them out"
            )
        return self

    @property
    def shares(self) -> tuple[float, ...]:
        """All shares of the trained weights that are scored; (1,) where nothing is averaged."""
        return (*self.average_with_start, *self.averages_at_end)

    @property
    def seed_of_order(self) -> int:
        """The seed of the order of the examples: ``data_seed`` where it is set."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def seed_of_dropout(self) -> int:
        """The seed of the dropout masks: ``dropout_seed`` where it is set."""
        return self.seed if self.dropout_seed is None else self.dropout_seed

    @property
    def rate_in_words(self) -> str:
        """The learning rate, for the user.

        Example:
            >>> TrainingSettings(schedule="constant", rate_changes=((502, 8e-6),), optimizer="rmsprop").rate_in_words
            '3e-05, from step 502 8e-06, constant schedule, RMSprop'
        """
        changes = "".join(f", from step {step:,} {rate:g}" for step, rate in self.rate_changes)
        rmsprop = ", RMSprop" if self.optimizer == "rmsprop" else ""
        return f"{self.learning_rate:g}{changes}, {self.schedule} schedule{rmsprop}"

    @property
    def seeds_in_words(self) -> str:
        """The seeds, for the user.

        Example:
            >>> TrainingSettings(seed=1, dropout_seed=3).seeds_in_words
            'seed 1 (dropout 3)'
        """
        apart = {"data order": self.data_seed, "dropout": self.dropout_seed}
        set_apart = ", ".join(f"{name} {seed}" for name, seed in apart.items() if seed is not None)
        return f"seed {self.seed}{set_apart and f' ({set_apart})'}"

    def steps(self, batches_per_epoch: int, tokens_per_epoch: int, seconds_per_step: float | None = None) -> int:
        """The optimizer steps of the run.

        Args:
            batches_per_epoch: batches in an epoch.
            tokens_per_epoch: tokens in an epoch.
            seconds_per_step: the measured pace; needed if ``minutes`` is set.
        """
        budgets: list[float] = []
        steps_per_epoch = batches_per_epoch / self.accumulate
        if self.minutes is not None:
            assert seconds_per_step is not None
            budgets.append(60 * self.minutes / seconds_per_step)
        if self.tokens is not None:
            budgets.append(self.tokens / tokens_per_epoch * steps_per_epoch)
        budgets = budgets or [self.epochs * steps_per_epoch]
        if self.max_steps is not None:
            budgets.append(self.max_steps)
        return max(1, round(min(budgets)))
