//! Links twice: first to determine the contents of each build, then with everything at its planned address.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};
use tombolo_base::Isa;
use tombolo_machine::build::gcc::{Outcome, file_error, for_each, start};

use super::object_names::{copy_name, find_part, shown_name};
use super::{Build, CompileError, Part, cxx, print_file_name, thread_locals, wrapped};
use crate::input::{
    Common, LinkedFile, Object, ObjectError, Owner, Section, UsedFeatures, members, parse_trace,
};
use crate::plan::{Demand, PAGE_BYTES, Plan};
use crate::report::Report;
use crate::script::{
    CONSTRUCTORS_END, CONSTRUCTORS_START, Input, LAYOUT_ID, PROGRAM_FILE, SHARED_END, SHARED_START, script,
    unnamed_section,
};
use crate::symbols::{
    Agreement, Symbols, address_file_range, compare_symbols, defined_symbols, section_file_range,
};
use crate::types::{self, Refusal};

/// Assembly that is part of every program: space for the layout's id, and the first thread-local, which is
/// [`thread_locals::THREAD_WORD`] and aligns the start of thread-local blocks.
const OWN_SYMBOLS: &str = "\
.section .rodata.@ID@,\"a\",%progbits\n.globl @ID@\n.type @ID@,%object\n.size @ID@,32\n.balign 64\n@ID@: .zero 32\n\
.section .tdata.__tombolo_omp_thread,\"awT\",%progbits\n.globl __tombolo_omp_thread\n.type __tombolo_omp_thread,%object\n\
.size __tombolo_omp_thread,8\n.balign 64\n__tombolo_omp_thread: .zero 8\n\
.section .note.GNU-stack,\"\",%progbits\n";

/// Length of a layout's id, in bytes.
const ID_BYTES: usize = 32;

/// Linked programs, one for each instruction set.
pub(super) type Programs = Vec<(Isa, Vec<u8>)>;

/// Parameters of the link step.
pub(super) struct LinkStep<'a> {
    pub(super) builds: &'a [Build],
    pub(super) scratch: &'a Path,
    pub(super) allow: &'a [String],
    /// Whether programs keep their debug information.
    pub(super) keep_types: bool,
}

/// Object that was linked into a build.
struct LinkedObject {
    /// File name in the build's folder.
    file: String,
    object: Object,
}

/// Result of the first link of a build.
struct FirstLink {
    objects: Vec<LinkedObject>,
    /// Bytes of the linked program.
    bytes: Vec<u8>,
}

