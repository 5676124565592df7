"""`python -m lockref` is the console script."""

from lockref.cli.main import main

main()
