"""Search for failures: for plans of faults, where a place decides more than a number, and for schedules.

    requests     the requests of one run, as places where a fault may strike
    forms        what may strike at a place: kinds of faults, cuts, lengths
    trials       runs with explicit plans, judged by the chunk
    traces       what tells two runs apart: their trace without the faults, and the features of it
    placing      one fault at each place, then a second one after it: `lockref sim --explore faults`
    fuzzing      plans and workloads that showed something new are kept and changed: `lockref fuzz`
    corpus       what a fuzzing keeps, in memory and in its folder
    mutations    the changes
    worlds       where a search takes place if nobody says
    failing      the failures that a search has found, stored like all others
    result       what a search ends in
    schedules    the schedules of one run: one that a policy draws, or all that can make a difference
    explored     the schedules of many seeds, judged: `lockref sim --explore random|pct:D|pos|delay:N|exhaustive`

Sources: swarm testing (Groce et al., ISSTA 2012) for what it is compared with; covering pairs of values first is t-wise
testing (Kuhn et al., 2004); a corpus keyed by what a run has shown is that of coverage-guided fuzzers (AFL).
"""
