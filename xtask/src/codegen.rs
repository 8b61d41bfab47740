//! `cargo xtask codegen`: regenerates the generated files that are committed.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clap::Args;

use crate::failure::Failure;
use crate::kit::select_installed;
use crate::layers::Layers;
use crate::surface;
use crate::workspace::{Workspace, capture, execute};

/// Write the generated files.
#[derive(Args)]
pub(crate) struct Options {
    /// Only these files, as paths in the tree
    files: Vec<String>,

    /// Write nothing; fail if a file is stale
    #[arg(long)]
    check: bool,
}

/// Cost of generating a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Reads only the source tree.
    Cheap,
    /// Builds part of the project or runs a script.
    Built,
}

/// Generated file with its generator.
struct Generator {
    path: &'static str,
    cost: Cost,
    /// Computes the wanted text from the path and the current text.
    generate: fn(&Workspace, &str, &str) -> Result<String, Failure>,
}

/// Returns whether a whole file is generated, so that the rules for hand-written files do not apply.
pub(crate) fn is_generated(path: &str) -> bool {
    // Only a table of ARCHITECTURE.md is generated.
    path != "ARCHITECTURE.md" && GENERATORS.iter().any(|generator| generator.path == path)
}

/// All generated files of the tree. Add new ones here.
const GENERATORS: &[Generator] = &[
    Generator { path: "ARCHITECTURE.md", cost: Cost::Cheap, generate: code_map },
    Generator { path: "docs/api/tombolo-admin.txt", cost: Cost::Cheap, generate: public_items_of_admin },
    Generator { path: "docs/api/tombolo.txt", cost: Cost::Cheap, generate: public_items },
    Generator { path: "interface/c/common.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/c/copies.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/c/everything.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/c/growth.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/c/growth_before.h", cost: Cost::Built, generate: c_stubs_with_old_prefix },
    Generator { path: "interface/c/greeter.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/c/kv.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/c/rights.h", cost: Cost::Built, generate: c_stubs },
    Generator { path: "interface/python/kv.py", cost: Cost::Built, generate: python_stubs },
    Generator { path: "runtime/go/internal/control/monitor.go", cost: Cost::Built, generate: control_in_go },
    Generator { path: "runtime/go/internal/control/agent.go", cost: Cost::Built, generate: control_in_go },
    Generator {
        path: "runtime/go/internal/speaker/everything/everything.go",
        cost: Cost::Built,
        generate: go_stubs,
    },
    Generator { path: "runtime/go/internal/speaker/growth/common.go", cost: Cost::Built, generate: go_stubs },
    Generator { path: "runtime/go/internal/speaker/growth/growth.go", cost: Cost::Built, generate: go_stubs },
    Generator { path: "runtime/go/internal/speaker/before/common.go", cost: Cost::Built, generate: go_stubs },
    Generator {
        path: "runtime/go/internal/speaker/before/growth_before.go",
        cost: Cost::Built,
        generate: go_stubs,
    },
    Generator { path: "examples/go/kv/kv.go", cost: Cost::Built, generate: go_stubs },
    Generator { path: "interface/stubs/src/common.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/copies.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/echo.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/everything.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/greeter.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/everything_owned.rs", cost: Cost::Built, generate: owned_stubs },
    Generator { path: "interface/stubs/src/growth.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/growth_before.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/kv.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "interface/stubs/src/rights.rs", cost: Cost::Built, generate: stubs },
    Generator { path: "protocol/naming/src/records.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/naming/src/name_faults.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/naming/src/names.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/capability/src/capabilities.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/control/src/machine.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/control/src/monitor.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/control/src/observation.rs", cost: Cost::Built, generate: owned },
    Generator { path: "protocol/control/src/agent.rs", cost: Cost::Built, generate: owned },
    Generator { path: "runtime/files/src/messages.rs", cost: Cost::Built, generate: owned_files },
    Generator {
        path: "interface/editor/vscode/syntaxes/tombolo.tmLanguage.json",
        cost: Cost::Built,
        generate: grammar,
    },
    Generator { path: "docs/book/src/reference/monitor.md", cost: Cost::Built, generate: control_reference },
    Generator { path: "docs/book/src/reference/agent.md", cost: Cost::Built, generate: control_reference },
    Generator { path: "docs/book/src/reference/echo.md", cost: Cost::Built, generate: reference },
    Generator { path: "docs/book/src/reference/everything.md", cost: Cost::Built, generate: reference },
    Generator { path: "docs/book/src/reference/files.md", cost: Cost::Built, generate: reference },
    Generator { path: "docs/book/src/reference/kv.md", cost: Cost::Built, generate: reference },
    Generator { path: "docs/book/src/reference/rights.md", cost: Cost::Built, generate: reference },
    Generator { path: "docs/book/src/cli.md", cost: Cost::Built, generate: command_reference },
    Generator { path: "docs/book/src/pictures/boards.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/bulk.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/doorbell.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/engines.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/files.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/interfaces.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/go.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/job.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/mpi.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/names.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/openmp.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/overview.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/objects.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/rcce.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/realtime.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/recovery.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/regions.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/ring.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/simulation.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/tracing.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/transports.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/waitset.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/watching.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/window.svg", cost: Cost::Built, generate: diagram },
    Generator { path: "docs/book/src/pictures/xipx.svg", cost: Cost::Built, generate: diagram },
];

/// Regenerates stale files, or only reports them with `--check`.
pub(crate) fn run(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    if let Some(unknown) = options.files.iter().find(|file| !GENERATORS.iter().any(|it| it.path == *file)) {
        return Err(Failure::Found(format!("{unknown} is not generated")));
    }
    let mut stale = 0;
    let wanted = |path: &str| options.files.is_empty() || options.files.iter().any(|file| file == path);
    for generator in GENERATORS.iter().filter(|generator| wanted(generator.path)) {
        let Some(text) = updated_text(workspace, generator)? else { continue };
        stale += 1;
        if options.check {
            println!("{} is stale; `cargo xtask codegen` writes it anew", generator.path);
            continue;
        }
        let path = workspace.root.join(generator.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(Failure::file("creating", folder))?;
        }
        fs::write(&path, text).map_err(Failure::file("writing", &path))?;
        println!("wrote {}", generator.path);
    }
    if options.check && stale > 0 {
        return Err(Failure::Found(format!("{stale} generated files are stale")));
    }
    Ok(())
}

/// Returns the paths of the stale files whose generators have this cost.
pub(crate) fn stale(workspace: &Workspace, cost: Cost) -> Result<Vec<&'static str>, Failure> {
    let mut paths = Vec::new();
    for generator in GENERATORS.iter().filter(|generator| generator.cost == cost) {
        if updated_text(workspace, generator)?.is_some() {
            paths.push(generator.path);
        }
    }
    Ok(paths)
}