impl LinkStep<'_> {
    /// Links all builds. Returns `None` if a linker failed; its messages are in `outcome`.
    pub(super) fn run(&self, outcome: &mut Outcome) -> Result<Option<(Programs, Report)>, CompileError> {
        let Some(mut first_links) = self.link_all_unplaced(outcome)? else { return Ok(None) };
        let (compared, allowed) = self.compare(&first_links)?;
        self.define_common_symbols(&mut first_links)?;
        let demands: Vec<(Isa, Demand)> = self
            .builds
            .iter()
            .zip(&first_links)
            .map(|(build, first_link)| (build.isa(), demand(first_link)))
            .collect();
        let plan = Plan::new(&demands)?;
        let builds: Vec<(&Build, &FirstLink)> = self.builds.iter().zip(&first_links).collect();
        let linked = for_each(&builds, |(build, first_link)| self.link(build, first_link, &plan));
        let mut programs = Vec::new();
        for (build, linked) in self.builds.iter().zip(linked) {
            programs.push((build.isa(), linked?));
        }
        let agreement = self.verify_addresses(&programs, &first_links, &plan)?;
        replicate_constants(&mut programs, &plan)?;
        let id = write_layout_id(&mut programs, &plan)?;
        let report = Report {
            isas: self.builds.iter().map(|build| build.isa().name()).collect(),
            library: self.builds[0].installation.version().to_owned(),
            layout_id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            areas: Report::areas(&plan, self.builds.len()),
            symbols: agreement,
            variables_compared: compared.variables,
            frames_compared: compared.frames,
            allowed,
        };
        Ok(Some((programs, report)))
    }

    /// Links all builds without a layout, and reads the objects that the linkers used.
    fn link_all_unplaced(&self, outcome: &mut Outcome) -> Result<Option<Vec<FirstLink>>, CompileError> {
        let linked = for_each(self.builds, |build| self.link_unplaced(build));
        let mut programs = Vec::new();
        for (build, linked) in self.builds.iter().zip(linked) {
            let (output, program) = linked?;
            outcome.record(build.isa(), append_hint(output.stderr, build), output.status.success());
            programs.push((build, String::from_utf8_lossy(&output.stdout).into_owned(), program));
        }
        if !outcome.failed.is_empty() {
            return Ok(None);
        }
        let read = |(build, trace, program): (&Build, String, PathBuf)| {
            let bytes = fs::read(&program).map_err(file_error("read", &program))?;
            Ok(FirstLink { objects: self.read_objects(build, &trace, &bytes)?, bytes })
        };
        programs.into_iter().map(read).collect::<Result<_, CompileError>>().map(Some)
    }

    fn folder(&self, build: &Build) -> PathBuf {
        self.scratch.join(build.isa().name())
    }

    /// Links one build without a layout, and traces which archive members are used.
    fn link_unplaced(&self, build: &Build) -> Result<(std::process::Output, PathBuf), CompileError> {
        let folder = self.folder(build);
        fs::create_dir_all(&folder).map_err(file_error("write", &folder))?;
        let is_cxx = build.used_features()?.cxx;
        let mut own = OWN_SYMBOLS.replace("@ID@", LAYOUT_ID);
        if is_cxx {
            own.push_str(cxx::SYMBOLS);
            own.push_str(cxx::arc4random_body(build.isa()));
        }
        own.push_str(&match build.has_run_time()? {
            true => wrapped::symbols(build.isa()),
            false => thread_locals::init_first_thread(build.isa()).to_owned(),
        });
        assemble(build, &folder, "own", &own)?;
        let library = |name: &str| build.installation.library(name).into_os_string();
        let mut command = linker(build, &folder, "once")?;
        for symbol in [SHARED_START, SHARED_END, CONSTRUCTORS_START, CONSTRUCTORS_END] {
            command.arg(format!("-Wl,--defsym={symbol}=0"));
        }
        command.args(["-Wl,-t,-t"]).arg(library("crt1.o")).arg(library("crti.o"));
        for (number, part) in build.parts.iter().enumerate() {
            if let Part::Object(path) = part {
                // Copied to a unique name, which identifies it in the trace.
                let name = copy_name(number);
                fs::copy(path, folder.join(&name)).map_err(file_error("read", path))?;
                command.arg(name);
            }
        }
        command.args(["own.o", "-Wl,--start-group"]);
        for part in &build.parts {
            if let Part::Archive(path) = part {
                command.arg(path);
            }
        }
        // The C library and the compiler's library come first: the run-time contains Rust's arithmetic
        // functions, which are only a fallback.
        command.arg(library("libc.a")).arg(print_file_name(&build.tool, "libgcc.a")?);
        let has_run_time = build.has_run_time()?;
        if is_cxx {
            command.arg(print_file_name(&build.tool, "libstdc++.a")?);
            if !has_run_time {
                command.arg(library("libunwind.a"));
            }
        }
        if has_run_time {
            command.args(build.installation.run_time());
        }
        command.arg("-Wl,--end-group").arg(library("crtn.o"));
        Ok((start(&mut command)?, folder.join("once")))
    }

    /// Reads all objects that a linker used, and writes each into the build's folder under a unique name.
    fn read_objects(
        &self,
        build: &Build,
        trace: &str,
        program: &[u8],
    ) -> Result<Vec<LinkedObject>, CompileError> {
        let folder = self.folder(build);
        let symbols = defined_symbols(build.isa(), program)?;
        let has_run_time = build.has_run_time()?;
        let mut archives: HashMap<String, Vec<u8>> = HashMap::new();
        let mut count: HashMap<(String, String), usize> = HashMap::new();
        let mut objects: Vec<LinkedObject> = Vec::new();
        let mut given: Option<HashSet<String>> = None;
        for (number, linked_file) in parse_trace(trace).into_iter().enumerate() {
            let (id, owner, bytes) = match &linked_file {
                LinkedFile::Object(name) => {
                    let path = folder.join(name);
                    let bytes = fs::read(&path).map_err(file_error("read", &path))?;
                    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let owner =
                        if find_part(&build.parts, name).is_some() { Owner::Program } else { Owner::Library };
                    (file, owner, bytes)
                }
                LinkedFile::Member(archive, name) => {
                    if !archives.contains_key(archive) {
                        let bytes = fs::read(archive).map_err(file_error("read", Path::new(archive)))?;
                        archives.insert(archive.clone(), bytes);
                    }
                    let nth = count.entry((archive.clone(), name.clone())).or_default();
                    *nth += 1;
                    // Objects given by name precede all archives.
                    let given = given.get_or_insert_with(|| program_symbols(&objects));
                    let known = DefinedSymbols { symbols: &symbols, given };
                    let bytes =
                        find_used_member(&archives[archive], (archive, name), *nth - 1, &known)?.to_vec();
                    let users = build.parts.contains(&Part::Archive(archive.into()));
                    let owner = if users { Owner::Program } else { Owner::Library };
                    let file = Path::new(archive).file_name().unwrap_or_default().to_string_lossy();
                    (format!("{file}({name})#{nth}"), owner, bytes)
                }
            };
            let name = || shown_name((&build.parts, &build.sources), &linked_file, &bytes);
            let object = Object::read(&bytes, &id, owner).map_err(|error| error.with_name(name()))?;
            if owner == Owner::Program && has_run_time {
                check_thread_locals(name, &bytes)?;
            }
            let whose = if owner == Owner::Program { PROGRAM_FILE } else { "library" };
            let file = format!("{whose}{number}.o");
            let path = folder.join(&file);
            fs::write(&path, &bytes).map_err(file_error("write", &path))?;
            objects.push(LinkedObject { file, object });
        }
        Ok(objects)
    }

    /// Compares the debug information of the builds. Refusals that were not allowed are an error; those that
    /// were are returned.
    fn compare(&self, first_links: &[FirstLink]) -> Result<(types::Compared, Vec<Refusal>), CompileError> {
        let [(one, first), (other, second)] = &self.builds.iter().zip(first_links).collect::<Vec<_>>()[..]
        else {
            return Ok((types::Compared::default(), Vec::new()));
        };
        let mut compared =
            types::compare([(one.isa(), first.bytes.as_slice()), (other.isa(), second.bytes.as_slice())])?;
        let allowed = self.reject_unless_allowed(std::mem::take(&mut compared.refused))?;
        Ok((compared, allowed))
    }

    /// Fails for refusals that were not allowed; returns the others.
    fn reject_unless_allowed(&self, refused: Vec<Refusal>) -> Result<Vec<Refusal>, CompileError> {
        let named = |refusal: &Refusal| {
            self.allow.iter().any(|name| *name == refusal.name || refusal.symbol.as_ref() == Some(name))
        };
        let (allowed, refused): (Vec<Refusal>, Vec<Refusal>) = refused.into_iter().partition(named);
        if refused.is_empty() { Ok(allowed) } else { Err(CompileError::Refused { refused }) }
    }

    /// Creates an object that defines common symbols, which linkers would place arbitrarily.
    fn define_common_symbols(&self, first_links: &mut [FirstLink]) -> Result<(), CompileError> {
        let mut commons: BTreeMap<String, Common> = BTreeMap::new();
        for linked in first_links.iter().flat_map(|first_link| &first_link.objects) {
            for common in &linked.object.commons {
                let known = commons.entry(common.name.clone()).or_insert_with(|| common.clone());
                known.size = known.size.max(common.size);
                known.align = known.align.max(common.align);
            }
        }
        let defined: BTreeSet<&String> = first_links
            .iter()
            .flat_map(|first_link| &first_link.objects)
            .flat_map(|linked| &linked.object.defines)
            .collect();
        commons.retain(|name, _| !defined.contains(name));
        if commons.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        for Common { name, size, align } in commons.values() {
            text += &format!(
                ".section .bss.{name},\"aw\",%nobits\n.globl {name}\n.type {name},%object\n.size {name},{size}\n\
                 .balign {align}\n{name}: .zero {size}\n"
            );
        }
        text += ".section .note.GNU-stack,\"\",%progbits\n";
        for (build, first_link) in self.builds.iter().zip(first_links) {
            let folder = self.folder(build);
            assemble(build, &folder, "commons", &text)?;
            let path = folder.join("commons.o");
            let bytes = fs::read(&path).map_err(file_error("read", &path))?;
            let object = Object::read(&bytes, "commons.o", Owner::Program)?;
            first_link.objects.push(LinkedObject { file: "commons.o".to_owned(), object });
        }
        Ok(())
    }

    /// Links one build according to the plan.
    fn link(&self, build: &Build, first_link: &FirstLink, plan: &Plan) -> Result<Vec<u8>, CompileError> {
        let folder = self.folder(build);
        let inputs: Vec<Input<'_>> = first_link
            .objects
            .iter()
            .map(|linked| Input { file: &linked.file, object: &linked.object })
            .collect();
        let path = folder.join("layout.ld");
        fs::write(&path, script(plan, build.isa(), &inputs, build.has_run_time()?))
            .map_err(file_error("write", &path))?;
        let mut command = linker(build, &folder, "program")?;
        if !self.keep_types {
            command.arg("-Wl,-S");
        }
        command.args(["-T", "layout.ld"]).args(first_link.objects.iter().map(|linked| &linked.file));
        let output = start(&mut command)?;
        if !output.status.success() {
            let what = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(CompileError::LinkerDeviated { isa: build.isa(), what });
        }
        let program = folder.join("program");
        Ok(fs::read(&program).map_err(file_error("read", &program))?)
    }

    /// Verifies that everything is at its planned address: symbols of the program that all builds have must
    /// have one address.
    fn verify_addresses(
        &self,
        programs: &[(Isa, Vec<u8>)],
        first_links: &[FirstLink],
        plan: &Plan,
    ) -> Result<Agreement, CompileError> {
        let read = |((isa, bytes), first_link): (&(Isa, Vec<u8>), &FirstLink)| {
            Symbols::read(*isa, bytes, &library_local_symbols(first_link, plan))
        };
        let symbols: Vec<Symbols> = programs.iter().zip(first_links).map(read).collect::<Result<_, _>>()?;
        let (agreement, refused) = compare_symbols(&symbols);
        self.reject_unless_allowed(refused)?;
        let own =
            |linked: &&LinkedObject| linked.file == "commons.o" || linked.object.owner == Owner::Program;
        let program_symbols: BTreeSet<&String> =
            first_links[0].objects.iter().filter(own).flat_map(|linked| &linked.object.defines).collect();
        match agreement.different.iter().find(|different| {
            different.file.is_none()
                && program_symbols.contains(&different.name)
                && !cxx::is_vtable_thunk(&different.name)
        }) {
            Some(different) => Err(CompileError::LinkerDeviated {
                isa: programs[programs.len() - 1].0,
                what: format!("`{}` is at {:#x?}", different.name, different.addresses),
            }),
            None => Ok(agreement),
        }
    }
}

