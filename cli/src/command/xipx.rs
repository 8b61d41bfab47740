//! `tombolo xipx`: a message device on each node, as a job of `tombolo run`.

use std::path::PathBuf;

use clap::Args;
use tombolo_cli_common::images::chosen_image;

use super::run::service;
use crate::context::Context;
use crate::failure::Failure;

/// FIFO between every two nodes, in bytes, as in `models/xipx`.
const FIFO_BYTES: u64 = 16 << 10;

/// Serves the message device of Xipx on nodes
///
/// Starts a device on each of the nodes, numbered from 0 in the order of --on. Programs on these nodes open
/// channels of it, 0 to 255, and send messages to any channel of any node: through a socket, which needs no
/// library and whose abstract name is printed, or with the crate tombolo-xipx. The nodes need memory in
/// common, which may be not coherent. Runs until Ctrl-C. When the device of a node has ended, those that send
/// to it get an error and the others go on; with that of node 0 all end.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo xipx --on host,arm0                     nodes 0 and 1
  tombolo xipx --on host,arm0,big --fifo 65536    for messages of up to 32,752 bytes
  tombolo xipx --on host --group tests            beside another on the same node")]
pub(crate) struct Options {
    /// The nodes, in the order of their numbers
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', required = true, value_parser = service::parse_node)]
    on: Vec<String>,

    /// The FIFO from each node to each other, in bytes, a multiple of 128; a message takes half of it at most
    #[arg(long, value_name = "BYTES", default_value_t = FIFO_BYTES, value_parser = fifo)]
    fifo: u64,

    /// A part of the sockets' names, so that a node can have several devices
    #[arg(long, value_name = "NAME", default_value = "xipx", value_parser = group)]
    group: String,

    /// The image of the program that serves [default: that of the kit]
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
}

fn fifo(text: &str) -> Result<u64, String> {
    let number =
        text.parse().ok().filter(|bytes: &u64| (256..=64 << 20).contains(bytes) && bytes.is_multiple_of(128));
    number.ok_or_else(|| "use a multiple of 128 from 256 to 67108864".to_owned())
}

fn group(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = (1..=32).contains(&text.len()) && text.chars().all(fits);
    is_name.then(|| text.to_owned()).ok_or_else(|| "use up to 32 of a-z, A-Z, 0-9, -, _ and .".to_owned())
}

impl Options {
    /// Returns the arguments of each device.
    fn arguments(&self) -> [String; 2] {
        [self.group.clone(), self.fifo.to_string()]
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    if let Some(twice) = service::find_duplicate(&options.on) {
        let message = format!("a node has one device of a group; '{twice}' is named twice");
        return Err(Failure::Usage { message, hint: None });
    }
    let image = chosen_image(options.image.as_deref(), "xipx")?;
    service::run(context, &options.on, image, &options.arguments())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::Command;
    use super::*;
    use crate::arguments::Arguments;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Arguments::try_parse_from(line.split(' ')).map(|arguments| match arguments.command {
            Command::Xipx(options) => options,
            _ => unreachable!("the line is one of `xipx`"),
        })
    }

    #[test]
    fn the_devices_are_a_job_of_run() {
        let options = parse("tombolo xipx --on host,arm0 --fifo 4096 --group a").unwrap();
        let words = service::run_arguments(&options.on, "x.tbi".into(), &options.arguments());
        let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let line = words.join(" ");
        assert_eq!(line, "tombolo run --label --no-input --keep-going --on host,arm0 x.tbi a 4096");
        assert!(Arguments::try_parse_from(line.split(' ')).is_ok());
    }

    #[test]
    fn invalid_usage_ends_with_status_2() {
        for line in ["xipx", "xipx --on a:2", "xipx --on a --fifo 100", "xipx --on a --group a/b"] {
            assert_eq!(parse(&format!("tombolo {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
    }
}
