"""The arrival of an instance in its cluster: its requirements, and its treatment of traces of earlier sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lockref.coordination.port import Operation, Stat, create, delete
from lockref.coordination.session import Session
from lockref.errors import ConfigError
from lockref.helix.participant.application import Handlers, Listener
from lockref.helix.participant.current_states import STATES_BYTES_MAX, Replica, States
from lockref.helix.participant.patience import RETRY_PAUSE_NS, Patience
from lockref.helix.records import layout
from lockref.helix.records.zn_record import ZNRecord
from lockref.helix.state_model import StateModel
from lockref.runtime import NS_PER_S, Runtime
from lockref.words import Outcome

JOIN_PATIENCE_NS: Final = 5_000_000_000
"""How much longer than a session timeout an instance waits for the session of its predecessor to end (Z18)."""


class Arrival:
    """One instance enters its cluster, with each session anew.

    resources: the current states under the present session, by resource. may_be_live: the instance may have appeared
    under it.
    """

    def __init__(
        self,
        session: Session,
        paths: layout.InstancePaths,
        *,
        runtime: Runtime,
        patience: Patience,
        handlers: Mapping[str, Handlers],
        requires_handlers: bool,
        listener: Listener,
    ) -> None:
        self.resources: dict[str, States] = {}
        self.may_be_live = False
        self._session = session
        self._paths = paths
        self._cluster_paths = layout.ClusterPaths(paths.cluster)
        self._instance = paths.name
        self._runtime = runtime
        self._patience = patience
        self._handlers = handlers
        self._requires_handlers = requires_handlers
        self._listener = listener
        self._models: dict[str, StateModel] = {}

    def _cluster_config(self) -> bytes:
        """The configuration of the cluster, which every cluster has.

        A server that lags may show the time before the cluster was made, so an absent znode is asked for again, as a
        controller does. Raises ConfigError if it is absent for as long as a session lives without a word.
        """
        until_ns: int | None = None
        while (reply := self._patience.read(self._cluster_paths.config)).missing:
            now_ns = self._runtime.monotonic_ns()
            until_ns = now_ns + self._session.timeout_ns if until_ns is None else until_ns
            if now_ns < until_ns and self._patience.may_go_on():
                self._patience.pause(reply)
                if self._patience.may_go_on():
                    continue
            cluster, config = self._paths.cluster, self._cluster_paths.config
            raise ConfigError(f"there is no cluster {cluster!r}: {config} is not there")
        return reply.body or b""

    def _model(self, name: str) -> StateModel:
        path = self._cluster_paths.state_model(name)
        reply = self._patience.read(path)
        if reply.missing:
            raise ConfigError(f"the cluster {self._paths.cluster!r} has no state model {name!r}: {path} is not there")
        model = StateModel.from_record(ZNRecord.from_json(reply.body or b"", path))
        problems = model.problems()
        if problems:
            raise ConfigError(f"{path} holds no state model: {problems[0]}")
        return model

    def require_handled(self) -> None:
        """Read the state models. Raises ConfigError for a transition that nobody handles."""
        for name in self._handlers:
            self._models[name] = self._handled_model(name)

    def _handled_model(self, name: str) -> StateModel:
        model, handlers = self._model(name), self._handlers[name]
        missing = [
            f"{each.source}-{each.target}" for each in model.transitions if (each.source, each.target) not in handlers
        ]
        if missing and self._requires_handlers:
            raise ConfigError(
                f"state model {name!r}: no handler for {', '.join(missing)}. A holder that is told to make such a "
                "transition would lose its lock without hearing of it (Z8)"
            )
        return model

    def require_configured(self) -> None:
        """Configure the instance if it is not, and the cluster lets instances do that. Raises ConfigError if not."""
        cluster, config = self._paths.cluster, self._cluster_paths.config
        while self._patience.read(self._paths.config).missing:
            body = self._cluster_config()
            if ZNRecord.from_json(body, config).simple.get(layout.AUTO_JOIN) != "true":
                raise ConfigError(
                    f"instance {self._instance!r} is not configured in cluster {cluster!r}, and the cluster does not "
                    f"let instances join by themselves ({layout.AUTO_JOIN} in {config})"
                )
            self._patience.require_time()
            reply = self._session.multi(layout.instance_creates(cluster, self._instance))
            if reply.outcome in (Outcome.AMBIGUOUS, Outcome.REJECTED):
                self._patience.pause(reply)

    def go_live(self) -> None:
        """Enter what an earlier session left in the initial state, and appear, as one transaction (T13).

        The znode of an earlier session of this instance is waited for (Z18). A request whose answer is lost is settled
        by looking whose znode is there (T20).
        """
        session, paths = self._session, self._paths
        patience_ns = session.timeout_ns + JOIN_PATIENCE_NS
        deadline_ns = self._runtime.monotonic_ns() + patience_ns
        while True:
            arrival = self._arrival()
            self._patience.require_time()
            reply = session.multi(arrival)
            self.may_be_live |= reply.outcome in (Outcome.APPLIED, Outcome.AMBIGUOUS)
            self._patience.require_time()
            live = session.exists(paths.live, is_watching=True)
            if isinstance(live.version, Stat) and live.version.owner == session.id:
                return
            if reply.outcome is Outcome.REJECTED or live.outcome is not Outcome.APPLIED:
                self._patience.pause(live if reply.outcome is Outcome.APPLIED else reply)
            if self._runtime.monotonic_ns() > deadline_ns:
                raise ConfigError(
                    f"instance {self._instance!r} lives already: {paths.live} belongs to session "
                    f"{layout.session_name(live.version.owner if isinstance(live.version, Stat) else 0)} and did not "
                    f"end within {patience_ns // NS_PER_S} s. Two processes must not share a name (Z18)"
                )
            self._runtime.sleep(RETRY_PAUSE_NS)

    def _arrival(self) -> list[Operation]:
        """The operations of an arrival: create the znodes of the new session, and remove those of older sessions."""
        session, paths = self._session, self._paths
        own = layout.session_name(session.id)
        live = ZNRecord(self._instance, {"SESSION_ID": own, "LIVE_INSTANCE": self._runtime.process_mark() or own})
        operations = [create(paths.live, live.to_json(), is_ephemeral=True)]
        self.resources.clear()
        # What strangers have put below goes, too: a folder that is not empty could not be removed.
        earlier = [delete(path) for name in self._patience.children(paths.sessions) for path in self._left(name, own)]
        operations += [*earlier, create(paths.current_states(own))]
        for resource, states in self.resources.items():
            operations.append(create(paths.current_state(own, resource), states.record(own).to_json(STATES_BYTES_MAX)))
            states.version = 0
        return operations

    def _left(self, session: str, own: str) -> list[str]:
        """The znodes that one session has left, children before parents.

        The states that an earlier session has reported are carried over.
        """
        folder = self._paths.current_states(session)
        found = [folder]
        for path in found:  # Grows while it is walked.
            found += [f"{path}/{name}" for name in self._patience.children(path)]
        for resource in self._patience.children(folder) if session != own else ():
            path = self._paths.current_state(session, resource)
            try:
                self._carry_over(resource, path)
            except ConfigError as error:
                self._listener.alarm(f"{error}. What {self._instance} held there in an earlier session is not entered")
        return found[::-1]

    def _carry_over(self, resource: str, path: str) -> None:
        found = self._patience.read(path)
        if found.missing:
            return
        record = ZNRecord.from_json(found.body or b"", path)
        states = self.states_of(resource, record.simple.get("STATE_MODEL_DEF", ""))
        for lock in record.maps:
            states.replicas[lock] = Replica(states.model.initial)

    def states_of(self, resource: str, model: str) -> States:
        """A model for which this instance has no handlers is read, too: what it is told of it ends in ERROR."""
        known = self.resources.get(resource)
        if known is None:
            if model not in self._models:
                self._models[model] = self._model(model)
            known = self.resources[resource] = States(resource, self._models[model])
        return known
