//! Queries that are repeated for a page because the snapshot does not have their data.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tombolo::names::{Record, Value};
use tombolo::region::RegionId;
use tombolo::{Domain, DomainId, Error, NodeId};
use tombolo_admin::observe::{Measure, OutputPiece, Part, RememberedOutput};
use tombolo_admin::{Console, Machine};
use tombolo_hubs::Task;
use tombolo_omp_process::ProcessReport;
use tombolo_platform::lock_unpoisoned;

use crate::cache::{MonitorState, Snapshot, StateCache};
use crate::rows::{Row, Rows};
use crate::server::Site;
use crate::text::Decoder;
use crate::view::{self, HubRow, HubsQuery, RowRange, ThreadsQuery};

/// Minimum interval between queries of history.
const HISTORY_EVERY: Duration = Duration::from_secs(1);

/// Interval between queries of names and of a region's holders.
const LISTS_EVERY: Duration = Duration::from_secs(1);

/// Minimum interval between queries of output, and delay between attempts when something is missing.
const OUTPUT_EVERY: Duration = Duration::from_millis(250);

/// Timeout of a query to a hub whose record exists: its server may be ending.
const HUBS_WITHIN: Duration = Duration::from_secs(1);

/// Timeout of one console read; it bounds the delay until a closed view is noticed.
const CONSOLE_WAIT: Duration = Duration::from_millis(500);

/// Selects name records.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(default)]
pub(crate) struct NamesQuery {
    /// Pattern in the syntax of `tombolo names`.
    pattern: String,
    /// `machine`, or the name of a node.
    scope: String,
    #[serde(flatten)]
    cut: RowRange,
}

impl Default for NamesQuery {
    fn default() -> Self {
        NamesQuery { pattern: "*".into(), scope: "machine".into(), cut: RowRange::default() }
    }
}

/// Selects a measure of one part, and its resolution.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) struct HistoryQuery {
    /// `node:NAME`, `domain:ID`, `channel:N` or `link:A-B`.
    part: String,
    measure: MeasureName,
    #[serde(default)]
    step_ms: u32,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum MeasureName {
    Load,
    Memory,
    Rate,
    Bytes,
    Depth,
    Power,
}

impl From<MeasureName> for Measure {
    fn from(name: MeasureName) -> Measure {
        match name {
            MeasureName::Load => Measure::Load,
            MeasureName::Memory => Measure::Memory,
            MeasureName::Rate => Measure::Rate,
            MeasureName::Bytes => Measure::Bytes,
            MeasureName::Depth => Measure::Depth,
            MeasureName::Power => Measure::Power,
        }
    }
}

/// Query that is repeated for a page.
#[derive(Clone, Debug)]
pub(crate) enum Feed {
    Holders { region: String },
    Names(NamesQuery),
    Hubs(HubsQuery),
    Process { domain: String },
    Threads(ThreadsQuery),
    History(HistoryQuery),
    Output { domain: String },
    Console { node: String },
}

/// Result of a query.
#[derive(Debug)]
pub(crate) enum FeedResult {
    Rows(Rows),
    Failed(String),
    Output(Output),
}

/// Result of a query, with the number of its watch.
#[derive(Debug)]
pub(crate) struct FeedMessage {
    pub(crate) number: u64,
    pub(crate) result: FeedResult,
}

/// Sender of a query's results. Sending waits until the page takes them.
struct ResultSender {
    number: u64,
    feeder: mpsc::Sender<FeedMessage>,
}

impl ResultSender {
    /// Sends a result; `None` if the page is gone.
    async fn send(&self, result: FeedResult) -> Option<()> {
        self.feeder.send(FeedMessage { number: self.number, result }).await.ok()
    }
}

/// Output of a program or a console since the last message.
#[derive(Serialize, Debug, Default)]
pub(crate) struct Output {
    pieces: Vec<Piece>,
    /// Number of bytes lost before the first piece.
    lost: u64,
    ended: bool,
    /// Whether some of the output was not UTF-8.
    binary: bool,
}

/// Piece of output of one stream.
#[derive(Serialize, Debug)]
struct Piece {
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u8>,
    text: String,
}

