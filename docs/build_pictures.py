"""Draws the two pictures of docs/how-it-works.md as SVG files: python docs/build_pictures.py.

Boxes stand below each other, 360 units wide, so that a phone shows them at their own size.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ASSETS = Path(__file__).with_name("assets")
WIDTH, MARGIN, LINE, PADDING, GAP = 360, 10, 16, 11, 22
PLAIN, LEARNED, CHOSEN = "#e8eef7", "#fdebd3", "#dff1e4"


@dataclass(frozen=True)
class Box:
    """One step: a title, lines of text, the package that does it, and the label of the arrow that leads to it."""

    title: str
    lines: tuple[str, ...]
    package: str
    arrow: str = ""
    color: str = PLAIN

    @property
    def height(self) -> int:
        """Of the box without its arrow."""
        return 2 * PADDING + LINE * (1 + len(self.lines)) - 4


BATCH = (
    Box("Text files", ("any kind; tokenised once, then memory-mapped",), "text"),
    Box("Batch", ("the rows of step n, a function of (seed, n)",), "objective.inputs"),
    Box(
        "View",
        ("makes the positive of each anchor: dropout,", "the next sentence, a repeated word, a given pair"),
        "objective.views",
    ),
    Box(
        "One forward pass", ("backbone, pooling, head: one vector per text", "(in chunks for large batches)"), "encoder"
    ),
    Box(
        "Objective",
        ("each anchor: its positive against all negatives;", "plus terms, such as contrast of dimensions"),
        "objective",
        "vectors",
        LEARNED,
    ),
    Box(
        "Backward pass",
        ("gradients; then queues and other parts", "with a memory see the step"),
        "training",
        "loss",
        LEARNED,
    ),
    Box("AdamW", ("gradients clipped, weights updated; next batch",), "training", "gradients", LEARNED),
    Box(
        "Evaluation",
        ("questions from held-out text, queries,", "or graded pairs; the best step is kept"),
        "adapting, evaluation",
        "every k steps",
        CHOSEN,
    ),
    Box("Folder of the run", ("the model, metrics.jsonl, report.html",), "runs", "at the end", CHOSEN),
)

ADAPT = (
    Box("Your documents", ("a text, a table, or a folder of files",), "text"),
    Box(
        "Held-out share",
        ("a tenth to a fifth of the documents; they are", "not trained on, and give the questions"),
        "adapting",
        color=CHOSEN,
    ),
    Box(
        "Training pairs",
        ("title and text, neighbouring sentences,", "pairs by shared words (BM25), your own pairs"),
        "adapting",
        "all other documents",
    ),
    Box("Token weights", ("rare tokens of your text count more", "(for models that average tokens)"), "adapting"),
    Box("Training", ("in-batch negatives, a low learning rate",), "training", color=LEARNED),
    Box(
        "Candidates",
        ("the start; the average of start and trained", "weights; for some starts the trained weights"),
        "training",
        "at every evaluation",
        LEARNED,
    ),
    Box(
        "Questions",
        ("which sentence comes next? which title", "belongs to this text? in nDCG@10"),
        "adapting",
        "about the held-out share",
        CHOSEN,
    ),
    Box(
        "Guard",
        ("1,560 questions in general English: a model", "that forgot too much is refused"),
        "adapting",
        color=CHOSEN,
    ),
    Box(
        "The best model",
        ("or your start, if none was better; with the", "gain and its interval in the last line"),
        "runs",
        color=CHOSEN,
    ),
)


def picture(boxes: tuple[Box, ...], label: str) -> str:
    """The boxes as an SVG, an arrow between each two."""
    y, parts = MARGIN, []
    for number, box in enumerate(boxes):
        if number:
            parts.append(
                f'<path d="M{WIDTH // 2} {y + 2}V{y + GAP - 5}" stroke="#555" stroke-width="1.5" marker-end="url(#a)"/>'
            )
            if box.arrow:
                parts.append(f'<text x="{WIDTH // 2 + 12}" y="{y + 15}" class="s">{escape(box.arrow)}</text>')
            y += GAP
        inner = WIDTH - 2 * MARGIN
        parts.append(
            f'<rect x="{MARGIN}" y="{y}" width="{inner}" height="{box.height}" rx="7" fill="{box.color}" '
            'stroke="#7d8ca3"/>'
        )
        left, right, first = MARGIN + 12, WIDTH - MARGIN - 12, y + PADDING + 10
        parts.append(f'<text x="{left}" y="{first}" class="t">{escape(box.title)}</text>')
        parts.append(f'<text x="{right}" y="{first}" class="p" text-anchor="end">{escape(box.package)}</text>')
        for row, line in enumerate(box.lines, start=1):
            parts.append(f'<text x="{left}" y="{first + LINE * row}">{escape(line)}</text>')
        y += box.height
    height = y + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(label)}">\n'
        "<style>text{font:13px system-ui,sans-serif;fill:#1b2330}.t{font-weight:700;font-size:14px}"
        ".p{font:11px ui-monospace,monospace;fill:#4a5a75}.s{font-size:11.5px;fill:#444}</style>\n"
        '<defs><marker id="a" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{height}" rx="9" fill="#fff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def pictures() -> dict[Path, str]:
    """Both pictures, by file."""
    return {
        ASSETS / "how-batch.svg": picture(BATCH, "The path of a batch, from text files to the folder of the run"),
        ASSETS / "how-adapt.svg": picture(ADAPT, "What opencse adapt does, from documents to the kept model"),
    }


def main() -> None:
    """Writes the files."""
    for path, drawn in pictures().items():
        path.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
