"""Describes recipes for tables: what their presets change, and where two of them differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from opencse.recipes.files import Preset

if TYPE_CHECKING:
    from opencse.recipes.recipe import Recipe

_LONG_LIST = 12


def short_paper(paper: str) -> str:
    """Shortens a citation to ``Wu et al. 2022``; other text is truncated at the first semicolon."""
    cited = re.match(r"([^.;]+?) (\d{4})\. ", paper)
    if cited is None:
        return paper.partition(";")[0]
    authors = cited[1].split(", ")
    names = authors[0] if len(authors) == 1 else " and ".join(authors) if len(authors) == 2 else f"{authors[0]} et al."
    return f"{names} {cited[2]}"


def published(presets: Mapping[str, Preset]) -> str:
    """Returns the published score with BERT-base: the STS average, else STS-B's development set; empty if none."""
    base = presets.get("bert-base")
    expected = {} if base is None else base.expected
    if "sts.average" in expected:
        return f"{expected['sts.average']:.2f}"
    return f"{expected['dev.stsb']:.2f} (STS-B dev)" if "dev.stsb" in expected else ""


def scores(preset: Preset) -> list[str]:
    """Returns the published scores of a preset, the average first."""
    order = sorted(preset.expected, key=lambda key: key != "sts.average")
    return [f"{key} {preset.expected[key]:.2f}" for key in order]


def preset_changes(preset: Preset) -> list[str]:
    """Returns the changes of a preset, one line each.

    What it adds to ``reference`` comes after its own changes, and how its row is evaluated last.
    """
    lines = [f"{key} = {setting_text(value)}" for key, value in preset.settings.items()]
    lines += [f"with reference: {key} = {setting_text(value)}" for key, value in preset.reference.items()]
    return lines + ([f"evaluated: {preset.judged}"] if str(preset.judged) else [])


def setting_text(value: object) -> str:
    """Writes the value of a setting on one line: parts as ``kind(key=value, ...)``, long lists shortened.

    Example:
        >>> setting_text({"kind": "crop", "rate": 0.1}), setting_text(None)
        ('crop(rate=0.1)', 'unset')
    """
    if isinstance(value, Mapping):
        inside = ", ".join(f"{key}={setting_text(v)}" for key, v in value.items() if key != "kind" and v is not None)
        kind = str(value.get("kind", ""))
        return f"{kind}({inside})" if inside else kind or "{}"
    if isinstance(value, list | tuple):
        items = [setting_text(item) for item in value[:_LONG_LIST]]
        more = [f"... {len(value)} in all"] if len(value) > _LONG_LIST else []
        return f"[{', '.join([*items, *more])}]"
    if value is None:
        return "unset"
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class SettingDifference:
    """A setting in which two recipes differ; an empty string where one of them does not have it."""

    key: str
    a: str
    b: str


def differences(a: Recipe, b: Recipe) -> list[SettingDifference]:
    """Returns the settings in which ``a`` and ``b`` differ, except names, families, titles, papers and presets.

    Parts of different kinds are one difference. In lists of parts each is compared with the one of the same kind, so an
    additional part is one difference, wherever it is in the list.

    Example:
        >>> from opencse.recipes.recipe import load_recipe
        >>> differences(load_recipe("simcse"), load_recipe("simcse", overrides=["training.epochs=2"]))
        [SettingDifference(key='training.epochs', a='1.0', b='2.0')]
    """
    aside = {"name", "family", "title", "paper", "presets"}
    return list(_differences("", a.model_dump(mode="json", exclude=aside), b.model_dump(mode="json", exclude=aside)))


def _differences(key: str, a: Any, b: Any) -> Iterator[SettingDifference]:  # noqa: ANN401 - trees of settings
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.get("kind") == b.get("kind"):
        for name in a:  # the same settings class, so the same keys
            yield from _differences(f"{key}.{name}" if key else name, a[name], b[name])
    elif _are_parts(a) and _are_parts(b):
        for name, one, other in _by_kind(a, b):
            yield from _differences(f"{key}.{name}", one, other)
    elif a != b:
        yield SettingDifference(key, _shown_or_empty(a), _shown_or_empty(b))


def _are_parts(value: Any) -> bool:  # noqa: ANN401 - a tree of settings
    return isinstance(value, list) and all(isinstance(item, Mapping) and "kind" in item for item in value)


def _by_kind(
    a: Sequence[Mapping[str, Any]], b: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Mapping[str, Any] | None, Mapping[str, Any] | None]]:
    """The parts of both, paired by kind; the second of a kind is called ``kind#2``."""
    for kind in dict.fromkeys(str(part["kind"]) for part in [*a, *b]):
        of_a = [part for part in a if part["kind"] == kind]
        of_b = [part for part in b if part["kind"] == kind]
        for number, (one, other) in enumerate(zip_longest(of_a, of_b), start=1):
            yield kind if number == 1 else f"{kind}#{number}", one, other


def _shown_or_empty(value: object) -> str:
    return "" if value is None else setting_text(value)
