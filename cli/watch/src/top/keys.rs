//! Key bindings with their help texts. Other keys do nothing.

use ratatui::crossterm::event::KeyCode;

use super::app::Action;

/// Effect of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    /// Ends the program.
    Quit,
    /// Ends the filter if there is one, else the program.
    Clear,
    /// Goes back from details to the list.
    Back,
    /// Opens the details of the selected row.
    Open,
    Help,
    Find,
    Sort,
    /// Shows the view of this index.
    View(usize),
    NextView,
    PreviousView,
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    Steer(Action),
}

/// A line of the help, and the keys that it describes.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) shown: &'static str,
    pub(super) what: &'static str,
    pub(super) keys: &'static [(KeyCode, Key)],
}

const fn bind(shown: &'static str, what: &'static str, keys: &'static [(KeyCode, Key)]) -> Binding {
    Binding { shown, what, keys }
}

const VIEWS: Binding = bind(
    "1 to 6, Tab, Left, Right",
    "nodes, domains, channels, links, events, hubs",
    &[
        (KeyCode::Char('1'), Key::View(0)),
        (KeyCode::Char('2'), Key::View(1)),
        (KeyCode::Char('3'), Key::View(2)),
        (KeyCode::Char('4'), Key::View(3)),
        (KeyCode::Char('5'), Key::View(4)),
        (KeyCode::Char('6'), Key::View(5)),
        (KeyCode::Tab, Key::NextView),
        (KeyCode::Right, Key::NextView),
        (KeyCode::BackTab, Key::PreviousView),
        (KeyCode::Left, Key::PreviousView),
    ],
);

const NAVIGATION_KEYS: &[(KeyCode, Key)] = &[
    (KeyCode::Up, Key::Up),
    (KeyCode::Down, Key::Down),
    (KeyCode::PageUp, Key::PageUp),
    (KeyCode::PageDown, Key::PageDown),
    (KeyCode::Home, Key::First),
    (KeyCode::End, Key::Last),
];

const FIND: Binding =
    bind("/", "show rows with a word only; Esc ends that", &[(KeyCode::Char('/'), Key::Find)]);

const PAUSE_KEYS: Binding = bind(
    "p, r",
    "pause, resume the domain (with --steer)",
    &[(KeyCode::Char('p'), Key::Steer(Action::Pause)), (KeyCode::Char('r'), Key::Steer(Action::Resume))],
);

const KILL_KEYS: Binding = bind(
    "k",
    "kill the domain, after a question (with --steer)",
    &[(KeyCode::Char('k'), Key::Steer(Action::Kill))],
);

const HELP: Binding =
    bind("?, h", "this help", &[(KeyCode::Char('?'), Key::Help), (KeyCode::Char('h'), Key::Help)]);

/// Bindings in lists.
pub(super) const IN_LISTS: &[Binding] = &[
    VIEWS,
    bind("Up, Down, Page, Home, End", "select a row", NAVIGATION_KEYS),
    bind(
        "Enter",
        "details of a node, domain, channel or link, and what a domain wrote",
        &[(KeyCode::Enter, Key::Open)],
    ),
    FIND,
    bind("s", "sort domains and channels by something else", &[(KeyCode::Char('s'), Key::Sort)]),
    PAUSE_KEYS,
    KILL_KEYS,
    HELP,
    bind("q, Esc, Ctrl-C", "leave", &[(KeyCode::Char('q'), Key::Quit), (KeyCode::Esc, Key::Clear)]),
];

/// Bindings in details.
pub(super) const IN_DETAILS: &[Binding] = &[
    bind("Up, Down, Page, Home, End", "scroll", NAVIGATION_KEYS),
    bind(
        "q, Esc, Enter, Backspace",
        "back to the list",
        &[
            (KeyCode::Char('q'), Key::Back),
            (KeyCode::Esc, Key::Back),
            (KeyCode::Enter, Key::Back),
            (KeyCode::Backspace, Key::Back),
        ],
    ),
    VIEWS,
    PAUSE_KEYS,
    KILL_KEYS,
    HELP,
    bind("Ctrl-C", "leave", &[]),
];

/// Returns the effect of a key under these bindings.
pub(super) fn meaning(bindings: &[Binding], code: KeyCode) -> Option<Key> {
    let mut keys = bindings.iter().flat_map(|binding| binding.keys);
    keys.find(|(bound, _)| *bound == code).map(|(_, key)| *key)
}
