//! Compiles every `bpf/PART/NAME.bpf.c` to `OUT_DIR/NAME.bpf.o` with clang.
//!
//! Headers are ours (`bpf/include`), those of the libbpf that is built in, and the kernel's user-space
//! headers. Objects carry BTF (`-g`), which maps and global functions need.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs};

/// What to install when a tool or a header is missing.
const NEEDS: &str =
    "install it with: apt-get install clang linux-libc-dev, or: dnf install clang kernel-headers";

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let mut includes = vec![here.join("bpf/include")];
    includes.extend(env::var_os("DEP_BPF_INCLUDE").map(PathBuf::from));
    includes.extend(multiarch());
    println!("cargo:rustc-env=BPF_FLAGS={}", flags(&includes).join("\u{1f}"));
    for part in folders(&here.join("bpf")) {
        for source in folders(&part).into_iter().filter(|f| f.to_string_lossy().ends_with(".bpf.c"))
        {
            let object = source.with_extension("o");
            let name = object.file_name().map(|n| out.join(n)).unwrap_or_default();
            compile(&source, &name, &flags(&includes));
        }
    }
}

/// The entries of a folder, in the order of names.
fn folders(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Where Debian keeps `asm/`: clang does not look there when the target is `bpf`.
fn multiarch() -> Option<PathBuf> {
    let arch = env::var("CARGO_CFG_TARGET_ARCH").ok()?;
    let dir = PathBuf::from(format!("/usr/include/{arch}-linux-gnu"));
    dir.join("asm").is_dir().then_some(dir)
}

/// What clang is told for every program; the test of other compilers uses the same.
fn flags(includes: &[PathBuf]) -> Vec<String> {
    let mut flags = Vec::from(
        ["-target", "bpf", "-O2", "-g", "-mcpu=v3", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]
            .map(str::to_owned),
    );
    flags.push("-Wno-unused-parameter".to_owned());
    flags.push(format!("-ffile-prefix-map={}=.", env!("CARGO_MANIFEST_DIR")));
    // Debug information names headers, too; where they are is not to be seen in the binary.
    if let Some(dir) = env::var_os("DEP_BPF_INCLUDE") {
        flags.push(format!("-ffile-prefix-map={}=libbpf", PathBuf::from(dir).display()));
    }
    flags.extend(includes.iter().map(|dir| format!("-I{}", dir.display())));
    flags
}

fn compile(source: &Path, object: &Path, flags: &[String]) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let mut command = Command::new(&clang);
    let status = command.args(flags).arg("-c").arg(source).arg("-o").arg(object).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            stop(&format!("{clang} {source:?}: {status}; if a header is missing, {NEEDS}"))
        }
        Err(error) => {
            stop(&format!("BPF programs need {clang}, which did not start: {error}; {NEEDS}"))
        }
    }
}

fn stop(why: &str) -> ! {
    println!("cargo:warning={why}");
    eprintln!("{why}");
    exit(1)
}
