"""Lists examples of each command, shown at the end of its ``--help`` and on its reference page."""

from __future__ import annotations

EXAMPLES: dict[str, list[str]] = {
    "adapt": [
        "opencse adapt docs.jsonl --out my-model",
        "opencse adapt handbook/ --pairs asked.csv --columns question,answer --out my-model",
        "opencse adapt docs.jsonl --model sentence-transformers/all-MiniLM-L6-v2 --out my-model",
        "opencse adapt docs.jsonl --dev queries/ --metric recall@100 --out my-model",
    ],
    "train": [
        "opencse train corpus.txt --out my-model",
        "opencse train pairs.csv --recipe simcse-supervised --columns question,answer --out my-model",
        "opencse train corpus.txt --out my-model --resume",
    ],
    "questions": [
        "opencse questions docs.jsonl --endpoint http://localhost:8000/v1 --model NAME --dry-run",
        "opencse questions docs.jsonl --endpoint http://localhost:8000/v1 --model NAME --examples queries.txt",
        "opencse adapt docs.jsonl --questions pairs.jsonl --out my-model",
    ],
    "check": ["opencse check corpus.txt", "opencse check corpus.txt --near-duplicates 0.8"],
    "recipes": ["opencse recipes", "opencse recipes show simcse", "opencse recipes diff simcse esimcse"],
    "recipes presets": ["opencse recipes presets simcse"],
    "recipes show": ["opencse recipes show simcse:bert-large", "opencse recipes show esimcse --source"],
    "recipes diff": ["opencse recipes diff simcse esimcse"],
    "evaluate": [
        "opencse evaluate opencse-mini my-model --data sts-data",
        "opencse evaluate my-model --suite retrieval --data my-queries --json scores.json",
        "opencse evaluate my-model --suite retrieval --data my-queries --hybrid --rerank my-cross-encoder",
        "opencse evaluate my-model --data sts-data --dimensions 64,128,256",
    ],
    "analyze": [
        "opencse analyze my-model --text corpus.txt --open",
        "opencse analyze opencse-mini my-model --query 'A dog barks.' --out page",
    ],
    "compare": [
        "opencse compare corpus.txt --recipes simcse,esimcse --seeds 42-46 --data sts-data --out study",
        "opencse compare study.toml",
    ],
    "reproduce": ["opencse reproduce simcse:bert-base wiki1m.txt --data sts-data --out simcse-again"],
    "calibrate": [
        "opencse calibrate my-model corpus.txt",
        "opencse calibrate my-model corpus.txt --pairs labelled.tsv",
    ],
    "encode": [
        "opencse encode my-model texts.txt --out vectors.npy",
        "opencse encode my-model texts.csv --column body --numbers float16 --out vectors",
        "cat texts.txt | opencse encode my-model - --out -",
    ],
    "index": [
        "opencse index build my-index my-model docs.csv --fields title,text --metadata lang",
        "opencse index query my-index 'how do I reset it?' --where lang=en",
    ],
    "index build": [
        "opencse index build my-index my-model docs.txt",
        "opencse index build my-index my-model docs.csv --fields title,text --id number --metadata lang,year",
    ],
    "index add": ["opencse index add my-index more.csv --fields title,text --id number --replace"],
    "index delete": ["opencse index delete my-index 17 18", "opencse index delete my-index --where 'year<2010'"],
    "index query": [
        "opencse index query my-index 'how do I reset it?' -k 5",
        "opencse index query my-index 'error E42' --hybrid --where lang=en,de",
        "opencse index query my-index 'how do I reset it?' --rerank cross-encoder/ms-marco-MiniLM-L6-v2",
    ],
    "index info": ["opencse index info my-index"],
    "index tune": ["opencse index tune my-index", "opencse index tune my-index --dev queries"],
    "index check": ["opencse index check my-index"],
    "index pairs": ["opencse index pairs my-index -n 50"],
    "index duplicates": ["opencse index duplicates my-index --threshold 0.95"],
    "index negatives": [
        "opencse index negatives my-index pairs.csv --columns question,answer --out triples.jsonl",
        "opencse index negatives my-index pairs.csv --teacher my-cross-encoder --least-margin 0 --out margins.jsonl",
    ],
    "index export": ["opencse index export my-index lancedb lance-folder --name docs"],
    "label": [
        "opencse label my-index --out queries",
        "opencse label first-index my-index --out queries    # judge the hits of two models, to compare them",
        "opencse label my-index --queries asked.txt --split 0.5",
    ],
    "finish": ["opencse finish my-model"],
    "nearest": ["opencse nearest opencse-mini my-model --corpus corpus.txt --query 'A dog barks.'"],
    "serve": [
        "opencse serve my-model --index my-index",
        "opencse serve my-model --index my-index --rerank my-cross-encoder",
        "opencse serve my-model --host 0.0.0.0 --port 8080 --api-key-file keys.txt",
    ],
    "similarity": ["opencse similarity my-model 'A dog barks.' 'A hound bays.' 'It rains.'"],
    "export": [
        "opencse export onnx my-model --out my-onnx",
        "opencse export static my-model --corpus corpus.txt --out my-table",
    ],
    "export onnx": ["opencse export onnx my-model --int8 --pairs graded.tsv --out my-onnx"],
    "export static": ["opencse export static my-model --corpus corpus.txt --out my-table"],
    "push": ["opencse push my-model my-account/my-model --private"],
    "merge": ["opencse merge my-model/adapter --out merged"],
    "whiten": ["opencse whiten my-model corpus.txt --dimension 128 --out white"],
    "static": ["opencse static corpus.txt --out words", "opencse train corpus.txt --model words --out my-model"],
    "pretrain": [
        "opencse pretrain corpus.txt --minutes 90 --out my-bert",
        "opencse pretrain corpus.txt --model bert-base-uncased --tokens 5000000 --out my-bert",
    ],
    "demo": ["opencse demo", "opencse demo --out demo-out --seed 7"],
    "doctor": ["opencse doctor"],
}


def epilog_of(words: str) -> str:
    """The examples of the command ``words``, formatted for the end of its ``--help``."""
    lines = EXAMPLES.get(words, [])
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else ""
