"""Searches texts by vectors and keywords.

A query passes through these modules: `index` (`Index.search` encodes it), `snapshots` (the index at one moment),
`filters` (conditions), `queries` (ranks rows), which uses `opencse.ranking` (exact), `approximate` (FAISS) or
`keyword_index` (BM25), and `result` (hits). A change passes through `row_sources`, `building`, `passages` and `writer`.
"""
