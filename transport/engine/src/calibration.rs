//! Measures the cost of an engine.

use std::time::Duration;

use tombolo_platform::OsError;
use tombolo_platform::time::now_ns;

use crate::contract::{Engine, RejectionReason, finish};
use crate::request::{Failure, Location, Request};
use tombolo_link::copy_cost::Curve;

/// Lengths that are measured.
const LENGTHS_BYTES: [u64; 7] = [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Maximum number of bytes copied for one point, apart from its first round.
const POINT_BYTES: u64 = 16 << 20;

/// Operation to measure an engine with.
#[derive(Clone, Debug)]
pub enum Direction {
    /// Copies from `source` to `target`, whose contents are lost.
    Copy {
        /// Memory to read.
        source: Location,
        /// Memory to write.
        target: Location,
    },
    /// Fills `target`, whose contents are lost.
    Fill {
        /// Memory to write.
        target: Location,
    },
}

impl Direction {
    /// Creates a request of `length_bytes` in this direction.
    #[must_use]
    pub fn request(&self, length_bytes: u64) -> Request {
        match self {
            Direction::Copy { source, target } => Request::copy(source.clone(), target.clone(), length_bytes),
            Direction::Fill { target } => Request::fill(target.clone(), 0, length_bytes),
        }
    }
}

/// Effort of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Length of the longest request, in bytes; both locations must have room for it. Less than 64 counts as
    /// 64.
    pub max_bytes: u64,
    /// Requests for each point. The lower quartile of the times is used, because other load makes times
    /// longer and never shorter. At least 1.
    pub rounds: u32,
    /// Time limit for one request.
    pub timeout: Duration,
}

impl Default for Effort {
    /// Returns up to 9 requests of up to 4 MiB each, with ten seconds for each.
    fn default() -> Self {
        Effort { max_bytes: 4 << 20, rounds: 9, timeout: Duration::from_secs(10) }
    }
}

/// Reason why a measurement gave no curve.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum NotMeasured {
    /// The engine accepted none of the requests.
    #[error(transparent)]
    Rejected(#[from] RejectionReason),
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A request exceeded the timeout.
    #[error("a copy of {length_bytes} bytes took more than {timeout:?}")]
    TookTooLong { length_bytes: u64, timeout: Duration },
    /// The operating system refused an operation.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Measures the time of single requests, from submission to observed completion. The engine must be idle.
///
/// # Errors
/// The first failure of a request.
pub fn measure(engine: &mut dyn Engine, direction: &Direction, effort: Effort) -> Result<Curve, NotMeasured> {
    let mut points = Vec::new();
    for length_bytes in LENGTHS_BYTES {
        if length_bytes > effort.max_bytes.max(LENGTHS_BYTES[0]) {
            break;
        }
        let rounds = u64::from(effort.rounds).clamp(1, (POINT_BYTES / length_bytes).max(1));
        let request = direction.request(length_bytes);
        // The first request pays for page faults and cache misses.
        time_ns(engine, &request, effort.timeout)?;
        let mut times_ns =
            (0..rounds).map(|_| time_ns(engine, &request, effort.timeout)).collect::<Result<Vec<_>, _>>()?;
        times_ns.sort_unstable();
        points.push((length_bytes, times_ns[times_ns.len() / 4]));
    }
    // Cannot fail: there are 1 to 7 points.
    Curve::from_points(points)
        .map_err(|error| NotMeasured::Os(OsError::new(error.to_string(), tombolo_platform::Errno::INVAL)))
}

fn time_ns(engine: &mut dyn Engine, request: &Request, timeout: Duration) -> Result<u64, NotMeasured> {
    let began_ns = now_ns();
    let id = engine.submit(request.clone()).map_err(|rejected| rejected.why)?;
    loop {
        let Some(completion) = finish(engine, timeout)? else {
            engine.cancel(id);
            return Err(NotMeasured::TookTooLong { length_bytes: request.length_bytes, timeout });
        };
        if completion.id == id {
            completion.result?;
            return Ok(now_ns() - began_ns);
        }
    }
}
