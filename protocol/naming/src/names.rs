//! Operations on the names of a node or of the machine, their answers, and the notices of watches.
//!
//! Written by `tombolo idl compile` from interfaces/control/names.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::records::*;

rt::number! {
    /// How setting a record treats an existing one.
    pub enum SetMode: u8;
    /// Replace all attributes by those given.
    Replace = 0,
    /// Add the attributes given to those that it has, replacing those of the same name.
    Merge = 1,
    /// Create a record under a new name: the one given, followed by a number. Numbers increase and are never
    /// reused.
    Sequential = 2,
}

rt::number! {
    /// How long a record lives.
    pub enum Lifetime: u8;
    /// Until the domain that set it ends.
    Transient = 0,
    /// As long as its scope, the machine or the node.
    Persistent = 1,
}

rt::number! {
    /// The events that a watch reports.
    pub flags EventMask: u8 in 0x7;
    /// A record that matches was set.
    SET = 1,
    /// A record that matched was deleted, or no longer matches.
    DELETE = 2,
    /// An event that matches was published.
    PUBLISH = 4,
}

rt::number! {
    /// Why a record was reported deleted.
    pub enum DeleteCause: u8;
    /// A domain deleted it.
    Deleted = 0,
    /// The domain that owned it ended.
    OwnerGone = 1,
    /// It exists, but no longer matches.
    NoMatch = 2,
}

rt::number! {
    /// Why a watch ended.
    pub enum EndCause: u8;
    /// Its owner ended it.
    Unwatched = 0,
    /// Matching a record took too many steps.
    TooCostly = 1,
    /// Its node was lost, and the names with it.
    NodeLost = 2,
}

rt::record_view! {
    ConditionFenced => ConditionFencedView<'m>, inline 16 / 8;
    /// The lock.
    lock @ 0 => rt::Text<'m, 1024>,
    /// The fencing token that its holder received.
    token @ 8 => u64,
}

rt::owned_pair! {
    ObjectKey => ObjectKeyView<'m>, inline 16 / 8;
    /// The kind, as in `ObjectInfo`.
    kind @ 0: rt::String => rt::Text<'m, 1024>,
    /// The name.
    name @ 8: rt::String => rt::Text<'m, 1024>,
}

rt::record_view! {
    OperationFind => OperationFindView<'m>, inline 40 / 8;
    /// `query`.
    query @ 0 => QueryView<'m>,
    /// List only names after this one; empty to list from the start.
    after @ 24 => rt::Text<'m, 1024>,
    /// The most records in the answer.
    limit @ 32 => u32,
}

rt::record_view! {
    OperationAwait => OperationAwaitView<'m>, inline 32 / 8;
    /// `query`.
    query @ 0 => QueryView<'m>,
    /// The longest time to wait.
    timeout @ 24 => DurationView<'m>,
}

rt::record_view! {
    OperationSet => OperationSetView<'m>, inline 56 / 8;
    /// The name, or its beginning for `SetMode.sequential`.
    name @ 0 => rt::Text<'m, 1024>,
    /// The attributes to set.
    attributes @ 8 => rt::List<'m, AttributeView<'m>, 128>,
    /// The names of attributes to remove; for `SetMode.merge`.
    remove @ 16 => rt::List<'m, rt::Text<'m, 1024>, 128>,
    /// `mode`.
    mode @ 24 => SetMode,
    /// How long the record lives.
    lifetime @ 25 => Lifetime,
    /// The precondition.
    condition @ 32 => ConditionView<'m>,
    /// Whether to return the previous record.
    want_previous @ 48 => bool,
}

rt::record_view! {
    OperationDelete => OperationDeleteView<'m>, inline 32 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// The precondition.
    condition @ 8 => ConditionView<'m>,
    /// Whether to return the deleted record.
    want_previous @ 24 => bool,
}

rt::record_view! {
    OperationWatch => OperationWatchView<'m>, inline 32 / 8;
    /// The records to watch.
    query @ 0 => QueryView<'m>,
    /// The events to report.
    events @ 24 => EventMask,
    /// Whether the watch ends after its first event.
    once @ 25 => bool,
    /// The most notices in transit; further ones are dropped and counted.
    capacity @ 28 => u32,
}

rt::record_view! {
    OperationTaken => OperationTakenView<'m>, inline 16 / 8;
    /// `watch`.
    watch @ 0 => u64,
    /// The number of notices received since the last acknowledgement.
    count @ 8 => u32,
}

