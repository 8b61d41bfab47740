//! Analysis of a job's hot pages from the reports of its ranks: which ranks use a page, and whether they use
//! the same places.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{PageReport, RankReport};

/// How ranks use a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Only one rank has faults on it.
    One,
    /// At least two ranks access the same place, and one of them writes there: true sharing.
    Common,
    /// At least two ranks access disjoint places, and one writes: false sharing. With separate pages there
    /// would be no faults.
    False,
    /// No rank writes, or there are too few samples.
    Unknown,
}

impl Sharing {
    /// Returns the displayed name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sharing::One => "one rank",
            Sharing::Common => "common",
            Sharing::False => "false sharing",
            Sharing::Unknown => "unknown",
        }
    }
}

/// A hot page of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobHotPage {
    /// Job that the page belongs to.
    pub job: String,
    /// Name of the range.
    pub range: String,
    /// Index of the page in the range.
    pub page: u32,
    /// Address of the page.
    pub address: u64,
    /// Reports of the page, with rank and node.
    pub ranks: Vec<(u32, String, PageReport)>,
    /// How the ranks share it.
    pub sharing: Sharing,
}

impl JobHotPage {
    /// Returns the number of faults of all ranks.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.ranks.iter().map(|(_, _, page)| u64::from(page.counts.faults())).sum()
    }

    /// Returns the ranks that the page returned to after it was taken away: it ping-pongs between these.
    #[must_use]
    pub fn ping_pong(&self) -> Vec<u32> {
        let back = self.ranks.iter().filter(|(_, _, page)| page.counts.returned > 0);
        let ranks: Vec<u32> = back.map(|(rank, _, _)| *rank).collect();
        if ranks.len() > 1 { ranks } else { Vec::new() }
    }
}

/// Returns the hot pages of all jobs, hottest first.
#[must_use]
pub fn hot_pages(reports: &[RankReport]) -> Vec<JobHotPage> {
    let mut pages: BTreeMap<(&str, &str, u32), JobHotPage> = BTreeMap::new();
    for report in reports {
        for page in &report.hot {
            let hot = pages.entry((&report.job, &report.range, page.page)).or_insert_with(|| JobHotPage {
                job: report.job.clone(),
                range: report.range.clone(),
                page: page.page,
                address: report.address.wrapping_add(u64::from(page.page) * u64::from(report.page_bytes)),
                ranks: Vec::new(),
                sharing: Sharing::Unknown,
            });
            hot.ranks.push((report.rank, report.node.clone(), page.clone()));
        }
    }
    let mut pages: Vec<JobHotPage> = pages.into_values().collect();
    for hot in &mut pages {
        hot.sharing = sharing(&hot.ranks);
    }
    pages.sort_by_key(|hot| std::cmp::Reverse(hot.faults()));
    pages
}

fn sharing(ranks: &[(u32, String, PageReport)]) -> Sharing {
    if ranks.len() < 2 {
        return Sharing::One;
    }
    let mut by_place: BTreeMap<u32, (BTreeSet<u32>, bool)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (rank, _, page) in ranks {
        for (place, _) in &page.places {
            let (users, written) = by_place.entry(place.offset_bytes).or_default();
            users.insert(*rank);
            *written |= place.writes > 0;
            seen.insert(*rank);
        }
    }
    let is_common = |(users, written): &(BTreeSet<u32>, bool)| users.len() > 1 && *written;
    if by_place.values().any(is_common) {
        Sharing::Common
    } else if seen.len() > 1
        && by_place.values().any(|(_, written)| *written)
        && by_place.values().all(|(users, _)| users.len() == 1)
    {
        Sharing::False
    } else {
        Sharing::Unknown
    }
}

#[cfg(test)]
mod tests {
    use tombolo_directory::Counts;

    use super::super::fault_samples::Place;
    use super::super::report::example;
    use super::*;

    fn page(faults: u32, returned: u32, places: &[(u32, u32, u32)]) -> PageReport {
        let place =
            |&(offset_bytes, reads, writes): &(u32, u32, u32)| (Place { offset_bytes, reads, writes }, None);
        PageReport {
            page: 9,
            counts: Counts { read_faults: faults, returned, ..Counts::default() },
            places: places.iter().map(place).collect(),
        }
    }

    #[test]
    fn disjoint_accesses_are_false_sharing() {
        for (ours, theirs, expected) in [
            (&[(0, 0, 5)][..], &[(8, 0, 5)][..], Sharing::False),
            (&[(0, 0, 5)], &[(8, 5, 0)], Sharing::False),
            (&[(0, 0, 5), (8, 1, 0)], &[(8, 0, 5)], Sharing::Common),
            (&[(0, 5, 0)], &[(0, 0, 5)], Sharing::Common),
            (&[(0, 5, 0)], &[(8, 5, 0)], Sharing::Unknown),
            // Two ranks read one place, and one of them writes another: not enough is known.
            (&[(0, 5, 0)], &[(0, 5, 0), (8, 0, 5)], Sharing::Unknown),
            (&[(0, 0, 5)], &[], Sharing::Unknown),
        ] {
            let reports = [example(0, vec![page(5, 1, ours)]), example(1, vec![page(6, 1, theirs)])];
            let hot = hot_pages(&reports);
            assert_eq!((hot[0].sharing, hot[0].faults()), (expected, 11), "{ours:?} {theirs:?}");
            assert_eq!((hot[0].address, hot[0].ping_pong()), ((1 << 44) + 9 * 4096, vec![0, 1]));
        }
    }

    #[test]
    fn pages_are_sorted_and_may_be_private() {
        let mut other = page(50, 0, &[(0, 0, 1)]);
        other.page = 3;
        let reports = [example(0, vec![page(5, 2, &[])]), example(1, vec![other])];
        let hot = hot_pages(&reports);
        assert_eq!(hot.iter().map(|hot| hot.page).collect::<Vec<_>>(), [3, 9]);
        assert_eq!((hot[1].sharing, hot[1].ping_pong()), (Sharing::One, vec![]));
    }
}
