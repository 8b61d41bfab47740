//! `tombolo top`

mod app;
mod details;
mod draw;
mod hubs;
mod keys;
mod lists;
mod machine_client;
mod screen;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use clap::Args;
use ratatui::backend::TestBackend;
use ratatui::{Terminal, TerminalOptions, Viewport};
use serde::Serialize;
use tombolo_admin::observe::NodePhase;
use tombolo_web::view::{self, DomainRow, DomainsQuery, HubRow, LinkRow, MachineRow, NodeRow, RowRange};
use tombolo_web::{Snapshot, StateCache};

use crate::context::{Context, print, print_json};
use crate::failure::Failure;

use app::{App, Tab};

/// Time that `--once` waits for a sample of each node.
const FIRST_SAMPLES: Duration = Duration::from_secs(4);

/// Width of a printed frame if no width is known.
const WIDTH: u16 = 100;

/// Shows a machine in the terminal, live
///
/// Shows the nodes with the load of each processor, domains, channels, links, events and hubs. Enter shows
/// the details of a domain and its latest output. With --steer, keys pause, resume and kill domains. `?`
/// lists the keys.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo top                  the machine that is up
  tombolo top --steer          with keys to pause, resume and kill domains
  tombolo top --view channels  the traffic
  tombolo top --view hubs      queues, semaphores and locks, and who waits there
  tombolo top --once           one frame, for a script or a report
  tombolo top --json | jq '.domains[] | select(.load > 500)'")]
pub(crate) struct Options {
    /// The view to start with
    #[arg(long, value_name = "VIEW", default_value = "domains")]
    view: Tab,

    /// Enable keys that pause, resume and kill domains
    #[arg(long)]
    steer: bool,

    /// Print one frame and exit
    #[arg(long)]
    once: bool,

    /// Print one frame as JSON
    #[arg(long, conflicts_with = "once")]
    json: bool,
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    let at_once = options.once || options.json;
    let on_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if !at_once && !on_terminal {
        return Err(Failure::Usage {
            message: "`tombolo top` needs a terminal".to_owned(),
            hint: Some("--once prints one frame, --json the same for machines"),
        });
    }
    let domain = context.attach_running()?;
    let cache = StateCache::start(&domain).map_err(Failure::system("start a thread"))?;
    drop(domain);
    let _viewer = cache.add_viewer();
    let mut app = App::new(options.view, options.steer, context.colour);
    if !at_once {
        return screen::run(&cache, app);
    }
    let snapshot = first_samples(&cache);
    if options.json || app.tab == Tab::Hubs {
        app.hubs = hubs::now(snapshot.domain());
    }
    if options.json { print_json(&Report::of(&snapshot, app.hubs)) } else { print(frame(app, &snapshot)?) }
}

/// Returns the state once every node that is up has sent a sample.
fn first_samples(cache: &StateCache) -> std::sync::Arc<Snapshot> {
    let until = Instant::now() + FIRST_SAMPLES;
    loop {
        let snapshot = cache.snapshot();
        let has_sample =
            |node: &tombolo_admin::observe::SeenNode| node.phase != NodePhase::Up || node.sample.is_some();
        if (snapshot.is_there() && snapshot.seen.nodes.values().all(has_sample)) || Instant::now() >= until {
            return snapshot;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Visible state, with stable keys: those of docs/specs/web.md.
#[derive(Serialize)]
struct Report {
    machine: MachineRow,
    nodes: Vec<NodeRow>,
    links: Vec<LinkRow>,
    domains: Vec<DomainRow>,
    hubs: Vec<HubRow>,
}

impl Report {
    fn of(snapshot: &Snapshot, hubs: Vec<HubRow>) -> Report {
        let mut domains = Vec::new();
        loop {
            let cut = RowRange { offset: domains.len(), limit: view::MAX_ROWS };
            let page = view::domains(&snapshot.seen, &DomainsQuery { cut, ..DomainsQuery::default() });
            let last = page.rows.is_empty();
            domains.extend(page.rows);
            if last {
                break;
            }
        }
        Report {
            machine: view::machine(snapshot, false),
            nodes: view::nodes(&snapshot.seen),
            links: view::links(&snapshot.seen),
            domains,
            hubs,
        }
    }
}

/// Formats one frame as text: the nodes, and the requested view in full length.
fn frame(mut app: App, snapshot: &Snapshot) -> Result<String, Failure> {
    let width = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok()).unwrap_or(WIDTH);
    let width = width.clamp(20, 500);
    let mut text = String::new();
    let tabs = if app.tab == Tab::Nodes { vec![Tab::Nodes] } else { vec![Tab::Nodes, app.tab] };
    for (index, tab) in tabs.into_iter().enumerate() {
        app.tab = tab;
        let rows = lists::total(snapshot, &app).min(100) as u16;
        let height = rows + draw::LINES_AROUND;
        let options = TerminalOptions { viewport: Viewport::Fullscreen };
        // Drawing into memory cannot fail.
        let Ok(mut terminal) = Terminal::with_options(TestBackend::new(width, height), options);
        let Ok(_) = terminal.draw(|frame| draw::draw_printed_part(frame, &mut app, snapshot, index == 0));
        let buffer = terminal.backend().buffer();
        for row in buffer.content.chunks(usize::from(width)) {
            let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            let line = line.trim_end();
            if !line.is_empty() {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    Ok(text)
}
