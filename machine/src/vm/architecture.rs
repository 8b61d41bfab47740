//! Properties of virtual machines that depend on the instruction set.

use tombolo_base::Isa;

/// The emulated computer of an instruction set's nodes, and its emulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Architecture {
    /// The instruction set.
    pub isa: Isa,
    /// Program of the emulator.
    pub program: &'static str,
    /// Debian package that contains it.
    pub package: &'static str,
    /// Default processor model.
    pub cpu: &'static str,
    /// Command that adds the kernel and other parts of a node to the kit.
    pub remedy: &'static str,
    /// Whether programs for it find their libraries in the kit's folder `root`, which is absent if all
    /// programs are static.
    pub has_root: bool,
    /// Machine type of the emulator.
    pub(super) machine: &'static str,
    /// Machine type under KVM, with the host's processor model.
    pub(super) machine_with_kvm: &'static str,
    /// Devices that precede the windows.
    pub(super) devices: &'static [&'static str],
    /// Kernel parameters: the serial line, and those specific to this instruction set.
    pub(super) kernel_cmdline: &'static str,
}

/// All instruction sets with virtual machines.
pub static ARCHITECTURES: [Architecture; 3] =
    [Architecture::X86_64, Architecture::AARCH64, Architecture::RISCV64];

impl Architecture {
    /// An emulated computer like a PC.
    pub const X86_64: Architecture = Architecture {
        isa: Isa::X86_64,
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        // Does not announce a fast `rep movsb`: emulated it moves 45 MB/s, and loops 2 GB/s.
        cpu: "qemu64",
        remedy: "cargo xtask kit --vm x86_64",
        // Images for this host are linked to its shared libraries.
        has_root: true,
        machine: "q35",
        // Interrupts are remapped by the emulator's part of the controllers.
        machine_with_kvm: "q35,accel=kvm,kernel-irqchip=split",
        // vfio needs an IOMMU. Remapped interrupts count as isolated.
        devices: &["-device intel-iommu,intremap=on"],
        // `pti=off` as `kpti=off` on Arm. `i8042` and `tsc`: avoid probing for a missing keyboard, and
        // calibrating a clock that follows the host's. `no_timer_check`: on a busy host the emulator may be
        // late with the few ticks with which the kernel tests its timer, and the kernel gives up.
        kernel_cmdline: "console=ttyS0 intel_iommu=on mitigations=off pti=off i8042.noaux i8042.nokbd \
                      tsc=reliable no_timer_check",
    };

    /// The emulator's generic Arm computer.
    pub const AARCH64: Architecture = Architecture {
        isa: Isa::Aarch64,
        program: "qemu-system-aarch64",
        package: "qemu-system-arm",
        // Boots fastest among those that run Debian's kernel. `max` takes four times as long, because it
        // emulates pointer authentication.
        cpu: "cortex-a72",
        remedy: "make kit",
        has_root: false,
        // Interrupts through GICv2m wake a sleeping guest fastest; vfio needs an IOMMU.
        machine: "virt,gic-version=2,iommu=smmuv3",
        machine_with_kvm: "virt,accel=kvm,gic-version=host,iommu=smmuv3",
        devices: &[],
        // `cma=0`: reserves no memory for absent devices. `kpti=off`: keeps the kernel's pages, inaccessible,
        // in the page tables of programs. The kernel unmaps them on processors that read speculatively past
        // permissions; an emulated one does not, and switching tables makes it drop all translations: a
        // system call takes 10 µs with that, and 1 µs without.
        kernel_cmdline: "console=ttyAMA0 cma=0 kpti=off",
    };

    /// The emulator's RISC-V computer. It has no IOMMU, so that the node polls its window for interrupts.
    pub const RISCV64: Architecture = Architecture {
        isa: Isa::Riscv64,
        program: "qemu-system-riscv64",
        package: "qemu-system-misc",
        cpu: "rv64",
        remedy: "cargo xtask kit --vm riscv64",
        has_root: false,
        machine: "virt",
        machine_with_kvm: "virt,accel=kvm",
        devices: &[],
        kernel_cmdline: "console=ttyS0",
    };

    /// Returns the architecture of an instruction set; `None` if it has no virtual machines.
    #[must_use]
    pub fn of(isa: Isa) -> Option<&'static Architecture> {
        ARCHITECTURES.iter().find(|architecture| architecture.isa == isa)
    }
}
