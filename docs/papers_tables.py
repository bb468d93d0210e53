"""What the papers print and docs/results/papers.md sets beside ours: the systems and the tables of ablations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opencse.recipes.recipe import resolve_recipe

DEV, STS, BASE = "dev.stsb", "sts.average", "simcse"
SYSTEMS: dict[str, float | None] = {
    "simcse": None,
    "esimcse": 78.27 - 76.25,
    "simcse++": 78.05 - 76.25,
    "sscl": 77.80 - 76.25,
    "sscl-progressive": 77.90 - 76.25,
    "gaussian-sampling": 76.38 - 74.80,
    "weight-perturbation": 75.25 - 74.80,
    "queue-dcl": None,
    "simcse:dropout-0": None,
    "simcse:dropout-fixed-0.1": None,
}
"""What each paper reports above the SimCSE it compares with, on BERT-base, of the average over the seven STS tasks.

None where nothing is published of that average."""


COMBINATION: dict[str, float | None] = {
    "simcse": None,
    "simcse:temperature-0.01": None,
    "simcse:temperature-0.01:delete-one-word-no-dropout": None,
}
"""Settings that gained in the ablations of two papers, together."""


def published(recipe: str, metric: str) -> float | None:
    """What the recipe's paper printed for it: of the last preset that has the score, else of BERT-base."""
    resolved = resolve_recipe(recipe)
    presets = resolved.recipe.presets
    named = [presets[name] for name in resolved.presets if name in presets] or [presets["bert-base"]]
    return next((one.expected[metric] for one in reversed(named) if metric in one.expected), None)


@dataclass(frozen=True)
class Table:
    """One published table.

    Attributes:
        key: of its picture and verdict.
        title: paper and table.
        base: the recipe that both curves are measured from.
        rows: (label, recipe) in published order, the base among them.
        metric: what the paper scored, by the name in the recipes' presets.
        published: values that the presets do not have, by recipe.
    """

    key: str
    title: str
    base: str
    rows: Sequence[tuple[str, str]]
    metric: str = DEV
    published: Mapping[str, float] | None = None

    def of_paper(self, recipe: str) -> float | None:
        """The published score of a row; None for a curve printed without numbers."""
        own = (self.published or {}).get(recipe)
        return published(recipe, self.metric) if own is None else own


def _variants(recipe: str, presets: Mapping[str, str]) -> list[tuple[str, str]]:
    """(label, recipe with preset); an empty preset is the recipe itself."""
    return [(label, f"{recipe}:{preset}" if preset else recipe) for label, preset in presets.items()]


