//! Manual pages, one for each command.

use std::fmt::Write as _;
use std::io;

use clap::Command;
use clap_mangen::Man;

/// Source of the pages, which their footers show. Pages have no date, so that builds are reproducible.
const SOURCE: &str = concat!("tombolo ", env!("CARGO_PKG_VERSION"));

/// Returns file name and text of the page of `command`, and of the pages of all commands below it.
pub(crate) fn all(command: &Command) -> io::Result<Vec<(String, String)>> {
    let mut command = command.clone();
    command.build();
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}

fn add(command: &Command, pages: &mut Vec<(String, String)>) -> io::Result<()> {
    let man = Man::new(command.clone()).manual("Tombolo").source(SOURCE);
    pages.push((man.get_filename(), text(&man, command)?));
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|command| add(command, pages))
}

fn text(man: &Man, command: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    // The library omits the empty date, so that the source would stand in its place.
    let title = format!(".TH {} 1 ", command.get_display_name().unwrap_or(command.get_name()));
    let text = String::from_utf8(page).map_err(io::Error::other)?;
    let mut text = text.replacen(&format!("{title} "), &format!("{title}\"\" "), 1);
    if let Some(after) = command.get_after_help() {
        text.push_str(&examples(&after.to_string()));
    }
    Ok(text)
}

/// Formats the text after a command's help. Keeps its line breaks: the library would fill them as one
/// paragraph.
fn examples(text: &str) -> String {
    let text = text.strip_prefix("Examples:\n").or(text.strip_prefix("Example:\n")).unwrap_or(text);
    let mut section = String::from(".SH EXAMPLES\n.nf\n");
    for line in text.lines() {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        // A line with these first characters would be interpreted as a request.
        let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
        let _ = writeln!(section, "{guard}{line}");
    }
    section + ".fi\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_examples_are_taken_literally() {
        assert_eq!(examples("Examples:\n  a -b \\n\n.c"), ".SH EXAMPLES\n.nf\n  a \\-b \\en\n\\&.c\n.fi\n");
    }
}
