//! Commands under locks.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use tombolo::names::NameFault;
use tombolo_cli_common::arguments::seconds;

use crate::context::Context;
use crate::failure::Failure;

/// Default timeout of a lock.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Variable with the fencing token for the command.
const TOKEN_VARIABLE: &str = "TOMBOLO_FENCING_TOKEN";

/// Default exit status if the lock was not free.
const DEFAULT_CONFLICT_STATUS: u8 = 1;

/// The lock is released when the command ends, or when this program does, for whatever reason.
/// TOMBOLO_FENCING_TOKEN has the fencing token for the command: a number larger than that of any holder
/// before.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo names lock deploy -- ./deploy.sh
  tombolo names lock --timeout 0 nightly -- make test   not at all if it runs already")]
pub(crate) struct LockOptions {
    /// The name of the lock; it need not exist
    name: String,

    /// Wait up to this many seconds; 0 only tries [default: a day]
    #[arg(short, long, value_parser = seconds, allow_negative_numbers = true, value_name = "SECONDS")]
    timeout: Option<Duration>,

    /// The exit status if the lock did not become free
    #[arg(short = 'E', long, value_name = "STATUS", default_value_t = DEFAULT_CONFLICT_STATUS)]
    conflict_exit_code: u8,

    /// The command to run
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(super) fn run(context: &Context, options: &LockOptions) -> Result<(), Failure> {
    let domain = context.attach()?;
    let lock = domain.names().lock(&options.name)?;
    let guard = lock.acquire(options.timeout.unwrap_or(DEFAULT_TIMEOUT)).map_err(|error| {
        if matches!(error.name_fault(), Some(NameFault::Locked { .. })) {
            Failure::Job { message: error.to_string(), status: options.conflict_exit_code }
        } else {
            error.into()
        }
    })?;
    let (program, arguments) = options
        .command
        .split_first()
        .ok_or_else(|| Failure::Usage { message: "no command to run".into(), hint: None })?;
    let status = Command::new(program)
        .args(arguments)
        .env(TOKEN_VARIABLE, guard.fencing_token().to_string())
        .status()
        .map_err(|source| Failure::NotRun { program: program.into(), source })?;
    guard.release()?;
    let message = match (status.code(), status.signal()) {
        (Some(0), _) => return Ok(()),
        (Some(code), _) => format!("the command ended with status {code}"),
        (None, signal) => format!("the command was ended by signal {}", signal.unwrap_or_default()),
    };
    // Convention of shells.
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    Err(Failure::Job { message, status: u8::try_from(status).unwrap_or(u8::MAX) })
}
