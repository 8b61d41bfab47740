//! `tombolo names`

mod change;
mod list;
mod lock;
mod watch;

use std::time::Duration;

use clap::{Args, Subcommand};
use tombolo_cli_common::arguments::seconds;

use crate::context::Context;
use crate::failure::Failure;

/// Lists, sets and watches names, and runs commands under locks
///
/// A name is a record with attributes and is unique in its scope: NAME in the machine, @NODE/NAME in one
/// node. The names that programs export for others to connect to are records too. A QUERY is a name, a glob
/// ('svc/*') or a regular expression (r'^svc'), with conditions on attributes: 'svc/* { load < 5, zone: 'a'
/// }'.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  tombolo names                                  list all names of the machine
  tombolo names 'svc/*{load<5}'                  list those that match a query
  tombolo names --json | jq -r '.names[].name'
  tombolo names set 'sensor/1{celsius:21.5}'     set a record
  tombolo names get 'sensor/*' --wait 10         wait for a record that matches
  tombolo names watch '@arm0/*'                  show changes in the scope of node arm0
  tombolo names publish 'alarm{level:3}'         send an event to its watchers
  tombolo names locks                            list locks, semaphores and barriers
  tombolo names lock deploy -- ./deploy.sh       run a command, one at a time in the whole machine"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: list::ListOptions,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Shows the first record that matches a query
    #[command(after_help = "\
Example:
  tombolo names get 'sensor/*{celsius>20}' --wait 10")]
    Get {
        /// The query
        query: String,
        /// Wait up to this many seconds for a match
        #[arg(short, long, value_parser = seconds, allow_negative_numbers = true, value_name = "SECONDS")]
        wait: Option<Duration>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Sets a record that stays until it is deleted
    Set(change::SetOptions),
    /// Deletes records
    #[command(after_help = "\
Example:
  tombolo names delete sensor/1 @arm0/scratch")]
    Delete {
        /// The names of the records
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Shows what matches a query, and every change from then on
    Watch(watch::WatchOptions),
    /// Sends an event to all that watch for it
    #[command(after_help = "\
Example:
  tombolo names publish 'alarm{level:3}'")]
    Publish {
        /// The event: NAME { ATTRIBUTE: VALUE, … }
        event: String,
    },
    /// Lists locks, semaphores and barriers
    #[command(after_help = "\
Example:
  tombolo names locks --node arm0 --json")]
    Locks {
        /// List those in the scope of this node [default: the machine]
        #[arg(long)]
        node: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Runs a command while holding a lock
    Lock(lock::LockOptions),
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match &options.command {
        None => list::records(context, &options.list),
        Some(Command::Get { query, wait, json }) => list::get(context, query, *wait, *json),
        Some(Command::Set(options)) => change::set(context, options),
        Some(Command::Delete { name }) => change::delete(context, name),
        Some(Command::Watch(options)) => watch::run(context, options),
        Some(Command::Publish { event }) => change::publish(context, event),
        Some(Command::Locks { node, json }) => list::locks(context, node.as_deref(), *json),
        Some(Command::Lock(options)) => lock::run(context, options),
    }
}
