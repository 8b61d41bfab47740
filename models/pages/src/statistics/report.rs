//! A rank's report of its pages, stored as a record of the machine.

use tombolo::Domain;
use tombolo::names::{NewRecord, Record, Value};
use tombolo_directory::Counts;

use super::fault_samples::Place;
use crate::error::Error;

/// Prefix of the records' names.
const RECORDS: &str = "pages/";
/// Maximum number of pages in a record, which keeps it within 16 KiB.
pub(crate) const MAX_HOT: usize = 16;
/// Maximum number of places of a page in a record.
const MAX_PLACES: usize = 8;

/// A page that is hot at a rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageReport {
    /// Index of the page in the range.
    pub page: u32,
    /// Counters of the page.
    pub counts: Counts,
    /// Places that faulted, most frequent first, and the objects there.
    pub places: Vec<(Place, Option<String>)>,
}

/// Report of a rank's pages. Counting starts when it opens the range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RankReport {
    /// Job that opened the range.
    pub job: String,
    /// Name of the range.
    pub range: String,
    /// Number of the rank.
    pub rank: u32,
    /// Node of the rank.
    pub node: String,
    /// Start address of the range.
    pub address: u64,
    /// Page size in bytes.
    pub page_bytes: u32,
    /// Number of pages.
    pub pages: u32,
    /// Sums of the counters of all pages.
    pub totals: Counts,
    /// Up to 16 pages with the most faults, hottest first.
    pub hot: Vec<PageReport>,
}

const FIELDS: usize = 6;

fn numbers(counts: &Counts) -> [u32; FIELDS] {
    let Counts { read_faults, write_faults, upgrades, fetched, taken, returned } = *counts;
    [read_faults, write_faults, upgrades, fetched, taken, returned]
}

fn counts(numbers: [u32; FIELDS]) -> Counts {
    let [read_faults, write_faults, upgrades, fetched, taken, returned] = numbers;
    Counts { read_faults, write_faults, upgrades, fetched, taken, returned }
}

/// `PAGE COUNT… OFFSET,READS,WRITES,OBJECT …`
fn format_line(hot: &PageReport) -> String {
    let mut words: Vec<String> = vec![hot.page.to_string()];
    words.extend(numbers(&hot.counts).map(|number| number.to_string()));
    words.extend(hot.places.iter().take(MAX_PLACES).map(|(place, object)| {
        let object = object.as_deref().unwrap_or_default();
        format!("{},{},{},{object}", place.offset_bytes, place.reads, place.writes)
    }));
    words.join(" ")
}

fn parse_line(line: &str) -> Option<PageReport> {
    let mut words = line.split(' ');
    let page = words.next()?.parse().ok()?;
    let mut numbers = [0; FIELDS];
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let place = |word: &str| {
        let mut parts = word.splitn(4, ',');
        let mut number = || parts.next()?.parse().ok();
        let place = Place { offset_bytes: number()?, reads: number()?, writes: number()? };
        let object = parts.next()?;
        Some((place, (!object.is_empty()).then(|| object.to_owned())))
    };
    Some(PageReport { page, counts: counts(numbers), places: words.map(place).collect::<Option<_>>()? })
}

impl RankReport {
    /// Returns the name of its record.
    pub(crate) fn name(&self) -> String {
        format!("{RECORDS}{}/{}/{}", self.job, self.range, self.rank)
    }

    pub(crate) fn record(&self) -> NewRecord {
        let totals: Vec<String> = numbers(&self.totals).iter().map(u32::to_string).collect();
        let mut record = NewRecord::new(&self.name())
            .with("job", self.job.clone())
            .with("range", self.range.clone())
            .with("rank", i64::from(self.rank))
            .with("node", self.node.clone())
            .with("address", self.address.cast_signed())
            .with("page_bytes", i64::from(self.page_bytes))
            .with("pages", i64::from(self.pages))
            .with("totals", totals.join(" "));
        for (index, hot) in self.hot.iter().take(MAX_HOT).enumerate() {
            record = record.with(&format!("hot.{index:02}"), format_line(hot));
        }
        record
    }

