//! State of the screen, and the effect of keys on it.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tombolo::{ChannelId, DomainId, NodeId};
use tombolo_web::view::{ChannelSort, DomainSort, HubRow};

use super::keys::{self, Key};

/// Time that a message is shown.
const MESSAGE_DURATION: Duration = Duration::from_secs(6);

/// Maximum length of a filter, in characters.
const MAX_FILTER: usize = 64;

/// Views of the screen.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tab {
    /// Nodes, with each processor
    Nodes,
    /// Domains
    Domains,
    /// Channels, by what passes
    Channels,
    /// Links between nodes
    Links,
    /// Latest events
    Events,
    /// Hubs, with who waits there
    Hubs,
}

impl Tab {
    pub(super) const ALL: [Tab; 6] =
        [Tab::Nodes, Tab::Domains, Tab::Channels, Tab::Links, Tab::Events, Tab::Hubs];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Nodes => "Nodes",
            Tab::Domains => "Domains",
            Tab::Channels => "Channels",
            Tab::Links => "Links",
            Tab::Events => "Events",
            Tab::Hubs => "Hubs",
        }
    }

    fn offset_by(self, by: usize) -> Tab {
        let place = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        Tab::ALL[(place + by) % Tab::ALL.len()]
    }
}

/// Subject of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowSubject {
    Domain(DomainId),
    Node(NodeId),
    Channel(ChannelId),
    Link(NodeId, NodeId),
}

/// Action on a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Pause,
    Resume,
    Kill,
}

impl Action {
    pub(super) fn word(self) -> &'static str {
        match self {
            Action::Pause => "pause",
            Action::Resume => "resume",
            Action::Kill => "kill",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Action::Pause => "paused",
            Action::Resume => "resumed",
            Action::Kill => "killed",
        }
    }
}

/// Input mode of the keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Browsing a list.
    Browse,
    /// Typing a filter; holds the previous one.
    Filter(String),
    /// Showing the details of a row.
    Details(RowSubject),
    /// Asking for confirmation; holds the mode to return to.
    Confirm(DomainId, Box<Mode>),
    /// Showing the keys; holds the mode to return to.
    Help(Box<Mode>),
}

impl Mode {
    /// Returns the subject of the details shown, even behind a question or the help.
    pub(super) fn details(&self) -> Option<RowSubject> {
        match self {
            Mode::Details(subject) => Some(*subject),
            Mode::Confirm(_, behind) | Mode::Help(behind) => behind.details(),
            Mode::Browse | Mode::Filter(_) => None,
        }
    }
}

/// Request of a key that the caller must carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Quit,
    Steer(Action, DomainId),
    /// Show the output of this domain.
    ShowOutput(DomainId),
}

/// State of the screen.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct App {
    pub(super) tab: Tab,
    pub(super) mode: Mode,
    pub(super) steer: bool,
    pub(super) colour: bool,
    pub(super) filter: String,
    /// Index of the selected row among all that match.
    pub(super) selected: usize,
    /// Index of the first visible row.
    pub(super) first: usize,
    /// Number of rows in total, and of visible ones, when last drawn.
    pub(super) total: usize,
    pub(super) page: usize,
    /// Subject of the selected row when last drawn.
    pub(super) selected_subject: Option<RowSubject>,
    pub(super) domain_sort: DomainSort,
    pub(super) channel_sort: ChannelSort,
    /// Recent state of the hubs.
    pub(super) hubs: Vec<HubRow>,
    /// Number of lines scrolled in the details: from the end of a domain's output, or from the first line of
    /// anything else.
    pub(super) scrolled: usize,
    message: Option<(String, Instant)>,
}

impl App {
    pub(super) fn new(tab: Tab, steer: bool, colour: bool) -> App {
        App {
            tab,
            mode: Mode::Browse,
            steer,
            colour,
            filter: String::new(),
            selected: 0,
            first: 0,
            total: 0,
            page: 1,
            selected_subject: None,
            domain_sort: DomainSort::Load,
            channel_sort: ChannelSort::Rate,
            hubs: Vec::new(),
            scrolled: 0,
            message: None,
        }
    }

    /// Shows a message for a while.
    pub(super) fn show_message(&mut self, text: impl Into<String>) {
        self.message = Some((text.into(), Instant::now()));
    }

