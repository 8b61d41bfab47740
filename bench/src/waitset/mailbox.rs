//! Designs of a waitset, over channels that are only a word each: they differ in how the waiting side learns
//! which channels to check.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

use tombolo_platform::epoll::{Epoll, Events, Trigger};
use tombolo_platform::event::{self, Interest};
use tombolo_platform::memory::{create_sealed, map};
use tombolo_platform::{Deadline, OsError};

use super::{Design, Error, STALL_TIMEOUT};

/// Number of 64-bit words per cache line.
const LINE: usize = 8;
/// Index of the word in which the waiting side announces that it sleeps.
const ASLEEP: usize = 0;
/// Index of the word in which it answers.
const ANSWER: usize = LINE;
/// Index of the bitmap's upper level: a bit for each word of the lower level.
const ROOT: usize = 2 * LINE;
const ROOT_WORDS: usize = 64;
const LEAVES: usize = ROOT + ROOT_WORDS;

/// Maximum number of channels, for which the bitmap has bits.
pub(super) const MAX_CHANNELS: usize = ROOT_WORDS * 64 * 64;

/// Layout of the memory, as word indices.
#[derive(Clone, Copy, Debug)]
struct Places {
    count: usize,
    ids: usize,
    ids_mask: u64,
    channels: usize,
    words: usize,
}

impl Places {
    fn of(count: usize) -> Places {
        let leaves = count.div_ceil(64).next_multiple_of(LINE);
        let ids_count = count.next_power_of_two().max(LINE);
        let ids = LEAVES + leaves;
        let channels = ids + ids_count;
        Places { count, ids, ids_mask: ids_count as u64 - 1, channels, words: channels + 2 * LINE * count }
    }

    fn length_bytes(self) -> usize {
        (self.words * 8).next_multiple_of(4096)
    }

    /// Returns the index of the words written by the sending side: the number of messages, and the time of
    /// the last one.
    fn sent(self, channel: usize) -> usize {
        self.channels + 2 * LINE * channel
    }

    /// Returns the index of the words written by the waiting side: the number of messages taken, and whether
    /// it sleeps on this channel.
    fn taken(self, channel: usize) -> usize {
        self.sent(channel) + LINE
    }
}

/// Memory of one measurement.
struct Memory {
    memory: tombolo_base::SharedMemory,
    places: Places,
}

impl Memory {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.memory.words()[index]
    }
}

/// Sending side, which always uses the same channel, the middle one.
pub(super) struct Sender {
    memory: Memory,
    design: Design,
    channel: usize,
    sent: u64,
    ids_written: u64,
    rung: u64,
    bell: OwnedFd,
}

impl Sender {
    pub(super) fn new(
        design: Design,
        count: usize,
        file: &OwnedFd,
        bell: OwnedFd,
    ) -> Result<Sender, OsError> {
        let places = Places::of(count);
        let memory = Memory { memory: map(file, 0, places.length_bytes())?, places };
        Ok(Sender { memory, design, channel: count / 2, sent: 0, ids_written: 0, rung: 0, bell })
    }

    pub(super) fn send(&mut self, stamp_ns: u64) -> Result<(), Error> {
        let (memory, places) = (&self.memory, self.memory.places);
        self.sent += 1;
        memory.word(places.sent(self.channel) + 1).store(stamp_ns, Relaxed);
        memory.word(places.sent(self.channel)).store(self.sent, Release);
        match self.design {
            Design::Bitmap => {
                let (word, bit) = (self.channel / 64, self.channel % 64);
                // A channel whose bit is already set has been announced.
                if memory.word(LEAVES + word).fetch_or(1 << bit, AcqRel) & 1 << bit == 0 {
                    memory.word(ROOT + word / 64).fetch_or(1 << (word % 64), AcqRel);
                }
            }
            Design::Ids => {
                fence(SeqCst);
                // Announces only a channel that was empty: the other side knows the rest.
                if memory.word(places.taken(self.channel)).load(Relaxed) == self.sent - 1 {
                    let place = places.ids + (self.ids_written & places.ids_mask) as usize;
                    self.ids_written += 1;
                    memory.word(place).store(self.ids_written << 32 | self.channel as u64, Release);
                }
            }
            Design::Scan | Design::Armed | Design::Channels => {}
        }
        fence(SeqCst);
        let asleep = if self.design == Design::Armed { places.taken(self.channel) + 1 } else { ASLEEP };
        let asleep = memory.word(asleep).load(Relaxed);
        if asleep % 2 == 1 && asleep != self.rung {
            self.rung = asleep;
            event::signal(&self.bell)?;
        }
        Ok(())
    }

    pub(super) fn await_answer(&mut self) -> Result<(), Error> {
        spin_until(|| self.memory.word(ANSWER).load(Acquire) == self.sent)
    }
}

