"""The Spark session, and what it needs from this machine."""
