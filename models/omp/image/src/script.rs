//! Linker script for GNU ld that implements a plan in one build.

use std::collections::BTreeMap;
use std::fmt::Write;

use tombolo_base::Isa;

use crate::input::{Area, Object};
use crate::plan::{BASE, Plan, Range};

/// Symbol of the start of the program's variables, defined in the program itself.
pub const SHARED_START: &str = "__tombolo_omp_shared_start";
/// Symbol of their end; see [`SHARED_START`].
pub const SHARED_END: &str = "__tombolo_omp_shared_end";
/// Symbol of the start of the program's own constructors, which the run-time calls after it has mapped the
/// shared memory.
pub const CONSTRUCTORS_START: &str = "__tombolo_omp_constructors_start";
/// Symbol of their end; see [`CONSTRUCTORS_START`].
pub const CONSTRUCTORS_END: &str = "__tombolo_omp_constructors_end";
/// Prefix of the file names of the program's own objects.
pub const PROGRAM_FILE: &str = "program";
/// Symbol of 32 bytes that the builds of one image share with no other image.
pub const LAYOUT_ID: &str = "__tombolo_omp_layout_id";

/// Returns the section with the unnamed constants of a build, its own or a copy.
#[must_use]
pub fn unnamed_section(isa: Isa) -> String {
    format!(".rodata.{}", isa.name())
}

/// Object as passed to the linker, under a file name without pattern characters.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// File name in the folder in which the linker runs.
    pub file: &'a str,
    /// Contents of the object.
    pub object: &'a Object,
}

