//! Recently ended domains: how they ended, their output, and how to start them again.

use std::collections::{BTreeMap, VecDeque};

use tombolo_base::DomainId;
use tombolo_control::Exit;
use tombolo_control::observation::SeenDomain;
use tombolo_machine::image::ImageId;

use super::conversion::truncate_exit;
use super::versions::PartKey;
use super::{History, OutputTail};
use crate::root::steering::Launch;
use crate::root::{Core, DomainRecord};

/// Maximum number of ended domains retained.
pub(in crate::root) const MAX_ENDED: usize = 256;

/// Maximum number of images retained only for ended domains; the next constant limits their size.
pub(in crate::root) const MAX_IMAGES: usize = 16;
const MAX_IMAGE_BYTES: usize = 64 << 20;

/// Maximum size of arguments and environments retained for ended domains.
const MAX_LAUNCH_BYTES: usize = 4 << 20;

/// A domain that ended.
#[derive(Debug)]
pub(in crate::root) struct EndedDomain {
    pub(in crate::root) seen: SeenDomain,
    pub(in crate::root) launch: Option<Launch>,
    pub(super) output: OutputTail,
    pub(super) history: Option<History>,
}

/// Recently ended domains, in order of their ends.
#[derive(Debug, Default)]
pub(in crate::root) struct EndedDomains {
    order: VecDeque<DomainId>,
    domains: BTreeMap<DomainId, EndedDomain>,
    /// Number of launches and length of each image.
    images: BTreeMap<ImageId, (usize, usize)>,
    launch_bytes: usize,
}

impl EndedDomains {
    pub(in crate::root) fn get(&self, domain: DomainId) -> Option<&EndedDomain> {
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

    /// Drops the launch of a domain. Returns whether there was one.
    fn discard_launch(&mut self, domain: DomainId) -> bool {
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

    /// Returns whether the launches exceed their limits.
    fn exceeds_limits(&self) -> bool {
        let image_bytes: usize = self.images.values().map(|(_, bytes)| bytes).sum();
        self.images.len() > MAX_IMAGES
            || image_bytes > MAX_IMAGE_BYTES
            || self.launch_bytes > MAX_LAUNCH_BYTES
    }

    /// Removes the output of the domain that ended first among those with retained output, to make room.
    pub(super) fn take_oldest_output(&mut self) -> Option<(DomainId, usize)> {
        let has_output = |domain: &&DomainId| {
            self.domains.get(domain).is_some_and(|ended| ended.output.retained_bytes() > 0)
        };
        let domain = *self.order.iter().find(has_output)?;
        let freed_bytes = self.domains.get_mut(&domain).map_or(0, |ended| ended.output.forget());
        Some((domain, freed_bytes))
    }
}

impl Core {
    /// Handles the removal of a domain. Retains one that the machine started for a while.
    pub(in crate::root) fn retire_domain(&mut self, domain: DomainId, mut record: DomainRecord, exit: Exit) {
        self.node_changed(domain.node());
        self.remove_domain_ends(domain);
        let mut seen = self.domain_snapshot(domain, &record);
        let observed = std::mem::take(&mut record.observed);
        if record.parent.is_none() {
            return self.discard_observed(domain, observed.output, observed.history);
        }
        (seen.exit, seen.ended_ns, seen.paused) = (Some(truncate_exit(exit)), self.now, false);
        let launch = observed.launch.filter(|_| seen.repeatable);
        let ended = EndedDomain { seen, launch, output: observed.output, history: observed.history };
        self.observing.ended.insert(domain, ended);
        self.domain_changed(domain);
        self.evict_ended();
    }

    fn evict_ended(&mut self) {
        while self.observing.ended.exceeds_limits() {
            let ended = &mut self.observing.ended;
            let with_launch =
                |domain: &&DomainId| ended.domains.get(domain).is_some_and(|ended| ended.launch.is_some());
            let Some(oldest) = ended.order.iter().find(with_launch).copied() else { break };
            ended.discard_launch(oldest);
            self.domain_changed(oldest);
        }
        while self.observing.ended.order.len() > MAX_ENDED
            && let Some(oldest) = self.observing.ended.order.pop_front()
        {
            self.observing.ended.discard_launch(oldest);
            if let Some(ended) = self.observing.ended.domains.remove(&oldest) {
                self.discard_observed(oldest, ended.output, ended.history);
            }
        }
    }

    /// Removes everything retained of a domain.
    pub(in crate::root) fn discard_observed(
        &mut self,
        domain: DomainId,
        mut output: OutputTail,
        history: Option<History>,
    ) {
        let freed_bytes = output.forget();
        self.observing.outputs.freed(freed_bytes);
        if let Some(history) = history {
            self.observing.budget.release(&history);
        }
        self.observing.versions.mark_removed(PartKey::Domain(domain));
    }
}
