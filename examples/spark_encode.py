"""Vectors of a text by Spark, as a pandas UDF: spark-submit spark_encode.py MODEL TEXT OUT.

TEXT is what Spark reads, one sentence per line; OUT becomes a folder of Parquet files with the columns `text` and
`vector`. Every node needs opencse, and finds MODEL under the same name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

MODEL, TEXT, OUT = sys.argv[1:]
spark = (
    SparkSession.builder.appName("opencse").config("spark.sql.execution.arrow.maxRecordsPerBatch", 8192).getOrCreate()
)


@pandas_udf("array<float>")
def vector(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    """Each text's vector; the encoder is loaded once for all batches of a task."""
    import torch

    import opencse

    torch.set_num_threads(1)  # Spark runs a task on each core
    encoder = opencse.load(MODEL, device="cpu")
    for texts in batches:
        yield pd.Series(list(encoder.encode(texts.tolist())))


texts = spark.read.text(TEXT).selectExpr("trim(value) AS text").where("text <> ''")
texts.withColumn("vector", vector("text")).write.parquet(OUT)