/// Returns the wanted text of a file if it differs from the current one.
fn updated_text(workspace: &Workspace, generator: &Generator) -> Result<Option<String>, Failure> {
    let present = fs::read_to_string(workspace.root.join(generator.path)).unwrap_or_default();
    let wanted = (generator.generate)(workspace, generator.path, &present)?;
    Ok((wanted != present).then_some(wanted))
}

const MAP_BEGIN: &str = "<!-- layers: written by `cargo xtask codegen` from layers.toml -->\n";
const MAP_END: &str = "<!-- end of layers -->\n";

/// Returns ARCHITECTURE.md with the table of layers from `layers.toml` between its two markers.
fn code_map(workspace: &Workspace, _path: &str, present: &str) -> Result<String, Failure> {
    replace_between(present, MAP_BEGIN, MAP_END, &layer_table(&workspace.layers))
        .ok_or_else(|| Failure::malformed("ARCHITECTURE.md", "the marks around the table of layers are gone"))
}

/// Lists the public items of `tombolo`, the crate for programs in Rust.
fn public_items(workspace: &Workspace, _path: &str, _present: &str) -> Result<String, Failure> {
    surface::of_crate(workspace, "tombolo", "runtime/tombolo/src/")
}

/// Lists the public items of `tombolo-admin`, the crate for tools in Rust.
fn public_items_of_admin(workspace: &Workspace, _path: &str, _present: &str) -> Result<String, Failure> {
    surface::of_crate(workspace, "tombolo-admin", "runtime/admin/src/")
}

fn replace_between(text: &str, begin: &str, end: &str, middle: &str) -> Option<String> {
    let (before, rest) = text.split_once(begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}{middle}{end}{after}"))
}