impl Feed {
    /// Repeats the query until the page is gone or no more results can come.
    pub(crate) async fn run(self, site: Arc<Site>, number: u64, feeder: mpsc::Sender<FeedMessage>) {
        let (results, cache) = (ResultSender { number, feeder }, &site.cache);
        // `None` means that the page is gone.
        let _: Option<()> = match self {
            Feed::Holders { region } => {
                repeat(&results, cache, LISTS_EVERY, move |snapshot, domain| {
                    holders(snapshot, domain, &region)
                })
                .await
            }
            Feed::Names(query) => {
                repeat(&results, cache, LISTS_EVERY, move |_, domain| names(domain, &query)).await
            }
            Feed::Hubs(query) => {
                let lister = Mutex::default();
                repeat(&results, cache, LISTS_EVERY, move |_, domain| hubs(domain, &lister, &query)).await
            }
            Feed::Process { domain: id } => {
                repeat(&results, cache, LISTS_EVERY, move |_, domain| process(domain, &id)).await
            }
            Feed::Threads(query) => {
                repeat(&results, cache, LISTS_EVERY, move |_, domain| threads(domain, &query)).await
            }
            Feed::History(query) => {
                let every = HISTORY_EVERY.max(Duration::from_millis(query.step_ms.into()));
                repeat(&results, cache, every, move |snapshot, domain| history(snapshot, domain, &query))
                    .await
            }
            Feed::Output { domain } => output(&results, cache, &domain).await,
            Feed::Console { node } => console(&results, &site, &node).await,
        };
    }
}

/// The answer to a query: rows, or an error message.
type Answer = Result<Rows, String>;

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Repeats a query at an interval.
async fn repeat(
    results: &ResultSender,
    cache: &StateCache,
    every: Duration,
    ask: impl Fn(&Snapshot, &Domain) -> Answer + Send + Sync + 'static,
) -> Option<()> {
    let ask = Arc::new(ask);
    loop {
        let (snapshot, ask) = (cache.snapshot(), Arc::clone(&ask));
        let asked = spawn_blocking(move || match &snapshot.domain {
            Some(domain) => ask(&snapshot, domain),
            None => Err("the machine has not been reached yet".to_owned()),
        });
        let result = match asked.await.ok()? {
            Ok(rows) => FeedResult::Rows(rows),
            Err(why) => FeedResult::Failed(why),
        };
        results.send(result).await?;
        sleep(every).await;
    }
}

fn holders(snapshot: &Snapshot, domain: &Domain, region: &str) -> Answer {
    let id = region_id(region).ok_or_else(|| error_text(view::Missing(format!("region '{region}'"))))?;
    let holders = view::holders(&snapshot.seen, &Machine::of(domain).holders(id).map_err(error_text)?);
    let rows: Vec<Row> = holders.iter().map(|row| Row::new(row.key.clone(), row)).collect();
    Ok(Rows { total: rows.len(), rows })
}

/// Parses a region's id, which pages write in the format of domain ids.
fn region_id(text: &str) -> Option<RegionId> {
    let id: DomainId = text.parse().ok()?;
    RegionId::from_bits(id.to_bits())
}

/// Name record.
#[derive(Serialize)]
struct NameRow<'a> {
    key: &'a str,
    owner: Option<String>,
    endpoint: bool,
    attributes: BTreeMap<&'a str, String>,
    version: u64,
}

fn names(domain: &Domain, query: &NamesQuery) -> Answer {
    let pattern = if query.pattern.trim().is_empty() { "*" } else { query.pattern.trim() };
    let text = match query.scope.as_str() {
        "" | "machine" => pattern.to_owned(),
        node => format!("@{node}/{pattern}"),
    };
    let records = domain.names().find(&text).map_err(error_text)?;
    let row = |record: &Record| {
        let shown = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            other => other.to_string(),
        };
        let attributes =
            record.attributes.iter().map(|(name, value)| (name.as_str(), shown(value))).collect();
        let owner = record.owner.map(|owner| owner.to_string());
        let (key, endpoint, version) = (record.name.as_str(), record.endpoint, record.version);
        Row::new(record.name.clone(), &NameRow { key, owner, endpoint, attributes, version })
    };
    let page = query.cut.of(&records, row);
    Ok(Rows { total: page.total, rows: page.rows })
}

