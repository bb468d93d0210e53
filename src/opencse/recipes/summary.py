"""Recipes described to the user: what they are made of, what their presets change, where two differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from opencse.recipes.recipe import Preset, Recipe

_LONG_LIST = 12


def made_of(recipe: Recipe) -> str:
    """View, negatives with what is peculiar to them, terms and head, in a few words."""
    objective = recipe.objective
    parts: list[str] = [objective.view.kind]
    if objective.positive.of.kind != "views":
        parts.append(f"positive of {objective.positive.of.kind}")
    parts += [_named(source.model_dump(mode="json")) for source in objective.negatives]
    parts += [term.kind for term in objective.terms]
    if objective.dual_encoder:
        parts.append("two encoders")
    worst_case = recipe.training.worst_case
    if worst_case is not None:
        inputs = "" if worst_case.inputs.kind == "none" else f" with {worst_case.inputs.kind} inputs"
        parts.append(f"{worst_case.kind} pass{inputs}")
    head = recipe.encoder.head
    if head.kind != "none":
        parts.append(f"{head.kind} head" if head.keep else f"{head.kind} head in training")
    if recipe.encoder.part:
        parts.append(recipe.encoder.part)
    return " + ".join(parts)


def _named(source: Mapping[str, Any]) -> str:
    """A source of negatives by its kind, and by what it is of, how large, or of which layers, where that says more."""
    words = [str(source["kind"])]
    of = source.get("of", {}).get("kind", "views")
    if of != "views":
        words.append(f"of {of}")
    words += [str(source["size"])] if "size" in source else []
    words += [",".join(map(str, source["layers"]))] if "layers" in source else []
    return " ".join(words)


def short_paper(recipe: Recipe) -> str:
    """``Wu et al. 2022``; for what is no citation, what stands before the first semicolon."""
    cited = re.match(r"([^.;]+?) (\d{4})\. ", recipe.paper)
    if cited is None:
        return recipe.paper.partition(";")[0]
    authors = cited[1].split(", ")
    shown = authors[0] if len(authors) == 1 else " and ".join(authors) if len(authors) == 2 else f"{authors[0]} et al."
    return f"{shown} {cited[2]}"


def published(recipe: Recipe) -> str:
    """The number for BERT-base: the seven-task average, or else STS-B's development set; empty if there is none."""
    base = recipe.presets.get("bert-base")
    expected = {} if base is None else base.expected
    if "sts.average" in expected:
        return f"{expected['sts.average']:.2f}"
    return f"{expected['dev.stsb']:.2f} (STS-B dev)" if "dev.stsb" in expected else ""


def scores(preset: Preset) -> list[str]:
    """What is published for a preset, the average first."""
    order = sorted(preset.expected, key=lambda key: key != "sts.average")
    return [f"{key} {preset.expected[key]:.2f}" for key in order]


def preset_changes(preset: Preset) -> list[str]:
    """What a preset changes, a setting each; what it changes further beside ``reference`` comes last."""
    lines = [f"{key} = {shown(value)}" for key, value in preset.settings.items()]
    return lines + [f"with reference: {key} = {shown(value)}" for key, value in preset.reference.items()]


def shown(value: object) -> str:
    """A setting's value on one line: parts as ``kind(key=value, ...)``, long lists cut short."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}={shown(v)}" for key, v in value.items() if key != "kind" and v is not None)
        kind = str(value.get("kind", ""))
        return f"{kind}({inside})" if inside else kind or "{}"
    if isinstance(value, list | tuple):
        items = [shown(item) for item in value[:_LONG_LIST]]
        more = [f"... {len(value)} in all"] if len(value) > _LONG_LIST else []
        return f"[{', '.join([*items, *more])}]"
    if value is None:
        return "unset"
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class Difference:
    """One setting in which two recipes differ; an empty string where one has no such setting or part."""

    key: str
    a: str
    b: str


def differences(a: Recipe, b: Recipe) -> list[Difference]:
    """The settings in which ``a`` and ``b`` differ: names, titles, papers and presets aside.

    Parts of another kind are told as a whole, and in lists of parts each is compared with the one of its own kind, so
    that a part more is one difference, wherever it stands.
    """
    aside = {"name", "title", "paper", "presets"}
    return list(_differences("", a.model_dump(mode="json", exclude=aside), b.model_dump(mode="json", exclude=aside)))


def _differences(key: str, a: Any, b: Any) -> Iterator[Difference]:  # noqa: ANN401 - trees of settings
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.get("kind") == b.get("kind"):
        for name in a:  # the same settings class, so the same keys
            yield from _differences(f"{key}.{name}" if key else name, a[name], b[name])
    elif _are_parts(a) and _are_parts(b):
        for name, one, other in _by_kind(a, b):
            yield from _differences(f"{key}.{name}", one, other)
    elif a != b:
        yield Difference(key, _shown_or_empty(a), _shown_or_empty(b))


def _are_parts(value: Any) -> bool:  # noqa: ANN401 - a tree of settings
    return isinstance(value, list) and all(isinstance(item, Mapping) and "kind" in item for item in value)


def _by_kind(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """The parts of both, paired by kind; the second of a kind is called ``kind#2``."""
    for kind in dict.fromkeys(str(part["kind"]) for part in [*a, *b]):
        ones = [part for part in a if part["kind"] == kind]
        others = [part for part in b if part["kind"] == kind]
        for number, (one, other) in enumerate(zip_longest(ones, others), start=1):
            yield kind if number == 1 else f"{kind}#{number}", one, other


def _shown_or_empty(value: object) -> str:
    return "" if value is None else shown(value)
