//! What is asked of names, and what they say: of a node, or of the machine.
//!
//! Written by `tombolo idl compile` from interfaces/control/names.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::records::*;

rt::number! {
    /// How a record is set.
    pub enum SetMode: u8;
    /// The attributes given, and no others.
    Replace = 0,
    /// The attributes given, beside those that it has.
    Merge = 1,
    /// Under a fresh name: the one given with a number after it. Later numbers are larger, and none is given out
    /// twice.
    Sequential = 2,
}

rt::number! {
    /// How long a record lives.
    pub enum Lifetime: u8;
    /// As long as the domain that set it.
    Transient = 0,
    /// As long as its scope: the machine or the node.
    Persistent = 1,
}

rt::number! {
    /// What a watch is told, as bits.
    pub flags EventMask: u8 in 0x7;
    /// A record that matches was set.
    SET = 1,
    /// A record that matched was deleted, or does not match any more.
    DELETE = 2,
    /// An event that matches was published.
    PUBLISH = 4,
}

rt::number! {
    /// Why a record is gone.
    pub enum DeleteCause: u8;
    /// Somebody deleted it.
    Deleted = 0,
    /// The domain that it went with is gone.
    OwnerGone = 1,
    /// It is there, but does not match any more.
    NoMatch = 2,
}

rt::number! {
    /// Why a watch ended.
    pub enum EndCause: u8;
    /// Its owner ended it.
    Unwatched = 0,
    /// Matching a record took it too many steps.
    TooCostly = 1,
    /// Its node was lost, and the names with it.
    NodeLost = 2,
}

rt::record_view! {
    ConditionFenced => ConditionFencedView<'m>, inline 16 / 8;
    /// The lock.
    lock @ 0 => rt::Text<'m, 1024>,
    /// What whoever took it was given.
    token @ 8 => u64,
}

rt::owned_pair! {
    ObjectKey => ObjectKeyView<'m>, inline 16 / 8;
    /// Of which kind.
    kind @ 0: rt::String => rt::Text<'m, 1024>,
    /// What it is called.
    name @ 8: rt::String => rt::Text<'m, 1024>,
}

rt::record_view! {
    OperationFind => OperationFindView<'m>, inline 40 / 8;
    /// `query`.
    query @ 0 => QueryView<'m>,
    /// Names above this one; empty from the start.
    after @ 24 => rt::Text<'m, 1024>,
    /// How many at most.
    limit @ 32 => u32,
}

rt::record_view! {
    OperationAwait => OperationAwaitView<'m>, inline 32 / 8;
    /// `query`.
    query @ 0 => QueryView<'m>,
    /// How long to wait.
    timeout @ 24 => DurationView<'m>,
}

rt::record_view! {
    OperationSet => OperationSetView<'m>, inline 56 / 8;
    /// Its name, or the start of it.
    name @ 0 => rt::Text<'m, 1024>,
    /// Attributes.
    attributes @ 8 => rt::List<'m, AttributeView<'m>, 128>,
    /// Attributes that it shall not have any more; for `SetMode.merge`.
    remove @ 16 => rt::List<'m, rt::Text<'m, 1024>, 128>,
    /// `mode`.
    mode @ 24 => SetMode,
    /// How long it lives.
    lifetime @ 25 => Lifetime,
    /// What must be so.
    condition @ 32 => ConditionView<'m>,
    /// Answer with the record that was there before, too.
    want_previous @ 48 => bool,
}

rt::record_view! {
    OperationDelete => OperationDeleteView<'m>, inline 32 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// What must be so.
    condition @ 8 => ConditionView<'m>,
    /// Answer with the record that was there, too.
    want_previous @ 24 => bool,
}

rt::record_view! {
    OperationWatch => OperationWatchView<'m>, inline 32 / 8;
    /// Of what.
    query @ 0 => QueryView<'m>,
    /// Which changes.
    events @ 24 => EventMask,
    /// End after the first.
    once @ 25 => bool,
    /// How many notices may be on their way before further ones are lost, and counted.
    capacity @ 28 => u32,
}

rt::record_view! {
    OperationTaken => OperationTakenView<'m>, inline 16 / 8;
    /// `watch`.
    watch @ 0 => u64,
    /// How many.
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
    /// More about it.
    attributes @ 8 => rt::List<'m, AttributeView<'m>, 128>,
}

