//! The screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use tombolo_web::view::{self, ChannelSort, DomainSort};
use tombolo_web::{MonitorState, Snapshot};

use super::app::{App, Mode, RowSubject, Tab};
use super::details;
use super::keys::{self, Binding};
use super::lists::{self, List, Tone};
use super::machine_client::DomainOutput;
use crate::text::{bytes, count, one_line};

/// Number of lines of the screen that are not rows.
pub(super) const LINES_AROUND: u16 = 4;

pub(super) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

/// Returns the style of a tone, legible on dark and light backgrounds; plain without colour.
pub(super) fn style(tone: Tone, colour: bool) -> Style {
    let hue = |hue: Color| if colour { Style::new().fg(hue) } else { Style::new() };
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => hue(Color::Green),
        Tone::Busy => hue(Color::Yellow),
        Tone::Bad => hue(Color::Red).add_modifier(Modifier::BOLD),
        Tone::Dim => Style::new().add_modifier(Modifier::DIM),
    }
}

/// Draws the whole screen.
pub(super) fn screen(frame: &mut Frame<'_>, app: &mut App, snapshot: &Snapshot, output: &DomainOutput) {
    let lines = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [head, tabs, body, foot] = Layout::vertical(lines).areas(frame.area());
    frame.render_widget(Paragraph::new(header(snapshot, app.colour)), head);
    frame.render_widget(Paragraph::new(tab_line(app)), tabs);
    match app.mode.details() {
        Some(subject) => details::draw(frame, app, snapshot, subject, output, body),
        None => rows(frame, app, snapshot, body, true),
    }
    frame.render_widget(Paragraph::new(footer(app)), foot);
    if let Mode::Help(behind) = &app.mode {
        let keys = if behind.details().is_some() { keys::IN_DETAILS } else { keys::IN_LISTS };
        help(frame, body, keys);
    }
}

/// Draws a part of the list for printing: rows, and the head if it is the first.
pub(super) fn draw_printed_part(frame: &mut Frame<'_>, app: &mut App, snapshot: &Snapshot, first: bool) {
    let lines = [Constraint::Length(1), Constraint::Length(1), Constraint::Min(0)];
    let [head, _, body] = Layout::vertical(lines).areas(frame.area());
    if first {
        frame.render_widget(Paragraph::new(header(snapshot, false)), head);
    }
    rows(frame, app, snapshot, body, false);
}

fn header(snapshot: &Snapshot, colour: bool) -> Line<'static> {
    let machine = view::machine(snapshot, false);
    let name = Span::styled(one_line(&machine.name), bold());
    if let MonitorState::Gone { why } = &snapshot.monitor {
        let text = format!("  as it was before: {}", one_line(why));
        return Line::from(vec![name, Span::styled(text, style(Tone::Bad, colour))]);
    }
    if !snapshot.is_there() {
        return Line::from(vec![name, Span::raw("  is being asked")]);
    }
    let nodes_tone = if machine.nodes_up == machine.nodes { Tone::Plain } else { Tone::Bad };
    let mut spans = vec![
        name,
        Span::styled(
            format!("  {} of {} up", machine.nodes_up, count(machine.nodes, "node")),
            style(nodes_tone, colour),
        ),
        Span::raw(format!(
            "  {}  {}  load {}  {}/s  {}/s",
            count(machine.domains, "domain"),
            count(machine.channels, "channel"),
            lists::processors(Some(machine.load.unwrap_or(0))),
            lists::rate(machine.messages_per_s as f64),
            bytes(machine.bytes_per_s),
        )),
    ];
    if machine.tracing {
        spans.push(Span::styled("  traces", style(Tone::Busy, colour)));
    }
    Line::from(spans)
}

fn tab_line(app: &App) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let chosen = if tab == app.tab { reversed() } else { Style::new() };
        spans.push(Span::styled(format!(" {} {} ", index + 1, tab.title()), chosen));
    }
    if !app.filter.is_empty() || matches!(app.mode, Mode::Filter(_)) {
        spans.push(Span::styled(format!("  /{}", one_line(&app.filter)), bold()));
    }
    Line::from(spans)
}

fn sorted_by(app: &App) -> Option<&'static str> {
    Some(match app.tab {
        Tab::Domains => match app.domain_sort {
            DomainSort::Load => "load",
            DomainSort::Memory => "memory",
            DomainSort::Program => "program",
            DomainSort::Node => "node",
            DomainSort::Since => "age",
            DomainSort::Id => "id",
        },
        Tab::Channels => match app.channel_sort {
            ChannelSort::Rate => "messages",
            ChannelSort::Bytes => "bytes",
            ChannelSort::Depth => "depth",
            ChannelSort::Id => "number",
        },
        Tab::Nodes | Tab::Links | Tab::Events | Tab::Hubs => return None,
    })
}

