//! Faults of operations on names.
//!
//! Written by `tombolo idl compile` from interfaces/control/name_faults.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not every item of the file is used")]
use super::records::*;

rt::record_view! {
    NameFaultBadName => NameFaultBadNameView<'m>, inline 8 / 8;
    /// The text that was given.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBadAttribute => NameFaultBadAttributeView<'m>, inline 8 / 8;
    /// The text that was given.
    attribute @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBadValue => NameFaultBadValueView<'m>, inline 8 / 8;
    /// The attribute.
    attribute @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBadPattern => NameFaultBadPatternView<'m>, inline 24 / 8;
    /// The pattern.
    pattern @ 0 => rt::Text<'m, 61440>,
    /// The position of the error, in bytes from the start of the pattern.
    offset @ 8 => u32,
    /// The error.
    why @ 16 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultNoSuchName => NameFaultNoSuchNameView<'m>, inline 8 / 8;
    /// The name or query.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultExists => NameFaultExistsView<'m>, inline 24 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// The domain whose end deletes the record, if any.
    owner @ 8 => Option<rt::Domain>,
}

rt::record_view! {
    NameFaultWrongVersion => NameFaultWrongVersionView<'m>, inline 24 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// The version that the request expected.
    expected @ 8 => u64,
    /// The current version.
    found @ 16 => u64,
}

rt::record_view! {
    NameFaultNotYours => NameFaultNotYoursView<'m>, inline 16 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// The domain that exports it.
    owner @ 8 => rt::Domain,
}

rt::record_view! {
    NameFaultTooCostly => NameFaultTooCostlyView<'m>, inline 8 / 8;
    /// The query.
    query @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultLimit => NameFaultLimitView<'m>, inline 16 / 8;
    /// What is limited.
    what @ 0 => rt::Text<'m, 61440>,
    /// The limit.
    limit @ 8 => u64,
}

rt::record_view! {
    NameFaultLocked => NameFaultLockedView<'m>, inline 16 / 8;
    /// The lock.
    name @ 0 => rt::Text<'m, 61440>,
    /// The domain that holds it.
    holder @ 8 => rt::Domain,
}

rt::record_view! {
    NameFaultNotHeld => NameFaultNotHeldView<'m>, inline 8 / 8;
    /// Its name.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultNoPermits => NameFaultNoPermitsView<'m>, inline 8 / 8;
    /// The semaphore.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultNoSuchSemaphore => NameFaultNoSuchSemaphoreView<'m>, inline 8 / 8;
    /// The name or query.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBarrierFull => NameFaultBarrierFullView<'m>, inline 16 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// The number of places.
    parties @ 8 => u32,
}

rt::record_view! {
    NameFaultBarrierDiffers => NameFaultBarrierDiffersView<'m>, inline 16 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// The number that it was created for.
    parties @ 8 => u32,
}

rt::record_view! {
    NameFaultBarrierBroken => NameFaultBarrierBrokenView<'m>, inline 32 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// The party that is gone; absent if it is no longer remembered.
    by @ 8 => Option<rt::Domain>,
    /// Whether it died, rather than left.
    died @ 24 => bool,
}

rt::record_view! {
    NameFaultBarrierTimeout => NameFaultBarrierTimeoutView<'m>, inline 16 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// The number of parties that had arrived, without the caller.
    arrived @ 8 => u32,
    /// The number of parties of the barrier.
    parties @ 12 => u32,
}

rt::record_view! {
    NameFaultNoSuchWatch => NameFaultNoSuchWatchView<'m>, inline 8 / 8;
    /// The number that was given.
    watch @ 0 => u64,
}

rt::record_view! {
    NameFaultRefused => NameFaultRefusedView<'m>, inline 8 / 8;
    /// The reason.
    why @ 0 => rt::Text<'m, 61440>,
}

