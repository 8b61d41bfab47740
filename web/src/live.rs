//! The WebSocket `/live`: sends pages the views that they watch, and their changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::cache::{MonitorState, Snapshot, StateCache, Viewer};
use crate::connection::ConnectionPermit;
use crate::feed::{Feed, FeedMessage, FeedResult, HistoryQuery, NamesQuery, Output};
use crate::rows::{Row, Rows, SentState, failure, to_json};
use crate::server::{Site, ended};
use crate::view::{
    self, ChannelsQuery, DomainsQuery, EventsQuery, HubsQuery, Page, RegionsQuery, ThreadsQuery,
};

/// Minimum interval between two updates of a page.
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of watches of a page.
pub(crate) const MAX_WATCHES: usize = 32;

/// Maximum length of a page's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Interval between two pings.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Time without any message after which the page is considered gone.
const IDLE_TIMEOUT: Duration = Duration::from_secs(100);

/// Time of a blocked send after which a page is considered asleep and no longer counts as a viewer.
const SEND_STALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for a current snapshot when a page connects; then it is shown the last one.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_millis(400);

/// Message from a page: all watches that it wants.
#[derive(Deserialize)]
struct WatchRequest {
    watch: Vec<Value>,
}

/// View that a page can watch.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(tag = "view", rename_all = "lowercase")]
enum View {
    Machine,
    Nodes,
    Links,
    Node { node: String },
    Domains(DomainsQuery),
    Domain { domain: String },
    Channels(ChannelsQuery),
    Regions(RegionsQuery),
    Events(EventsQuery),
    Holders { region: String },
    Names(NamesQuery),
    Hubs(HubsQuery),
    Process { domain: String },
    Threads(ThreadsQuery),
    History(HistoryQuery),
    Output { domain: String },
    Console { node: String },
}

