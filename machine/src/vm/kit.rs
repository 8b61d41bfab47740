//! What a virtual machine node is made of.

use std::path::{Path, PathBuf};

use tombolo_base::Isa;
use tombolo_platform::guest::init;

use super::architecture::Architecture;
use crate::kit::host_tombolod;

/// The file that lists the kernel modules, one name a line, each after those it needs.
const MODULE_ORDER: &str = "order";

/// The folder of the modules for a network.
const NETWORK_MODULES: &str = "network-modules";

/// The folder of the modules for devices that a program provides.
const DEVICE_MODULES: &str = "device-modules";

/// A part of the kit is missing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an {isa} virtual machine node needs {what}, but {path} is missing: run `{remedy}`", path = path.display())]
pub struct KitError {
    /// The instruction set of the node.
    pub isa: Isa,
    /// The part that is missing.
    pub what: &'static str,
    /// Where it was looked for.
    pub path: PathBuf,
    /// The command that adds it.
    pub remedy: &'static str,
}

/// The files that a virtual machine node is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VmKit {
    /// The kernel, as QEMU boots it.
    pub kernel: PathBuf,
    /// The kernel's modules for the window's interrupts, and the file `order` that lists them.
    pub modules_dir: PathBuf,
    /// The folders of modules that the node has, and where it has them: with those for devices that a program
    /// provides.
    pub modules: Vec<(PathBuf, &'static str)>,
    /// The shell and tools of the node's console, one static program.
    pub busybox: PathBuf,
    /// The node's monitor: a static program, or the host's own with its libraries in `root`.
    pub tombolod: PathBuf,
    /// The folder with the libraries of programs, for the node's root; `None` where all programs are static.
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
            // With its libraries there, a machine of the host's own instruction set runs the host's monitor.
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

    /// Returns the same with another kernel, and its modules: none are loaded of a kernel without any.
    ///
    /// # Errors
    /// The file or folder that is not there.
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

    /// Returns the same with the modules that its disks need, unless another kernel has brought its own.
    ///
    /// # Errors
    /// [`KitError`] when they are missing.
    pub fn with_disks(mut self) -> Result<VmKit, KitError> {
        if self.modules.iter().any(|(source, _)| *source == self.modules_dir) {
            let network = self.network_modules_dir()?;
            self.modules.push((network, init::DISK_MODULES));
        }
        Ok(self)
    }

    /// Returns the kernel's modules for a network, with their own order: for
    /// [`pack_program`](super::initramfs::pack_program).
    ///
    /// # Errors
    /// [`KitError`] when they are missing.
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
