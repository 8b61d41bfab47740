//! `tombolo block`

use clap::{Args, Subcommand};
use tombolo::nodes::NodeKind;
use tombolo_cli_common::nodes::node_named;
use tombolo_cli_common::text::parse_bytes;

use super::{Common, SupervisedProgram, supervise};
use crate::context::Context;
use crate::failure::Failure;

/// Exports a file or disk of one node as a disk on another
///
/// `serve` exports the file. `attach` makes it a disk: a network block device (NBD) in the node's kernel, or
/// a socket that speaks the NBD protocol, for QEMU, nbd-client and others. Data travels in buffers of a
/// pool. Each runs until Ctrl-C; unmount first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo block serve root disk.img                       a file of the host
  tombolo block attach root --on arm0                     as a disk of arm0, /dev/nbd0 say
  tombolo block serve scratch /tmp/disk --create 64M --on arm0
  tombolo block attach scratch --socket /tmp/scratch.sock
  qemu-img info 'nbd+unix:///?socket=/tmp/scratch.sock'")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: BlockCommand,
}

#[derive(Subcommand, Debug)]
enum BlockCommand {
    Serve(ServeOptions),
    Attach(AttachOptions),
}

/// Exports a file or disk of a node
///
/// One node can attach it, or 16 with --read-only. The file is locked against other servers. A flush or a
/// durable write (FUA) is answered when the data is on the node's disk.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo block serve root disk.img
  tombolo block serve root disk.img --read-only
  tombolo block serve scratch /tmp/disk --create 64M --on arm0")]
struct ServeOptions {
    /// The name of the export
    #[arg(value_parser = name)]
    name: String,

    /// A file or disk of the node
    file: String,

    /// The node of the file
    #[arg(long, value_name = "NODE", default_value = "host")]
    on: String,

    /// Refuse writes
    #[arg(long, conflicts_with = "create")]
    read_only: bool,

    /// Create a sparse file of this size, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    create: Option<u64>,

    #[command(flatten)]
    common: Common,
}

/// Attaches an exported file or disk to a node
///
/// When the server dies or does not answer in time, requests fail with an I/O error, and so do all others
/// until the name is served again; then the disk works again, if its size is the same. A file system that
/// met an error has to be unmounted and checked, as with any disk.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo block attach root --on arm0
  tombolo block attach root --on arm0 --device /dev/nbd3
  tombolo block attach root --socket /tmp/root.sock
  tombolo block attach root --socket @root --timeout 5")]
struct AttachOptions {
    /// The name of the export
    #[arg(value_parser = name)]
    name: String,

    /// The node that gets the disk
    #[arg(long, value_name = "NODE", default_value = "host")]
    on: String,

    /// The network block device to use [default: the first free one]
    #[arg(long, value_name = "PATH", conflicts_with = "socket")]
    device: Option<String>,

    /// Serve the NBD protocol on this socket instead of a device, to one client at a time: a path, or @
    /// and an abstract name
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,

    /// How long a request may take, in seconds, before it fails
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    timeout: u32,

    #[command(flatten)]
    common: Common,
}

fn name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = (1..=64).contains(&text.len()) && text.bytes().all(fits);
    if is_name { Ok(text.to_owned()) } else { Err("give 1 to 64 letters, digits, '-', '_' or '.'".into()) }
}

fn size(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| (512..=1 << 60).contains(bytes);
    let bytes = Some(parse_bytes(text)?).filter(fits);
    bytes.ok_or_else(|| "give 512 bytes or more, such as 64M".into())
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let (node, common) = match &options.command {
        BlockCommand::Serve(serve) => (&serve.on, &serve.common),
        BlockCommand::Attach(attach) => (&attach.on, &attach.common),
    };
    let kind = node_named(&context.attach()?.nodes()?, node)?.kind;
    if let BlockCommand::Serve(ServeOptions { file, create: None, .. }) = &options.command
        && kind == NodeKind::Host
    {
        // On other nodes, only the program there can tell.
        std::fs::metadata(file).map_err(Failure::unreadable(file))?;
    }
    let part = match &options.command {
        BlockCommand::Serve(ServeOptions { name, file, read_only, create, .. }) => {
            let mode = if *read_only { "ro" } else { "rw" };
            let create = create.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
            SupervisedProgram::new(node, &["serve", name, file, mode, &create])
        }
        BlockCommand::Attach(AttachOptions { name, device, socket, timeout, .. }) => {
            let (front, place) = match socket {
                Some(socket) => ("socket", &**socket),
                None => ("device", device.as_deref().unwrap_or("-")),
            };
            SupervisedProgram::new(node, &["attach", name, &timeout.to_string(), front, place])
        }
    };
    supervise(context, common, vec![part], false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [("512", 512), ("4K", 4096), ("64M", 64 << 20), ("1T", 1 << 40)] {
            assert_eq!(size(text), Ok(bytes));
        }
        for wrong in ["", "K", "511", "-1", "1.5M", "16777216T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
