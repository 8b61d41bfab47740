//! Limits of a scope.

/// Limits of a scope. A request that exceeds one fails with [`NameFault::Limit`](crate::NameFault::Limit),
/// which holds its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of records in the scope.
    pub records: usize,
    /// Maximum number of records that end with one session, including exports.
    pub records_per_session: usize,
    /// Maximum total size of all records, in bytes.
    pub store_bytes: usize,
    /// Maximum number of attributes of one record or event.
    pub attributes: usize,
    /// Maximum size of one record or event, in bytes.
    pub record_bytes: usize,
    /// Maximum number of constraints of one query.
    pub constraints: usize,
    /// Maximum number of watches and subscriptions in the scope.
    pub watches: usize,
    /// Maximum number of watches and subscriptions of one session.
    pub watches_per_session: usize,
    /// Maximum number of notices of one watch in transit, which caps the capacity that a client requests.
    pub watch_capacity: u32,
    /// Maximum size of the notices in transit to one session, in bytes.
    pub notice_bytes_per_session: usize,
    /// Maximum number of pending requests of one session.
    pub waits_per_session: usize,
    /// Maximum number of locks, semaphores and barriers in the scope.
    pub objects: usize,
    /// Maximum number of locks, permits and barrier places that one session holds.
    pub holdings_per_session: usize,
    /// Maximum number of permits of one semaphore.
    pub permits: u32,
    /// Maximum number of parties of one barrier.
    pub parties: u32,
    /// Maximum number of records in one answer.
    pub page_records: usize,
    /// Maximum encoded size of the records in one answer, in bytes.
    pub page_bytes: usize,
    /// Maximum number of steps for matching one record.
    pub steps_per_record: u64,
    /// Maximum number of steps for one request.
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