fn spin_until(mut done: impl FnMut() -> bool) -> Result<(), Error> {
    let deadline = Deadline::after(STALL_TIMEOUT);
    loop {
        for _ in 0..1 << 12 {
            if done() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        if deadline.passed() {
            return Err(Error::Stalled { waited: STALL_TIMEOUT });
        }
    }
}

/// Waiting side of a design.
pub(super) struct Receiver {
    memory: Memory,
    design: Design,
    seen: Vec<u64>,
    ids_read: u64,
    sleeps: u64,
    answers: u64,
    /// Doorbells: one per channel in an `epoll` with [`Design::Armed`], otherwise one for all channels.
    bells: Vec<OwnedFd>,
    epoll: Epoll,
    /// Channels to check, with [`Design::Armed`].
    hot: Vec<usize>,
}

impl Receiver {
    /// Creates the waiting side, and the descriptors for the other side.
    pub(super) fn new(design: Design, count: usize) -> Result<(Receiver, [OwnedFd; 2]), OsError> {
        let places = Places::of(count);
        let file = create_sealed("tombolo-bench", places.length_bytes() as u64)?;
        let memory = Memory { memory: map(&file, 0, places.length_bytes())?, places };
        let epoll = Epoll::new()?;
        let bells = if design == Design::Armed { count } else { 1 };
        let bells = (0..bells).map(|_| event::eventfd()).collect::<Result<Vec<_>, _>>()?;
        for (key, bell) in (0..).zip(&bells) {
            epoll.add(bell, Interest::Read, Trigger::Level, key)?;
        }
        let theirs = bells[if design == Design::Armed { count / 2 } else { 0 }].as_fd();
        let theirs = theirs.try_clone_to_owned().map_err(|error| OsError::from_io("copy a bell", &error))?;
        let mut receiver = Receiver {
            memory,
            design,
            seen: vec![0; count],
            ids_read: 0,
            sleeps: 0,
            answers: 0,
            bells,
            epoll,
            hot: Vec::new(),
        };
        // Every channel is armed once; later, only those with activity are armed again.
        if design == Design::Armed {
            receiver.sleeps = 1;
            (0..count).for_each(|channel| receiver.announce_sleep(channel));
        }
        Ok((receiver, [file, theirs]))
    }

    fn announce_sleep(&self, channel: usize) {
        self.memory.word(self.memory.places.taken(channel) + 1).store(self.sleeps, Relaxed);
    }

    /// Takes the next message of a channel and returns its time of sending.
    fn take(&mut self, channel: usize) -> Option<u64> {
        let sent = self.memory.word(self.memory.places.sent(channel)).load(Acquire);
        if sent == self.seen[channel] {
            return None;
        }
        self.seen[channel] = sent;
        Some(self.memory.word(self.memory.places.sent(channel) + 1).load(Relaxed))
    }

    fn poll(&mut self) -> Option<u64> {
        match self.design {
            Design::Scan => (0..self.memory.places.count).find_map(|channel| self.take(channel)),
            Design::Bitmap => self.poll_bitmap(),
            Design::Ids => self.poll_ids(),
            Design::Armed | Design::Channels => {
                let hot = std::mem::take(&mut self.hot);
                let found = hot.iter().find_map(|channel| self.take(*channel));
                self.hot = hot;
                found
            }
        }
    }

    fn poll_bitmap(&mut self) -> Option<u64> {
        let mut found = None;
        for upper in 0..self.memory.places.count.div_ceil(64 * 64) {
            let root = self.memory.word(ROOT + upper);
            let mut words = if root.load(Relaxed) == 0 { 0 } else { root.swap(0, AcqRel) };
            while words != 0 {
                let word = 64 * upper + words.trailing_zeros() as usize;
                words &= words - 1;
                let mut bits = self.memory.word(LEAVES + word).swap(0, AcqRel);
                while bits != 0 {
                    let channel = 64 * word + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    found = self.take(channel).or(found);
                }
            }
        }
        found
    }

    fn poll_ids(&mut self) -> Option<u64> {
        let places = self.memory.places;
        let place = places.ids + (self.ids_read & places.ids_mask) as usize;
        let entry = self.memory.word(place).load(Acquire);
        if entry >> 32 != self.ids_read + 1 {
            return None;
        }
        self.ids_read += 1;
        let channel = (entry & 0xffff_ffff) as usize;
        let mut found = None;
        // Drains the channel: messages sent before the other side sees that all were taken are not announced
        // again.
        while let Some(stamp_ns) = self.take(channel) {
            found = Some(stamp_ns);
            self.memory.word(places.taken(channel)).store(self.seen[channel], Release);
            fence(SeqCst);
        }
        found
    }

    /// Waits for the next message and returns its time of sending.
    pub(super) fn wait(&mut self, asleep: bool) -> Result<u64, Error> {
        let mut found = self.poll();
        if !asleep {
            if found.is_none() {
                spin_until(|| {
                    found = self.poll();
                    found.is_some()
                })?;
            }
        } else {
            let deadline = Deadline::after(STALL_TIMEOUT);
            while found.is_none() {
                if deadline.passed() {
                    return Err(Error::Stalled { waited: STALL_TIMEOUT });
                }
                found = self.sleep(deadline)?;
            }
        }
        found.ok_or(Error::Stalled { waited: STALL_TIMEOUT })
    }

    fn sleep(&mut self, deadline: Deadline) -> Result<Option<u64>, Error> {
        self.sleeps += 2;
        if self.design == Design::Armed {
            self.sleeps |= 1;
            self.hot.iter().for_each(|channel| self.announce_sleep(*channel));
        } else {
            self.memory.word(ASLEEP).store(self.sleeps | 1, Relaxed);
        }
        fence(SeqCst);
        let found = self.poll();
        if found.is_none() {
            let mut events = Events::new();
            self.hot.clear();
            self.epoll.wait(&mut events, Some(deadline))?;
            for (key, _) in events.iter() {
                event::drain(&self.bells[key as usize]);
                self.hot.push(key as usize);
                self.memory.word(self.memory.places.taken(key as usize) + 1).store(0, Relaxed);
            }
        }
        if self.design != Design::Armed {
            self.memory.word(ASLEEP).store(0, Relaxed);
        }
        Ok(found.or_else(|| self.poll()))
    }

    pub(super) fn answer(&mut self) {
        self.answers += 1;
        self.memory.word(ANSWER).store(self.answers, Release);
    }
}
