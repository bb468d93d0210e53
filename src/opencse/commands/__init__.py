"""Every command as one typed function: ``import opencse`` gives them all, and the command line is made from them."""
