//! Images of a job: the command line of `tombolo run`, split at its `:` arguments.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser};
use tombolo::Domain;
use tombolo::nodes::NodeInfo;
use tombolo_cli_common::arguments::exit_with;
use tombolo_cli_common::nodes::{needs, placement_failure, prepare_auto, with_needs};
use tombolo_machine::Image;
use tombolo_placement::{Auto, MAX_RANKS, Needs, Placement};

use crate::arguments::Arguments;
use crate::failure::Failure;

/// Argument between two images.
const SEPARATOR: &str = ":";

/// Options that each image of a job may have of its own.
#[derive(Args, Clone, Default, Debug)]
pub(super) struct PartOptions {
    /// How many domains to start [default: one on each node of --on]
    #[arg(short = 'n', long = "np", value_name = "COUNT", value_parser = count, allow_hyphen_values = true)]
    count: Option<usize>,

    /// The nodes to run on, each with a number of domains; the default is one domain on the host. `auto`
    /// chooses nodes that have a build and what --needs asks for, as `tombolo place` does
    #[arg(long, value_name = "NODE[:COUNT],…", value_delimiter = ',')]
    on: Vec<Placement>,

    /// Requirements on the nodes that `auto` chooses, such as 'memory>=256M,near=arm0'; see `tombolo place`.
    /// Alone it means `--on auto`
    #[arg(long, value_name = "NEEDS", value_parser = needs)]
    needs: Option<Needs>,

    /// Add a variable to the environment of each domain; may be repeated
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(super) env: Vec<(String, String)>,

    /// Restrict domains to these CPUs of their node, such as 0,2-3; `each` gives every domain a CPU of its
    /// own
    #[arg(long, value_name = "CPUS", value_parser = pinning)]
    pub(super) pin: Option<Pinning>,

    /// Run at this real-time priority (SCHED_FIFO), 1 to 99; needs CAP_SYS_NICE or RLIMIT_RTPRIO
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(super) priority: Option<u8>,
}

impl PartOptions {
    /// Merges these options of a later image with the first's: missing ones are inherited, except for the
    /// count, and variables are appended.
    fn after(self, first: &PartOptions) -> PartOptions {
        // Needs of the first image do not apply to one whose nodes are named.
        let chooses = self.on.is_empty() || self.on.iter().any(Placement::is_auto);
        PartOptions {
            count: self.count,
            on: if self.on.is_empty() { first.on.clone() } else { self.on },
            needs: self.needs.or_else(|| first.needs.clone().filter(|_| chooses)),
            env: first.env.iter().cloned().chain(self.env).collect(),
            pin: self.pin.or_else(|| first.pin.clone()),
            priority: self.priority.or(first.priority),
        }
    }

    /// Returns the node of each domain, as an index into `nodes`. `auto` has the nodes chosen for previous
    /// images.
    pub(super) fn place(
        &self,
        domain: &Domain,
        image: &Image,
        nodes: &[NodeInfo],
        auto: &mut Option<Auto>,
    ) -> Result<Vec<usize>, Failure> {
        let on = with_needs(&self.on, self.needs.as_ref())?;
        let count = self.count.or(on.is_empty().then_some(1));
        prepare_auto(auto, domain, &on, self.needs.as_ref(), Some(image.targets()))?;
        let order = tombolo_placement::Order::Block;
        tombolo_placement::place(count, &on, order, nodes, auto.as_mut()).map_err(placement_failure)
    }
}

/// Arguments after the `:` of a later image.
#[derive(Parser, Debug)]
#[command(name = "tombolo run", no_binary_name = true, disable_help_flag = true)]
struct LaterPart {
    #[command(flatten)]
    options: PartOptions,

    #[arg(required = true, trailing_var_arg = true, value_name = "IMAGE [ARGS]")]
    command: Vec<OsString>,
}

/// One image of a job, with its options and the arguments for its program.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) options: PartOptions,
    pub(super) image: PathBuf,
    pub(super) arguments: Vec<String>,
}

impl Part {
    fn new(options: PartOptions, words: &[OsString]) -> Result<Part, Failure> {
        let Some((image, arguments)) = words.split_first() else { return Err(no_image()) };
        // A `--` right after the image only ends the options of `run`.
        let arguments = arguments.strip_prefix(&[OsString::from("--")]).unwrap_or(arguments);
        let arguments = arguments.iter().map(|word| argument(word)).collect::<Result<_, _>>()?;
        Ok(Part { options, image: Path::new(image).to_owned(), arguments })
    }
}

