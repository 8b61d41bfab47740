//! Minimal reader of flattened device trees, which finds the memory of the board.
//!
//! The tree comes from the emulator that created the board, before any other code could change it; it is
//! nevertheless read with bounds checks.

const MAGIC: u32 = 0xd00d_feed;
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const NOP: u32 = 4;

/// Number of bytes of the header that are used.
pub const HEADER_BYTES: usize = 40;

/// Returns the length of the tree that `header` begins, if it is valid.
#[must_use]
pub fn length_bytes(header: &[u8]) -> Option<usize> {
    (read_u32(header, 0)? == MAGIC).then_some(read_u32(header, 4)? as usize)
}

/// Returns the first range of memory: address and length in bytes.
///
/// Only supports trees whose root has two cells for each, as on all 64-bit boards.
#[must_use]
pub fn memory(tree: &[u8]) -> Option<(u64, u64)> {
    length_bytes(tree)?;
    let (structure, strings) = (read_u32(tree, 8)? as usize, read_u32(tree, 12)? as usize);
    let (mut at, mut depth, mut in_memory) = (structure, 0, false);
    loop {
        let token = read_u32(tree, at)?;
        at = at.checked_add(4)?;
        match token {
            BEGIN_NODE => {
                let name = read_string(tree, at)?;
                depth += 1;
                in_memory = depth == 2 && (name == b"memory" || name.starts_with(b"memory@"));
                at = at.checked_add(name.len() + 1)?.checked_next_multiple_of(4)?;
            }
            END_NODE => {
                depth -= 1;
                in_memory = false;
            }
            PROP => {
                let length = read_u32(tree, at)? as usize;
                let name =
                    read_string(tree, strings.checked_add(read_u32(tree, at.checked_add(4)?)? as usize)?)?;
                let value = at.checked_add(8)?;
                if in_memory && name == b"reg" && length >= 16 {
                    return Some((read_u64(tree, value)?, read_u64(tree, value.checked_add(8)?)?));
                }
                at = value.checked_add(length)?.checked_next_multiple_of(4)?;
            }
            NOP => {}
            _ => return None,
        }
    }
}

fn read_u32(tree: &[u8], at: usize) -> Option<u32> {
    let bytes = tree.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn read_u64(tree: &[u8], at: usize) -> Option<u64> {
    Some(u64::from(read_u32(tree, at)?) << 32 | u64::from(read_u32(tree, at.checked_add(4)?)?))
}

fn read_string(tree: &[u8], at: usize) -> Option<&[u8]> {
    let rest = tree.get(at..)?;
    rest.get(..rest.iter().position(|byte| *byte == 0)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tree with a `chosen` node first, and memory of 32 MiB at 0x4000_0000.
    fn tree() -> Vec<u8> {
        let strings = b"reg\0";
        let mut body = Vec::new();
        let mut put = |words: &[u32]| words.iter().for_each(|read_u32| body.extend(read_u32.to_be_bytes()));
        put(&[BEGIN_NODE, 0]);
        put(&[NOP, BEGIN_NODE, u32::from_be_bytes(*b"intc"), 0, PROP, 16, 0, 0, 7, 0, 8, END_NODE]);
        put(&[BEGIN_NODE, u32::from_be_bytes(*b"memo"), u32::from_be_bytes(*b"ry@4"), 0]);
        put(&[PROP, 16, 0, 0, 0x4000_0000, 0, 32 << 20, END_NODE, END_NODE, 9]);
        let mut tree = Vec::new();
        let total = (HEADER_BYTES + body.len() + strings.len()) as u32;
        let header = [MAGIC, total, HEADER_BYTES as u32, (HEADER_BYTES + body.len()) as u32];
        header.iter().chain(&[0; 6]).for_each(|read_u32| tree.extend(read_u32.to_be_bytes()));
        tree.extend(body);
        tree.extend(strings);
        tree
    }

    #[test]
    fn memory_is_found() {
        assert_eq!(memory(&tree()), Some((0x4000_0000, 32 << 20)));
        assert_eq!(length_bytes(&tree()), Some(tree().len()));
    }

    #[test]
    fn truncated_or_invalid_trees_give_no_memory() {
        let tree = tree();
        let end_of_value = tree.len() - 4 - 12;
        for length in 0..end_of_value {
            assert_eq!(memory(&tree[..length]), None, "{length}");
        }
        let mut other = tree.clone();
        other[0] ^= 1;
        assert_eq!(memory(&other), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(changes in proptest::collection::vec((0_usize..200, 0_u8..=255), 0..8)) {
            let mut tree = tree();
            for (at, value) in changes {
                if let Some(byte) = tree.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = memory(&tree);
        }
    }
}