impl Build {
    pub(super) fn isa(&self) -> Isa {
        self.installation.isa()
    }

    /// Returns whether to link the kit's run-time: it exists, and the program uses OpenMP without bringing
    /// its own.
    pub(super) fn has_run_time(&self) -> Result<bool, CompileError> {
        if self.installation.run_time().next().is_none() {
            return Ok(false);
        }
        let features = self.used_features()?;
        Ok(features.run_time && !features.has_own_run_time)
    }

    fn used_features(&self) -> Result<UsedFeatures, CompileError> {
        let mut features = UsedFeatures::default();
        for part in &self.parts {
            let (Part::Object(path) | Part::Archive(path)) = part;
            let bytes = fs::read(path).map_err(file_error("read", path))?;
            features.scan(&bytes, &path.to_string_lossy())?;
        }
        Ok(features)
    }
}

/// Symbols of a linked program.
struct DefinedSymbols<'a> {
    /// All defined symbols.
    symbols: &'a HashSet<String>,
    /// Symbols that the program's own objects define.
    given: &'a HashSet<String>,
}

/// Returns the symbols that a program's own objects define.
fn program_symbols(objects: &[LinkedObject]) -> HashSet<String> {
    let own = objects.iter().filter(|linked| linked.object.owner == Owner::Program);
    own.flat_map(|linked| linked.object.defines.iter().cloned()).collect()
}

