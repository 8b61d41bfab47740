//! Screens of a synthetic machine.

use std::num::NonZeroU16;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use tombolo::nodes::{NodeInfo, NodeKind, Target};
use tombolo::{ChannelId, DomainId, NodeId, TransportKind};
use tombolo_admin::observe::{
    CoreSample, DomainSample, EndSample, Flow, Happening, NodePhase, NodeSample, Seen, SeenChannel,
    SeenDomain, SeenEvent, SeenLink, SeenNode,
};
use tombolo_web::view::{HubRow, WaitingRow};
use tombolo_web::{MonitorState, Snapshot};

use super::app::{Action, App, Command, Mode, RowSubject, Tab};
use super::draw;
use super::keys;
use super::machine_client::DomainOutput;

fn node(id: u16, name: &str, target: &str, loads: &[u16]) -> SeenNode {
    let target = Target::from_name(target).unwrap();
    let core = |load: &u16| CoreSample {
        load_permille: *load,
        governor: 255,
        frequency_khz: 0,
        min_khz: 0,
        max_khz: 0,
        floor_khz: 0,
        ceiling_khz: 0,
    };
    let sample = NodeSample {
        cores: loads.iter().map(core).collect(),
        governors: Vec::new(),
        memory_used_bytes: 1 << 30,
        memory_bytes: 4 << 30,
        power: Vec::new(),
        speed: 1000,
        period_ms: 1000,
        cost_ppm: 100,
        own_load_permille: 0,
    };
    SeenNode {
        info: NodeInfo {
            up: true,
            cause: String::new(),
            cores: loads.len() as u16,
            domains: 2,
            pid: 7,
            ..NodeInfo::new(NodeId(id), name, NodeKind::Vm, target.isa)
        },
        phase: NodePhase::Up,
        target,
        sample: Some(sample),
        sampled_ns: 0,
        engines: Vec::new(),
    }
}

fn id(index: u32) -> DomainId {
    DomainId::new(NodeId(0), NonZeroU16::MIN, index)
}

fn domain(index: u32, program: &str, load_permille: u32) -> SeenDomain {
    SeenDomain {
        id: id(index),
        node: NodeId(0),
        program: program.into(),
        arguments: String::new(),
        pid: 100,
        parent: Some(id(1)),
        since_ns: 0,
        exit: None,
        ended_ns: 0,
        paused: index == 3,
        restartable: false,
        repeatable: true,
        channels: 1,
        output_bytes: 0,
        sample: Some(DomainSample {
            domain: id(index),
            load_permille,
            resident_bytes: 3 << 20,
            threads: 2,
            stopped: false,
        }),
    }
}

fn machine() -> Seen {
    let mut seen = Seen { now_ns: 75_000_000_000, ..Seen::default() };
    let mut down = node(1, "arm0", "aarch64", &[]);
    (down.phase, down.sample, down.info.cause) = (NodePhase::Down, None, "killed".into());
    for node in [node(0, "host", "x86_64", &[20, 400, 990, 1000]), down] {
        seen.nodes.insert(node.info.id, node);
    }
    for domain in [domain(2, "work\u{1b}[31m --all", 990), domain(3, "idle", 0), domain(4, "ping", 250)] {
        seen.domains.insert(domain.id, domain);
    }
    let event = SeenEvent {
        number: 1,
        at_ns: 70_000_000_000,
        happening: Happening::NODE_DOWN,
        node: Some(NodeId(1)),
        domain: None,
        text: "killed".into(),
    };
    seen.events.insert(1, event);
    seen
}

/// Returns a sample of an end of channel 7, which a ping-pong uses: `sent` and `received` count its messages.
fn end(index: u32, accepting: bool, sent: u64, received: u64) -> EndSample {
    EndSample {
        domain: id(index),
        channel: ChannelId(7),
        accepting,
        transport: TransportKind::Shm,
        peer: None,
        open: true,
        sent,
        sent_bytes: sent * 8,
        received,
        received_bytes: received * 8,
        rings: 1,
        sleeps: 2,
        stalls: 3,
        slots: 64,
        credit_slots: 63,
        max_message_bytes: 8,
    }
}

