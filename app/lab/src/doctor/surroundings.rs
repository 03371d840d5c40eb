//! What is around labs: cgroups of ordinary users, guarded programs, VDE programs, guests.

use std::path::{Path, PathBuf};

use netloom_sys::feature::Feature;
use netloom_sys::{Unsupported, cgroup};

/// The plug-in's file.
const PLUGIN: &str = "libvdeplug_netloom.so";
/// The library that looks for it.
const LIBRARY: &str = "libvdeplug.so.2";
/// Folders in which libraries are, besides those named after the architecture.
const LIBRARIES: [&str; 5] = ["/usr/local/lib", "/usr/lib", "/usr/lib64", "/lib", "/lib64"];

/// The surroundings of labs.
pub(super) fn features(root: bool) -> Vec<Feature> {
    vec![
        Feature {
            name: "cgroup delegation",
            purpose: "limits and accounting of an ordinary user's labs",
            instead: "labs without limits, whose `status` shows no use; or limits as root",
            state: delegation(root),
        },
        Feature {
            name: "tables of neighbours",
            purpose: "switches with many nodes that all talk to each other",
            instead: "some 30 nodes on one switch",
            state: neighbours(root),
        },
        Feature {
            name: "guard",
            purpose: "guard: deciding about a program's network calls",
            instead: "a node of a lab without doors, whose programs reach nothing outside",
            state: guard(),
        },
        Feature {
            name: "plug-in of libvdeplug",
            purpose: "VDE programs and QEMU on switches of kind `shm`",
            instead: "nodes on such switches need no plug-in; other programs join through a tap in a node",
            state: plugin(&plugin_folders()),
        },
        Feature {
            name: "KVM",
            purpose: "guests of QEMU on switches, at the processor's speed",
            instead: "QEMU without KVM (TCG), or User-mode Linux",
            state: kvm(Path::new("/dev/kvm"), Path::new("/proc/cpuinfo")),
        },
        Feature {
            name: "User-mode Linux",
            purpose: "guests without virtualization: `kind: vm, accel: uml`",
            instead: "guests of QEMU, which need a kernel of their own",
            state: netloom_vm::boots().map(|program| format!("{program} boots a guest")),
        },
    ]
}

fn delegation(root: bool) -> Result<String, Unsupported> {
    if root {
        return Ok("as root: none is needed".to_owned());
    }
    match cgroup::hierarchies_of_user().unwrap_or_default().first() {
        Some(found) => Ok(format!("{}: {}", found.base.display(), found.controllers.join(", "))),
        None => Err(Unsupported {
            feature: "cgroup delegation",
            reason: "the cgroup of this process belongs to somebody else, or has no controllers"
                .into(),
            needs: "start it with: systemd-run --user --scope -p Delegate=yes netloom …".into(),
        }),
    }
}

/// How many neighbours all namespaces may learn together.
fn neighbours(root: bool) -> Result<String, Unsupported> {
    let told = crate::keep::neighbours::told().ok_or_else(|| Unsupported {
        feature: "tables of neighbours",
        reason: "their limits (net.ipv4.neigh.default.gc_thresh3) cannot be read in this network namespace".into(),
        needs: "see and raise them where the machine's own network is".into(),
    })?;
    let more = if root { "; root's labs raise them as they need" } else { "" };
    Ok(told + more)
}

/// Whether calls can be decided about, and what is not as good as it could be.
fn guard() -> Result<String, Unsupported> {
    netloom_sys::seccomp::probe::supported().map(|found| found.lacks().join("; "))
}

