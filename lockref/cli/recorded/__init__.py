"""Commands on what a run has left, or leaves while it goes on: judge it, show it, put it beside others."""