/// Returns the same machine with three rows or more in each view.
fn crowded() -> Snapshot {
    let mut seen = machine();
    let mut user = node(2, "s390x", "s390x", &[]);
    user.info.kind = NodeKind::User;
    user.info.cores = 4;
    let sample = user.sample.as_mut().unwrap();
    (sample.own_load_permille, sample.memory_used_bytes, sample.memory_bytes) = (700, 12 << 20, 0);
    seen.nodes.insert(NodeId(2), user);
    let flow = Flow { rate_mhz: 58_300_000, bytes_per_s: 466_400 };
    for number in 6..9 {
        let channel = SeenChannel {
            id: ChannelId(number),
            connecting: Some(end(2, false, 61_000, 60_999)),
            accepting: Some(end(3, true, 50_000, 50_000)),
            forth: flow,
            back: flow,
            via: Vec::new(),
        };
        seen.channels.insert(channel.id, channel);
    }
    for (a, b) in [(0, 1), (0, 2), (1, 2)] {
        let (a, b, transport) = (NodeId(a), NodeId(b), TransportKind::Window);
        let link = SeenLink { a, b, transport, channels: 1, forth: flow, back: flow, round_trip_ns: 900 };
        seen.links.insert((a, b), link);
    }
    for number in 2..5 {
        let event = SeenEvent {
            number,
            at_ns: number,
            happening: Happening::DOMAIN_STARTED,
            node: Some(NodeId(0)),
            domain: Some(id(2)),
            text: String::new(),
        };
        seen.events.insert(number, event);
    }
    Snapshot::of("duo", seen, MonitorState::Connected)
}

fn snapshot() -> Snapshot {
    Snapshot::of("duo", machine(), MonitorState::Connected)
}

/// Returns the screen, line by line without the blanks at their ends.
fn screen(app: &mut App, snapshot: &Snapshot, output: &DomainOutput, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::screen(frame, app, snapshot, output)).unwrap();
    let cells = &terminal.backend().buffer().content;
    let line = |row: &[ratatui::buffer::Cell]| -> String {
        let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    cells.chunks(usize::from(width)).map(line).collect()
}

fn shown(app: &mut App, width: u16, height: u16) -> String {
    screen(app, &snapshot(), &DomainOutput::default(), width, height)
}