impl View {
    /// Returns the rows of a view that is computed from a snapshot alone; `None` for other views.
    fn rows(&self, snapshot: &Snapshot, steer: bool) -> Option<Result<Rows, view::Missing>> {
        let seen = &snapshot.seen;
        Some(Ok(match self {
            View::Machine => all([view::machine(snapshot, steer)], |row| row.key.to_owned()),
            View::Nodes => all(view::nodes(seen), |row| row.key.clone()),
            View::Links => all(view::links(seen), |row| row.key.clone()),
            View::Node { node } => match view::node(seen, node) {
                Ok(node) => all([node], |row| row.node.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Domains(query) => keyed_rows(view::domains(seen, query), |row| row.key.clone()),
            View::Domain { domain } => match view::domain_id(domain).and_then(|id| view::domain(seen, id)) {
                Ok(domain) => all([domain], |row| row.domain.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Channels(query) => match view::channels(seen, query) {
                Ok(page) => keyed_rows(page, |row| row.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Regions(query) => match view::regions(seen, query) {
                Ok(page) => keyed_rows(page, |row| row.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Events(query) => keyed_rows(view::events(seen, query), |row| row.key.clone()),
            _ => return None,
        }))
    }

    /// Returns the query that is repeated for the view, if it needs one.
    fn feed(&self) -> Option<Feed> {
        Some(match self.clone() {
            View::Holders { region } => Feed::Holders { region },
            View::Names(query) => Feed::Names(query),
            View::Hubs(query) => Feed::Hubs(query),
            View::Process { domain } => Feed::Process { domain },
            View::Threads(query) => Feed::Threads(query),
            View::History(query) => Feed::History(query),
            View::Output { domain } => Feed::Output { domain },
            View::Console { node } => Feed::Console { node },
            _ => return None,
        })
    }
}

fn all<T: Serialize>(rows: impl IntoIterator<Item = T>, key: impl Fn(&T) -> String) -> Rows {
    let rows: Vec<Row> = rows.into_iter().map(|row| Row::new(key(&row), &row)).collect();
    Rows { total: rows.len(), rows }
}

fn keyed_rows<T: Serialize>(page: Page<T>, key: impl Fn(&T) -> String) -> Rows {
    let rows = page.rows.iter().map(|row| Row::new(key(row), row)).collect();
    Rows { total: page.total, rows }
}

/// Watched view, with the rows that the page has.
struct Watch {
    view: View,
    sent: SentState,
    /// Unique number, which distinguishes results for this watch from those for an earlier one of the same
    /// id.
    number: u64,
    /// Task that repeats its query; aborted on drop.
    task: Option<tokio::task::JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// State of a connected page.
struct Session {
    site: Arc<Site>,
    watches: BTreeMap<String, Watch>,
    last_number: u64,
    feeder: mpsc::Sender<FeedMessage>,
}

impl Session {
    /// Handles a page's message and returns the replies that are due at once.
    fn set_watches(&mut self, text: &str) -> Vec<String> {
        let wanted: WatchRequest = match serde_json::from_str(text) {
            Ok(wanted) => wanted,
            Err(error) => return vec![failure(&Value::Null, &format!("invalid request: {error}"))],
        };
        let mut complaints = Vec::new();
        let mut before = std::mem::take(&mut self.watches);
        for (index, value) in wanted.watch.into_iter().enumerate() {
            let id = value.get("id").cloned().unwrap_or_default();
            let Value::String(name) = &id else {
                complaints.push(failure(&id, "each watch needs an `id`, a string"));
                continue;
            };
            if index >= MAX_WATCHES {
                complaints
                    .push(failure(&id, &format!("a page may watch at most {MAX_WATCHES} things at a time")));
                continue;
            }
            let view: View = match View::deserialize(&value) {
                Ok(view) => view,
                Err(error) => {
                    complaints.push(failure(&id, &error.to_string()));
                    continue;
                }
            };
            let kept = before.remove(name).filter(|watch| watch.view == view);
            let watch = kept.unwrap_or_else(|| self.start_watch(view));
            self.watches.insert(name.clone(), watch);
        }
        complaints
    }

    fn start_watch(&mut self, view: View) -> Watch {
        self.last_number += 1;
        let number = self.last_number;
        let feed = view.feed();
        let task =
            feed.map(|feed| tokio::spawn(feed.run(Arc::clone(&self.site), number, self.feeder.clone())));
        Watch { view, sent: SentState::default(), number, task }
    }

    /// Returns an update of the watch with this id, if its rows changed.
    fn update(&mut self, id: &str, snapshot: &Snapshot) -> Option<String> {
        let watch = self.watches.get_mut(id)?;
        match watch.view.rows(snapshot, self.site.guard.steers())? {
            Ok(rows) => watch.sent.update(id, rows),
            Err(missing) => watch.sent.fail(id, &missing.to_string()),
        }
    }

    /// Returns the message for a query's result, if there is something new.
    fn handle_feed_message(&mut self, feed_message: FeedMessage) -> Option<String> {
        let (id, watch) = self.watches.iter_mut().find(|(_, watch)| watch.number == feed_message.number)?;
        match feed_message.result {
            FeedResult::Rows(rows) => watch.sent.update(id, rows),
            FeedResult::Failed(why) => watch.sent.fail(id, &why),
            FeedResult::Output(output) => Some(to_json(&OutputMessage { id, output })),
        }
    }
}

/// Message with new output of a program or a console.
#[derive(Serialize)]
struct OutputMessage<'a> {
    id: &'a str,
    #[serde(flatten)]
    output: Output,
}

/// `GET /live`
pub(crate) async fn live(
    upgrade: WebSocketUpgrade,
    State(site): State<Arc<Site>>,
    Extension(permit): Extension<ConnectionPermit>,
) -> Response {
    upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES).on_upgrade(
        async move |socket| {
            // `None` means that the page closed the connection.
            let _: Option<()> = serve(socket, site).await;
            drop(permit);
        },
    )
}

/// Socket of a page, with its registration as a viewer while it watches something.
struct PageSocket {
    socket: WebSocket,
    cache: StateCache,
    viewer: Option<Viewer>,
    viewing: bool,
}

impl PageSocket {
    /// Sends a message, without a time limit; `None` if the page is gone. The page stops counting as a viewer
    /// if it takes longer than [`SEND_STALL_TIMEOUT`].
    async fn send(&mut self, message: Message) -> Option<()> {
        let sent = {
            let mut sending = std::pin::pin!(self.socket.send(message));
            match timeout(SEND_STALL_TIMEOUT, sending.as_mut()).await {
                Ok(sent) => sent,
                Err(_) => {
                    self.viewer = None;
                    sending.await
                }
            }
        };
        self.set_viewing(self.viewing);
        sent.ok()
    }

    fn set_viewing(&mut self, viewing: bool) {
        self.viewing = viewing;
        if viewing {
            self.viewer.get_or_insert_with(|| self.cache.add_viewer());
        } else {
            self.viewer = None;
        }
    }
}

/// Serves a page until it disconnects.
async fn serve(socket: WebSocket, site: Arc<Site>) -> Option<()> {
    let cache = site.cache.clone();
    let mut snapshots = cache.snapshots();
    let (feeder, mut feed_messages) = mpsc::channel(1);
    let mut shutdown = std::pin::pin!(ended(site.shutdown.clone()));
    let mut page_socket = PageSocket { socket, cache: cache.clone(), viewer: None, viewing: false };
    let mut session = Session { site, watches: BTreeMap::new(), last_number: 0, feeder };
    let mut ticks = interval(UPDATE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last_received, mut pinged) = (Instant::now(), Instant::now());
    loop {
        tokio::select! {
            message = page_socket.socket.recv() => {
                last_received = Instant::now();
                match message?.ok()? {
                    Message::Text(text) => {
                        for text in session.set_watches(&text) {
                            page_socket.send(Message::Text(text.into())).await?;
                        }
                        page_socket.set_viewing(!session.watches.is_empty());
                        if page_socket.viewing {
                            cache.current(SNAPSHOT_TIMEOUT).await;
                        }
                    }
                    Message::Binary(_) => page_socket.send(Message::Text(failure(&Value::Null, "write text").into())).await?,
                    Message::Close(_) => return None,
                    Message::Ping(_) | Message::Pong(_) => continue,
                }
            }
            feed_message = feed_messages.recv() => {
                if let Some(text) = session.handle_feed_message(feed_message?) {
                    page_socket.send(Message::Text(text.into())).await?;
                }
                continue;
            }
            _ = ticks.tick() => {
                if pinged.elapsed() > PING_EVERY {
                    pinged = Instant::now();
                    page_socket.send(Message::Ping(Vec::new().into())).await?;
                }
                if last_received.elapsed() > IDLE_TIMEOUT {
                    return None;
                }
                if !page_socket.viewing || !snapshots.has_changed().ok()? {
                    continue;
                }
            }
            () = &mut shutdown => {
                let frame = CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::from_static("tombolo web ends") };
                return page_socket.send(Message::Close(Some(frame))).await;
            }
        }
        let ids: Vec<String> = session.watches.keys().cloned().collect();
        for id in ids {
            // Use the latest snapshot, however long sending took.
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            if !snapshot.is_there() && snapshot.monitor == MonitorState::Connected {
                // Nothing is known yet, which is different from an empty machine.
                continue;
            }
            if let Some(text) = session.update(&id, &snapshot) {
                page_socket.send(Message::Text(text.into())).await?;
            }
        }
    }
}
