"""``python -m opencse``: the same as the command ``opencse``."""

from opencse.cli import main

if __name__ == "__main__":
    main()
