"""Runs work that consists of many pieces: in processes of this machine, or on a Ray cluster."""
