"""Writes the prompt that asks a language model for questions about a passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opencse.asking.sources import SourcePassage
from opencse.errors import UserError, reason
from opencse.streams import seed_of

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE = """\
People search a collection of documents. Write {{ count }} different search queries or questions \
that the text below answers.

- People have not seen the text when they type them: do not mention "the text" or its author, and copy no sentence.
- Each can be understood by itself, and is answered by this text rather than by others on the same subject.
{% if language %}- Write in {{ language }}.
{% elif not examples %}- Write in the language of the text.
{% endif %}{% if examples %}- Write in the style, length and language of these, which people really typed:
{% for example in examples %}  {{ example }}
{% endfor %}{% endif %}
{% if title %}Title: {{ title }}
{% endif %}Text: {{ text }}

Answer with a JSON array of {{ count }} strings and nothing else.
"""
"""The built-in prompt, a Jinja template."""
PLACEHOLDERS = {
    "text": "the passage",
    "title": "its document's title, or empty",
    "count": "how many questions",
    "examples": "a list of the user's own queries, or empty",
    "language": "the value of --language, or empty",
}
"""What a template may use."""
_EXAMPLES = 8
"""Examples in one prompt; of more, each prompt has others."""


@dataclass(frozen=True)
class QuestionPrompt:
    """Makes the prompt of each passage.

    Example:
        >>> prompt = QuestionPrompt("Ask {{ count }} questions about: {{ text }}", count=2)
        >>> prompt.of(SourcePassage(0, "a", 1, "", "Vinegar removes limescale."))
        'Ask 2 questions about: Vinegar removes limescale.'

    Attributes:
        template: a Jinja template with the names in `PLACEHOLDERS`.
        count: questions per passage.
        examples: queries of the user; at most eight are in one prompt.
        language: to write in; empty: that of the examples or the text.
        where: names the template in messages.
    """

    template: str = TEMPLATE
    count: int = 3
    examples: Sequence[str] = ()
    language: str = ""
    where: str = "the template"

    def __post_init__(self) -> None:
        from jinja2 import TemplateSyntaxError, meta

        try:
            tree = self._environment().parse(self.template)
        except TemplateSyntaxError as error:
            raise UserError(
                f"{self.where}, line {error.lineno}: is no Jinja template ({reason(error)}); correct it"
            ) from None
        used = meta.find_undeclared_variables(tree)
        known = ", ".join(f"{{{{ {name} }}}} ({meaning})" for name, meaning in PLACEHOLDERS.items())
        if unknown := sorted(used - PLACEHOLDERS.keys()):
            raise UserError(f"{self.where}: there is no value for {{{{ {unknown[0]} }}}}; a template may use {known}")
        if "text" not in used:
            raise UserError(f"{self.where}: has no {{{{ text }}}}, so every prompt would be the same; put it in")

    def of(self, passage: SourcePassage) -> str:
        """The prompt for a passage; the same whenever it is made.

        Raises:
            UserError: where the template cannot be filled.
        """
        try:
            return self._compiled.render(
                text=passage.body,
                title=passage.title,
                count=self.count,
                language=self.language,
                examples=self._examples_of(passage),
            ).strip()
        except Exception as error:  # whatever the user's template does
            raise UserError(f"{self.where}: cannot be filled ({reason(error)}); correct it") from None

    def _examples_of(self, passage: SourcePassage) -> list[str]:
        first = seed_of(passage.number, passage.text) % max(1, len(self.examples))
        turned = [*self.examples[first:], *self.examples[:first]]
        return list(self.examples) if len(turned) <= _EXAMPLES else turned[:_EXAMPLES]

    @cached_property
    def _compiled(self) -> Template:
        return self._environment().from_string(self.template)

    @staticmethod
    def _environment() -> ImmutableSandboxedEnvironment:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        return ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
