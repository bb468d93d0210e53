"""The prompts of a model: the text put before queries, documents and other texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from opencse.errors import UserError, nearest
from opencse.text.template import ColumnPrompts


class Role(StrEnum):
    """The use of a text: query, document or neither; it decides the prompt.

    - ``plain``: neither a query nor a document (similarity, classification): the model's default prompt.
    - ``query``: a question or search text: the prompt called ``query``.
    - ``document``: a text to be found: the prompt called ``document``.

    Example:
        >>> Role("query") is Role.QUERY
        True
    """

    PLAIN = "plain"
    QUERY = "query"
    DOCUMENT = "document"


_OTHER_NAMES = ("passage", "corpus")


@dataclass(frozen=True)
class Prompts:
    """The prompts that a model's folder names, with the meaning that sentence-transformers gives them.

    ``encode_query`` uses the prompt called ``query`` and ``encode_document`` the one called ``document``; a model
    without such a prompt encodes those texts unchanged. The default prompt is for texts that are neither.

    Attributes:
        texts: each prompt by its name.
        default: name of the prompt for texts that are neither queries nor documents; None for no prompt.

    Raises:
        UserError: if the default is not among the names.

    Example:
        >>> prompts = Prompts({"query": "query: ", "document": "passage: "})
        >>> prompts.of(Role.QUERY), prompts.of(Role.DOCUMENT), prompts.of(Role.PLAIN)
        ('query: ', 'passage: ', '')
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    default: str | None = None

    def __post_init__(self) -> None:
        if self.default is not None and self.default not in self._known:
            raise UserError(f"the default prompt {self.default!r} is not among the prompts: {self._listed}")

    def __bool__(self) -> bool:
        return any(self.texts.values())

    def of(self, role: Role) -> str:
        """The text put before texts of this role; empty where there is none."""
        name = self.default if role is Role.PLAIN else role.value
        return "" if name is None else self.texts.get(name, "")

    def named(self, name: str) -> str:
        """The prompt called ``name``.

        Raises:
            UserError: if there is none; the message lists the model's prompts.
        """
        if name not in self._known:
            raise UserError(f"the model has no prompt {name!r}{nearest(name, self._known)}; it has {self._listed}")
        return self.texts.get(name, "")

    def requested(self, role: Role, prompt_name: str | None = None, prompt: str | None = None) -> str:
        """The requested prompt: by text, by name, or by default that of the role.

        Raises:
            UserError: for an unknown name, or both a name and a text.
        """
        if prompt is not None and prompt_name is not None:
            raise UserError("give a prompt or a prompt_name, not both")
        if prompt is not None:
            return prompt
        return self.of(role) if prompt_name is None else self.named(prompt_name)

    @property
    def entries(self) -> dict[str, Any]:
        """The prompts as a model's folder and an export have them."""
        return {"prompts": dict(self.texts), "default_prompt_name": self.default}

    @property
    def single(self) -> Role:
        """The role of a training text outside pairs: a document, or neither if documents have no prompt."""
        return Role.DOCUMENT if self.of(Role.DOCUMENT) else Role.PLAIN

    @property
    def differ(self) -> bool:
        """Whether queries, documents and other texts are read with different prompts."""
        return len({self.of(role) for role in Role}) > 1

    @property
    def identity(self) -> str:
        """A string that differs between prompts that lead to different vectors."""
        return json.dumps([self.of(role) for role in Role]) if self.differ else self.of(Role.PLAIN)

    @property
    def columns(self) -> ColumnPrompts:
        """The prompts of training texts: the first of a pair is a query, the others are documents.

        A model without prompts for queries and documents reads all of them with its default prompt.
        """
        single, query, document = (self.of(role) for role in (self.single, Role.QUERY, Role.DOCUMENT))
        return ColumnPrompts(single, query, document) if query or document else ColumnPrompts(single, single, single)

    @property
    def note(self) -> str:
        """A note on a prompt for documents that is not used because it is not called ``document``; else ""."""
        name = next((name for name in _OTHER_NAMES if self.texts.get(name)), None)
        if name is None or self.of(Role.DOCUMENT):
            return ""
        return (
            f" (the prompt {name!r} is only used by name, as in sentence-transformers: rename it 'document' to use it)"
        )

    def line(self, *roles: Role) -> str:
        """The prompt of each of some roles, in one line."""
        parts = [f"{_PLURALS[role]} {self.of(role)!r}" if self.of(role) else f"{_PLURALS[role]} none" for role in roles]
        return ", ".join(parts)

    @property
    def _known(self) -> tuple[str, ...]:
        # Queries and documents have a prompt in every model of sentence-transformers, an empty one if none is named.
        return tuple(dict.fromkeys([*self.texts, "query", "document"]))

    @property
    def _listed(self) -> str:
        return ", ".join(self.texts) or "none"


_PLURALS = {Role.PLAIN: "texts", Role.QUERY: "queries", Role.DOCUMENT: "documents"}
