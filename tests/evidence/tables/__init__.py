"""RFC-91's test plan on a real table: Hudi's writers, each in a JVM of its own, under its lock, which is judged."""
