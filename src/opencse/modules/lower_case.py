"""Adds lower-casing to a tokenizer, so that training and inference read the same ids."""

from __future__ import annotations

from tokenizers import normalizers

from opencse.errors import UserError
from opencse.text.tokenizer import Tokenizer


def lower_casing(tokenizer: Tokenizer) -> Tokenizer:
    """``tokenizer`` with lower-casing in front of its normaliser (sentence-transformers' ``do_lower_case``).

    The underlying transformers tokenizer is changed, so a saved folder lower-cases too. Special tokens
    inside a text stay as they are.

    Raises:
        UserError: for a tokenizer without Rust backend.
    """
    if not tokenizer.hf.is_fast:
        raise UserError(f"{tokenizer.hf.name_or_path}: do_lower_case needs a tokenizer with tokenizer.json")
    backend = tokenizer.hf.backend_tokenizer
    present = backend.normalizer
    several = isinstance(present, normalizers.Sequence)
    parts = [present[i] for i in range(len(present))] if several else [present] if present else []
    if any(isinstance(part, normalizers.Lowercase) for part in parts):
        return tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *parts])
    return Tokenizer(tokenizer.hf, template=tokenizer.template)