rt::record_view! {
    OperationLock => OperationLockView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// How long to wait.
    timeout @ 8 => DurationView<'m>,
}

rt::record_view! {
    OperationUnlock => OperationUnlockView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// What `Answer.locked` said.
    token @ 8 => u64,
}

rt::record_view! {
    OperationSemaphore => OperationSemaphoreView<'m>, inline 16 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// How many permits it has at first.
    permits @ 8 => u32,
}

rt::record_view! {
    OperationAcquire => OperationAcquireView<'m>, inline 24 / 8;
    /// Of which semaphore.
    name @ 0 => rt::Text<'m, 1024>,
    /// How many.
    permits @ 8 => u32,
    /// How long to wait.
    timeout @ 16 => DurationView<'m>,
}

rt::record_view! {
    OperationRelease => OperationReleaseView<'m>, inline 16 / 8;
    /// What `Answer.acquired` said.
    permit @ 0 => u64,
    /// Or makes them the holder's for good, to be given back by `Operation.post` if at all.
    forget @ 8 => bool,
}

rt::record_view! {
    OperationPost => OperationPostView<'m>, inline 16 / 8;
    /// `name`, up to 1024 bytes.
    name @ 0 => rt::Text<'m, 1024>,
    /// How many.
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
    /// How many parties it has; all say the same.
    parties @ 8 => u32,
}

rt::record_view! {
    OperationMeet => OperationMeetView<'m>, inline 16 / 8;
    /// What `Answer.joined` said.
    place @ 0 => u64,
    /// How long to wait.
    timeout @ 8 => DurationView<'m>,
}

rt::record_view! {
    OperationLeave => OperationLeaveView<'m>, inline 8 / 8;
    /// What `Answer.joined` said.
    place @ 0 => u64,
}

rt::record_view! {
    OperationCancel => OperationCancelView<'m>, inline 4 / 4;
    /// Its number.
    request @ 0 => u32,
}

rt::record_view! {
    OperationObjects => OperationObjectsView<'m>, inline 16 / 8;
    /// Those after this kind and name, as `ObjectInfo` has them; empty from the start.
    after @ 0 => ObjectKeyView<'m>,
}

rt::owned_record! {
    /// A lock, semaphore or barrier, for lists.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct ObjectInfo => ObjectInfoView<'m>, inline 40 / 8;
    /// `lock`, `semaphore` or `barrier`.
    kind @ 0: rt::String => rt::Text<'m, 1024>,
    /// Its name.
    name @ 8: rt::String => rt::Text<'m, 1024>,
    /// Who holds it, its permits, or a place.
    holders @ 16: rt::Vec<rt::DomainId> => rt::List<'m, rt::Domain, 7680>,
    /// Fencing token of a lock, free permits of a semaphore, meetings of a barrier so far.
    count @ 24: u64 => u64,
    /// How many wait.
    waiting @ 32: u32 => u32,
}

rt::record_view! {
    AnswerFound => AnswerFoundView<'m>, inline 24 / 8;
    /// A page of them.
    records @ 0 => rt::List<'m, RecordView<'m>, 256>,
    /// Where to go on, if there may be others: after this name.
    next @ 8 => Option<rt::Text<'m, 1024>>,
}

rt::record_view! {
    AnswerThere => AnswerThereView<'m>, inline 48 / 8;
    /// What there is.
    record @ 0 => RecordView<'m>,
}

rt::record_view! {
    AnswerChanged => AnswerChangedView<'m>, inline 72 / 8;
    /// The record's name.
    name @ 0 => rt::Text<'m, 1024>,
    /// Its version now; of a deletion, that of the scope.
    version @ 8 => u64,
    /// What was there before, if asked for.
    previous @ 16 => Option<RecordView<'m>>,
}

rt::record_view! {
    AnswerWatching => AnswerWatchingView<'m>, inline 32 / 8;
    /// The number of the watch, never given out twice.
    watch @ 0 => u64,
    /// What matches now, up to a page.
    records @ 8 => rt::List<'m, RecordView<'m>, 256>,
    /// Where to go on, if there are others.
    next @ 16 => Option<rt::Text<'m, 1024>>,
}

