//! What goes to domains beside messages, and how the end of a channel's user shows.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::Shutdown;
use tombolo_base::ChannelId;
use tombolo_control::{Attachment, Report};
use tombolo_platform::error::Context;
use tombolo_platform::{Errno, OsError, socket};

use super::Agent;

/// The agent's end of a lifeline. The domain's end shows a hang-up when the peer is gone; this one when the
/// domain has let go of the channel or died.
#[derive(Debug)]
pub(super) struct Lifeline(OwnedFd);

impl Lifeline {
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Agent {
    /// Turns attachments into descriptors, `passed` being those that came along.
    pub(super) fn attach(
        &mut self,
        channel: ChannelId,
        attachments: &[Attachment],
        passed: Vec<OwnedFd>,
    ) -> Result<Vec<OwnedFd>, OsError> {
        let missing = || OsError::new("pass on a descriptor that did not arrive", Errno::BADF);
        let mut passed = passed.into_iter();
        let copy = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().context("copy a descriptor");
        attachments
            .iter()
            .map(|attachment| match attachment {
                Attachment::Passed {} => passed.next().ok_or_else(missing),
                Attachment::Lifeline {} => {
                    let (ours, theirs) = socket::pair(socket::Kind::Stream)?;
                    self.lifelines.insert(channel, Lifeline(ours));
                    Ok(theirs)
                }
                Attachment::PairEnd { .. } => match self.pairs.remove(&channel) {
                    Some(other) => Ok(other),
                    None => {
                        let (first, second) = socket::pair(socket::Kind::Stream)?;
                        self.pairs.insert(channel, second);
                        Ok(first)
                    }
                },
                Attachment::TracePage { domain } => self.trace_page(*domain),
                Attachment::WindowMemory {} => copy(self.window.as_ref().ok_or_else(missing)?.memory.as_fd()),
                Attachment::Registers {} => copy(self.window.as_ref().ok_or_else(missing)?.registers.as_fd()),
                Attachment::Interrupt { vector } => {
                    let window = self.window.as_ref().ok_or_else(missing)?;
                    let counter = window.interrupts.eventfds().get(usize::from(*vector));
                    copy(counter.ok_or_else(missing)?.as_fd())
                }
            })
            .collect()
    }

    pub(super) fn has_lifeline(&self, channel: ChannelId) -> bool {
        self.lifelines.contains_key(&channel)
    }

    /// The peer is gone: the domain's end shows it. Ours stays, to show when the domain lets go.
    pub(super) fn hang_up(&mut self, channel: ChannelId) {
        if let Some(lifeline) = self.lifelines.get(&channel) {
            let _ = rustix::net::shutdown(&lifeline.0, Shutdown::Write);
        }
    }

    /// Something shows on our end. Domains write nothing, so it is the end.
    pub(super) fn lifeline_let_go(&mut self, channel: ChannelId) {
        if self.lifelines.remove(&channel).is_some() {
            self.report(Report::Released { channel });
        }
    }
}
