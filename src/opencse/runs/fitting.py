"""Fits encoder, objective and text of a run to one another, and refuses what could not work."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from torch import nn

from opencse.encoder.encoder import SentenceEncoder
from opencse.errors import UserError
from opencse.kernels.packed import pack, unpackable
from opencse.model_folder.locate import locate
from opencse.modules.masked_lm import MaskedLMHead
from opencse.objective.context import Context
from opencse.objective.objective import Objective
from opencse.objective.vectors.requests import LmHead, Masked
from opencse.progress import Progress
from opencse.recipes.recipe import Recipe
from opencse.text.batches import Batches
from opencse.text.given import TextSource
from opencse.text.near_duplicates import find_near_duplicates

AUTO_LENGTH = 256
"""Ids of a text that ``data.max_length=auto`` reads at most."""


def near_duplicates(text: TextSource, recipe: Recipe, progress: Progress) -> NDArray[np.bool_] | None:
    """(M,) which rows nearly repeat an earlier one, where the recipe leaves them out."""
    threshold = recipe.data.near_duplicates
    if threshold is None:
        return None
    progress.say("looking for near duplicates")
    return find_near_duplicates((row for _, row in text.rows_with_documents()), threshold).rows


def longest_text(encoder: SentenceEncoder, recipe: Recipe, model: str) -> int:
    """Ids that training reads of a text; what is beyond the model is refused."""
    asked, room = recipe.data.max_length, recipe.training.batch_tokens
    if asked == "auto":
        longest = min(encoder.max_length, AUTO_LENGTH)
        if room is not None and room < longest:
            raise UserError(f"training.batch_tokens {room} cannot hold a text of {longest} ids; set data.max_length")
        return longest
    if asked > encoder.max_length:
        raise UserError(
            f"data.max_length {asked} is beyond what {model} reads ({encoder.max_length} ids); "
            f"set it with --set data.max_length={encoder.max_length}"
        )
    return asked


def check_and_complete(
    encoder: SentenceEncoder, objective: Objective, recipe: Recipe, model: str, trust_remote_code: bool
) -> None:
    """Refuses what could not work, and adds the masked-LM head if a term reads it."""
    own_dropout = recipe.encoder.dropout is None
    objective.check(Context(objective, encoder=encoder, model=model, own_dropout=own_dropout))
    heads = [request for request in objective.reads if isinstance(request, LmHead)]
    if heads:
        words = cast(nn.Embedding, encoder.backbone.get_input_embeddings())
        tied = all(head.tied for head in heads)
        instead = " and ".join(sorted({head.instead for head in heads}))
        head = MaskedLMHead.load(locate(model), words, tied=tied, trust_remote_code=trust_remote_code, instead=instead)
        encoder.lm_head = head.to(encoder.device)


def choose_forward(encoder: SentenceEncoder, asked: bool | Literal["auto"]) -> str:
    """Lets the encoder compute no padding where that is asked for or possible; what it does, and why."""
    plain = str(encoder.backbone.config._attn_implementation)
    if asked is False:
        return f"{plain} (padded: asked for)"
    why = unpackable(encoder.backbone) if encoder.device.type == "cpu" else f"on {encoder.device.type}"
    if asked == "auto" and why is not None:
        return f"{plain} (padded: {why})"
    if encoder.device.type != "cpu":
        raise UserError("training.packed runs on a CPU alone; set it to auto, or --device cpu")
    pack(encoder.backbone)
    encoder.packed = True
    return "packed, no padding"


def begin_parts(encoder: SentenceEncoder, objective: Objective, batches: Batches, seed: int) -> None:
    """Lets the parts make what they keep, for batches as large as the text allows."""
    objective.begin(encoder, batch_size=batches.batch_size, seed=seed)
    if not any(isinstance(request, Masked) for request in objective.reads):
        encoder.lm_head = None  # a part that reads it alone has a copy