rt::record_view! {
    AnswerPublished => AnswerPublishedView<'m>, inline 8 / 4;
    /// Watches that are told.
    told @ 0 => u32,
    /// Watches that are not, because they have not taken what they were told before. They hear how much they
    /// lost.
    refused @ 4 => u32,
}

rt::record_view! {
    AnswerLocked => AnswerLockedView<'m>, inline 8 / 8;
    /// The fencing token: larger than of everybody who held it before.
    token @ 0 => u64,
}

rt::record_view! {
    AnswerAcquired => AnswerAcquiredView<'m>, inline 8 / 8;
    /// To be given to `Operation.release`.
    permit @ 0 => u64,
}

rt::record_view! {
    AnswerJoined => AnswerJoinedView<'m>, inline 8 / 8;
    /// To be given to `Operation.meet` and `Operation.leave`.
    place @ 0 => u64,
}

rt::record_view! {
    AnswerMet => AnswerMetView<'m>, inline 16 / 8;
    /// How often all have met, this time included.
    generation @ 0 => u64,
    /// True for one of them.
    leader @ 8 => bool,
}

rt::record_view! {
    AnswerObjects => AnswerObjectsView<'m>, inline 16 / 8;
    /// A page of them.
    objects @ 0 => rt::List<'m, ObjectInfoView<'m>, 256>,
    /// There are others.
    more @ 8 => bool,
}

rt::record_view! {
    EventSet => EventSetView<'m>, inline 48 / 8;
    /// What it is now.
    record @ 0 => RecordView<'m>,
}

rt::record_view! {
    EventDeleted => EventDeletedView<'m>, inline 56 / 8;
    /// What it was; for `DeleteCause.no_match` what it is.
    record @ 0 => RecordView<'m>,
    /// Why.
    cause @ 48 => DeleteCause,
}

rt::record_view! {
    EventPublished => EventPublishedView<'m>, inline 24 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 1024>,
    /// More about it.
    attributes @ 8 => rt::List<'m, AttributeView<'m>, 128>,
    /// By whom.
    publisher @ 16 => rt::Domain,
}

rt::record_view! {
    EventEnded => EventEndedView<'m>, inline 1 / 1;
    /// Why.
    cause @ 0 => EndCause,
}

rt::owned_record! {
    /// What a watch is told.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Notice => NoticeView<'m>, inline 40 / 8;
    /// `watch`.
    watch @ 0: u64 => u64,
    /// Notices lost before this one, because too many were on their way.
    lost @ 8: u64 => u64,
    /// No other will come.
    last @ 16: bool => bool,
    /// What happened.
    event @ 24: Event => EventView<'m>,
}

rt::owned_union! {
    /// What must be so for a change to happen.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Condition => 'm ConditionView<'m>;
    /// Nothing.
    1 => Always,
    /// There is no record of that name.
    2 => Absent,
    /// There is, and it has this version.
    3 => Version(item: u64 => u64),
    /// This lock is held, with this fencing token, by whomever.
    4 => Fenced {
        record: ConditionFencedView<'m>, inline 16;
        /// The lock.
        lock @ 0: rt::String => rt::Text<'m, 1024>,
        /// What whoever took it was given.
        token @ 8: u64 => u64,
    },
}

