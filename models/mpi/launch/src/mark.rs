//! Marks that `tombolo mpicc` writes into programs: the MPI library that they are linked with and the sources
//! that they were built from. If the builds of an image differ in these, they are refused as different
//! programs.
//!
//! A mark is a set of ELF notes with the owner `Tombolo MPI`: one of type 1 with the MPI library, and one of
//! type 2 per source with its name and hash. Values are UTF-8.

use std::collections::BTreeSet;
use std::fmt;

use tombolo::Isa;
use tombolo_machine::Image;
use tombolo_machine::image::{Program, elf};

/// Owner name of the notes, NUL-terminated.
pub(crate) const OWNER: &str = "Tombolo MPI\0";
/// Note type of the MPI library: `mpich 5.0.2, ABI mpich`.
pub(crate) const MPI: u32 = 1;
/// Note type of a source: its name, and the hash of its text and its `-D` and `-U` options.
pub(crate) const SOURCE: u32 = 2;

/// Limits on the notes of a program: their number, and the bytes of each.
const MAX_NOTES: usize = 65_536;
const MAX_VALUE_BYTES: usize = 4096;

/// The mark of one build.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// MPI library and ABI, `mpich 5.0.2, ABI mpich`; `None` if it was not linked by `tombolo mpicc`.
    pub mpi: Option<String>,
    /// Sources with their hashes; empty if they were not compiled by `tombolo mpicc`.
    pub sources: BTreeSet<String>,
}

impl Mark {
    /// Reads the mark of a program. Programs of other compilers have an empty mark; unknown notes are
    /// ignored.
    #[must_use]
    pub fn of(program: &Program<'_>) -> Mark {
        Mark::read(program.bytes)
    }

    fn read(bytes: &[u8]) -> Mark {
        let mut mark = Mark::default();
        for note in elf::notes(bytes).take(MAX_NOTES).filter(|note| note.owner == OWNER.as_bytes()) {
            let value = std::str::from_utf8(note.value).ok().filter(|value| value.len() <= MAX_VALUE_BYTES);
            match (note.kind, value) {
                (MPI, Some(value)) => mark.mpi = Some(value.to_owned()),
                (SOURCE, Some(value)) => drop(mark.sources.insert(value.to_owned())),
                _ => {}
            }
        }
        mark
    }
}

/// Encodes a note for little-endian targets.
pub(crate) fn note(kind: u32, value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [OWNER.len() as u32, value.len() as u32, kind] {
        bytes.extend(word.to_le_bytes());
    }
    for text in [OWNER, value] {
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

/// Two builds of an image come from different programs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct DifferentBuilds {
    image: String,
    isas: (Isa, Isa),
    difference: Difference,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Difference {
    Mpi(String, String),
    Sources(Vec<String>),
}

impl fmt::Display for DifferentBuilds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = self.isas;
        match &self.difference {
            Difference::Mpi(one, other) => write!(
                f,
                "the builds of `{}` cannot be in one job: that for {first} is linked with {one}, that for {second} with \
                 {other}",
                self.image
            )?,
            Difference::Sources(names) => write!(
                f,
                "the builds of `{}` for {first} and {second} are not of the same program: {} differs",
                self.image,
                names.join(", ")
            )?,
        }
        f.write_str("; compile it anew with `tombolo mpicc`")
    }
}

/// Checks that the builds of an image have consistent marks.
///
/// # Errors
/// [`DifferentBuilds`], with the first difference.
pub fn check_builds(image: &Image) -> Result<(), DifferentBuilds> {
    let marks: Vec<(Isa, Mark)> =
        image.programs().map(|program| (program.target.isa, Mark::of(&program))).collect();
    let Some(((first, mark), others)) = marks.split_first() else { return Ok(()) };
    for (isa, other) in others {
        let differ =
            |difference| DifferentBuilds { image: image.name().to_owned(), isas: (*first, *isa), difference };
        if let (Some(one), Some(two)) = (&mark.mpi, &other.mpi)
            && one != two
        {
            return Err(differ(Difference::Mpi(one.clone(), two.clone())));
        }
        // Objects of other compilers carry no mark.
        if mark.sources.is_empty() || other.sources.is_empty() {
            continue;
        }
        let names: BTreeSet<&str> =
            mark.sources.symmetric_difference(&other.sources).filter_map(|source| name_of(source)).collect();
        if !names.is_empty() {
            return Err(differ(Difference::Sources(names.into_iter().map(str::to_owned).collect())));
        }
    }
    Ok(())
}

