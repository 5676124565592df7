"""Any program, unmodified: its requests are recorded on the wire, disturbed by plan, and judged."""