/// Returns the archive member that a linker used, the `nth` of that name. If the archive has several members
/// of the name, the trace does not tell which were used. They are those whose symbols are all in the program;
/// candidates that define the fewest of the program's own symbols come first.
fn find_used_member<'a>(
    bytes: &'a [u8],
    (archive, name): (&str, &str),
    nth: usize,
    known: &DefinedSymbols<'_>,
) -> Result<&'a [u8], CompileError> {
    let all = members(bytes, archive, name)?;
    if let [only] = all[..] {
        return Ok(only);
    }
    let mut candidates = Vec::new();
    for member in all {
        let object = Object::read(member, name, Owner::Library)?;
        if object.defines.iter().all(|symbol| known.symbols.contains(symbol)) {
            let given = object.defines.iter().filter(|symbol| known.given.contains(*symbol));
            candidates.push((given.count(), member));
        }
    }
    candidates.sort_by_key(|(given, _)| *given);
    let message = format!("it has several {name}, and which of them was linked cannot be told");
    let unknown = || ObjectError::Malformed { name: archive.to_owned(), message };
    Ok(candidates.get(nth).map(|(_, member)| *member).ok_or_else(unknown)?)
}

/// Refuses an object of the program that locates its thread-local variables by the thread pointer: after a
/// migration they would be those of another thread.
fn check_thread_locals(file: impl Fn() -> String, bytes: &[u8]) -> Result<(), CompileError> {
    let unreadable =
        |error: object::Error| ObjectError::Malformed { name: file(), message: error.to_string() };
    match thread_locals::find_foreign_tls_use(bytes).map_err(unreadable)? {
        Some(name) => Err(CompileError::ThreadLocal { file: file(), name }),
        None => Ok(()),
    }
}

