"""`lockref watch`: what a run folder shows while its run goes on, told as it comes.

`parts` look at a folder (finished seeds, a recording, an account), `following` looks again and again, and `telling`
puts what was seen into lines for people or into JSON.
"""
