"""Reads files of every kind: rows of tables and JSON, sections of documents.

To read another kind of file, name it in `kinds`, and read its rows or its sections in `formats`.
"""
