//! The domains that ended last: how, what they wrote, and how they would be started again.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::DomainId;
use tombolo_control::Exit;
use tombolo_control::observation::SeenDomain;
use tombolo_machine::image::ImageId;

use super::show::short;
use super::versions::Key;
use super::{History, Tail};
use crate::root::steering::Launch;
use crate::root::{Core, DomainRecord};

/// Domains that ended and are remembered.
pub(in crate::root) const MAX_ENDED: usize = 256;

/// The most images that are kept only because domains that ended ran them, and the most bytes of these.
pub(in crate::root) const MAX_IMAGES: usize = 16;
const MAX_IMAGE_BYTES: usize = 64 << 20;

/// Bytes of arguments and environments that are kept for domains that ended.
const MAX_LAUNCH_BYTES: usize = 4 << 20;

/// A domain that ended.
#[derive(Debug)]
pub(in crate::root) struct EndedDomain {
    pub(in crate::root) seen: SeenDomain,
    pub(in crate::root) launch: Option<Launch>,
    pub(super) output: Tail,
    pub(super) history: Option<History>,
}

/// The domains that ended last, the first to end first.
#[derive(Debug, Default)]
pub(in crate::root) struct Ended {
    order: VecDeque<DomainId>,
    domains: BTreeMap<DomainId, EndedDomain>,
    /// How many launches there are of each image, and how long it is.
    images: BTreeMap<ImageId, (usize, usize)>,
    launch_bytes: usize,
}

impl Ended {
    pub(in crate::root) fn of(&self, domain: DomainId) -> Option<&EndedDomain> {
        self.domains.get(&domain)
    }

    fn insert(&mut self, domain: DomainId, ended: EndedDomain) {
        if let Some(launch) = &ended.launch {
            let length_bytes = launch.image.as_bytes().len();
            self.images.entry(launch.image.id()).or_insert((0, length_bytes)).0 += 1;
            self.launch_bytes += launch.length_bytes();
        }
        self.order.push_back(domain);
        self.domains.insert(domain, ended);
    }

    /// Keeps no launch of a domain; whether there was one.
    fn forget_launch(&mut self, domain: DomainId) -> bool {
        let ended = self.domains.get_mut(&domain);
        let Some(launch) = ended.and_then(|ended| ended.launch.take()) else { return false };
        self.launch_bytes -= launch.length_bytes();
        if let Some((count, _)) = self.images.get_mut(&launch.image.id()) {
            *count -= 1;
            if *count == 0 {
                self.images.remove(&launch.image.id());
            }
        }
        if let Some(ended) = self.domains.get_mut(&domain) {
            (ended.seen.repeatable, ended.seen.restartable) = (false, false);
        }
        true
    }

    /// More is kept for starting anew than may be.
    fn keeps_too_much(&self) -> bool {
        let image_bytes: usize = self.images.values().map(|(_, bytes)| bytes).sum();
        self.images.len() > MAX_IMAGES
            || image_bytes > MAX_IMAGE_BYTES
            || self.launch_bytes > MAX_LAUNCH_BYTES
    }

    /// Returns the first of those that ended which have remembered output, for which there is no room.
    pub(super) fn take_oldest_output(&mut self) -> Option<(DomainId, usize)> {
        let has_output =
            |domain: &&DomainId| self.domains.get(domain).is_some_and(|ended| ended.output.kept_bytes() > 0);
        let domain = *self.order.iter().find(has_output)?;
        let freed_bytes = self.domains.get_mut(&domain).map_or(0, |ended| ended.output.forget());
        Some((domain, freed_bytes))
    }
}

impl Core {
    /// A domain is known no more. One that the machine started is remembered for a while.
    pub(in crate::root) fn domain_gone(&mut self, domain: DomainId, mut record: DomainRecord, exit: Exit) {
        self.node_changed(domain.node());
        self.channels_of_ended(domain);
        let mut seen = self.see_domain(domain, &record);
        let watched = std::mem::take(&mut record.watched);
        if record.parent.is_none() {
            return self.forget_watched(domain, watched.output, watched.history);
        }
        (seen.exit, seen.ended_ns, seen.paused) = (Some(short(exit)), self.now, false);
        let launch = watched.launch.filter(|_| seen.repeatable);
        let ended = EndedDomain { seen, launch, output: watched.output, history: watched.history };
        self.observing.ended.insert(domain, ended);
        self.domain_changed(domain);
        self.bound_ended();
    }

    fn bound_ended(&mut self) {
        while self.observing.ended.keeps_too_much() {
            let ended = &mut self.observing.ended;
            let with_launch =
                |domain: &&DomainId| ended.domains.get(domain).is_some_and(|ended| ended.launch.is_some());
            let Some(oldest) = ended.order.iter().find(with_launch).copied() else { break };
            ended.forget_launch(oldest);
            self.domain_changed(oldest);
        }
        while self.observing.ended.order.len() > MAX_ENDED
            && let Some(oldest) = self.observing.ended.order.pop_front()
        {
            self.observing.ended.forget_launch(oldest);
            if let Some(ended) = self.observing.ended.domains.remove(&oldest) {
                self.forget_watched(oldest, ended.output, ended.history);
            }
        }
    }

    /// Nothing of a domain is remembered.
    pub(in crate::root) fn forget_watched(
        &mut self,
        domain: DomainId,
        mut output: Tail,
        history: Option<History>,
    ) {
        let freed_bytes = output.forget();
        self.observing.outputs.freed(freed_bytes);
        if let Some(history) = history {
            self.observing.budget.give_back(&history);
        }
        self.observing.versions.gone(Key::Domain(domain));
    }
}
