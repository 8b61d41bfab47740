//! Measuring what an engine costs.

use std::time::Duration;

use tombolo_platform::OsError;
use tombolo_platform::time::now_ns;

use crate::contract::{Engine, WhyRejected, finish};
use crate::curve::Curve;
use crate::request::{Failure, Location, Request};

/// Lengths that are measured.
const LENGTHS_BYTES: [u64; 7] = [64, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20];

/// Bytes that are copied for one point at most, but for one round.
const POINT_BYTES: u64 = 16 << 20;

/// What to measure an engine with.
#[derive(Clone, Debug)]
pub enum Direction {
    /// Copies from one place to another, whose contents are lost.
    Copy {
        /// From where.
        source: Location,
        /// To where.
        target: Location,
    },
    /// Fills a place, whose contents are lost.
    Fill {
        /// Where.
        target: Location,
    },
}

impl Direction {
    /// A request of that direction.
    #[must_use]
    pub fn request(&self, length_bytes: u64) -> Request {
        match self {
            Direction::Copy { source, target } => Request::copy(source.clone(), target.clone(), length_bytes),
            Direction::Fill { target } => Request::fill(target.clone(), 0, length_bytes),
        }
    }
}

/// How hard to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The longest request, in bytes: what the places have room for. Shorter than 64 is 64.
    pub max_bytes: u64,
    /// Requests for each point. The time counts that a quarter of them did not exceed: what else runs makes times longer, and
    /// never shorter. At least 1.
    pub rounds: u32,
    /// How long one request may take.
    pub timeout: Duration,
}

impl Default for Effort {
    /// Up to 9 requests of up to 4 MiB each, of at most ten seconds.
    fn default() -> Self {
        Effort { max_bytes: 4 << 20, rounds: 9, timeout: Duration::from_secs(10) }
    }
}

/// Why there is no curve.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotMeasured {
    /// The engine took none of it.
    #[error(transparent)]
    Rejected(#[from] WhyRejected),
    /// A request failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A request took too long.
    #[error("a copy of {length_bytes} bytes took more than {timeout:?}")]
    TookTooLong {
        /// Its length.
        length_bytes: u64,
        /// How long was waited.
        timeout: Duration,
    },
    /// The operating system.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// Measures what requests take one by one, from asking to knowing that they are done. The engine has to be idle.
///
/// # Errors
/// What became of the first that was not done.
pub fn measure(engine: &mut dyn Engine, direction: &Direction, effort: Effort) -> Result<Curve, NotMeasured> {
    let mut points = Vec::new();
    for length_bytes in LENGTHS_BYTES {
        if length_bytes > effort.max_bytes.max(LENGTHS_BYTES[0]) {
            break;
        }
        let rounds = u64::from(effort.rounds).clamp(1, (POINT_BYTES / length_bytes).max(1));
        let request = direction.request(length_bytes);
        // The first pays for pages and caches that later ones find.
        time_ns(engine, &request, effort.timeout)?;
        let mut times_ns =
            (0..rounds).map(|_| time_ns(engine, &request, effort.timeout)).collect::<Result<Vec<_>, _>>()?;
        times_ns.sort_unstable();
        points.push((length_bytes, times_ns[times_ns.len() / 4]));
    }
    // From 1 to as many points as there are lengths.
    Curve::through(points)
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