fn press(app: &mut App, code: KeyCode) -> Option<Command> {
    app.key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn domains_are_listed_by_load() {
    let mut app = App::new(Tab::Domains, false, true);
    assert_eq!(
        shown(&mut app, 80, 8),
        "\
duo  1 of 2 nodes up  3 domains  0 channels  load 2.41  0/s  0 B/s
 1 Nodes  2 Domains  3 Channels  4 Links  5 Events  6 Hubs
DOMAIN NODE LOAD MEMORY THREADS CHANNELS    AGE STATE  PROGRAM
0.1.2  host 0.99  3 MiB       2        1 1m 15s        work\u{fffd}[31m --all
0.1.4  host 0.25  3 MiB       2        1 1m 15s        ping
0.1.3  host 0.00  3 MiB       2        1 1m 15s paused idle

? keys  / find  s sort  Enter details  q leave  1 of 3  by load
"
    );
}

#[test]
fn nodes_show_each_processor_and_why_they_are_down() {
    let mut app = App::new(Tab::Nodes, false, true);
    let text = shown(&mut app, 90, 7);
    assert!(text.contains("host x86_64  up           2.41 1 GiB of 4 GiB       2     - ▁▄██\n"), "{text}");
    assert!(text.contains("arm0 aarch64 down: killed    -              -       2     -\n"), "{text}");
}

#[test]
fn narrow_terminals_keep_what_matters() {
    let mut app = App::new(Tab::Domains, false, true);
    let text = shown(&mut app, 30, 6);
    assert!(
        text.contains("DOMAIN LOAD PROGRAM\n") || text.contains("DOMAIN LOAD STATE  PROGRAM\n"),
        "{text}"
    );
    for (width, height) in [(1, 1), (3, 2), (10, 3), (200, 60)] {
        for tab in Tab::ALL {
            let _ = shown(&mut App::new(tab, true, false), width, height);
        }
    }
}

#[test]
fn selected_row_stays_visible() {
    let mut app = App::new(Tab::Domains, false, true);
    let _ = shown(&mut app, 80, 6);
    assert_eq!((app.page, app.total, app.selected_subject), (2, 3, Some(RowSubject::Domain(id(2)))));
    press(&mut app, KeyCode::End);
    let text = shown(&mut app, 80, 6);
    assert_eq!((app.first, app.selected_subject), (1, Some(RowSubject::Domain(id(3)))));
    assert!(text.contains("idle") && text.contains("ping") && !text.contains("work"), "{text}");
    press(&mut app, KeyCode::Home);
    let _ = shown(&mut app, 80, 6);
    assert_eq!((app.first, app.selected_subject), (0, Some(RowSubject::Domain(id(2)))));
}

#[test]
fn lists_are_filtered_by_words() {
    let mut app = App::new(Tab::Domains, false, true);
    press(&mut app, KeyCode::Char('/'));
    for c in "PINGx".chars() {
        press(&mut app, KeyCode::Char(c));
    }
    press(&mut app, KeyCode::Backspace);
    let text = shown(&mut app, 80, 8);
    assert!(text.contains("/PING") && text.contains("0.1.4") && !text.contains("0.1.2"), "{text}");
    press(&mut app, KeyCode::Enter);
    assert_eq!((app.mode.clone(), app.filter.as_str()), (Mode::Browse, "PING"));
    press(&mut app, KeyCode::Esc);
    assert!(shown(&mut app, 80, 8).contains("0.1.2"));
}

#[test]
fn steering_needs_to_be_asked_for_and_killing_to_be_confirmed() {
    let mut app = App::new(Tab::Domains, false, true);
    let _ = shown(&mut app, 80, 8);
    assert_eq!(press(&mut app, KeyCode::Char('k')), None);
    assert!(shown(&mut app, 80, 8).contains("this only looks: `tombolo top --steer` could kill 0.1.2"));
    let mut app = App::new(Tab::Domains, true, true);
    let _ = shown(&mut app, 80, 8);
    assert_eq!(press(&mut app, KeyCode::Char('p')), Some(Command::Steer(Action::Pause, id(2))));
    assert_eq!(press(&mut app, KeyCode::Char('r')), Some(Command::Steer(Action::Resume, id(2))));
    assert_eq!(press(&mut app, KeyCode::Char('k')), None);
    assert!(shown(&mut app, 80, 8).contains("kill 0.1.2 and what it started?"));
    assert_eq!(press(&mut app, KeyCode::Enter), None);
    assert_eq!(app.mode, Mode::Browse, "any key but y is a no");
    press(&mut app, KeyCode::Char('k'));
    assert_eq!(press(&mut app, KeyCode::Char('y')), Some(Command::Steer(Action::Kill, id(2))));
}

#[test]
fn domain_details_show_its_output() {
    let mut app = App::new(Tab::Domains, false, true);
    let _ = shown(&mut app, 80, 8);
    assert_eq!(press(&mut app, KeyCode::Enter), Some(Command::ShowOutput(id(2))));
    let lines: String = (1..=20).map(|line| format!("line {line}\x1b[2J\n")).collect();
    let output = DomainOutput { of: Some(id(2)), text: lines, error: None };
    let text = screen(&mut app, &snapshot(), &output, 80, 10);
    assert!(text.contains("0.1.2 on host  process 100  started 1m 15s ago by 0.1.1\n"), "{text}");
    assert!(text.contains("line 18\u{fffd}[2J\nline 19\u{fffd}[2J\nline 20\u{fffd}[2J\n"), "{text}");
    press(&mut app, KeyCode::Up);
    let text = screen(&mut app, &snapshot(), &output, 80, 10);
    assert!(text.contains("line 19") && !text.contains("line 20"), "{text}");
    press(&mut app, KeyCode::Esc);
    assert_eq!(app.mode, Mode::Browse);
    // A domain that has ended meanwhile.
    app.mode = Mode::Details(RowSubject::Domain(id(9)));
    let text = screen(&mut app, &snapshot(), &DomainOutput::default(), 80, 10);
    assert!(text.contains("0.1.9 is no longer known"), "{text}");
}

#[test]
fn lost_monitor_is_shown() {
    let gone = Snapshot::of("duo", machine(), MonitorState::Gone { why: "the monitor is gone".into() });
    let text = screen(&mut App::new(Tab::Events, false, true), &gone, &DomainOutput::default(), 80, 6);
    assert!(text.starts_with("duo  as it was before: the monitor is gone\n"), "{text}");
    assert!(text.contains("5.0 s node down arm0 -      killed\n"), "{text}");
}

#[test]
fn without_colours_there_are_none() {
    let colours = |colour| {
        let mut terminal = Terminal::new(TestBackend::new(80, 8)).unwrap();
        let mut app = App::new(Tab::Domains, false, colour);
        terminal.draw(|frame| draw::screen(frame, &mut app, &snapshot(), &DomainOutput::default())).unwrap();
        let cells = terminal.backend().buffer().content.clone();
        assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)), "the choice shows");
        cells.iter().filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert!(colours(true) > 0);
    assert_eq!(colours(false), 0);
}

