//! What the host is, for people who compare figures.

use std::fs;

use serde::Serialize;

use crate::cpus;

/// The host that figures were taken on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Host {
    /// The processor's name, as the kernel says it.
    pub cpu_model: String,
    /// Processors online.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
}

impl Host {
    pub(crate) fn describe() -> Host {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let cores = cpus::parse_list(&online).len();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Host { cpu_model: cpu_model(&cpuinfo), cores, kernel: kernel.trim().to_owned() }
    }
}

/// The first line that names the processor. Arm kernels give numbers only, so the instruction set has to do.
fn cpu_model(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|k| k.trim() == key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    ["model name", "uarch", "processor 0"]
        .into_iter()
        .find_map(value)
        .unwrap_or_else(|| format!("{} processor", tombolo::Isa::current()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_or_replaced() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n"), "Some CPU @ 3 GHz");
        assert!(cpu_model("processor\t: 0\nCPU part\t: 0xd0c\n").ends_with("processor"));
    }
}
