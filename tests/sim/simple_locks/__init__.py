"""Small sound locks as strangers write them, one idea each, and what happens when one part of them is wrong.

A gate must pass each of `SOUND` (exit 0), however little it can do, and stop each of `unsound.UNSOUND`.
"""
