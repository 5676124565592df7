"""The processes of the program under test."""
