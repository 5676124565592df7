"""The command line: thin commands that import everything and that nobody imports."""

from lockref import rooms

rooms.pin()
