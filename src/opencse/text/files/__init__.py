"""Reads files of every kind: rows of tables and JSON, sections of documents.

To read another kind of file, recognise it in `kinds`, and read its rows in `formats` or its sections in `sections`.
"""