rt::record_view! {
    OperationUnwatch => OperationUnwatchView<'m>, inline 8 / 8;
    /// `watch`.
    watch @ 0 => u64,
}

rt::record_view! {
    OperationPublish => OperationPublishView<'m>, inline 16 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// The attributes of the event.
    attributes @ 8 => rt::List<'m, AttributeView<'m>, 128>,
}

rt::record_view! {
    OperationLock => OperationLockView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// The longest time to wait.
    timeout @ 8 => DurationView<'m>,
}

rt::record_view! {
    OperationUnlock => OperationUnlockView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// The token from `Answer.locked`.
    token @ 8 => u64,
}

rt::record_view! {
    OperationSemaphore => OperationSemaphoreView<'m>, inline 16 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// The initial number of permits.
    permits @ 8 => u32,
}

rt::record_view! {
    OperationAcquire => OperationAcquireView<'m>, inline 24 / 8;
    /// The name of the semaphore.
    name @ 0 => rt::Text<'m, 1024>,
    /// The number of permits.
    permits @ 8 => u32,
    /// The longest time to wait.
    timeout @ 16 => DurationView<'m>,
}

rt::record_view! {
    OperationRelease => OperationReleaseView<'m>, inline 16 / 8;
    /// The permit from `Answer.acquired`.
    permit @ 0 => u64,
    /// Instead of releasing the permits, stop tracking them: the holder's end no longer returns them.
    forget @ 8 => bool,
}

rt::record_view! {
    OperationPost => OperationPostView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// The number of permits.
    permits @ 8 => u32,
}

rt::record_view! {
    OperationRemoveSemaphore => OperationRemoveSemaphoreView<'m>, inline 8 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
}

rt::record_view! {
    OperationJoin => OperationJoinView<'m>, inline 16 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// The number of parties; the same from all.
    parties @ 8 => u32,
}

rt::record_view! {
    OperationMeet => OperationMeetView<'m>, inline 16 / 8;
    /// The place from `Answer.joined`.
    place @ 0 => u64,
    /// The longest time to wait.
    timeout @ 8 => DurationView<'m>,
}

rt::record_view! {
    OperationLeave => OperationLeaveView<'m>, inline 8 / 8;
    /// The place from `Answer.joined`.
    place @ 0 => u64,
}

rt::record_view! {
    OperationCancel => OperationCancelView<'m>, inline 4 / 4;
    /// The number of the request.
    request @ 0 => u32,
}

rt::record_view! {
    OperationObjects => OperationObjectsView<'m>, inline 16 / 8;
    /// List only objects after this one; empty to list from the start.
    after @ 0 => ObjectKeyView<'m>,
}

rt::owned_record! {
    /// A lock, semaphore or barrier, as listed.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ObjectInfo => ObjectInfoView<'m>, inline 40 / 8;
    /// `lock`, `semaphore` or `barrier`.
    kind @ 0: rt::String => rt::Text<'m, 1024>,
    /// Its name.
    name @ 8: rt::String => rt::Text<'m, 1024>,
    /// The domains that hold the lock, permits or places.
    holders @ 16: rt::Vec<rt::DomainId> => rt::List<'m, rt::Domain, 7680>,
    /// The fencing token of a lock, the free permits of a semaphore, or the completed meetings of a barrier.
    count @ 24: u64 => u64,
    /// The number of requests that wait.
    waiting @ 32: u32 => u32,
}

rt::record_view! {
    AnswerFound => AnswerFoundView<'m>, inline 24 / 8;
    /// One page of records.
    records @ 0 => rt::List<'m, RecordView<'m>, 256>,
    /// Continue after this name; absent if there are no more records.
    next @ 8 => Option<rt::Text<'m, 1024>>,
}

rt::record_view! {
    AnswerThere => AnswerThereView<'m>, inline 48 / 8;
    /// The record that matches.
    record @ 0 => RecordView<'m>,
}

rt::record_view! {
    AnswerChanged => AnswerChangedView<'m>, inline 72 / 8;
    /// The record's name.
    name @ 0 => rt::Text<'m, 1024>,
    /// The new version of the record; after a deletion, of the scope.
    version @ 8 => u64,
    /// The previous record, if requested.
    previous @ 16 => Option<RecordView<'m>>,
}

rt::record_view! {
    AnswerWatching => AnswerWatchingView<'m>, inline 32 / 8;
    /// The number of the watch; never reused.
    watch @ 0 => u64,
    /// The first page of the records that match now.
    records @ 8 => rt::List<'m, RecordView<'m>, 256>,
    /// Continue after this name with `Operation.find`; absent if there are no more records.
    next @ 16 => Option<rt::Text<'m, 1024>>,
}

