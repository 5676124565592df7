"""`python -m lockref` and the console script: the command line, or what is left of it where the lock alone is there."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Without its packages it says what is there and how the rest is had."""
    try:
        from lockref.cli.main import main as start
    except ModuleNotFoundError as error:
        from lockref.cli.bare import answer
        from lockref.extras import extra_of

        if not extra_of(error.name):
            raise
        sys.exit(answer(sys.argv[1:]))
    start()


if __name__ == "__main__":
    main()