fn layer_table(layers: &Layers) -> String {
    let mut table = String::from("| folder | crates | what it is | marks |\n|---|---|---|---|\n");
    for layer in layers.layer.iter().rev() {
        let crates: Vec<String> = layer.crates.iter().map(|name| format!("`{name}`")).collect();
        let any = |list: &[String]| layer.crates.iter().any(|name| list.contains(name));
        let marks = [
            (any(&layers.checks.no_std), "`no_std`"),
            (any(&layers.checks.unsafe_allowed), "may hold `unsafe`"),
            (any(&layers.checks.loom), "loom"),
        ];
        let marks: Vec<&str> = marks.into_iter().filter(|(holds, _)| *holds).map(|(_, mark)| mark).collect();
        let row =
            [format!("`{}/`", layer.folder), crates.join(", "), layer.purpose.clone(), marks.join(", ")];
        table.push_str(&format!("| {} |\n", row.join(" | ").trim_end()));
    }
    table
}

/// Generates the Rust stubs of the interface file of the same name.
fn stubs(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    compile_interface(workspace, path, &[])
}

/// Generates the owned types of an interface, which accompany its stubs.
fn owned_stubs(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    compile_file(workspace, &format!("interfaces/{}.tbl", stem.trim_end_matches("_owned")), &["--owned"])
}

/// Generates the owned types of the façade's interface for files.
fn owned_files(workspace: &Workspace, _path: &str, _present: &str) -> Result<String, Failure> {
    compile_file(workspace, "interfaces/files.tbl", &["--owned"])
}

/// Generates the C header of the interface file of the same name.
fn c_stubs(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    compile_interface(workspace, path, &["--c"])
}

/// Generates the C header with another name prefix, so that a program can include the old and the new
/// version.
fn c_stubs_with_old_prefix(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    compile_interface(workspace, path, &["--c=before_"])
}

/// Generates the reference page of the interface file of the same name.
fn reference(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    compile_interface(workspace, path, &["--doc"])
}

/// Generates the reference page of the monitors' interfaces.
fn control_reference(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    compile_file(workspace, &control_file(path), &["--doc"])
}

/// Types of the monitors' interfaces that are represented by hand-written types of the tree, with the file
/// that declares each.
const HAND_WRITTEN_TYPES: [(&str, &str); 18] = [
    ("capabilities", "RegionId=crate::RegionId"),
    ("capabilities", "CapabilityId=crate::CapabilityId"),
    ("capabilities", "Rights=crate::Rights"),
    ("capabilities", "Extent=crate::Extent"),
    ("records", "Duration=core::time::Duration"),
    ("records", "Float=crate::Float"),
    ("records", "Attribute=map"),
    ("names", "ObjectKey=pair"),
    ("machine", "NodeId=tombolo_base::NodeId"),
    ("machine", "ChannelId=tombolo_base::ChannelId"),
    ("machine", "Isa=tombolo_base::Isa"),
    ("machine", "Target=tombolo_base::Target"),
    ("machine", "TransportKind=tombolo_link::TransportKind"),
    ("machine", "Side=tombolo_link::Side"),
    ("machine", "ChannelConfig=tombolo_link::ChannelConfig"),
    ("machine", "WindowCaches=tombolo_base::coherence::Caches"),
    ("machine", "Variable=pair"),
    ("machine", "WindowBytes=pair"),
];

/// Interface files of the monitors, each with all files that it includes.
const INCLUDES: [(&str, &[&str]); 8] = [
    ("capabilities", &["capabilities"]),
    ("records", &["records"]),
    ("name_faults", &["records"]),
    ("names", &["records", "names"]),
    ("machine", &["capabilities", "records", "names", "machine"]),
    ("observation", &["capabilities", "records", "names", "machine", "observation"]),
    ("monitor", &["capabilities", "records", "names", "machine", "observation", "monitor"]),
    ("agent", &["capabilities", "records", "names", "machine", "observation"]),
];

/// Generates the owned types of the monitors' interface file of the same name.
fn owned(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    let file = control_file(path);
    let stem = Path::new(path).file_stem().unwrap_or_default();
    let included = INCLUDES.iter().find(|(file, _)| stem == *file).map_or(&[][..], |(_, included)| included);
    let held = HAND_WRITTEN_TYPES.iter().filter(|(file, _)| included.contains(file)).map(|(_, held)| *held);
    let held: Vec<&str> = held.collect();
    compile_file(workspace, &file, &[&format!("--owned={}", held.join(","))])
}

fn control_file(path: &str) -> String {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    format!("interfaces/control/{stem}.tbl")
}

/// Generates the grammar with which editors highlight interface files.
fn grammar(workspace: &Workspace, _path: &str, _present: &str) -> Result<String, Failure> {
    capture(compiler(workspace)?.arg("--grammar"))
}

