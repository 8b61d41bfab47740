//! Changing names.

use clap::Args;
use tombolo::names::{Condition, NewRecord};

use crate::context::{Context, print};
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo names set 'sensor/1{celsius:21.5}'
  tombolo names set --create 'leader{host:a}'      only if there is none
  tombolo names set --sequential 'job-{cmd:make}'  under a fresh name, which is shown")]
pub(crate) struct SetOptions {
    /// The record: NAME { ATTRIBUTE: VALUE, … }
    record: String,

    /// Keep the other attributes of an existing record
    #[arg(short, long)]
    merge: bool,

    /// Fail if the record exists
    #[arg(short, long)]
    create: bool,

    /// Fail if the record does not have this version
    #[arg(long, value_name = "VERSION", conflicts_with = "create")]
    version: Option<u64>,

    /// Add a number that makes the name unique, and print the name
    #[arg(short, long, conflicts_with_all = ["merge", "create", "version"])]
    sequential: bool,
}

pub(super) fn set(context: &Context, options: &SetOptions) -> Result<(), Failure> {
    // A record bound to this program's lifetime would be gone immediately.
    let mut record = options.record.parse::<NewRecord>()?.persistent();
    if options.merge {
        record = record.merged();
    }
    if options.create {
        record = record.only_if(Condition::Absent);
    }
    if let Some(version) = options.version {
        record = record.only_if(Condition::Version(version));
    }
    if options.sequential {
        record = record.sequential();
    }
    let changed = context.attach_running()?.names().set(&record)?;
    if options.sequential { print(changed.name + "\n") } else { Ok(()) }
}

pub(super) fn delete(context: &Context, names: &[String]) -> Result<(), Failure> {
    let domain = context.attach_running()?;
    let mut result = Ok(());
    for name in names {
        // Continue with the others if one is gone.
        result = result.and(domain.names().delete(name).map(|_| ()));
    }
    Ok(result?)
}

pub(super) fn publish(context: &Context, event: &str) -> Result<(), Failure> {
    let delivered = context.attach_running()?.names().publish(event)?;
    let refused = match delivered.refused {
        0 => String::new(),
        refused => format!(", {refused} more have too many unread events"),
    };
    print(format!("told {}{refused}\n", delivered.told))
}
