"""The cluster file: every key and every slip is told, all of them at once, and there is no cluster unless none is."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockref.helix.cluster.cluster_file import LOCKS_MAX, ClusterFileError, load_cluster, parse_cluster
from lockref.helix.cluster.configured import configured
from lockref.helix.cluster.declared import Cluster
from lockref.helix.cluster.file_values import Problem
from lockref.helix.pipeline import LockGroup
from lockref.helix.rebalancers import RECIPES_CLASS
from lockref.helix.state_model import BUILT_IN
from tests.unit.lockref.helix.test_configured import GOLDENS_CLASS, golden

RECIPE = Path(__file__).parents[4] / "docs" / "examples" / "lock-manager.yaml"
TEXT = RECIPE.read_text()
KNOWN = "mod, sticky, hrw, ring, org.apache.helix.userdefinedrebalancer.LockManagerRebalancer"
OR_OWN = "or module:function or path/file.py:function"


def edited(old: str, new: str) -> str:
    """The recipe's file with one passage replaced."""
    assert TEXT.count(old) == 1, f"{old!r} is there {TEXT.count(old)} times"
    return TEXT.replace(old, new)


def problems(text: str) -> list[str]:
    """What is said about a file called f.yaml."""
    with pytest.raises(ClusterFileError) as caught:
        parse_cluster(text, file="f.yaml")
    assert str(caught.value).splitlines() == [str(each) for each in caught.value.problems]
    assert caught.value.exit_code == 2
    return [str(each) for each in caught.value.problems]


def test_the_recipes_file_gives_what_real_helix_wrote():
    """T1: the configured tree equals golden phase 0; the golden cluster has another name and another class."""
    cluster = load_cluster(RECIPE)
    resource = cluster.resources[0]
    assert resource.rebalancer == RECIPES_CLASS
    renamed = replace(cluster, name="hx-golden", resources=(replace(resource, rebalancer=GOLDENS_CLASS),))
    assert configured(renamed) == golden("0-configured")


RESOURCE = "resources.0"
MODEL = "resources.0.stateModel"
STATE = "resources.0.constraints.state"
STATES = "LOCKED, RELEASED, DROPPED"
COUNT = "expected -1, a number from 1, N or R"
COUNTS = TEXT[TEXT.index("        counts:") : TEXT.index("        priorityList: [LOCKED")]
CONSTRAINTS = TEXT[TEXT.index("    constraints:") : TEXT.index("participants:")]
TRANSITIONS = TEXT[TEXT.index("      transitions:") : TEXT.index("      initialState:")]
REBALANCER = TEXT[TEXT.index("    rebalancer:") : TEXT.index("    partitions:")]
STATE_MODEL = TEXT[TEXT.index("    stateModel:") : TEXT.index("    constraints:")]
RESOURCES = TEXT[TEXT.index("resources:") : TEXT.index("participants:")]
MANY = "".join(f"  - name: h_{port}\n    host: h\n    port: {port}\n" for port in range(20_001, 21_001))
OF_A_HOLDER = "LOCKED is the state of a holder, expected how many may hold: a number from 1, N or R"

