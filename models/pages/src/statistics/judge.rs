//! The hot pages of a job, from what its ranks say: who uses which, and whether they use the same places.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{PageReport, RankReport};

/// How ranks use a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Only one rank has faults at it.
    One,
    /// At least two access one place, and one of them writes there.
    Common,
    /// At least two access it, none a place that another accesses, and one writes: with each on a page of
    /// its own there would be no faults.
    False,
    /// No rank writes, or not enough was seen.
    Unknown,
}

impl Sharing {
    /// The word for it.
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

/// A page that is hot in a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hot {
    /// The job.
    pub job: String,
    /// The range.
    pub range: String,
    /// The page, from the start of the range.
    pub page: u32,
    /// Where it is.
    pub address: u64,
    /// By rank and node, what it says of the page.
    pub ranks: Vec<(u32, String, PageReport)>,
    /// How they use it.
    pub sharing: Sharing,
}

impl Hot {
    /// Faults of all ranks.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.ranks.iter().map(|(_, _, page)| u64::from(page.counts.faults())).sum()
    }

    /// Ranks that the page came back to after it was taken: it goes back and forth between these.
    #[must_use]
    pub fn ping_pong(&self) -> Vec<u32> {
        let back = self.ranks.iter().filter(|(_, _, page)| page.counts.returned > 0);
        let ranks: Vec<u32> = back.map(|(rank, _, _)| *rank).collect();
        if ranks.len() > 1 { ranks } else { Vec::new() }
    }
}

/// The hot pages of all jobs, the hottest first.
#[must_use]
pub fn hot(reports: &[RankReport]) -> Vec<Hot> {
    let mut pages: BTreeMap<(&str, &str, u32), Hot> = BTreeMap::new();
    for report in reports {
        for page in &report.hot {
            let hot = pages.entry((&report.job, &report.range, page.page)).or_insert_with(|| Hot {
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
    let mut pages: Vec<Hot> = pages.into_values().collect();
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

    use super::super::report::example;
    use super::super::touched::Place;
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
    fn what_ranks_do_at_other_places_is_false_sharing() {
        for (ours, theirs, expected) in [
            (&[(0, 0, 5)][..], &[(8, 0, 5)][..], Sharing::False),
            (&[(0, 0, 5)], &[(8, 5, 0)], Sharing::False),
            (&[(0, 0, 5), (8, 1, 0)], &[(8, 0, 5)], Sharing::Common),
            (&[(0, 5, 0)], &[(0, 0, 5)], Sharing::Common),
            (&[(0, 5, 0)], &[(8, 5, 0)], Sharing::Unknown),
            // Two read one place, and one writes another: of the pair alone not enough is known.
            (&[(0, 5, 0)], &[(0, 5, 0), (8, 0, 5)], Sharing::Unknown),
            (&[(0, 0, 5)], &[], Sharing::Unknown),
        ] {
            let reports = [example(0, vec![page(5, 1, ours)]), example(1, vec![page(6, 1, theirs)])];
            let hot = hot(&reports);
            assert_eq!((hot[0].sharing, hot[0].faults()), (expected, 11), "{ours:?} {theirs:?}");
            assert_eq!((hot[0].address, hot[0].ping_pong()), ((1 << 44) + 9 * 4096, vec![0, 1]));
        }
    }

    #[test]
    fn a_page_of_one_rank_is_not_shared_and_the_hottest_comes_first() {
        let mut other = page(50, 0, &[(0, 0, 1)]);
        other.page = 3;
        let reports = [example(0, vec![page(5, 2, &[])]), example(1, vec![other])];
        let hot = hot(&reports);
        assert_eq!(hot.iter().map(|hot| hot.page).collect::<Vec<_>>(), [3, 9]);
        assert_eq!((hot[1].sharing, hot[1].ping_pong()), (Sharing::One, vec![]));
    }
}
