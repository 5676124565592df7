"""Every planted bug: where it must be caught, and by which clause."""

from __future__ import annotations

from dataclasses import dataclass

from lockref.lab.loading import ProviderSpec, load_provider
from scenarios.campaign import run_campaign
from scenarios.definition.load import load_scenario

HERE = "tests.quality.planted"
CORRECT = (
    "hardened",
    "docs/examples/lease_lock.py:LeaseLock",
    f"{HERE}.variants:EagerPoller",
    f"{HERE}.variants:EagerRenewer",
    f"{HERE}.variants:EarlyStopper",
    f"{HERE}.variants:SparseTokens",
    f"{HERE}.variants:TokenElsewhere",
    f"{HERE}.loss_notices:TalkativePlain",
    f"{HERE}.loss_notices:TellsTwice",
    f"{HERE}.loss_notices:TellsEarly",
    f"{HERE}.strangers:PlainLock",
    f"{HERE}.strangers:PollingLock",
    f"{HERE}.strangers:HiddenLock",
    f"{HERE}.entered:CountingLock",
    f"{HERE}.entered:ClosingTellsTheHolder",
    f"{HERE}.watching:WatchingLock",
    f"{HERE}.habits:RenewsThreeTimesAsOften",
    f"{HERE}.habits:RenewsFiveTimesAsOften",
    f"{HERE}.habits:RenewsTenTimesAsOften",
    f"{HERE}.habits:PlainRenewsFiveTimesAsOften",
    f"{HERE}.habits:RenewsRarely",
    f"{HERE}.habits:RenewsAtHalf",
    f"{HERE}.habits:RenewsLate",
    f"{HERE}.habits:RenewsWhenUsed",
    f"{HERE}.habits:HasItsOwnKey",
    f"{HERE}.habits:PollsFiveTimesAsOften",
    f"{HERE}.habits:ReadsBeforeEachWrite",
    f"{HERE}.habits:LooksTwice",
    f"{HERE}.habits:VerifiesEachWrite",
    f"{HERE}.habits:CountsFromZero",
    f"{HERE}.habits:GivesNoTokens",
    f"{HERE}.handed:TokenPerWrite",
    f"{HERE}.handed:HandsOver",
    f"{HERE}.handed:ReleasesByStamp",
    f"{HERE}.leaseless:CreateAndDeleteAsDeclared",
    f"{HERE}.nameless:WritesOneName",
    f"{HERE}.nameless:DeletesWhatRanOut",
    f"{HERE}.release:StopsWhenItGivesBack",
    f"{HERE}.counted:CountsByCondition",
    f"{HERE}.forked:ForkSafeLock",
    "dynamodb",
    f"{HERE}.table_leases:PatientLease",
    f"{HERE}.table_leases:HasNoHeartbeat",
)
"""Locks that no scenario may flag where the hardened lock holds."""


@dataclass(frozen=True, slots=True)
class Bug:
    """One planted bug.

    lock: `module:Class` below tests.quality.planted. ids: the defect's numbers.
    scenario: a scenario of the catalogue known to expose it. clauses: each of
    these accuses the defect rightly; at least one must break. seeds: how many
    suffice with room to spare.
    """

    lock: str
    ids: str
    scenario: str
    clauses: str
    seeds: int = 10

    @property
    def spec(self) -> ProviderSpec:
        return load_provider(f"{HERE}.{self.lock}")


def first_seed(bug: Bug, seeds: range) -> tuple[int, frozenset[str]] | None:
    """The first of `seeds` that exposes the bug by a clause of its own, with all clauses that broke then."""
    scenario = load_scenario(bug.scenario)
    spec = bug.spec
    not_demanded = scenario.not_demanded(spec.stands_on)
    at = seeds.start
    while at < seeds.stop:
        # Most bugs are seen in the first run: as many seeds again as were run so far, at most ten.
        piece = range(at, min(at + max(1, min(at - seeds.start, 10)), seeds.stop))
        at = piece.stop
        result = run_campaign(scenario, spec, piece, keep_runs=0, not_demanded=not_demanded, watched=0)
        broken: dict[int, set[str]] = {}
        for finding in result.summary.findings:
            broken.setdefault(finding.run, set()).add(finding.clause)
        for seed in sorted(broken):
            if broken[seed] & set(bug.clauses.split()):
                return seed, frozenset(broken[seed])
    return None


