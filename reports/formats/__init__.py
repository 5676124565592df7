"""The formats of a verdict: `results.json`, JUnit, GitHub annotations."""
