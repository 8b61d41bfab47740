//! Channel setup and the first message on each channel, which compares the parameters of both ranks.

use std::time::Duration;

use tombolo::{Channel, ChannelOptions, Domain, Job};

use crate::error::Error;

/// Interface hash of the messages of `protocol/directory` and of this crate; changes with them.
const INTERFACE_HASH: u64 = 0x7061_6765_7300_0002;

/// Number of 128-byte slots: room for several pages with their headers.
const SLOTS: u32 = 512;

/// Parameters that must be equal at all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Setup {
    pub(crate) page_bytes: u64,
    pub(crate) pages: u64,
    pub(crate) block_pages: u64,
    pub(crate) address: u64,
    /// Consistency: 0 is sequential, 1 is release.
    pub(crate) consistency: u64,
}

impl Setup {
    fn fields(self) -> [(&'static str, u64); 5] {
        [
            ("page size", self.page_bytes),
            ("number of pages", self.pages),
            ("block size", self.block_pages),
            ("address", self.address),
            ("consistency (0 sequential, 1 release)", self.consistency),
        ]
    }

    fn to_bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        for (target, (_, value)) in bytes.chunks_exact_mut(8).zip(self.fields()) {
            target.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    fn difference(self, theirs: &[u8]) -> Option<(&'static str, u64, u64)> {
        let mut values =
            theirs.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        self.fields().into_iter().find_map(|(what, ours)| {
            let theirs = values.next().unwrap_or(0);
            (theirs != ours).then_some((what, theirs, ours))
        })
    }
}

/// Returns the options of channels between ranks.
pub(crate) fn channel_options() -> Result<ChannelOptions, tombolo::Error> {
    Ok(ChannelOptions::default().slot_bytes(128)?.slots(SLOTS)?.interface_hash(INTERFACE_HASH))
}

/// Exchanges the setup with another rank, and fails if they differ.
pub(crate) fn exchange(
    channel: &mut Channel,
    rank: u32,
    setup: Setup,
    timeout: Duration,
) -> Result<(), Error> {
    channel.send(&setup.to_bytes())?;
    compare(channel, rank, setup, timeout)
}

fn compare(channel: &mut Channel, rank: u32, setup: Setup, timeout: Duration) -> Result<(), Error> {
    let mut theirs = Vec::new();
    channel.within(timeout).recv_into(&mut theirs)?;
    match setup.difference(&theirs) {
        Some((what, theirs, ours)) => {
            let node = channel.peer_node().to_owned();
            Err(Error::Mismatch { rank, node, what, theirs, ours })
        }
        None => Ok(()),
    }
}

/// Opens the channels to all other ranks, in order; the entry of this rank is `None`.
pub(crate) fn connect(
    domain: &Domain,
    job: &Job,
    name: &str,
    setup: Setup,
) -> Result<Vec<Option<Channel>>, Error> {
    let mut channels = Vec::new();
    for rank in 0..job.size() {
        if rank == job.rank() {
            channels.push(None);
            continue;
        }
        let between = job.name_between(&format!("pages/{name}"), rank).map_err(tombolo::Error::from)?;
        let options = channel_options()?;
        let channel = if job.rank() < rank {
            options.export(domain, &between)?.within(domain.timeout()).accept()?
        } else {
            options.connect(domain, &between)?
        };
        channels.push(Some(channel));
    }
    for channel in channels.iter_mut().flatten() {
        channel.send(&setup.to_bytes())?;
    }
    let timeout: Duration = domain.timeout();
    for (rank, channel) in (0..).zip(&mut channels) {
        if let Some(channel) = channel {
            compare(channel, rank, setup, timeout)?;
        }
    }
    Ok(channels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_setup_difference_is_named() {
        let setup = Setup { page_bytes: 4096, pages: 7, block_pages: 16, address: 1 << 44, consistency: 0 };
        assert_eq!(setup.difference(&setup.to_bytes()), None);
        let theirs = Setup { pages: 8, address: 0, ..setup };
        assert_eq!(setup.difference(&theirs.to_bytes()), Some(("number of pages", 8, 7)));
        assert_eq!(setup.difference(&[]), Some(("page size", 0, 4096)));
    }
}
