//! The images of the kit: programs of the tree that run on several nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::needs::{Needs, RustTarget};
use crate::workspace::{Workspace, execute};

/// An image of the kit.
#[derive(Debug)]
pub(crate) struct Image {
    /// What the image is called.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) program: &'static str,
    /// Whether it runs on boards too.
    pub(crate) bare: bool,
}

/// Every image.
pub(crate) const IMAGES: &[Image] = &[
    Image::new("pingpong", "pingpong", "pingpong"),
    Image::new("frames", "frames", "frames"),
    Image::new("pipeline", "pipeline", "pipeline"),
    Image::new("primes", "primes", "primes"),
    Image::new("communities", "communities", "communities"),
    Image::new("bench", "tombolo-bench-far", "bench-peer"),
    Image::new("bounded", "tombolo-bounded", "bounded").on_boards(),
    Image::new("bare-pingpong", "bare-pingpong", "bare-pingpong").on_boards(),
    Image::new("devices", "tombolo-devices", "tombolo-devices"),
    Image::new("copies", "tombolo-copy-server", "tombolo-copy-server"),
    Image::new("hubs", "tombolo-hub-server", "tombolo-hub-server"),
    Image::new("xipx", "tombolo-xipx-server", "tombolo-xipx-server"),
    Image::new("litmus", "tombolo-litmus", "tombolo-litmus").on_boards(),
    Image::new("remote-peer", "tombolo-remote-peer", "tombolo-remote-peer").on_boards(),
];

impl Image {
    const fn new(name: &'static str, package: &'static str, program: &'static str) -> Self {
        Self { name, package, program, bare: false }
    }

    const fn on_boards(mut self) -> Self {
        self.bare = true;
        self
    }
}

/// Packs an image out of programs that are built, unless it has all of them and is newer.
pub(crate) fn pack(
    workspace: &Workspace,
    image: &Image,
    needs: &Needs,
    folder: &Path,
) -> Result<(), Failure> {
    let built = |profile: &str| workspace.target.join(profile).join(image.program);
    let boards = needs.boards.iter().filter(|_| image.bare);
    let targets: Vec<&RustTarget> = needs.linux.iter().chain(boards).collect();
    let mut programs = vec![built("release")];
    programs.extend(targets.iter().map(|target| built(&format!("{}/node", target.triple))));
    let file = folder.join(format!("{}.tbi", image.name));
    let tool = workspace.target.join("release/tombolo");
    if is_newer(&file, &programs) && holds(&tool, &file, &targets) {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(Failure::file("creating", folder))?;
    let mut pack = Command::new(tool);
    execute(pack.args(["image", "pack", "--name", image.name, "--output"]).arg(&file).args(&programs))
}

fn is_newer(file: &Path, inputs: &[PathBuf]) -> bool {
    let age = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let made = age(file);
    made.is_some() && inputs.iter().all(|input| age(input) < made)
}

/// Whether an image has a program for each of these, and perhaps more: one that was packed for every
/// instruction set stays.
fn holds(tool: &Path, file: &Path, targets: &[&RustTarget]) -> bool {
    let Ok(output) = Command::new(tool).args(["image", "inspect", "--json"]).arg(file).output() else {
        return false;
    };
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let programs = report["programs"].as_array().map(Vec::as_slice).unwrap_or_default();
    targets.iter().all(|target| programs.iter().any(|program| program["isa"] == target.name()))
}