rt::owned_union! {
    /// What is asked of a scope.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Operation => 'm OperationView<'m>;
    /// Records that match, in natural order of their names, from a name on.
    1 => Find {
        record: OperationFindView<'m>, inline 40;
        /// `query`.
        query @ 0: Query => QueryView<'m>,
        /// Names above this one; empty from the start.
        after @ 24: rt::String => rt::Text<'m, 1024>,
        /// How many at most.
        limit @ 32: u32 => u32,
    },
    /// The first record that matches, as soon as there is one.
    2 => Await {
        record: OperationAwaitView<'m>, inline 32;
        /// `query`.
        query @ 0: Query => QueryView<'m>,
        /// How long to wait.
        timeout @ 24: core::time::Duration => DurationView<'m>,
    },
    /// Sets a record.
    3 => Set {
        record: OperationSetView<'m>, inline 56;
        /// Its name, or the start of it.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// Attributes.
        attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
        /// Attributes that it shall not have any more; for `SetMode.merge`.
        remove @ 16: rt::Vec<rt::String> => rt::List<'m, rt::Text<'m, 1024>, 128>,
        /// `mode`.
        mode @ 24: SetMode => SetMode,
        /// How long it lives.
        lifetime @ 25: Lifetime => Lifetime,
        /// What must be so.
        condition @ 32: Condition => ConditionView<'m>,
        /// Answer with the record that was there before, too.
        want_previous @ 48: bool => bool,
    },
    /// Deletes a record.
    4 => Delete {
        record: OperationDeleteView<'m>, inline 32;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// What must be so.
        condition @ 8: Condition => ConditionView<'m>,
        /// Answer with the record that was there, too.
        want_previous @ 24: bool => bool,
    },
    /// Reports changes from now on, and what matches right now.
    5 => Watch {
        record: OperationWatchView<'m>, inline 32;
        /// Of what.
        query @ 0: Query => QueryView<'m>,
        /// Which changes.
        events @ 24: EventMask => EventMask,
        /// End after the first.
        once @ 25: bool => bool,
        /// How many notices may be on their way before further ones are lost, and counted.
        capacity @ 28: u32 => u32,
    },
    /// So many notices of a watch were taken. Not answered.
    6 => Taken {
        record: OperationTakenView<'m>, inline 16;
        /// `watch`.
        watch @ 0: u64 => u64,
        /// How many.
        count @ 8: u32 => u32,
    },
    /// Ends a watch; its last notice says so.
    7 => Unwatch {
        record: OperationUnwatchView<'m>, inline 8;
        /// `watch`.
        watch @ 0: u64 => u64,
    },
    /// Tells an event to everybody who watches for it.
    8 => Publish {
        record: OperationPublishView<'m>, inline 16;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// More about it.
        attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
    },
    /// Takes a lock when it is free; first come, first served.
    9 => Lock {
        record: OperationLockView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// How long to wait.
        timeout @ 8: core::time::Duration => DurationView<'m>,
    },
    /// Gives a lock back.
    10 => Unlock {
        record: OperationUnlockView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// What `Answer.locked` said.
        token @ 8: u64 => u64,
    },
    /// Makes a semaphore if there is none of that name.
    11 => Semaphore {
        record: OperationSemaphoreView<'m>, inline 16;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// How many permits it has at first.
        permits @ 8: u32 => u32,
    },
    /// Takes permits when there are enough; first come, first served.
    12 => Acquire {
        record: OperationAcquireView<'m>, inline 24;
        /// Of which semaphore.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// How many.
        permits @ 8: u32 => u32,
        /// How long to wait.
        timeout @ 16: core::time::Duration => DurationView<'m>,
    },
    /// Gives permits back.
    13 => Release {
        record: OperationReleaseView<'m>, inline 16;
        /// What `Answer.acquired` said.
        permit @ 0: u64 => u64,
        /// Or makes them the holder's for good, to be given back by `Operation.post` if at all.
        forget @ 8: bool => bool,
    },
    /// Adds permits to a semaphore.
    14 => Post {
        record: OperationPostView<'m>, inline 16;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// How many.
        permits @ 8: u32 => u32,
    },
    /// Removes a semaphore.
    15 => RemoveSemaphore {
        record: OperationRemoveSemaphoreView<'m>, inline 8;
        /// `name`, up to 1024 bytes.
        name @ 0: rt::String => rt::Text<'m, 1024>,
    },
    /// Becomes a party of a barrier.
    16 => Join {
        record: OperationJoinView<'m>, inline 16;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// How many parties it has; all say the same.
        parties @ 8: u32 => u32,
    },
    /// Waits until all parties wait.
    17 => Meet {
        record: OperationMeetView<'m>, inline 16;
        /// What `Answer.joined` said.
        place @ 0: u64 => u64,
        /// How long to wait.
        timeout @ 8: core::time::Duration => DurationView<'m>,
    },
    /// Is no party any more.
    18 => Leave {
        record: OperationLeaveView<'m>, inline 8;
        /// What `Answer.joined` said.
        place @ 0: u64 => u64,
    },
    /// Takes back a request that waits. If what it waited for was given meanwhile, gives that back. Not answered.
    19 => Cancel {
        record: OperationCancelView<'m>, inline 4;
        /// Its number.
        request @ 0: u32 => u32,
    },
    /// Locks, semaphores and barriers, in order of kind and name.
    20 => Objects {
        record: OperationObjectsView<'m>, inline 16;
        /// Those after this kind and name, as `ObjectInfo` has them; empty from the start.
        after @ 0: (rt::String, rt::String) => ObjectKeyView<'m>,
    },
}

