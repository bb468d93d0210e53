"""How the encoder of a published row is evaluated, where it is not simply the trained one."""

from __future__ import annotations

from typing import Literal

from opencse.settings import Settings


class Judged(Settings):
    """How a published row's scores were measured; by default those of the trained encoder, as it is.

    Attributes:
        trained: whether the encoder is trained; else it is the start, with the recipe's pooling.
        transform: what is applied to its vectors.
        fit: what the transform is fitted on: the text that is given (``text``), or the evaluated sentences, task by
            task (``target``).

    Example:
        >>> str(Judged(trained=False, transform="whitening", fit="target"))
        'untrained, whitening fitted on the evaluated sentences'
    """

    trained: bool = True
    transform: Literal["whitening", "flow"] | None = None
    fit: Literal["text", "target"] = "text"

    @property
    def on_target(self) -> bool:
        """Whether each task has a transform of its own."""
        return self.transform is not None and self.fit == "target"

    def __str__(self) -> str:
        parts = [] if self.trained else ["untrained"]
        if self.transform is not None:
            of = "the text that is given" if self.fit == "text" else "the evaluated sentences"
            parts.append(f"{self.transform} fitted on {of}")
        return ", ".join(parts)