/// Returns a link command with the options that both links share.
fn linker(build: &Build, folder: &Path, output: &str) -> Result<Command, CompileError> {
    let mut command = Command::new(&build.tool);
    command.current_dir(folder).args(["-nostdlib", "-static", "-no-pie", "-o", output]);
    command.args(["-Wl,--build-id=none", "-Wl,--eh-frame-hdr", "-Wl,-z,norelro"]);
    command.arg(format!("-Wl,-z,max-page-size={PAGE_BYTES},-z,common-page-size={PAGE_BYTES}"));
    if build.isa() == Isa::Aarch64 {
        // The plan avoids the erratum; the linker's veneers would not fit into slots.
        command.arg("-mno-fix-cortex-a53-843419");
    }
    if build.has_run_time()? {
        command.args(wrapped::functions().map(|name| format!("-Wl,--wrap={name}")));
    }
    command.args(&build.linker_arguments);
    Ok(command)
}

/// Assembles an object.
fn assemble(build: &Build, folder: &Path, name: &str, text: &str) -> Result<(), CompileError> {
    let path = folder.join(name).with_extension("s");
    fs::write(&path, text).map_err(file_error("write", &path))?;
    let mut command = Command::new(&build.tool);
    command.current_dir(folder).args(["-c", "-o", &format!("{name}.o"), &format!("{name}.s")]);
    let output = start(&mut command)?;
    if output.status.success() {
        return Ok(());
    }
    let what = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(CompileError::LinkerDeviated { isa: build.isa(), what })
}