fn footer(app: &App) -> Line<'static> {
    match &app.mode {
        Mode::Filter(_) => return Line::styled("type a word; Enter keeps it, Esc does not", bold()),
        Mode::Confirm(id, _) => {
            return Line::styled(
                format!("kill {id} and what it started? y: yes, any other key: no"),
                reversed(),
            );
        }
        _ => {}
    }
    if let Some(text) = app.message() {
        return Line::styled(one_line(text), bold());
    }
    let details = app.mode.details();
    let is_domain = match details {
        Some(subject) => matches!(subject, RowSubject::Domain(_)),
        None => matches!(app.selected_subject, Some(RowSubject::Domain(_))),
    };
    let steering = if app.steer && is_domain { "  p pause  r resume  k kill" } else { "" };
    let keys = if details.is_some() {
        format!("? keys  arrows scroll{steering}  Esc back")
    } else {
        let sorted = sorted_by(app);
        let sort = if sorted.is_some() { "  s sort" } else { "" };
        let place = format!("{} of {}", (app.selected + 1).min(app.total), app.total);
        let sorted = sorted.map(|by| format!("  by {by}")).unwrap_or_default();
        format!("? keys  / find{sort}  Enter details{steering}  q leave  {place}{sorted}")
    };
    Line::styled(keys, style(Tone::Dim, app.colour))
}

/// Draws the rows that fit, around the selected one.
fn rows(frame: &mut Frame<'_>, app: &mut App, snapshot: &Snapshot, area: Rect, choosing: bool) {
    let page = usize::from(area.height.saturating_sub(1)).max(1);
    app.page = page;
    let mut list = lists::list(snapshot, app, app.first, page);
    app.total = list.total;
    app.selected = app.selected.min(app.total.saturating_sub(1));
    let first = app.first.clamp((app.selected + 1).saturating_sub(page), app.selected);
    let first = first.min(app.total.saturating_sub(page));
    if first != app.first {
        app.first = first;
        list = lists::list(snapshot, app, first, page);
    }
    app.selected_subject = list.subjects.get(app.selected - app.first).copied().flatten();
    let widths = list.widths(usize::from(area.width));
    let mut lines = vec![head(&list, &widths)];
    for (index, row) in list.rows.iter().enumerate() {
        let line = Line::from(cells(&list, row, &widths, app.colour));
        let chosen = choosing && app.first + index == app.selected;
        lines.push(if chosen { line.patch_style(reversed()) } else { line });
    }
    if list.total == 0 && choosing {
        let why = if app.filter.is_empty() { "there are none" } else { "none has that word" };
        lines.push(Line::styled(why, style(Tone::Dim, app.colour)));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn head(list: &List, widths: &[(usize, usize)]) -> Line<'static> {
    let cells = widths.iter().map(|(index, width)| {
        let column = list.columns[*index];
        Span::styled(fit(column.head, *width, column.right) + " ", bold())
    });
    Line::from(cells.collect::<Vec<_>>())
}

fn cells(list: &List, row: &[lists::Cell], widths: &[(usize, usize)], colour: bool) -> Vec<Span<'static>> {
    let cell = |(index, width): &(usize, usize)| {
        let (text, tone) = row.get(*index)?;
        Some(Span::styled(fit(text, *width, list.columns[*index].right) + " ", style(*tone, colour)))
    };
    widths.iter().filter_map(cell).collect()
}

/// Truncates or pads `text` to `width` columns; aligned to the right if `right` is set.
fn fit(text: &str, width: usize, right: bool) -> String {
    let length = Line::from(text).width();
    if length <= width {
        let blank = " ".repeat(width - length);
        return if right { blank + text } else { text.to_owned() + &blank };
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let wide = Line::from(c.to_string()).width();
        if used + wide + 1 > width {
            break;
        }
        cut.push(c);
        used += wide;
    }
    let rest = width.saturating_sub(used + 1);
    if width > 0 { cut + "…" + &" ".repeat(rest) } else { cut }
}

fn help(frame: &mut Frame<'_>, area: Rect, keys: &[Binding]) {
    let keys = keys.iter().map(|binding| (binding.shown, binding.what));
    let widest = keys.clone().map(|(shown, _)| shown.len()).max().unwrap_or(0);
    let lines: Vec<Line<'_>> = keys
        .map(|(shown, what)| {
            Line::from(vec![Span::styled(format!("{shown:widest$}  "), bold()), Span::raw(what)])
        })
        .collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) as u16 + 2;
    let [area] = Layout::horizontal([Constraint::Max(width)]).areas(area);
    let [area] = Layout::vertical([Constraint::Max(lines.len() as u16 + 2)]).areas(area);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), area);
}