/// Folders in which libvdeplug looks for plug-ins, in order.
fn plugin_folders() -> Vec<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(only) = set("VDEPLUGIN_PATH") {
        return std::env::split_paths(&only).collect();
    }
    let mut libraries: Vec<PathBuf> = vec![];
    // The order of the dynamic loader: its variable comes before the system's folders.
    libraries.extend(set("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
    let architecture = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    let system = [architecture.as_str()].into_iter().chain(LIBRARIES).map(PathBuf::from);
    // Beside the library itself, and in its own folder.
    let beside = system.filter(|folder| folder.join(LIBRARY).exists());
    let beside: Vec<PathBuf> = beside.collect();
    let below = libraries.iter().chain(&beside).map(|folder| folder.join("vdeplug"));
    let mut all: Vec<PathBuf> = below.collect();
    all.extend(beside);
    all.extend(["/lib/vdeplug", "/usr/lib/vdeplug"].map(PathBuf::from));
    all
}

/// Where the plug-in is.
fn plugin(folders: &[PathBuf]) -> Result<String, Unsupported> {
    let found = folders.iter().map(|folder| folder.join(PLUGIN)).find(|path| path.exists());
    found.map(|path| path.display().to_string()).ok_or_else(|| {
        let mut all: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        let mut seen = std::collections::BTreeSet::new();
        // Only neighbours are removed by `dedup`: a folder may come back later in the list.
        all.retain(|folder| seen.insert(folder.clone()));
        Unsupported {
            feature: "plug-in of libvdeplug",
            reason: format!("no {PLUGIN} in {}", all.join(", ")),
            needs: "install it with: sudo make install PREFIX=/usr, or set VDEPLUGIN_PATH to its folder"
                .to_owned(),
        }
    })
}

/// Whether guests run at the processor's speed. That the device opens is not enough: without the processor's help a
/// guest's kernel is interpreted, instruction by instruction.
fn kvm(device: &Path, cpuinfo: &Path) -> Result<String, Unsupported> {
    let missing = |reason: String, needs: &str| Unsupported {
        feature: "KVM",
        reason,
        needs: needs.to_owned(),
    };
    let text = std::fs::read_to_string(cpuinfo).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'));
    // Other architectures do not show it by flags.
    let flag = flags.map(|(_, flags)| {
        ["vmx", "svm"].into_iter().find(|f| flags.split_whitespace().any(|g| g == *f))
    });
    if device.exists() && flag == Some(None) {
        return Err(missing(
            format!(
                "{} is there, but the processor shows neither vmx nor svm: a guest's kernel would be \
                 interpreted",
                device.display()
            ),
            "a machine, or a virtual machine with nested virtualisation, whose processor shows vmx or svm",
        ));
    }
    std::fs::File::options().read(true).write(true).open(device).map_err(|e| {
        let needs = match e.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "join its group with: sudo usermod -aG kvm $USER"
            }
            _ => "load it with: sudo modprobe -a kvm_intel kvm_amd, on a machine that has it",
        };
        missing(format!("{}: {e}", device.display()), needs)
    })?;
    Ok(flag.flatten().map_or(String::new(), |flag| format!("by {flag}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_the_processors_help_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let (device, cpuinfo) = (folder.path().join("kvm"), folder.path().join("cpuinfo"));
        let with = |flags: &str| {
            std::fs::write(&cpuinfo, format!("processor\t: 0\nflags\t\t: fpu {flags} sse\n"))
                .unwrap();
            kvm(&device, &cpuinfo)
        };
        assert!(with("vmx").is_err(), "there is no device");
        std::fs::write(&device, "").unwrap();
        assert_eq!(with("vmx"), Ok("by vmx".to_owned()));
        assert_eq!(with("svm"), Ok("by svm".to_owned()));
        let missing = with("vmx_but_not_it").unwrap_err();
        assert!(missing.reason.contains("neither vmx nor svm"), "{missing:?}");
        std::fs::write(&cpuinfo, "Features\t: fp asimd\n").unwrap();
        assert!(kvm(&device, &cpuinfo).is_ok(), "another architecture");
    }

    #[test]
    fn the_plug_in_is_found_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "a"].map(|name| folder.path().join(name));
        let missing = plugin(&folders).unwrap_err();
        assert_eq!(missing.reason.matches(&*folders[0].display().to_string()).count(), 1);
        std::fs::create_dir(&folders[1]).unwrap();
        std::fs::write(folders[1].join(PLUGIN), "").unwrap();
        assert!(plugin(&folders).unwrap().ends_with("b/libvdeplug_netloom.so"));
    }
}
