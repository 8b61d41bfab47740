//! `tombolo join`

use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use tombolo::find::find_tombolod;

use crate::failure::Failure;

/// Makes this Linux a node of a machine
///
/// For a Linux that `tombolo up` does not start: a card, a board, a virtual machine, another host on the same
/// memory. It waits until a machine offers the window, joins it as the node that the window belongs to, runs
/// the programs that the machine sends, and joins again when the machine has come back. It ends on SIGTERM or
/// SIGINT. Run it as a service: the unit tombolo-join@.service is part of the package.
///
/// Both sides first write words into the window that the other reads. A window that changes them is refused,
/// unless --force is given.
///
/// WINDOW is the memory that both sides map: file:PATH, file:PATH+0xOFFSET, pci:ADDRESS/BAR, ivshmem,
/// dax:PATH, uio:PATH/MAP or memory:0xADDRESS.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo join ivshmem                             the first ivshmem device
  tombolo join pci:0000:03:00.0/2 --key card0.key  BAR 2 of a card, with a key
  tombolo join memory:0x90000000 --size-mib 64     reserved memory
  tombolo join --file lab.toml --node card0        as the machine file says")]
pub(crate) struct Options {
    /// The window
    #[arg(required_unless_present = "file")]
    window: Option<String>,

    /// Take the window, its size and its key from this machine file
    #[arg(long, value_name = "FILE", requires = "node")]
    file: Option<PathBuf>,

    /// The node that the window must belong to
    #[arg(long)]
    node: Option<String>,

    /// The size of the window; needed for memory at an address
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u32).range(1..))]
    size_mib: Option<u32>,

    /// Whether each side sees the other's stores at once, or lines have to be written back and invalidated
    /// [default: coherent, or that of the file]
    #[arg(long, value_name = "KIND", value_parser = ["coherent", "flush"])]
    coherence: Option<String>,

    /// Emulate a cache, and choose by this number what it evicts; the same on both sides
    #[arg(long, value_name = "NUMBER")]
    cache_seed: Option<u32>,

    /// Emulate a cache that evicts a line at one in this many operations, 0 for never; the same on both sides
    #[arg(long, value_name = "COUNT")]
    evict_one_in: Option<u32>,

    /// The key, the same file as on the other side
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Seconds without a sign of life after which the machine counts as gone [default: 10]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    silence: Option<u32>,

    /// Seconds to wait for a machine that offers the window [default: without limit]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,

    /// End when the machine ends
    #[arg(long)]
    once: bool,

    /// Join even if the window loses or changes what is written
    #[arg(long)]
    force: bool,
}

/// Executes the monitor of the node.
pub(crate) fn run(options: &Options) -> Result<Infallible, Failure> {
    let path = find_tombolod()?;
    let mut monitor = Command::new(&path);
    monitor.arg("join").args(&options.window);
    let mut add = |name: &str, value: Option<std::ffi::OsString>| {
        if let Some(value) = value {
            monitor.arg(name).arg(value);
        }
    };
    let number = |number: Option<u32>| number.map(|number| number.to_string().into());
    add("--file", options.file.clone().map(Into::into));
    add("--node", options.node.clone().map(Into::into));
    add("--size-mib", number(options.size_mib));
    add("--coherence", options.coherence.clone().map(Into::into));
    add("--cache-seed", number(options.cache_seed));
    add("--evict-one-in", number(options.evict_one_in));
    add("--key", options.key.clone().map(Into::into));
    add("--silence", number(options.silence));
    add("--timeout", number(options.timeout));
    if options.once {
        monitor.arg("--once");
    }
    if options.force {
        monitor.arg("--force");
    }
    let error = monitor.exec();
    Err(Failure::System { operation: format!("run {}", path.display()), source: error })
}
