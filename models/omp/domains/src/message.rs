//! Messages between the hub and its workers: little-endian 64-bit words, the first of which is the message
//! type.

use crate::outbox::Message;

/// Message from a worker to the hub.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromWorker {
    /// The worker process has started.
    Hello {
        /// Number of the process, assigned by the hub.
        number: u64,
        /// Identity of its image.
        image: [u64; 4],
        /// Fingerprint of the layout of its run-time's records.
        records: u64,
    },
    /// The process has mapped all memory and waits for requests.
    Ready,
    /// A thread of the process requests the start of a worker.
    Start {
        /// Address of the worker's record.
        thread: u64,
    },
    /// A thread of the process made a request.
    Request {
        /// Address of the request's record.
        request: u64,
    },
    /// The process has replicated data, or shared it again.
    Replicated {
        /// Address of the request's record; 0 if no thread waits for it.
        request: u64,
        /// Errno value, or 0.
        error: u64,
    },
    /// The process has measured the processor times of its threads.
    Measured {
        /// Number of the hub's request.
        number: u64,
    },
    /// Wakes threads of another wake domain.
    Wake {
        /// Wake domain of the threads.
        wake_domain: u64,
        /// Addresses of their parkers, [`PARKERS_MAX`] at most.
        parkers: Vec<u64>,
    },
}

/// Message from the hub to a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FromHub {
    /// Describes the memory to map.
    Welcome {
        /// Capability to the region with all shared memory; `None` if it is sent in pages.
        capability: Option<u64>,
        /// Addresses and sizes of the mappings.
        layout: Layout,
        /// Address of the job's root.
        root: u64,
        /// Wake domain of the worker.
        wake_domain: u64,
        /// Whether the job has several wake domains.
        multi_domain: bool,
    },
    /// Starts a thread.
    Start {
        /// Address of the thread's record.
        thread: u64,
        /// Address of its stack.
        stack: u64,
        /// Length of the stack, in bytes.
        length: u64,
    },
    /// Wakes threads of the process.
    Wake {
        /// Addresses of their parkers, [`PARKERS_MAX`] at most.
        parkers: Vec<u64>,
    },
    /// Makes a call for a thread of another process.
    Call {
        /// Address of the request's record.
        request: u64,
    },
    /// Writes the processor times of the process's threads into their records.
    Measure {
        /// Number that the reply repeats.
        number: u64,
        /// Number of the process's node in the job.
        node: u64,
    },
    /// Makes pages private to the process and read-only, or shares them again.
    Replicate {
        /// Address of the request's record; 0 if no thread waits for it.
        request: u64,
        /// Address of the data.
        begin: u64,
        /// Length of the data, in bytes.
        bytes: u64,
        /// Whether to share the data again.
        restore: bool,
    },
}

/// Layout of the memory that a job's workers share: one region, first the program's variables, then the
/// arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Address of the program's variables.
    pub variables: u64,
    /// Size of the variables in bytes, whole pages.
    pub variables_bytes: u64,
    /// Address of the arena.
    pub arena: u64,
    /// Size of the arena, in bytes.
    pub arena_bytes: u64,
}

impl Layout {
    /// Returns the offset of an address in the region, or `None` if the address is not in shared memory.
    #[must_use]
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let (variable, block) = (address.wrapping_sub(self.variables), address.wrapping_sub(self.arena));
        if variable < self.variables_bytes {
            return Some(variable);
        }
        (block < self.arena_bytes).then(|| self.variables_bytes.saturating_add(block))
    }
}

const HELLO: u64 = 1;
const READY: u64 = 2;
const START: u64 = 3;
const WAKE: u64 = 4;
const WELCOME: u64 = 5;
const REQUEST: u64 = 6;
const REPLICATED: u64 = 7;
const REPLICATE: u64 = 8;
const CALL: u64 = 9;
const MEASURE: u64 = 10;
const MEASURED: u64 = 11;

/// Maximum number of threads that one message wakes.
pub const PARKERS_MAX: usize = 8;

/// Length of the longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 80;

fn encode(words: impl AsRef<[u64]>) -> Vec<u8> {
    words.as_ref().iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn decode(bytes: &[u8]) -> Option<Vec<u64>> {
    let (words, rest) = bytes.as_chunks::<8>();
    (rest.is_empty() && bytes.len() <= MESSAGE_BYTES_MAX)
        .then(|| words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

fn is_parker_count_valid(parkers: &[u64]) -> bool {
    (1..=PARKERS_MAX).contains(&parkers.len())
}

/// Merges the parkers of a later message into an earlier one. Returns `false` if they do not fit.
fn merge_parkers(parkers: &mut Vec<u64>, later: &[u64]) -> bool {
    let more: Vec<u64> = later.iter().copied().filter(|parker| !parkers.contains(parker)).collect();
    let fits = parkers.len() + more.len() <= PARKERS_MAX;
    if fits {
        parkers.extend(more);
    }
    fits
}

impl Message for FromWorker {
    fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Hello { number, image: [a, b, c, d], records } => {
                encode([HELLO, number, a, b, c, d, records])
            }
            Self::Ready => encode([READY]),
            Self::Start { thread } => encode([START, thread]),
            Self::Wake { wake_domain, ref parkers } => encode([&[WAKE, wake_domain][..], parkers].concat()),
            Self::Request { request } => encode([REQUEST, request]),
            Self::Replicated { request, error } => encode([REPLICATED, request, error]),
            Self::Measured { number } => encode([MEASURED, number]),
        }
    }

    fn try_merge(&mut self, later: &Self) -> bool {
        match (self, later) {
            (Self::Wake { wake_domain, parkers }, Self::Wake { wake_domain: same, parkers: more })
                if wake_domain == same =>
            {
                merge_parkers(parkers, more)
            }
            _ => false,
        }
    }
}

impl FromWorker {
    /// Decodes a message; `None` if the bytes are invalid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match decode(bytes)?[..] {
            [HELLO, number, a, b, c, d, records] => Self::Hello { number, image: [a, b, c, d], records },
            [READY] => Self::Ready,
            [START, thread] => Self::Start { thread },
            [WAKE, wake_domain, ref parkers @ ..] if is_parker_count_valid(parkers) => {
                Self::Wake { wake_domain, parkers: parkers.to_vec() }
            }
            [REQUEST, request] => Self::Request { request },
            [REPLICATED, request, error] => Self::Replicated { request, error },
            [MEASURED, number] => Self::Measured { number },
            _ => return None,
        })
    }
}

