//! `tombolo pages`

use clap::Args;
use serde::Serialize;
use tombolo_pages::{Counts, Error, JobHotPage, PageReport, Place};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;
use crate::text::Table;

/// Shows the hot pages of running jobs: address ranges that domains have in common
///
/// Ranges of two jobs may have one name. FAULTS, READ, WRITE and FETCHED count those of all ranks since they
/// opened the range: accesses that a page did not allow, and copies that came from another rank. PING-PONG
/// names the ranks that a page goes back and forth between, and how often it came back. SHARING is `common`
/// where ranks access one place, and `false sharing` where each accesses other places of the page: then
/// OBJECTS, each on a page of its own, would cause no faults. OBJECTS are variables or named objects,
/// otherwise offsets in the page, with the ranks that write there, or read (r). What is seen is up to a
/// second old, and a sample: an access faults only if it is the first after the page came.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo pages
  tombolo pages --most 3
  tombolo pages --json | jq '.pages[] | select(.sharing == \"false sharing\")'")]
pub(crate) struct Options {
    /// How many pages
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    most: u32,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    pages: Vec<PageRow>,
}

/// A page, with stable keys.
#[derive(Serialize)]
struct PageRow {
    job: String,
    range: String,
    page: u32,
    address: u64,
    faults: u64,
    sharing: &'static str,
    ping_pong: Vec<u32>,
    ranks: Vec<RankRow>,
}

#[derive(Serialize)]
struct RankRow {
    rank: u32,
    node: String,
    read_faults: u32,
    write_faults: u32,
    upgrades: u32,
    fetched: u32,
    taken: u32,
    returned: u32,
    places: Vec<PlaceRow>,
}

#[derive(Serialize)]
struct PlaceRow {
    offset_bytes: u32,
    reads: u32,
    writes: u32,
    object: Option<String>,
}

impl PageRow {
    fn new(hot: JobHotPage) -> PageRow {
        let (faults, ping_pong, sharing) = (hot.faults(), hot.ping_pong(), hot.sharing.name());
        let ranks = hot.ranks.into_iter().map(|(rank, node, page)| rank_row(rank, node, page)).collect();
        let JobHotPage { job, range, page, address, .. } = hot;
        PageRow { job, range, page, address, faults, sharing, ping_pong, ranks }
    }

    fn sum(&self, of: impl Fn(&RankRow) -> u32) -> u64 {
        self.ranks.iter().map(|rank| u64::from(of(rank))).sum()
    }

    /// Returns the ranks that the page alternates between.
    fn between(&self) -> String {
        let of = |rank: &RankRow| format!("{}@{} ×{}", rank.rank, rank.node, rank.returned);
        let ranks = self.ranks.iter().filter(|rank| self.ping_pong.contains(&rank.rank));
        let ranks: Vec<String> = ranks.map(of).collect();
        if ranks.is_empty() { "-".to_owned() } else { ranks.join(", ") }
    }

    /// Formats the objects on the page, with the ranks that access them.
    fn objects(&self) -> String {
        let mut objects: Vec<(String, Vec<String>)> = Vec::new();
        for rank in &self.ranks {
            for place in &rank.places {
                let name = place.object.clone().unwrap_or_else(|| format!("+{}", place.offset_bytes));
                let user = format!("{}{}", rank.rank, if place.writes > 0 { "" } else { "r" });
                match objects.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, users)) => users.push(user),
                    None => objects.push((name, vec![user])),
                }
            }
        }
        let shown: Vec<String> =
            objects.iter().take(4).map(|(name, users)| format!("{name} ({})", users.join(" "))).collect();
        match objects.len().saturating_sub(4) {
            _ if shown.is_empty() => "-".to_owned(),
            0 => shown.join(", "),
            more => format!("{} and {more} more", shown.join(", ")),
        }
    }
}

fn rank_row(rank: u32, node: String, page: PageReport) -> RankRow {
    let Counts { read_faults, write_faults, upgrades, fetched, taken, returned } = page.counts;
    let place =
        |(Place { offset_bytes, reads, writes }, object)| PlaceRow { offset_bytes, reads, writes, object };
    let places = page.places.into_iter().map(place).collect();
    RankRow { rank, node, read_faults, write_faults, upgrades, fetched, taken, returned, places }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let reports = tombolo_pages::list(&domain).map_err(|error| match error {
        Error::Tombolo(error) => error.into(),
        error => Failure::Other(error.into()),
    })?;
    let pages = tombolo_pages::hot_pages(&reports).into_iter().take(options.most as usize);
    let pages: Vec<PageRow> = pages.map(PageRow::new).collect();
    if options.json {
        return print_json(&Report { machine: domain.machine_name().to_owned(), pages });
    }
    print(render(&pages, context.colour))
}

fn render(pages: &[PageRow], colour: bool) -> String {
    let mut table = Table::new(&[
        "JOB",
        "RANGE",
        "PAGE>",
        "ADDRESS",
        "FAULTS>",
        "READ>",
        "WRITE>",
        "FETCHED>",
        "PING-PONG",
        "SHARING",
        "OBJECTS",
    ]);
    for page in pages {
        table.row([
            page.job.clone(),
            page.range.clone(),
            page.page.to_string(),
            format!("{:#x}", page.address),
            page.faults.to_string(),
            page.sum(|rank| rank.read_faults).to_string(),
            page.sum(|rank| rank.write_faults.saturating_add(rank.upgrades)).to_string(),
            page.sum(|rank| rank.fetched).to_string(),
            page.between(),
            page.sharing.to_owned(),
            page.objects(),
        ]);
    }
    table.render(colour)
}

#[cfg(test)]
mod tests {
    use tombolo_pages::Sharing;

    use super::*;

    fn report(returned: u32, places: &[(u32, u32, Option<&str>)]) -> PageReport {
        let place = |&(offset_bytes, writes, object): &(u32, u32, Option<&str>)| {
            (Place { offset_bytes, reads: 1, writes }, object.map(str::to_owned))
        };
        PageReport {
            page: 3,
            counts: Counts { read_faults: 10, write_faults: 4, upgrades: 3, fetched: 9, taken: 8, returned },
            places: places.iter().map(place).collect(),
        }
    }

    #[test]
    fn ranks_and_objects_are_named() {
        let hot = JobHotPage {
            job: "job".into(),
            range: "grid".into(),
            page: 3,
            address: 0x1000_0000_3000,
            ranks: vec![
                (0, "host".into(), report(7, &[(0, 2, Some("hits")), (64, 0, None)])),
                (1, "arm0".into(), report(6, &[(8, 2, Some("misses"))])),
            ],
            sharing: Sharing::False,
        };
        let row = PageRow::new(hot);
        assert_eq!(row.between(), "0@host ×7, 1@arm0 ×6");
        assert_eq!(row.objects(), "hits (0), +64 (0r), misses (1)");
        let text = render(&[row], false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].starts_with("job  grid      3  0x100000003000      34    20     14       18  0@host"),
            "{text}"
        );
        assert!(lines[1].contains("false sharing"), "{text}");
    }

    #[test]
    fn many_objects_are_cut() {
        let places: Vec<_> = (0..6).map(|index| (8 * index, 1, None)).collect();
        let ranks = vec![(0, "host".into(), report(1, &places))];
        let hot = JobHotPage {
            job: String::new(),
            range: String::new(),
            page: 0,
            address: 0,
            ranks,
            sharing: Sharing::One,
        };
        let row = PageRow::new(hot);
        assert_eq!(row.objects(), "+0 (0), +8 (0), +16 (0), +24 (0) and 2 more");
        assert_eq!(row.between(), "-");
    }
}
