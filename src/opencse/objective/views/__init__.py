"""Views, which make the positive of an anchor: one kind of change in one file each."""
