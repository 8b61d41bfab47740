//! What is asked of a scope, and what it says.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use tombolo_base::DomainId;

use crate::query::Query;
use crate::record::Record;
use crate::value::Attributes;

/// How a record is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetMode {
    /// The attributes given, and no others.
    Replace,
    /// The attributes given, beside those that it has.
    Merge,
    /// Under a fresh name: the one given with a number after it. Later numbers are larger, and none is given out
    /// twice.
    Sequential,
}

/// How long a record lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lifetime {
    /// As long as the domain that set it.
    #[default]
    Transient,
    /// As long as its scope: the machine or the node.
    Persistent,
}

/// What must be so for a change to happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Nothing.
    Always,
    /// There is no record of that name.
    Absent,
    /// There is, and it has this version.
    Version(u64),
    /// This lock is held, with this fencing token, by whomever.
    Fenced {
        /// The lock.
        lock: String,
        /// What whoever took it was given.
        token: u64,
    },
}

/// What a watch is told, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventMask(pub u8);

impl EventMask {
    /// A record that matches was set.
    pub const SET: EventMask = EventMask(1);
    /// A record that matched was deleted, or does not match any more.
    pub const DELETE: EventMask = EventMask(2);
    /// An event that matches was published.
    pub const PUBLISH: EventMask = EventMask(4);
    /// Whatever happens to records.
    pub const RECORDS: EventMask = EventMask(3);

    /// Both.
    #[must_use]
    pub fn and(self, other: EventMask) -> EventMask {
        EventMask(self.0 | other.0)
    }

    /// Whether any of `other` is among them.
    #[must_use]
    pub fn has(self, other: EventMask) -> bool {
        self.0 & other.0 != 0
    }
}

/// What is asked of a scope.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Records that match, in natural order of their names, from a name on.
    Find {
        /// What.
        query: Query,
        /// Names above this one; empty from the start.
        after: String,
        /// How many at most.
        limit: u32,
    },
    /// The first record that matches, as soon as there is one.
    Await {
        /// What.
        query: Query,
        /// How long to wait.
        timeout: Duration,
    },
    /// Sets a record.
    Set {
        /// Its name, or the start of it.
        name: String,
        /// Attributes.
        attributes: Attributes,
        /// Attributes that it shall not have any more; for [`SetMode::Merge`].
        remove: Vec<String>,
        /// How.
        mode: SetMode,
        /// How long it lives.
        lifetime: Lifetime,
        /// What must be so.
        condition: Condition,
        /// Answer with the record that was there before, too.
        want_previous: bool,
    },
    /// Deletes a record.
    Delete {
        /// Its name.
        name: String,
        /// What must be so.
        condition: Condition,
        /// Answer with the record that was there, too.
        want_previous: bool,
    },
    /// Reports changes from now on, and what matches right now.
    Watch {
        /// Of what.
        query: Query,
        /// Which changes.
        events: EventMask,
        /// End after the first.
        once: bool,
        /// How many notices may be on their way before further ones are lost, and counted.
        capacity: u32,
    },
    /// So many notices of a watch were taken. Not answered.
    Taken {
        /// Which.
        watch: u64,
        /// How many.
        count: u32,
    },
    /// Ends a watch; its last notice says so.
    Unwatch {
        /// Which.
        watch: u64,
    },
    /// Tells an event to everybody who watches for it.
    Publish {
        /// Its name.
        name: String,
        /// More about it.
        attributes: Attributes,
    },
    /// Takes a lock when it is free; first come, first served.
    Lock {
        /// Which.
        name: String,
        /// How long to wait.
        timeout: Duration,
    },
    /// Gives a lock back.
    Unlock {
        /// Which.
        name: String,
        /// What [`Answer::Locked`] said.
        token: u64,
    },
    /// Makes a semaphore if there is none of that name.
    Semaphore {
        /// Its name.
        name: String,
        /// How many permits it has at first.
        permits: u32,
    },
    /// Takes permits when there are enough; first come, first served.
    Acquire {
        /// Of which semaphore.
        name: String,
        /// How many.
        permits: u32,
        /// How long to wait.
        timeout: Duration,
    },
    /// Gives permits back.
    Release {
        /// What [`Answer::Acquired`] said.
        permit: u64,
        /// Or makes them the holder's for good, to be given back by [`Operation::Post`] if at all.
        forget: bool,
    },
    /// Adds permits to a semaphore.
    Post {
        /// Which.
        name: String,
        /// How many.
        permits: u32,
    },
    /// Removes a semaphore.
    RemoveSemaphore {
        /// Which.
        name: String,
    },
    /// Becomes a party of a barrier.
    Join {
        /// Its name.
        name: String,
        /// How many parties it has; all say the same.
        parties: u32,
    },
    /// Waits until all parties wait.
    Meet {
        /// What [`Answer::Joined`] said.
        place: u64,
        /// How long to wait.
        timeout: Duration,
    },
    /// Is no party any more.
    Leave {
        /// What [`Answer::Joined`] said.
        place: u64,
    },
    /// Takes back a request that waits. If what it waited for was given meanwhile, gives that back. Not answered.
    Cancel {
        /// Its number.
        request: u32,
    },
    /// Locks, semaphores and barriers, in order of kind and name.
    Objects {
        /// Those after this kind and name, as [`ObjectInfo`] has them; empty from the start.
        after: (String, String),
    },
}

