"""Views, which make the positive of an anchor: one file for each kind of change."""
