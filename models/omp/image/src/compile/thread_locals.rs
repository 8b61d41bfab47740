//! Thread-local variables of the program, which migrate with their thread.
//!
//! Compilers locate a thread-local variable relative to the thread pointer, a register that belongs to the C
//! library of one process. A source with such variables is compiled a second time, to assembly, in which code
//! loads a word relative to the register and uses that instead of the register. The run-time stores in this
//! word the thread pointer that belongs to the block of the program's thread.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use object::elf::{SHF_ALLOC, SHF_TLS};
use object::read::elf::ElfFile64;
use object::{
    Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionFlags,
    SymbolKind,
};
use tombolo_base::Isa;
use tombolo_machine::build::gcc::{CompileError, Run, file_error, start};

/// Symbol of the word, the first in each thread's block of thread-local variables.
pub(super) const THREAD_WORD: &str = "__tombolo_omp_thread";

/// Option that makes the compiler load the thread pointer with an instruction of its own, instead of in the
/// operand of another.
pub(super) const SEPARATE_POINTER_LOAD: &str = "-mno-tls-direct-seg-refs";

/// Returns the assembly that sets the word for the first thread in a program without the run-time, which sets
/// it for all threads. It runs before all other code of the program.
pub(super) const fn init_first_thread(isa: Isa) -> &'static str {
    match isa {
        Isa::Aarch64 => {
            "\
.section .init_array.00000,\"aw\",%init_array\n.balign 8\n.xword __tombolo_omp_first_thread\n\
.section .text.__tombolo_omp_first_thread,\"ax\",%progbits\n.type __tombolo_omp_first_thread,%function\n\
__tombolo_omp_first_thread:\nmrs x0, tpidr_el0\nadd x1, x0, #:tprel_hi12:__tombolo_omp_thread, lsl #12\n\
add x1, x1, #:tprel_lo12_nc:__tombolo_omp_thread\nstr x0, [x1]\nret\n"
        }
        _ => {
            "\
.section .init_array.00000,\"aw\",%init_array\n.balign 8\n.quad __tombolo_omp_first_thread\n\
.section .text.__tombolo_omp_first_thread,\"ax\",%progbits\n.type __tombolo_omp_first_thread,%function\n\
__tombolo_omp_first_thread:\nmovq %fs:0, %rax\nmovq %rax, %fs:__tombolo_omp_thread@tpoff\nret\n"
        }
    }
}

/// Returns the name of a thread-local variable that an object from assembly or another compiler uses. `None`
/// if the object uses none, or was compiled by [`recompile`].
pub(super) fn find_foreign_tls_use(bytes: &[u8]) -> Result<Option<String>, object::Error> {
    let file = ElfFile64::<Endianness>::parse(bytes)?;
    let is_compiled_again = file
        .symbols()
        .any(|symbol| symbol.is_undefined() && symbol.name_bytes() == Ok(THREAD_WORD.as_bytes()));
    if is_compiled_again { Ok(None) } else { find_tls_use(&file) }
}

/// Returns the name of the source that an object was compiled from.
pub(super) fn source(bytes: &[u8]) -> Option<String> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let name = file.symbols().find(|symbol| symbol.kind() == SymbolKind::File)?;
    name.name().ok().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns the name of a thread-local variable that an object's code or data refers to.
fn find_tls_use(file: &ElfFile64<'_, Endianness>) -> Result<Option<String>, object::Error> {
    let has = |section: &object::read::elf::ElfSection64<'_, '_, Endianness>, flag: u32| matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags & u64::from(flag) != 0);
    for section in file.sections().filter(|section| has(section, SHF_ALLOC)) {
        for (_, relocation) in section.relocations() {
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let symbol = file.symbol_by_index(index)?;
            let of_section = || {
                let index = symbol.section_index()?;
                file.section_by_index(index).ok().filter(|section| has(section, SHF_TLS))
            };
            if symbol.kind() == SymbolKind::Tls {
                return Ok(Some(symbol.name()?.to_owned()));
            }
            if symbol.kind() == SymbolKind::Section
                && let Some(section) = of_section()
            {
                return Ok(Some(section.name()?.to_owned()));
            }
        }
    }
    Ok(None)
}

