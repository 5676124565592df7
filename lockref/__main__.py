"""`python -m lockref` and the console script: the command line, or what is left of it where the lock alone is there."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line. Without its packages it says what is there and how the rest is had."""
    _replace_closed_streams()
    try:
        from lockref.cli.main import main as start
    except ModuleNotFoundError as error:
        from lockref.cli.bare import answer
        from lockref.extras import extra_of

        if not extra_of(error.name):
            raise
        sys.exit(answer(sys.argv[1:]))
    start()


def _replace_closed_streams() -> None:
    """Open the null device in the place of each standard stream that the caller has closed (`lockref … >&-`).

    Python has None in their place. And the next file that is opened would get a closed stream's number, with all that
    a library in C prints.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


if __name__ == "__main__":
    main()