/// Splits `words`, the first image of a job and everything after it.
///
/// `first` are the options before the first image; `job` has the options that apply to the whole job.
pub(super) fn parts(
    first: &PartOptions,
    words: &[OsString],
    job: &clap::Command,
) -> Result<Vec<Part>, Failure> {
    let mut parts = Vec::new();
    for (index, words) in words.split(|word| word == SEPARATOR).enumerate() {
        let part = if index == 0 {
            Part::new(first.clone(), words)?
        } else if words.is_empty() {
            return Err(no_image());
        } else {
            let later = LaterPart::try_parse_from(words).map_err(|error| part_usage_error(error, job))?;
            Part::new(later.options.after(first), &later.command)?
        };
        parts.push(part);
    }
    Ok(parts)
}

fn no_image() -> Failure {
    Failure::Usage {
        message: "an image is missing before or after an argument `:`".to_owned(),
        hint: Some("`:` separates the images of a job; a program gets the argument `:` if you write '\\:'"),
    }
}

/// Converts mistakes in the options of a later image. Ends the process for those that clap explains well.
fn part_usage_error(error: clap::Error, job: &clap::Command) -> Failure {
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(option))) if is_option_of(job, option) => {
            Failure::Usage {
                message: format!("{option} holds for the whole job, but follows a `:`"),
                hint: Some("write it before the first image"),
            }
        }
        (ErrorKind::MissingRequiredArgument, _) => no_image(),
        _ => exit_with(&error),
    }
}

/// Returns whether `option` (`--name`, `--name=value` or `-n`) is one of `command` or one of every command.
fn is_option_of(command: &clap::Command, option: &str) -> bool {
    let name = option.split('=').next().unwrap_or(option);
    let globals = Arguments::command();
    let named = |known: &clap::Arg| match name.strip_prefix("--") {
        Some(long) => known.get_long() == Some(long),
        None => known
            .get_short()
            .is_some_and(|short| name.strip_prefix('-').is_some_and(|n| n.chars().eq([short]))),
    };
    command.get_arguments().chain(globals.get_arguments()).any(named)
}

/// Converts an argument for a program to text. One or more backslashes before a `:` lose one, so that every
/// argument can be expressed: `\:` is `:`, and `\\:` is `\:`.
fn argument(word: &OsStr) -> Result<String, Failure> {
    let Some(text) = word.to_str() else {
        let message = format!("the argument '{}' is not valid UTF-8", word.to_string_lossy());
        return Err(Failure::Usage {
            message,
            hint: Some("a program on another node gets its arguments as text"),
        });
    };
    let escaped =
        text.len() > 1 && text.strip_suffix(':').is_some_and(|rest| rest.bytes().all(|b| b == b'\\'));
    Ok(if escaped { text[1..].to_owned() } else { text.to_owned() })
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=MAX_RANKS).contains(&count) => Ok(count),
        // `-n` was formerly short for --no-input.
        Err(_) if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Err("it takes a number of domains; to leave the standard input alone, write --no-input"
                .to_owned())
        }
        _ => Err(format!("write a number of domains from 1 to {MAX_RANKS}")),
    }
}

pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// CPUs that the domains of an image run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Pinning {
    /// All domains on these CPUs.
    To(Vec<u16>),
    /// One CPU for each domain of a node, in the order of the node's numbers.
    Each,
}

impl Pinning {
    /// Returns the CPUs for a domain; `before` domains of the job with lower ranks are on the same node.
    pub(super) fn cpus(&self, before: usize, node: &NodeInfo) -> Vec<u16> {
        match self {
            Pinning::To(cpus) => cpus.clone(),
            Pinning::Each => vec![(before % usize::from(node.cores.max(1))) as u16],
        }
    }
}

