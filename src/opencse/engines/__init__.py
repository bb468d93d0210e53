"""Where work that can be cut into pieces is done: by processes of this machine, or by those of a cluster."""
