//! Runs the commands of a page: writes its files to a folder beside a clone, runs its commands block by
//! block, and compares their output with the page.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tombolo_e2e::python::Python;
use tombolo_e2e::{Machine, MachineFile, Running, image, tombolo};

use crate::extract::{Mark, Snippet};
use crate::{outside, shell, tree};

/// Timeout of a block: some compile all dependencies of a program, for each instruction set.
const PATIENCE: Duration = Duration::from_secs(900);

/// A machine like that of `machines/default.toml` with a unique name, and a shell whose folder is a clone.
pub(crate) struct Session {
    machine: Machine,
    folder: PathBuf,
    /// Search path of the Python package, if there is a recent enough Python.
    python: Option<OsString>,
    /// Output of the last commands.
    said: Option<String>,
    /// Whether the page has taken the machine down itself.
    is_down: bool,
}

impl Session {
    /// Creates a session. With `is_up` the machine is up, for pages that do not bring one up themselves.
    pub(crate) fn new(is_up: bool) -> Session {
        let mut machine = Machine::new(&MachineFile::host().with_vm("arm0", "window_mib = 64"));
        if is_up {
            machine.bring_up();
        }
        // The tree, except the machine file, which has this test's machine name.
        let clone = machine.folder().join("tombolo");
        fs::create_dir_all(clone.join("machines")).expect("a folder");
        for entry in fs::read_dir(tree()).expect("the tree") {
            let path = fs::canonicalize(entry.expect("an entry").path()).expect("a path of the tree");
            let link = clone.join(path.file_name().expect("a name"));
            if !link.exists() {
                symlink(&path, &link).expect("a link into the tree");
            }
        }
        fs::copy(machine.file(), clone.join("machines/default.toml")).expect("a machine file");
        // Images of examples that pages run without building them. Copied, because a page may rebuild one.
        for name in ["pingpong", "frames"] {
            fs::copy(image(name), clone.join(format!("{name}.tbi"))).expect("a copy of an image");
        }
        let python = Python::of(&machine).and_then(|python| {
            let command = python.command(&machine);
            let path = command.get_envs().find(|(name, _)| *name == "PYTHONPATH");
            path.and_then(|(_, path)| path.map(OsString::from))
        });
        Session { folder: clone, machine, python, said: None, is_down: false }
    }

    /// Executes the marks of a block.
    ///
    /// # Errors
    /// The output of failed commands, or the first expected line that was not printed.
    pub(crate) fn step(&mut self, block: &Snippet) -> Result<(), String> {
        if let Some(path) = block.file() {
            let path = self.folder.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder of the session");
            fs::write(path, &block.text).expect("a file of the session");
        }
        if let Some(name) = block.program() {
            symlink(outside::program(block), self.folder.join(name)).expect("a link to a program");
        }
        if block.marks.contains(&Mark::Run) {
            let said = self.run(&shell::script(block)?).map_err(|error| format!("{block}: {error}"))?;
            if block.language == "console" {
                let shown = block.text.lines().filter(|line| !line.starts_with("$ "));
                printed(shown, &said).map_err(|error| format!("{block}: {error}"))?;
            }
            self.said = Some(said);
        }
        if block.marks.contains(&Mark::Output) {
            let said = self.said.as_ref().ok_or_else(|| format!("{block}: nothing was run before"))?;
            printed(block.text.lines(), said).map_err(|error| format!("{block}: {error}"))?;
        }
        Ok(())
    }

    /// Runs commands in the folder where the last ones ended, and returns their output.
    fn run(&mut self, script: &str) -> Result<String, String> {
        let end = self.machine.folder().join("folder-of-the-session");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = tombolo().parent().expect("a folder").to_owned();
        let path = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&path)));
        // The tree by its real path, which is the same in each run, so that crates are compiled once.
        let tree = fs::canonicalize(tree()).expect("the tree");
        let script = script.replace("../tombolo/", &format!("{}/", tree.display()));
        let script =
            script.replace("tombolo build examples/", &format!("tombolo build {}/examples/", tree.display()));
        let script = format!("exec 2>&1\n{script}\npwd > '{}'", end.display());
        let mut command = std::process::Command::new("sh");
        for (name, value) in self.machine.command().get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
            .args(["-e", "-c", &script])
            .current_dir(&self.folder)
            .env("PATH", path.expect("a search path"));
        if let Some(python) = &self.python {
            command.env("PYTHONPATH", python).env("PYTHONDONTWRITEBYTECODE", "1");
        }
        let mut running = Running::start(command.envs(tombolo_e2e::outside::cargo_settings()));
        let until = Instant::now() + PATIENCE;
        while running.is_running() && Instant::now() < until {
            sleep(Duration::from_millis(20));
        }
        let done = running.finish();
        if done.status != 0 {
            return Err(done.to_string());
        }
        self.is_down |= script.contains("tombolo down\n");
        self.folder = PathBuf::from(fs::read_to_string(end).expect("where the session is").trim());
        Ok(done.text().replace(self.machine.name(), "default"))
    }

    /// Ends the session and asserts that nothing is left.
    pub(crate) fn end(self) {
        if self.is_down { self.machine.has_ended() } else { self.machine.down() }
    }
}

/// Checks that all lines were printed in this order, with any lines between them. Numbers may differ, and an
/// output line may be longer than shown, as on a busy machine.
fn printed<'a>(shown: impl Iterator<Item = &'a str>, said: &str) -> Result<(), String> {
    let mut lines = said.lines().map(shape);
    for line in shown.filter(|line| !line.trim().is_empty() && line.trim() != "…") {
        let wanted = shape(line);
        if !lines.any(|line| line.starts_with(wanted.trim_end())) {
            return Err(format!("no line like {line:?} was printed, or not after those before it:\n{said}"));
        }
    }
    Ok(())
}

/// Normalizes a line: every number becomes `0`, and runs of spaces become one.
fn shape(line: &str) -> String {
    let mut shape = String::new();
    for word in line.split_whitespace() {
        let mut digits = false;
        for character in word.chars() {
            let is_digit = character.is_ascii_digit() || (digits && matches!(character, '.' | ','));
            if !is_digit {
                shape.push(character);
            } else if !digits {
                shape.push('0');
            }
            digits = is_digit;
        }
        shape.push(' ');
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_elisions_of_output_are_ignored() {
        let said = "building\n  0.94 s  arm0: up in 1.59 s\nmore\n[0@host] median 12 us\n";
        assert_eq!(printed("0.1 s arm0: up in 3.2 s\n…\n[0@host]  median 0.47 us".lines(), said), Ok(()));
        assert_eq!(printed("[0@host] median".lines(), said), Ok(()));
        for wrong in ["[1@hose] median 1 us", "[0@host] median 1 us\nbuilding", "arm0: up"] {
            assert!(printed(wrong.lines(), said).is_err(), "{wrong}");
        }
    }
}
