//! `tombolo net`

use std::net::Ipv4Addr;

use clap::Args;
use tombolo_cli_common::nodes::node_named;

use super::{Common, SupervisedProgram, supervise};
use crate::context::Context;
use crate::failure::Failure;

/// Connects nodes by an IP network
///
/// Each node gets a network card, and programs that know nothing of Tombolo (ping, ssh, NFS) reach other
/// nodes through it. Frames are moved in buffers of pools; the first node of --on has the switch, which the
/// others connect to. While a node is not connected, the link of its card is down. A card is created with
/// TUN/TAP, which takes the capability CAP_NET_ADMIN; nothing else of the node's network is changed.
///
/// Runs until Ctrl-C; then the cards are gone. A node that goes down comes back into the network when it is
/// up again.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tombolo net --on host,arm0                                 10.77.0.1 and 10.77.0.2
  tombolo net --on host,arm0,arm1 --subnet 192.168.5.0/24 --mtu 9000
  tombolo net --on host,arm0 --name lab0 --no-addresses      set them yourself")]
pub(crate) struct Options {
    /// The nodes, two or more; the first has the switch
    #[arg(long, value_name = "NODE,…", value_delimiter = ',', required = true)]
    on: Vec<String>,

    /// The name of the network, and of the card on each node
    #[arg(long, value_name = "NAME", default_value = "tom0", value_parser = name)]
    name: String,

    /// The network whose addresses the nodes get, in the order of --on
    #[arg(long, value_name = "ADDRESS/BITS", default_value = "10.77.0.0/24", value_parser = subnet)]
    subnet: (Ipv4Addr, u8),

    /// Give the cards no addresses
    #[arg(long, conflicts_with = "subnet")]
    no_addresses: bool,

    /// The longest IP packet in bytes, from 68 to 65,521
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65_521))]
    mtu: u32,

    #[command(flatten)]
    common: Common,
}

/// Parses the name of a network device.
fn name(text: &str) -> Result<String, String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_name = (1..=15).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('.');
    if is_name { Ok(text.to_owned()) } else { Err("give 1 to 15 letters, digits, '-', '_' or '.'".into()) }
}

fn subnet(text: &str) -> Result<(Ipv4Addr, u8), String> {
    let parsed = text.split_once('/').and_then(|(ip, bits)| Some((ip.parse().ok()?, bits.parse().ok()?)));
    let (ip, bits): (Ipv4Addr, u8) = parsed.ok_or("give an address and bits, such as 10.77.0.0/24")?;
    let hosts = (1..=30).contains(&bits).then(|| u32::MAX >> bits);
    match hosts {
        Some(hosts) if ip.to_bits() & hosts == 0 => Ok((ip, bits)),
        Some(hosts) => Err(format!(
            "the network of {bits} bits with this address is {}/{bits}",
            Ipv4Addr::from_bits(ip.to_bits() & !hosts)
        )),
        None => Err("give 1 to 30 bits".into()),
    }
}

/// Returns the address of the node with this index, with its bits; `None` beyond the network.
fn address((network, bits): (Ipv4Addr, u8), index: usize) -> Option<String> {
    let host = u32::try_from(index).ok()?.checked_add(1)?;
    // The last address is the broadcast address.
    (host < u32::MAX >> bits).then(|| format!("{}/{bits}", Ipv4Addr::from_bits(network.to_bits() + host)))
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<u8, Failure> {
    let usage = |message: String| Failure::Usage { message, hint: None };
    if options.on.len() < 2 {
        return Err(usage("a network joins two nodes or more; name them, as in `--on host,arm0`".into()));
    }
    let nodes = context.attach_running()?.nodes()?;
    let mut parts: Vec<SupervisedProgram> = Vec::new();
    for (index, node) in options.on.iter().enumerate() {
        node_named(&nodes, node)?;
        if parts.iter().any(|part| part.node == *node) {
            return Err(usage(format!("node {node} is named twice")));
        }
        let address = match options.no_addresses {
            true => "-".to_owned(),
            false => address(options.subnet, index).ok_or_else(|| {
                usage(format!("the subnet has no addresses for {} nodes", options.on.len()))
            })?,
        };
        let role = if index == 0 { "switch" } else { "port" };
        let mtu = options.mtu.to_string();
        parts.push(SupervisedProgram::new(node, &[role, &options.name, &options.name, &address, &mtu]));
    }
    supervise(context, &options.common, parts, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_and_their_addresses() {
        let network = subnet("10.77.0.0/24").unwrap();
        assert_eq!(address(network, 0).as_deref(), Some("10.77.0.1/24"));
        assert_eq!(address(network, 253).as_deref(), Some("10.77.0.254/24"));
        assert_eq!(address(network, 254), None, "to all");
        assert_eq!(address(subnet("192.168.5.8/30").unwrap(), 1).as_deref(), Some("192.168.5.10/30"));
        assert!(subnet("10.77.0.1/24").unwrap_err().contains("10.77.0.0/24"));
        for wrong in ["", "10.77.0.0", "10.77.0.0/0", "10.77.0.0/31", "10.77/16", "::/8"] {
            assert!(subnet(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_cards() {
        assert!(name("tom0").is_ok() && name("fifteen-bytes-x").is_ok());
        for wrong in ["", "sixteen-bytes-xx", "a/b", "a b", ".x", "tap%d"] {
            assert!(name(wrong).is_err(), "{wrong}");
        }
    }
}
