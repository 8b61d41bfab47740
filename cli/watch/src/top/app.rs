//! What is shown, and what keys do to that.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tombolo::DomainId;
use tombolo_web::view::{ChannelSort, DomainSort};

/// How long it is said what came of something.
const SAID_FOR: Duration = Duration::from_secs(6);

/// The longest filter, in characters.
const MAX_FILTER: usize = 64;

/// What can be looked at.
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
    /// What happened
    Events,
}

impl Tab {
    pub(super) const ALL: [Tab; 5] = [Tab::Nodes, Tab::Domains, Tab::Channels, Tab::Links, Tab::Events];

    pub(super) fn title(self) -> &'static str {
        match self {
            Tab::Nodes => "Nodes",
            Tab::Domains => "Domains",
            Tab::Channels => "Channels",
            Tab::Links => "Links",
            Tab::Events => "Events",
        }
    }

    fn turn(self, by: usize) -> Tab {
        let place = Tab::ALL.iter().position(|tab| *tab == self).unwrap_or(0);
        Tab::ALL[(place + by) % Tab::ALL.len()]
    }
}

/// What is to be done to a domain.
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
}

/// What keys are for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    /// Looking around.
    Browse,
    /// Typing a filter; what it was before.
    Filter(String),
    /// A domain is looked into.
    Details(DomainId),
    /// A question; what is behind it.
    Confirm(DomainId, Box<Mode>),
    /// The keys are shown.
    Help,
}

/// What a key asks for that this does not do by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    Quit,
    Steer(Action, DomainId),
    /// What this one wrote is to be shown.
    Look(DomainId),
}

/// The state of the screen.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct App {
    pub(super) tab: Tab,
    pub(super) mode: Mode,
    pub(super) steer: bool,
    pub(super) colour: bool,
    pub(super) filter: String,
    /// The row that is chosen, of all that match.
    pub(super) selected: usize,
    /// The first row that is shown.
    pub(super) first: usize,
    /// Rows that there are, and those that the screen shows, as it was drawn last.
    pub(super) total: usize,
    pub(super) page: usize,
    /// The domain in the row that is chosen, as it was drawn last.
    pub(super) under: Option<DomainId>,
    pub(super) domain_sort: DomainSort,
    pub(super) channel_sort: ChannelSort,
    /// Lines of output before the last ones that are shown.
    pub(super) back: usize,
    said: Option<(String, Instant)>,
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
            under: None,
            domain_sort: DomainSort::Load,
            channel_sort: ChannelSort::Rate,
            back: 0,
            said: None,
        }
    }

    /// Says something for a while.
    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.said = Some((text.into(), Instant::now()));
    }

    pub(super) fn said(&self) -> Option<&str> {
        let said = self.said.as_ref().filter(|(_, at)| at.elapsed() < SAID_FOR);
        said.map(|(text, _)| text.as_str())
    }

    /// Does what a key says.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<Command> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) && matches!(key.code, KeyCode::Char('c')) {
            return Some(Command::Quit);
        }
        match self.mode.clone() {
            Mode::Filter(before) => self.type_filter(key.code, before),
            Mode::Confirm(id, behind) => {
                self.mode = *behind;
                let yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
                yes.then_some(Command::Steer(Action::Kill, id))
            }
            Mode::Help => {
                self.mode = Mode::Browse;
                None
            }
            Mode::Details(id) => self.key_in_details(key.code, id),
            Mode::Browse => self.browse(key.code),
        }
    }

    fn type_filter(&mut self, code: KeyCode, before: String) -> Option<Command> {
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
        None
    }

    fn key_in_details(&mut self, code: KeyCode, id: DomainId) -> Option<Command> {
        match code {
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Left | KeyCode::Backspace | KeyCode::Enter => {
                self.mode = Mode::Browse;
            }
            KeyCode::Up => self.back = self.back.saturating_add(1),
            KeyCode::Down => self.back = self.back.saturating_sub(1),
            KeyCode::PageUp => self.back = self.back.saturating_add(self.page),
            KeyCode::PageDown => self.back = self.back.saturating_sub(self.page),
            KeyCode::End => self.back = 0,
            KeyCode::Char(letter) => return self.steer(letter, id),
            _ => {}
        }
        None
    }

    fn browse(&mut self, code: KeyCode) -> Option<Command> {
        let last = self.total.saturating_sub(1);
        match code {
            KeyCode::Char('q') => return Some(Command::Quit),
            KeyCode::Esc if self.filter.is_empty() => return Some(Command::Quit),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('/') => self.mode = Mode::Filter(self.filter.clone()),
            KeyCode::Tab | KeyCode::Right => self.show(self.tab.turn(1)),
            KeyCode::BackTab | KeyCode::Left => self.show(self.tab.turn(Tab::ALL.len() - 1)),
            KeyCode::Char(digit @ '1'..='5') => self.show(Tab::ALL[digit as usize - '1' as usize]),
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected = (self.selected + 1).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(self.page),
            KeyCode::PageDown => self.selected = (self.selected + self.page).min(last),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Char('s') => self.sort(),
            KeyCode::Enter => {
                let id = self.under?;
                (self.mode, self.back) = (Mode::Details(id), 0);
                return Some(Command::Look(id));
            }
            KeyCode::Char(letter) => return self.steer(letter, self.under?),
            _ => {}
        }
        None
    }

    fn show(&mut self, tab: Tab) {
        (self.tab, self.selected, self.first) = (tab, 0, 0);
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
            Tab::Nodes | Tab::Links | Tab::Events => self.say("these have one order only"),
        }
    }

    fn steer(&mut self, letter: char, id: DomainId) -> Option<Command> {
        let action = match letter {
            'p' => Action::Pause,
            'r' => Action::Resume,
            'k' => Action::Kill,
            _ => return None,
        };
        if !self.steer {
            self.say(format!("this only looks: `tombolo top --steer` could {} {id}", action.word()));
            return None;
        }
        if action == Action::Kill {
            self.mode = Mode::Confirm(id, Box::new(self.mode.clone()));
            return None;
        }
        Some(Command::Steer(action, id))
    }
}