fn pinning(text: &str) -> Result<Pinning, String> {
    if text == "each" {
        return Ok(Pinning::Each);
    }
    let wrong =
        || format!("'{text}' is not a list of CPUs; write numbers and ranges such as 0,2-3, or `each`");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<u16>().ok().filter(|cpu| *cpu < 1024).ok_or_else(wrong);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Pinning::To(cpus))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn job() -> clap::Command {
        super::super::Options::augment_args(clap::Command::new("run"))
    }

    fn divided(line: &str) -> Result<Vec<Part>, Failure> {
        parts(&PartOptions::default(), &words(line), &job())
    }

    fn shown(part: &Part) -> String {
        format!("{} [{}]", part.image.display(), part.arguments.join(" "))
    }

    #[test]
    fn a_bare_colon_divides_images() {
        let parts = divided("a.tbi x --on y : -n 4 --on arm0 b.tbi -n 2 : c.tbi").unwrap();
        let shown: Vec<String> = parts.iter().map(shown).collect();
        assert_eq!(shown, ["a.tbi [x --on y]", "b.tbi [-n 2]", "c.tbi []"]);
        assert_eq!(parts[1].options.count, Some(4));
        assert_eq!(parts[1].options.on[0].node, "arm0");
        assert_eq!((parts[2].options.count, parts[2].options.on.len()), (None, 0));
    }

    #[test]
    fn a_program_gets_a_colon_that_is_escaped() {
        let parts = divided(r"a.tbi \: \\: a: : b.tbi -- \: ::").unwrap();
        let shown: Vec<String> = parts.iter().map(shown).collect();
        assert_eq!(shown, [r"a.tbi [: \: a:]", "b.tbi [: ::]"]);
    }

    #[test]
    fn later_images_inherit_from_the_first() {
        let first = PartOptions {
            count: Some(3),
            needs: None,
            on: vec!["host".parse().unwrap()],
            env: vec![("A".into(), "1".into())],
            pin: Some(Pinning::Each),
            priority: Some(7),
        };
        let parts =
            parts(&first, &words("a.tbi : -e B=2 b.tbi : --on arm0 --pin 1 --priority 2 c.tbi"), &job());
        let parts = parts.unwrap();
        let second = &parts[1].options;
        assert_eq!((second.count, second.on[0].node.as_str(), second.priority), (None, "host", Some(7)));
        assert_eq!(second.env, [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "2".to_owned())]);
        let third = &parts[2].options;
        assert_eq!((third.on[0].node.as_str(), third.priority), ("arm0", Some(2)));
        assert_eq!(third.pin, Some(Pinning::To(vec![1])));
    }

    #[test]
    fn an_image_is_needed_on_both_sides_of_a_colon() {
        for line in [": a.tbi", "a.tbi :", "a.tbi : : b.tbi", ":", "a.tbi : -n 2"] {
            let failure = divided(line).unwrap_err();
            assert_eq!(failure.status(), 2, "{line}");
            assert!(failure.to_string().contains("an image is missing"), "{line}: {failure}");
        }
    }

    #[test]
    fn options_of_the_job_stand_before_its_first_image() {
        for (line, option) in [
            ("a.tbi : --keep-going b.tbi", "--keep-going"),
            ("a.tbi : -k b.tbi", "-k"),
            ("a.tbi : --restart=on-failure b.tbi", "--restart"),
            ("a.tbi : --machine m b.tbi", "--machine"),
        ] {
            let failure = divided(line).unwrap_err();
            assert_eq!(failure.status(), 2, "{line}");
            assert!(
                failure.to_string().starts_with(&format!("{option} holds for the whole job")),
                "{failure}"
            );
            assert_eq!(failure.hint().as_deref(), Some("write it before the first image"));
        }
    }

    #[test]
    fn the_former_meaning_of_n_is_explained() {
        assert_eq!(count("4096"), Ok(4096));
        for text in ["x.tbi", "--on", ""] {
            let explained = count(text).is_err_and(|error| error.contains("--no-input"));
            assert_eq!(explained, !text.is_empty(), "{text}");
        }
        assert!(count("0").is_err() && count("4097").is_err() && count("99999999999999999999").is_err());
    }

    #[test]
    fn variables_have_a_name() {
        assert_eq!(variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(variable("A="), Ok(("A".to_owned(), String::new())));
        assert!(variable("=b").is_err() && variable("A").is_err());
    }

    #[test]
    fn cpus_are_lists_or_one_each() {
        assert_eq!(pinning("0"), Ok(Pinning::To(vec![0])));
        assert_eq!(pinning("3,0-2"), Ok(Pinning::To(vec![3, 0, 1, 2])));
        assert_eq!(pinning("each"), Ok(Pinning::Each));
        for wrong in ["", "x", "1-", "3-1", "0,,1", "-1", "1024", "65536"] {
            assert!(pinning(wrong).is_err(), "{wrong}");
        }
    }
}
