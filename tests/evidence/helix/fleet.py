"""One cluster with controllers and participants of two origins: Helix 1.4.3 in processes of its own, and ours."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from kazoo.client import KazooClient

from lockref.coordination.session import COORDINATION, Session
from lockref.coordination.zookeeper import ZooKeeperChannel
from lockref.errors import BackendUnavailable, LockError
from lockref.helix.cluster.configured import creates
from lockref.helix.cluster.declared import Cluster
from lockref.helix.controller.controller import Controller, ControllerSettings
from lockref.helix.participant.application import ParticipantSettings
from lockref.helix.participant.participant import Participant
from lockref.helix.pipeline import Alarm
from lockref.helix.rebalancers import Question, mod
from lockref.helix.records.messages import Message
from lockref.runtime import NS_PER_S, ThreadRuntime
from lockref.words import Outcome
from scenarios.backends.asked_process import AskedProcess
from scenarios.helix import controller_process
from tests.evidence.helix.beliefs import Belief, Heard, Left, Told, from_callbacks, overlaps
from tests.evidence.helix.stranger import Habits, Stranger
from tests.evidence.helix.tree import Seen, Tree
from tests.evidence.peers.java_program import JavaProgram

HELIX: Final = JavaProgram(
    original="helix-core",
    source=Path(__file__).with_name("java"),
    main="Driver",
    jar="helix-core-1.4.3.jar",
    sha256="2940f377d33cd619f03009765e622ece29a6c76c2905f6fd5e192d4c2dd41098",
)

LOGGING: Final = HELIX.source / "log4j2.properties"
"""Errors go to the error output, for answers alone belong on the other."""

SESSION_S: Final = 10
"""Longer than a busy machine holds a process up: after an expiry that nobody asked for, more messages are counted."""

SETTLE_TIMEOUT_S: Final = 90
QUIET_S: Final = 0.5
"""So long nothing may be sent after everybody holds what it shall: a surplus message would be counted."""

SELF_SENT: Final = 3
"""A participant of Helix that joins sends itself so many messages of the type NO_OP, one for each type it handles."""

_PASS: Final = re.compile(r"END: Invoking DEFAULT controller pipeline .* took (\d+) ms")
_ANSWER_S: Final = 60
_REQUEST_NS: Final = 10 * NS_PER_S
_LOOK_S: Final = 0.03


class Fleet:
    """hosts: of a ZooKeeper. cluster: what is configured. log_folder: where the processes' error output goes.
    java_options: of every process of Helix. session_s: of every session.

    A context manager; on its way out everybody ends. Errors: BackendUnavailable if Helix cannot be had or does not
    answer.
    """

    def __init__(
        self,
        hosts: str,
        cluster: Cluster,
        log_folder: Path,
        *,
        java_options: Sequence[str] = (),
        session_s: int = SESSION_S,
    ) -> None:
        self._hosts = hosts
        self.cluster = cluster
        (resource,) = cluster.resources
        self.top = resource.model.top
        self._model = resource.model
        self.locks = tuple(sorted(resource.lock_names))
        self._log_folder = log_folder
        self._java_options = tuple(java_options)
        self._session_s = session_s
        self._runtime = ThreadRuntime()
        self._client = KazooClient(hosts=hosts, timeout=10)
        self._client.start(timeout=30)
        self.tree = Tree(self._client, cluster.name)
        self._processes: dict[str, AskedProcess] = {}
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, Participant] = {}
        self._told: list[Told] = []
        self._their_joins = 0
        self._callbacks: list[Heard | Left] = []
        self._strangers: list[Stranger] = []
        self._controllers: dict[str, Controller] = {}
        self._threads: list[threading.Thread] = []
        self._ours_apart: AskedProcess | None = None
        self.alarms: list[Alarm] = []
        self.failures: list[Exception] = []
        self.doubles: list[str] = []

    # Set-up.

    def configure(self) -> None:
        """Write the cluster as one transaction, as ours does."""
        with contextlib.closing(self._session("setup")) as session:
            session.start(self._runtime, timeout_ns=self._session_s * NS_PER_S)
            reply = session.multi(creates(self.cluster))
            if reply.outcome is not Outcome.APPLIED:
                raise BackendUnavailable(f"the cluster {self.cluster.name!r} was not written: {reply.reason}")

    def they_configure(self, file: Path) -> None:
        """Let Helix' own loader read a cluster file."""
        self.ask("setup", do="setup", file=str(file))

    # Processes of Helix.

    def process(self, name: str) -> AskedProcess:
        """The process of that name; it is started on first use."""
        if name not in self._processes:
            options = (f"-Dzk.session.timeout={self._session_s * 1000}", f"-Dlog4j2.configurationFile={LOGGING}")
            self._processes[name] = AskedProcess(
                "helix 1.4.3", HELIX.command((*options, *self._java_options)), {"zookeeper": self._hosts}, env={},
                log_folder=self._log_folder, name=f"{self.cluster.name}-{name}",
            )  # fmt: skip
        return self._processes[name]

    def ask(self, process: str, **what: object) -> Mapping[str, Any]:
        """One request of a process. Errors: BackendUnavailable with what Helix threw."""
        peer = self.process(process)
        peer.ask(**what)
        told = peer.answer(_ANSWER_S)
        if "error" in told:
            raise BackendUnavailable(f"{peer.name}: {told['error']}: {told['text']}")
        return told

    # Controllers.

    def they_control(self, name: str = "theirs", *, is_descending: bool = True, is_failing: bool = False) -> None:
        """A controller of Helix, in a process of its own."""
        self.they_rule(name, is_descending=is_descending, is_failing=is_failing)
        self.ask(name, do="control", cluster=self.cluster.name, name=name)

    def they_rule(self, name: str = "theirs", *, is_descending: bool = True, is_failing: bool = False) -> None:
        """How the rebalancer of that controller behaves from now on."""
        self.ask(name, do="rule", descending=is_descending, failing=is_failing)

    def they_stop_controlling(self, name: str = "theirs") -> None:
        self.ask(name, do="leave", name=name)

    def log(self, name: str = "theirs") -> str:
        """What that process of Helix has written to its error output so far."""
        return (self._log_folder / f"{self.cluster.name}-{name}.log").read_text(encoding="utf-8", errors="replace")

    def leads(self, name: str = "theirs") -> bool:
        """Does that controller of Helix lead, by its own word?"""
        return bool(self.ask(name, do="leads", name=name)["leads"])

    def we_control(self, name: str = "ours", *, rebalancer: str = "") -> None:
        """A controller of ours, in a thread. rebalancer: overrides the cluster's."""
        settings = ControllerSettings(
            session_timeout_ns=self._session_s * NS_PER_S, is_descending=True, rebalancer=rebalancer, period_ns=NS_PER_S
        )
        controller = Controller(
            self._session(name), cluster=self.cluster.name, name=name, runtime=self._runtime, settings=settings,
            on_alarm=self.alarms.append,
        )  # fmt: skip
        self._controllers[name] = controller

        def run() -> None:
            try:
                controller.run()
            except LockError as error:
                self.failures.append(error)

        thread = threading.Thread(target=run, name=f"controller {name}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def we_control_apart(self, *, rebalancer: str = "") -> None:
        """A controller of ours, in a process of its own, as Helix' are."""
        told = {
            "zookeeper": self._hosts, "cluster": self.cluster.name, "name": "ours", "rebalancer": rebalancer,
            "session_s": self._session_s, "is_descending": True,
        }  # fmt: skip
        self._ours_apart = AskedProcess(
            "our controller", [sys.executable, "-m", controller_process.__name__], told, env={},
            log_folder=self._log_folder, name=f"{self.cluster.name}-ours",
        )  # fmt: skip

    def our_passes(self) -> tuple[int, float]:
        """Runs of the pipeline of our controller apart so far, and how many seconds they took together."""
        assert self._ours_apart is not None, "it controls"
        self._ours_apart.ask(do="tell")
        told = self._ours_apart.answer(_ANSWER_S)
        return told["passes"], told["took_ms"] / 1000

    def their_passes(self, name: str = "theirs") -> tuple[int, float]:
        """The same of a controller of Helix. It tells in its log, if `passes.level` is `info`."""
        took_ms = [int(each) for each in _PASS.findall(self.log(name))]
        return len(took_ms), sum(took_ms) / 1000

    def we_stop_controlling(self, name: str = "ours") -> None:
        self._controllers.pop(name).stop()

    # Participants.

    def they_join(self, instance: str, *, process: str = "participants", is_whole: bool = True) -> None:
        """A participant of Helix. is_whole: False is the recipe's class, which handles no DROPPED (Z8)."""
        told = {"cluster": self.cluster.name, "name": instance, "model": self._model.name, "whole": is_whole}
        self.ask(process, do="join", **told)
        self._theirs[instance] = process
        self._their_joins += 1

    def we_join(self, instance: str, *, leaves_out: str = "") -> None:
        """A participant of ours, with a handler for every transition.

        leaves_out: none for transitions into that state. Errors: ConfigError, if there are such transitions (Z8).
        """
        told = Told(instance)
        transitions = [(each.source, each.target) for each in self._model.transitions if each.target != leaves_out]
        participant = Participant(
            self._session(instance),
            cluster=self.cluster.name,
            instance=instance,
            runtime=self._runtime,
            handlers={self._model.name: dict.fromkeys(transitions, _agreed)},
            settings=ParticipantSettings(session_timeout_ns=self._session_s * NS_PER_S),
            listener=told,
        )
        participant.join()
        self._ours[instance] = participant
        self._told.append(told)

    def stranger_joins(self, instance: str, habits: Habits) -> Stranger:
        """A participant made by hand."""
        stranger = Stranger(
            self._hosts, self.cluster.name, instance, model=self._model.name, top=self.top, habits=habits
        )
        self._strangers.append(stranger)
        self._told.append(stranger.told)
        return stranger

    def join(self, instance: str, *, is_ours: bool) -> None:
        if is_ours:
            self.we_join(instance)
        else:
            self.they_join(instance)

    def leave(self, instance: str) -> None:
        """A participant ends as it should: it stops to work, then says so."""
        if instance in self._ours:
            self._ours.pop(instance).leave()
            return
        self._callbacks.append(Left(self._runtime.monotonic_ns(), instance))
        self.ask(self._theirs.pop(instance), do="leave", name=instance)

    def kill(self, process: str) -> None:
        """SIGKILL to a process of Helix, with everybody in it."""
        self._callbacks += self.heard(process)
        self._processes.pop(process).kill()
        killed = [instance for instance, place in self._theirs.items() if place == process]
        self._callbacks += [Left(self._runtime.monotonic_ns(), instance) for instance in killed]
        for instance in killed:
            del self._theirs[instance]

    def heard(self, process: str = "participants") -> list[Heard]:
        """Every callback of the participants in that process."""
        return [Heard(*each) for each in self.ask(process, do="heard")["heard"]]

    def told(self, instance: str) -> list[str]:
        """The alarms of a participant of ours."""
        return [text for each in self._told if each.instance == instance for text in each.alarms]

    def beliefs(self) -> list[Belief]:
        """Everybody's, up to now."""
        theirs = [*self._callbacks, *(each for process in self._processes for each in self.heard(process))]
        return [*(belief for told in self._told for belief in told.beliefs()), *from_callbacks(theirs, top=self.top)]

    # What is there.

    def rule(self, live: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """By lock, the holder that the recipe's rule names, with the live instances from the last name to the first."""
        return dict(mod(Question(self.locks, tuple(sorted(live, reverse=True)), {}, 1)))

    def look(self) -> Seen:
        """Read the cluster. A lock that two live sessions report is noted, if neither has written meanwhile."""
        seen = self.tree.seen()
        twice = {lock for lock, names in seen.holders(self.top).items() if len(names) > 1}
        if twice:
            again = self.tree.seen()
            self.doubles += [
                f"{lock}: {', '.join(again.holders(self.top).get(lock, ()))}"
                for lock in sorted(twice)
                if again.states.get(lock) == seen.states.get(lock)
            ]
        return seen

    def until(self, is_so: Callable[[Seen], bool], what: str, *, timeout_s: float = SETTLE_TIMEOUT_S) -> Seen:
        """Wait until the znodes are so. Errors: BackendUnavailable if they do not become so."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            seen = self.look()
            if is_so(seen):
                return seen
            if self.failures:
                raise self.failures[0]
            if time.monotonic() > deadline_s:
                raise BackendUnavailable(
                    f"{self.cluster.name}: waited {timeout_s:g} s for {what}; live are {', '.join(seen.live)}, "
                    f"{seen.pending} messages wait, holders are {seen.holders(self.top)}"
                )
            time.sleep(_LOOK_S)

    def await_table(self, *live: str) -> None:
        """Wait until these are live, hold what the rule says, and no message waits."""
        wanted = self.rule(live)
        self.until(lambda seen: self._is_table(seen, live, wanted), f"{', '.join(sorted(live))} to hold their locks")

    def settled(self, *live: str) -> int:
        """The same, and nothing more is sent. Returns what was sent so far."""
        wanted = self.rule(live)
        while True:
            self.await_table(*live)
            made = self.sent()
            time.sleep(QUIET_S)
            if self._is_table(self.look(), live, wanted) and self.sent() == made:
                return made

    def _is_table(self, seen: Seen, live: Sequence[str], wanted: Mapping[str, tuple[str, ...]]) -> bool:
        return seen.live == tuple(sorted(live)) and not seen.pending and seen.holders(self.top) == wanted

    def sent(self) -> int:
        """How many messages controllers have sent so far: all that were made, less those of joining participants."""
        return self.tree.messages_made() - SELF_SENT * self._their_joins

    def two_holders(self) -> list[str]:
        """Every lock that had two holders at one time, by their beliefs or by their reports; empty if none."""
        believed = [
            f"{one.lock}: {one.instance} and {other.instance} believed it" for one, other in overlaps(self.beliefs())
        ]
        return [*believed, *self.doubles]

    def _session(self, client: str) -> Session:
        return COORDINATION.over(ZooKeeperChannel(self._hosts, client=client, service="zookeeper"), _REQUEST_NS)

    def close(self) -> None:
        """End everybody. Idempotent."""
        for name in list(self._ours):
            with contextlib.suppress(LockError):
                self._ours.pop(name).leave()
        for stranger in self._strangers:
            stranger.close()
        for name in list(self._controllers):
            self.we_stop_controlling(name)
        for thread in self._threads:
            thread.join(_ANSWER_S)
        apart = [] if self._ours_apart is None else [self._ours_apart]
        for peer in (*self._processes.values(), *apart):
            peer.__exit__(None, None, None)
        self._processes.clear()
        self._client.stop()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _agreed(_message: Message) -> None:
    """The handler of ours: what happens is told to the listener."""
