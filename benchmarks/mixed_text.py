"""A text of mixed lengths: of every tenth document the whole, of the others a sentence.

    python benchmarks/mixed_text.py DATA/retrieval/scifact mixed.txt
    python benchmarks/speed.py step --model MINILM --text mixed.txt --length 256

What people train on is like that: titles, sentences and now and then a whole text.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from opencse.text.documents import read_documents
from opencse.text.folders import find_corpus


def main() -> None:
    """Writes a text a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--documents", type=int, default=1_500)
    asked = parser.parse_args()
    documents = read_documents(find_corpus(asked.corpus))[: asked.documents]
    texts = [one.body if number % 10 == 0 else one.sentences[0] for number, one in enumerate(documents)]
    asked.out.write_text("\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