ROWS: Sequence[tuple[str, str, list[str]]] = [
    # clusterName
    (
        "clusterName missing",
        edited("clusterName: lock-manager-custom-rebalancer", ""),
        ["f.yaml:2:1: clusterName: is missing"],
    ),
    (
        "clusterName empty",
        edited("clusterName: lock-manager-custom-rebalancer", "clusterName:"),
        ["f.yaml:1:1: clusterName: has no value; expected text"],
    ),
    (
        "clusterName with a slash",
        edited("lock-manager-custom-rebalancer", "a/b"),
        ["f.yaml:1:14: clusterName: is 'a/b'; a name is part of a path, so it has no '/' and is not '.' or '..'"],
    ),
    (
        "clusterName a number",
        edited("lock-manager-custom-rebalancer", "12"),
        ["f.yaml:1:14: clusterName: is 12; expected text in quotes"],
    ),
    (
        "clusterName of the server",
        edited("lock-manager-custom-rebalancer", "zookeeper"),
        ["f.yaml:1:14: clusterName: is 'zookeeper'; the server keeps its own znodes there"],
    ),
    # unknown keys
    (
        "unknown key",
        edited("participants: #", "particpants: #"),
        ["f.yaml:42:1: particpants: is no key here. Did you mean 'participants'?"],
    ),
    (
        "unknown key far below",
        edited("          from: LOCKED\n          to: RELEASED", "          form: LOCKED\n          to: RELEASED"),
        [
            f"f.yaml:14:11: {MODEL}.transitions.0.from: is missing",
            f"f.yaml:15:11: {MODEL}.transitions.0.form: is no key here. Did you mean 'from'?",
        ],
    ),
    ("unknown key without a near one", f"{TEXT}foo: 1\n", ["f.yaml:52:1: foo: is no key here."]),
    # resources
    (
        "resources missing",
        edited(RESOURCES, ""),
        ["f.yaml:1:1: resources: is missing; at least one resource is required"],
    ),
    (
        "resources empty",
        edited(RESOURCES, "resources: []\n"),
        ["f.yaml:2:12: resources: is empty; at least one resource is required"],
    ),
    (
        "resources no list",
        edited(RESOURCES, "resources: lock-group\n"),
        ["f.yaml:2:12: resources: is 'lock-group'; expected a list"],
    ),
    (
        "resource no mapping",
        edited(RESOURCES, "resources: [lock-group]\n"),
        [
            f"f.yaml:2:13: {RESOURCE}: is 'lock-group'; "
            "expected a mapping of name, rebalancer, partitions, stateModel, constraints"
        ],
    ),
    (
        "resource's name missing",
        edited("  - name: lock-group # unique resource name\n    rebalancer", "  - rebalancer"),
        [f"f.yaml:3:5: {RESOURCE}.name: is missing"],
    ),
    (
        "resource's name with a slash",
        edited("name: lock-group #", "name: lock/group #"),
        [
            f"f.yaml:3:11: {RESOURCE}.name: is 'lock/group'; "
            "a name is part of a path, so it has no '/' and is not '.' or '..'"
        ],
    ),
    (
        "resource's name with a character that is two to ZooKeeper",
        edited("name: lock-group #", 'name: "lock🔒" #'),
        [f"f.yaml:3:11: {RESOURCE}.name: is 'lock🔒'; ZooKeeper takes no character U+1F512 in a path"],
    ),
    (
        "resource's name twice",
        edited("participants: #", RESOURCES.removeprefix("resources:\n") + "participants: #"),
        ["f.yaml:42:11: resources.1.name: is 'lock-group'; another one above has that name"],
    ),
    # rebalancer
    (
        "rebalancer missing",
        edited(REBALANCER, ""),
        [
            f"f.yaml:3:5: {RESOURCE}.rebalancer.mode: is missing; expected USER_DEFINED",
            f"f.yaml:3:5: {RESOURCE}.rebalancer.class: is missing; expected one of {KNOWN}, {OR_OWN}",
        ],
    ),
    (
        "mode missing",
        edited("      mode: USER_DEFINED\n", ""),
        [f"f.yaml:5:7: {RESOURCE}.rebalancer.mode: is missing; expected USER_DEFINED"],
    ),
    (
        "mode unknown",
        edited("USER_DEFINED", "USER_DEFINDE"),
        [
            f"f.yaml:5:13: {RESOURCE}.rebalancer.mode: is 'USER_DEFINDE'; expected USER_DEFINED. "
            "Did you mean 'USER_DEFINED'?"
        ],
    ),
    (
        "mode of Helix alone",
        edited("USER_DEFINED", "SEMI_AUTO"),
        [
            f"f.yaml:5:13: {RESOURCE}.rebalancer.mode: is 'SEMI_AUTO', which lockref does not serve; "
            "expected USER_DEFINED, with a class such as sticky"
        ],
    ),
    (
        "class missing",
        edited(f"      class: {RECIPES_CLASS}\n", ""),
        [f"f.yaml:5:7: {RESOURCE}.rebalancer.class: is missing; expected one of {KNOWN}, {OR_OWN}"],
    ),
    (
        "class unknown",
        edited(RECIPES_CLASS, "stiky"),
        [
            f"f.yaml:6:14: {RESOURCE}.rebalancer.class: rebalancer 'stiky' is not known; expected one of {KNOWN}, "
            f"{OR_OWN}. Did you mean 'sticky'?"
        ],
    ),
    (
        "class of no module",
        edited(RECIPES_CLASS, "no_such_module:Mine"),
        [
            f"f.yaml:6:14: {RESOURCE}.rebalancer.class: rebalancer 'no_such_module:Mine': "
            "'no_such_module' cannot be loaded: No module named 'no_such_module'"
        ],
    ),
    (
        "class that is no module's name",
        edited(RECIPES_CLASS, "':Mine'"),
        [
            f"f.yaml:6:14: {RESOURCE}.rebalancer.class: rebalancer ':Mine': '' cannot be loaded: "
            "that is no name of a module"
        ],
    ),
    # partitions
    (
        "count in quotes",
        edited("count: 12", 'count: "12"'),
        [f"f.yaml:8:14: {RESOURCE}.partitions.count: is '12'; expected a whole number from 1 without quotes"],
    ),
    (
        "count 0",
        edited("count: 12", "count: 0"),
        [f"f.yaml:8:14: {RESOURCE}.partitions.count: is 0; expected a whole number from 1"],
    ),
    (
        "count -3",
        edited("count: 12", "count: -3"),
        [f"f.yaml:8:14: {RESOURCE}.partitions.count: is -3; expected a whole number from 1"],
    ),
    (
        "count a fraction",
        edited("count: 12", "count: 1.5"),
        [f"f.yaml:8:14: {RESOURCE}.partitions.count: is 1.5; expected a whole number from 1"],
    ),
    (
        "count far too large",
        edited("count: 12", "count: 999999999999"),
        [f"f.yaml:8:14: {RESOURCE}.partitions.count: is 999999999999; one resource holds at most {LOCKS_MAX} locks"],
    ),
    (
        "too many instances for a transaction",
        edited("    port: 12003\n", "    port: 12003\n" + MANY),
        ["f.yaml:3:3: resources: the cluster takes 1288954 bytes; one transaction holds 1048575. Declare less"],
    ),
    (
        "replicas not the top state's count",
        edited("replicas: 1", "replicas: 3"),
        [f"f.yaml:9:17: {RESOURCE}.partitions.replicas: is 3; the top state LOCKED has the count 1, expected 1"],
    ),
    (
        "replicas missing where the count is not 1",
        edited("      replicas: 1 # number of simultaneous holders for each lock\n", "").replace(
            'count: "1"', "count: 2"
        ),
        [
            f"f.yaml:8:7: {RESOURCE}.partitions.replicas: is missing, which means 1; "
            "the top state LOCKED has the count 2, expected 2"
        ],
    ),
    (
        "replicas beside N",
        edited('count: "1"', "count: N"),
        [
            f"f.yaml:9:17: {RESOURCE}.partitions.replicas: is 1, "
            "but the count N of LOCKED lets every live instance hold; leave replicas out"
        ],
    ),
    (
        "replicas 0",
        edited("replicas: 1", "replicas: 0"),
        [f"f.yaml:9:17: {RESOURCE}.partitions.replicas: is 0; expected a whole number from 1"],
    ),
    # stateModel
    ("stateModel missing", edited(STATE_MODEL, ""), [f"f.yaml:3:5: {MODEL}: is missing"]),
    (
        "stateModel's name missing",
        edited("name: lock-unlock # unique model name\n      states", "states"),
        [f"f.yaml:11:7: {MODEL}.name: is missing"],
    ),
    (
        "unknown built-in",
        edited(STATE_MODEL + CONSTRAINTS, "    stateModel: {name: MasterSlav}\n"),
        [
            f"f.yaml:10:24: {MODEL}.name: is 'MasterSlav'; expected MasterSlave, OnlineOffline, LeaderStandby, "
            "or a list of states beside it. Did you mean 'MasterSlave'?"
        ],
    ),
    (
        "built-in declared again",
        edited("name: lock-unlock", "name: LeaderStandby"),
        [
            f"f.yaml:{line}: {place}: is declared already: LeaderStandby is a built-in model. "
            "Leave it out, or rename the model"
            for line, place in (
                ("12:15", f"{MODEL}.states"),
                ("14:9", f"{MODEL}.transitions"),
                ("29:21", f"{MODEL}.initialState"),
                ("31:7", "resources.0.constraints"),
            )
        ],
    ),
    (
        "states missing",
        edited("      states: [LOCKED, RELEASED, DROPPED] # the list of possible states\n", ""),
        [f"f.yaml:11:7: {MODEL}.states: is missing; expected a list such as [LOCKED, RELEASED, DROPPED]"],
    ),
    (
        "states empty",
        edited("states: [LOCKED, RELEASED, DROPPED] # the", "states: [] # the"),
        [f"f.yaml:12:15: {MODEL}.states: is empty; expected a list of states"],
    ),
    (
        "a state twice",
        edited("states: [LOCKED, RELEASED, DROPPED] # the", "states: [LOCKED, RELEASED, LOCKED, DROPPED] # the"),
        [f"f.yaml:12:34: {MODEL}.states.2: state 'LOCKED' is listed twice"],
    ),
    (
        "DROPPED missing",
        textwrap.dedent("""\
        clusterName: c
        resources:
          - name: g
            rebalancer: {mode: USER_DEFINED, class: sticky}
            stateModel:
              name: m
              states: [LOCKED, RELEASED]
              initialState: RELEASED
              transitions: [{name: L, from: RELEASED, to: LOCKED}, {name: U, from: LOCKED, to: RELEASED}]
            constraints: {state: {counts: [{name: LOCKED, count: 1}]}}
        """),
        [f"f.yaml:7:15: {MODEL}.states: state DROPPED is missing; a replica could never be removed"],
    ),
    (
        "a state no text",
        edited("states: [LOCKED, RELEASED, DROPPED] # the", "states: [LOCKED, RELEASED, DROPPED, 7] # the"),
        [f"f.yaml:12:43: {MODEL}.states.3: is 7; expected text in quotes"],
    ),
    (
        "transitions missing",
        edited(TRANSITIONS, ""),
        [f"f.yaml:11:7: {MODEL}.transitions: is missing; expected a list of {{name, from, to}}"],
    ),
    (
        "transitions empty",
        edited(TRANSITIONS, "      transitions: []\n").replace("[Unlock, Lock, Undrop, DropUnlock, DropLock]", "[]"),
        [f"f.yaml:13:20: {MODEL}.transitions: is empty; at least one transition is required"],
    ),
    (
        "transition without a to",
        edited("          from: LOCKED\n          to: RELEASED\n", "          from: LOCKED\n"),
        [f"f.yaml:14:11: {MODEL}.transitions.0.to: is missing"],
    ),
    (
        "transition to an unknown state",
        edited("from: LOCKED\n          to: RELEASED", "from: LOCKED\n          to: RELEASD"),
        [f"f.yaml:16:15: {MODEL}.transitions.0.to: is 'RELEASD'; expected one of {STATES}. Did you mean 'RELEASED'?"],
    ),
    (
        "transition to itself",
        edited("from: LOCKED\n          to: RELEASED", "from: LOCKED\n          to: LOCKED"),
        [f"f.yaml:16:15: {MODEL}.transitions.0.to: is 'LOCKED'; transition 'Unlock' leads from it to itself"],
    ),
    (
        "transition's name twice",
        edited("name: DropLock", "name: Lock").replace(", DropLock]", "]"),
        [f"f.yaml:20:17: {MODEL}.transitions.2.name: is 'Lock'; another transition has that name"],
    ),
    (
        "transition's edge twice",
        edited("from: RELEASED\n          to: DROPPED", "from: LOCKED\n          to: DROPPED"),
        [f"f.yaml:23:11: {MODEL}.transitions.3: two transitions lead from LOCKED to DROPPED"],
    ),
    (
        "a way over DROPPED",
        edited("from: RELEASED\n          to: LOCKED", "from: DROPPED\n          to: LOCKED"),
        [f"f.yaml:14:9: {MODEL}.transitions: the way from RELEASED to LOCKED leads over DROPPED, where a replica ends"],
    ),
    (
        "a state that cannot be reached",
        edited("from: RELEASED\n          to: LOCKED", "from: DROPPED\n          to: LOCKED")
        .replace("        - name: Undrop\n          from: DROPPED\n          to: RELEASED\n", "")
        .replace("Undrop, ", "")
        .replace("from: DROPPED\n          to: LOCKED", "from: LOCKED\n          to: OPEN")
        .replace("[LOCKED, RELEASED, DROPPED]", "[LOCKED, RELEASED, DROPPED, OPEN]"),
        [
            f"f.yaml:14:9: {MODEL}.transitions: state LOCKED cannot be reached from the initial state RELEASED",
            f"f.yaml:14:9: {MODEL}.transitions: state OPEN cannot be reached from the initial state RELEASED",
            f"f.yaml:14:9: {MODEL}.transitions: there is no way from OPEN to DROPPED",
        ],
    ),
    (
        "initialState missing",
        edited("      initialState: RELEASED\n", ""),
        [f"f.yaml:11:7: {MODEL}.initialState: is missing; expected one of {STATES}"],
    ),
    (
        "initialState unknown",
        edited("initialState: RELEASED", "initialState: RELEASE"),
        [f"f.yaml:29:21: {MODEL}.initialState: is 'RELEASE'; expected one of {STATES}. Did you mean 'RELEASED'?"],
    ),
    # constraints
    ("constraints missing", edited(CONSTRAINTS, ""), [f"f.yaml:3:5: {STATE}.counts.LOCKED: is missing; {OF_A_HOLDER}"]),
    ("counts missing", edited(COUNTS, ""), [f"f.yaml:32:9: {STATE}.counts.LOCKED: is missing; {OF_A_HOLDER}"]),
    (
        "count of an unknown state",
        edited("          - name: DROPPED", "          - name: DROPED"),
        [f"f.yaml:37:19: {STATE}.counts.2.name: is 'DROPED'; expected one of {STATES}. Did you mean 'DROPPED'?"],
    ),
    (
        "count of a state twice",
        edited("          - name: DROPPED", "          - name: RELEASED"),
        [f"f.yaml:37:19: {STATE}.counts.2.name: is 'RELEASED'; a count of that state stands above"],
    ),
    (
        "count no number",
        edited('count: "1"', "count: abc"),
        [f"f.yaml:34:20: {STATE}.counts.0.count: is 'abc'; {COUNT}"],
    ),
    ("count zero", edited('count: "1"', "count: 0"), [f"f.yaml:34:20: {STATE}.counts.0.count: is '0'; {COUNT}"]),
    ("count -2", edited('count: "1"', "count: -2"), [f"f.yaml:34:20: {STATE}.counts.0.count: is '-2'; {COUNT}"]),
    ("count true", edited('count: "1"', "count: true"), [f"f.yaml:34:20: {STATE}.counts.0.count: is 'True'; {COUNT}"]),
    (
        "count without a count",
        edited('            count: "1"\n', ""),
        [f"f.yaml:33:13: {STATE}.counts.0.count: is missing; {COUNT}"],
    ),
    (
        "the top state unbounded",
        edited('count: "1"', 'count: "-1"'),
        [f"f.yaml:34:20: {STATE}.counts.0.count: is '-1'; {OF_A_HOLDER}"],
    ),
    (
        "the initial state first",
        edited("priorityList: [LOCKED, RELEASED, DROPPED]", "priorityList: [RELEASED, LOCKED, DROPPED]"),
        [
            f"f.yaml:39:24: {STATE}.priorityList.0: is 'RELEASED', the initial state; "
            "the first state is that in which an instance holds the lock"
        ],
    ),
    (
        "DROPPED first",
        edited("priorityList: [LOCKED, RELEASED, DROPPED]", "priorityList: [DROPPED, RELEASED, LOCKED]"),
        [
            f"f.yaml:39:24: {STATE}.priorityList.0: is 'DROPPED', no holder's; "
            "the first state is that in which an instance holds the lock"
        ],
    ),
    (
        "a priority of an unknown state",
        edited("priorityList: [LOCKED, RELEASED, DROPPED]", "priorityList: [LOKED, RELEASED, DROPPED, LOCKED]"),
        [f"f.yaml:39:24: {STATE}.priorityList.0: is 'LOKED'; expected one of {STATES}. Did you mean 'LOCKED'?"],
    ),
    (
        "a priority of a state missing",
        edited("priorityList: [LOCKED, RELEASED, DROPPED]", "priorityList: [LOCKED]"),
        [f"f.yaml:39:23: {STATE}.priorityList: lacks RELEASED, DROPPED; expected every state once"],
    ),
    (
        "a priority of a state twice",
        edited("priorityList: [LOCKED, RELEASED, DROPPED]", "priorityList: [LOCKED, RELEASED, DROPPED, LOCKED]"),
        [f"f.yaml:39:51: {STATE}.priorityList.3: 'LOCKED' is listed twice"],
    ),
    (
        "a priority of an unknown transition",
        edited("[Unlock, Lock, Undrop", "[Unlock, Lok, Undrop"),
        [
            "f.yaml:41:32: resources.0.constraints.transition.priorityList.1: is 'Lok'; "
            "expected one of Unlock, Lock, DropLock, DropUnlock, Undrop. Did you mean 'Lock'?"
        ],
    ),
    (
        "a priority of a transition twice",
        edited("[Unlock, Lock, Undrop", "[Unlock, Unlock, Undrop"),
        ["f.yaml:41:32: resources.0.constraints.transition.priorityList.1: 'Unlock' is listed twice"],
    ),
    # participants
    (
        "participants no list",
        edited(TEXT[TEXT.index("participants:") :], "participants: 3\n"),
        ["f.yaml:42:15: participants: is 3; expected a list"],
    ),
    (
        "participant's host missing",
        edited("name: localhost_12002\n    host: localhost", "name: localhost_12002"),
        ["f.yaml:46:5: participants.1.host: is missing"],
    ),
    (
        "participant twice",
        edited("name: localhost_12002", "name: localhost_12001"),
        ["f.yaml:46:11: participants.1.name: is 'localhost_12001'; another one above has that name"],
    ),
    ("port missing", edited("    port: 12002\n", ""), ["f.yaml:46:5: participants.1.port: is missing"]),
    (
        "port no number",
        edited("port: 12002", "port: abc"),
        ["f.yaml:48:11: participants.1.port: is 'abc'; expected a whole number from 1 to 65535"],
    ),
    (
        "port too large",
        edited("port: 12002", "port: 99999"),
        ["f.yaml:48:11: participants.1.port: is 99999; expected a whole number from 1 to 65535"],
    ),
    (
        "port 0",
        edited("port: 12002", "port: 0"),
        ["f.yaml:48:11: participants.1.port: is 0; expected a whole number from 1 to 65535"],
    ),
    # the rest
    (
        "autoJoinAllowed no boolean",
        f"{TEXT}autoJoinAllowed: yes\n",
        ["f.yaml:52:18: autoJoinAllowed: is 'yes'; expected true or false"],
    ),
    (
        "batchMessageMode",
        edited("    partitions:", "    batchMessageMode: true\n    partitions:"),
        [
            "f.yaml:7:5: resources.0.batchMessageMode: is not supported: every message carries one transition. "
            "Leave the key out"
        ],
    ),
    # documents
    ("empty document", "", ["f.yaml:1:1: document is empty; a cluster file begins with 'clusterName: my-locks'"]),
    (
        "only a comment",
        "# nothing\n",
        ["f.yaml:1:1: document is empty; a cluster file begins with 'clusterName: my-locks'"],
    ),
    ("no mapping", "- 1\n", ["f.yaml:1:1: a cluster file is a mapping that begins with 'clusterName: my-locks'"]),
    ("broken YAML", "a: [1, 2\n", ["f.yaml:2:1: is not YAML: did not find expected ',' or ']'"]),
    ("a key twice", f"{TEXT}clusterName: x\n", ["f.yaml:52:1: clusterName: appears a second time"]),
]