/// Sums up the space that a build needs, for the plan.
fn demand(first_link: &FirstLink) -> Demand {
    let mut demand = Demand::default();
    for linked in &first_link.objects {
        let object = &linked.object;
        demand.sections.extend(object.sections.iter().map(Section::slot_request));
        demand.unnamed_bytes = demand.unnamed_bytes.saturating_add(object.unnamed_bytes);
        demand.unwinding_bytes = demand.unwinding_bytes.saturating_add(object.unwinding_bytes);
        demand.linker_bytes = demand.linker_bytes.saturating_add(object.linker_bytes);
    }
    demand
}

/// Maps local symbols of libraries, by name and planned address, to their objects.
fn library_local_symbols(first_link: &FirstLink, plan: &Plan) -> HashMap<(String, u64), String> {
    let objects = first_link.objects.iter().map(|linked| &linked.object);
    let mut files = HashMap::new();
    for object in objects.filter(|object| object.owner == Owner::Library) {
        for (name, section, offset) in &object.locals {
            let section = &object.sections[*section];
            if let Some(slot) = plan.slot(section.area, &section.key) {
                files.insert((name.clone(), slot.address.saturating_add(*offset)), object.id.clone());
            }
        }
    }
    files
}

/// Copies the unnamed constants of each build into the others.
fn replicate_constants(programs: &mut [(Isa, Vec<u8>)], plan: &Plan) -> Result<(), CompileError> {
    for (of, range) in plan.unnamed.iter().filter(|(_, range)| !range.is_empty()) {
        let name = unnamed_section(*of);
        let moved =
            |isa: Isa| CompileError::LinkerDeviated { isa, what: format!("there is no {name} in its file") };
        let Some((isa, bytes)) = programs.iter().find(|(isa, _)| isa == of) else { continue };
        let constants = bytes[section_file_range(bytes, &name).ok_or_else(|| moved(*isa))?].to_vec();
        for (isa, bytes) in programs.iter_mut().filter(|(isa, _)| isa != of) {
            let place = section_file_range(bytes, &name).ok_or_else(|| moved(*isa))?;
            if place.len() != constants.len() || constants.len() as u64 != range.len() {
                return Err(moved(*isa));
            }
            bytes[place].copy_from_slice(&constants);
        }
    }
    Ok(())
}

/// Computes the id that the builds of this image share with no other, and writes it into each.
fn write_layout_id(programs: &mut [(Isa, Vec<u8>)], plan: &Plan) -> Result<[u8; ID_BYTES], CompileError> {
    let mut hash = Sha256::new();
    hash.update(plan.digest());
    for (_, bytes) in programs.iter() {
        hash.update(Sha256::digest(bytes));
    }
    let id: [u8; ID_BYTES] = hash.finalize().into();
    for (isa, bytes) in programs {
        let place = Symbols::read(*isa, bytes, &HashMap::new())?
            .address(LAYOUT_ID)
            .and_then(|address| address_file_range(bytes, address, ID_BYTES))
            .ok_or_else(|| CompileError::LinkerDeviated {
                isa: *isa,
                what: format!("there is no {LAYOUT_ID} in it"),
            })?;
        bytes[place].copy_from_slice(&id);
    }
    Ok(id)
}

/// Appends a hint to the linker's messages if the run-time is missing.
fn append_hint(mut text: Vec<u8>, build: &Build) -> Vec<u8> {
    let missing =
        |name: &str| String::from_utf8_lossy(&text).contains(&format!("undefined reference to `{name}"));
    if build.installation.run_time().next().is_none()
        && ["GOMP_", "omp_", "tombolo_", "__tombolo_migrate_", "__cxa_thread_atexit_impl"]
            .into_iter()
            .any(missing)
    {
        let hint = format!("there is no OpenMP run-time for {} in the kit: run `make omp`\n", build.isa());
        text.extend(hint.as_bytes());
    }
    text
}
