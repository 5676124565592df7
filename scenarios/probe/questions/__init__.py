"""What a store is asked: one module for each kind of question."""
