//! Other compilers than the one of this build.
//!
//! Debian 13 has clang 19, Debian 12 clang 14: what one unrolls, the other refuses to.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn clang_19_compiles_every_program() {
    netloom_kit::needs!("clang-19");
    netloom_kit::root_only!("the sources may be readable by their owner alone");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf"));
    assert!(sources.len() >= 8, "programs: {sources:?}");
    for source in sources {
        let object = folder.path().join("program.o");
        let output = Command::new("clang-19")
            .args(env!("BPF_FLAGS").split('\u{1f}'))
            .arg("-c")
            .args([&source, Path::new("-o"), &object])
            .output()
            .expect("clang-19 starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", source.display());
    }
}

/// Every program's source, below the folders of the parts.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let below = |dir: &Path| std::fs::read_dir(dir).expect("readable").flatten().map(|e| e.path());
    let files =
        below(dir).filter(|part| part.is_dir()).flat_map(|part| below(&part).collect::<Vec<_>>());
    files.filter(|file| file.to_string_lossy().ends_with(".bpf.c")).collect()
}
