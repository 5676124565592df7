"""What is read off a history before any clause looks at it."""
