"""A server as many write it: FastAPI, and one `model.encode` per request in the thread pool; see serving_peers.py.

MODEL names the folder of the model; TORCH_THREADS sets the threads of a product, by default those of torch.
"""

from __future__ import annotations

import os

import torch
from fastapi import FastAPI
from pydantic import BaseModel
from sentence_transformers import SentenceTransformer

if threads := os.environ.get("TORCH_THREADS"):
    torch.set_num_threads(int(threads))
model = SentenceTransformer(os.environ["MODEL"], device="cpu")
app = FastAPI()


class Texts(BaseModel):
    """The body of a request."""

    input: list[str]


@app.post("/embeddings")
def embeddings(body: Texts) -> dict[str, list[dict[str, list[float]]]]:
    """Returns the vectors of texts."""
    vectors = model.encode(body.input, show_progress_bar=False)
    return {"data": [{"embedding": vector} for vector in vectors.tolist()]}