/// What a scope answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It is done.
    Done {},
    /// To [`Operation::Find`].
    Found {
        /// A page of them.
        records: Vec<Record>,
        /// Where to go on, if there may be others: after this name.
        next: Option<String>,
    },
    /// To [`Operation::Await`].
    There {
        /// What there is.
        record: Record,
    },
    /// To [`Operation::Set`] and [`Operation::Delete`].
    Changed {
        /// The record's name.
        name: String,
        /// Its version now; of a deletion, that of the scope.
        version: u64,
        /// What was there before, if asked for.
        previous: Option<Record>,
    },
    /// To [`Operation::Watch`].
    Watching {
        /// The number of the watch, never given out twice.
        watch: u64,
        /// What matches now, up to a page.
        records: Vec<Record>,
        /// Where to go on, if there are others.
        next: Option<String>,
    },
    /// To [`Operation::Publish`].
    Published {
        /// Watches that are told.
        told: u32,
        /// Watches that are not, because they have not taken what they were told before. They hear how much they
        /// lost.
        refused: u32,
    },
    /// To [`Operation::Lock`].
    Locked {
        /// The fencing token: larger than of everybody who held it before.
        token: u64,
    },
    /// To [`Operation::Acquire`].
    Acquired {
        /// To be given to [`Operation::Release`].
        permit: u64,
    },
    /// To [`Operation::Join`].
    Joined {
        /// To be given to [`Operation::Meet`] and [`Operation::Leave`].
        place: u64,
    },
    /// To [`Operation::Meet`].
    Met {
        /// How often all have met, this time included.
        generation: u64,
        /// True for one of them.
        leader: bool,
    },
    /// To [`Operation::Objects`].
    Objects {
        /// A page of them.
        objects: Vec<ObjectInfo>,
        /// There are others.
        more: bool,
    },
}

/// A lock, semaphore or barrier, for lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectInfo {
    /// `lock`, `semaphore` or `barrier`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Who holds it, its permits, or a place.
    pub holders: Vec<DomainId>,
    /// Fencing token of a lock, free permits of a semaphore, meetings of a barrier so far.
    pub count: u64,
    /// How many wait.
    pub waiting: u32,
}

/// Why a record is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeleteCause {
    /// Somebody deleted it.
    Deleted,
    /// The domain that it went with is gone.
    OwnerGone,
    /// It is there, but does not match any more.
    NoMatch,
}

/// Why a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndCause {
    /// Its owner ended it.
    Unwatched,
    /// Matching a record took it too many steps.
    TooCostly,
    /// Its node was lost, and the names with it.
    NodeLost,
}

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A record was set.
    Set {
        /// What it is now.
        record: Record,
    },
    /// A record is gone.
    Deleted {
        /// What it was; for [`DeleteCause::NoMatch`] what it is.
        record: Record,
        /// Why.
        cause: DeleteCause,
    },
    /// An event was published.
    Published {
        /// Its name.
        name: String,
        /// More about it.
        attributes: Attributes,
        /// By whom.
        publisher: DomainId,
    },
    /// Nothing but that notices were lost.
    Lost {},
    /// The watch has ended.
    Ended {
        /// Why.
        cause: EndCause,
    },
}

/// What a watch is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// Which.
    pub watch: u64,
    /// Notices lost before this one, because too many were on their way.
    pub lost: u64,
    /// No other will come.
    pub last: bool,
    /// What happened.
    pub event: Event,
}
