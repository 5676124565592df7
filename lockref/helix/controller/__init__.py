"""A controller at work: elected, it reads the cluster, decides, and sends messages. Where to find what:

- the controller: `controller`
- what it reads: `reading` `looking`, and how it asks: `asking`
- whether it leads, for others to hear: `controller_event`
- what it sends: `batch`, and the leaders' book of what they have told: `book`
"""

from lockref.helix.controller.controller import Controller

__all__ = ["Controller"]
