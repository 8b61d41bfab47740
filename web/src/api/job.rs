//! Starts jobs: runs `tombolo run` as a domain of the host. The job's domains are its children, and all of
//! them end when it is asked to end or when this server exits.

use std::collections::BTreeMap;
use std::path::Path;

use axum::http::StatusCode;
use serde::Deserialize;
use tombolo::SpawnOptions;
use tombolo_admin::observe::{NodePhase, Seen};
use tombolo_files::FileGrant;

use super::Problem;
use super::images::ImageInfo;

/// Maximum number of domains of a job, as in `tombolo run`.
const MAX_DOMAINS: u32 = 4096;

/// Maximum number of environment variables, and of grants.
const MAX_ENTRIES: usize = 256;

/// Number of domains that a node gets.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Ranks {
    node: String,
    count: u32,
}

/// Description of a job, without its image and its arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Job {
    pub(super) ranks: Vec<Ranks>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) grants: Vec<String>,
}

impl Job {
    /// Validates the job, so that errors are reported by this request and not by a job that exits.
    pub(super) fn check(&self, seen: &Seen, image: &ImageInfo) -> Result<(), Problem> {
        let mut domains = 0_u32;
        for Ranks { node: name, count } in &self.ranks {
            let node = seen.nodes.values().find(|node| node.info.name == *name);
            let node =
                node.ok_or_else(|| Problem::not_found(format!("this machine has no node '{name}'")))?;
            if node.phase != NodePhase::Up {
                let text = format!("node {name} is down: {}", node.info.cause);
                return Err(Problem::new(StatusCode::CONFLICT, text));
            }
            if !image.targets.contains(&node.target) {
                let built: Vec<&str> = image.targets.iter().map(|target| target.name()).collect();
                let (node, built) = (node.target.name(), built.join(", "));
                let text = format!(
                    "{} has no build for node {name}, which is {node}; it is built for {built}",
                    image.name
                );
                return Err(Problem::new(StatusCode::CONFLICT, text));
            }
            domains = domains.saturating_add(*count);
        }
        if domains == 0 || domains > MAX_DOMAINS {
            let text = format!("a job has from 1 to {MAX_DOMAINS} domains; these are {domains}");
            return Err(Problem::bad_request(text));
        }
        if let Some(name) = self.environment.keys().find(|name| name.is_empty() || name.contains('=')) {
            return Err(Problem::bad_request(format!(
                "invalid variable name '{name}'; it must not be empty or contain `=`"
            )));
        }
        if self.environment.len() > MAX_ENTRIES || self.grants.len() > MAX_ENTRIES {
            return Err(Problem::bad_request(format!(
                "a job has at most {MAX_ENTRIES} variables and as many grants"
            )));
        }
        for grant in &self.grants {
            let read = grant.parse::<FileGrant>();
            read.map_err(|error| Problem::bad_request(format!("grant '{grant}': {error}")))?;
        }
        Ok(())
    }

    /// Returns the options that start the job with the program `tombolo`.
    pub(super) fn spawn(&self, tombolo: &Path, image: &Path, arguments: Vec<String>) -> SpawnOptions {
        let ranks = self.ranks.iter().filter(|ranks| ranks.count > 0);
        let on: Vec<String> = ranks.map(|Ranks { node, count }| format!("{node}:{count}")).collect();
        let mut options = SpawnOptions::image(tombolo)
            .called("tombolo")
            .args(["--color", "never", "run", "--no-input", "--on"])
            .arg(on.join(","));
        for (name, value) in &self.environment {
            options = options.arg("--env").arg(format!("{name}={value}"));
        }
        for grant in &self.grants {
            options = options.arg("--grant").arg(grant);
        }
        // `--` ends the options of `tombolo run`.
        options.arg("--").arg(image.to_string_lossy()).args(arguments.into_iter().map(escaped))
    }
}

/// Escapes an argument for `tombolo run`, where a lone `:` separates images: it gets a backslash, and an
/// argument of backslashes and a final `:` gets one more.
fn escaped(argument: String) -> String {
    let separates = argument.strip_suffix(':').is_some_and(|rest| rest.bytes().all(|byte| byte == b'\\'));
    if separates { format!("\\{argument}") } else { argument }
}

#[cfg(test)]
mod tests {
    use tombolo::nodes::Target;

    use super::*;
    use crate::testing::{node, seen};

    fn job(ranks: &[(&str, u32)]) -> Job {
        let ranks = ranks.iter().map(|(node, count)| Ranks { node: (*node).to_owned(), count: *count });
        Job { ranks: ranks.collect(), environment: BTreeMap::new(), grants: Vec::new() }
    }

    fn refused(job: &Job) -> String {
        let mut down = node(2, "arm1", "aarch64", &[0], 500);
        (down.phase, down.info.cause) = (NodePhase::Down, "killed".into());
        let seen = seen([
            node(0, "host", "x86_64", &[0], 4000),
            node(1, "arm0", "aarch64", &[0], 500),
            node(3, "riscv", "riscv64", &[0], 500),
            down,
        ]);
        let image = ImageInfo {
            file: "x.tbi".into(),
            path: "x.tbi".into(),
            name: "x".into(),
            targets: ["x86_64", "aarch64"].iter().map(|name| Target::from_name(name).unwrap()).collect(),
            restartable: false,
            bytes: 1,
        };
        job.check(&seen, &image).err().map_or_else(String::new, |problem| problem.text)
    }

    #[test]
    fn invalid_jobs_are_refused_before_start() {
        assert_eq!(refused(&job(&[("host", 2), ("arm0", 4094), ("host", 0)])), "");
        assert_eq!(refused(&job(&[("mars", 1)])), "this machine has no node 'mars'");
        assert_eq!(refused(&job(&[("arm1", 1)])), "node arm1 is down: killed");
        assert_eq!(
            refused(&job(&[("riscv", 1)])),
            "x has no build for node riscv, which is riscv64; it is built for x86_64, aarch64"
        );
        for ranks in [&[("host", 0)][..], &[("host", 4096), ("arm0", 1)], &[("host", u32::MAX), ("arm0", 1)]]
        {
            assert!(refused(&job(ranks)).contains("from 1 to 4096"), "{ranks:?}");
        }
        for name in ["", "A=B"] {
            let environment = BTreeMap::from([(name.to_owned(), String::new())]);
            assert!(refused(&Job { environment, ..job(&[("host", 1)]) }).contains("invalid variable name"));
        }
        let grants = vec![":rw".to_owned()];
        assert!(refused(&Job { grants, ..job(&[("host", 1)]) }).starts_with("grant ':rw': "));
    }

    #[test]
    fn a_colon_reaches_the_program_and_separates_no_images() {
        let escaped = |argument: &str| escaped(argument.to_owned());
        assert_eq!((escaped(":").as_str(), escaped(r"\:").as_str()), (r"\:", r"\\:"));
        for plain in ["", "a:", "::", r"\", "x"] {
            assert_eq!(escaped(plain), plain);
        }
    }
}
