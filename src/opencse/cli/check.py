"""``opencse check``: look at a text before training on it; with advice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from opencse.api.options.checking import CheckOptions
from opencse.cli.options import JsonOption, TextArgument, require_json, with_options
from opencse.numerals import number_of

if TYPE_CHECKING:
    from opencse.text.check import CorpusCheck


@with_options()
def check(text: TextArgument, json_file: JsonOption = None, **options: Unpack[CheckOptions]) -> None:
    """Look at a text before training on it: duplicates, lengths, unknown tokens, scripts; with advice."""
    from opencse.api.checking import check
    from opencse.cli.console import echo
    from opencse.outputs import has_keys
    from opencse.records import save_json
    from opencse.text.check import CorpusCheck

    model = str(options["model"])
    require_json(json_file, lambda old: has_keys(old, CorpusCheck.model_fields), read=[text], models=[model])
    result = check(text, **options)
    if json_file is not None:
        save_json(json_file, result.model_dump(mode="json"))
    for line in lines_of_check(result, model):
        echo(line)


def lines_of_check(result: CorpusCheck, model: str) -> list[str]:
    """What a check found, one line for each kind of finding."""
    from opencse.text.check import script_title

    (share, words), *others = ((f"{float(share):.0%}", f"{words:.0f}") for share, words in result.words.items())
    lengths = ", ".join([f"at most {words} in {share} of the texts", *(f"{most} in {part}" for part, most in others)])
    scripts = ", ".join(
        f"{script_title(name)} {share:.1%}" for name, share in list(result.scripts.items())[:4] if share >= 0.0005
    )
    by_line = any("one text per line" in line for line in result.read_as)
    separate = by_line and result.width == 1 and not result.documents
    near = [] if result.near_duplicates is None else [f"near        {result.near_duplicates:.1%} nearly repeat another"]
    lines = [
        *(f"file        {line}" for line in result.read_as),
        f"text        {result.source}: {number_of(result.rows, 'row')} of {number_of(result.width, 'text')}"
        + (f", {number_of(result.documents, 'document')}" if result.documents else "")
        + (", no blank lines, so adapt takes each line as a document" if separate else ""),
        f"words       {lengths}",
        f"near empty  {result.near_empty:.1%} under 3 words, {result.without_letters:.1%} without a letter",
        f"duplicates  {result.duplicates:.1%}",
        *(f"            {count:,} x {text}" for text, count in result.most_repeated),
        *near,
        *(f"            {row} ~ {earlier}" for row, earlier in result.nearly_repeated),
        f"scripts     {scripts or 'no letters'}",
    ]
    if result.unknown is not None and result.cut is not None and result.tokens_per_word is not None:
        lines.append(
            f"tokens      {result.tokens_per_word:.2f} per word, {result.unknown:.2%} unknown to {model}, "
            f"{result.cut:.1%} of texts longer than {result.max_length} tokens "
            f"({number_of(result.sampled, 'text')} sampled)"
        )
    lines += [f"advice      {line}" for line in result.advice or ["nothing stands out"]]
    return lines + ([f"next        {result.command}"] if result.command else [])
