"""What a verdict looks like outside: `results.json`, JUnit, GitHub annotations."""
