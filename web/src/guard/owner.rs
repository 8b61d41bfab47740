//! Determines the user at the other end of a connection, from the kernel's table of TCP sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Kernel tables of both address families. An IPv6 socket may have IPv4 connections, so both are searched.
const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];

/// Returns the user whose process holds the socket that is bound to `local` and connected to `remote`; `None`
/// if there is no such socket or no process holds it any more.
pub(crate) fn owner(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    TABLES.iter().find_map(|path| find(&std::fs::read_to_string(path).ok()?, local, remote))
}

/// Searches the text of a table for a socket.
fn find(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let wanted = (plain(local), plain(remote));
    table.lines().skip(1).filter_map(parse).find(|row| (row.local, row.remote) == wanted)?.owner()
}

/// Relevant fields of a table row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    user: u32,
    inode: u64,
}

impl Row {
    /// Returns the owner. A socket that no process holds has none: the kernel lists it with inode 0 and user
    /// root.
    fn owner(self) -> Option<u32> {
        (self.inode != 0).then_some(self.user)
    }
}

fn parse(line: &str) -> Option<Row> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let remote = address(fields.next()?)?;
    // Skip the state, queues, timers and retransmissions.
    let user = fields.nth(4)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(Row { local, remote, user, inode })
}

/// Parses an address of the table: 32-bit words in the host's byte order, in hexadecimal, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (words, port) = text.split_once(':')?;
    if !words.is_ascii() || !matches!(words.len(), 8 | 32) || port.len() != 4 {
        return None;
    }
    let mut bytes = [0; 16];
    let mut length = 0;
    for (word, place) in words.as_bytes().chunks(8).zip(bytes.chunks_mut(4)) {
        let word = std::str::from_utf8(word).ok()?;
        place.copy_from_slice(&number(word)?.to_ne_bytes());
        length += 4;
    }
    let ip = match length {
        4 => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        _ => IpAddr::V6(Ipv6Addr::from(bytes)),
    };
    Some(plain(SocketAddr::new(ip, u16::try_from(number(port)?).ok()?)))
}

/// Parses hexadecimal digits, without the sign that `from_str_radix` accepts.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok())?
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use proptest::prelude::*;

    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1CFC 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 24771 1 0000 100 0 0 10 0
   1: 0100007F:C350 0100007F:1CFC 01 00000000:00000000 00:00000000 00000000  1001        0 24790 1 0000 20 4 30 10 -1
   2: 0100007F:1CFC 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 24791 1 0000 20 4 30 10 -1
   3: 0100007F:C351 0100007F:1CFC 06 00000000:00000000 03:00001234 00000000     0        0 0 3 0000
";

    const TABLE6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:C352 00000000000000000000000001000000:1CFC 01 00000000:00000000 00:00000000 00000000  1002        0 4 1 0000 20 4 30 10 -1
   1: 0000000000000000FFFF00000100007F:C353 0000000000000000FFFF00000100007F:1CFC 01 00000000:00000000 00:00000000 00000000  1003        0 5 1 0000 20 4 30 10 -1
";

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_far_end_is_found_and_not_ours() {
        let server = at("127.0.0.1:7420");
        assert_eq!(find(TABLE, at("127.0.0.1:50000"), server), Some(1001));
        assert_eq!(find(TABLE, server, at("127.0.0.1:50000")), Some(1000));
        assert_eq!(find(TABLE, at("127.0.0.1:50001"), server), None, "no process holds it any more");
        assert_eq!(find(TABLE, at("127.0.0.1:50009"), server), None);
        assert_eq!(find(TABLE6, at("[::1]:50002"), at("[::1]:7420")), Some(1002));
        assert_eq!(find(TABLE6, at("127.0.0.1:50003"), server), Some(1003), "IPv4 by a socket of IPv6");
    }

    #[test]
    fn a_connection_of_our_own_is_ours() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // Not every kernel has IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, peer) = listener.accept().unwrap();
            let ours = Some(rustix::process::getuid().as_raw());
            assert_eq!(owner(peer, accepted.local_addr().unwrap()), ours, "{address}");
            drop(client);
            assert_eq!(
                owner(peer, accepted.local_addr().unwrap()),
                None,
                "the client of {address} has closed its end"
            );
        }
    }

    proptest! {
        #[test]
        fn any_table_content_is_parsed_or_skipped(text in "[ 0-9A-Fa-fx:\\n€]{0,300}") {
            let _ = find(&text, at("127.0.0.1:1"), at("127.0.0.1:2"));
        }

        #[test]
        fn written_connection_is_found(
            ip: [u8; 4], port: u16, far: [u8; 4], far_port: u16, user: u32, inode in 1_u64..,
        ) {
            let hex = |ip: [u8; 4], port: u16| format!("{:08X}:{port:04X}", u32::from_ne_bytes(ip));
            let line = format!(
                "head\n 7: {} {} 01 0:0 0:0 0 {user} 0 {inode} 1", hex(ip, port), hex(far, far_port)
            );
            let address = |ip: [u8; 4], port| SocketAddr::new(IpAddr::from(ip), port);
            prop_assert_eq!(find(&line, address(ip, port), address(far, far_port)), Some(user));
        }
    }
}
