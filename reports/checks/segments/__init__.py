"""The judge for one long run, piece by piece: memory is bounded by what is open, not by the length of the run.

- the judge that takes the pieces of one run: `judging`; of a history of many runs: `histories`
- which events a piece leaves to the next one: `carried`
- what the judgements of the pieces amount to, and which clauses can be asked in pieces: `joining`

The ordinary judge is asked, with its clauses unchanged, about stretches that overlap: each piece stands behind the
carried events of what came before. Their violations were counted already, so they are judged alone, too, and taken
off. The sum is that of the whole run, where every clause looks no farther back than the carried events reach.
"""
