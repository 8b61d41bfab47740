//! Go programs, built with the SDK of the tree.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::cross::root;
use crate::kit::target;
use crate::skipped;

/// The Go toolchain of this host.
#[derive(Clone, Copy, Debug)]
pub struct Go(());

/// Oldest Go version that the SDK supports.
const OLDEST: (u32, u32) = (1, 19);

impl Go {
    /// Finds a recent enough Go. Returns `None` and reports a skipped test if there is none.
    #[must_use]
    pub fn find() -> Option<Go> {
        let said = Command::new("go").arg("env").arg("GOVERSION").output().ok();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if said.as_deref().and_then(version).is_some_and(|version| version >= OLDEST) {
            return Some(Go(()));
        }
        skipped("Go: there is no Go 1.19 or newer (Debian: golang-go)");
        None
    }

    /// Returns the command `go` in a folder of the tree, with downloads disabled.
    #[must_use]
    pub fn command(self, folder: &str) -> Command {
        let mut command = Command::new("go");
        command.current_dir(root().join(folder)).envs(self.settings());
        command
    }

    /// Environment variables that disable downloads and put Go's caches into the target folder.
    #[must_use]
    pub fn settings(self) -> [(&'static str, OsString); 5] {
        [
            ("GOTOOLCHAIN", "local".into()),
            ("GOPROXY", "off".into()),
            ("GOFLAGS", OsString::new()),
            ("GOCACHE", target().join("go/cache").into()),
            ("GOPATH", target().join("go/path").into()),
        ]
    }

    /// Builds a package as a static executable for an instruction set, given by Tombolo's name for it.
    ///
    /// # Panics
    /// When that fails.
    pub fn build(self, folder: &str, package: &str, isa: &str, program: &Path) {
        let architecture = match isa {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            "i386" => "386",
            "armv7" => "arm",
            other => other,
        };
        let mut command = self.command(folder);
        command.env("CGO_ENABLED", "0").env("GOOS", "linux").env("GOARCH", architecture);
        command.args(["build", "-trimpath", "-ldflags", "-s -w", "-o"]).arg(program).arg(package);
        let output = command.output().expect("go was found");
        assert!(output.status.success(), "{package}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Parses the version out of a text such as `go1.19.8`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("go")?.split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor: String = numbers.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn go_version_is_parsed_from_text() {
        assert_eq!(version("go1.19.8\n"), Some((1, 19)));
        assert_eq!(version("go1.27rc1"), Some((1, 27)));
        assert_eq!(version("devel"), None);
    }
}
