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

use crate::cache::{MonitorState, Picture, StateCache, Viewer};
use crate::connection::ConnectionPermit;
use crate::feed::{Fed, Feed, HistoryQuery, NamesQuery, Output, Parcel};
use crate::rows::{Row, Rows, Sent, failure, to_json};
use crate::server::{Site, ended};
use crate::view::{
    self, ChannelsQuery, DomainsQuery, EventsQuery, HubsQuery, Page, RegionsQuery, ThreadsQuery,
};

/// Minimum interval between two updates of a page.
const PACE: Duration = Duration::from_millis(250);

/// Maximum number of watches of a page.
pub(crate) const MAX_WATCHES: usize = 32;

/// Maximum length of a page's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Interval between two pings.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Time without any message after which the page is considered gone.
const SILENCE: Duration = Duration::from_secs(100);

/// Time of a blocked send after which a page is considered asleep and no longer counts as a viewer.
const SLEEPS_AFTER: Duration = Duration::from_secs(5);

/// Timeout for a current picture when a page connects; then it is shown the last one.
const FRESH: Duration = Duration::from_millis(400);

/// Message from a page: all watches that it wants.
#[derive(Deserialize)]
struct Wanted {
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
    /// Returns the rows of a view that is computed from a picture alone; `None` for other views.
    fn rows(&self, picture: &Picture, steer: bool) -> Option<Result<Rows, view::Missing>> {
        let seen = &picture.seen;
        Some(Ok(match self {
            View::Machine => all([view::machine(picture, steer)], |row| row.key.to_owned()),
            View::Nodes => all(view::nodes(seen), |row| row.key.clone()),
            View::Links => all(view::links(seen), |row| row.key.clone()),
            View::Node { node } => match view::node(seen, node) {
                Ok(node) => all([node], |row| row.node.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Domains(query) => some(view::domains(seen, query), |row| row.key.clone()),
            View::Domain { domain } => match view::domain_id(domain).and_then(|id| view::domain(seen, id)) {
                Ok(domain) => all([domain], |row| row.domain.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Channels(query) => match view::channels(seen, query) {
                Ok(page) => some(page, |row| row.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Regions(query) => match view::regions(seen, query) {
                Ok(page) => some(page, |row| row.key.clone()),
                Err(missing) => return Some(Err(missing)),
            },
            View::Events(query) => some(view::events(seen, query), |row| row.key.clone()),
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

fn some<T: Serialize>(page: Page<T>, key: impl Fn(&T) -> String) -> Rows {
    let rows = page.rows.iter().map(|row| Row::new(key(row), row)).collect();
    Rows { total: page.total, rows }
}

/// Watched view, with the rows that the page has.
struct Watch {
    view: View,
    sent: Sent,
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
    feeder: mpsc::Sender<Parcel>,
}

impl Session {
    /// Handles a page's message and returns the replies that are due at once.
    fn want(&mut self, text: &str) -> Vec<String> {
        let wanted: Wanted = match serde_json::from_str(text) {
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
            let watch = kept.unwrap_or_else(|| self.begin(view));
            self.watches.insert(name.clone(), watch);
        }
        complaints
    }

    fn begin(&mut self, view: View) -> Watch {
        self.last_number += 1;
        let number = self.last_number;
        let feed = view.feed();
        let task =
            feed.map(|feed| tokio::spawn(feed.run(Arc::clone(&self.site), number, self.feeder.clone())));
        Watch { view, sent: Sent::default(), number, task }
    }

    /// Returns an update of the watch with this id, if its rows changed.
    fn update(&mut self, id: &str, picture: &Picture) -> Option<String> {
        let watch = self.watches.get_mut(id)?;
        match watch.view.rows(picture, self.site.guard.steers())? {
            Ok(rows) => watch.sent.update(id, rows),
            Err(missing) => watch.sent.fail(id, &missing.to_string()),
        }
    }

    /// Returns the message for a query's result, if there is something new.
    fn fed(&mut self, parcel: Parcel) -> Option<String> {
        let (id, watch) = self.watches.iter_mut().find(|(_, watch)| watch.number == parcel.number)?;
        match parcel.fed {
            Fed::Rows(rows) => watch.sent.update(id, rows),
            Fed::Failed(why) => watch.sent.fail(id, &why),
            Fed::Output(output) => Some(to_json(&OutputMessage { id, output })),
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
    looks: bool,
}

impl PageSocket {
    /// Sends a message, without a time limit; `None` if the page is gone. The page stops counting as a viewer
    /// if it takes longer than [`SLEEPS_AFTER`].
    async fn send(&mut self, message: Message) -> Option<()> {
        let sent = {
            let mut sending = std::pin::pin!(self.socket.send(message));
            match timeout(SLEEPS_AFTER, sending.as_mut()).await {
                Ok(sent) => sent,
                Err(_) => {
                    self.viewer = None;
                    sending.await
                }
            }
        };
        self.look(self.looks);
        sent.ok()
    }

    fn look(&mut self, looks: bool) {
        self.looks = looks;
        if looks {
            self.viewer.get_or_insert_with(|| self.cache.look());
        } else {
            self.viewer = None;
        }
    }
}

/// Serves a page until it disconnects.
async fn serve(socket: WebSocket, site: Arc<Site>) -> Option<()> {
    let cache = site.cache.clone();
    let mut pictures = cache.pictures();
    let (feeder, mut parcels) = mpsc::channel(1);
    let mut over = std::pin::pin!(ended(site.over.clone()));
    let mut line = PageSocket { socket, cache: cache.clone(), viewer: None, looks: false };
    let mut session = Session { site, watches: BTreeMap::new(), last_number: 0, feeder };
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut heard, mut pinged) = (Instant::now(), Instant::now());
    loop {
        tokio::select! {
            message = line.socket.recv() => {
                heard = Instant::now();
                match message?.ok()? {
                    Message::Text(text) => {
                        for text in session.want(&text) {
                            line.send(Message::Text(text.into())).await?;
                        }
                        line.look(!session.watches.is_empty());
                        if line.looks {
                            cache.fresh(FRESH).await;
                        }
                    }
                    Message::Binary(_) => line.send(Message::Text(failure(&Value::Null, "write text").into())).await?,
                    Message::Close(_) => return None,
                    Message::Ping(_) | Message::Pong(_) => continue,
                }
            }
            parcel = parcels.recv() => {
                if let Some(text) = session.fed(parcel?) {
                    line.send(Message::Text(text.into())).await?;
                }
                continue;
            }
            _ = ticks.tick() => {
                if pinged.elapsed() > PING_EVERY {
                    pinged = Instant::now();
                    line.send(Message::Ping(Vec::new().into())).await?;
                }
                if heard.elapsed() > SILENCE {
                    return None;
                }
                if !line.looks || !pictures.has_changed().ok()? {
                    continue;
                }
            }
            () = &mut over => {
                let frame = CloseFrame { code: close_code::AWAY, reason: Utf8Bytes::from_static("tombolo web ends") };
                return line.send(Message::Close(Some(frame))).await;
            }
        }
        let ids: Vec<String> = session.watches.keys().cloned().collect();
        for id in ids {
            // Use the latest picture, however long sending took.
            let picture = Arc::clone(&pictures.borrow_and_update());
            if !picture.is_there() && picture.monitor == MonitorState::Connected {
                // Nothing is known yet, which is different from an empty machine.
                continue;
            }
            if let Some(text) = session.update(&id, &picture) {
                line.send(Message::Text(text.into())).await?;
            }
        }
    }
}