/// Compiles a source again, through assembly, if its object uses thread-local variables. Returns the
/// compiler's output if that failed.
pub(super) fn recompile(run: &Run, assembly: &Path) -> Result<Option<Output>, CompileError> {
    let Some(object) = &run.output else { return Ok(None) };
    let bytes = fs::read(object).map_err(file_error("read", object))?;
    if !matches!(find_foreign_tls_use(&bytes), Ok(Some(_))) {
        return Ok(None);
    }
    if let Some(folder) = assembly.parent() {
        fs::create_dir_all(folder).map_err(file_error("write", folder))?;
    }
    let output = start(Command::new(&run.tool).args(assembly_options(&run.words)).arg("-o").arg(assembly))?;
    // A source that is in assembly already produces no output.
    if !output.status.success() || !assembly.exists() {
        return Ok((!output.status.success()).then_some(output));
    }
    let text = fs::read_to_string(assembly).map_err(file_error("read", assembly))?;
    fs::write(assembly, redirect_thread_pointer(run.isa, &text)).map_err(file_error("write", assembly))?;
    let for_assembler = run.words.iter().filter(|word| word.starts_with("-Wa,"));
    let mut assembler = Command::new(&run.tool);
    assembler.args(for_assembler).args(["-x", "assembler", "-c", "-o"]).arg(object).arg(assembly);
    let output = start(&mut assembler)?;
    Ok((!output.status.success()).then_some(output))
}

/// Converts the options of a compilation to an object into those of one to assembly. Options for dependency
/// files are dropped, because those files were written by the first compilation.
fn assembly_options(words: &[String]) -> Vec<String> {
    let mut left = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" | "-MF" | "-MT" | "-MQ" => {
                words.next();
            }
            "-c" => {}
            other if other.starts_with("-M") || other.starts_with("-Wp,-M") => {}
            _ => left.push(word.clone()),
        }
    }
    left.push("-S".to_owned());
    left
}

/// Replaces the thread pointer in GCC's assembly with the word.
fn redirect_thread_pointer(isa: Isa, text: &str) -> String {
    text.lines().map(|line| redirect_line(isa, line) + "\n").collect()
}

fn redirect_line(isa: Isa, line: &str) -> String {
    if isa == Isa::Aarch64 {
        let register =
            line.trim().strip_prefix("mrs").map(str::trim).and_then(|line| line.strip_suffix(", tpidr_el0"));
        return match register {
            Some(register) => format!("{line}\n\tldr\t{register}, [{register}, #:tprel_lo12:{THREAD_WORD}]"),
            None => line.to_owned(),
        };
    }
    const POINTER: &str = "%fs:0";
    match line.split_once(POINTER) {
        Some((before, after)) if after.is_empty() || after.starts_with([',', ' ', '\t']) => {
            format!("{before}%fs:{THREAD_WORD}@tpoff{after}")
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_pointer_is_loaded_from_the_word() {
        let x86 = "\tmovq\t%fs:0, %rax\n\taddq\t%fs:0, %rcx\n\tmovq\t%fs:40, %rax\n\tcall\tf\n";
        assert_eq!(
            redirect_thread_pointer(Isa::X86_64, x86),
            "\tmovq\t%fs:__tombolo_omp_thread@tpoff, %rax\n\taddq\t%fs:__tombolo_omp_thread@tpoff, %rcx\n\
             \tmovq\t%fs:40, %rax\n\tcall\tf\n"
        );
        let arm = "\tmrs\tx21, tpidr_el0\n\tmrs\tx0, fpcr\n\tbl\tf\n";
        assert_eq!(
            redirect_thread_pointer(Isa::Aarch64, arm),
            "\tmrs\tx21, tpidr_el0\n\tldr\tx21, [x21, #:tprel_lo12:__tombolo_omp_thread]\n\tmrs\tx0, fpcr\n\tbl\tf\n"
        );
    }

    #[test]
    fn assembly_options_write_no_dependencies() {
        let words = "-O2 -MD -MF a.d -MTx -Wp,-MMD,b.d -DMAX=1 a.c -c -o a.o".split(' ').map(str::to_owned);
        assert_eq!(assembly_options(&words.collect::<Vec<_>>()).join(" "), "-O2 -DMAX=1 a.c -S");
    }
}