rt::record_view! {
    AnswerPublished => AnswerPublishedView<'m>, inline 8 / 4;
    /// The number of watches that receive the event.
    told @ 0 => u32,
    /// The number of watches that lose the event because too many of their notices are unacknowledged. A
    /// later notice reports the loss.
    refused @ 4 => u32,
}

rt::record_view! {
    AnswerLocked => AnswerLockedView<'m>, inline 8 / 8;
    /// The fencing token, larger than those of all earlier holders.
    token @ 0 => u64,
}

rt::record_view! {
    AnswerAcquired => AnswerAcquiredView<'m>, inline 8 / 8;
    /// The permit, for `Operation.release`.
    permit @ 0 => u64,
}

rt::record_view! {
    AnswerJoined => AnswerJoinedView<'m>, inline 8 / 8;
    /// The place, for `Operation.meet` and `Operation.leave`.
    place @ 0 => u64,
}

rt::record_view! {
    AnswerMet => AnswerMetView<'m>, inline 16 / 8;
    /// The number of meetings so far, including this one.
    generation @ 0 => u64,
    /// True for exactly one party of each meeting.
    leader @ 8 => bool,
}

rt::record_view! {
    AnswerObjects => AnswerObjectsView<'m>, inline 16 / 8;
    /// One page of objects.
    objects @ 0 => rt::List<'m, ObjectInfoView<'m>, 256>,
    /// Whether more objects follow.
    more @ 8 => bool,
}

rt::record_view! {
    EventSet => EventSetView<'m>, inline 48 / 8;
    /// The record after the change.
    record @ 0 => RecordView<'m>,
}

rt::record_view! {
    EventDeleted => EventDeletedView<'m>, inline 56 / 8;
    /// The last state of the record; for `DeleteCause.no_match` its current state.
    record @ 0 => RecordView<'m>,
    /// The cause.
    cause @ 48 => DeleteCause,
}

rt::record_view! {
    EventPublished => EventPublishedView<'m>, inline 24 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// The attributes of the event.
    attributes @ 8 => rt::List<'m, AttributeView<'m>, 128>,
    /// The domain that published it.
    publisher @ 16 => rt::Domain,
}

rt::record_view! {
    EventEnded => EventEndedView<'m>, inline 1 / 1;
    /// The cause.
    cause @ 0 => EndCause,
}

rt::owned_record! {
    /// A notice of a watch.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Notice => NoticeView<'m>, inline 40 / 8;
    /// `watch`.
    watch @ 0: u64 => u64,
    /// The number of notices dropped before this one because too many were in transit.
    lost @ 8: u64 => u64,
    /// Whether this is the last notice of the watch.
    last @ 16: bool => bool,
    /// The event.
    event @ 24: Event => EventView<'m>,
}

rt::owned_union! {
    /// A precondition of a change.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Condition => 'm ConditionView<'m>;
    /// None.
    1 => Always,
    /// No record has the name.
    2 => Absent,
    /// The record exists and has this version.
    3 => Version(item: u64 => u64),
    /// The lock is held with this fencing token, by any domain.
    4 => Fenced {
        record: ConditionFencedView<'m>, inline 16;
        /// The lock.
        lock @ 0: rt::String => rt::Text<'m, 1024>,
        /// The fencing token that its holder received.
        token @ 8: u64 => u64,
    },
}

