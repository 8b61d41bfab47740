//! Common interface of the notification mechanisms and of polling every channel.

use serde::{Deserialize, Serialize};
use tombolo_base::{CacheMaintenance, LINE_BYTES, OutOfRange, SharedMemory};
use tombolo_link::end::EndError;
use tombolo_link::shared_doorbell::GROUP_CHANNELS;
use tombolo_notification::{payload, ring, tree};
use tombolo_onesided::{FlagReader, FlagWriter};

/// Buffer size of a ring and of a FIFO in bytes, as on the SCC.
const BUFFER_BYTES: usize = 8 << 10;

/// Payload of a message carried in the buffer, equal to that of a Barrelfish message.
pub(super) const MESSAGE_BYTES: usize = 32;

/// Mechanism by which a receiver learns which channel has an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Form {
    /// A flag per channel, all of which the receiver polls.
    Poll,
    /// A tree of counters: a flag per channel and one per group of channels, like channels that share a
    /// doorbell of a window.
    Counts,
    /// A ring of channel ids.
    Ring,
    /// A tree of bits.
    Tree,
    /// The messages themselves, in a FIFO.
    Payload,
}

impl Form {
    /// All forms, polling first.
    pub const ALL: [Form; 5] = [Form::Poll, Form::Counts, Form::Ring, Form::Tree, Form::Payload];

    pub(super) fn name(self) -> &'static str {
        ["polling", "counts", "ring", "tree", "payload"][self as usize]
    }

    /// Returns the bytes of memory per sender.
    pub(super) fn bytes(self, channels: usize) -> usize {
        match self {
            Form::Poll => channels * LINE_BYTES,
            Form::Counts => (channels + groups(channels)) * LINE_BYTES,
            Form::Ring => ring_layout().map_or(0, ring::Layout::total_bytes),
            Form::Tree => tree::TOTAL_BYTES,
            Form::Payload => fifo_layout().map_or(0, payload::Layout::total_bytes),
        }
    }
}

/// Returns the number of groups of channels. Each has a line after the lines of the channels.
fn groups(channels: usize) -> usize {
    channels.div_ceil(GROUP_CHANNELS)
}

/// Applies `flag` to each of `count` lines, starting at line `first`.
fn flags<T>(
    first: usize,
    count: usize,
    flag: impl Fn(usize) -> Result<T, OutOfRange>,
) -> Result<Vec<T>, OutOfRange> {
    (first..first + count).map(|line| flag(line * LINE_BYTES)).collect()
}

fn ring_layout() -> Option<ring::Layout> {
    ring::Layout::new(BUFFER_BYTES / 8)
}

fn fifo_layout() -> Option<payload::Layout> {
    payload::Layout::new(BUFFER_BYTES)
}

