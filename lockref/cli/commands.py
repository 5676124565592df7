"""The commands, and what each is for: listed without importing any of them, and where the laboratory is missing."""

from __future__ import annotations

COMMANDS = {
    "demo": ("demo", "Break Hudi's lock, hold the hardened one, contend on a real S3 server, write a report."),
    "doctor": ("doctor", "Tell what is installed and what each absence disables."),
    "sim": ("sim", "Run a scenario over many seeds in virtual time and judge it."),
    "campaign": ("campaign", "Run scenarios over very many seeds, on processes or on a Spark cluster."),
    "fuzz": ("fuzz", "Change the plans and workloads that showed something new, until a lock breaks."),
    "gate": ("gate", "Put a lock through the whole catalogue: what it can do, and the causes of what broke."),
    "envelope": (
        "envelope",
        "Measure how long writers may pause, and how far clocks may be apart, before a lock breaks.",
    ),
    "replay": ("replay", "Re-run a stored failure: FIXED, FAILED or ERROR."),
    "explain": ("explain", "Tell why a stored failure happened: in words, as a table, as a diagram."),
    "bench": ("stores.bench", "Contend with many threads on a real server."),
    "soak": ("stores.soak", "Let a lock work for long on a real server, and tell whether it leaks."),
    "wire": ("stores.wire", "Watch and disturb any program on the wire to its store, and judge its lock."),
    "probe": ("stores.probe", "Ask a store whether it can carry a lock, and of which design."),
    "evaluate": (
        "stores.evaluate",
        "Probe a store, contend on it, strike its wire with faults: one page for an architect.",
    ),
    "check": ("recorded.check", "Judge any recorded history."),
    "audit": ("recorded.audit", "Judge the audit files of Hudi's lock: did two writers hold it at once?"),
    "watch": (
        "recorded.watch",
        "Follow a run while it goes on: how far it is, what broke, and its verdict at the end.",
    ),
    "report": ("recorded.report", "Write the report of a run: one page with verdict, failures and figures."),
    "runs": ("recorded.runs", "List, show, open, export and prune the runs of this folder."),
    "compare": ("recorded.compare", "Put runs side by side, with what cannot be told from chance."),
    "scenario": ("scenario", "List the catalogue; validate and test scenario files."),
    "delta": ("delta", "Plan the writers of Delta tables; draw what waiting costs."),
    "plan": ("delta/plan", "Plan the writers of tables of Delta, Hudi or Iceberg, whose commits take turns."),
    "cluster": ("cluster", "Run the locks of a cluster file on a real ZooKeeper, as Apache Helix does."),
    "backends": ("stores.backends", "List the servers that locks can stand on."),
    "providers": ("providers", "List the locks that can be put to the test."),
    "completion": ("completion", "Print what a shell needs to complete commands, options and names."),
}
"""By name, the module below `lockref.cli` (`MODULE/NAME`: a command of that module's group), and the line of help."""
