//! Addresses of endpoints, as bytes and as text.

use crate::wire::PROTOCOL;

/// Length of an encoded address, in bytes.
pub const ADDRESS_BYTES: usize = 24;

/// Address of an endpoint: a random number and the domain that owns it. It is valid on every node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// Random number of the endpoint.
    pub endpoint: u64,
    /// Bits of the id of its domain.
    pub domain: u64,
}

impl Address {
    /// Encodes the address for programs to exchange.
    #[must_use]
    pub fn to_bytes(self) -> [u8; ADDRESS_BYTES] {
        let mut bytes = [0; ADDRESS_BYTES];
        for (target, word) in bytes.chunks_exact_mut(8).zip([PROTOCOL, self.endpoint, self.domain]) {
            target.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes an address; `None` for other bytes or an address of another protocol version.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Address> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let protocol = word(0)?;
        let address = Address { endpoint: word(8)?, domain: word(16)? };
        (protocol == PROTOCOL).then_some(address)
    }

    /// Parses an address in the form in which it is displayed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Address> {
        let (endpoint, domain) = text.strip_prefix("tombolo://")?.split_once('@')?;
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let address = Address { endpoint: number(endpoint)?, domain: number(domain)? };
        (address.to_string() == text).then_some(address)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tombolo://{:016x}@{:016x}", self.endpoint, self.domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_encoded_little_endian() {
        let address = Address { endpoint: 0x0102_0304_0506_0708, domain: 0x1112_1314_1516_1718 };
        let bytes = address.to_bytes();
        let golden = [
            0x6f, 0x74, 0x2d, 0x66, 2, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
            0x12, 0x11,
        ];
        assert_eq!(bytes, golden);
        assert_eq!(Address::from_bytes(&bytes), Some(address));
        assert_eq!(Address::from_bytes(&bytes[..23]), None);
        let mut other = bytes;
        other[4] = 1;
        assert_eq!(Address::from_bytes(&other), None);
        assert_eq!(Address::parse(&address.to_string()), Some(address));
        assert_eq!(Address::parse("tombolo://1@2"), None);
    }
}