rt::owned_union! {
    /// Why a request about names was refused.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum NameFault => 'm NameFaultView<'m>;
    /// The name is invalid: empty, too long, or with forbidden characters.
    1 => BadName {
        record: NameFaultBadNameView<'m>, inline 8;
        /// The text that was given.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The name of an attribute is invalid.
    2 => BadAttribute {
        record: NameFaultBadAttributeView<'m>, inline 8;
        /// The text that was given.
        attribute @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The value cannot be stored: it is NaN.
    3 => BadValue {
        record: NameFaultBadValueView<'m>, inline 8;
        /// The attribute.
        attribute @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The pattern has a syntax error.
    4 => BadPattern {
        record: NameFaultBadPatternView<'m>, inline 24;
        /// The pattern.
        pattern @ 0: rt::String => rt::Text<'m, 61440>,
        /// The position of the error, in bytes from the start of the pattern.
        offset @ 8: u32 => u32,
        /// The error.
        why @ 16: rt::String => rt::Text<'m, 61440>,
    },
    /// No record matches, or none did before the deadline.
    5 => NoSuchName {
        record: NameFaultNoSuchNameView<'m>, inline 8;
        /// The name or query.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The name exists already.
    6 => Exists {
        record: NameFaultExistsView<'m>, inline 24;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The domain whose end deletes the record, if any.
        owner @ 8: Option<rt::DomainId> => Option<rt::Domain>,
    },
    /// The record was changed meanwhile.
    7 => WrongVersion {
        record: NameFaultWrongVersionView<'m>, inline 24;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The version that the request expected.
        expected @ 8: u64 => u64,
        /// The current version.
        found @ 16: u64 => u64,
    },
    /// The record is an export of another domain, and only that domain may change it.
    8 => NotYours {
        record: NameFaultNotYoursView<'m>, inline 16;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The domain that exports it.
        owner @ 8: rt::DomainId => rt::Domain,
    },
    /// Matching took more steps than a request is allowed.
    9 => TooCostly {
        record: NameFaultTooCostlyView<'m>, inline 8;
        /// The query.
        query @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// A limit of the scope was reached.
    10 => Limit {
        record: NameFaultLimitView<'m>, inline 16;
        /// What is limited.
        what @ 0: rt::String => rt::Text<'m, 61440>,
        /// The limit.
        limit @ 8: u64 => u64,
    },
    /// The lock is held, and was not released before the deadline.
    11 => Locked {
        record: NameFaultLockedView<'m>, inline 16;
        /// The lock.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The domain that holds it.
        holder @ 8: rt::DomainId => rt::Domain,
    },
    /// The caller does not hold the lock, permit or place that the request names.
    12 => NotHeld {
        record: NameFaultNotHeldView<'m>, inline 8;
        /// Its name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The semaphore has too few free permits, and had until the deadline.
    13 => NoPermits {
        record: NameFaultNoPermitsView<'m>, inline 8;
        /// The semaphore.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The semaphore does not exist, or was removed meanwhile.
    14 => NoSuchSemaphore {
        record: NameFaultNoSuchSemaphoreView<'m>, inline 8;
        /// The name or query.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// All places of the barrier are taken.
    15 => BarrierFull {
        record: NameFaultBarrierFullView<'m>, inline 16;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The number of places.
        parties @ 8: u32 => u32,
    },
    /// The barrier was created for another number of parties.
    16 => BarrierDiffers {
        record: NameFaultBarrierDiffersView<'m>, inline 16;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The number that it was created for.
        parties @ 8: u32 => u32,
    },
    /// A party of the barrier left or died, so the others would wait for ever.
    17 => BarrierBroken {
        record: NameFaultBarrierBrokenView<'m>, inline 32;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The party that is gone; absent if it is no longer remembered.
        by @ 8: Option<rt::DomainId> => Option<rt::Domain>,
        /// Whether it died, rather than left.
        died @ 24: bool => bool,
    },
    /// Not all parties arrived before the deadline.
    18 => BarrierTimeout {
        record: NameFaultBarrierTimeoutView<'m>, inline 16;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The number of parties that had arrived, without the caller.
        arrived @ 8: u32 => u32,
        /// The number of parties of the barrier.
        parties @ 12: u32 => u32,
    },
    /// The watch does not exist, or ended meanwhile.
    19 => NoSuchWatch {
        record: NameFaultNoSuchWatchView<'m>, inline 8;
        /// The number that was given.
        watch @ 0: u64 => u64,
    },
    /// The caller cancelled the request.
    20 => Cancelled,
    /// The request is not valid in this state.
    21 => Refused {
        record: NameFaultRefusedView<'m>, inline 8;
        /// The reason.
        why @ 0: rt::String => rt::Text<'m, 61440>,
    },
}
