//! Images: one file that holds a build of a program for each instruction set, under Linux or on boards.
//!
//! The file format is specified in `docs/specs/image.md`. A bare ELF executable is an image with one build:
//! it gets the id that packing it under its file name would give it.

mod container;
pub mod elf;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tombolo_base::Target;

pub use container::FormatError;
pub use elf::ElfError;

/// Maximum length of an image file: 1 GiB.
pub const MAX_IMAGE_BYTES: u64 = 1 << 30;

/// Maximum length of an image's name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;

/// Environment variable with the `argv[0]` of a program, if that is not its name. The monitor that starts the
/// program removes it: the program's own children have other paths.
pub const ARGV0_VARIABLE: &str = "TOMBOLO_ARGV0";

/// Identity of an image by content: SHA-256 over its name and the hashes of all its builds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(pub [u8; 32]);

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ImageId({self})")
    }
}

/// An image in memory, completely checked. Cloning is cheap.
#[derive(Clone)]
pub struct Image {
    name: String,
    id: ImageId,
    restartable: bool,
    bytes: Arc<[u8]>,
    sections: Vec<container::Section>,
}

/// One build of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program<'a> {
    /// Target that it runs on.
    pub target: Target,
    /// Content of the ELF file.
    pub bytes: &'a [u8],
    /// SHA-256 hash of the ELF file.
    pub sha256: [u8; 32],
    /// Dynamic linker that the node must have; `None` for a static program, which runs on any node.
    pub interpreter: Option<&'a str>,
}

/// Reason why an image cannot be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The file cannot be read.
    #[error("cannot read image {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is longer than any image may be.
    #[error("{} is longer than the {MAX_IMAGE_BYTES} bytes that an image may have", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The content is not an image.
    #[error("`{name}` is not an image that can run: {source}")]
    Format {
        /// The file, or the name given by the sender of the image.
        name: String,
        /// The defect of the content.
        source: FormatError,
    },
    /// The file is an ELF file, but no node can run it.
    #[error("`{name}` cannot run on any node: {source}")]
    Program {
        /// The file, or the name given by the sender of the image.
        name: String,
        /// The defect of the executable.
        source: ElfError,
    },
}

/// The image has builds, but not for this target.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "image `{image}` has no build for {target}, only for {}; build it with `tombolo build --isa {target}`",
    available.iter().map(|target| target.name()).collect::<Vec<_>>().join(", ")
)]
pub struct NoBuildForIsa {
    /// The name of the image.
    pub image: String,
    /// Target that was requested.
    pub target: Target,
    /// Targets of the image's builds.
    pub available: Vec<Target>,
}

impl Image {
    /// Reads and checks an image file, or a bare ELF executable as an image with one build.
    ///
    /// # Errors
    /// [`ImageError`], which names the file.
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        let unreadable = |source| ImageError::Unreadable { path: path.to_owned(), source };
        // Checked before opening, because opening a pipe waits for a writer.
        if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
            return Err(unreadable(std::io::Error::other("it is not a regular file")));
        }
        let file = File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        // One more byte than allowed, to detect a file that is too long.
        file.take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > MAX_IMAGE_BYTES {
            return Err(ImageError::TooLong { path: path.to_owned() });
        }
        Image::from_bytes(&path.display().to_string(), bytes)
    }

    /// Checks an image, or a bare ELF executable, that is already in memory.
    ///
    /// `origin` is its source: errors name it, and a bare executable is named after its last component.
    ///
    /// # Errors
    /// [`ImageError::Format`] or [`ImageError::Program`].
    pub fn from_bytes(origin: &str, bytes: Vec<u8>) -> Result<Image, ImageError> {
        if elf::is_elf(&bytes) {
            let builder = ImageBuilder::new(name_from_path(Path::new(origin))).with_program(bytes);
            return builder
                .map_err(|source| ImageError::Program { name: origin.to_owned(), source })?
                .finish();
        }
        let contents = container::decode(&bytes)
            .map_err(|source| ImageError::Format { name: origin.to_owned(), source })?;
        let container::Contents { name, id, restartable, sections } = contents;
        Ok(Image { name, id, restartable, bytes: bytes.into(), sections })
    }

    /// Returns the name of the image: 1 to 64 bytes, no `/` and no control characters.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the id, equal for equal content.
    #[must_use]
    pub fn id(&self) -> ImageId {
        self.id
    }

    /// Returns whether its program declares that it may be ended and started again elsewhere.
    #[must_use]
    pub fn is_restartable(&self) -> bool {
        self.restartable
    }

    /// Returns the whole file, as `tombolo build` writes it.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the targets that it has builds for, in table order.
    #[must_use]
    pub fn targets(&self) -> Vec<Target> {
        self.sections.iter().map(|section| section.target).collect()
    }

    /// Returns all builds, in table order.
    pub fn programs(&self) -> impl Iterator<Item = Program<'_>> {
        self.sections.iter().map(|section| Program {
            target: section.target,
            bytes: &self.bytes[section.range.clone()],
            sha256: section.sha256,
            interpreter: section.interpreter.as_deref(),
        })
    }

    /// Returns the build for `target`.
    ///
    /// # Errors
    /// [`NoBuildForIsa`], with the targets that it has builds for.
    pub fn program(&self, target: impl Into<Target>) -> Result<Program<'_>, NoBuildForIsa> {
        let target = target.into();
        self.programs().find(|program| program.target == target).ok_or_else(|| NoBuildForIsa {
            image: self.name.clone(),
            target,
            available: self.targets(),
        })
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Image({} {} {:?})", self.name, self.id, self.targets())
    }
}

/// Builder of an image from builds of one program.
#[derive(Debug)]
pub struct ImageBuilder {
    name: String,
    restartable: bool,
    programs: BTreeMap<Target, Vec<u8>>,
}

impl ImageBuilder {
    /// Creates an empty image. Invalid characters in the name become `_`, and a long name is truncated.
    #[must_use]
    pub fn new(name: &str) -> ImageBuilder {
        let mut name: String = name.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect();
        name.truncate(name.floor_char_boundary(MAX_NAME_BYTES));
        if name.is_empty() {
            name.push('_');
        }
        ImageBuilder { name, restartable: false, programs: BTreeMap::new() }
    }

    /// Declares that the program may be ended and restarted elsewhere.
    #[must_use]
    pub fn restartable(mut self, restartable: bool) -> ImageBuilder {
        self.restartable = restartable;
        self
    }

    /// Adds an ELF executable, replacing an earlier one for the same target. The target comes from its
    /// headers.
    ///
    /// # Errors
    /// [`ElfError`] if the file is not an executable for a known instruction set.
    pub fn with_program(mut self, elf: Vec<u8>) -> Result<ImageBuilder, ElfError> {
        let executable = elf::inspect(&elf)?;
        self.programs.insert(executable.target, elf);
        Ok(self)
    }

    /// Packs the added programs into an image.
    ///
    /// # Errors
    /// [`ImageError::Format`] if there is no program, or they are too long in total.
    pub fn finish(self) -> Result<Image, ImageError> {
        let programs: Vec<_> = self.programs.iter().map(|(target, elf)| (*target, elf.as_slice())).collect();
        let bytes = container::encode(&self.name, self.restartable, &programs);
        Image::from_bytes(&self.name, bytes)
    }
}

/// Returns the name for a file's content: the last part of its path without extension.
fn name_from_path(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("program")
}

fn is_name_char(c: char) -> bool {
    !c.is_control() && c != '/'
}

fn name_is_valid(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_name_char)
}

#[cfg(test)]
mod tests;
