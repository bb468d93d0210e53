"""Opens the cross-encoder that a command re-ranks or teaches with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opencse.api.options.index import NegativeOptions
from opencse.api.options.shared import RerankOptions
from opencse.errors import UserError
from opencse.foreign import code_notice
from opencse.kernels.precision import PrecisionName
from opencse.progress import Progress, Silent

if TYPE_CHECKING:
    from opencse.reranking.cross_encoder import CrossEncoder
    from opencse.reranking.margins import MarginTeacher
    from opencse.reranking.second_stage import SecondStage


def second_stage(options: RerankOptions) -> SecondStage | None:
    """The second stage that the options of a command ask for; None where they name no cross-encoder.

    Raises:
        UserError: see `open_cross_encoder`; and for a depth below 1.
    """
    if options["rerank"] is None:
        return None
    from opencse.reranking.second_stage import SecondStage

    model = open_cross_encoder(
        options["rerank"],
        options["progress"] or Silent(),
        device=options["device"],
        precision=options["rerank_precision"],
        trust_remote_code=options["trust_remote_code"],
    )
    return SecondStage(model, options["rerank_depth"])


def margin_teacher(options: NegativeOptions) -> MarginTeacher | None:
    """The cross-encoder that gives margins of mined negatives; None where the options name none.

    Raises:
        UserError: see `open_cross_encoder`; and for a least margin without a teacher.
    """
    if options["teacher"] is None:
        if options["least_margin"] is not None:
            raise UserError("--least-margin needs --teacher, whose scores it compares; add it, or leave it out")
        return None
    from opencse.reranking.margins import MarginTeacher

    model = open_cross_encoder(
        options["teacher"],
        options["progress"] or Silent(),
        device=options["device"],
        precision="float32",
        trust_remote_code=options["trust_remote_code"],
    )
    return MarginTeacher(model, options["least_margin"])


def open_cross_encoder(
    model: str | Path | CrossEncoder,
    progress: Progress,
    *,
    device: str | None,
    precision: PrecisionName,
    trust_remote_code: bool,
) -> CrossEncoder:
    """Opens a cross-encoder, and reports where code of its folder is run.

    Raises:
        UserError: if it is none, or cannot be loaded.
        TypeError: for a ``model`` of another kind.
    """
    from opencse.reranking.cross_encoder import CrossEncoder

    if isinstance(model, CrossEncoder):
        return model
    opened = CrossEncoder.load(model, device=device, precision=precision, trust_remote_code=trust_remote_code)
    if opened.own_code:
        progress.say(code_notice(opened.own_code))
    return opened
