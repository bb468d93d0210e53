"""The options of each command, declared once; see `opencse.api.declaring`."""
