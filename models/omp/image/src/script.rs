//! A plan as GNU ld takes it, for one build.

use std::collections::BTreeMap;
use std::fmt::Write;

use tombolo_base::Isa;

use crate::input::{Area, Object};
use crate::plan::{BASE, Plan, Range};

/// Where the program's variables begin and end, in the program itself.
pub const SHARED_START: &str = "__tombolo_omp_shared_start";
/// See [`SHARED_START`].
pub const SHARED_END: &str = "__tombolo_omp_shared_end";
/// Where the list of the program's own constructors begins and ends, which the run-time calls when memory
/// that workers share is there.
pub const CONSTRUCTORS_START: &str = "__tombolo_omp_constructors_start";
/// See [`CONSTRUCTORS_START`].
pub const CONSTRUCTORS_END: &str = "__tombolo_omp_constructors_end";
/// What the names of files begin with that are the program's own.
pub const PROGRAM_FILE: &str = "program";
/// 32 bytes that are equal in the builds of one image and no other.
pub const LAYOUT_ID: &str = "__tombolo_omp_layout_id";

/// The section with the nameless constants of a build, its own or a copy.
#[must_use]
pub fn loose_section(isa: Isa) -> String {
    format!(".rodata.{}", isa.name())
}

/// An object as the linker is given it, by the name of its file, which has nothing in it that a linker takes
/// for a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The file, in the folder in which the linker runs.
    pub file: &'a str,
    /// What is in it.
    pub object: &'a Object,
}

/// What goes where in the build for `isa`. With the run-time the program's constructors are a list of their
/// own.
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
    // What runs before and after `main` is put together of parts of several objects.
    let _ = writeln!(text, "  .init {:#x} : {{ KEEP(*(.init)) }} :code", BASE + 0xc00);
    let _ = writeln!(text, "  .fini {:#x} : {{ KEEP(*(.fini)) }} :code", BASE + 0xe00);
    let mut slots = Slots::new(plan, inputs);
    slots.write(&mut text, Area::Code, ".text", ":code", None);
    let constants = plan.area(Area::Constants);
    slots.write(&mut text, Area::Constants, ".rodata", ":constants", Some(constants.len()));
    for (of, range) in &plan.loose {
        loose(&mut text, (*of, *range), (*of == isa).then_some(inputs));
    }
    let _ = writeln!(
        text,
        "  .eh_frame_hdr {:#x} : {{ *(.eh_frame_hdr) }} :constants :unwinding",
        plan.unwinding.start
    );
    // With an end, where what unwinds stops looking for a function that the table does not have.
    text.push_str("  .eh_frame : { KEEP(*(.eh_frame .eh_frame.*)) LONG(0) } :constants\n");
    text.push_str("  .gcc_except_table : { *(.gcc_except_table .gcc_except_table.*) } :constants\n");
    let (data, zeros) = (plan.area(Area::ThreadData), plan.area(Area::ThreadZeros));
    // The block begins where the plan says in every build, also where it begins with zeros.
    slots.write(&mut text, Area::ThreadData, ".tdata", ":linker :thread", Some(data.len()));
    slots.write(&mut text, Area::ThreadZeros, ".tbss", ":linker :thread", Some(zeros.len()));
    linker_sections(&mut text, plan.linker.start, has_run_time);
    slots.write(&mut text, Area::PrivateData, ".data", ":private", None);
    slots.write(&mut text, Area::PrivateZeros, ".bss", ":private", None);
    if shared {
        slots.write(&mut text, Area::SharedData, ".shared.data", ":shared", None);
        // To the end of the last page, so that nothing else is put there.
        let rest = plan.shared.end - plan.area(Area::SharedZeros).start;
        slots.write(&mut text, Area::SharedZeros, ".shared.bss", ":shared", Some(rest));
    }
    let _ = writeln!(text, "  PROVIDE(_end = {:#x});\n  PROVIDE(end = _end);", plan.shared.end);
    text.push_str("  .comment 0 : { *(.comment) }\n");
    text.push_str("  /DISCARD/ : { *(.note .note.* .gnu_debuglink .gnu.warning.* .tm_clone_table) }\n}\n");
    text
}

/// Nameless constants: a build's own, or room for a copy of another's.
fn loose(text: &mut String, (isa, range): (Isa, Range), own: Option<&[Input<'_>]>) {
    if range.is_empty() {
        return;
    }
    let _ = writeln!(text, "  {} {:#x} : {{", loose_section(isa), range.start);
    for input in own.unwrap_or_default() {
        for section in &input.object.loose_constants {
            let _ = writeln!(text, "    KEEP({}({}))", input.file, quoted(section));
        }
    }
    // A byte, or it would be a section without any.
    if own.is_none() {
        text.push_str("    BYTE(0)\n");
    }
    let _ = writeln!(text, "    . = {:#x};\n  }} :constants", range.len());
}

/// What linkers make, and lists that libraries go through by the symbols at their ends.
fn linker_sections(text: &mut String, start: u64, has_run_time: bool) {
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

/// What a build has in its slots.
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

    /// An output section of an area, with the slots that this build fills; `length` is what it takes at
    /// least.
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
            let _ = writeln!(text, "    . = {:#x}; KEEP({file}({}))", address - origin, quoted(section));
        }
        if let Some(length) = length {
            let _ = writeln!(text, "    . = {length:#x};");
        }
        let _ = writeln!(text, "  }} {segments}");
    }
}

/// A section's name as a pattern for it alone.
fn quoted(section: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._$-".contains(c);
    if section.chars().all(plain) { section.to_owned() } else { format!("\"{section}\"") }
}