rt::owned_union! {
    /// What a scope answers.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Answer => 'm AnswerView<'m>;
    /// It is done.
    1 => Done,
    /// To `Operation.find`.
    2 => Found {
        record: AnswerFoundView<'m>, inline 24;
        /// A page of them.
        records @ 0: rt::Vec<Record> => rt::List<'m, RecordView<'m>, 256>,
        /// Where to go on, if there may be others: after this name.
        next @ 8: Option<rt::String> => Option<rt::Text<'m, 1024>>,
    },
    /// To `Operation.await`.
    3 => There {
        record: AnswerThereView<'m>, inline 48;
        /// What there is.
        record @ 0: Record => RecordView<'m>,
    },
    /// To `Operation.set` and `Operation.delete`.
    4 => Changed {
        record: AnswerChangedView<'m>, inline 72;
        /// The record's name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// Its version now; of a deletion, that of the scope.
        version @ 8: u64 => u64,
        /// What was there before, if asked for.
        previous @ 16: Option<Record> => Option<RecordView<'m>>,
    },
    /// To `Operation.watch`.
    5 => Watching {
        record: AnswerWatchingView<'m>, inline 32;
        /// The number of the watch, never given out twice.
        watch @ 0: u64 => u64,
        /// What matches now, up to a page.
        records @ 8: rt::Vec<Record> => rt::List<'m, RecordView<'m>, 256>,
        /// Where to go on, if there are others.
        next @ 16: Option<rt::String> => Option<rt::Text<'m, 1024>>,
    },
    /// To `Operation.publish`.
    6 => Published {
        record: AnswerPublishedView<'m>, inline 8;
        /// Watches that are told.
        told @ 0: u32 => u32,
        /// Watches that are not, because they have not taken what they were told before. They hear how much they
        /// lost.
        refused @ 4: u32 => u32,
    },
    /// To `Operation.lock`.
    7 => Locked {
        record: AnswerLockedView<'m>, inline 8;
        /// The fencing token: larger than of everybody who held it before.
        token @ 0: u64 => u64,
    },
    /// To `Operation.acquire`.
    8 => Acquired {
        record: AnswerAcquiredView<'m>, inline 8;
        /// To be given to `Operation.release`.
        permit @ 0: u64 => u64,
    },
    /// To `Operation.join`.
    9 => Joined {
        record: AnswerJoinedView<'m>, inline 8;
        /// To be given to `Operation.meet` and `Operation.leave`.
        place @ 0: u64 => u64,
    },
    /// To `Operation.meet`.
    10 => Met {
        record: AnswerMetView<'m>, inline 16;
        /// How often all have met, this time included.
        generation @ 0: u64 => u64,
        /// True for one of them.
        leader @ 8: bool => bool,
    },
    /// To `Operation.objects`.
    11 => Objects {
        record: AnswerObjectsView<'m>, inline 16;
        /// A page of them.
        objects @ 0: rt::Vec<ObjectInfo> => rt::List<'m, ObjectInfoView<'m>, 256>,
        /// There are others.
        more @ 8: bool => bool,
    },
}

rt::owned_union! {
    /// What happened.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum Event => 'm EventView<'m>;
    /// A record was set.
    1 => Set {
        record: EventSetView<'m>, inline 48;
        /// What it is now.
        record @ 0: Record => RecordView<'m>,
    },
    /// A record is gone.
    2 => Deleted {
        record: EventDeletedView<'m>, inline 56;
        /// What it was; for `DeleteCause.no_match` what it is.
        record @ 0: Record => RecordView<'m>,
        /// Why.
        cause @ 48: DeleteCause => DeleteCause,
    },
    /// An event was published.
    3 => Published {
        record: EventPublishedView<'m>, inline 24;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 1024>,
        /// More about it.
        attributes @ 8: rt::BTreeMap<rt::String, Value> => rt::List<'m, AttributeView<'m>, 128>,
        /// By whom.
        publisher @ 16: rt::DomainId => rt::Domain,
    },
    /// Nothing but that notices were lost.
    4 => Lost,
    /// The watch has ended.
    5 => Ended {
        record: EventEndedView<'m>, inline 1;
        /// Why.
        cause @ 0: EndCause => EndCause,
    },
}
