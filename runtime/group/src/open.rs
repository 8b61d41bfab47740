//! Discovery of members, and opening of their channels.
//!
//! In a group with a name, each member exports `group/NAME/member/ID`. One program joins at a time, under the
//! lock `group/NAME/join`, whose fencing token is its id: higher than that of any earlier member. It connects
//! to all existing members; members that join later connect to it.

use std::time::Duration;

use tombolo::names::NameFault;
use tombolo::{Channel, ChannelOptions, Domain, Error, Job, Listener, Opening};
use tombolo_broadcast::{Member, MemberId};

use crate::group::Group;
use crate::{GroupError, GroupOptions};

/// Kind of the requests of members: "TMBGROUP" as little-endian bytes.
const REQUEST: u64 = u64::from_le_bytes(*b"TMBGROUP");

fn member_name(group: &str, member: MemberId) -> String {
    format!("group/{group}/member/{member}")
}

impl Group {
    /// Joins a group, or founds it if the machine has no group of this name. The name consists of letters,
    /// digits and `._-/:`.
    ///
    /// Waits up to the timeout for others that are joining, and until all members have admitted this one.
    ///
    /// # Errors
    /// [`GroupError::TimedOut`] if a member did not answer, [`Error::Refused`] in [`GroupError::Domain`] if
    /// the group has other options, or errors of names and channels.
    pub fn join(domain: &Domain, name: &str, options: &GroupOptions) -> Result<Group, GroupError> {
        let timeout = options.timeout.unwrap_or(domain.timeout());
        let started = std::time::Instant::now();
        let remaining = || timeout.saturating_sub(started.elapsed());
        let names = domain.names();
        let join_lock = names.lock(&format!("group/{name}/join"))?.acquire(timeout)?;
        let own = MemberId(join_lock.fencing_token());
        let channel = options.channel()?;
        let found = names.find(&format!("group/{name}/member/*"))?;
        let listener = channel.export_for_requests(domain, &member_name(name, own), REQUEST)?;
        let mut channels = Vec::new();
        for record in found {
            let member = record.name.rsplit('/').next().and_then(|id| id.parse().ok()).map(MemberId);
            if let Some(member) = member.filter(|member| *member != own)
                && let Some(channel) = connect(&domain.within(remaining()), name, &channel, own, member)?
            {
                channels.push((member, channel));
            }
        }
        let others: Vec<MemberId> = channels.iter().map(|(member, _)| *member).collect();
        let member = if others.is_empty() {
            Member::founding(own, [own], options.config)
        } else {
            Member::joining(own, others, options.config)
        };
        let mut group = Group::new(name, member, options, timeout)?;
        for (member, channel) in channels {
            group.add(member, channel)?;
        }
        group.listen(listener)?;
        group.wait_admitted(remaining())?;
        join_lock.release()?;
        Ok(group)
    }

    /// Creates the group of all domains of a job, each of which has to call this. Members are numbered by
    /// their ranks; no other programs can join.
    ///
    /// # Errors
    /// Same as [`Job::channel_to`].
    pub fn of_job(domain: &Domain, job: &Job, options: &GroupOptions) -> Result<Group, GroupError> {
        let timeout = options.timeout.unwrap_or(domain.timeout());
        let own = MemberId(job.rank().into());
        let all = (0..job.size()).map(|rank| MemberId(rank.into()));
        let mut group = Group::new(job.id(), Member::founding(own, all, options.config), options, timeout)?;
        let channel = options.channel()?;
        let domain = domain.within(timeout);
        for rank in (0..job.size()).filter(|rank| *rank != job.rank()) {
            let name = job.name_between("group", rank).map_err(Error::from)?;
            let opened = if job.rank() < rank {
                channel.export(&domain, &name)?.within(timeout).accept()?
            } else {
                channel.connect(&domain, &name)?
            };
            group.add(MemberId(rank.into()), opened)?;
        }
        Ok(group)
    }
}

/// Opens the channel to a member; `None` if the member is gone.
fn connect(
    domain: &Domain,
    group: &str,
    channel: &ChannelOptions,
    own: MemberId,
    member: MemberId,
) -> Result<Option<Channel>, GroupError> {
    let options = channel.clone().request(REQUEST, &own.0.to_le_bytes())?;
    match options.connect(domain, member_name(group, member)) {
        Ok(channel) => Ok(Some(channel)),
        Err(error) if error.is_peer_gone() => Ok(None),
        Err(error) if matches!(error.name_fault(), Some(NameFault::NoSuchName { .. })) => Ok(None),
        Err(Error::TimedOut { timeout, .. }) => Err(GroupError::TimedOut {
            group: group.to_owned(),
            what: format!("member {member} did not answer a request to join, which it does while it calls"),
            timeout,
        }),
        Err(error) => Err(error.into()),
    }
}

/// Accepts a program that joins: its number and its channel. `None` if it is gone, or sent an invalid
/// request.
pub(crate) fn accept(listener: &Listener<Opening>) -> Option<(MemberId, Channel)> {
    let opening = listener.within(Duration::from_millis(1)).accept().ok()?;
    let Ok(id) = opening.request().try_into().map(u64::from_le_bytes) else {
        let _ = opening.refuse("a request to join a group is the number of the member, eight bytes");
        return None;
    };
    Some((MemberId(id), opening.accept().ok()?))
}