TABLES = (
    Table(
        "dropout",
        "SimCSE, Table 3: dropout",
        "simcse",
        _variants(
            "simcse",
            {
                "0": "dropout-0",
                ".01": "dropout-0.01",
                ".05": "dropout-0.05",
                ".1": "",
                ".15": "dropout-0.15",
                ".2": "dropout-0.2",
                ".5": "dropout-0.5",
                ".1, one mask": "dropout-fixed-0.1",
            },
        ),
    ),
    Table(
        "augmentations",
        "SimCSE, Table 1: augmentations",
        "simcse",
        _variants(
            "simcse",
            {
                "none": "",
                "crop 10%": "crop-10",
                "crop 20%": "crop-20",
                "crop 30%": "crop-30",
                "delete 10%": "delete-words-10",
                "delete 20%": "delete-words-20",
                "delete 30%": "delete-words-30",
                "delete one": "delete-one-word",
                "delete one, no dropout": "delete-one-word-no-dropout",
            },
        ),
    ),
    Table(
        "pooling",
        "SimCSE, Table 6: pooling",
        "simcse",
        _variants(
            "simcse",
            {"MLP in training": "", "MLP kept": "mlp-kept", "no MLP": "no-mlp", "first-last": "first-last"},
        ),
    ),
    Table(
        "temperature",
        "SSCL, Table 6: SimCSE's temperature",
        "simcse",
        _variants(
            "simcse",
            {".001": "temperature-0.001", ".01": "temperature-0.01", ".05": "", ".1": "temperature-0.1"},
        ),
        metric="sts.average",
    ),
    Table(
        "repetition",
        "ESimCSE, Table 9: rate of repetition",
        "esimcse",
        _variants(
            "esimcse",
            {f".{rate:02}": f"rate-0.{rate:02}".rstrip("0") for rate in (8, 12, 16, 20, 24, 28)}
            | {".32": "", ".36": "rate-0.36"},
        ),
    ),
    Table(
        "repeated",
        "ESimCSE, Table 10: what is repeated or put in",
        "esimcse",
        _variants("esimcse", {"sub-words": "", "words": "words", "stop words": "stop-words", "[MASK]": "mask"}),
    ),
    Table(
        "queue",
        "ESimCSE, Table 11: length of the queue",
        "esimcse",
        _variants(
            "esimcse",
            {"1x": "queue-1x", "1.5x": "queue-1.5x", "2x": "queue-2x", "2.5x": "", "3x": "queue-3x"},
        ),
    ),
    Table(
        "m",
        "SimCSE++, Table 5: m, the weight of negatives",
        "simcse++",
        _variants("simcse++", {".5": "m-0.5", ".8": "m-0.8", ".9": "", "1": "m-1", "1.1": "m-1.1", "1.2": "m-1.2"}),
    ),
    Table(
        "lambda",
        "SimCSE++, Table 5: weight of DCL",
        "simcse++",
        _variants(
            "simcse++",
            {
                ".02": "lambda-0.02",
                ".05": "lambda-0.05",
                ".1": "",
                ".2": "lambda-0.2",
                ".5": "lambda-0.5",
                "1": "lambda-1",
            },
        ),
    ),
    Table(
        "dcl-temperature",
        "SimCSE++, Table 5: temperature of DCL",
        "simcse++",
        _variants(
            "simcse++",
            {
                "1": "dcl-temperature-1",
                "2": "dcl-temperature-2",
                "5": "",
                "10": "dcl-temperature-10",
                "20": "dcl-temperature-20",
                "50": "dcl-temperature-50",
            },
        ),
    ),
    Table(
        "layer",
        "SSCL, Figure 3 (a): which layer is the negative",
        "sscl",
        _variants("sscl", {"1": "layer-1", "2": "layer-2", "3": "layer-3", "last but one": ""}),
        metric="sts.average",
    ),
    Table(
        "stack",
        "SSCL, Figure 3 (b): how many layers are negatives",
        "sscl-progressive",
        [("1", "sscl"), ("2", "sscl-progressive"), *_variants("sscl-progressive", {"3": "stack-3", "4": "stack-4"})],
        metric="sts.average",
    ),
    Table(
        "dimension",
        "SSCL, Table 5: dimensions kept",
        "sscl-progressive",
        _variants("sscl-progressive", {"all": "", "256": "dimension-256", "128": "dimension-128"}),
        metric="sts.average",
    ),
    Table(
        "thesis-negatives",
        "Park's thesis, Tables 5 and 7: more negatives",
        "simcse",
        [
            ("SimCSE", "simcse"),
            ("Gaussian of the batch", "gaussian-sampling"),
            *_variants(
                "gaussian-sampling",
                {
                    "N(0, 1)": "standard",
                    "N(mu, 1)": "batch-mean",
                    "N(0, sd)": "batch-sd",
                    "covariance": "covariance",
                    "noisy anchor": "noisy-anchor",
                    "memory bank": "memory-bank",
                },
            ),
        ],
        metric="sts.average",
        published={"simcse": 74.80},
    ),
    Table(
        "thesis-stabilisers",
        "Park's thesis, Table 4: stabilisers",
        "simcse",
        [
            ("SimCSE", "simcse"),
            ("AWP", "weight-perturbation"),
            ("SAM", "weight-perturbation:sam"),
            ("label smoothing", "simcse:label-smoothing"),
        ],
        metric="sts.average",
        published={"simcse": 74.80},
    ),
)
