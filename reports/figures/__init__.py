"""Pictures of results: plots through matplotlib (`plots`), the holder timeline as our own SVG (`timeline`).

Equal results give equal bytes: fixed hash salt, no date, no randomness.
"""
