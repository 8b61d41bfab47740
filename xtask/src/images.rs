//! Images of the kit: programs of the tree that run on several nodes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::needs::{Needs, RustTarget};
use crate::workspace::{Workspace, execute};

/// Image of the kit, with the program that it contains.
#[derive(Debug)]
pub(crate) struct Image {
    /// Name of the image file, without its extension.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) program: &'static str,
    /// Whether the image also contains programs for boards.
    pub(crate) bare: bool,
}

/// All images of the kit.
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

/// Packs an image from programs that are already built, unless it is up to date and contains all wanted
/// targets.
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
    if is_newer(&file, &programs) && has_targets(&tool, &file, &targets) {
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

/// Returns whether an image contains a program for each of these targets. It may contain more: an image
/// packed for every instruction set is kept.
fn has_targets(tool: &Path, file: &Path, targets: &[&RustTarget]) -> bool {
    let Ok(output) = Command::new(tool).args(["image", "inspect", "--json"]).arg(file).output() else {
        return false;
    };
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let programs = report["programs"].as_array().map(Vec::as_slice).unwrap_or_default();
    targets.iter().all(|target| programs.iter().any(|program| program["isa"] == target.name()))
}
