"""Other people's locks as they were released, for a laboratory that has what they need.

`hudi` is Hudi's own Java class as a lock of ours, in the time of any Runtime; `hudi_classes` are its classes as Python
calls them; `jvm` starts the one JVM of a process; `jars` fetches what was examined, and nothing else.
"""
