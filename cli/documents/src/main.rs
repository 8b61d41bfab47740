//! Writes the manual pages and shell completions of `tombolo` and all its commands.
//!
//! usage: tombolo-documents FOLDER
//!
//! The layout below the folder is that of a prefix: `share/man/man1`, and the completion folders of bash, zsh
//! and fish.

mod page;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, Command, ValueHint};
use clap_complete::{Shell, generate};

/// Paths of `tombolo`'s completions for each shell, relative to a prefix.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions/tombolo"),
    (Shell::Zsh, "share/zsh/site-functions/_tombolo"),
    (Shell::Fish, "share/fish/vendor_completions.d/tombolo.fish"),
];

const USAGE: &str = "\
usage: tombolo-documents FOLDER

Writes the manual pages and shell completions of tombolo below FOLDER, which it creates.";

fn main() -> ExitCode {
    match request(std::env::args_os().skip(1)) {
        Request::Help => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Request::Invalid => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Request::Write(folder) => match write(&folder) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("tombolo-documents: cannot write below {}: {error}", folder.display());
                ExitCode::FAILURE
            }
        },
    }
}

/// Request of the command line.
#[derive(PartialEq, Eq, Debug)]
enum Request {
    Help,
    Write(PathBuf),
    Invalid,
}

fn request(words: impl Iterator<Item = OsString>) -> Request {
    let words: Vec<OsString> = words.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Request::Help;
    }
    match &words[..] {
        // A folder with such a name can be written as `./-x`.
        [folder] if !folder.is_empty() && !folder.as_encoded_bytes().starts_with(b"-") => {
            Request::Write(folder.into())
        }
        _ => Request::Invalid,
    }
}

fn write(folder: &Path) -> io::Result<()> {
    let pages = folder.join("share/man/man1");
    fs::create_dir_all(&pages)?;
    for (name, text) in page::all(&whole())? {
        fs::write(pages.join(name), text)?;
    }
    for (shell, path) in COMPLETIONS {
        let path = folder.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        generate(shell, &mut completed(whole()), "tombolo", &mut File::create(path)?);
    }
    Ok(())
}

/// Returns the command with all its subcommands, including those of other programs. Commands that only
/// programs start are hidden.
fn whole() -> Command {
    let others = [
        tombolo_cli_bench::definition(),
        tombolo_cli_mpi::definition(),
        tombolo_cli_omp::definition(),
        tombolo_cli_watch::definition(),
    ];
    let others =
        others.iter().flat_map(Command::get_subcommands).filter(|command| !command.is_hide_set()).cloned();
    others.fold(tombolo_cli::definition(), |whole, command| {
        let name = command.get_name().to_owned();
        whole.mut_subcommand(name, |_| command)
    })
}

/// Words in the names of values that are files.
const OF_FILES: [&str; 6] = ["FILE", "PATH", "FOLDER", "IMAGE", "PROGRAM", "COMMAND"];

/// Returns the command for completions, in which values other than files have no completion. By default,
/// shells offer files for everything, even for nodes.
fn completed(command: Command) -> Command {
    let known = |arg: &Arg, words: &[&str]| {
        let names = arg.get_value_names().unwrap_or_default();
        names.iter().any(|name| words.iter().any(|word| name.contains(word)))
    };
    let command = command.mut_args(|arg| {
        let takes_value = arg.get_action().takes_values();
        let is_free = arg.get_value_hint() == ValueHint::Unknown && takes_value;
        // The usual positional argument is a program or its input.
        let has_none =
            if arg.is_positional() { known(&arg, &["NODE", "DOMAIN"]) } else { !known(&arg, &OF_FILES) };
        if is_free && has_none { arg.value_hint(ValueHint::Other) } else { arg }
    });
    command.mut_subcommands(completed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions(shell: Shell) -> String {
        let mut text = Vec::new();
        generate(shell, &mut completed(whole()), "tombolo", &mut text);
        String::from_utf8(text).expect("completions are text")
    }

    #[test]
    fn completions_know_the_options_of_other_programs() {
        for (shell, _) in COMPLETIONS {
            let text = completions(shell);
            for word in ["litmus", "mpirun", "ompcc", "steer", "on"] {
                assert!(text.contains(word), "{shell}: no {word}");
            }
        }
    }

    #[test]
    fn nodes_are_not_completed_as_files() {
        let bash = completions(Shell::Bash);
        let mut lines = bash.lines().map(str::trim);
        let mut seen = 0;
        while let Some(line) = lines.next() {
            if line == "--on)" {
                assert_eq!(lines.next(), Some("COMPREPLY=(\"${cur}\")"));
                seen += 1;
            }
        }
        assert!(seen > 5, "{seen}");
        let fish = completions(Shell::Fish);
        let of_run = |option: &str| {
            let is_one = |line: &&str| line.contains("subcommand run\"") && line.contains(option);
            fish.lines().find(is_one).unwrap_or_else(|| panic!("no {option} of run")).to_owned()
        };
        assert!(of_run(" -l on ").contains(" -r -f"), "{}", of_run(" -l on "));
        assert!(!of_run(" -l grant ").contains(" -r -f"), "{}", of_run(" -l grant "));
        let file = "-l machine-file ";
        let build = fish.lines().find(|line| line.contains(file)).expect("an option of build");
        assert!(build.contains("-r -F") || !build.contains("-r -f"), "{build}");
    }

    #[test]
    fn only_a_folder_is_written_to() {
        let request = |line: &str| request(line.split_whitespace().map(OsString::from));
        assert_eq!(request("--help"), Request::Help);
        assert_eq!(request("out -h"), Request::Help);
        assert_eq!(request("target/documents"), Request::Write("target/documents".into()));
        for line in ["", "--version", "a b"] {
            assert_eq!(request(line), Request::Invalid, "{line}");
        }
    }

    #[test]
    fn every_command_that_help_shows_has_a_page() {
        let pages = page::all(&whole()).expect("pages are written to memory");
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        for name in
            ["tombolo.1", "tombolo-up.1", "tombolo-trace-export.1", "tombolo-mpirun.1", "tombolo-bench.1"]
        {
            assert!(names.contains(&name), "no {name} in {names:?}");
        }
        let (_, up) = pages.iter().find(|(name, _)| name == "tombolo-up.1").expect("it is there");
        assert!(up.contains("\\fBtombolo up\\fR"), "{up}");
        let title = concat!(".TH tombolo-up 1 \"\" \"tombolo ", env!("CARGO_PKG_VERSION"), "\" Tombolo\n");
        assert!(up.contains(title), "{up}");
        // Examples keep their line breaks.
        assert!(up.contains(".nf\n") && up.contains("tombolo up machines/zoo.toml"), "{up}");
    }
}