/// Generates the Python module of the interface file of the same name.
fn python_stubs(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    compile_interface(workspace, path, &["--python"])
}

/// Generates the Go file of the interface file of the same name, in the package named after its folder.
fn go_stubs(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    let folder = Path::new(path).parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    compile_interface(workspace, path, &[&format!("--go={folder}")])
}

/// Monitor messages that the Go runtime uses. Of the agents' interface it needs only the fingerprint.
const MONITOR_IN_GO: &str =
    "attach,export,withdraw,connect,accepted,output_taken,names,incoming,output,turned_away";

/// Generates the Go code for a subset of the messages of the monitors' interfaces.
fn control_in_go(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    let only = if path.ends_with("monitor.go") { MONITOR_IN_GO } else { "" };
    compile_file(workspace, &control_file(path), &[&format!("--go=control:{only}")])
}

fn compile_interface(workspace: &Workspace, path: &str, options: &[&str]) -> Result<String, Failure> {
    let stem = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
    compile_file(workspace, &format!("interfaces/{stem}.tbl"), options)
}

fn compile_file(workspace: &Workspace, file: &str, options: &[&str]) -> Result<String, Failure> {
    capture(compiler(workspace)?.args(options).arg(file))
}

/// Returns a command that runs the interface compiler, which is built on the first call.
fn compiler(workspace: &Workspace) -> Result<Command, Failure> {
    static BUILT: Mutex<bool> = Mutex::new(false);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if !*built {
        // Selects the whole workspace, as the tests do, so that shared dependencies are compiled once.
        execute(workspace.cargo().args(["build", "--quiet", "--workspace", "--example", "compile"]))?;
        *built = true;
    }
    let mut command = Command::new(workspace.target.join("debug/examples/compile"));
    command.current_dir(&workspace.root);
    Ok(command)
}

/// Draws the diagram of the same name.
fn diagram(workspace: &Workspace, path: &str, _present: &str) -> Result<String, Failure> {
    let name = Path::new(path).file_stem().unwrap_or_default();
    let mut draw = Command::new("python3");
    capture(draw.current_dir(&workspace.root).arg("docs/book/pictures/draw.py").arg(name))
}

/// Generates the reference of all commands from their help texts.
fn command_reference(workspace: &Workspace, _path: &str, _present: &str) -> Result<String, Failure> {
    let mut build = workspace.cargo();
    build.args(["build", "--quiet", "--release"]);
    select_installed(&mut build);
    execute(&mut build)?;
    let program = workspace.target.join("release/tombolo");
    let mut text = String::from(
        "# Commands\n\nWhat each command of `tombolo` says with `--help`. Written by `cargo xtask codegen`.\n",
    );
    let top = help(&program, &[])?;
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    let mut texts = vec![top];
    while let Some(path) = waiting.pop() {
        let output = match texts.pop() {
            Some(output) if path.is_empty() => output,
            _ => help(&program, &path)?,
        };
        let level = "#".repeat(2 + usize::from(path.len() > 1));
        let name = [&["tombolo".to_owned()][..], &path[..]].concat().join(" ");
        text.push_str(&format!("\n{level} {name}\n\n```text\n{}\n```\n", output.trim_end()));
        for command in subcommands(&output).into_iter().rev() {
            waiting.push([&path[..], &[command]].concat());
        }
    }
    Ok(text)
}

fn help(program: &Path, path: &[String]) -> Result<String, Failure> {
    let text = capture(Command::new(program).args(path).arg("--help").env("COLUMNS", "100"))?;
    Ok(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"))
}

/// Returns the names listed under `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let names = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    names
        .take_while(|line| line.starts_with(' ') || line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let replaced = replace_between("a\n<b>\nold\n<e>\nz\n", "<b>\n", "<e>\n", "new\n");
        assert_eq!(replaced.as_deref(), Some("a\n<b>\nnew\n<e>\nz\n"));
        assert_eq!(replace_between("a", "<b>", "<e>", "new"), None);
    }

    #[test]
    fn subcommands_are_read_from_the_help_text() {
        let help = "Usage: x\n\nCommands:\n  up    Brings up\n        the machine\n  down  Takes down\n  help  Helps\n\nOptions:\n  -h\n";
        assert_eq!(subcommands(help), ["up", "down"]);
        assert_eq!(subcommands("Usage: x\n"), [""; 0]);
    }
}