    /// Parses a record; `None` if it is malformed, as any program may set records.
    fn of(record: &Record) -> Option<RankReport> {
        let text = |name: &str| match record.attributes.get(name) {
            Some(Value::Text(text)) => Some(text.clone()),
            _ => None,
        };
        let number = |name: &str| match record.attributes.get(name) {
            Some(Value::Integer(number)) => Some(*number),
            _ => None,
        };
        let totals: Vec<u32> =
            text("totals")?.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let hot = (0..MAX_HOT).map_while(|index| text(&format!("hot.{index:02}")));
        Some(RankReport {
            job: text("job")?,
            range: text("range")?,
            rank: number("rank")?.try_into().ok()?,
            node: text("node")?,
            address: number("address")?.cast_unsigned(),
            page_bytes: number("page_bytes")?.try_into().ok()?,
            pages: number("pages")?.try_into().ok()?,
            totals: counts(totals.try_into().ok()?),
            hot: hot.map(|line| parse_line(&line)).collect::<Option<_>>()?,
        })
    }
}

/// Returns the reports of all ranks of all jobs of the machine, at most a second old.
///
/// # Errors
/// [`Error::Tombolo`].
pub fn list(domain: &Domain) -> Result<Vec<RankReport>, Error> {
    let records = domain.names().find(&format!("r'^{RECORDS}'"))?;
    let mut reports: Vec<RankReport> = records.iter().filter_map(RankReport::of).collect();
    reports.sort_by(|a, b| (&a.job, &a.range, a.rank).cmp(&(&b.job, &b.range, b.rank)));
    Ok(reports)
}

#[cfg(test)]
pub(crate) fn example(rank: u32, hot: Vec<PageReport>) -> RankReport {
    RankReport {
        job: "job-7".into(),
        range: "grid".into(),
        rank,
        node: format!("node{rank}"),
        address: 1 << 44,
        page_bytes: 4096,
        pages: 100,
        totals: counts([1, 2, 3, 4, 5, 6]),
        hot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_round_trip_as_records() {
        let place = |offset_bytes, object: Option<&str>| {
            (Place { offset_bytes, reads: 2, writes: 3 }, object.map(str::to_owned))
        };
        let hot = |page| PageReport {
            page,
            counts: counts([10, 20, 30, 40, 50, 60]),
            places: vec![place(0, Some("hits")), place(8, None), place(16, Some("a+8"))],
        };
        let report = example(3, vec![hot(17), hot(4)]);
        let to_record: Record = to_record(&report.record());
        assert_eq!(RankReport::of(&to_record), Some(report));
        for wrong in ["", "1 2 3 4 5 6", "1 2 3 4 5 6 x", "1 2 3 4 5 6 7 8,9", "1 2 3 4 5 6 7 8,9,10"] {
            let mut other = to_record.clone();
            other.attributes.insert("hot.01".into(), wrong.into());
            assert_eq!(RankReport::of(&other), None, "{wrong}");
        }
    }

    /// Converts a record to the form in which it is read.
    fn to_record(record: &NewRecord) -> Record {
        let text = record.to_string();
        let (name, attributes) = tombolo_naming::parse_record(&text).unwrap();
        Record { name, attributes, version: 1, owner: None, endpoint: false }
    }

    #[test]
    fn record_length_is_bounded() {
        let place = |offset_bytes| {
            (Place { offset_bytes, reads: u32::MAX, writes: u32::MAX }, Some("n".repeat(48 + 6)))
        };
        let hot = PageReport {
            page: u32::MAX,
            counts: counts([u32::MAX; FIELDS]),
            places: (0..100).map(place).collect(),
        };
        let report = example(63, vec![hot; 100]);
        assert!(report.record().to_string().len() < 15 << 10);
    }
}
