//! Which program runs a machine here, and with which accelerator.
//!
//! KVM is taken only where the processor has virtualization of its own: where /dev/kvm opens without it, guests'
//! kernels are interpreted at a hundredth of the speed, or die.

use std::path::{Path, PathBuf};

use netloom_model::kinds::vm::{Accel, Machine};
use netloom_sys::Unsupported;

use crate::Result;

/// The accelerator of a QEMU machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    Kvm,
    Tcg,
}

const QEMU: &str = "qemu-system-x86_64";
const UML: &str = "linux.uml";

/// Where programs are looked for: the path of a node's programs.
const FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The program that runs a machine: User-mode Linux, which is its own, or QEMU.
pub fn found_program(machine: &Machine) -> Option<PathBuf> {
    let name = match (machine.accel, &machine.kernel) {
        // The kernel is the program: a user-mode kernel of the user's own.
        (Accel::Uml, Some(kernel)) => return kernel.is_file().then(|| kernel.clone()),
        (Accel::Uml, None) => UML,
        _ => QEMU,
    };
    FOLDERS.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file())
}

/// Why a machine cannot run on this computer; `None` if it can.
pub fn lacking(machine: &Machine) -> Option<Unsupported> {
    if found_program(machine).is_none() {
        let (program, package) = match machine.accel {
            Accel::Uml => (UML, "user-mode-linux"),
            _ => (QEMU, "qemu-system-x86"),
        };
        let program = match &machine.kernel {
            Some(kernel) if machine.accel == Accel::Uml => kernel.display().to_string(),
            _ => program.to_owned(),
        };
        return Some(Unsupported {
            feature: "virtual machines",
            reason: format!("{program} is not there"),
            needs: format!("install it: apt-get install {package}"),
        });
    }
    if machine.accel == Accel::Kvm {
        return refusal_of_kvm().map(|reason| Unsupported {
            feature: "KVM",
            reason,
            needs: "write accel: auto or accel: tcg".to_owned(),
        });
    }
    None
}

/// The accelerator for QEMU, and why it is not KVM.
pub(crate) fn choose(machine: &Machine) -> Result<(Accelerator, Option<String>)> {
    match (machine.accel, refusal_of_kvm()) {
        (Accel::Tcg | Accel::Uml, _) => Ok((Accelerator::Tcg, None)),
        (Accel::Auto | Accel::Kvm, None) => Ok((Accelerator::Kvm, None)),
        (Accel::Auto, Some(reason)) => Ok((Accelerator::Tcg, Some(reason))),
        (Accel::Kvm, Some(reason)) => {
            let needs = "write accel: auto or accel: tcg".to_owned();
            Err(Unsupported { feature: "KVM", reason, needs }.into())
        }
    }
}

/// Why KVM is not taken; `None` if it is.
fn refusal_of_kvm() -> Option<String> {
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // First: where /dev/kvm opens without it, guests would be interpreted.
    if !virtualizes(&processors) {
        return Some("the processor has neither vmx nor svm".to_owned());
    }
    let opened = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    opened.err().map(|e| format!("/dev/kvm: {e}"))
}

/// Whether the processors of this /proc/cpuinfo have virtualization of their own.
fn virtualizes(processors: &str) -> bool {
    let flags = processors.lines().filter(|line| line.starts_with("flags"));
    flags.flat_map(str::split_ascii_whitespace).any(|flag| flag == "vmx" || flag == "svm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_of_the_processor_count() {
        assert!(virtualizes("model name : svm\nflags\t\t: fpu vmx lm\n"));
        assert!(virtualizes("flags : svm"));
        assert!(!virtualizes("model name : vmx\nflags : fpu lm\nvmx flags : vnmi"));
        assert!(!virtualizes(""));
    }

    #[test]
    fn a_missing_kernel_of_user_mode_linux_is_named() {
        let kernel = Some(PathBuf::from("/nowhere/linux"));
        let machine = Machine { accel: Accel::Uml, kernel, ..Machine::default() };
        let words = lacking(&machine).unwrap().to_string();
        assert!(words.contains("/nowhere/linux is not there"), "{words}");
        assert!(words.contains("user-mode-linux"), "{words}");
    }
}
