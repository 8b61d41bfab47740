//! What a scope takes in.

/// The limits of a scope. Whoever meets one gets [`NameFault::Limit`](crate::NameFault::Limit) with its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Records in the scope.
    pub records: usize,
    /// Records that go with one session, exports included.
    pub records_per_session: usize,
    /// Room that all records take, in bytes.
    pub store_bytes: usize,
    /// Attributes of one record or event.
    pub attributes: usize,
    /// Room that one record or event takes, in bytes.
    pub record_bytes: usize,
    /// Constraints of one query.
    pub constraints: usize,
    /// Watches and subscriptions in the scope.
    pub watches: usize,
    /// Watches and subscriptions of one session.
    pub watches_per_session: usize,
    /// Notices of one watch that may be on their way, the most a client can ask for.
    pub watch_capacity: u32,
    /// Room that the notices on their way to one session take, in bytes.
    pub notice_bytes_per_session: usize,
    /// Requests of one session that wait for something.
    pub waits_per_session: usize,
    /// Locks, semaphores and barriers in the scope.
    pub objects: usize,
    /// Locks, permits and barrier places that one session holds.
    pub holdings_per_session: usize,
    /// Permits of one semaphore.
    pub permits: u32,
    /// Parties of one barrier.
    pub parties: u32,
    /// Records in one answer.
    pub page_records: usize,
    /// Room that the records of one answer take as they are sent, in bytes.
    pub page_bytes: usize,
    /// Steps that matching one record may take.
    pub steps_per_record: u64,
    /// Steps that one request may take.
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
