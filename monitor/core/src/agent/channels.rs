//! What goes to domains beside messages, and how the end of a channel's user shows.

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
        // Also to a client that is gone: what is made for it and falls shows the other end that it is.
        let (length_bytes, descriptors) = (message.len(), items.len());
        self.actions.push_back(Action::Send { connection, channel, items, message });
        self.message_queued(connection, length_bytes, descriptors);
    }

    /// A lifeline was made, and its other end is on its way to a domain.
    pub fn lifeline_made(&mut self, channel: ChannelId) {
        self.lifelines.insert(channel);
    }

    /// A lifeline could not be made. There is nothing whose end could show later.
    pub fn lifeline_not_made(&mut self, channel: ChannelId) {
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

    /// Something shows on the agent's end of a lifeline. Domains write nothing, so it is the end.
    pub fn lifeline_let_go(&mut self, channel: ChannelId) {
        if self.lifelines.remove(&channel) {
            self.actions.push_back(Action::LetGo { channel });
            if tombolo_base::canary!("agent releases nothing") {
                return;
            }
            self.report(Report::Released { channel });
        }
    }
}