/// File name in a source note.
fn name_of(source: &str) -> Option<&str> {
    source.rsplit_once(' ').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal executable with these notes.
    fn program(isa: Isa, notes: &[Vec<u8>]) -> Vec<u8> {
        let notes = notes.concat();
        let mut bytes = vec![0_u8; 64 + 2 * 56];
        bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]);
        let length = notes.len() as u64;
        let mut put = |at: usize, value: u64, width: usize| {
            bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        };
        for (at, value, width) in [
            (16, 2, 2),
            (18, isa.elf_machine().into(), 2),
            (20, 1, 4),
            (32, 64, 8),
            (52, 64, 2),
            (54, 56, 2),
            (56, 2, 2),
            (64, 1, 4),
            (64 + 56, 4, 4),
            (64 + 56 + 8, 64 + 2 * 56, 8),
            (64 + 56 + 32, length, 8),
        ] {
            put(at, value, width);
        }
        bytes.extend(notes);
        bytes
    }

    fn image(x86: &[Vec<u8>], arm: &[Vec<u8>]) -> Image {
        tombolo_machine::image::ImageBuilder::new("job")
            .with_program(program(Isa::X86_64, x86))
            .unwrap()
            .with_program(program(Isa::Aarch64, arm))
            .unwrap()
            .finish()
            .unwrap()
    }

    fn mpi(value: &str) -> Vec<u8> {
        note(MPI, value)
    }

    fn source(value: &str) -> Vec<u8> {
        note(SOURCE, value)
    }

    #[test]
    fn builds_of_different_programs_are_detected() {
        let check =
            |x86: &[Vec<u8>], arm: &[Vec<u8>]| check_builds(&image(x86, arm)).map_err(|why| why.to_string());
        let (four, five) = (mpi("mpich 4, ABI mpich"), mpi("mpich 5, ABI mpich"));
        let (a, b, c) = (source("my main.c aa"), source("util.c bb"), source("util.c cc"));
        assert_eq!(
            check(&[five.clone(), a.clone(), b.clone()], &[b.clone(), a.clone(), five.clone()]),
            Ok(())
        );
        assert_eq!(check(&[], &[five.clone(), a.clone()]), Ok(()), "the other says nothing");
        assert_eq!(
            check(&[four], &[five]).unwrap_err(),
            "the builds of `job` cannot be in one job: that for x86_64 is linked with mpich 4, ABI mpich, that for \
             aarch64 with mpich 5, ABI mpich; compile it anew with `tombolo mpicc`"
        );
        assert_eq!(
            check(&[a.clone(), b], &[c, a.clone()]).unwrap_err(),
            "the builds of `job` for x86_64 and aarch64 are not of the same program: util.c differs; compile it anew \
             with `tombolo mpicc`"
        );
        assert!(
            check(std::slice::from_ref(&a), &[source("my main.c ab")]).unwrap_err().contains("my main.c")
        );
    }

    #[test]
    fn foreign_notes_are_ignored() {
        let mut of_gnu = note(MPI, "gnu");
        of_gnu[12..16].copy_from_slice(b"GNU\0");
        let bytes = program(Isa::X86_64, &[of_gnu, mpi("one"), note(9, "later"), source("x 1")]);
        let mark = Mark::read(&bytes);
        assert_eq!((mark.mpi.as_deref(), mark.sources.len()), (Some("one"), 1));
        assert_eq!(Mark::read(b"\x7fELF"), Mark::default());
    }
}