BUGS = (
    # the lease in a table
    Bug("table_leases:WatchIsNotRestarted", "T4", "e08", "S3 S5"),
    Bug("table_leases:ResumesByNameAlone", "T9", "e08", "S3 S5"),
    Bug("table_leases:WatchRestartsWithEachLook", "T4 B7", "e03", "L1 L2"),
    Bug("table_leases:WatchesTheWallClock", "T2 B4", "b04", "S3 S5", seeds=300),
    Bug("table_leases:CountsSecondsTwiceAsFast", "T5", "e08", "S3 S5"),
    Bug("table_leases:StampedAfterTheReply", "T3 B15", "h01", "S3 L4"),
    Bug("table_leases:BelievesForEver", "T6 B9", "e06", "S3 L4"),
    Bug("table_leases:ReleasesByNameAlone", "T9", "e08", "S3 S6"),
    Bug("table_leases:GenerationIsResetByRelease", "T9", "e01", "S2"),
    Bug("table_leases:TimeToLiveIsTheLease", "T10 B5", "b05-time-to-live-other-clock", "S3"),
    Bug("table_leases:RenewsUnconditionally", "B14", "h08", "S5 S6"),
    Bug("table_leases:MillisecondsForSeconds", "T1", "e03", "L1 L2"),
    # locks that a controller assigns
    Bug("assigned:GrantsBeforeTheDropIsConfirmed", "Z16 T6", "z10-partitioned-holder", "S3"),
    Bug("assigned:DecidesByAStaleSnapshot", "Z12", "e01", "S3"),
    Bug("assigned:GrantsAnewAfterAFailover", "Z14 T19", "z11-several-locks-failover", "S2 S3"),
    Bug("assigned:LeadsUnelected", "Z11 T18", "z11-frozen-before-it-sends", "S2 S3"),
    Bug("assigned:OverlooksWhatIsUnderWay", "T6", "zt06-slow-to-take", "S3"),
    Bug("assigned:ExecutesMessagesOfDeadSessions", "Z20 T13", "zt13-participant-returns", "S2 S3"),
    Bug("assigned:AsksTheMonotonicClockAlone", "Z9 U2", "z09-clocks-of-a-frozen-holder", "S3"),
    Bug("assigned:AsksTheWallClockAlone", "Z9 T17", "z09-clocks-of-a-frozen-holder", "S3"),
    Bug("assigned:WorksOnAfterDisconnect", "Z9 Z10", "z10-partitioned-holder", "S3"),
    Bug("assigned:AcknowledgesBeforeItsCallbackEnds", "T14", "e01", "S3"),
    Bug("assigned:BelievesUntilGivingBackIsAnswered", "T14 Z16", "z12-late-answer-to-giving-back", "S3"),
    Bug("assigned:GrantsWhenTheDropTakesTooLong", "Z16 T6", "z13-frozen-when-told-to-drop", "S3"),
    Bug("assigned:SendsUnderItsNextSession", "Z11 T18", "z14-deposed-while-frozen", "S2 S3"),
    # release
    Bug("release:UnconditionalRelease", "M4", "e08", "S6 S3"),
    Bug("release:DeletesToRelease", "M4 M15", "e02", "S2"),
    Bug("release:ConditionallyDeletes", "M5 M15", "e02", "S2"),
    Bug("release:ClearsTokenOnRelease", "M5", "e02", "S2"),
    Bug("release:ReleasesOnce", "M25 H7", "e15", "S7 L3"),
    Bug("release:NeverReleases", "S7 L3", "e01", "S7 L3"),
    Bug("release:BelievesAfterUnlock", "M27", "e01", "S3"),
    Bug("release:MayBeUsedDuringUnlock", "M27", "e01", "S3"),
    Bug("release:SaysYesUntilTheAnswer", "M27 E14", "late-unlock-answer", "S3"),
    Bug("release:SaysYesUntilClosed", "M27 U16", "late-close-answer", "S3"),
    Bug("release:BelievesWhileReleasing", "M27 U4 U5", "e14", "S3 S7"),
    Bug("release:BeatsAfterRelease", "M8", "e01", "S6"),
    Bug("release:HeartbeatNeverStops", "M8 M23", "e13", "S6"),
    Bug("release:AnybodyMayUnlock", "H9", "h09", "S6", 20),
    Bug("release:UnlockFreesAnyOwner", "M4", "e08", "S6 S3"),
    Bug("release:UnlockRetriesWithoutCondition", "M4", "e14", "S6 S1"),
    Bug("release:LossIsSilent", "M27 U7", "e08", "S3 L4"),
    # renewal
    Bug("renewal:RenewsUnconditionally", "C1 H8", "h08", "S6 S1 S5"),
    Bug("renewal:RenewsBlindlyAfterPause", "C1 H8", "h08", "S6 S1 S5"),
    Bug("renewal:HealthyOnUnknown", "M7 M24", "e06", "S3 L4"),
    Bug("renewal:HealthyOnThrottle", "M24", "m07", "S3 L4"),
    Bug("renewal:HealthyOnConflict", "M7", "m07", "S3 L4"),
    Bug("renewal:HealthyOnMissing", "M7 U9", "h15", "S3 L4"),
    Bug("renewal:RecreatesMissing", "H15", "h15", "S6"),
    Bug("renewal:LowersValidUntil", "H19", "h19", "S3"),
    Bug("renewal:RenewsWithHalfTheValidity", "H19", "e08", "S3 L4"),
    Bug("renewal:KeptAfterLostRenewal", "M27", "e08", "S3 L4"),
    Bug("renewal:HeartbeatDiesUnnoticed", "U15", "e07", "S3 L4"),
    Bug("renewal:Own412IsLoss", "M10", "e17", "L4"),
    Bug("renewal:Own412IsLossUnclaimed", "M10", "e17", "L4"),
    Bug("renewal:NotNowIsLoss", "M11", "a05", "L4"),
    Bug("renewal:DangerStopsTheHeart", "M9", "e06", "S3 L4"),
    Bug("renewal:RevivesByLateRenewal", "H4", "e06", "S3 L4"),
    Bug("renewal:RenewsForDeadOwner", "H13", "h13", "L1"),
    # clocks
    Bug("clocks:CountsFromTheReply", "M22", "h01", "S3 L4"),
    Bug("clocks:CountsRenewalsFromTheReply", "M22 H4", "h03", "S3 L4"),
    Bug("clocks:WallClockOnly", "M3", "e31", "S3 L4"),
    Bug("clocks:MonotonicClockOnly", "H1", "u02", "S3 L4"),
    Bug("clocks:MarginSignWrong", "M6", "e06", "S3 L4"),
    Bug("clocks:NoDeadline", "H4", "u01", "S3 L4"),
    Bug("clocks:HoldsIsAFlag", "H2", "e08", "S3 L4"),
    Bug("clocks:ChecksOnceAtGrant", "H2", "e08", "S3 L4"),
    Bug("clocks:NoCheckBeforeTrue", "H3", "e10", "S3 L4"),
    Bug("clocks:SecondsForMilliseconds", "M1", "e01", "S3 L4"),
    Bug("clocks:EpochInSeconds", "M1", "e01", "S3 L4"),
    Bug("clocks:MicrosecondsForMilliseconds", "M1", "e03", "L1 L2"),
    Bug("clocks:ComparesSecondsWithMilliseconds", "M1", "e03", "L1 L2"),
    Bug("clocks:NeverExpires", "M2", "e03", "L1 L2"),
    Bug("clocks:NoDriftMargin", "H1", "e06", "S3"),
    Bug("clocks:SubtractsTheDriftMargin", "M6", "e03", "S5"),
    Bug("clocks:TokenFromClock", "M15", "e01", "S2"),
    Bug("clocks:TokenFromNanoseconds", "M3", "m03", "S2"),
    # answers
    Bug("answers:DeniesOnTimeout", "A1", "e11", "S7"),
    Bug("answers:BelievesSilence", "A1", "a01", "S7 S3 S4"),
    Bug("answers:BelievesServerErrors", "M24", "a01", "S7 S3 S4"),
    Bug("answers:Own412IsDenial", "M10", "e17", "S7"),
    Bug("answers:ConflictIsDenial", "M11", "a05", "S7"),
    Bug("answers:ThrottleIsDenial", "S7", "a05", "S7"),
    Bug("answers:LastRefusalIsDenial", "S7 A5", "a05", "S7"),
    Bug("answers:FalseOnUnknown", "S7", "s07", "S7"),
    Bug("answers:FalseOnAnyError", "S7", "s07", "S7"),
    Bug("answers:RecognisesByOwner", "M23", "m23", "S3 L4"),
    Bug("answers:SameOwnerEverywhere", "M23", "e01", "S3"),
    Bug("answers:TakesOverCorrupt", "D6 H17", "e25", "S3"),
    Bug("answers:MissingFieldsMeanFree", "M12", "e01", "S3 S5"),
    Bug("answers:LoopsForEver", "L5", "s07", "L5"),
    Bug("answers:WaitsForEver", "L5", "s07", "L5"),
    Bug("answers:UnlockWaitsForEver", "L5", "h01", "L5"),
    Bug("answers:AbandonsUnknown", "L6", "u08", "L6 L1"),
    Bug("answers:GrantsTooLate", "H3", "e10", "S3 L4"),
    # takeover
    Bug("takeover:TakesOverByPut", "M17", "e02", "S3 S5 S2"),
    Bug("takeover:CreatesByPut", "M12", "e01", "S3 S5 S2"),
    Bug("takeover:DeletesAndCreates", "M4", "e09", "S6 S3"),
    Bug("takeover:TakesOverOnStaleRead", "A3", "e09", "S5 S3"),
    Bug("takeover:TakesOverTheLiving", "S5", "e07", "S5 S3"),
    Bug("takeover:RestartsTokens", "M5 M15", "e02", "S2"),
    Bug("takeover:FencesFromMemory", "H21 M15", "p03", "S2"),
    Bug("takeover:TokenStaysTheSame", "M15", "e02", "S2"),
    Bug("takeover:TokenSkipsTakeovers", "M15", "e03", "S2"),
    Bug("takeover:SharesWithAnyTask", "U6", "u06", "S3 S4"),
    Bug("takeover:RemembersYes", "M27", "e08", "S3 L4"),
    Bug("takeover:IgnoresRelease", "L3", "e02", "L3"),
    Bug("takeover:PollsTooSlowly", "L3", "e01", "L3"),
    Bug("takeover:NeverPolls", "L1", "e03", "L1 L2"),
    Bug("takeover:AlwaysYes", "canary", "e01", "S3 S4"),
    # whole locks
    Bug("strangers:PlainFlag", "H2", "h02", "S3 L4"),
    Bug("strangers:HiddenFlag", "H2", "h02", "S3"),
    Bug("strangers:HiddenPut", "M4 M17", "e01", "S3 S4"),
    Bug("strangers:HiddenBlindRelease", "M4", "h02", "S3 S4", 30),
    Bug("strangers:HiddenReply", "M22", "m22", "S3"),
    Bug("strangers:HiddenEternal", "M2", "h13", "L1"),
    Bug("strangers:HiddenSilence", "A1", "a05", "S3 S4", 30),
    Bug("strangers:DeniesUnlessApplied", "A1 A5 M10", "a05", "S7"),
    Bug("strangers:TerraformLike", "M4 L2", "e11", "L1 S7"),
    Bug("strangers:HiddenTerraform", "M4 L2", "demo", "L1", 30),
    Bug("strangers:CheckThenPut", "M17", "e01", "S5 S3"),
    Bug("strangers:HiddenCheckThenPut", "M17", "u06", "S3 S4"),
    Bug("strangers:ExpiringTerraform", "M4", "e09", "S6"),
    Bug("leaseless:CreateAndDelete", "L2", "b01", "L1 L2"),
    Bug("leaseless:DeniesWithoutALook", "S7", "a05", "S7"),
    Bug("leaseless:ForgetsToDelete", "S7", "a05", "S7"),
    Bug("leaseless:BreaksTheLock", "M17 S5", "e06", "S3 S5"),
    Bug("watching:SameBytesAgain", "M14", "e07", "S3 S5"),
    # records that say little
    Bug("nameless:TakesOneNameTooEarly", "S5", "e03", "S5"),
    Bug("nameless:FreesAnyRecordOfItsName", "M4", "e08", "S6"),
    Bug("nameless:TakesAnyRecordForItsOwn", "A4 H5", "e01", "S3 S7"),
    Bug("nameless:DeletesWithoutCondition", "M4", "e03", "S6"),
    Bug("nameless:DeletesTooEarly", "S5", "e03", "S5"),
    # what the record alone does not tell
    Bug("handed:TokensOverlap", "M15", "e01", "S2"),
    Bug("handed:ReleasesByTheNextStamp", "S7", "e01", "S7"),
    Bug("handed:RenewsIntoThePast", "H19", "h03", "S3"),
    Bug("handed:GivesAndKeeps", "H2 S5", "h03", "S3 S5"),
    Bug("handed:WaiterGivesItself", "S5", "e01", "S5"),
    Bug("handed:GivesBlindly", "M4 S6", "h06", "S5 S6"),
    # giving up
    Bug("stubborn:InsistsOnConflict", "L5 A5", "e29", "L5"),
    Bug("stubborn:InsistsOnThrottle", "L5 A5", "e29", "L5"),
    Bug("stubborn:InsistsOnServerError", "L5 A1", "e29", "L5"),
    Bug("stubborn:InsistsOnReading", "L5", "e29", "L5"),
    Bug("stubborn:InsistsOnRefusal", "L5", "e29", "L5"),
    Bug("stubborn:ReleaseInsistsOnConflict", "L5 H7", "h07", "L5"),
    Bug("stubborn:ReleaseInsistsOnThrottle", "L5 H7", "h07", "L5"),
    Bug("stubborn:PlainInsists", "L5", "e29", "L5"),
    Bug("stubborn:HiddenInsists", "L5", "h07", "L5"),
    Bug("stubborn:SleepsAsLongAsItIsTold", "L5", "e29", "L5"),
    Bug("stubborn:CountsTheWaitOnTheWall", "L5 M3", "e35", "L5"),
    Bug("stubborn:SleepsUntilTheStamp", "L5 M3", "e35", "L5"),
    # what lands late
    Bug("late:RenewsWhatItFinds", "S6 E18", "h11", "S6"),
    Bug("late:PlainRenewsWhatItFinds", "S6 H15", "e30", "S6"),
    Bug("late:RenewsWithoutConditionWhenLate", "S6 A7", "h11", "S2 S5 S6", 20),
    Bug("late:TakesTheAnswerForTheNextGrant", "H11 M27", "e03", "S3"),
    Bug("late:RefusedReleaseIsDone", "H7 E18", "h11", "S7"),
    Bug("late:CountsFromTheNewestAttempt", "H1 H5", "h05", "S3 L4"),
    Bug("late:CountsFromTheDiscovery", "H1 M22", "h04", "S3 L4"),
    Bug("late:PlainCountsFromTheDiscovery", "H1 M22", "h04", "S3 L4"),
    Bug("late:ExtendsBeforeTheAnswer", "H1 H4", "h05", "S3 L4"),
    Bug("late:AdoptsAnyRecordOfItsOwn", "A4 H5", "h05", "S3 L4"),
    Bug("late:ReadsTheStampBack", "M6", "h04", "S3 L4"),
    Bug("late:PlainIsANewOwnerEachTime", "A7 S7", "a06", "S7"),
    Bug("late:CountsTheGrantFromTheDiscovery", "H1 M22", "a07", "S3 L4"),
    Bug("leaseless:LeavesWhatItForsook", "H6 L6", "a08", "L1 L6"),
    Bug("leaseless:DeletesWhateverStands", "M4", "a09", "S6 S3"),
    Bug("late:RoundsTheStampDown", "M1", "a10", "S3"),
    Bug("late:PlainRoundsItsDeadlineUp", "M1", "a10", "S3 L4"),
    # what is no record
    Bug("bodies:EmptyIsFree", "D6 H17", "d06", "S3"),
    Bug("bodies:NoFieldsAreFree", "M12 H17", "h17", "S3", 20),
    Bug("bodies:TruncatedIsFree", "D6 H17", "h17", "S3", 20),
    Bug("bodies:NoTextIsFree", "H17", "h17", "S3", 20),
    Bug("bodies:NoObjectIsFree", "M12 H17", "h17", "S3", 20),
    Bug("bodies:PlainEmptyIsFree", "D6", "d06", "S3"),
    Bug("bodies:PlainSplitsAnything", "M12", "h17", "S3"),
    Bug("bodies:RenewsOverAnything", "D6 S6", "d06", "S2 S6"),
    Bug("bodies:ReplacesWhatItCannotRead", "H17", "d06", "S3"),
    # what a holder is told
    Bug("loss_notices:LosesInSilence", "H12", "h12", "L4"),
    Bug("loss_notices:TellsOnlyOfRivals", "H12 H4", "h12", "L4"),
    Bug("loss_notices:TellsOfTheFirstLossOnly", "H12", "h12", "L4"),
    Bug("loss_notices:TellsWhenUnlocked", "H12", "h12", "L4"),
    Bug("loss_notices:TellsOfDeadlinesOnly", "H12 H15", "loss-found", "L4"),
    Bug("loss_notices:RenewsWithoutExtending", "H1", "h06", "L4"),
    Bug("loss_notices:ExtendsOnce", "H1", "h06", "L4"),
    Bug("loss_notices:PlainForgetsToExtend", "H1", "h06", "L4"),
    # tokens
    Bug("tokens:ShowsTheNextToken", "H21 S7", "e01", "S7"),
    Bug("tokens:ShowsItsOwnCount", "H21 S7", "e02", "S7"),
    Bug("tokens:HiddenCount", "H21 S2", "e01", "S2"),
    Bug("tokens:HiddenRestart", "M15 S2", "e02", "S2"),
    Bug("tokens:RaisesTheMarkByPut", "H21 A7", "p05", "S2"),
    Bug("counted:CountsByPut", "H21 A7", "paused-before-the-count", "S2"),
    Bug("tokens:NoTokenAfterTakeover", "H21", "paused-before-the-write", "S4"),
    Bug("tokens:ShowsTheNewestToken", "H21", "token-alone", "S4 S7"),
    Bug("tokens:CountsItsRenewals", "H21 S7", "token-and-guard", "S7"),
    # entered twice, closed inside
    Bug("entered:CountsTwice", "H9 S7", "reentrant", "S7"),
    Bug("entered:InnerUnlockGivesBack", "H9", "reentrant", "S3"),
    Bug("entered:EntersWhatIsLost", "H9 S7", "reentrant", "S7"),
    Bug("entered:CountOutlivesLoss", "H9 S7", "reentrant", "S7"),
    Bug("entered:LocksTwiceUnlocksOnce", "H9 S7", "reentrant", "S7"),
    Bug("entered:CloseLeavesTheHeartbeat", "U16 L1", "u16", "L1"),
    Bug("entered:PlainCloseLeavesTheHeartbeat", "U16 L1", "u16", "L1"),
    Bug("entered:CloseStopsBelievingOnly", "U16 L1", "u16", "L1"),
    Bug("entered:CloseKeepsBelieving", "U16 M27", "u16", "S3"),
    Bug("entered:CloseReleasesUnderTheHolder", "U16 S3", "closed-by-another", "S3"),
    Bug("entered:PlainCloseReleasesUnderTheHolder", "U16 S3", "closed-by-another", "S3"),
    # what nobody planned for
    Bug("odd:TrustsItsLastVersion", "M17", "m03", "S2 S3 S5"),
    Bug("odd:OwnerIsTheHost", "D1 E33", "d01", "S3 L4"),
    Bug("odd:CountsTicks", "H1 H2", "e08", "S3 L4"),
    Bug("odd:SwallowsReleaseFailure", "S7 H24", "h07", "S7"),
    Bug("odd:RoundsItsTimeoutUp", "L5", "s07", "L5"),
    Bug("odd:UnlockJoinsTheHeartbeat", "L5 D9", "h07", "L5"),
    Bug("odd:BlindSecondTry", "A1", "a01", "S2 S3 S5", 20),
    Bug("odd:LeaseFromFirstSight", "S5", "e07", "S5 S3", seeds=20),
    Bug("odd:GuardCachesItsAnswer", "H2", "e06", "S3 L4"),
    Bug("odd:GivesUpBlindly", "M4 S6", "e08", "S6 S3"),
    Bug("odd:WaitsAnewForEachOwner", "L5 E35", "crowded", "L5"),
    Bug("odd:AdoptsItsOrphan", "H5 H6", "m23", "S3 L4"),
    Bug("odd:CleanupHitsTheNextGrant", "H6", "m23", "S3"),
    Bug("odd:TryLockNeverTakesOver", "S7", "e02", "S7"),
    Bug("odd:RemembersNo", "S7", "a05", "S7"),
    Bug("odd:TokenWraps", "S2", "m03", "S2"),
    Bug("odd:HealthyOnAbsentRead", "U9 M7", "h15", "S3 L4"),
    Bug("odd:SlowsItsHeartDown", "M9", "e06", "S3 L4"),
    Bug("odd:TakesThrottledForFree", "M12", "a05", "S5 S7", 20),
    Bug("odd:ReleasesTwice", "M4 S6", "e01", "S6"),
    Bug("odd:RestartsItsPatienceInDanger", "H4 A8", "e06", "S3 L4"),
    # the guide's example, spoilt
    Bug("leases:InsistsOnConflict", "L5", "e29", "L5"),
    Bug("leases:InsistsOnThrottle", "L5", "e29", "L5"),
    Bug("leases:CountsTheWaitOnTheWall", "L5 M3", "e35", "L5"),
    Bug("leases:EmptyIsFree", "D6", "d06", "S3"),
    Bug("leases:FieldsHaveDefaults", "M12", "h17", "S3"),
    Bug("leases:CountsFromTheReply", "M22", "h01", "S3 L4"),
    Bug("leases:ReleasesBlindly", "M4", "h02", "S3 S6"),
    Bug("leases:UnlockInsists", "L5", "h07", "L5"),
    Bug("leases:ForgetsTheToken", "S2", "e02", "S2"),
    Bug("leases:CarelessInACrowd", "H2", "paused-in-a-crowd", "S3 L4"),
    # forked children
    Bug("forked:ChildBelieves", "H9", "forked-holder", "S3 S4"),
    Bug("forked:ChildReleases", "H9 S6", "forked-holder", "S6"),
    Bug("forked:ChildIsTheOwner", "H9 E33", "forked-holder", "S3 S6"),
    Bug("forked:PlainChild", "H9", "forked-holder", "S3 S6"),
    Bug("forked:ChildMayNotUnlockOnly", "H9", "forked-holder", "S3 S4"),
    Bug("forked:ChildLocksAnew", "H9 H22", "forked-holder", "S3"),
)