/// Writes the linker script of the build for `isa`. With the run-time, the program's constructors are in a
/// list of their own.
#[must_use]
pub fn script(plan: &Plan, isa: Isa, inputs: &[Input<'_>], has_run_time: bool) -> String {
    let mut text = String::new();
    let shared = !plan.shared.is_empty();
    text.push_str(
        "ENTRY(_start)\nPHDRS\n{\n  code PT_LOAD FILEHDR PHDRS FLAGS(5);\n  constants PT_LOAD FLAGS(4);\n",
    );
    text.push_str("  linker PT_LOAD FLAGS(6);\n  private PT_LOAD FLAGS(6);\n");
    if shared {
        text.push_str("  shared PT_LOAD FLAGS(6);\n");
    }
    text.push_str("  thread PT_TLS FLAGS(4);\n  unwinding PT_GNU_EH_FRAME FLAGS(4);\n  stack PT_GNU_STACK FLAGS(6);\n}\n");
    let _ = writeln!(text, "{SHARED_START} = {:#x};", plan.shared.start);
    let _ = writeln!(text, "{SHARED_END} = {:#x};", plan.shared.end);
    text.push_str("SECTIONS\n{\n");
    // Code before and after `main` is concatenated from several objects.
    let _ = writeln!(text, "  .init {:#x} : {{ KEEP(*(.init)) }} :code", BASE + 0xc00);
    let _ = writeln!(text, "  .fini {:#x} : {{ KEEP(*(.fini)) }} :code", BASE + 0xe00);
    let mut slots = Slots::new(plan, inputs);
    slots.write(&mut text, Area::Code, ".text", ":code", None);
    let constants = plan.area(Area::Constants);
    slots.write(&mut text, Area::Constants, ".rodata", ":constants", Some(constants.len()));
    for (of, range) in &plan.unnamed {
        write_unnamed_constants(&mut text, (*of, *range), (*of == isa).then_some(inputs));
    }
    let _ = writeln!(
        text,
        "  .eh_frame_hdr {:#x} : {{ *(.eh_frame_hdr) }} :constants :unwinding",
        plan.unwinding.start
    );
    // With a terminator, at which the unwinder stops searching for a function that is not in the table.
    text.push_str("  .eh_frame : { KEEP(*(.eh_frame .eh_frame.*)) LONG(0) } :constants\n");
    text.push_str("  .gcc_except_table : { *(.gcc_except_table .gcc_except_table.*) } :constants\n");
    let (data, zeros) = (plan.area(Area::ThreadData), plan.area(Area::ThreadZeros));
    // The thread-local block starts at the planned address in every build, even if it starts with zeros.
    slots.write(&mut text, Area::ThreadData, ".tdata", ":linker :thread", Some(data.len()));
    slots.write(&mut text, Area::ThreadZeros, ".tbss", ":linker :thread", Some(zeros.len()));
    write_linker_sections(&mut text, plan.linker.start, has_run_time);
    slots.write(&mut text, Area::PrivateData, ".data", ":private", None);
    slots.write(&mut text, Area::PrivateZeros, ".bss", ":private", None);
    if shared {
        slots.write(&mut text, Area::SharedData, ".shared.data", ":shared", None);
        // Extended to the end of the last page, so that nothing else is placed there.
        let rest = plan.shared.end - plan.area(Area::SharedZeros).start;
        slots.write(&mut text, Area::SharedZeros, ".shared.bss", ":shared", Some(rest));
    }
    let _ = writeln!(text, "  PROVIDE(_end = {:#x});\n  PROVIDE(end = _end);", plan.shared.end);
    text.push_str("  .comment 0 : { *(.comment) }\n");
    text.push_str("  /DISCARD/ : { *(.note .note.* .gnu_debuglink .gnu.warning.* .tm_clone_table) }\n}\n");
    text
}

/// Writes the section of unnamed constants: a build's own, or space for a copy of another's.
fn write_unnamed_constants(text: &mut String, (isa, range): (Isa, Range), own: Option<&[Input<'_>]>) {
    if range.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {} {:#x} : {{", unnamed_section(isa), range.start);
    for input in own.unwrap_or_default() {
        for section in &input.object.unnamed_constants {
            let _ = writeln!(text, "    KEEP({}({}))", input.file, quote_section(section));
        }
    }
    // One byte of data, so that the section takes space in the file.
    if own.is_none() {
        text.push_str("    BYTE(0)\n");
    }
    let _ = writeln!(text, "    . = {:#x};\n  }} :constants", range.len());
}

/// Writes the linker-generated sections, and the arrays that libraries iterate over by their boundary
/// symbols.
fn write_linker_sections(text: &mut String, start: u64, has_run_time: bool) {
    let _ = writeln!(text, "  .preinit_array {start:#x} : {{");
    text.push_str(
        "    PROVIDE_HIDDEN(__preinit_array_start = .);\n    KEEP(*(.preinit_array))\n    \
         PROVIDE_HIDDEN(__preinit_array_end = .);\n  } :linker\n",
    );
    if has_run_time {
        let _ = writeln!(
            text,
            "  .constructors : {{\n    {CONSTRUCTORS_START} = .;\n    \
             KEEP({PROGRAM_FILE}*.o(SORT_BY_INIT_PRIORITY(.init_array.*)))\n    KEEP({PROGRAM_FILE}*.o(.init_array))\n    \
             {CONSTRUCTORS_END} = .;\n  }} :linker"
        );
    }
    text.push_str(
        "  .init_array : {\n    \
         PROVIDE_HIDDEN(__init_array_start = .);\n    KEEP(*(SORT_BY_INIT_PRIORITY(.init_array.*)))\n    \
         KEEP(*(.init_array))\n    PROVIDE_HIDDEN(__init_array_end = .);\n  } :linker\n  .fini_array : {\n    \
         PROVIDE_HIDDEN(__fini_array_start = .);\n    KEEP(*(SORT_BY_INIT_PRIORITY(.fini_array.*)))\n    \
         KEEP(*(.fini_array))\n    PROVIDE_HIDDEN(__fini_array_end = .);\n  } :linker\n  \
         .got : { *(.got) *(.igot) } :linker\n  \
         .got.plt : { *(.got.plt) *(.igot.plt) } :linker\n",
    );
}

/// Sections of a build by area, sorted by slot address.
struct Slots<'a> {
    areas: BTreeMap<Area, Vec<(u64, &'a str, &'a str)>>,
    plan: &'a Plan,
}

impl<'a> Slots<'a> {
    fn new(plan: &'a Plan, inputs: &[Input<'a>]) -> Slots<'a> {
        let mut areas: BTreeMap<Area, Vec<(u64, &str, &str)>> = BTreeMap::new();
        for input in inputs {
            for section in &input.object.sections {
                let Some(slot) = plan.slot(section.area, &section.key) else { continue };
                areas.entry(section.area).or_default().push((slot.address, input.file, &section.name));
            }
        }
        areas.values_mut().for_each(|slots| slots.sort_unstable());
        Slots { areas, plan }
    }

    /// Writes the output section of an area with the slots that this build fills. `length` is its minimum
    /// length.
    fn write(&mut self, text: &mut String, area: Area, name: &str, segments: &str, length: Option<u64>) {
        let range = self.plan.area(area);
        let slots = self.areas.remove(&area).unwrap_or_default();
        let length = length.filter(|length| *length > 0);
        if slots.is_empty() && length.is_none() {
            return;
        }
        let thread = matches!(area, Area::ThreadData | Area::ThreadZeros);
        let origin = if thread { range.start - self.plan.thread_block() } else { range.start };
        let _ = writeln!(text, "  {name} {:#x} : {{", range.start);
        for (address, file, section) in slots {
            let _ =
                writeln!(text, "    . = {:#x}; KEEP({file}({}))", address - origin, quote_section(section));
        }
        if let Some(length) = length {
            let _ = writeln!(text, "    . = {length:#x};");
        }
        let _ = writeln!(text, "  }} {segments}");
    }
}

/// Quotes a section's name so that the pattern matches only that name.
fn quote_section(section: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._$-".contains(c);
    if section.chars().all(plain) { section.to_owned() } else { format!("\"{section}\"") }
}
