//! Queries of jobs, answered by their hubs.

use std::time::{Duration, Instant};

use tombolo::names::Record;
use tombolo::{ChannelOptions, Domain, DomainId};

use crate::report::{Decoder, ProcessReport};
use crate::{NAME_PREFIX, REPORT_REQUEST, hub_name};

/// Timeout of a query: the hub queries the processes of its job in turn.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of messages of a report.
const MESSAGES_MAX: usize = 65_536;

/// Error of a query for a job's report.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Error of the machine or the channel.
    #[error(transparent)]
    Tombolo(#[from] tombolo::Error),
    /// The domain is not a job with threads on several nodes.
    #[error(
        "domain {domain} is no job with threads on several nodes: those are images of `tombolo ompcc` that run with \
         OMP_TOMBOLO=hybrid or exclusive; `tombolo ps --threads` lists them"
    )]
    NoJob {
        /// Domain that was queried.
        domain: DomainId,
    },
    /// The domain is a worker of such a job.
    #[error("domain {domain} is a worker of the job {job}: ask for that")]
    Worker {
        /// Domain that was queried.
        domain: DomainId,
        /// Job that the domain is a worker of.
        job: DomainId,
    },
    /// The job's answer is not a valid report.
    #[error(
        "domain {domain} on the name {name} does not answer as a job does: it may be of another version of Tombolo"
    )]
    InvalidReply {
        /// Domain that was queried.
        domain: DomainId,
        /// Name of the domain's hub.
        name: String,
    },
}

/// Returns all jobs of the machine with their reports, sorted by domain. Skips jobs that end meanwhile.
///
/// # Errors
/// [`Error`], also if a running job does not answer.
pub fn list(domain: &Domain) -> Result<Vec<(DomainId, ProcessReport)>, Error> {
    let records = domain.names().find(&format!("r'^{NAME_PREFIX}'"))?;
    let mut jobs = Vec::new();
    for (job, record) in records.iter().filter_map(owner_of_hub) {
        match query(domain, job, &record.name) {
            Ok(report) => jobs.push((job, report)),
            Err(Error::Tombolo(error)) if has_ended(domain, &record.name, &error) => {}
            Err(error) => return Err(error),
        }
    }
    jobs.sort_by_key(|(job, _)| *job);
    Ok(jobs)
}

/// Returns the report of the job whose program is domain `job`.
///
/// # Errors
/// [`Error`].
pub fn report_of(domain: &Domain, job: DomainId) -> Result<ProcessReport, Error> {
    let name = hub_name(job);
    let records = domain.names().find(&format!("r'^{NAME_PREFIX}'"))?;
    if records.iter().filter_map(owner_of_hub).any(|(of, _)| of == job) {
        return query(domain, job, &name);
    }
    let job_name = job.to_string();
    let is_worker =
        |report: &ProcessReport| report.nodes.iter().any(|node| node.domain.as_deref() == Some(&*job_name));
    match list(domain)?.into_iter().find(|(_, report)| is_worker(report)) {
        Some((of, _)) => Err(Error::Worker { domain: job, job: of }),
        None => Err(Error::NoJob { domain: job }),
    }
}

/// Returns the owner of a record, if the record is that of the owner's hub.
fn owner_of_hub(record: &Record) -> Option<(DomainId, &Record)> {
    let owner = record.owner.filter(|owner| record.name == hub_name(*owner))?;
    record.endpoint.then_some((owner, record))
}

fn has_ended(domain: &Domain, name: &str, error: &tombolo::Error) -> bool {
    matches!(error, tombolo::Error::PeerDied { .. } | tombolo::Error::Closed { .. })
        || domain.names().find(name).is_ok_and(|found| found.is_empty())
}

fn query(domain: &Domain, job: DomainId, name: &str) -> Result<ProcessReport, Error> {
    let invalid_reply = || Error::InvalidReply { domain: job, name: name.to_owned() };
    let deadline = Instant::now() + QUERY_TIMEOUT;
    let mut channel =
        ChannelOptions::default().spin_ns(0).connect(&domain.clone().with_timeout(QUERY_TIMEOUT), name)?;
    channel.within(QUERY_TIMEOUT).send(REPORT_REQUEST)?;
    let (mut decoder, mut bytes) = (Decoder::default(), Vec::new());
    for _ in 0..MESSAGES_MAX {
        let left = deadline.saturating_duration_since(Instant::now());
        channel.within(left).recv_into(&mut bytes)?;
        if decoder.decode(&bytes).ok_or_else(invalid_reply)? {
            return decoder.finish().ok_or_else(invalid_reply);
        }
    }
    Err(invalid_reply())
}
