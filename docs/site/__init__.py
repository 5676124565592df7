"""The documentation site: its configuration, and what it makes of the code beside the pages of `docs`."""