#[test]
fn keys_are_shown_and_leave() {
    let mut app = App::new(Tab::Domains, false, true);
    press(&mut app, KeyCode::Char('?'));
    assert!(shown(&mut app, 100, 16).contains("details of a node, domain, channel or link"));
    press(&mut app, KeyCode::Char('x'));
    assert_eq!(app.mode, Mode::Browse);
    assert_eq!(press(&mut app, KeyCode::Char('q')), Some(Command::Quit));
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.key(interrupt), Some(Command::Quit));
    for (key, tab) in [('1', Tab::Nodes), ('5', Tab::Events), ('6', Tab::Hubs)] {
        press(&mut app, KeyCode::Char(key));
        assert_eq!(app.tab, tab);
    }
    press(&mut app, KeyCode::Tab);
    assert_eq!(app.tab, Tab::Nodes);
}

/// Returns hubs owned by a domain, each with a waiter.
fn locks() -> Vec<HubRow> {
    let lock = |key: &str| HubRow {
        key: key.to_owned(),
        kind: "resource",
        node: "host".to_owned(),
        capacity: 1,
        depth: 0,
        held: 1,
        owner: Some("0.1.2".to_owned()),
        fencing_token: Some(7),
        inheritance: Some(true),
        inherited: Some(9),
        closed: false,
        putters: Vec::new(),
        getters: vec![WaitingRow { priority: 9, count: 1 }],
    };
    ["guard", "lid", "rope"].map(lock).to_vec()
}

#[test]
fn hubs_show_who_waits_and_what_is_inherited() {
    let mut app = App::new(Tab::Hubs, false, true);
    app.hubs = locks();
    let text = screen(&mut app, &crowded(), &DomainOutput::default(), 100, 8);
    let row = text.lines().find(|line| line.starts_with("guard")).expect("a row");
    for word in ["resource", "host", "9×1", "0.1.2", "inherits 9"] {
        assert!(row.contains(word), "{word}: {text}");
    }
    app.filter = "lid".to_owned();
    assert!(!screen(&mut app, &crowded(), &DomainOutput::default(), 100, 8).contains("guard"));
}

/// Returns every key of a terminal that could be bound.
fn all_keys() -> impl Iterator<Item = KeyCode> {
    let named = [
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Insert,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::F(1),
    ];
    named.into_iter().chain((' '..='~').map(KeyCode::Char))
}