/// Queries the servers of hubs. Connections of this domain are kept from one query to the next.
fn hubs(domain: &Domain, lister: &Mutex<Option<(DomainId, Task)>>, query: &HubsQuery) -> Answer {
    let mut lister = lock_unpoisoned(lister);
    let task = match lister.take().filter(|(of, _)| *of == domain.id()) {
        Some((_, task)) => task,
        None => Task::attach(domain).map_err(error_text)?.within(HUBS_WITHIN),
    };
    let hubs = task.list().map_err(error_text)?;
    *lister = Some((domain.id(), task));
    let rows: Vec<HubRow> = hubs.into_iter().map(|(node, status)| HubRow::new(node, status)).collect();
    let page = view::hubs(&rows, query);
    let rows = page.rows.iter().map(|row| Row::new(row.key.clone(), row)).collect();
    Ok(Rows { total: page.total, rows })
}

/// Queries the hub of a job.
fn job(domain: &Domain, id: &str) -> Result<ProcessReport, String> {
    let id = view::domain_id(id).map_err(error_text)?;
    tombolo_omp_process::report_of(domain, id).map_err(error_text)
}

fn process(domain: &Domain, id: &str) -> Answer {
    let row = view::process(id, &job(domain, id)?);
    Ok(Rows { total: 1, rows: vec![Row::new(row.key.clone(), &row)] })
}

fn threads(domain: &Domain, query: &ThreadsQuery) -> Answer {
    let page = view::threads(&job(domain, &query.domain)?, query);
    let rows = page.rows.iter().map(|row| Row::new(row.key.clone(), row)).collect();
    Ok(Rows { total: page.total, rows })
}

#[derive(Serialize)]
struct HistoryRow {
    key: &'static str,
    step_ms: u64,
    last_ms: u64,
    points: Vec<Option<u64>>,
}

fn history(snapshot: &Snapshot, domain: &Domain, query: &HistoryQuery) -> Answer {
    let part = part(snapshot, &query.part).ok_or_else(|| error_text(view::Missing(query.part.clone())))?;
    let step = Duration::from_millis(query.step_ms.into());
    let history = Machine::of(domain).history(part, query.measure.into(), step).map_err(error_text)?;
    let row = HistoryRow {
        key: "points",
        step_ms: u64::try_from(history.step.as_millis()).unwrap_or(u64::MAX),
        last_ms: history.last_ns / 1_000_000,
        points: history.points,
    };
    Ok(Rows { total: 1, rows: vec![Row::new(row.key.to_owned(), &row)] })
}

/// Parses a part as written by pages.
fn part(snapshot: &Snapshot, text: &str) -> Option<Part> {
    let (kind, name) = text.split_once(':')?;
    let nodes = || snapshot.seen.nodes.values();
    let node = |name: &str| -> Option<NodeId> {
        nodes().find(|node| node.info.name == name).map(|node| node.info.id)
    };
    match kind {
        "node" => node(name).map(Part::Node),
        "domain" => view::domain_id(name).ok().map(|domain| Part::Domain { domain }),
        "channel" => view::channel_id(name).ok().map(Part::Channel),
        // Node names may contain dashes.
        "link" => name.match_indices('-').find_map(|(at, _)| {
            let (a, b) = (node(&name[..at])?, node(&name[at + 1..])?);
            Some(Part::Link { a: a.min(b), b: a.max(b) })
        }),
        _ => None,
    }
}

/// Sends the output of a domain, from what the monitor still remembers.
async fn output(results: &ResultSender, cache: &StateCache, domain: &str) -> Option<()> {
    let id = match view::domain_id(domain) {
        Ok(id) => id,
        Err(missing) => return results.send(FeedResult::Failed(missing.to_string())).await,
    };
    let mut snapshots = cache.snapshots();
    let mut decoders = [Decoder::default(), Decoder::default()];
    let (mut after, mut first) = (0, true);
    loop {
        let snapshot = Arc::clone(&snapshots.borrow_and_update());
        let Some(asked) = snapshot.domain.clone() else {
            snapshots.changed().await.ok()?;
            continue;
        };
        let before = output_status(&snapshot, id);
        match spawn_blocking(move || Machine::of(&asked).remembered_output(id, after)).await.ok()? {
            Ok(output) => {
                after = output.next;
                let (ended, more) = (output.ended && !output.more, output.more);
                if first || ended || output.lost_bytes > 0 || !output.pieces.is_empty() {
                    results.send(FeedResult::Output(decoded(output, &mut decoders, ended))).await?;
                }
                first = false;
                if ended {
                    return Some(());
                }
                if more {
                    continue;
                }
            }
            // The page has all that was available. After a restart of the machine, the id may denote another
            // domain.
            Err(error) => return results.send(FeedResult::Failed(error.to_string())).await,
        }
        // Limit the rate of queries.
        sleep(OUTPUT_EVERY).await;
        drop(snapshots.wait_for(|snapshot| output_status(snapshot, id) != before).await.ok()?);
    }
}

