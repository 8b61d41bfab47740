//! Descriptors that are sent to domains with messages, and detection of the end of a channel's user.

use tombolo_base::{ChannelId, WindowId};
use tombolo_control::{Attachment, Report};

use super::{Action, AgentCore, Item};

impl<D> AgentCore<D> {
    pub(super) fn deliver(
        &mut self,
        connection: u32,
        channel: ChannelId,
        attachments: &[Attachment],
        message: Vec<u8>,
        passed: Vec<D>,
    ) {
        let mut passed = passed.into_iter();
        let items: Vec<Item<D>> = attachments
            .iter()
            .map(|attachment| match attachment {
                Attachment::Passed => passed.next().map_or(Item::Missing, Item::Passed),
                Attachment::Lifeline => Item::Lifeline,
                Attachment::PairEnd { .. } => Item::PairEnd,
                Attachment::LinkStream => Item::LinkStream,
                Attachment::WindowMemory(of) => Item::WindowMemory(WindowId(of.window)),
                Attachment::Interrupt { vector, window } => Item::Interrupt(WindowId(*window), *vector),
                Attachment::Registers(of) => Item::Registers(WindowId(of.window)),
                Attachment::Ringer { vector, window } => Item::Ringer(WindowId(*window), *vector),
                Attachment::SharedBell { offset_bytes, window, accepting, group } => Item::SharedBell {
                    window: WindowId(*window),
                    offset_bytes: *offset_bytes,
                    accepting: *accepting,
                    group: *group,
                },
                Attachment::TracePage { domain } => Item::TracePage(*domain),
                Attachment::Region { region, writable } => Item::Region(*region, *writable),
                Attachment::WindowToRead(of) => Item::WindowToRead(WindowId(of.window)),
            })
            .collect();
        // Sent to a closed client too: descriptors created for it are then dropped, which notifies the other
        // end.
        let (length_bytes, descriptors) = (message.len(), items.len());
        self.actions.push_back(Action::Send { connection, channel, items, message });
        self.message_queued(connection, length_bytes, descriptors);
    }

    /// Records that a lifeline was created and that its other end is in flight to a domain.
    pub fn lifeline_created(&mut self, channel: ChannelId) {
        self.lifelines.insert(channel);
    }

    /// Records that a lifeline could not be created, so that its end cannot be detected later.
    pub fn lifeline_failed(&mut self, channel: ChannelId) {
        self.report(Report::Released { channel });
    }

    pub(super) fn hang_up(&mut self, channel: ChannelId) {
        if self.lifelines.contains(&channel) {
            if tombolo_base::canary!("agent says at once that memory is let go") {
                self.report(Report::Released { channel });
            }
            self.actions.push_back(Action::HangUp { channel });
        }
    }

    /// Handles an event on the agent's end of a lifeline. Domains write nothing, so it is a hang-up.
    pub fn lifeline_closed(&mut self, channel: ChannelId) {
        if self.lifelines.remove(&channel) {
            self.actions.push_back(Action::CloseLifeline { channel });
            if tombolo_base::canary!("agent releases nothing") {
                return;
            }
            self.report(Report::Released { channel });
        }
    }
}
