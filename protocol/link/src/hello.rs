//! Hello message, in which each side of a new channel describes itself, and the reasons to refuse one.

use tombolo_base::DomainId;
use tombolo_ring::{SlotSize, Variant};

use crate::layout::ChannelConfig;

/// Version of everything in shared memory on which two sides must agree.
pub const PROTOCOL_VERSION: u32 = 1;

/// Length of an encoded [`Hello`], in bytes.
pub const HELLO_BYTES: usize = 64;

/// The bytes "TMBLHELO" as a little-endian word.
const MAGIC: u64 = u64::from_le_bytes(*b"TMBLHELO");

/// Description of one side and of the channel that it expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Protocol version of the sender.
    pub version: u32,
    /// Expected configuration of both rings.
    pub config: ChannelConfig,
    /// Hash of the interface; 0 for raw messages.
    pub interface_hash: u64,
    /// Id that the sender claims. Unverified: only the monitors know it for certain.
    pub domain: Option<DomainId>,
    /// Whether this side registered for expedited barriers, so that its peer may leave the fence to the
    /// sleeper.
    pub expedited_barrier: bool,
}

/// First difference between two hellos.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages name the fields")]
pub enum Refusal {
    /// The peer's bytes do not start with the magic of a hello.
    #[error("the peer sent no Tombolo hello (first word {found:#018x})")]
    NotTombolo { found: u64 },
    /// Versions differ.
    #[error("protocol versions differ: this side speaks {ours}, the peer speaks {theirs}")]
    Version { ours: u32, theirs: u32 },
    /// Slot sizes differ.
    #[error("slot sizes differ: this side expects {ours} bytes, the peer {theirs} bytes")]
    SlotSize { ours: u32, theirs: u32 },
    /// Ring sizes differ.
    #[error("ring sizes differ: this side expects {ours} slots, the peer {theirs} slots")]
    SlotCount { ours: u32, theirs: u32 },
    /// Ring variants differ.
    #[error("ring variants differ: this side expects code {ours}, the peer code {theirs}")]
    Variant { ours: u32, theirs: u32 },
    /// Interfaces differ.
    #[error("interfaces differ: this side speaks {ours:#018x}, the peer {theirs:#018x}")]
    Interface { ours: u64, theirs: u64 },
}

/// Returns the number of a ring variant on the wire.
#[must_use]
pub const fn variant_code(variant: Variant) -> u32 {
    match variant {
        Variant::EpochCredit => 0,
        Variant::UsedFlag => 1,
    }
}

impl Hello {
    /// Creates a hello of this version.
    #[must_use]
    pub fn new(config: ChannelConfig, interface_hash: u64, domain: Option<DomainId>) -> Self {
        Hello { version: PROTOCOL_VERSION, config, interface_hash, domain, expedited_barrier: false }
    }

    /// Encodes the hello as words. Word 7 is zero and left to the carrier.
    #[must_use]
    pub fn to_words(&self) -> [u64; 8] {
        let slot_bytes = self.config.slot.bytes() as u64;
        let variant = u64::from(variant_code(self.config.variant));
        let flags = u64::from(self.expedited_barrier);
        [
            MAGIC,
            u64::from(self.version) | slot_bytes << 32 | variant << 48 | flags << 56,
            u64::from(self.config.slots),
            self.interface_hash,
            self.domain.map_or(0, DomainId::to_bits),
            0,
            0,
            0,
        ]
    }

    /// Encodes the hello as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.to_words()) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes the peer's hello and compares it with what this side expects.
    ///
    /// The comparison is on the raw words, so that a future version, whose other fields may have another
    /// meaning, is refused by its version.
    ///
    /// # Errors
    /// The first [`Refusal`] in the order version, slot size, slot count, variant, interface.
    pub fn agree(&self, theirs: &[u64; 8]) -> Result<Agreed, Refusal> {
        if theirs[0] != MAGIC {
            return Err(Refusal::NotTombolo { found: theirs[0] });
        }
        let version = theirs[1] as u32;
        if version != self.version {
            return Err(Refusal::Version { ours: self.version, theirs: version });
        }
        let (ours, slot_bytes) = (self.config.slot.bytes() as u32, (theirs[1] >> 32) as u32 & 0xffff);
        if slot_bytes != ours {
            return Err(Refusal::SlotSize { ours, theirs: slot_bytes });
        }
        if theirs[2] != u64::from(self.config.slots) {
            let theirs = u32::try_from(theirs[2]).unwrap_or(u32::MAX);
            return Err(Refusal::SlotCount { ours: self.config.slots, theirs });
        }
        let (ours, variant) = (variant_code(self.config.variant), (theirs[1] >> 48) as u32 & 0xff);
        if variant != ours {
            return Err(Refusal::Variant { ours, theirs: variant });
        }
        if theirs[3] != self.interface_hash {
            return Err(Refusal::Interface { ours: self.interface_hash, theirs: theirs[3] });
        }
        Ok(Agreed {
            peer: DomainId::from_bits(theirs[4]),
            expedited_barrier: self.expedited_barrier && theirs[1] >> 56 & 1 == 1,
        })
    }

    /// Returns the ring configuration that a connecting peer proposes, to be adopted by this side. Returns
    /// `None` if the configuration is invalid, or if the version differs and the fields may have another
    /// meaning; [`agree`](Self::agree) reports which, and checks everything else.
    #[must_use]
    pub fn proposed_config(theirs: &[u64; 8]) -> Option<ChannelConfig> {
        if theirs[0] != MAGIC || theirs[1] as u32 != PROTOCOL_VERSION {
            return None;
        }
        let slot = SlotSize::from_bytes((theirs[1] >> 32) as usize & 0xffff)?;
        let variant = match (theirs[1] >> 48) as u8 {
            0 => Variant::EpochCredit,
            1 => Variant::UsedFlag,
            _ => return None,
        };
        ChannelConfig::new(slot, u32::try_from(theirs[2]).ok()?, variant).ok()
    }
}

