"""A participant at work: it joins, and takes and gives back the locks that it is told to. Where to find what:

- the participant: `participant`, of several locks in one process: `membership`
- how it appears, and what is told to the application: `arrival` `application`
- what it executes, holds and reports: `transitions` `holdings` `current_states`
- how long it goes on asking: `patience`
"""

from lockref.helix.participant.participant import Participant

__all__ = ["Participant"]
