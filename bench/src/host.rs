//! Description of the host, for readers who compare figures.

use std::{fmt, fs};

use serde::{Deserialize, Serialize};

use crate::cpus;

/// Host on which the figures were measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Processor name as reported by the kernel.
    pub cpu_model: String,
    /// Number of online processors.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Caches of the first processor, the nearest first.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Number of NUMA nodes.
    #[serde(default)]
    pub memory_nodes: usize,
    /// Whether the kernel reports a hypervisor.
    #[serde(default)]
    pub virtual_machine: bool,
    /// The first GPU, if copies to it were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
}

/// Cache of a processor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Cache {
    /// Level and type of the cache.
    pub name: String,
    /// Size in the kernel's format.
    pub size: String,
    /// Number of processors that share it.
    pub shared_by: usize,
}

/// Formats the header of tables.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} processors), Linux {}", self.cpu_model, self.cores, self.kernel)
    }
}

impl Host {
    pub(crate) fn describe() -> Host {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let cores = cpus::parse_list(&online).len();
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Host {
            cpu_model: cpu_model(&cpuinfo),
            cores,
            kernel: kernel.trim().to_owned(),
            caches: caches(),
            memory_nodes: count_nodes(),
            virtual_machine: cpuinfo
                .lines()
                .any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor")),
            gpu: None,
        }
    }

    /// Returns further properties, as label and text.
    #[must_use]
    pub fn details(&self) -> Vec<(&'static str, String)> {
        let cache = |cache: &Cache| match cache.shared_by {
            0 | 1 => format!("{} {}", cache.name, cache.size),
            count => format!("{} {} shared by {count}", cache.name, cache.size),
        };
        let mut details = Vec::new();
        if !self.caches.is_empty() {
            details.push(("Caches", self.caches.iter().map(cache).collect::<Vec<_>>().join(", ")));
        }
        if self.memory_nodes > 0 {
            details.push(("Memory nodes", self.memory_nodes.to_string()));
        }
        if let Some(gpu) = &self.gpu {
            details.push(("GPU", gpu.clone()));
        }
        details.push(("Virtual machine", if self.virtual_machine { "yes" } else { "no" }.to_owned()));
        details
    }
}

/// Reads the caches of the first processor, as far as the kernel exposes them.
fn caches() -> Vec<Cache> {
    let of = |index: usize| {
        let read = |file| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{file}"))
                .map(|text| text.trim().to_owned())
        };
        let level = read("level").ok()?;
        let name = match read("type").ok()?.as_str() {
            "Data" => format!("L{level}d"),
            "Instruction" => format!("L{level}i"),
            _ => format!("L{level}"),
        };
        let shared_by = cpus::parse_list(&read("shared_cpu_list").ok()?).len();
        Some(Cache { name, size: read("size").ok()?, shared_by })
    };
    (0..8).map_while(of).collect()
}

fn count_nodes() -> usize {
    let online = fs::read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    cpus::parse_list(&online).len()
}

/// Returns the processor name from `/proc/cpuinfo`. Arm kernels report only numbers there; the instruction
/// set is used instead.
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
