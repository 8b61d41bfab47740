//! What virtual machines of one instruction set need that those of another do not.

use tombolo_base::Isa;

/// The emulated computer that nodes of an instruction set are, and what runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Architecture {
    /// The instruction set.
    pub isa: Isa,
    /// The emulator's program.
    pub program: &'static str,
    /// The package of Debian that has it.
    pub package: &'static str,
    /// The processor model, unless the machine file names one.
    pub cpu: &'static str,
    /// What adds the kernel and the rest of a node to the kit.
    pub remedy: &'static str,
    /// Whether programs for it find their libraries in the kit's folder `root`. Where all programs are
    /// static there is none.
    pub has_root: bool,
    /// The emulator's machine.
    pub(super) machine: &'static str,
    /// The same where KVM runs it, with the host's processor model.
    pub(super) machine_with_kvm: &'static str,
    /// Devices that come before the windows.
    pub(super) devices: &'static [&'static str],
    /// The kernel's parameters: its serial line, and what is of this instruction set alone.
    pub(super) kernel_line: &'static str,
}

/// Every instruction set that there are virtual machines of.
pub static ARCHITECTURES: [Architecture; 3] =
    [Architecture::X86_64, Architecture::AARCH64, Architecture::RISCV64];

impl Architecture {
    /// A computer like a PC.
    pub const X86_64: Architecture = Architecture {
        isa: Isa::X86_64,
        program: "qemu-system-x86_64",
        package: "qemu-system-x86",
        // It has no `rep movsb` that is announced as fast: emulated it moves 45 MB/s, and loops 2 GB/s.
        cpu: "qemu64",
        remedy: "cargo xtask kit --vm x86_64",
        // What images hold for this host is linked to its libraries.
        has_root: true,
        machine: "q35",
        // Interrupts are remapped by the emulator's part of the controllers.
        machine_with_kvm: "q35,accel=kvm,kernel-irqchip=split",
        // vfio needs an IOMMU. Interrupts that are remapped count as isolated.
        devices: &["-device intel-iommu,intremap=on"],
        // `pti=off` as `kpti=off` of Arm. `i8042` and `tsc`: the kernel would wait for a keyboard that is
        // not there, and measure a clock that counts what its host's does. `no_timer_check`: on a busy host
        // the emulator may be late with the few ticks by which the kernel tests its timer, and the kernel
        // gives up.
        kernel_line: "console=ttyS0 intel_iommu=on mitigations=off pti=off i8042.noaux i8042.nokbd \
                      tsc=reliable no_timer_check",
    };

    /// The emulator's Arm computer, which no maker sells.
    pub const AARCH64: Architecture = Architecture {
        isa: Isa::Aarch64,
        program: "qemu-system-aarch64",
        package: "qemu-system-arm",
        // Of those that run Debian's kernel it boots fastest. `max` takes four times as long, because it
        // emulates pointer authentication.
        cpu: "cortex-a72",
        remedy: "make kit",
        has_root: false,
        // Interrupts through GICv2m wake a sleeping guest fastest; vfio needs an IOMMU.
        machine: "virt,gic-version=2,iommu=smmuv3",
        machine_with_kvm: "virt,accel=kvm,gic-version=host,iommu=smmuv3",
        devices: &[],
        // `cma=0`: no memory set aside for devices that are not there. `kpti=off`: programs keep the kernel's
        // pages, unreadable, in their page tables. The kernel takes them out against processors that read
        // ahead of permissions; an emulated one reads nothing ahead, and changing tables makes it forget all
        // translations: a system call takes 10 µs with that, and 1 µs without.
        kernel_line: "console=ttyAMA0 cma=0 kpti=off",
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
        kernel_line: "console=ttyS0",
    };

    /// That of an instruction set; `None` where there are no virtual machines of it.
    #[must_use]
    pub fn of(isa: Isa) -> Option<&'static Architecture> {
        ARCHITECTURES.iter().find(|architecture| architecture.isa == isa)
    }
}
