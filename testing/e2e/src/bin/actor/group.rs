//! A member of a group. It prints what it received, so that the test can compare members.
//!
//! Its output, one line each: `member ID`, `left ID DIED`, and at the end for each source `took ID COUNT
//! HASH`, or `took all COUNT HASH` with a total order.

use std::collections::BTreeMap;

use rustix::process::{Signal, getpid, kill_process};
use tombolo_group::{Event, Group, GroupOptions, MemberId};

use crate::{Outcome, PATIENCE, attach};

/// Number of messages that the dying member sends first.
const LAST_WORDS: u64 = 40;

/// Returns message `number`, whose contents follow from the number. Every seventh spans several chunks.
fn message(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(7) { 3000 } else { 8 + number as usize % 90 };
    let mut message = vec![number as u8; length];
    message[..8].copy_from_slice(&number.to_le_bytes());
    message
}

struct Taken {
    count: u64,
    /// FNV-1a, as in the C and Python members.
    hash: u64,
}

impl Taken {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Receives and checks messages until all other members have sent their last.
struct Audience {
    total: bool,
    took: BTreeMap<Option<MemberId>, Taken>,
    /// Last message number of each source.
    last: BTreeMap<MemberId, u64>,
    joined: usize,
    died: usize,
}

impl Audience {
    fn take(&mut self, event: Event) -> Outcome {
        match event {
            Event::Joined(_) => self.joined += 1,
            Event::Left { member, died } => {
                println!("left {member} {died}");
                self.died += usize::from(died);
            }
            Event::Message { from, data } => {
                let number =
                    data.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or("a short message")?;
                let last = self.last.entry(from).or_default();
                if number != *last + 1 || data != message(number) {
                    return Err(format!("message {number} of {from} after {last}").into());
                }
                *last = number;
                let key = (!self.total).then_some(from);
                let taken = self.took.entry(key).or_insert(Taken { count: 0, hash: 0xcbf2_9ce4_8422_2325 });
                taken.count += 1;
                // In little-endian order on every node, so that hashes agree.
                taken.add(&from.0.to_le_bytes());
                taken.add(&data);
            }
        }
        Ok(())
    }
}

/// Joins a group of `parties`, broadcasts `count` messages and receives those of all others. One member dies;
/// a count of 0 selects this one.
pub(crate) fn run(name: &str, parties: &str, count: &str, order: &str) -> Outcome {
    let (parties, count): (usize, u64) = (parties.parse()?, count.parse()?);
    let domain = attach()?;
    // A chain: every member but the last forwards messages.
    let options = GroupOptions::default().fan_out(1)?.chunk_bytes(1024)?.buffers(1)?.window_chunks(8)?;
    let total = order == "total";
    let options = if total { options.total_order() } else { options };
    let mut group = Group::join(&domain, name, &options)?;
    println!("member {}", group.id());
    let mut audience = Audience { total, took: BTreeMap::new(), last: BTreeMap::new(), joined: 0, died: 0 };
    while audience.joined < parties {
        audience.take(group.recv()?)?;
    }
    let dies = count == 0;
    for number in 1..=if dies { LAST_WORDS } else { count } {
        group.broadcast(&message(number))?;
        while let Some(event) = group.try_recv()? {
            audience.take(event)?;
        }
    }
    if dies {
        kill_process(getpid(), Signal::KILL)?;
    }
    let own = group.id();
    let others = parties - 2;
    let heard = |audience: &Audience| {
        audience.last.iter().filter(|(from, last)| **from != own && **last == count).count() >= others
    };
    while audience.died == 0 || !heard(&audience) || total && audience.last.get(&own) != Some(&count) {
        audience.take(group.recv()?)?;
    }
    group.within(PATIENCE).flush()?;
    for (source, Taken { count, hash }) in &audience.took {
        let source = source.map_or("all".to_owned(), |source| source.to_string());
        println!("took {source} {count} {:016x}", hash);
    }
    group.leave()?;
    Ok(())
}
