//! The limits of a scope.

/// The limits of a scope. A request beyond one fails with [`NameFault::Limit`](crate::NameFault::Limit) and
/// its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The most records in the scope.
    pub records: usize,
    /// The most records that end with one session, exports included.
    pub records_per_session: usize,
    /// The size of all records together, in bytes.
    pub store_bytes: usize,
    /// The most attributes of one record or event.
    pub attributes: usize,
    /// The size of one record or event, in bytes.
    pub record_bytes: usize,
    /// The most constraints of one query.
    pub constraints: usize,
    /// The most watches and subscriptions in the scope.
    pub watches: usize,
    /// The most watches and subscriptions of one session.
    pub watches_per_session: usize,
    /// The most notices of one watch in transit, which bounds what a client can request.
    pub watch_capacity: u32,
    /// The size of the notices in transit to one session, in bytes.
    pub notice_bytes_per_session: usize,
    /// The most pending requests of one session.
    pub waits_per_session: usize,
    /// The most locks, semaphores and barriers in the scope.
    pub objects: usize,
    /// The most locks, permits and barrier places that one session holds.
    pub holdings_per_session: usize,
    /// The most permits of one semaphore.
    pub permits: u32,
    /// The most parties of one barrier.
    pub parties: u32,
    /// The most records in one answer.
    pub page_records: usize,
    /// The encoded size of the records in one answer, in bytes.
    pub page_bytes: usize,
    /// The most steps for matching one record.
    pub steps_per_record: u64,
    /// The most steps for one request.
    pub steps_per_request: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            records: 65_536,
            records_per_session: 4_096,
            store_bytes: 64 << 20,
            attributes: 64,
            record_bytes: 16 << 10,
            constraints: 32,
            watches: 16_384,
            watches_per_session: 1_024,
            watch_capacity: 4_096,
            notice_bytes_per_session: 8 << 20,
            waits_per_session: 1_024,
            objects: 16_384,
            holdings_per_session: 4_096,
            permits: 1 << 20,
            parties: 4_096,
            page_records: 128,
            page_bytes: 32 << 10,
            steps_per_record: 100_000,
            steps_per_request: 4_000_000,
        }
    }
}
