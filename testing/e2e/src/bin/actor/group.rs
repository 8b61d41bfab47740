//! A member of a group. It prints what it took, so that the test can compare members.
//!
//! Its output, a line each: `member ID`, `left ID DIED`, and at the end for each source `took ID COUNT
//! HASH`, or with a total order `took all COUNT HASH`.

use std::collections::BTreeMap;

use rustix::process::{Signal, getpid, kill_process};
use tombolo_group::{Event, Group, GroupOptions, MemberId};

use crate::{Outcome, PATIENCE, attach};

/// Messages after which the member that dies does so.
const LAST_WORDS: u64 = 40;

/// A message: its number, and bytes that follow from it. Every seventh is of several chunks.
fn message(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(7) { 3000 } else { 8 + number as usize % 90 };
    let mut message = vec![number as u8; length];
    message[..8].copy_from_slice(&number.to_le_bytes());
    message
}

struct Taken {
    count: u64,
    /// FNV-1a, which members in C and Python compute, too.
    hash: u64,
}

impl Taken {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// Takes what comes, until all others have been heard to the end.
struct Audience {
    total: bool,
    took: BTreeMap<Option<MemberId>, Taken>,
    /// The last number of each source.
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
                // Byte by byte, for the nodes' byte orders differ.
                taken.add(&from.0.to_le_bytes());
                taken.add(&data);
            }
        }
        Ok(())
    }
}

/// Joins a group of `parties`, broadcasts `count` messages and takes those of all others. One of the group
/// dies; a count of 0 makes it this one.
pub(crate) fn run(name: &str, parties: &str, count: &str, order: &str) -> Outcome {
    let (parties, count): (usize, u64) = (parties.parse()?, count.parse()?);
    let domain = attach()?;
    // In a chain each member but the last is an inner one.
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
