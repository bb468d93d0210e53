"""Writes the vectors of many texts to files, in one process or several; continues after a kill."""