/// Error of a form that cannot be created or used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The memory is too short.
    #[error(transparent)]
    Memory(#[from] OutOfRange),
    /// The channel of a round trip failed.
    #[error("the channel of a round trip failed: {0}")]
    End(#[from] EndError),
    /// No layout exists for the number of channels.
    #[error("no layout for the buffer")]
    Layout,
    /// The other side wrote an invalid value.
    #[error(transparent)]
    Broken(#[from] tombolo_notification::Broken),
}

/// Notifying side of a form.
pub(super) enum Notifier<C: CacheMaintenance> {
    Poll(Vec<FlagWriter<C>>),
    Counts { channels: Vec<FlagWriter<C>>, groups: Vec<FlagWriter<C>> },
    Ring(ring::Sender<C>),
    Tree(tree::Sender<C>),
    Payload(payload::Sender<C>),
}

/// Result of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Notified {
    New,
    /// The channel was pending already.
    Merged,
    Refused,
}

impl<C: CacheMaintenance> Notifier<C> {
    pub(super) fn new(form: Form, channels: usize, memory: &SharedMemory<C>) -> Result<Self, Error> {
        let flag = |offset_bytes| FlagWriter::new(memory, offset_bytes);
        Ok(match form {
            Form::Poll => Notifier::Poll(flags(0, channels, flag)?),
            Form::Counts => Notifier::Counts {
                channels: flags(0, channels, flag)?,
                groups: flags(channels, groups(channels), flag)?,
            },
            Form::Ring => Notifier::Ring(ring::Sender::new(memory, ring_layout().ok_or(Error::Layout)?)?),
            Form::Tree => Notifier::Tree(tree::Sender::new(memory)?),
            Form::Payload => {
                Notifier::Payload(payload::Sender::new(memory, fifo_layout().ok_or(Error::Layout)?)?)
            }
        })
    }

    pub(super) fn notify(&mut self, channel: u16) -> Notified {
        let ok = |is_ok| if is_ok { Notified::New } else { Notified::Refused };
        match self {
            Notifier::Poll(flags) => {
                flags[usize::from(channel)].raise();
                Notified::New
            }
            Notifier::Counts { channels, groups } => {
                channels[usize::from(channel)].raise();
                groups[usize::from(channel) / GROUP_CHANNELS].raise();
                Notified::New
            }
            Notifier::Ring(sender) => ok(sender.try_notify(channel).is_ok()),
            Notifier::Tree(sender) => match sender.notify(channel) {
                true => Notified::New,
                false => Notified::Merged,
            },
            Notifier::Payload(sender) => ok(sender.try_send(channel.into(), &[1; MESSAGE_BYTES]).is_ok()),
        }
    }
}

/// Notified side of a form.
pub(super) enum Notifiee<C: CacheMaintenance> {
    Poll(Vec<FlagReader<C>>),
    Counts { channels: Vec<FlagReader<C>>, groups: Vec<FlagReader<C>> },
    Ring(ring::Receiver<C>),
    Tree(tree::Receiver<C>),
    Payload(payload::Receiver<C>, Vec<u8>),
}

impl<C: CacheMaintenance> Notifiee<C> {
    pub(super) fn new(form: Form, channels: usize, memory: &SharedMemory<C>) -> Result<Self, Error> {
        let flag = |offset_bytes| FlagReader::new(memory, offset_bytes);
        Ok(match form {
            Form::Poll => Notifiee::Poll(flags(0, channels, flag)?),
            Form::Counts => Notifiee::Counts {
                channels: flags(0, channels, flag)?,
                groups: flags(channels, groups(channels), flag)?,
            },
            Form::Ring => Notifiee::Ring(ring::Receiver::new(memory, ring_layout().ok_or(Error::Layout)?)?),
            Form::Tree => Notifiee::Tree(tree::Receiver::new(memory)?),
            Form::Payload => {
                let layout = fifo_layout().ok_or(Error::Layout)?;
                Notifiee::Payload(payload::Receiver::new(memory, layout)?, Vec::new())
            }
        })
    }

    /// Visits all pending channels and returns their number.
    pub(super) fn take(&mut self, mut visit: impl FnMut(u16)) -> Result<usize, Error> {
        let mut count = 0;
        match self {
            Notifiee::Poll(channels) => count = take_flags(0, channels, &mut visit),
            Notifiee::Counts { channels, groups } => {
                let members = channels.chunks_mut(GROUP_CHANNELS);
                for ((group, first), members) in
                    groups.iter_mut().zip((0..).step_by(GROUP_CHANNELS)).zip(members)
                {
                    if group.take() {
                        count += take_flags(first, members, &mut visit);
                    }
                }
            }
            Notifiee::Ring(receiver) => {
                while let Some(channel) = receiver.take()? {
                    visit(channel);
                    count += 1;
                }
            }
            Notifiee::Tree(receiver) => count = receiver.take(visit),
            Notifiee::Payload(receiver, bytes) => {
                while let Some(message) = receiver.try_receive(bytes)? {
                    visit(message.tag as u16);
                    count += 1;
                }
                receiver.release();
            }
        }
        Ok(count)
    }
}

/// Visits the channels from `first` on whose flags were raised, and returns their number.
fn take_flags<C: CacheMaintenance>(
    first: u16,
    flags: &mut [FlagReader<C>],
    mut visit: impl FnMut(u16),
) -> usize {
    let raised = (first..).zip(flags).filter_map(|(channel, flag)| flag.take().then_some(channel));
    raised.map(&mut visit).count()
}
