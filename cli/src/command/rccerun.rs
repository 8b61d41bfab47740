//! `tombolo rccerun`: `tombolo run` with the options of RCCE's own launcher.

use std::ffi::OsString;

use clap::{Args, Parser};
use tombolo_cli_common::arguments::exit_with;
use tombolo_cli_common::programs::find_command;

use super::Command;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::failure::Failure;

/// Variables read by the library (`models/rcce/src/job`).
const BUFFER_VARIABLE: &str = "TOMBOLO_RCCE_BUFFER";
const SHARED_VARIABLE: &str = "TOMBOLO_RCCE_SHARED";

/// Maximum number of ranks of a job, `RCCE_MAXNP`.
const MAX_RANKS: u32 = 256;

/// Runs a program of RCCE or iRCCE
///
/// Starts COUNT ranks ("units of execution") of a program that includes RCCE.h, built by `tombolo build`. It
/// is `tombolo run -n COUNT` with the options below; what that says of output, failures and the exit status
/// holds. As with RCCE's own launcher, COUNT can also be given as -nue COUNT. A host file (-f) is not needed:
/// --on names the nodes.
///
/// Each rank has a message buffer of 8 KiB, or as long as RCCE_BUFF_SIZE_MAX was when the program was
/// compiled.
#[derive(Args, Debug)]
#[command(override_usage = "tombolo rccerun -nue <COUNT> [OPTIONS] <IMAGE> [ARGS]...")]
#[command(after_help = "\
Examples:
  tombolo rccerun -nue 4 stencil.tbi                   four ranks on the host
  tombolo rccerun -nue 2 --on host,arm0 pingpong.tbi   one on each of two nodes
  tombolo rccerun -nue 48 --buffer 65536 app.tbi in    with message buffers of 64 KiB")]
pub(crate) struct Options {
    /// How many ranks to start, up to 256; also -nue COUNT
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)))]
    nue: u32,

    /// The nodes to run on, each with a number of ranks [default: the host]
    #[arg(long, value_name = "NODE[:COUNT],…")]
    on: Option<String>,

    /// Size of the message buffer of each rank, in bytes, if larger than the program was built for
    #[arg(long, value_name = "BYTES")]
    buffer: Option<u64>,

    /// The memory for RCCE_shmalloc, in bytes [default: 1 MiB]
    #[arg(long, value_name = "BYTES")]
    shared: Option<u64>,

    /// Add a variable to the environment of each rank; may be repeated
    #[arg(short, long, value_name = "NAME=VALUE")]
    env: Vec<String>,

    /// An image made by `tombolo build`; what follows it is passed to the program
    // One list, so that clap stops looking for options of its own at the image.
    #[arg(required = true, trailing_var_arg = true, value_name = "IMAGE [ARGS]")]
    command: Vec<OsString>,
}

impl Options {
    /// Returns the arguments of the same job for `tombolo run`.
    fn to_run_arguments(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["tombolo", "run", "-n"].map(OsString::from).into();
        words.push(self.nue.to_string().into());
        if let Some(on) = &self.on {
            words.extend(["--on".into(), on.into()]);
        }
        let sizes = [(BUFFER_VARIABLE, self.buffer), (SHARED_VARIABLE, self.shared)];
        let sizes = sizes.into_iter().filter_map(|(name, bytes)| Some(format!("{name}={}", bytes?)));
        for variable in sizes.chain(self.env.iter().cloned()) {
            words.extend(["--env".into(), variable.into()]);
        }
        words.extend(self.command.iter().cloned());
        words
    }
}

pub(crate) fn run(context: &Context, options: &Options) -> Result<(), Failure> {
    match Arguments::try_parse_from(options.to_run_arguments()) {
        Ok(Arguments { command: Command::Run(options), .. }) => super::run::run(context, &options),
        Ok(_) => unreachable!("its second word is `run`"),
        // The error refers to options that both commands have.
        Err(error) => exit_with(&error),
    }
}

/// Returns the arguments with `-nue` translated to this command's notation.
pub(crate) fn translate_arguments(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let Some(own) = find_command(&words, "rccerun") else { return words };
    if let Some(nue) = words.iter().skip(own).position(|word| word == "-nue") {
        let nue = own + nue;
        // Arguments after the program belong to the program.
        let mut options = words[own + 1..nue].iter();
        let mut is_ours = true;
        while let Some(word) = options.next() {
            let text = word.to_string_lossy();
            is_ours &= text.starts_with('-');
            if !text.contains('=') {
                options.next();
            }
        }
        if is_ours {
            words[nue] = "--nue".into();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        let words = translate_arguments(line.split(' ').map(OsString::from));
        Arguments::try_parse_from(words).map(|arguments| match arguments.command {
            Command::Rccerun(options) => options,
            _ => unreachable!("the line is one of `rccerun`"),
        })
    }

    fn to_run_arguments(line: &str) -> String {
        let words = parse(line).unwrap().to_run_arguments();
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_job_is_one_of_run() {
        for (line, run) in [
            ("tombolo rccerun -nue 48 app.tbi -nue 3", "tombolo run -n 48 app.tbi -nue 3"),
            ("tombolo rccerun --nue 2 --on host,arm0 app.tbi", "tombolo run -n 2 --on host,arm0 app.tbi"),
            ("tombolo rccerun --on host:2 -nue 2 x", "tombolo run -n 2 --on host:2 x"),
            ("tombolo --machine m rccerun --env=A=B -nue 2 x", "tombolo run -n 2 --env A=B x"),
            (
                "tombolo rccerun -n 2 --buffer 65536 --shared 4096 x y",
                "tombolo run -n 2 --env TOMBOLO_RCCE_BUFFER=65536 --env TOMBOLO_RCCE_SHARED=4096 x y",
            ),
        ] {
            assert_eq!(to_run_arguments(line), run, "{line}");
            assert!(Arguments::try_parse_from(run.split(' ')).is_ok(), "{run}");
        }
    }

    #[test]
    fn invalid_job_ends_with_status_2() {
        for line in
            ["rccerun x", "rccerun -nue 0 x", "rccerun -nue 257 x", "rccerun -nue 2", "rccerun -n ue 2 x"]
        {
            assert_eq!(parse(&format!("tombolo {line}")).unwrap_err().exit_code(), 2, "{line}");
        }
        for other in ["tombolo run -nue", "tombolo run a.tbi rccerun -nue 4"] {
            let words: Vec<OsString> = other.split(' ').map(OsString::from).collect();
            assert_eq!(translate_arguments(words.iter().cloned()), words);
        }
    }
}