/// Returns how many bytes a domain has written and whether it lives; `None` if it is no longer known.
fn output_status(snapshot: &Snapshot, id: DomainId) -> Option<(u64, bool)> {
    snapshot.seen.domains.get(&id).map(|domain| (domain.output_bytes, domain.exit.is_none()))
}

fn decoded(output: RememberedOutput, decoders: &mut [Decoder; 2], ended: bool) -> Output {
    let mut pieces: Vec<Piece> = Vec::new();
    for OutputPiece { stream, bytes } in output.pieces {
        let stream = if stream == 2 { 2 } else { 1 };
        let text = decoders[usize::from(stream) - 1].decode(&bytes);
        pieces.push(Piece { stream: Some(stream), text });
    }
    if ended {
        let ends = decoders.iter_mut().zip(1..).map(|(decoder, stream)| (decoder.finish(), stream));
        let ends = ends.filter(|(text, _)| !text.is_empty());
        pieces.extend(ends.map(|(text, stream)| Piece { stream: Some(stream), text: text.to_owned() }));
    }
    let binary = decoders.iter().any(|decoder| decoder.binary);
    Output { pieces, lost: output.lost_bytes, ended, binary }
}

/// Sets its flag when the view is closed.
struct DisconnectFlag(Arc<AtomicBool>);

impl Drop for DisconnectFlag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends the output of a node's console. Uses a separate domain, because console messages do not identify
/// their node.
async fn console(results: &ResultSender, site: &Site, node: &str) -> Option<()> {
    let Ok(permit) = Arc::clone(&site.consoles).try_acquire_owned() else {
        return results.send(FeedResult::Failed("too many consoles are open; close one".to_owned())).await;
    };
    let snapshot = site.cache.snapshot();
    if let MonitorState::Gone { why } = &snapshot.monitor {
        return results.send(FeedResult::Failed(why.clone())).await;
    }
    let (machine, node) = (snapshot.machine.clone(), node.to_owned());
    let opened = spawn_blocking(move || Machine::of(&Domain::attach_to_machine(&machine)?).console(&node))
        .await
        .ok()?;
    let console = match opened {
        Ok(console) => console,
        Err(error) => return results.send(FeedResult::Failed(error.to_string())).await,
    };
    let left = Arc::new(AtomicBool::new(false));
    let _leaving = DisconnectFlag(Arc::clone(&left));
    let (sender, mut read) = mpsc::channel(1);
    // Runs on a blocking thread, which ends shortly after the watch.
    spawn_blocking(move || {
        read_console(&console, &left, &sender);
        drop(permit);
    });
    let mut decoder = Decoder::default();
    results.send(FeedResult::Output(Output::default())).await?;
    while let Some(result) = read.recv().await {
        let (bytes, lost) = match result {
            Ok(output) => output,
            Err(why) => return results.send(FeedResult::Failed(why)).await,
        };
        let piece = Piece { stream: None, text: decoder.decode(&bytes) };
        let output = Output { pieces: vec![piece], lost, ended: false, binary: decoder.binary };
        results.send(FeedResult::Output(output)).await?;
    }
    Some(())
}

/// Bytes read from a console with the number of bytes lost before them, or why reading ended.
type ConsoleRead = Result<(Vec<u8>, u64), String>;

fn read_console(console: &Console, left: &AtomicBool, sender: &mpsc::Sender<ConsoleRead>) {
    while !left.load(Ordering::Relaxed) {
        let read = match console.read(CONSOLE_WAIT) {
            Ok(output) => Ok((output.bytes, output.dropped_bytes)),
            Err(Error::TimedOut { .. }) => continue,
            Err(error) => Err(error.to_string()),
        };
        let over = read.is_err();
        if sender.blocking_send(read).is_err() || over {
            return;
        }
    }
}