rt::owned_union! {
    /// A request to a scope.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Operation => 'm OperationView<'m>;
    /// Lists the records that match, in natural order of their names.
    1 => Find {
        record: OperationFindView<'m>, inline 40;
        /// `query`.
        query @ 0: Query => QueryView<'m>,
        /// List only names after this one; empty to list from the start.
        after @ 24: rt::String => rt::Text<'m, 1024>,
        /// The most records in the answer.
        limit @ 32: u32 => u32,
    },
    /// Waits for a record that matches, and returns the first.
    2 => Await {
        record: OperationAwaitView<'m>, inline 32;
        /// `query`.
        query @ 0: Query => QueryView<'m>,
        /// The longest time to wait.
        timeout @ 24: core::time::Duration => DurationView<'m>,
    },
    /// Sets a record.
    3 => Set {
        record: OperationSetView<'m>, inline 56;
        /// The name, or its beginning for `SetMode.sequential`.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The attributes to set.
        attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
        /// The names of attributes to remove; for `SetMode.merge`.
        remove @ 16: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 1024>, 128>,
        /// `mode`.
        mode @ 24: SetMode => SetMode,
        /// How long the record lives.
        lifetime @ 25: Lifetime => Lifetime,
        /// The precondition.
        condition @ 32: Condition => ConditionView<'m>,
        /// Whether to return the previous record.
        want_previous @ 48: bool => bool,
    },
    /// Deletes a record.
    4 => Delete {
        record: OperationDeleteView<'m>, inline 32;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The precondition.
        condition @ 8: Condition => ConditionView<'m>,
        /// Whether to return the deleted record.
        want_previous @ 24: bool => bool,
    },
    /// Returns the records that match now, and reports later changes.
    5 => Watch {
        record: OperationWatchView<'m>, inline 32;
        /// The records to watch.
        query @ 0: Query => QueryView<'m>,
        /// The events to report.
        events @ 24: EventMask => EventMask,
        /// Whether the watch ends after its first event.
        once @ 25: bool => bool,
        /// The most notices in transit; further ones are dropped and counted.
        capacity @ 28: u32 => u32,
    },
    /// Acknowledges notices of a watch. Not answered.
    6 => Taken {
        record: OperationTakenView<'m>, inline 16;
        /// `watch`.
        watch @ 0: u64 => u64,
        /// The number of notices received since the last acknowledgement.
        count @ 8: u32 => u32,
    },
    /// Ends a watch, which then sends its last notice.
    7 => Unwatch {
        record: OperationUnwatchView<'m>, inline 8;
        /// `watch`.
        watch @ 0: u64 => u64,
    },
    /// Publishes an event to the watches that match it.
    8 => Publish {
        record: OperationPublishView<'m>, inline 16;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The attributes of the event.
        attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
    },
    /// Acquires a lock, in the order of the requests.
    9 => Lock {
        record: OperationLockView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The longest time to wait.
        timeout @ 8: core::time::Duration => DurationView<'m>,
    },
    /// Releases a lock.
    10 => Unlock {
        record: OperationUnlockView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The token from `Answer.locked`.
        token @ 8: u64 => u64,
    },
    /// Creates a semaphore unless the name exists.
    11 => Semaphore {
        record: OperationSemaphoreView<'m>, inline 16;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The initial number of permits.
        permits @ 8: u32 => u32,
    },
    /// Acquires permits of a semaphore, in the order of the requests.
    12 => Acquire {
        record: OperationAcquireView<'m>, inline 24;
        /// The name of the semaphore.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The number of permits.
        permits @ 8: u32 => u32,
        /// The longest time to wait.
        timeout @ 16: core::time::Duration => DurationView<'m>,
    },
    /// Releases permits.
    13 => Release {
        record: OperationReleaseView<'m>, inline 16;
        /// The permit from `Answer.acquired`.
        permit @ 0: u64 => u64,
        /// Instead of releasing the permits, stop tracking them: the holder's end no longer returns them.
        forget @ 8: bool => bool,
    },
    /// Adds permits to a semaphore.
    14 => Post {
        record: OperationPostView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The number of permits.
        permits @ 8: u32 => u32,
    },
    /// Removes a semaphore.
    15 => RemoveSemaphore {
        record: OperationRemoveSemaphoreView<'m>, inline 8;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
    },
    /// Joins a barrier, which is created by its first party.
    16 => Join {
        record: OperationJoinView<'m>, inline 16;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The number of parties; the same from all.
        parties @ 8: u32 => u32,
    },
    /// Waits until all parties of the barrier wait.
    17 => Meet {
        record: OperationMeetView<'m>, inline 16;
        /// The place from `Answer.joined`.
        place @ 0: u64 => u64,
        /// The longest time to wait.
        timeout @ 8: core::time::Duration => DurationView<'m>,
    },
    /// Leaves a barrier.
    18 => Leave {
        record: OperationLeaveView<'m>, inline 8;
        /// The place from `Answer.joined`.
        place @ 0: u64 => u64,
    },
    /// Cancels a request that waits; releases what it has acquired meanwhile. Not answered.
    19 => Cancel {
        record: OperationCancelView<'m>, inline 4;
        /// The number of the request.
        request @ 0: u32 => u32,
    },
    /// Lists locks, semaphores and barriers, ordered by kind and name.
    20 => Objects {
        record: OperationObjectsView<'m>, inline 16;
        /// List only objects after this one; empty to list from the start.
        after @ 0: (rt::String, rt::String) => ObjectKeyView<'m>,
    },
}

