//! Compiles the library that is preloaded into User-mode Linux (`preload/xstate.c`) to `OUT_DIR/xstate.so`, with the compiler that
//! `host/ebpf` needs, too. Other processors than x86-64 have no such kernels: there it is empty.

use std::path::PathBuf;
use std::process::{Command, exit};
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=preload");
    println!("cargo::rerun-if-env-changed=CLANG");
    let library = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("xstate.so");
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
        let mut command = Command::new(&clang);
        // Without libraries: what it calls is in the program's own.
        command.args(["-target", "x86_64-linux-gnu", "-shared", "-fPIC", "-nostdlib"]);
        command.args(["-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror"]);
        command.arg("preload/xstate.c").arg("-o").arg(&library);
        if !command.status().is_ok_and(|status| status.success()) {
            stop(&format!("{clang} did not compile preload/xstate.c; apt-get install clang"));
        }
    } else if let Err(error) = fs::write(&library, b"") {
        stop(&format!("{}: {error}", library.display()));
    }
}

fn stop(why: &str) -> ! {
    println!("cargo::warning={why}");
    exit(1)
}
