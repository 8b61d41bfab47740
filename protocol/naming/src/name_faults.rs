//! Why something about names could not be done.
//!
//! Written by `tombolo idl compile` from interfaces/control/name_faults.tbl.

use tombolo_interface as rt;
#[allow(unused_imports, reason = "not all of a file is used")]
use super::records::*;

rt::record_view! {
    NameFaultBadName => NameFaultBadNameView<'m>, inline 8 / 8;
    /// What was given.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBadAttribute => NameFaultBadAttributeView<'m>, inline 8 / 8;
    /// What was given.
    attribute @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBadValue => NameFaultBadValueView<'m>, inline 8 / 8;
    /// Of which attribute.
    attribute @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBadPattern => NameFaultBadPatternView<'m>, inline 24 / 8;
    /// The pattern.
    pattern @ 0 => rt::Text<'m, 61440>,
    /// Where, in bytes from its start.
    offset @ 8 => u32,
    /// What is wrong there.
    why @ 16 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultNoSuchName => NameFaultNoSuchNameView<'m>, inline 8 / 8;
    /// What was asked for.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultExists => NameFaultExistsView<'m>, inline 24 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// The domain that it goes with, if it goes with one.
    owner @ 8 => Option<rt::Domain>,
}

rt::record_view! {
    NameFaultWrongVersion => NameFaultWrongVersionView<'m>, inline 24 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// What was expected.
    expected @ 8 => u64,
    /// What it has.
    found @ 16 => u64,
}

rt::record_view! {
    NameFaultNotYours => NameFaultNotYoursView<'m>, inline 16 / 8;
    /// The name.
    name @ 0 => rt::Text<'m, 61440>,
    /// Whose it is.
    owner @ 8 => rt::Domain,
}

rt::record_view! {
    NameFaultTooCostly => NameFaultTooCostlyView<'m>, inline 8 / 8;
    /// What was asked.
    query @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultLimit => NameFaultLimitView<'m>, inline 16 / 8;
    /// What there is too much of.
    what @ 0 => rt::Text<'m, 61440>,
    /// How much there may be.
    limit @ 8 => u64,
}

rt::record_view! {
    NameFaultLocked => NameFaultLockedView<'m>, inline 16 / 8;
    /// The lock.
    name @ 0 => rt::Text<'m, 61440>,
    /// By whom.
    holder @ 8 => rt::Domain,
}

rt::record_view! {
    NameFaultNotHeld => NameFaultNotHeldView<'m>, inline 8 / 8;
    /// What it is called.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultNoPermits => NameFaultNoPermitsView<'m>, inline 8 / 8;
    /// The semaphore.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultNoSuchSemaphore => NameFaultNoSuchSemaphoreView<'m>, inline 8 / 8;
    /// What was asked for.
    name @ 0 => rt::Text<'m, 61440>,
}

rt::record_view! {
    NameFaultBarrierFull => NameFaultBarrierFullView<'m>, inline 16 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// How many that is.
    parties @ 8 => u32,
}

rt::record_view! {
    NameFaultBarrierDiffers => NameFaultBarrierDiffersView<'m>, inline 16 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// What it was set up for.
    parties @ 8 => u32,
}

rt::record_view! {
    NameFaultBarrierBroken => NameFaultBarrierBrokenView<'m>, inline 32 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// Who is gone; nobody known if that was long ago.
    by @ 8 => Option<rt::Domain>,
    /// It died, rather than left.
    died @ 24 => bool,
}

rt::record_view! {
    NameFaultBarrierTimeout => NameFaultBarrierTimeoutView<'m>, inline 16 / 8;
    /// The barrier.
    name @ 0 => rt::Text<'m, 61440>,
    /// How many are there, the caller not counted.
    arrived @ 8 => u32,
    /// How many there should be.
    parties @ 12 => u32,
}

rt::record_view! {
    NameFaultNoSuchWatch => NameFaultNoSuchWatchView<'m>, inline 8 / 8;
    /// What was given.
    watch @ 0 => u64,
}

rt::record_view! {
    NameFaultRefused => NameFaultRefusedView<'m>, inline 8 / 8;
    /// Why.
    why @ 0 => rt::Text<'m, 61440>,
}