#[test]
fn a_key_does_something_in_every_view_exactly_if_the_help_shows_it() {
    let snapshot = crowded();
    for (tab, steer) in Tab::ALL.into_iter().flat_map(|tab| [(tab, false), (tab, true)]) {
        let mut list = App::new(tab, steer, true);
        list.hubs = locks();
        let _ = screen(&mut list, &snapshot, &DomainOutput::default(), 100, 12);
        list.selected = 1;
        let _ = screen(&mut list, &snapshot, &DomainOutput::default(), 100, 12);
        let mut details = list.clone();
        let _ = press(&mut details, KeyCode::Enter);
        assert!(matches!(details.mode, Mode::Details(_)), "{tab:?}");
        details.scrolled = 5;
        for (app, bindings) in [(&list, keys::IN_LISTS), (&details, keys::IN_DETAILS)] {
            let mut behind_help = app.clone();
            let _ = press(&mut behind_help, KeyCode::Char('?'));
            let help = screen(&mut behind_help, &snapshot, &DomainOutput::default(), 120, 40);
            for binding in bindings {
                let line = help.lines().find(|line| line.contains(binding.what));
                assert!(line.is_some_and(|line| line.contains(binding.shown)), "{help}");
            }
            for code in all_keys() {
                let mut pressed = app.clone();
                let command = press(&mut pressed, code);
                let does = command.is_some() || pressed != *app;
                let bound = keys::meaning(bindings, code).is_some();
                assert_eq!(does, bound, "{code:?} in {tab:?}, {:?}", app.mode);
            }
        }
    }
}

#[test]
fn each_row_has_details() {
    let snapshot = crowded();
    for (tab, expected) in [
        (Tab::Nodes, "kind        vm, x86_64, generation 1"),
        (Tab::Domains, "started 1m 15s ago"),
        (Tab::Channels, "58k             58k"),
        (Tab::Links, "round trip  900 ns"),
        (Tab::Events, "0.1.2 on host"),
        (Tab::Hubs, "started 1m 15s ago"),
    ] {
        let mut app = App::new(tab, false, true);
        app.hubs = locks();
        let _ = screen(&mut app, &snapshot, &DomainOutput::default(), 100, 30);
        press(&mut app, KeyCode::Enter);
        let text = screen(&mut app, &snapshot, &DomainOutput::default(), 100, 30);
        assert!(text.contains(expected), "{tab:?}: {text}");
        // The digits switch to another view from there.
        press(&mut app, KeyCode::Char('4'));
        assert_eq!((app.mode, app.tab), (Mode::Browse, Tab::Links));
    }
}

#[test]
fn only_domains_are_paused_and_the_others_say_so() {
    let mut app = App::new(Tab::Nodes, true, true);
    let _ = screen(&mut app, &crowded(), &DomainOutput::default(), 100, 12);
    assert_eq!(press(&mut app, KeyCode::Char('k')), None);
    let text = screen(&mut app, &crowded(), &DomainOutput::default(), 100, 12);
    assert!(text.contains("only a domain can be killed: select one in view 2"), "{text}");
    // A letter with Ctrl is a different key.
    let mut app = App::new(Tab::Domains, true, true);
    let _ = screen(&mut app, &crowded(), &DomainOutput::default(), 100, 12);
    assert_eq!(app.key(KeyEvent::new(KeyCode::Char('k'), KeyModifiers::CONTROL)), None);
    assert_eq!(app.mode, Mode::Browse);
}

#[test]
fn ping_pong_has_about_one_message_each_way() {
    let mut app = App::new(Tab::Channels, false, true);
    let text = screen(&mut app, &crowded(), &DomainOutput::default(), 110, 8);
    assert!(text.contains(" ≈2 "), "{text}");
}

#[test]
fn user_nodes_show_own_processes_and_are_not_summed() {
    let mut app = App::new(Tab::Nodes, false, true);
    let text = screen(&mut app, &crowded(), &DomainOutput::default(), 110, 8);
    assert!(text.contains("load 2.41"), "the sum is the host's: {text}");
    let row = text.lines().find(|line| line.starts_with("s390x")).unwrap();
    assert!(row.contains("0.70") && row.contains("12 MiB of host's"), "{text}");
}
