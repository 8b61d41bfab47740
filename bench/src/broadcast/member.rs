//! A member of a trial, which runs as a separate process.

use std::time::Duration;

use tombolo::{Channel, Domain, Error, Job, wait_any};
use tombolo_group::{Event, Group, GroupError, GroupOptions};
use tombolo_platform::time::now_ns;

use super::{Figure, LINE_BYTES, Trial, Way};

/// Timeout of each step of a trial.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between two paced messages, in which idle members fall asleep.
const PAUSE: Duration = Duration::from_micros(300);

/// Runs as a member of a trial, given as JSON, and prints the figure.
///
/// # Errors
/// A description of the failure.
pub fn run_member(domain: &Domain, trial: &str) -> Result<(), String> {
    crate::members::run_member_trial(trial, |trial| measure(domain, trial))
}

fn measure(domain: &Domain, trial: &Trial) -> Result<Figure, GroupError> {
    let domain = domain.within(TIMEOUT);
    let job = domain.job()?;
    if trial.way == Way::Sends {
        return Ok(Sends::open(&domain, &job, trial)?.run()?);
    }
    // Makes a message one chunk, if the paper's buffer allows it.
    let chunk_bytes = (trial.lines as usize * LINE_BYTES).max(64) as u32;
    let mut options = GroupOptions::default().fan_out(trial.fan_out)?.chunk_bytes(chunk_bytes)?;
    if trial.way == Way::Synchronous {
        // The synchronous variant polls.
        options = options.spin_ns(u64::MAX);
    }
    let mut group = Group::of_job(&domain, &job, &options)?;
    let found = in_group(&mut group, trial, job.rank())?;
    group.leave()?;
    Ok(found)
}

/// Creates a message of the trial's length that begins with the current time.
fn message(trial: &Trial) -> Vec<u8> {
    let mut message = vec![7; trial.lines as usize * LINE_BYTES];
    message[..8].copy_from_slice(&now_ns().to_le_bytes());
    message
}

fn age_ns(message: &[u8]) -> u64 {
    let sent = message.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    now_ns().saturating_sub(sent)
}

fn next_message(group: &mut Group) -> Result<(u64, Vec<u8>), GroupError> {
    loop {
        match group.recv()? {
            Event::Message { from, data } => return Ok((from.0, data)),
            Event::Left { .. } | Event::Joined(_) => {}
        }
    }
}

fn in_group(group: &mut Group, trial: &Trial, rank: u32) -> Result<Figure, GroupError> {
    let others = trial.members - 1;
    // Starts once all members have arrived.
    group.broadcast(b"ready")?;
    for _ in 0..others {
        next_message(group)?;
    }
    let begin = now_ns();
    if trial.paced {
        let mut times_ns = Vec::new();
        for _ in 0..trial.messages {
            if rank == 0 {
                group.flush()?;
                std::thread::sleep(PAUSE);
                group.broadcast(&message(trial))?;
                group.flush()?;
            } else {
                times_ns.push(age_ns(&next_message(group)?.1));
            }
        }
        return Ok(Figure::Times { times_ns });
    }
    let is_source = rank < trial.sources;
    let mut expected = u64::from(trial.messages) * u64::from(trial.sources - u32::from(is_source));
    if trial.way == Way::Synchronous {
        for turn in 0..trial.messages * trial.sources {
            if turn % trial.sources == rank {
                group.broadcast(&message(trial))?;
                group.flush()?;
            } else {
                next_message(group)?;
            }
        }
    } else {
        for _ in 0..if is_source { trial.messages } else { 0 } {
            // Receives while waiting for room.
            group.broadcast(&message(trial))?;
            while let Some(event) = group.try_recv()? {
                expected -= u64::from(matches!(event, Event::Message { .. }));
            }
        }
        for _ in 0..expected {
            next_message(group)?;
        }
    }
    group.flush()?;
    Ok(Figure::Span { span_ns: now_ns() - begin })
}

/// Direct channels to all other members, without a tree.
struct Sends<'a> {
    channels: Vec<Channel>,
    trial: &'a Trial,
    rank: u32,
    buffer: Vec<u8>,
}

impl<'a> Sends<'a> {
    fn open(domain: &Domain, job: &Job, trial: &'a Trial) -> Result<Sends<'a>, Error> {
        // The same size as the channels of groups.
        let options = tombolo::ChannelOptions::default().slot_bytes(128)?.slots(512)?;
        let mut channels = Vec::new();
        for rank in (0..job.size()).filter(|rank| *rank != job.rank()) {
            let name = job.name_between("sends", rank)?;
            channels.push(if job.rank() < rank {
                options.export(domain, &name)?.accept()?
            } else {
                options.connect(domain, &name)?
            });
        }
        let mut sends = Sends { channels, trial, rank: job.rank(), buffer: Vec::new() };
        sends.meet()?;
        Ok(sends)
    }

    /// Waits until all other members have arrived.
    fn meet(&mut self) -> Result<(), Error> {
        for channel in &mut self.channels {
            channel.send(b"ready")?;
        }
        for channel in &mut self.channels {
            channel.recv_into(&mut self.buffer)?;
        }
        Ok(())
    }

    fn run(mut self) -> Result<Figure, Error> {
        let begin = now_ns();
        let figure = if self.trial.paced { self.paced()? } else { self.all_at_once(begin)? };
        self.meet()?;
        Ok(figure)
    }

    fn paced(&mut self) -> Result<Figure, Error> {
        let mut times_ns = Vec::new();
        for _ in 0..self.trial.messages {
            if self.rank == 0 {
                std::thread::sleep(PAUSE);
                let message = message(self.trial);
                for channel in &mut self.channels {
                    channel.send(&message)?;
                }
                for channel in &mut self.channels {
                    channel.recv_into(&mut self.buffer)?;
                }
            } else {
                self.channels[0].recv_into(&mut self.buffer)?;
                times_ns.push(age_ns(&self.buffer));
                self.channels[0].send(b"taken")?;
            }
        }
        Ok(Figure::Times { times_ns })
    }

    fn all_at_once(&mut self, begin: u64) -> Result<Figure, Error> {
        let is_source = self.rank < self.trial.sources;
        let mut left = vec![if is_source { self.trial.messages } else { 0 }; self.channels.len()];
        // Channels are in rank order, without this member's rank.
        let rank_of = |index: usize| index as u32 + u32::from(index as u32 >= self.rank);
        let of = |index: usize| if rank_of(index) < self.trial.sources { self.trial.messages } else { 0 };
        let mut expected: Vec<u32> = (0..self.channels.len()).map(of).collect();
        let message = message(self.trial);
        while expected.iter().chain(&left).any(|count| *count > 0) {
            let mut moved = false;
            for ((channel, left), expected) in self.channels.iter_mut().zip(&mut left).zip(&mut expected) {
                if *left > 0 && channel.try_send(&message).is_ok() {
                    *left -= 1;
                    moved = true;
                }
                if *expected > 0 && channel.try_recv_into(&mut self.buffer)?.is_some() {
                    *expected -= 1;
                    moved = true;
                }
            }
            if !moved && left.iter().all(|left| *left == 0) {
                let awaited = self.channels.iter_mut().zip(&expected).filter(|(_, expected)| **expected > 0);
                let mut awaited: Vec<&mut Channel> = awaited.map(|(channel, _)| channel).collect();
                wait_any(&mut awaited, TIMEOUT)?;
            } else if !moved {
                std::thread::yield_now();
            }
        }
        Ok(Figure::Span { span_ns: now_ns() - begin })
    }
}
