//! What an executable is linked with.

use super::{ElfError, Fields, PROGRAM_HEADER_BYTES, fields};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

const ENTRY_BYTES: u64 = 16;

/// Entries of the dynamic section that are looked at; programs have a few dozen.
const MAX_ENTRIES: u64 = 4096;

/// The longest name of a library, and the longest list of folders, in bytes.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// What an executable says of the libraries that it is linked with.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Linked {
    /// Their names, such as `libc.so.6`.
    pub needed: Vec<String>,
    /// Where they are looked for before anywhere else, as it is written there: `$ORIGIN` stands for its own folder.
    pub run_path: Vec<String>,
}

/// Reads what an executable is linked with; nothing if it stands alone.
///
/// # Errors
/// [`ElfError`] says what is wrong; nothing outside `bytes` is ever looked at.
pub fn linked(bytes: &[u8]) -> Result<Linked, ElfError> {
    let file = fields(bytes)?;
    let mut loads = Vec::new();
    let mut dynamic = None;
    let (table, count) = (file.u64(32)?, file.u16(56)?);
    for index in 0..u64::from(count) {
        let header = table.checked_add(index * PROGRAM_HEADER_BYTES).ok_or(ElfError::Malformed)?;
        let field = |at: u64| header.checked_add(at).ok_or(ElfError::Malformed);
        let (offset, address, length) = (file.u64(field(8)?)?, file.u64(field(16)?)?, file.u64(field(32)?)?);
        match file.u32(header)? {
            PT_LOAD => loads.push((offset, address, length)),
            PT_DYNAMIC => dynamic = Some((offset, length)),
            _ => {}
        }
    }
    match dynamic {
        None => Ok(Linked::default()),
        Some((offset, length)) => read_dynamic(&file, offset, length, &loads),
    }
}

fn read_dynamic(
    file: &Fields<'_>,
    offset: u64,
    length: u64,
    loads: &[(u64, u64, u64)],
) -> Result<Linked, ElfError> {
    let (mut needed, mut run_path) = (Vec::new(), None);
    let (mut text_address, mut text_bytes) = (None, 0);
    for index in 0..(length / ENTRY_BYTES).min(MAX_ENTRIES) {
        let entry = offset.checked_add(index * ENTRY_BYTES).ok_or(ElfError::Malformed)?;
        let value = file.u64(entry.checked_add(8).ok_or(ElfError::Malformed)?)?;
        match file.u64(entry)? {
            DT_NULL => break,
            DT_NEEDED => needed.push(value),
            DT_STRTAB => text_address = Some(value),
            DT_STRSZ => text_bytes = value,
            // The newer of the two wins.
            DT_RUNPATH => run_path = Some(value),
            DT_RPATH => run_path = run_path.or(Some(value)),
            _ => {}
        }
    }
    let Some(address) = text_address else {
        return if needed.is_empty() { Ok(Linked::default()) } else { Err(ElfError::Malformed) };
    };
    let place = |(offset, start, length): &(u64, u64, u64)| {
        let within = address.checked_sub(*start).filter(|within| within < length)?;
        offset.checked_add(within)
    };
    let text = file.range(loads.iter().find_map(place).ok_or(ElfError::Malformed)?, text_bytes)?;
    let run_path = run_path.map(|at| string(text, at)).transpose()?.unwrap_or_default();
    Ok(Linked {
        needed: needed.into_iter().map(|at| string(text, at)).collect::<Result<_, _>>()?,
        run_path: run_path.split(':').filter(|folder| !folder.is_empty()).map(str::to_owned).collect(),
    })
}

fn string(text: &[u8], at: u64) -> Result<String, ElfError> {
    let start = usize::try_from(at).map_err(|_| ElfError::Malformed)?;
    let rest = text.get(start..).ok_or(ElfError::Malformed)?;
    let end = rest.iter().take(MAX_TEXT_BYTES).position(|byte| *byte == 0).ok_or(ElfError::Malformed)?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tombolo_base::Isa;

    use super::super::smallest;
    use super::*;

    /// An executable with a dynamic section: two libraries and a run path.
    fn linked_program(isa: Isa) -> Vec<u8> {
        let mut bytes = smallest(isa);
        bytes.extend([0; 56]);
        let text = b"\0libmpi.so.12\0libc.so.6\0$ORIGIN/lib:/opt\0";
        let dynamic_at = bytes.len() as u64;
        let entries = [
            (DT_NEEDED, 1),
            (DT_NEEDED, 14),
            (DT_RPATH, 14),
            (DT_RUNPATH, 24),
            (DT_STRTAB, 0x40_0000 + dynamic_at + 7 * ENTRY_BYTES),
            (DT_STRSZ, text.len() as u64),
            (DT_NULL, 0),
        ];
        let length = entries.len() as u64 * ENTRY_BYTES;
        let number = |value: u64| if isa.big_endian() { value.to_be_bytes() } else { value.to_le_bytes() };
        let put = |bytes: &mut Vec<u8>, at: usize, value: &[u8]| {
            bytes[at..at + value.len()].copy_from_slice(value);
        };
        for (tag, value) in entries {
            bytes.extend(number(tag));
            bytes.extend(number(value));
        }
        bytes.extend(text);
        let all = number(bytes.len() as u64);
        put(&mut bytes, 64 + 16, &number(0x40_0000));
        put(&mut bytes, 64 + 32, &all);
        let kind = if isa.big_endian() { PT_DYNAMIC.to_be_bytes() } else { PT_DYNAMIC.to_le_bytes() };
        put(&mut bytes, 120, &kind);
        put(&mut bytes, 120 + 8, &number(dynamic_at));
        put(&mut bytes, 120 + 32, &number(length));
        let headers = if isa.big_endian() { [0, 2] } else { [2, 0] };
        put(&mut bytes, 56, &headers);
        bytes
    }

    #[test]
    fn libraries_and_folders_are_read_on_every_isa() {
        for isa in Isa::ALL {
            let linked = linked(&linked_program(isa)).unwrap();
            assert_eq!(linked.needed, ["libmpi.so.12", "libc.so.6"], "{isa}");
            assert_eq!(linked.run_path, ["$ORIGIN/lib", "/opt"], "{isa}");
        }
        assert_eq!(linked(&smallest(Isa::Aarch64)), Ok(Linked::default()));
        let this = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(linked(&this).unwrap().needed.iter().any(|library| library.starts_with("libc.so")));
    }

    #[test]
    fn what_points_nowhere_is_refused() {
        let good = linked_program(Isa::X86_64);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            linked(&bytes)
        };
        let first_entry = 64 + 2 * 56;
        assert_eq!(with(first_entry + 8, 0xf0), Err(ElfError::Malformed), "a name outside the text");
        assert_eq!(with(first_entry + 4 * 16 + 14, 1), Err(ElfError::Malformed), "a text in no segment");
        assert_eq!(with(first_entry + 5 * 16 + 8, 0xff), Err(ElfError::Malformed), "a text past the end");
        assert_eq!(linked(b"#!/bin/sh\n"), Err(ElfError::NotElf));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            isa in prop::sample::select(Isa::ALL.to_vec()),
            changes in prop::collection::vec((0_usize..330, any::<u8>()), 0..12),
            length in 0_usize..=330,
        ) {
            let mut bytes = linked_program(isa);
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            let _ = linked(&bytes[..length.min(bytes.len())]);
        }
    }
}
