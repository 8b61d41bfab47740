//! Options of every command, and how help looks.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, ValueEnum};

/// Colours of help texts and usage errors.
pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The machine to use; not needed while only one is up
    #[arg(long, global = true, value_name = "NAME", env = "TOMBOLO_MACHINE", hide_env_values = true)]
    pub machine: Option<String>,

    /// When to use colours: auto (on a terminal), always or never
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: When,

    /// Say only what was asked for, and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Say more about what happens
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

/// When to use colours.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Even into a file
    Always,
    /// Not even on a terminal
    Never,
}
