"""Campaigns over very many seeds, kept chunk by chunk in a folder or an object store, on any executor.

Where to look:

- orders           what is asked, and how it is cut into chunks
- chunks           what an executor does with a chunk: simulate, judge, keep histories, commit
- account          what the judge said of a chunk, as the file that commits it
- identity         what a campaign is made of: whether its finished chunks may be taken over
- sources          hashes of the code that decides the result
- places           where all that is written: a folder of this machine, or an object store
- sheltered        a process of its own around a lock that may end it, hang in it, or fill its memory
- repeated_runs    seeds that are run a second time, and must give one trace
- result           what came of one campaign, added up chunk by chunk
- collection       the one loop: the chunks of all campaigns joined in the order of their seeds
- run_folders      the chunks of `lockref sim`, below its run folder until it is over
"""