    pub(super) fn message(&self) -> Option<&str> {
        let message = self.message.as_ref().filter(|(_, at)| at.elapsed() < MESSAGE_DURATION);
        message.map(|(text, _)| text.as_str())
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Command> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return matches!(key.code, KeyCode::Char('c')).then_some(Command::Quit);
        }
        match self.mode.clone() {
            Mode::Filter(before) => self.type_filter(key.code, before),
            Mode::Confirm(id, behind) => {
                self.mode = *behind;
                let yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
                return yes.then_some(Command::Steer(Action::Kill, id));
            }
            Mode::Help(behind) => self.mode = *behind,
            Mode::Details(subject) => {
                let key = keys::meaning(keys::IN_DETAILS, key.code)?;
                return self.handle_details_key(key, subject);
            }
            Mode::Browse => return self.handle_list_key(keys::meaning(keys::IN_LISTS, key.code)?),
        }
        None
    }

    fn type_filter(&mut self, code: KeyCode, before: String) {
        match code {
            KeyCode::Enter => self.mode = Mode::Browse,
            KeyCode::Esc => (self.filter, self.mode) = (before, Mode::Browse),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if !c.is_control() && self.filter.chars().count() < MAX_FILTER => {
                self.filter.push(c);
            }
            _ => {}
        }
        (self.selected, self.first) = (0, 0);
    }

    fn handle_details_key(&mut self, key: Key, subject: RowSubject) -> Option<Command> {
        // A domain's output is shown from its end, everything else from its beginning.
        let from_end = matches!(subject, RowSubject::Domain(_));
        let mut scroll = |lines: usize, up: bool| {
            let further = if up == from_end { usize::saturating_add } else { usize::saturating_sub };
            self.scrolled = further(self.scrolled, lines);
        };
        match key {
            Key::Up => scroll(1, true),
            Key::Down => scroll(1, false),
            Key::PageUp => scroll(self.page, true),
            Key::PageDown => scroll(self.page, false),
            Key::First => scroll(usize::MAX, true),
            Key::Last => scroll(usize::MAX, false),
            Key::Back => self.mode = Mode::Browse,
            key => return self.handle_common_key(key, Some(subject)),
        }
        None
    }

    fn handle_list_key(&mut self, key: Key) -> Option<Command> {
        let last = self.total.saturating_sub(1);
        match key {
            Key::Quit => return Some(Command::Quit),
            Key::Clear if self.filter.is_empty() => return Some(Command::Quit),
            Key::Clear => self.filter.clear(),
            Key::Find => self.mode = Mode::Filter(self.filter.clone()),
            Key::Up => self.selected = self.selected.saturating_sub(1),
            Key::Down => self.selected = (self.selected + 1).min(last),
            Key::PageUp => self.selected = self.selected.saturating_sub(self.page),
            Key::PageDown => self.selected = (self.selected + self.page).min(last),
            Key::First => self.selected = 0,
            Key::Last => self.selected = last,
            Key::Sort => self.sort(),
            Key::Open => return self.open(),
            key => return self.handle_common_key(key, self.selected_subject),
        }
        None
    }

    /// Handles keys that work in both lists and details, for the given row.
    fn handle_common_key(&mut self, key: Key, subject: Option<RowSubject>) -> Option<Command> {
        match key {
            Key::Help => self.mode = Mode::Help(Box::new(self.mode.clone())),
            Key::View(index) => self.show(Tab::ALL[index]),
            Key::NextView => self.show(self.tab.offset_by(1)),
            Key::PreviousView => self.show(self.tab.offset_by(Tab::ALL.len() - 1)),
            Key::Steer(action) => return self.steer(action, subject),
            _ => {}
        }
        None
    }

    fn open(&mut self) -> Option<Command> {
        let Some(subject) = self.selected_subject else {
            self.show_message(match self.tab {
                _ if self.total == 0 => "there is no row",
                Tab::Hubs => "this hub has no owner",
                _ => "this event is of no node and no domain",
            });
            return None;
        };
        (self.mode, self.scrolled) = (Mode::Details(subject), 0);
        match subject {
            RowSubject::Domain(id) => Some(Command::ShowOutput(id)),
            _ => None,
        }
    }

    fn show(&mut self, tab: Tab) {
        (self.mode, self.tab, self.selected, self.first) = (Mode::Browse, tab, 0, 0);
    }

    fn sort(&mut self) {
        match self.tab {
            Tab::Domains => {
                self.domain_sort = match self.domain_sort {
                    DomainSort::Load => DomainSort::Memory,
                    DomainSort::Memory => DomainSort::Program,
                    DomainSort::Program => DomainSort::Node,
                    DomainSort::Node => DomainSort::Since,
                    DomainSort::Since => DomainSort::Id,
                    DomainSort::Id => DomainSort::Load,
                };
            }
            Tab::Channels => {
                self.channel_sort = match self.channel_sort {
                    ChannelSort::Rate => ChannelSort::Bytes,
                    ChannelSort::Bytes => ChannelSort::Depth,
                    ChannelSort::Depth => ChannelSort::Id,
                    ChannelSort::Id => ChannelSort::Rate,
                };
            }
            Tab::Nodes | Tab::Links | Tab::Events | Tab::Hubs => {
                self.show_message("only domains and channels can be sorted");
            }
        }
    }

    fn steer(&mut self, action: Action, subject: Option<RowSubject>) -> Option<Command> {
        let Some(RowSubject::Domain(id)) = subject else {
            self.show_message(format!("only a domain can be {}: select one in view 2", action.done()));
            return None;
        };
        if !self.steer {
            self.show_message(format!("this only looks: `tombolo top --steer` could {} {id}", action.word()));
            return None;
        }
        if action == Action::Kill {
            self.mode = Mode::Confirm(id, Box::new(self.mode.clone()));
            return None;
        }
        Some(Command::Steer(action, id))
    }
}
