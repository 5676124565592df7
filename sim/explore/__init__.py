"""Searching schedules and plans, storing failures, replaying and shrinking them."""