/// Returns the words of an encoded hello.
#[must_use]
pub fn words_from_bytes(bytes: &[u8; HELLO_BYTES]) -> [u64; 8] {
    let (chunks, _) = bytes.as_chunks::<8>();
    core::array::from_fn(|index| u64::from_le_bytes(chunks[index]))
}

/// Result of two hellos that agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Id that the peer claims.
    pub peer: Option<DomainId>,
    /// Whether both sides take part in expedited barriers.
    pub expedited_barrier: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;
    use tombolo_base::NodeId;

    fn hello() -> Hello {
        let config = ChannelConfig::new(SlotSize::B64, 256, Variant::EpochCredit).unwrap();
        let domain = DomainId::new(NodeId(1), NonZeroU16::new(2).unwrap(), 3);
        Hello { expedited_barrier: true, ..Hello::new(config, 0x1122_3344_5566_7788, Some(domain)) }
    }

    #[test]
    fn bytes_are_golden() {
        let mut expected = [0; 64];
        expected[..8].copy_from_slice(b"TMBLHELO");
        expected[8..16].copy_from_slice(&[1, 0, 0, 0, 64, 0, 0, 1]);
        expected[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0]);
        expected[24..32].copy_from_slice(&[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
        expected[32..40].copy_from_slice(&[3, 0, 0, 0, 2, 0, 1, 0]);
        assert_eq!(hello().to_bytes(), expected);
        assert_eq!(words_from_bytes(&expected), hello().to_words());
        assert_eq!(Hello::proposed_config(&hello().to_words()), Some(hello().config));
    }

    #[test]
    fn each_difference_is_refused_with_both_values() {
        let ours = hello();
        let mut theirs = ours;
        assert_eq!(ours.agree(&theirs.to_words()).unwrap().peer, ours.domain);
        theirs.interface_hash = 9;
        let refusal = Refusal::Interface { ours: ours.interface_hash, theirs: 9 };
        assert_eq!(ours.agree(&theirs.to_words()), Err(refusal));
        theirs.config.variant = Variant::UsedFlag;
        assert_eq!(ours.agree(&theirs.to_words()), Err(Refusal::Variant { ours: 0, theirs: 1 }));
        theirs.config.slots = 2;
        assert_eq!(ours.agree(&theirs.to_words()), Err(Refusal::SlotCount { ours: 256, theirs: 2 }));
        theirs.config.slot = SlotSize::B128;
        assert_eq!(ours.agree(&theirs.to_words()), Err(Refusal::SlotSize { ours: 64, theirs: 128 }));
        theirs.version = 2;
        assert_eq!(ours.agree(&theirs.to_words()), Err(Refusal::Version { ours: 1, theirs: 2 }));
        assert_eq!(ours.agree(&[7; 8]), Err(Refusal::NotTombolo { found: 7 }));
    }

    #[test]
    fn a_proposal_with_an_impossible_shape_is_none() {
        let good = hello().to_words();
        for (word, value) in
            [(0, 0), (1, 64 << 32 | 2), (1, 33 << 32 | 1), (1, 64 << 32 | 7 << 48 | 1), (2, 3), (2, 1 << 40)]
        {
            let mut words = good;
            words[word] = value;
            assert_eq!(Hello::proposed_config(&words), None, "{word} {value:#x}");
            assert!(hello().agree(&words).is_err(), "{word} {value:#x}");
        }
    }

    #[test]
    fn oversized_slot_count_is_reported_as_different() {
        let mut words = hello().to_words();
        words[2] |= 1 << 32;
        let refusal = Refusal::SlotCount { ours: 256, theirs: u32::MAX };
        assert_eq!(hello().agree(&words), Err(refusal));
    }

    #[test]
    fn sleeper_barrier_requires_support_on_both_sides() {
        for (ours, theirs) in [(false, false), (false, true), (true, false), (true, true)] {
            let ours = Hello { expedited_barrier: ours, ..hello() };
            let theirs = Hello { expedited_barrier: theirs, ..hello() };
            let both = ours.expedited_barrier && theirs.expedited_barrier;
            assert_eq!(ours.agree(&theirs.to_words()).unwrap().expedited_barrier, both);
            assert_eq!(theirs.agree(&ours.to_words()).unwrap().expedited_barrier, both);
        }
    }

    #[test]
    fn unknown_flags_and_reserved_words_are_ignored() {
        let mut words = hello().to_words();
        words[1] |= 0xfe << 56;
        words[5] = 7;
        words[6] = 7;
        assert!(hello().agree(&words).is_ok());
    }
    #[test]
    fn every_shape_is_encoded_and_decoded() {
        for slot in SlotSize::ALL {
            for variant in [Variant::EpochCredit, Variant::UsedFlag] {
                for slots in [2, 65_536] {
                    let config = ChannelConfig::new(slot, slots, variant).unwrap();
                    let hello_again = Hello::new(config, 0, None);
                    assert_eq!(Hello::proposed_config(&hello_again.to_words()), Some(config));
                    assert_eq!(
                        hello_again.agree(&hello_again.to_words()).map(|agreed| agreed.peer),
                        Ok(None)
                    );
                }
            }
        }
    }
}
