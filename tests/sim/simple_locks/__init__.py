"""Small locks as strangers write them, one idea each: sound ones, and the same with one part wrong (`unsound`)."""

SOUND = (
    "marker:MarkerLock",
    "lapsing:LapsingLock",
    "lapsing:OpaqueLock",
    "marked:MarkedLock",
    "renewing:HeartbeatLock",
    "spinning:SpinningLock",
    "row:RowLock",
    "ephemeral:EphemeralLock",
)
"""A gate must pass each of these, however little it can do."""