impl Message for FromHub {
    fn encode(&self) -> Vec<u8> {
        match *self {
            Self::Welcome { capability, layout, root, wake_domain, multi_domain } => {
                let Layout { variables, variables_bytes, arena, arena_bytes } = layout;
                let flags = u64::from(multi_domain) | u64::from(capability.is_none()) << 1;
                encode([
                    WELCOME,
                    capability.unwrap_or(0),
                    variables,
                    variables_bytes,
                    arena,
                    arena_bytes,
                    root,
                    wake_domain,
                    flags,
                ])
            }
            Self::Start { thread, stack, length } => encode([START, thread, stack, length]),
            Self::Wake { ref parkers } => encode([&[WAKE][..], parkers].concat()),
            Self::Call { request } => encode([CALL, request]),
            Self::Measure { number, node } => encode([MEASURE, number, node]),
            Self::Replicate { request, begin, bytes, restore } => {
                encode([REPLICATE, request, begin, bytes, u64::from(restore)])
            }
        }
    }

    fn try_merge(&mut self, later: &Self) -> bool {
        match (self, later) {
            (Self::Wake { parkers }, Self::Wake { parkers: more }) => merge_parkers(parkers, more),
            _ => false,
        }
    }
}

impl FromHub {
    /// Decodes a message; `None` if the bytes are invalid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match decode(bytes)?[..] {
            [
                WELCOME,
                capability,
                variables,
                variables_bytes,
                arena,
                arena_bytes,
                root,
                wake_domain,
                flags @ 0..=3,
            ] => {
                let layout = Layout { variables, variables_bytes, arena, arena_bytes };
                let multi_domain = flags & 1 != 0;
                let capability = (flags & 2 == 0).then_some(capability);
                Self::Welcome { capability, layout, root, wake_domain, multi_domain }
            }
            [START, thread, stack, length] => Self::Start { thread, stack, length },
            [WAKE, ref parkers @ ..] if is_parker_count_valid(parkers) => {
                Self::Wake { parkers: parkers.to_vec() }
            }
            [CALL, request] => Self::Call { request },
            [MEASURE, number, node] => Self::Measure { number, node },
            [REPLICATE, request, begin, bytes, restore @ 0..=1] => {
                Self::Replicate { request, begin, bytes, restore: restore == 1 }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded_as_they_were_encoded() {
        let layout =
            Layout { variables: 1 << 24, variables_bytes: 65536, arena: 1 << 37, arena_bytes: 1 << 30 };
        for message in [
            FromHub::Welcome { capability: Some(7), layout, root: 8, wake_domain: 0, multi_domain: true },
            FromHub::Welcome { capability: None, layout, root: 8, wake_domain: 1, multi_domain: true },
            FromHub::Start { thread: 1, stack: 2, length: 3 },
            FromHub::Wake { parkers: vec![u64::MAX; PARKERS_MAX] },
            FromHub::Call { request: 5 },
            FromHub::Measure { number: 6, node: 1 },
            FromHub::Replicate { request: 1, begin: 2, bytes: 3, restore: true },
            FromHub::Replicate { request: 0, begin: 2, bytes: 3, restore: false },
        ] {
            let bytes = message.encode();
            assert!(bytes.len() <= MESSAGE_BYTES_MAX);
            assert_eq!(FromHub::decode(&bytes).as_ref(), Some(&message));
        }
        for message in [
            FromWorker::Hello { number: 1, image: [2, 3, 4, 5], records: 6 },
            FromWorker::Ready,
            FromWorker::Start { thread: 9 },
            FromWorker::Wake { wake_domain: 2, parkers: vec![3] },
            FromWorker::Request { request: 4 },
            FromWorker::Replicated { request: 4, error: 12 },
            FromWorker::Measured { number: 5 },
        ] {
            assert_eq!(FromWorker::decode(&message.encode()).as_ref(), Some(&message));
        }
    }

    #[test]
    fn invalid_messages_are_refused() {
        for bytes in [&[][..], &[1; 7], &[0; 8], &[9; 16], &[4; 4096]] {
            assert_eq!((FromHub::decode(bytes), FromWorker::decode(bytes)), (None, None));
        }
        for parkers in [vec![], vec![1; PARKERS_MAX + 1]] {
            let bytes = FromHub::Wake { parkers: parkers.clone() }.encode();
            assert_eq!(FromHub::decode(&bytes), None);
            let bytes = FromWorker::Wake { wake_domain: 1, parkers }.encode();
            assert_eq!(FromWorker::decode(&bytes), None);
        }
        let mut restore = FromHub::Replicate { request: 1, begin: 2, bytes: 3, restore: true }.encode();
        restore[32] = 2;
        assert_eq!(FromHub::decode(&restore), None);
    }
}