rt::owned_union! {
    /// Why a request about names was refused. Each names what it was about and what the user can do.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub enum NameFault => 'm NameFaultView<'m>;
    /// It is no name: empty, too long, or with characters that names cannot have.
    1 => BadName {
        record: NameFaultBadNameView<'m>, inline 8;
        /// What was given.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// It is no name of an attribute.
    2 => BadAttribute {
        record: NameFaultBadAttributeView<'m>, inline 8;
        /// What was given.
        attribute @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// A value that cannot be stored: NaN.
    3 => BadValue {
        record: NameFaultBadValueView<'m>, inline 8;
        /// Of which attribute.
        attribute @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// A pattern cannot be understood.
    4 => BadPattern {
        record: NameFaultBadPatternView<'m>, inline 24;
        /// The pattern.
        pattern @ 0: rt::String => rt::Text<'m, 61440>,
        /// Where, in bytes from its start.
        offset @ 8: u32 => u32,
        /// What is wrong there.
        why @ 16: rt::String => rt::Text<'m, 61440>,
    },
    /// Nothing matches, or nothing did until the deadline.
    5 => NoSuchName {
        record: NameFaultNoSuchNameView<'m>, inline 8;
        /// What was asked for.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// It exists already.
    6 => Exists {
        record: NameFaultExistsView<'m>, inline 24;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// The domain that it goes with, if it goes with one.
        owner @ 8: Option<rt::DomainId> => Option<rt::Domain>,
    },
    /// Somebody changed it meanwhile.
    7 => WrongVersion {
        record: NameFaultWrongVersionView<'m>, inline 24;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// What was expected.
        expected @ 8: u64 => u64,
        /// What it has.
        found @ 16: u64 => u64,
    },
    /// It is an export of another domain, which alone may change it.
    8 => NotYours {
        record: NameFaultNotYoursView<'m>, inline 16;
        /// The name.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// Whose it is.
        owner @ 8: rt::DomainId => rt::Domain,
    },
    /// A pattern took more steps than a request may.
    9 => TooCostly {
        record: NameFaultTooCostlyView<'m>, inline 8;
        /// What was asked.
        query @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// A limit of the scope was met.
    10 => Limit {
        record: NameFaultLimitView<'m>, inline 16;
        /// What there is too much of.
        what @ 0: rt::String => rt::Text<'m, 61440>,
        /// How much there may be.
        limit @ 8: u64 => u64,
    },
    /// The lock is held, and was until the deadline.
    11 => Locked {
        record: NameFaultLockedView<'m>, inline 16;
        /// The lock.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// By whom.
        holder @ 8: rt::DomainId => rt::Domain,
    },
    /// The caller does not hold what it wants to give back or rely on.
    12 => NotHeld {
        record: NameFaultNotHeldView<'m>, inline 8;
        /// What it is called.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// There are not that many permits, and were not until the deadline.
    13 => NoPermits {
        record: NameFaultNoPermitsView<'m>, inline 8;
        /// The semaphore.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// There is no semaphore of that name, or it was removed meanwhile.
    14 => NoSuchSemaphore {
        record: NameFaultNoSuchSemaphoreView<'m>, inline 8;
        /// What was asked for.
        name @ 0: rt::String => rt::Text<'m, 61440>,
    },
    /// The barrier has all its parties.
    15 => BarrierFull {
        record: NameFaultBarrierFullView<'m>, inline 16;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// How many that is.
        parties @ 8: u32 => u32,
    },
    /// The barrier was set up for another number of parties.
    16 => BarrierDiffers {
        record: NameFaultBarrierDiffersView<'m>, inline 16;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// What it was set up for.
        parties @ 8: u32 => u32,
    },
    /// Somebody whom the others would wait for is gone.
    17 => BarrierBroken {
        record: NameFaultBarrierBrokenView<'m>, inline 32;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// Who is gone; nobody known if that was long ago.
        by @ 8: Option<rt::DomainId> => Option<rt::Domain>,
        /// It died, rather than left.
        died @ 24: bool => bool,
    },
    /// Not all parties came before the deadline.
    18 => BarrierTimeout {
        record: NameFaultBarrierTimeoutView<'m>, inline 16;
        /// The barrier.
        name @ 0: rt::String => rt::Text<'m, 61440>,
        /// How many are there, the caller not counted.
        arrived @ 8: u32 => u32,
        /// How many there should be.
        parties @ 12: u32 => u32,
    },
    /// There is no such watch, or it ended meanwhile.
    19 => NoSuchWatch {
        record: NameFaultNoSuchWatchView<'m>, inline 8;
        /// What was given.
        watch @ 0: u64 => u64,
    },
    /// The caller took the request back.
    20 => Cancelled,
    /// The request makes no sense where it was made.
    21 => Refused {
        record: NameFaultRefusedView<'m>, inline 8;
        /// Why.
        why @ 0: rt::String => rt::Text<'m, 61440>,
    },
}
