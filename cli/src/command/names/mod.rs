//! `tombolo names`

mod change;
mod list;
mod lock;
mod watch;

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::command::kill::seconds;
use crate::context::Context;
use crate::failure::Failure;

/// Lists, changes and watches names, and runs commands under locks
///
/// A name stands for a record with attributes, and is unique in its machine. Exports, which others connect to, are
/// records too. `NAME` is the machine's, `@NODE/NAME` one of that node. A query is a name, a glob (`svc/*`) or a
/// regular expression (`r'^svc'`), and conditions on attributes: `svc/* { load < 5, zone: 'a' }`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  tombolo names                                         all names of the machine
  tombolo names 'svc/*{load<5}'                         those that a query matches
  tombolo names --json | jq -r '.names[].name'
  tombolo names set 'sensor/1{celsius:21.5}'            a record that stays until it is deleted
  tombolo names get 'sensor/*' --wait 10                the first that matches, as soon as there is one
  tombolo names watch '@arm0/*'                         changes of the names of node arm0
  tombolo names publish 'alarm{level:3}'                an event, to those who watch for it
  tombolo names locks                                   locks, semaphores and barriers
  tombolo names lock deploy -- ./deploy.sh              a command that runs once at a time in the whole machine"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    list: list::ListOptions,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Shows the first record that a query matches
    #[command(after_help = "\
Example:
  tombolo names get 'sensor/*{celsius>20}' --wait 10")]
    Get {
        /// What to look for
        query: String,
        /// Seconds to wait for it
        #[arg(short, long, value_parser = seconds, value_name = "SECONDS")]
        wait: Option<Duration>,
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Sets a record, which stays until it is deleted
    Set(change::SetOptions),
    /// Deletes records
    #[command(after_help = "\
Example:
  tombolo names delete sensor/1 @arm0/scratch")]
    Delete {
        /// Their names
        #[arg(required = true)]
        name: Vec<String>,
    },
    /// Shows what a query matches, and every change from then on
    Watch(watch::WatchOptions),
    /// Tells an event to everybody who watches for it
    #[command(after_help = "\
Example:
  tombolo names publish 'alarm{level:3}'")]
    Publish {
        /// As it is written: NAME { ATTRIBUTE: VALUE, … }
        event: String,
    },
    /// Lists locks, semaphores and barriers
    #[command(after_help = "\
Example:
  tombolo names locks --node arm0 --json")]
    Locks {
        /// Those of a node, by its name; the machine's otherwise
        #[arg(long)]
        node: Option<String>,
        /// For machines
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
