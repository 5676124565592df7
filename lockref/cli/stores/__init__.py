"""Commands on real stores and servers: list them, ask one what it can do, let locks contend there, disturb its wire."""
