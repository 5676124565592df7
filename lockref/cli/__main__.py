"""`python -m lockref.cli`, for environments without scripts on the path."""

from lockref.cli.main import main

main()
