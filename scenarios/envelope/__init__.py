"""The safety envelope of a lock: how often it breaks in each cell of a plane of disturbances, and where that begins.

axes        the disturbances that can be an axis, their values, and how a user writes them
contended   the scenario of every cell: `contended.yaml` with the values of one point
promise     where a lock promises to keep each clause, as functions of a point
bisection   the search for the value at which a lock begins to break
cells       the cells, run by the campaign's executor
survey      the whole: the grid, then the boundaries
sentences   the answer in words
"""
