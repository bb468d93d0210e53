"""Writes docs/parts.md and docs/recipe.schema.json from the code: python docs/build_parts.py."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from opencse.objective.part import Part
from opencse.objective.registry import PartRole, built_in
from opencse.recipes.files import recipe_names
from opencse.recipes.recipe import Recipe

PAGE = Path(__file__).with_name("parts.md")
SCHEMA = Path(__file__).with_name("recipe.schema.json")
_INTRODUCTION = """# Parts

Written by `python docs/build_parts.py` from the docstrings. An objective is one *view* (how the positive is made), the
*sides* that its similarity is taken between, any number of *negatives*, and any number of *terms*:

```toml
[objective]
view = { kind = "repeat_subwords", rate = 0.32 }
positive = { of = { kind = "views" } }
negatives = [{ kind = "in_batch" }, { kind = "momentum_queue", size = "2.5x" }]
terms = [{ kind = "dcl", weight = 0.1 }]
```

`--set objective.negatives.in_batch.weight=0.9` sets one setting of one part; the second of a kind is `in_batch#2`.
`recipe.schema.json` next to this page lets an editor check and complete recipe files: put
`#:schema docs/recipe.schema.json` at the top of one.

Your own part is one class in one file ([how](guides/parts.md)): a recipe names its module
(`kind = "more_parts:Between"`), an installed package registers it in the entry point group `opencse.parts`
(`kind = "between"`), and in Python its `Settings` go into `ObjectiveSettings`, or the part itself into `Objective`.
"""
_ROLES: dict[PartRole, str] = {"view": "Views", "sides": "Sides", "negatives": "Negatives", "term": "Terms"}


def page() -> str:
    """The whole page in Markdown."""
    pieces = [_INTRODUCTION]
    for role, title in _ROLES.items():
        pieces.append(f"## {title}")
        pieces += [described(kind, part) for kind, part in built_in(role).items()]
    return "\n\n".join(piece.strip("\n") for piece in pieces) + "\n"


def described(kind: str, part: type[Part]) -> str:
    """A part's docstring and its settings."""
    text, _, example = inspect.cleandoc(part.__doc__ or "").partition("\n\nExample:\n")
    text = re.sub(r"``(.+?)``", r"`\1`", text)
    text = re.sub(r"(?m)^(.*)::$", r"\1:", text)
    if example:
        text += f"\n\n```pycon\n{textwrap.dedent(example)}\n```"
    rows = [
        f"| `{name}` | {values_of(field)} | {default_of(field)} |" for name, field in part.Settings.model_fields.items()
    ]
    rows = [row for row in rows if not row.startswith("| `kind` |")]
    table = ["", "| setting | values | default |", "| --- | --- | --- |", *rows] if rows else []
    return "\n".join([f"### {kind}", "", text, *table])


def schema() -> str:
    """The JSON schema of a recipe's file."""
    made = Recipe.model_json_schema()
    del made["required"]  # a file has a name by itself
    made["properties"]["base"] = {"enum": recipe_names()}
    preset = made["$defs"]["Preset"]["properties"]
    preset["more"] = preset["settings"] | {"title": "More"}
    return json.dumps(_plain(made), indent=1) + "\n"


def _plain(value: Any) -> Any:  # noqa: ANN401 - a JSON tree
    """Without the titles that pydantic makes of names."""
    if isinstance(value, dict):
        return {key: _plain(inside) for key, inside in value.items() if key != "title" or not isinstance(inside, str)}
    return [_plain(inside) for inside in value] if isinstance(value, list) else value


def values_of(field: FieldInfo) -> str:
    """What a setting may be: its type and bounds."""
    annotation = inspect.formatannotation(field.annotation)
    annotation = re.sub(r"typing\.|opencse(?:\.\w+)+\.|<class '|'>", "", annotation)
    annotation = re.sub(r"Literal\[(.+?)\]", lambda one: one[1].replace("'", "`").replace(", ", " or "), annotation)
    if "PartSettings" in annotation:
        annotation = "sides"
    bounds = [str(one) for one in field.metadata if type(one).__name__ in ("Gt", "Ge", "Lt", "Le")]
    signs = {"Gt": ">", "Ge": ">=", "Lt": "<", "Le": "<="}
    shown = [f"{signs[b.partition('(')[0]]} {b.partition('=')[2].rstrip(')')}" for b in bounds]
    return ", ".join([annotation.replace("|", "or"), *shown])


def default_of(field: FieldInfo) -> str:
    """The default of a setting, as code; empty if it must be given."""
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        return ""
    if isinstance(default, BaseModel):
        return f"`{getattr(default, 'kind', default)}`"
    return f"`{json.dumps(default, default=lambda settings: settings.model_dump(mode='json', exclude_none=True))}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA.write_text(schema(), encoding="utf-8")