@pytest.mark.parametrize(("text", "said"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_slip_is_told_with_its_place_and_the_accepted_form(text: str, said: list[str]):
    """T10: exact words, exact line and column, and no cluster."""
    assert problems(text) == said


def test_all_problems_are_told_at_once_in_the_order_of_the_file():
    """Helix would stop at the first of these, after it has made cluster and instance."""
    text = textwrap.dedent("""\
        clusterName: c
        resources:
          - name: lock-group
            rebalancer:
              mode: USER_DEFINDE
            partitions:
              count: -3
              replicas: 1
            stateModel:
              name: lock-unlock
              states: [LOCKED, RELEASED]
              transitions:
                - {name: Unlock, from: LOCKED, to: RELEASD}
              initialState: RELEASED
        participants:
          - {name: p1, host: localhost, port: 99999}
        """)
    assert [": ".join(said.split(": ")[:2]) for said in problems(text)] == [
        f"f.yaml:3:5: {STATE}.counts.LOCKED",
        f"f.yaml:5:13: {RESOURCE}.rebalancer.mode",
        f"f.yaml:7:14: {RESOURCE}.partitions.count",
        f"f.yaml:11:15: {MODEL}.states",
        f"f.yaml:13:44: {MODEL}.transitions.0.to",
        "f.yaml:16:39: participants.0.port",
    ]


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        ("cluster.yml", None, "there is no such file. Did you mean 'cluster.yaml'?"),
        ("x", None, "there is no such file."),
        (".", None, "is a folder; expected a cluster file (.yaml)"),
        ("latin.yaml", b"a: 1\nb: \xe9\n", "is not UTF-8 text (byte 8); that is no cluster file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_located_problem(tmp_path: Path, name: str, body: bytes | None, said: str):
    """A missing file, a folder, another encoding: a typed error that names the file, never a traceback."""
    (tmp_path / "cluster.yaml").write_text(TEXT)
    path = tmp_path / name
    if body is not None:
        path.write_bytes(body)
    with pytest.raises(ClusterFileError) as caught:
        load_cluster(path)
    (problem,) = caught.value.problems
    assert (problem.location.path, problem.message) == (str(path), said)


def test_a_link_to_nowhere_is_one_located_problem(tmp_path: Path):
    """It is there, and no other file is meant."""
    path = tmp_path / "round.yaml"
    path.symlink_to(path)
    with pytest.raises(ClusterFileError, match=r"round\.yaml: is a link that leads to no file"):
        load_cluster(path)


@pytest.mark.parametrize(
    ("counts", "replicas", "holders"),
    [
        ({"LOCKED": "1"}, 1, 1),
        ({"LOCKED": 2}, 2, 2),
        ({"LOCKED": 2, "RELEASED": "R"}, 2, 2),
        ({"LOCKED": 1, "RELEASED": 1}, 1, 1),
        ({"LOCKED": "R", "RELEASED": "R", "DROPPED": "-1"}, 3, 3),
        ({"LOCKED": "N"}, None, 5),
    ],
)
def test_a_count_is_accepted_where_it_means_something(counts: dict[str, str | int], replicas: int | None, holders: int):
    """The count trap: Helix refuses LOCKED 2 with the rest -1, two states with 1, and assigns nothing for R and N.

    Here each gives as many holders as it says, with five live instances, under every name but the recipe's.
    """
    listed = "".join(f"          - {{name: {state}, count: {count}}}\n" for state, count in counts.items())
    text = TEXT.replace(COUNTS, f"        counts:\n{listed}")
    text = text.replace("      replicas: 1 #", f"      replicas: {replicas} #" if replicas else "      #")
    resource = parse_cluster(text).resources[0]
    group = LockGroup(name=resource.name, locks=resource.lock_names, replicas=resource.replicas, model=resource.model)
    assert group.per_lock(5) == holders


def test_quotes_around_a_count_change_nothing():
    """Helix ends with a class-cast exception for `count: 1` without quotes."""
    assert parse_cluster(edited('count: "1"', "count: 1")) == parse_cluster(TEXT)


def test_priorities_that_are_left_out_follow_the_file():
    """Helix leaves their order open: states and transitions keep the order in which the file declares them."""
    text = edited("        priorityList: [LOCKED, RELEASED, DROPPED] # states in order of priority\n", "")
    text = text.replace("priorityList: [Unlock, Lock, Undrop, DropUnlock, DropLock]", "priorityList: [Undrop]")
    model = parse_cluster(text).resources[0].model
    assert model.states == ("LOCKED", "RELEASED", "DROPPED")
    assert [each.name for each in model.transitions] == ["Undrop", "Unlock", "Lock", "DropLock", "DropUnlock"]


def small(resources: str, rest: str = "") -> Cluster:
    return parse_cluster(f"clusterName: c\nresources:\n{resources}{rest}")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_model_needs_its_name_alone(name: str):
    """Section 5: states are required unless the model is MasterSlave, OnlineOffline or LeaderStandby."""
    cluster = small(f"  - {{name: g, rebalancer: {{mode: USER_DEFINED, class: hrw}}, stateModel: {{name: {name}}}}}\n")
    (resource,) = cluster.resources
    assert (resource.model, resource.locks, resource.replicas) == (BUILT_IN[name], 1, 1)
    assert resource.rebalancer == "hrw"
    assert (cluster.instances, cluster.allows_joining) == ((), False)


def test_a_later_resource_may_name_the_model_of_an_earlier_one():
    """As in Helix, where the model is added already. Another model of that name is refused."""
    short = "  - {name: h, rebalancer: {mode: USER_DEFINED, class: ring}, stateModel: {name: lock-unlock}}\n"
    cluster = parse_cluster(edited("participants: #", f"{short}autoJoinAllowed: true\nparticipants: #"))
    assert cluster.resources[1].model == cluster.resources[0].model
    assert cluster.allows_joining
    constrained = short.replace("}}\n", "}, constraints: {}}\n")
    assert problems(edited("participants: #", f"{constrained}participants: #")) == [
        "f.yaml:42:108: resources.1.constraints: is declared already, "
        "with the model lock-unlock of an earlier resource. Leave it out"
    ]
    second = RESOURCES.removeprefix("resources:\n").replace("name: lock-group #", "name: h #")
    parse_cluster(edited("participants: #", f"{second}participants: #"))
    other = second.replace("[Unlock, Lock, Undrop", "[Lock, Unlock, Undrop")
    assert problems(edited("participants: #", f"{other}participants: #")) == [
        "f.yaml:50:13: resources.1.stateModel.name: is 'lock-unlock'; "
        "an earlier resource declares another model of that name"
    ]


def test_a_rebalancer_of_ones_own_is_loaded_with_the_file():
    """module:function: a slip in it is told before anything is written."""
    name = "tests.unit.lockref.helix.test_cluster_file:nobody"
    assert parse_cluster(edited(RECIPES_CLASS, name)).resources[0].rebalancer == name
    (said,) = problems(edited(RECIPES_CLASS, f"{name}_else"))
    assert said.endswith("'tests.unit.lockref.helix.test_cluster_file' has no function 'nobody_else'")


def nobody(question: object) -> dict[str, tuple[str, ...]]:
    """A rebalancer that gives no lock to anybody."""
    return {}


LINES = TEXT.splitlines(keepends=True)


@given(
    st.integers(0, len(LINES) - 1),
    st.sampled_from(("drop", "null", "list", "mapping", "number", "twice", "deeper")),
    st.integers(0, len(LINES) - 1),
)
def test_a_damaged_file_gives_a_cluster_or_located_problems(line: int, damage: str, other: int):
    """Whatever is done to two lines of the file: no traceback, and every problem has a line."""
    lines = list(LINES)
    value = {"null": "", "list": "[]", "mapping": "{}", "number": "7"}
    key = lines[line].partition(":")[0]
    if damage in value:
        lines[line] = f"{key}: {value[damage]}\n"
    elif damage == "drop":
        lines[line] = ""
    elif damage == "twice":
        lines[line] *= 2
    else:
        lines[line] = f"  {lines[line]}"
    del lines[other]
    found: tuple[Problem, ...] = ()
    try:
        parse_cluster("".join(lines), file="f.yaml")
    except ClusterFileError as error:
        found = error.problems
        is_refused = True
    else:
        is_refused = False
    assert is_refused == bool(found)
    assert all(each.location.line and "\n" not in each.message for each in found)


def test_replicas_of_a_model_with_slaves_count_the_slaves_too():
    """MasterSlave with 3 replicas: one master holds the lock, the state with the count R fills the rest."""
    text = edited(STATE_MODEL + CONSTRAINTS, "    stateModel: {name: MasterSlave}\n")
    resource = parse_cluster(text.replace("replicas: 1", "replicas: 3")).resources[0]
    assert resource.replicas == 3
    group = LockGroup(name=resource.name, locks=("l_0",), replicas=resource.replicas, model=resource.model)
    assert group.per_lock(3) == 1
