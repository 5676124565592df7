"""The jobs of `lockref cluster`. Where to find what:

- the recipe's program, from start to last table: `running`
- a controller that stays: `controlling`, and what it logs: `controller_log`
- what an operator asks and changes: `operating`, the tables of a status: `tables`
- which servers and which cluster are meant: `places`
"""
