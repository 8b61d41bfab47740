//! Builds for other instruction sets, carried in an object file.
//!
//! The object for the first instruction set contains the others in sections that linkers discard. So all
//! builds follow the object: into an archive, to another folder, under another name. An object made by
//! another compiler has none, and cannot be mistaken for a build of the same source.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use object::read::archive::ArchiveFile;
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _};
use tombolo_base::Isa;

use super::{CompileError, binutil, file_error, run_writer};

/// Magic number of an archive.
const ARCHIVE: &[u8] = b"!<arch>\n";

/// Returns the section name for an instruction set. The content is prefixed with its length, so that sections
/// merged by a linker (`ld -r`) are not mistaken for one build.
fn section(isa: Isa) -> String {
    format!(".tombolo.build.{}", isa.name())
}

/// Returns a name that is unique among the files of a folder.
fn unique_name(path: &Path) -> String {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{}-{name}", NUMBERS.fetch_add(1, Ordering::Relaxed))
}

/// Returns the temporary path of an object's build for another instruction set.
#[must_use]
pub fn foreign_object_path(object: &Path, isa: Isa, scratch: &Path) -> PathBuf {
    scratch.join(isa.name()).join(unique_name(object))
}

/// Embeds the build for another instruction set into the object at `path`, which was compiled for `first`.
/// Skips paths that are not regular files, such as `/dev/null`.
///
/// # Errors
/// A file cannot be read or written, or the tool that writes objects cannot be started.
pub fn embed_build(path: &Path, first: Isa, isa: Isa, build: &Path) -> Result<(), CompileError> {
    if !path.is_file() {
        return Ok(());
    }
    let bytes = fs::read(build).map_err(file_error("read", build))?;
    let content = [&(bytes.len() as u64).to_le_bytes()[..], &bytes].concat();
    let file = build.with_extension("carried");
    fs::write(&file, content).map_err(file_error("write", &file))?;
    let name = section(isa);
    let mut command = Command::new(binutil("objcopy", first));
    // The object may contain sections of an earlier compilation.
    command.arg(format!("--remove-section={name}"));
    command.arg("--add-section").arg(format!("{name}={}", file.display()));
    command.arg(format!("--set-section-flags={name}=readonly,exclude")).arg(path);
    run_writer(&mut command, path)
}

/// Extracts the build for `isa` from an object, or from an archive of objects, which is for `first`. Returns
/// its file, which lies in `scratch` unless it is `path` itself. `with` is the command that makes such
/// objects, for messages.
///
/// # Errors
/// [`CompileError::NoForeignObject`] if an object has none, [`CompileError::SharedLibrary`], and the errors
/// of [`embed_build`].
pub fn extract_build(
    path: &Path,
    (isa, first): (Isa, Isa),
    scratch: &Path,
    with: &'static str,
) -> Result<PathBuf, CompileError> {
    if isa == first {
        return Ok(path.to_owned());
    }
    let bytes = fs::read(path).map_err(file_error("read", path))?;
    let out = foreign_object_path(path, isa, scratch);
    let folder = out.parent().unwrap_or(scratch);
    fs::create_dir_all(folder).map_err(file_error("write", folder))?;
    let found = |bytes: &[u8], name: String| {
        let none = || CompileError::NoForeignObject { name, isa, with };
        embedded_build(bytes, isa).map(<[u8]>::to_vec).ok_or_else(none)
    };
    if is_shared_library(&bytes) {
        return Err(CompileError::SharedLibrary { path: path.to_owned() });
    }
    if !bytes.starts_with(ARCHIVE) {
        let build = found(&bytes, path.display().to_string())?;
        fs::write(&out, build).map_err(file_error("write", &out))?;
        return Ok(out);
    }
    let malformed = |error: object::Error| file_error("read", path)(std::io::Error::other(error));
    let mut archive = Command::new(binutil("ar", isa));
    // Keeps the order of the archive, which determines linking, and avoids duplicate names.
    archive.arg("rcs").arg(&out);
    for member in ArchiveFile::parse(&*bytes).map_err(malformed)?.members() {
        let member = member.map_err(malformed)?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let build = found(member.data(&*bytes).map_err(malformed)?, format!("{name} in {}", path.display()))?;
        let file = folder.join(unique_name(Path::new(&name)));
        fs::write(&file, build).map_err(file_error("write", &file))?;
        archive.arg(file);
    }
    run_writer(&mut archive, &out)?;
    Ok(out)
}

fn is_shared_library(bytes: &[u8]) -> bool {
    ElfFile64::<Endianness>::parse(bytes).is_ok_and(|file| file.kind() == object::ObjectKind::Dynamic)
}

/// Returns the build embedded in an object.
fn embedded_build(object: &[u8], isa: Isa) -> Option<&[u8]> {
    let file = ElfFile64::<Endianness>::parse(object).ok()?;
    let content = file.section_by_name(&section(isa))?.data().ok()?;
    let (length, build) = content.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*length) == build.len() as u64).then_some(build)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::Scratch;

    fn compile(folder: &Path, name: &str) -> Option<PathBuf> {
        let (source, object) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.o")));
        fs::write(&source, format!("int {name}(void) {{ return 1; }}\n")).unwrap();
        let done = Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&object).status().ok()?;
        done.success().then_some(object)
    }

    #[test]
    fn builds_follow_their_objects() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.path();
        let (here, other) = (Isa::current(), Isa::S390x);
        let (Some(one), Some(two)) = (compile(folder, "one"), compile(folder, "two")) else { return };
        let build = folder.join("build");
        let of = |path: &Path| {
            extract_build(path, (other, here), folder, "cc").map(|path| fs::read(path).unwrap())
        };
        assert!(of(&one).unwrap_err().to_string().contains("one.o has no build for s390x"));
        fs::write(&build, b"first").unwrap();
        embed_build(&one, here, other, &build).unwrap();
        // Compiled again, it carries the new build.
        fs::write(&build, b"second").unwrap();
        embed_build(&one, here, other, &build).unwrap();
        let moved = folder.join("moved.o");
        fs::rename(&one, &moved).unwrap();
        assert_eq!(of(&moved).unwrap(), b"second");
        assert_eq!(extract_build(&moved, (here, here), folder, "cc").unwrap(), moved);
        // Objects merged by a linker do not contain a build of the whole.
        fs::write(&build, b"third").unwrap();
        embed_build(&two, here, other, &build).unwrap();
        let whole = folder.join("whole.o");
        let mut linker = Command::new("ld");
        linker.arg("-r").args([&moved, &two]).arg("-o").arg(&whole);
        assert!(linker.status().unwrap().success());
        assert!(of(&whole).is_err());
        // An archive of which one member carries none is refused by that member's name.
        let (archive, plain) = (folder.join("liball.a"), compile(folder, "plain").unwrap());
        assert!(
            Command::new("ar").arg("rcs").arg(&archive).args([&moved, &plain]).status().unwrap().success()
        );
        let error = of(&archive).unwrap_err().to_string();
        assert!(
            error.contains("plain.o in ") && error.contains("liball.a has no build for s390x"),
            "{error}"
        );
    }

    #[test]
    fn embedding_into_a_device_is_skipped() {
        embed_build(Path::new("/dev/null"), Isa::current(), Isa::S390x, Path::new("/nonexistent")).unwrap();
    }
}
