//! Parts of a virtual machine node.

use std::path::{Path, PathBuf};

use tombolo_base::Isa;
use tombolo_platform::guest::init;

use super::architecture::Architecture;
use crate::kit::host_tombolod;

/// File that lists the kernel modules, one name per line, each after its dependencies.
const MODULE_ORDER: &str = "order";

/// Folder of the network modules.
const NETWORK_MODULES: &str = "network-modules";

/// Folder of the modules for devices that a program provides.
const DEVICE_MODULES: &str = "device-modules";

/// Error for a missing part of the kit.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an {isa} virtual machine node needs {what}, but {path} is missing: run `{remedy}`", path = path.display())]
pub struct KitError {
    /// Instruction set of the node.
    pub isa: Isa,
    /// Name of the missing part.
    pub what: &'static str,
    /// Path that was searched.
    pub path: PathBuf,
    /// Command that adds the part.
    pub remedy: &'static str,
}

/// Files that a virtual machine node consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmKit {
    /// Kernel that QEMU boots.
    pub kernel: PathBuf,
    /// Folder of the kernel modules for the window's interrupts, and the file `order` that lists them.
    pub modules_dir: PathBuf,
    /// Folders of the node's modules with their paths on the node, including those for devices that a program
    /// provides.
    pub modules: Vec<(PathBuf, &'static str)>,
    /// Shell and tools of the node's console, one static program.
    pub busybox: PathBuf,
    /// Monitor of the node: a static program, or the host's own with its libraries in `root`.
    pub tombolod: PathBuf,
    /// Folder with shared libraries for the node's root; `None` if all programs are static.
    pub root: Option<PathBuf>,
    pub(super) isa: Isa,
    pub(super) remedy: &'static str,
}

impl VmKit {
    /// Finds the parts under `kit_dir`, the folder that has one folder per instruction set.
    ///
    /// # Errors
    /// [`KitError`], naming the first part that is missing.
    pub fn locate(kit_dir: &Path, isa: Isa) -> Result<VmKit, KitError> {
        let folder = kit_dir.join(isa.name());
        let architecture = Architecture::of(isa);
        let remedy = architecture.map_or("make kit", |architecture| architecture.remedy);
        let part = |name: &str, what: &'static str| {
            let path = folder.join(name);
            if path.exists() { Ok(path) } else { Err(KitError { isa, what, path, remedy }) }
        };
        let has_root = architecture.is_some_and(|architecture| architecture.has_root);
        let monitor = || match host_tombolod() {
            // If the libraries are present, a machine with the host's instruction set runs the host's
            // monitor.
            Ok(path) if has_root && isa == Isa::current() => Ok(path),
            _ => part("tombolod", "its monitor"),
        };
        let kernel = part("vmlinuz", "a Linux kernel")?;
        let modules_dir = part("modules", "the kernel's modules")?;
        let devices = part(DEVICE_MODULES, "the kernel's modules for devices of programs")?;
        let kit = VmKit {
            kernel,
            modules: vec![(modules_dir.clone(), init::MODULES), (devices, init::DEVICE_MODULES)],
            modules_dir,
            busybox: part("busybox", "busybox")?,
            tombolod: monitor()?,
            root: has_root.then(|| part("root", "libraries of programs")).transpose()?,
            isa,
            remedy,
        };
        part(&format!("modules/{MODULE_ORDER}"), "the order of the kernel's modules")?;
        part(&format!("{DEVICE_MODULES}/{MODULE_ORDER}"), "the order of the kernel's modules for devices")?;
        Ok(kit)
    }

    /// Replaces the kernel and its modules; without a folder no modules are loaded.
    ///
    /// # Errors
    /// The missing file or folder.
    pub fn with_kernel(self, kernel: &Path, modules: Option<&Path>) -> Result<VmKit, String> {
        if !kernel.is_file() {
            return Err(format!("its kernel {} is not there, or is not a file", kernel.display()));
        }
        if let Some(order) = modules.map(|modules| modules.join(MODULE_ORDER))
            && !order.is_file()
        {
            return Err(format!(
                "its modules need the file {}, one name a line, in their order",
                order.display()
            ));
        }
        Ok(VmKit {
            kernel: kernel.to_owned(),
            modules: modules.map(|modules| vec![(modules.to_owned(), init::MODULES)]).unwrap_or_default(),
            ..self
        })
    }

    /// Adds the modules for the node's disks, unless the kernel was replaced.
    ///
    /// # Errors
    /// [`KitError`] if they are missing.
    pub fn with_disks(mut self) -> Result<VmKit, KitError> {
        if self.modules.iter().any(|(source, _)| *source == self.modules_dir) {
            let network = self.network_modules_dir()?;
            self.modules.push((network, init::DISK_MODULES));
        }
        Ok(self)
    }

    /// Returns the folder of the kernel's network modules, with a separate order, for
    /// [`pack_program`](super::initramfs::pack_program).
    ///
    /// # Errors
    /// [`KitError`] if it is missing.
    pub fn network_modules_dir(&self) -> Result<PathBuf, KitError> {
        let path = self.modules_dir.with_file_name(NETWORK_MODULES);
        let what = "the kernel's modules for a network";
        let VmKit { isa, remedy, .. } = *self;
        if path.join(MODULE_ORDER).exists() { Ok(path) } else { Err(KitError { isa, what, path, remedy }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_missing_part_is_named() {
        let root = std::env::temp_dir().join(format!("tombolo-kit-{}", std::process::id()));
        let folder = root.join("aarch64");
        std::fs::create_dir_all(folder.join("modules")).unwrap();
        for name in ["vmlinuz", "device-modules", "busybox", "tombolod", "modules/order"] {
            let error = VmKit::locate(&root, Isa::Aarch64).unwrap_err();
            assert!(error.path.ends_with(name), "{error}");
            assert!(error.to_string().contains("make kit"), "{error}");
            match name {
                "device-modules" => std::fs::create_dir_all(folder.join(name)).unwrap(),
                _ => std::fs::write(folder.join(name), "").unwrap(),
            }
        }
        let error = VmKit::locate(&root, Isa::Aarch64).unwrap_err();
        assert!(error.path.ends_with("device-modules/order"), "{error}");
        std::fs::write(folder.join("device-modules/order"), "").unwrap();
        let kit = VmKit::locate(&root, Isa::Aarch64).unwrap();
        assert_eq!(kit.busybox, folder.join("busybox"));
        let error = kit.network_modules_dir().unwrap_err();
        assert!(error.to_string().contains("modules for a network"), "{error}");
        std::fs::create_dir_all(folder.join("network-modules")).unwrap();
        std::fs::write(folder.join("network-modules/order"), "").unwrap();
        assert_eq!(kit.network_modules_dir(), Ok(folder.join("network-modules")));
        let kit = kit.with_disks().unwrap();
        assert_eq!(kit.modules.len(), 3, "those for disks are among those for a network");
        let own = folder.join("own");
        assert!(kit.clone().with_kernel(&own, None).unwrap_err().contains("is not there"));
        std::fs::write(&own, "").unwrap();
        assert!(kit.clone().with_kernel(&own, Some(&root)).unwrap_err().contains("order"));
        let kit = kit.with_kernel(&own, None).unwrap().with_disks().unwrap();
        assert_eq!((&kit.kernel, kit.modules.len()), (&own, 0), "no modules of another kernel");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
