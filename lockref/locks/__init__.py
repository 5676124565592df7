"""The parts of every lease, independent of the record of any one store."""