rt::owned_union! {
    /// The answer of a scope.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Answer => 'm AnswerView<'m>;
    /// The operation is complete and returns nothing.
    1 => Done,
    /// Answer to `Operation.find`.
    2 => Found {
        record: AnswerFoundView<'m>, inline 24;
        /// One page of records.
        records @ 0: rt::Vec<Record> => rt::List<'m, RecordView<'m>, 256>,
        /// Continue after this name; absent if there are no more records.
        next @ 8: Option<rt::String> => Option<rt::Text<'m, 1024>>,
    },
    /// Answer to `Operation.await`.
    3 => There {
        record: AnswerThereView<'m>, inline 48;
        /// The record that matches.
        record @ 0: Record => RecordView<'m>,
    },
    /// Answer to `Operation.set` and `Operation.delete`.
    4 => Changed {
        record: AnswerChangedView<'m>, inline 72;
        /// The record's name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The new version of the record; after a deletion, of the scope.
        version @ 8: u64 => u64,
        /// The previous record, if requested.
        previous @ 16: Option<Record> => Option<RecordView<'m>>,
    },
    /// Answer to `Operation.watch`.
    5 => Watching {
        record: AnswerWatchingView<'m>, inline 32;
        /// The number of the watch; never reused.
        watch @ 0: u64 => u64,
        /// The first page of the records that match now.
        records @ 8: rt::Vec<Record> => rt::List<'m, RecordView<'m>, 256>,
        /// Continue after this name with `Operation.find`; absent if there are no more records.
        next @ 16: Option<rt::String> => Option<rt::Text<'m, 1024>>,
    },
    /// Answer to `Operation.publish`.
    6 => Published {
        record: AnswerPublishedView<'m>, inline 8;
        /// The number of watches that receive the event.
        told @ 0: u32 => u32,
        /// The number of watches that lose the event because too many of their notices are unacknowledged. A
        /// later notice reports the loss.
        refused @ 4: u32 => u32,
    },
    /// Answer to `Operation.lock`.
    7 => Locked {
        record: AnswerLockedView<'m>, inline 8;
        /// The fencing token, larger than those of all earlier holders.
        token @ 0: u64 => u64,
    },
    /// Answer to `Operation.acquire`.
    8 => Acquired {
        record: AnswerAcquiredView<'m>, inline 8;
        /// The permit, for `Operation.release`.
        permit @ 0: u64 => u64,
    },
    /// Answer to `Operation.join`.
    9 => Joined {
        record: AnswerJoinedView<'m>, inline 8;
        /// The place, for `Operation.meet` and `Operation.leave`.
        place @ 0: u64 => u64,
    },
    /// Answer to `Operation.meet`.
    10 => Met {
        record: AnswerMetView<'m>, inline 16;
        /// The number of meetings so far, including this one.
        generation @ 0: u64 => u64,
        /// True for exactly one party of each meeting.
        leader @ 8: bool => bool,
    },
    /// Answer to `Operation.objects`.
    11 => Objects {
        record: AnswerObjectsView<'m>, inline 16;
        /// One page of objects.
        objects @ 0: rt::Vec<ObjectInfo> => rt::List<'m, ObjectInfoView<'m>, 256>,
        /// Whether more objects follow.
        more @ 8: bool => bool,
    },
}

rt::owned_union! {
    /// What a watch reports.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Event => 'm EventView<'m>;
    /// A record was set.
    1 => Set {
        record: EventSetView<'m>, inline 48;
        /// The record after the change.
        record @ 0: Record => RecordView<'m>,
    },
    /// A record was deleted or no longer matches.
    2 => Deleted {
        record: EventDeletedView<'m>, inline 56;
        /// The last state of the record; for `DeleteCause.no_match` its current state.
        record @ 0: Record => RecordView<'m>,
        /// The cause.
        cause @ 48: DeleteCause => DeleteCause,
    },
    /// An event was published.
    3 => Published {
        record: EventPublishedView<'m>, inline 24;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// The attributes of the event.
        attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
        /// The domain that published it.
        publisher @ 16: rt::DomainId => rt::Domain,
    },
    /// Only that notices were lost.
    4 => Lost,
    /// The watch has ended.
    5 => Ended {
        record: EventEndedView<'m>, inline 1;
        /// The cause.
        cause @ 0: EndCause => EndCause,
    },
}
